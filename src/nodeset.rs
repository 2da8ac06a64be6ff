//! Lists of host names as Slurm and ClusterShell write them: `node[01-16,20],login`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// How many names a list may stand for: more is a mistake, and not the largest machine there is.
pub const MOST: usize = 100_000;

/// Letters that a list of nodes may have in a sentence.
const LONGEST: usize = 48;
/// Names that are folded to a list; of more the first ones stand for all.
const FOLDED: usize = 2000;

/// Why a list of names is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesetError {
    /// A bracket is not closed, or closed without being opened.
    #[error("{0:?}: unmatched bracket")]
    Bracket(String),
    /// The text between brackets is neither a number nor a range.
    #[error("{0:?} is neither a number nor a range of numbers")]
    Range(String),
    /// A range ends before it begins.
    #[error("{0:?} ends before it begins")]
    Backwards(String),
    /// A name is empty, or has a character that no host name has.
    #[error("{0:?} is not a host name")]
    Name(String),
    /// The list stands for more than [`MOST`] names, or than were expected.
    #[error("more than {MOST} names")]
    TooMany,
}

/// The names that a list stands for, in its order, each once.
///
/// Source: Slurm's "Hostlist expressions" (`scontrol show hostnames`), ClusterShell's nodeset syntax. Several brackets in a name multiply; a number
/// keeps the zeros in front of it.
///
/// # Errors
///
/// The list is not understood, or stands for too many names.
pub fn expand(list: &str) -> Result<Vec<String>, NodesetError> {
    expand_at_most(list, MOST)
}

