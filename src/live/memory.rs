//! The memory that is available on the machine.

/// Bytes that programs can get without swapping: `MemAvailable` of /proc/meminfo (proc_meminfo(5)); `None` if it is missing.
#[expect(
    clippy::disallowed_methods,
    reason = "before gigabytes are taken it is asked whether they are there"
)]
pub fn available() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_in_kibibytes() {
        let text = "MemTotal:       24614700 kB\nMemAvailable:   15994784 kB\n";
        assert_eq!(parse_available(text), Some(15_994_784 << 10));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }
}
