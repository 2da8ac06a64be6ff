//! Known defects of NCCL: which of them a situation hits, by its version and by what else is known of it. The table is
//! `known_defects.toml`. A defect is hit only if each of its conditions is known to hold.

use std::sync::Arc;

use super::Derivation;
use crate::fact::nccl_version::Version;
use crate::fact::node::CpuVendor;
use crate::fact::{Fact, Facts, Gap, Id, live_job, node, variable};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("known_defects", &[], derive);

type Rows = &'static [(&'static str, &'static [&'static str])];

/// The rows of the table.
const ROWS: Rows = include!(concat!(env!("OUT_DIR"), "/known_defects.nccl.rs"));

/// A defect, as the table has it.
pub(super) struct KnownDefect {
    pub(super) name: &'static str,
    /// What it makes of a run, as the fact `defect.symptom` has it.
    pub(super) symptom: &'static str,
    /// Whether the conditions are all that it takes.
    pub(super) is_proven: bool,
    pub(super) what: &'static str,
    pub(super) remedy: &'static str,
    pub(super) source: &'static str,
    versions: VersionRange,
    conditions: Vec<Condition>,
}

/// The versions that have a defect.
struct VersionRange {
    from: Option<Version>,
    end: VersionEnd,
}

enum VersionEnd {
    /// The first version without it.
    Fixed(Version),
    /// The last version in which it was seen.
    Seen(Version),
}

/// What must hold for a defect to be hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The CPUs are of ARM's architecture.
    Arm,
    /// NVLink goes between nodes.
    Mnnvl,
    /// The largest communicator has so many ranks or more.
    Ranks(u64),
    /// Nodes have different numbers of ranks.
    UnequalRanks,
    /// A variable has this value.
    Variable(&'static str, &'static str),
    /// No line says that a variable has this value.
    NoVariable(&'static str, &'static str),
    /// Hosts have different values of a variable.
    Differs(&'static str),
    /// Channels between nodes use GPUDirect RDMA.
    GpuDirect,
    /// Each GPU of a host has an adapter.
    AdapterPerGpu,
    /// The limit of the stack's size is unlimited.
    StackUnlimited,
    /// Ranks have not ended their initialisation.
    Initialising,
    /// An event has these words.
    Says(&'static str),
}

impl Condition {
    fn read(text: &'static str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "arm" => Condition::Arm,
            "mnnvl" => Condition::Mnnvl,
            "ranks" => Condition::Ranks(rest.parse().ok()?),
            "unequal-ranks" => Condition::UnequalRanks,
            "differs" => Condition::Differs(rest),
            "gpudirect" => Condition::GpuDirect,
            "adapter-per-gpu" => Condition::AdapterPerGpu,
            "stack-unlimited" => Condition::StackUnlimited,
            "initialising" => Condition::Initialising,
            "says" => Condition::Says(rest),
            "not" => rest
                .split_once('=')
                .map(|(name, value)| Condition::NoVariable(name, value))?,
            setting => setting
                .split_once('=')
                .map(|(name, value)| Condition::Variable(name, value))?,
        })
    }
}

impl VersionRange {
    fn read(text: &str) -> Option<Self> {
        let (from, end) = text.split_once(' ')?;
        let from = match from {
            "-" => None,
            from => Some(Version::parse(from).ok()?),
        };
        let end = match end.strip_prefix('<') {
            Some(fixed) => VersionEnd::Fixed(Version::parse(fixed).ok()?),
            None => VersionEnd::Seen(Version::parse(end).ok()?),
        };
        Some(VersionRange { from, end })
    }

    fn has(&self, version: Version) -> bool {
        let ends_after = match self.end {
            VersionEnd::Fixed(fixed) => version < fixed,
            VersionEnd::Seen(last) => version <= last,
        };
        ends_after && self.from.is_none_or(|from| version >= from)
    }
}

