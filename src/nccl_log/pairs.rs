//! Which pairs of bytes a message holds: what lacks one of a needle's pairs does not hold the needle.
//!
//! The tables of events have hundreds of rows, and a message of a new shape is held against each. Nearly all rows are out by one pair.

/// The size of the filter in bits; each represents some pairs.
const BITS: usize = 4096;

/// The pairs of a message.
pub(super) struct Pairs([u64; BITS / 64]);

impl Pairs {
    pub(super) fn of(message: &[u8]) -> Self {
        let mut bits = [0; BITS / 64];
        for pair in message.array_windows() {
            let (word, bit) = place(pair);
            bits[word] |= bit;
        }
        Pairs(bits)
    }

    /// Whether the needle can be in the message.
    pub(super) fn may_hold(&self, needle: &str) -> bool {
        let holds = |pair| {
            let (word, bit) = place(pair);
            self.0[word] & bit != 0
        };
        // Words differ at their ends more than at their beginnings.
        needle.as_bytes().array_windows().rev().all(holds)
    }
}

fn place([a, b]: &[u8; 2]) -> (usize, u64) {
    let at = (usize::from(*a) << 5 ^ usize::from(*b)) % BITS;
    (at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    #[test]
    fn what_a_message_holds_is_never_ruled_out() {
        let message = "Call to ibv_modify_qp failed with error Connection timed out";
        let pairs = Pairs::of(message.as_bytes());
        for from in 0..message.len() {
            for to in from..=message.len() {
                assert!(pairs.may_hold(&message[from..to]));
            }
        }
        for other in ["Got completion", "modify_cq", "NET/IB"] {
            assert!(!pairs.may_hold(other), "{other}");
        }
    }
}
