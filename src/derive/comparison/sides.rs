//! The nodes that have each value, in words.

use std::sync::Arc;

use crate::nodeset;
use crate::sentence::Sentence;

/// Letters that a list of names may have in a sentence.
const LONGEST: usize = 60;
/// Names of which a list is folded; of more the first ones stand for all.
const FOLDED: usize = 2000;
/// Sides that a sentence names.
const SHOWN: usize = 4;

/// Names as a list that a sentence can hold: `n[01-06,08]`, or the first ones and how many more.
pub(super) fn names<S: AsRef<str>>(names: &[S]) -> String {
    let folded = if names.len() <= FOLDED {
        nodeset::fold(names)
    } else {
        String::new()
    };
    if (folded.is_empty() && !names.is_empty()) || folded.len() > LONGEST && names.len() > 4 {
        let first: Vec<&str> = names.iter().take(3).map(AsRef::as_ref).collect();
        format!(
            "{} and {} more",
            first.join(", "),
            names.len() - first.len()
        )
    } else {
        folded
    }
}

/// Values of which one is the most frequent, and who has the others: `400 Gb/s`,
/// `400 Gb/s; 200 Gb/s on mlx5_[2-3]`.
///
/// Two machines of which one lacks a port that has the most frequent value are described alike.
pub(super) fn spread(values: &[(String, Arc<str>)]) -> Arc<str> {
    let mut sides: Vec<(&Arc<str>, Vec<&str>)> = Vec::new();
    for (name, value) in values {
        match sides.iter_mut().find(|(v, _)| *v == value) {
            Some((_, names)) => names.push(name),
            None => sides.push((value, vec![name])),
        }
    }
    sides.sort_by(|a, b| (b.1.len(), a.0).cmp(&(a.1.len(), b.0)));
    match sides.as_slice() {
        [] => "none".into(),
        [(one, _)] => Arc::clone(one),
        [(most, _), others @ ..] => {
            let others = others.iter().map(|(value, names)| {
                let devices: Vec<&str> = names
                    .iter()
                    .map(|n| n.strip_suffix("/1").unwrap_or(n))
                    .collect();
                format!("{value} on {}", nodeset::fold(&devices))
            });
            format!("{most}; {}", others.collect::<Vec<_>>().join("; ")).into()
        }
    }
}

/// A value and who has it.
pub(super) struct Side {
    pub(super) value: Arc<str>,
    pub(super) names: Vec<Arc<str>>,
}

/// The sentence about sides that differ, the largest first. With a majority the odd ones come
/// first.
pub(super) fn sentence(
    label: &str,
    total: usize,
    silent: usize,
    sides: &[Side],
    majority: bool,
) -> Sentence {
    let said = match (sides, majority) {
        ([], _) => return format!("{label} of {total} nodes is unknown").into(),
        ([only], _) => format!("{label} {} on {}", only.value, names(&only.names)).into(),
        ([most, odd @ ..], true) => {
            let shown = odd.iter().take(SHOWN).enumerate();
            let shown = shown.map(|(at, side)| match at {
                0 => format!("{} of {total}: {label} {}", names(&side.names), side.value),
                _ => format!("{}: {}", names(&side.names), side.value),
            });
            let more: usize = odd.iter().skip(SHOWN).map(|side| side.names.len()).sum();
            let more = (more > 0).then(|| format!("{more} more something else"));
            let others = format!("{} others {}", most.names.len(), most.value);
            let all = shown.chain(more).chain([others]);
            Sentence::joined(all.map(Sentence::from), ", ")
        }
        (sides, false) => {
            let shown = sides
                .iter()
                .take(SHOWN)
                .map(|side| format!("{} on {}", side.value, names(&side.names)));
            let more = sides.len().saturating_sub(SHOWN);
            let more = (more > 0).then(|| format!("{more} other values"));
            let all = Sentence::joined(shown.chain(more).map(Sentence::from), ", ");
            Sentence::from(format!("{label} ")).then(all)
        }
    };
    match silent {
        0 => said,
        n => said.then_optionally(format!(" ({n} of {total} unknown)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(value: &str, names: &[&str]) -> Side {
        Side {
            value: value.into(),
            names: names.iter().map(|n| Arc::from(*n)).collect(),
        }
    }

    #[test]
    fn the_odd_one_is_named_before_the_others() {
        let sides = [
            side("9000 B", &["n01", "n02", "n03"]),
            side("1500 B", &["n07"]),
        ];
        assert_eq!(
            sentence("MTU", 4, 0, &sides, true),
            "n07 of 4: MTU 1500 B, 3 others 9000 B"
        );
        let two = [side("9000 B", &["a"]), side("1500 B", &["b"])];
        assert_eq!(
            sentence("MTU", 2, 0, &two, false),
            "MTU 9000 B on a, 1500 B on b"
        );
        assert_eq!(
            sentence("MTU", 5, 3, &two, false),
            "MTU 9000 B on a, 1500 B on b (3 of 5 unknown)"
        );
    }

    #[test]
    fn a_port_that_is_missing_changes_no_description() {
        let all = |n: usize, odd: &[usize]| {
            let values: Vec<(String, Arc<str>)> = (0..n)
                .filter(|at| *at != 5)
                .map(|at| {
                    let value = if odd.contains(&at) {
                        "100 Gb/s"
                    } else {
                        "400 Gb/s"
                    };
                    (format!("mlx5_{at}/1"), value.into())
                })
                .collect();
            spread(&values).to_string()
        };
        assert_eq!(all(8, &[]), "400 Gb/s");
        assert_eq!(all(8, &[1, 2]), "400 Gb/s; 100 Gb/s on mlx5_[1-2]");
        assert_eq!(all(9, &[1, 2]), all(8, &[1, 2]));
        assert_eq!(&*spread(&[]), "none");
    }

    #[test]
    fn long_lists_are_cut() {
        let many: Vec<String> = (0..100).map(|n| format!("host-{}", n * n)).collect();
        assert_eq!(names(&many), "host-0, host-1, host-4 and 97 more");
        assert_eq!(names(&["a1", "a2"]), "a[1-2]");
        assert_eq!(names::<&str>(&[]), "");
    }
}
