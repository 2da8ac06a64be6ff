//! The status of a completion (ibv_wc_status) by the words of libibverbs, or by the number of the adapter: the rows are in
//! `failures.toml`.

use crate::nccl_log::text::{after, hexadecimal, number_after};

/// What libibverbs prints (ibv_wc_status_str).
const WORDS: &[(&str, u64)] = include!(concat!(env!("OUT_DIR"), "/failures.status_words.rs"));

/// Names of `enum ibv_wc_status`.
const NAMES: &[(&str, u64)] = include!(concat!(env!("OUT_DIR"), "/failures.status_names.rs"));

/// Syndromes of an mlx5 adapter (`mlx5_err_cqe.syndrome`), and the status that libmlx5 makes of each.
const SYNDROMES: &[(u64, u64)] = include!(concat!(env!("OUT_DIR"), "/failures.syndromes.rs"));

/// The status, and the adapter's own code.
pub(super) fn parse(message: &str) -> (Option<u64>, Option<u64>) {
    let named = |all: &[(&str, u64)]| {
        let found = all.iter().find(|(words, _)| message.contains(words));
        found.map(|(_, status)| *status)
    };
    let hex = |mark: &str| hexadecimal(after(message.as_bytes(), mark)?).map(|(n, _)| n);
    // UCX writes both; of what libmlx5 dumps they are the last bytes of the second word.
    let dumped = message
        .split_once("completion with error:")
        .and_then(|(_, words)| words.split_whitespace().rev().nth(2))
        .and_then(|word| u64::from_str_radix(word, 16).ok());
    let syndrome = hex("(synd 0x").or(dumped.map(|word| word & 0xff));
    let vendor = hex(" vend 0x").or(dumped.map(|word| word >> 8 & 0xff));
    let by_adapter = |syndrome: u64| {
        let found = SYNDROMES.iter().find(|(of, _)| *of == syndrome);
        found.map(|(_, status)| *status)
    };
    let status = number_after(message.as_bytes(), "status number ")
        .or_else(|| number_after(message.as_bytes(), "completion failed status "))
        .or_else(|| named(WORDS))
        .or_else(|| named(NAMES))
        .or_else(|| syndrome.and_then(by_adapter));
    (status, vendor)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_same_status_in_several_words() {
        for (text, status, vendor) in [
            (
                "Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
                12,
                Some(0x81),
            ),
            (
                "mlx5: n1: got completion with error: 00000000 00008115 1000014c 0000e8d3",
                12,
                Some(0x81),
            ),
            (
                "status: (12): transport retry counter exceeded rqpair 0x2c",
                12,
                None,
            ),
            ("wc status: RNR retry counter exceeded (13)", 13, None),
            ("status=IBV_WC_REM_ACCESS_ERR", 10, None),
            (
                "with status RETRY EXCEEDED ERROR status number 12 for wr_id 2a10",
                12,
                None,
            ),
        ] {
            assert_eq!(parse(text), (Some(status), vendor), "{text}");
        }
        assert_eq!(parse("mlx5: n1: got completion with error:"), (None, None));
    }
}
