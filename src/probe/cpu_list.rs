//! Lists of CPUs or NUMA nodes, as the kernel writes them: `0-15,32-47`.

/// More CPUs than any kernel can be built for.
const MOST: u32 = 65536;

/// The numbers of a list, in its order; of an empty text none.
pub(super) fn parse(text: &str) -> Result<Vec<u32>, String> {
    let bad = || {
        let start: String = text.chars().take(40).collect();
        format!("{start:?} is not a list of numbers")
    };
    let mut found = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last >= MOST {
            return Err(bad());
        }
        found.extend(first..=last);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse("0-2,8\n"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse(""), Ok(vec![]));
        for bad in ["3-1", "x", "1-", "0-99999999", "1,,x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