impl KnownDefect {
    fn read(name: &'static str, columns: &'static [&'static str]) -> Option<Self> {
        let [
            symptom,
            versions,
            certainty,
            what,
            remedy,
            source,
            conditions @ ..,
        ] = columns
        else {
            return None;
        };
        Some(KnownDefect {
            name,
            symptom,
            versions: VersionRange::read(versions)?,
            is_proven: *certainty == "proven",
            what,
            remedy,
            source,
            conditions: conditions
                .iter()
                .map(|condition| Condition::read(condition))
                .collect::<Option<_>>()?,
        })
    }

    /// `fixed in 2.29.3`
    pub(super) fn fixed_in_words(&self) -> String {
        match self.versions.end {
            VersionEnd::Fixed(fixed) => format!("fixed in {fixed}"),
            VersionEnd::Seen(last) => format!("last seen in {last}"),
        }
    }

    /// Whether a run or node of this version is hit, by what answers each condition.
    fn is_hit(&self, version: Version, holds: &dyn Fn(Condition) -> Fact<bool>) -> bool {
        self.versions.has(version)
            && (self.conditions.iter()).all(|condition| holds(*condition).known() == Some(&true))
    }
}

/// The defects that are hit where NCCL has this version.
pub(super) fn hit(version: &str, holds: &dyn Fn(Condition) -> Fact<bool>) -> Vec<KnownDefect> {
    let Ok(version) = Version::parse(version) else {
        return Vec::new();
    };
    (ROWS.iter())
        .filter_map(|(name, columns)| KnownDefect::read(name, columns))
        .filter(|defect| defect.is_hit(version, holds))
        .collect()
}

/// States of a running job which defect its library has that makes ranks wait without end.
pub fn of_live_job(facts: &mut Facts, job: Id) {
    let version = facts.get(job, live_job::NCCL_VERSION);
    let found = version.flat_map(|version| match facts.get(job, live_job::ARM) {
        Fact::Known(is_arm, origin) => Fact::Known(hang(&version, is_arm), origin),
        // On no CPU, or on each, it is the same one.
        Fact::Unknown(gap) if hang(&version, true) != hang(&version, false) => Fact::Unknown(gap),
        Fact::Unknown(_) => Fact::derived(hang(&version, true), "the defects of each CPU"),
    });
    facts.set(job, live_job::KNOWN_DEFECT, found);
}

/// The first known defect of a version that makes ranks wait without end on such CPUs; "none" where there is none.
fn hang(version: &str, is_arm: bool) -> Arc<str> {
    let holds = |condition| match condition {
        Condition::Arm => Fact::derived(is_arm, "the CPU"),
        _ => Fact::Unknown(Gap::missing("what only its log shows")),
    };
    let hits = hit(version, &holds).into_iter();
    let mut hangs = hits.filter(|defect| defect.is_proven && defect.symptom == "hang");
    hangs.next().map_or_else(
        || Arc::from("none"),
        |defect| format!("{} ({})", defect.what, defect.fixed_in_words()).into(),
    )
}

/// States of a node which defects its library has there, before any job shows one.
fn derive(facts: &mut Facts, node: Id) {
    let version = facts.get(node, node::NCCL_VERSION);
    let found = version.map(|version| {
        let hits = hit(&version, &|condition| holds_on_node(facts, node, condition));
        let words = hits
            .iter()
            .filter(|defect| defect.is_proven || defect.symptom == "slow");
        let words =
            words.map(|defect| format!("{} ({})", defect.what, defect.fixed_in_words()).into());
        words.collect::<Arc<[Arc<str>]>>()
    });
    facts.set(
        node,
        node::NCCL_DEFECT_COUNT,
        found.clone().map(|all| all.len() as u64),
    );
    facts.set(node, node::NCCL_DEFECTS, found);
}

/// What a node alone tells of a condition.
fn holds_on_node(facts: &Facts, node: Id, condition: Condition) -> Fact<bool> {
    match condition {
        Condition::Arm => {
            (facts.get(node, node::CPU_VENDOR)).map(|vendor| vendor == CpuVendor::Arm)
        }
        Condition::Variable(name, value) => is_set(facts, node, name, value),
        Condition::NoVariable(name, value) => is_set(facts, node, name, value).map(|is| !is),
        _ => Fact::Unknown(Gap::missing("what only a run shows")),
    }
}

/// Whether a variable of NCCL has this value on a node.
fn is_set(facts: &Facts, node: Id, name: &str, value: &str) -> Fact<bool> {
    let said = facts.named(node, name, variable::VALUE);
    said.map(|said| said.is_some_and(|said| *said == *value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Origin;

    #[test]
    fn each_row_is_read() {
        for (name, columns) in ROWS {
            let defect = KnownDefect::read(name, columns).unwrap_or_else(|| panic!("{name}"));
            assert!(
                defect.source.starts_with("https://github.com/")
                    || defect.source.starts_with("https://docs.nvidia.com/")
            );
            assert!(
                crate::fact::defect::Symptom::from_word(defect.symptom).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn versions_below_and_above_are_not_hit() {
        let names = |version: &str, arm: bool| -> Vec<&str> {
            let holds = |condition| match condition {
                Condition::Arm => Fact::derived(arm, "stated"),
                _ => Fact::Unknown(Gap::missing("a run")),
            };
            hit(version, &holds)
                .iter()
                .map(|defect| defect.name)
                .collect()
        };
        assert_eq!(names("2.28.9", true), ["aarch64-weak-cas"]);
        assert_eq!(names("2.28.9", false), [""; 0]);
        assert_eq!(names("2.29.2", false), ["hang-2.29.2"]);
        assert_eq!(names("2.29.2", true), ["aarch64-weak-cas", "hang-2.29.2"]);
        assert_eq!(names("2.29.3", true), [""; 0]);
        assert_eq!(names("unknown", true), [""; 0]);
        let range = VersionRange::read("2.28.9 2.31.2").unwrap();
        let has = |text| range.has(Version::parse(text).unwrap());
        assert_eq!(
            ["2.28.7", "2.28.9", "2.31.2", "2.32.3"].map(has),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_condition_that_nobody_knows_hits_nothing() {
        let count = |vendor: Option<CpuVendor>| {
            let mut facts = Facts::new();
            let id = facts.new_node("n");
            let stated = Fact::Known("2.28.9".into(), Origin::Stated);
            facts.set(id, node::NCCL_VERSION, stated);
            if let Some(vendor) = vendor {
                facts.set(id, node::CPU_VENDOR, Fact::Known(vendor, Origin::Stated));
            }
            derive(&mut facts, id);
            facts.known(id, node::NCCL_DEFECT_COUNT)
        };
        assert_eq!(count(None), Some(0));
        assert_eq!(count(Some(CpuVendor::Amd)), Some(0));
        assert_eq!(count(Some(CpuVendor::Arm)), Some(1));
    }
}
