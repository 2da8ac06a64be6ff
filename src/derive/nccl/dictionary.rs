//! The variables that NCCL reads, and those that others read whose names begin alike.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::fact::nccl_version::Version;

/// What reads a variable, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableKind {
    /// NCCL, as a number: strtoll(3) with base 0.
    Number,
    /// NCCL, as a text.
    Text,
    /// A plugin, a framework, an image.
    Other,
}

/// One variable.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    first: Option<Version>,
    last: Option<Version>,
    pub(super) kind: VariableKind,
    pub(super) default: Option<&'static str>,
    pub(super) instead: Option<&'static str>,
}

/// Names that plugins own begin so.
const FAMILIES: &str = "\
    NCCL_FASTRAK_ NCCL_GPUDIRECTTCPX_ NCCL_INSPECTOR_ NCCL_SHARP_ NCCL_TESTS_ NCCL_CTRAN_ \
    NCCL_OFI_ NCCL_UCX_ NCCL_UCC_ NCCL_IBEXT_ NCCL_PROFILER_ NCCL_TUNER_ NCCL_EP_";

static ENTRIES: LazyLock<HashMap<&'static str, Entry>> = LazyLock::new(|| {
    let lines = include_str!("variables.tsv").lines();
    lines.filter_map(entry).map(|e| (e.name, e)).collect()
});

fn entry(line: &'static str) -> Option<Entry> {
    let mut fields = line.split('\t');
    let name = fields.next().filter(|name| name.starts_with("NCCL_"))?;
    let first = Version::parse(fields.next()?).ok();
    let last = Version::parse(fields.next()?).ok();
    let kind = match fields.next()? {
        "number" => VariableKind::Number,
        "text" => VariableKind::Text,
        "other" => VariableKind::Other,
        _ => return None,
    };
    let mut some = || fields.next().filter(|field| *field != "-");
    Some(Entry {
        name,
        first,
        last,
        kind,
        default: some(),
        instead: some(),
    })
}

/// The variable of this name.
pub(super) fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.get(name)
}

/// Whether a plugin's names begin as this one.
pub(super) fn of_plugin(name: &str) -> bool {
    FAMILIES.split(' ').any(|family| name.starts_with(family))
}

/// The known name that is nearest to an unknown one, of those that NCCL reads today.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let bare = |name: &str| name.replace('_', "");
    let today = || ENTRIES.values().filter(|e| e.last.is_none());
    // Underscores left out, and case: these are slips whatever the distance.
    let folded = bare(&name.to_ascii_uppercase());
    if let Some(same) = today().find(|e| bare(e.name) == folded) {
        return Some(same.name);
    }
    let most = (name.len() / 6).clamp(1, 3);
    today()
        .map(|e| (strsim::damerau_levenshtein(name, e.name), e.name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

impl Entry {
    /// Whether this version reads it.
    pub(super) fn read_by(&self, version: Version) -> bool {
        self.kind == VariableKind::Other
            || (self.first.is_none_or(|first| version >= first)
                && self.last.is_none_or(|last| version <= last))
    }

    /// In which versions it is read, in words.
    pub(super) fn releases(&self) -> String {
        match (self.kind, self.first, self.last) {
            (VariableKind::Other, ..) => "a plugin, a framework or an image, not NCCL".into(),
            (_, None, None) => "every version since before 2.18.3".into(),
            (_, Some(first), None) => format!("{first} and later"),
            (_, None, Some(last)) => format!("{last} and earlier"),
            (_, Some(first), Some(last)) => format!("{first} to {last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_whole_and_sorted() {
        let lines = include_str!("variables.tsv").lines();
        let names: Vec<&str> = lines
            .filter(|line| !line.starts_with('#'))
            .map(|line| entry(line).unwrap_or_else(|| panic!("{line}")).name)
            .collect();
        assert!(names.len() > 300 && names.is_sorted());
        assert_eq!(ENTRIES.len(), names.len(), "a name twice");
        assert!(
            ENTRIES
                .values()
                .all(|e| e.instead.is_none_or(|i| find(i).is_some()))
        );
    }

    #[test]
    fn misspelt_names_have_a_suggestion_and_strange_ones_have_none() {
        for (written, meant) in [
            ("NCCL_SOCKET_IF_NAME", Some("NCCL_SOCKET_IFNAME")),
            ("NCCL_IB_GIDINDEX", Some("NCCL_IB_GID_INDEX")),
            ("NCCL_IB_HCAS", Some("NCCL_IB_HCA")),
            ("NCCL_IB_DISBALE", Some("NCCL_IB_DISABLE")),
            ("NCCL_P2P_DISABLED", Some("NCCL_P2P_DISABLE")),
            ("NCCL_MY_COMPANYS_OWN", None),
        ] {
            assert_eq!(nearest(written), meant, "{written}");
            assert!(find(written).is_none());
        }
    }

    #[test]
    fn releases() {
        let read = |name: &str, v: Version| find(name).unwrap().read_by(v);
        assert!(!read("NCCL_IB_ADDR_FAMILY", Version(2, 20, 5)));
        assert!(read("NCCL_IB_ADDR_FAMILY", Version(2, 21, 5)));
        assert!(!read("NCCL_TREE_THRESHOLD", Version(2, 27, 5)));
        assert!(read("NCCL_IB_HCA", Version(2, 4, 8)));
        assert!(read("NCCL_ASYNC_ERROR_HANDLING", Version(2, 27, 5)));
    }
}
