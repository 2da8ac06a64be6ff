//! What people write for the settings of an arm: `NCCL_IB_DISABLE=1`, "IB disabled + no P2P",
//! "baseline", "sockets", `ib-off+shm-off`.

use super::ablation::Set;

/// A path that an arm can take away: how people name it, and what takes it away.
pub(super) struct SwitchedPath {
    words: &'static [&'static str],
    /// The variable.
    pub(super) variable: &'static str,
    /// Its value that takes the path away.
    pub(super) off: &'static str,
}

const PATHS: [SwitchedPath; 7] = [
    path(
        &["ib", "infiniband", "rdma", "roce", "verbs"],
        "NCCL_IB_DISABLE",
        "1",
    ),
    path(&["shm"], "NCCL_SHM_DISABLE", "1"),
    path(&["p2p", "peer"], "NCCL_P2P_DISABLE", "1"),
    path(&["gdr", "gpudirect", "gdrdma"], "NCCL_NET_GDR_LEVEL", "LOC"),
    path(&["nvls"], "NCCL_NVLS_ENABLE", "0"),
    path(&["pxn"], "NCCL_PXN_DISABLE", "1"),
    // No variable takes NVLink alone away: a name of its own keeps such rows apart.
    path(&["nvlink"], "NVLink", "off"),
];

const fn path(
    words: &'static [&'static str],
    variable: &'static str,
    off: &'static str,
) -> SwitchedPath {
    SwitchedPath {
        words,
        variable,
        off,
    }
}

fn path_of(word: &str) -> Option<&'static SwitchedPath> {
    PATHS.iter().find(|path| path.words.contains(&word))
}

const OFF: &[&str] = &["off", "disabled", "disable", "disabling"];
const WITHOUT: &[&str] = &["no", "without", "not", "minus"];
const ON: &[&str] = &["on", "enabled", "enable", "used", "use", "using", "with"];
const FILLER: &[&str] = &[
    "nccl", "env", "and", "or", "the", "set", "x", "export", "only", "over", "path", "memory",
];
const BASELINE: &str = "\
    default defaults baseline base none nothing normal stock unset vanilla everything";
const SOCKETS: &[&str] = &["socket", "sockets", "tcp", "ethernet"];

/// The words of a text in small letters, with paths that have two words as one.
fn words(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let lower = lower
        .replace("shared memory", "shm")
        .replace("shared-memory", "shm")
        .replace("peer-to-peer", "p2p")
        .replace("peer to peer", "p2p")
        .replace("gpu direct", "gpudirect")
        .replace("w/o", "without");
    lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The path that a head names, and whether it says that the path is off: `IB`, `use P2P`,
/// `SHM disabled`. `None` where it says more.
pub(super) fn head(text: &str) -> Option<(&'static SwitchedPath, bool)> {
    let words = words(text);
    let mut found = words.iter().filter_map(|word| path_of(word));
    let path = found.next()?;
    if found.any(|other| other.variable != path.variable) {
        return None;
    }
    let is = |word: &String, list: &[&str]| list.contains(&word.as_str());
    let off = words.iter().any(|word| is(word, OFF) || is(word, WITHOUT));
    let known = |word: &String| {
        path_of(word).is_some()
            || is(word, OFF)
            || is(word, WITHOUT)
            || is(word, ON)
            || is(word, FILLER)
    };
    words.iter().all(known).then_some((path, off))
}

/// Whether the word of a cell says yes or no; `None` for any other.
pub(super) fn switch(cell: &str) -> Option<bool> {
    match cell.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "y" | "on" | "enabled" | "enable" | "used" | "✓" | "✔" | "✅"
        | "☑" => Some(true),
        "0" | "no" | "false" | "n" | "off" | "disabled" | "disable" | "unused" | "✗" | "✘"
        | "❌" | "☐" => Some(false),
        _ => None,
    }
}

/// Whether a variable is named: `NCCL_ALGO`, `UCX_TLS`.
pub(super) fn is_variable(name: &str) -> bool {
    let sound = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.contains('_')
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(sound)
}

/// Whether a variable is a switch that is off where it is 0.
pub(super) fn is_switch(name: &str) -> bool {
    name.ends_with("_DISABLE")
}

