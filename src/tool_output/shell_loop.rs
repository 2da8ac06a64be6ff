//! The hosts that a loop of a shell goes through: `for h in n1 n2; do ssh $h …`, `for i in {1..4}; do ssh gpu$i …`.

use crate::nodeset;

/// Hosts that a loop may name.
const MOST: usize = 4096;

/// The hosts to which ssh(1) goes one after the other in this line; `target` is its operand, with the
/// variable in it. None where the line does not tell them.
pub(super) fn hosts(line: &str, target: &str) -> Vec<String> {
    let Some((variable, values)) = values(line) else {
        return Vec::new();
    };
    let braced = format!("${{{variable}}}");
    let plain = format!("${variable}");
    let mut all = Vec::new();
    for value in values {
        let filled = target.replace(&braced, &value).replace(&plain, &value);
        let host = filled.rsplit('@').next().unwrap_or(&filled);
        if host.is_empty() || host.contains(['$', '`', '*']) {
            return Vec::new();
        }
        all.push(host.trim_matches(['"', '\'']).to_owned());
    }
    all
}

/// The words of a command with what a loop of this line puts into them, one round after the other.
/// None where the line does not tell it.
pub(super) fn rounds(line: &str, words: &[String]) -> Option<Vec<String>> {
    let (variable, values) = values(line)?;
    let braced = format!("${{{variable}}}");
    let plain = format!("${variable}");
    let mut all = Vec::new();
    for value in &values {
        for word in words {
            let filled = word.replace(&braced, value).replace(&plain, value);
            if filled.contains(['$', '`', '*']) || all.len() >= MOST {
                return None;
            }
            all.push(filled);
        }
    }
    Some(all)
}

/// The variable of a loop, and what it stands for each time.
fn values(line: &str) -> Option<(&str, Vec<String>)> {
    let (_, behind) = line.split_once("for ")?;
    let (variable, listed) = behind.trim_start().split_once(" in ")?;
    let (list, _) = listed.split_once("; do").or(listed.split_once(" do "))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !variable.chars().all(is_name) {
        return None;
    }
    let list = list.trim().trim_end_matches(';');
    let counted = list.strip_prefix("$(seq ").or(list.strip_prefix("`seq "));
    if let Some(counted) = counted {
        let range = counted.trim_end_matches([')', '`']).trim();
        let (first, last) = range.rsplit_once(' ').unwrap_or(("1", range));
        let nodes = nodeset::expand_at_most(&format!("[{first}-{last}]"), MOST).ok()?;
        return Some((variable, nodes));
    }
    let mut all = Vec::new();
    for word in list.split_whitespace() {
        let set = word.replace("..", "-").replace('{', "[").replace('}', "]");
        all.extend(nodeset::expand_at_most(&set, MOST).ok()?);
        if all.len() > MOST {
            return None;
        }
    }
    Some((variable, all))
}

#[cfg(test)]
mod tests {
    use super::{hosts, rounds};

    #[test]
    fn the_files_of_loops() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (line, shown, files) in [
            (
                "for i in 0 1; do cat /a$i/b; done",
                "/a$i/b",
                Some("/a0/b /a1/b"),
            ),
            (
                "for i in {0..1} ; do cat /a/$i /b/${i}",
                "/a/$i /b/${i}",
                Some("/a/0 /b/0 /a/1 /b/1"),
            ),
            (
                "for d in mlx5_0 mlx5_1; do cat /c/$d/$p; done",
                "/c/$d/$p",
                None,
            ),
            ("for d in /sys/*; do cat $d; done", "$d", None),
            ("cat /a$i/b", "/a$i/b", None),
        ] {
            let expected = files.map(words);
            assert_eq!(rounds(line, &words(shown)), expected, "{line}");
        }
    }

    #[test]
    fn the_hosts_of_loops() {
        for (line, target, names) in [
            ("for h in n1 n2; do ssh $h x; done", "$h", "n1 n2"),
            (
                "for i in {01..03}; do ssh root@n${i} x",
                "root@n${i}",
                "n01 n02 n03",
            ),
            (
                "for i in gpu{1..2}-ib; do ssh $i x",
                "$i",
                "gpu1-ib gpu2-ib",
            ),
            ("for i in $(seq 2 3) ; do ssh n$i x", "n$i", "n2 n3"),
            ("for i in `seq 2`; do ssh n$i x", "n$i", "n1 n2"),
            ("for h in n{1,3}; do ssh $h x", "$h", "n1 n3"),
            ("for h in $(cat hosts); do ssh $h x", "$h", ""),
            ("for h in $NODES; do ssh $h x", "$h", ""),
            ("for h in n1 n2; do ssh $other x", "$other", ""),
            ("ssh $h x", "$h", ""),
        ] {
            assert_eq!(hosts(line, target).join(" "), names, "{line}");
        }
    }
}
