//! Numbers and lists of names in sentences.

/// `3 ports`, `1 port`.
pub fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The first few names, and how many more.
pub fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    if names.len() <= SHOWN + 1 {
        return names.join(", ");
    }
    format!(
        "{} and {} more",
        names[..SHOWN].join(", "),
        names.len() - SHOWN
    )
}