/// The variables that a text says are set; `None` if it says anything that is not understood.
pub fn settings(text: &str) -> Option<Set> {
    let mut set = Set::new();
    let mut rest = Vec::new();
    let mut understood = false;
    for token in text.split([' ', ',', ';', '&', '+', '\t']) {
        let token = token.trim_matches(|c: char| matches!(c, '`' | '"' | '(' | ')'));
        match token.split_once('=') {
            Some((name, value)) if is_variable(name) => {
                understood = true;
                if !(is_switch(name) && matches!(value, "0" | "")) {
                    set.insert(name.to_owned(), value.to_owned());
                }
            }
            Some((name, value)) => {
                let (path, off_head) = head(name)?;
                understood = true;
                if switch(value)? == off_head {
                    set.insert(path.variable.into(), path.off.into());
                }
            }
            None => rest.push(token),
        }
    }
    let mut paths: Vec<(&SwitchedPath, Option<bool>)> = Vec::new();
    let mut without = None;
    for word in words(&rest.join(" ")) {
        let word = word.as_str();
        if let Some(path) = path_of(word) {
            paths.push((path, without));
        } else if SOCKETS.contains(&word) {
            paths.push((&PATHS[0], Some(true)));
        } else if OFF.contains(&word) || ON.contains(&word) || WITHOUT.contains(&word) {
            let off = !ON.contains(&word);
            // Behind a path it is said of that path, before one of those that follow.
            let open = paths
                .iter_mut()
                .rev()
                .take_while(|(_, said)| said.is_none());
            let behind = open.map(|(_, said)| *said = Some(off)).count();
            if behind == 0 || WITHOUT.contains(&word) {
                without = Some(off);
            }
        } else if BASELINE.split(' ').any(|one| one == word) {
            understood = true;
        } else if word == "all" {
            paths.extend(PATHS.iter().take(3).map(|path| (path, without)));
        } else if !FILLER.contains(&word) {
            return None;
        }
    }
    understood |= !paths.is_empty();
    for (path, said) in paths {
        if said == Some(true) {
            set.insert(path.variable.into(), path.off.into());
        }
    }
    understood.then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_people_are_settings() {
        for (text, wanted) in [
            ("baseline", Some("")),
            ("default", Some("")),
            ("NCCL_IB_DISABLE=1", Some("NCCL_IB_DISABLE=1")),
            (
                "-x NCCL_IB_DISABLE=1 -x NCCL_P2P_DISABLE=0",
                Some("NCCL_IB_DISABLE=1"),
            ),
            ("IB disabled", Some("NCCL_IB_DISABLE=1")),
            ("no P2P", Some("NCCL_P2P_DISABLE=1")),
            (
                "IB disabled + no P2P",
                Some("NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1"),
            ),
            (
                "without SHM and P2P",
                Some("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"),
            ),
            ("IB off, SHM on", Some("NCCL_IB_DISABLE=1")),
            ("disable shared memory", Some("NCCL_SHM_DISABLE=1")),
            ("P2P=off IB=on", Some("NCCL_P2P_DISABLE=1")),
            (
                "ib-off+shm-off",
                Some("NCCL_IB_DISABLE=1 NCCL_SHM_DISABLE=1"),
            ),
            (
                "all off",
                Some("NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"),
            ),
            ("TCP only", Some("NCCL_IB_DISABLE=1")),
            ("With NVLink", Some("")),
            ("Without NVLink", Some("NVLink=off")),
            ("All three were slow", None),
            ("7B", None),
            ("", None),
        ] {
            let found = settings(text).map(|set| super::super::ablation::variables(&set));
            assert_eq!(found.as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn heads_name_one_path() {
        let name = |text| head(text).map(|(path, off)| (path.variable, off));
        assert_eq!(name("IB off"), Some(("NCCL_IB_DISABLE", true)));
        assert_eq!(name("InfiniBand"), Some(("NCCL_IB_DISABLE", false)));
        assert_eq!(name("shared memory"), Some(("NCCL_SHM_DISABLE", false)));
        assert_eq!(name("use P2P?"), Some(("NCCL_P2P_DISABLE", false)));
        assert_eq!(name("IB bandwidth"), None);
        assert_eq!(name("IB vs P2P"), None);
    }
}
