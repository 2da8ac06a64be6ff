//! The counters whose meaning is known: the rows are in `counter_table.toml`.

use crate::fact::counter::CounterClass;

/// A counter's meaning.
pub struct CounterMeaning {
    /// What its rise means.
    pub class: CounterClass,
    /// The bits that it has where it stops at its largest value; `None` if it is no classic one and does not stop.
    pub stops_at: Option<u32>,
}

/// Name, class, bits, and the events that it counts.
pub const COUNTERS: &[(&str, &str, u32, &str)] =
    include!(concat!(env!("OUT_DIR"), "/counter_table.counters.rs"));

/// The meaning of the counter of this name.
pub fn meaning(name: &str) -> Option<CounterMeaning> {
    let (_, class, bits, _) = COUNTERS.iter().find(|(counter, ..)| *counter == name)?;
    Some(CounterMeaning {
        class: CounterClass::from_word(class)?,
        stops_at: (*bits > 0).then_some(*bits),
    })
}

impl CounterMeaning {
    /// Whether the value is the largest that the counter can hold.
    pub fn is_saturated(&self, value: u64) -> bool {
        let limit = |bits: u32| (1u64 << bits) - 1;
        // Drivers with 64-bit forms of a classic counter do not stop at the classic width, but none ends there by chance.
        value == u64::MAX || self.stops_at.is_some_and(|bits| value == limit(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = COUNTERS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for (name, _, bits, counts) in COUNTERS {
            assert!(meaning(name).is_some() && *bits < 64 && !counts.is_empty());
        }
    }

    #[test]
    fn saturation_is_exact() {
        let saturated = |name, value| meaning(name).unwrap().is_saturated(value);
        assert!(saturated("symbol_error", 65535) && !saturated("symbol_error", 65536));
        assert!(saturated("local_link_integrity_errors", 15));
        assert!(saturated("port_xmit_wait", 4_294_967_295));
        assert!(saturated("port_rcv_data", u64::MAX));
        assert!(!saturated("out_of_sequence", 255));
        assert!(meaning("port_rcv_packets").is_none());
    }
}
