//! Patterns of check ids: `*` stands for any letters, `?` for one.

/// Whether a text is more than a plain id.
#[cfg(test)]
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether an id fits a pattern. Takes time in proportion to the product of both lengths at most.
pub(crate) fn fits(pattern: &str, id: &str) -> bool {
    let (pattern, id) = (pattern.as_bytes(), id.as_bytes());
    let (mut p, mut i) = (0, 0);
    // Where to go on when a letter does not fit: behind the last `*`, which then takes one letter more.
    let mut retry: Option<(usize, usize)> = None;
    while i < id.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, i));
                p += 1;
            }
            Some(&c) if c == b'?' || c == id[i] => {
                p += 1;
                i += 1;
            }
            _ => match retry {
                Some((after, taken)) => {
                    retry = Some((after, taken + 1));
                    p = after;
                    i = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_as_globs_do() {
        for (pattern, id, expected) in [
            ("link/rate", "link/rate", true),
            ("link/*", "link/rate", true),
            ("link/*", "links/rate", false),
            ("*", "link/rate", true),
            ("*/rate-?", "link/rate-1", true),
            ("*/rate-?", "link/rate-12", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("**", "", true),
            ("", "x", false),
            ("l", "link", false),
        ] {
            assert_eq!(fits(pattern, id), expected, "{pattern} {id}");
        }
    }
}
