//! Whether a line says that the RDMA MTUs of two ends differ: programs have few words in common for it, and all name both.

use super::text::{contains, run};

/// The RDMA MTUs, in bytes (`enum ibv_mtu`, ibv_query_port(3)).
const MTUS: [&[u8]; 5] = [b"256", b"512", b"1024", b"2048", b"4096"];

/// What guides have beside such numbers.
const ADVICE: [&str; 4] = ["example", "e.g.", "If ", "should "];

/// Whether the line names two RDMA MTUs that differ, and is no advice.
pub(super) fn names_both(line: &[u8]) -> bool {
    let mut first = None;
    let mut rest = line;
    while let Some(at) = rest.iter().position(u8::is_ascii_digit) {
        let (number, after) = run(rest.get(at..).unwrap_or(&[]), |b| b.is_ascii_alphanumeric());
        let is_word = at
            .checked_sub(1)
            .and_then(|at| rest.get(at))
            .is_some_and(u8::is_ascii_alphabetic);
        if !is_word && MTUS.contains(&number) && *first.get_or_insert(number) != number {
            return !ADVICE.iter().any(|word| contains(line, word));
        }
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::names_both;

    #[test]
    fn two_different_mtus_are_named() {
        for line in [
            "path MTU 4096 exceeds active MTU 1024 of mlx5_0",
            "IBV_MTU_1024 differs from IBV_MTU_4096 here",
            "mtu mismatch (256!=512)",
        ] {
            assert!(names_both(line.as_bytes()), "{line}");
        }
        for line in [
            "MTU 4096 and 4096",
            "MTU mismatch of a4096 and 1024x, 1024",
            "If MTU 4096 meets 1024",
            "MTU 9000 and 1500",
            "",
        ] {
            assert!(!names_both(line.as_bytes()), "{line}");
        }
    }
}