/// The same of a list that is expected to be short.
///
/// # Errors
///
/// The list is not understood, or stands for more than `most` names.
pub fn expand_at_most(list: &str, most: usize) -> Result<Vec<String>, NodesetError> {
    let mut names = Vec::new();
    for part in split(list)? {
        let mut open = vec![String::new()];
        let mut rest = part;
        while let Some(at) = rest.find('[') {
            let (plain, after) = rest.split_at(at);
            let Some(end) = after.find(']') else {
                return Err(NodesetError::Bracket(part.into()));
            };
            let numbers = numbers(&after[1..end], most)?;
            if open.len().saturating_mul(numbers.len()) > most {
                return Err(NodesetError::TooMany);
            }
            open = open
                .iter()
                .flat_map(|begun| numbers.iter().map(move |n| format!("{begun}{plain}{n}")))
                .collect();
            rest = &after[end + 1..];
        }
        for mut name in open {
            name.push_str(rest);
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
            if name.is_empty() || !name.chars().all(fits) {
                return Err(NodesetError::Name(name));
            }
            names.push(name);
        }
        if names.len() > most {
            return Err(NodesetError::TooMany);
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// The parts between commas and white space that stand outside of brackets.
fn split(list: &str) -> Result<Vec<&str>, NodesetError> {
    let mut parts = Vec::new();
    let (mut from, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return Err(NodesetError::Bracket(list.into())),
            _ if !inside && (c == ',' || c.is_whitespace()) => {
                parts.push(&list[from..at]);
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if inside {
        return Err(NodesetError::Bracket(list.into()));
    }
    parts.push(&list[from..]);
    parts.retain(|part| !part.is_empty());
    Ok(parts)
}

/// The numbers of `01-03,7`, as text; `0-8/2` counts in steps.
fn numbers(ranges: &str, most: usize) -> Result<Vec<String>, NodesetError> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let bad = || NodesetError::Range(range.to_owned());
        let number = |text: &str| -> Result<u64, NodesetError> {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or_else(bad)
        };
        let (range_only, step) = match range.split_once('/') {
            Some((range, step)) => (range, number(step)?.max(1)),
            None => (range, 1),
        };
        let (first, last) = range_only
            .split_once('-')
            .unwrap_or((range_only, range_only));
        let (from, to) = (number(first)?, number(last)?);
        if to < from {
            return Err(NodesetError::Backwards(range.into()));
        }
        if (to - from) / step >= most as u64 {
            return Err(NodesetError::TooMany);
        }
        let width = first.len();
        // The last one may be the largest number that there is.
        let mut next = Some(from);
        while let Some(at) = next.filter(|at| *at <= to) {
            all.push(format!("{at:0width$}"));
            next = at.checked_add(step);
        }
        if all.len() > most {
            return Err(NodesetError::TooMany);
        }
    }
    Ok(all)
}

/// The shortest list that stands for these names: those that differ in their last number only are put together.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    // By what is before and after the last number, and by how wide the number is where it is padded.
    let mut groups: BTreeMap<(&str, &str, usize), Vec<u64>> = BTreeMap::new();
    let mut order: Vec<(&str, &str, usize)> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    for name in names {
        let name = name.as_ref();
        let end = name.rfind(|c: char| c.is_ascii_digit()).map(|at| at + 1);
        let found = end.and_then(|end| {
            let from = name[..end]
                .rfind(|c: char| !c.is_ascii_digit())
                .map_or(0, |at| {
                    at + name[at..].chars().next().map_or(1, char::len_utf8)
                });
            let digits = &name[from..end];
            let width = if digits.len() > 1 && digits.starts_with('0') {
                digits.len()
            } else {
                0
            };
            Some((
                (&name[..from], &name[end..], width),
                digits.len(),
                digits.parse().ok()?,
            ))
        });
        match found {
            Some((mut key, digits, number)) => {
                // 08, 09, 10: the third has no zero in front and is of the same width.
                let padded = (key.0, key.1, digits);
                if key.2 == 0 && groups.contains_key(&padded) {
                    key = padded;
                }
                if !groups.contains_key(&key) {
                    order.push(key);
                }
                groups.entry(key).or_default().push(number);
            }
            None if plain.contains(&name) => {}
            None => plain.push(name),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for key in order {
        let (before, after, width) = key;
        let Some(numbers) = groups.get_mut(&key) else {
            continue;
        };
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges = String::new();
        let mut at = 0;
        while let Some(&first) = numbers.get(at) {
            let mut last = first;
            while let Some(next) = last.checked_add(1)
                && numbers.get(at + 1) == Some(&next)
            {
                at += 1;
                last = next;
            }
            at += 1;
            let comma = if ranges.is_empty() { "" } else { "," };
            // Writing to a String does not fail.
            let _ = match last - first {
                0 => write!(ranges, "{comma}{first:0width$}"),
                _ => write!(ranges, "{comma}{first:0width$}-{last:0width$}"),
            };
        }
        parts.push(match numbers.len() {
            1 => format!("{before}{ranges}{after}"),
            _ => format!("{before}[{ranges}]{after}"),
        });
    }
    parts.extend(plain.into_iter().map(str::to_owned));
    parts.join(",")
}

/// Names as a list that a sentence can hold.
pub fn list(names: &[&str]) -> String {
    let folded = if names.len() <= FOLDED {
        fold(names)
    } else {
        String::new()
    };
    match folded.is_empty() || folded.len() > LONGEST {
        false => folded,
        true if names.len() <= 5 => names.join(", "),
        true => format!("{} and {} more", names[..4].join(", "), names.len() - 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_slurm_and_clustershell_write_them() {
        for (list, names) in [
            ("n1", &["n1"][..]),
            ("n[1-3]", &["n1", "n2", "n3"]),
            ("n[08-10],login", &["n08", "n09", "n10", "login"]),
            ("r[1-2]n[1,3]", &["r1n1", "r1n3", "r2n1", "r2n3"]),
            ("gpu-[001].dc.example", &["gpu-001.dc.example"]),
            ("n[0-6/3]", &["n0", "n3", "n6"]),
            ("a b,c", &["a", "b", "c"]),
            ("n1,n1,n[1-2]", &["n1", "n2"]),
            ("", &[]),
            ("fe80::1%eth0", &["fe80::1%eth0"]),
            // Nothing comes after the largest number.
            ("n[18446744073709551615]", &["n18446744073709551615"]),
            (
                "n[18446744073709551613-18446744073709551615/2]",
                &["n18446744073709551613", "n18446744073709551615"],
            ),
        ] {
            assert_eq!(expand(list).unwrap(), names, "{list}");
            let again = expand(&fold(names)).unwrap();
            assert_eq!(again.len(), names.len(), "{list}");
        }
    }

    #[test]
    fn what_is_no_list_says_why() {
        for (list, error) in [
            ("n[1-3", NodesetError::Bracket("n[1-3".into())),
            ("n1]", NodesetError::Bracket("n1]".into())),
            ("n[a]", NodesetError::Range("a".into())),
            ("n[]", NodesetError::Range(String::new())),
            ("n[-1]", NodesetError::Range("-1".into())),
            ("n[3-1]", NodesetError::Backwards("3-1".into())),
            ("n;reboot", NodesetError::Name("n;reboot".into())),
            ("n[0-9999999]", NodesetError::TooMany),
            ("n[0-999]m[0-999]", NodesetError::TooMany),
            (
                "n[99999999999999999999]",
                NodesetError::Range("99999999999999999999".into()),
            ),
        ] {
            assert_eq!(expand(list).unwrap_err(), error, "{list}");
        }
    }

    #[test]
    fn names_fold_to_what_expands_to_them() {
        for (names, list) in [
            (&["n1", "n2", "n3", "n7"][..], "n[1-3,7]"),
            (&["n08", "n09", "n10"], "n[08-10]"),
            (&["login", "n1"], "n1,login"),
            (&["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
            (&["gpu-001.x", "gpu-002.x"], "gpu-[001-002].x"),
            (&[], ""),
        ] {
            assert_eq!(fold(names), list);
            let mut back = expand(list).unwrap();
            let mut names: Vec<&str> = names.to_vec();
            back.sort();
            names.sort_unstable();
            assert_eq!(back, names, "{list}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_without_panic(text in "[\\[\\],a-c0-9/ -]{0,24}") {
            if let Ok(mut names) = expand(&text) {
                let mut back = expand(&fold(&names)).unwrap();
                names.sort();
                back.sort();
                proptest::prop_assert_eq!(names, back);
            }
        }
    }

    #[test]
    fn lists_of_names_are_short() {
        let many: Vec<String> = (0..5000).map(|n| format!("n{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(list(&many), "n0, n1, n2, n3 and 4996 more");
        assert_eq!(list(&many[..17]), "n[0-16]");
        assert_eq!(list(&["a", "b"]), "a,b");
    }
}
