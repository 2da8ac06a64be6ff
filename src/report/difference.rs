//! The differences between two recordings: a login shell and the launcher's step, a node and its neighbour, today and last week.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::all_facts;
use crate::fact::hop::IdleReduction;
use crate::fact::schema::DERIVED;
use crate::fact::{Fact, Facts, Id, Subject, Value};

/// Subjects whose facts change all the time on any machine.
const MOVING_SUBJECTS: [Subject; 3] = [Subject::Counter, Subject::Process, Subject::KernelEvent];
/// Facts that do. What a link of a GPU does at rest is distinguished by its hop, so the ends of links are left out here.
const MOVING_FACTS: [(Subject, &str); 7] = [
    (Subject::Node, NODE),
    (Subject::Gpu, GPU),
    (Subject::Nvlink, "replay_rate crc_rate"),
    (Subject::Hop, "link_error_rate"),
    (Subject::Bridge, "link_generation link_width"),
    (Subject::Netdev, "discard_rate pause_sent_rate"),
    (Subject::Mount, "rdma_connections"),
];
const NODE: &str = "uptime load shm_free memory_stalled memory_corrected_rate cuda_init_time";
const GPU: &str = "\
    link_generation link_width temperature memory_temperature thermal_margin power sm_clock clock_below hotter_by \
    clock_reasons idle sw_thermal_time power_brake_time power_brake_share memory_used memory_taken \
    bar1_used foreign_processes foreign_process_list pcie_replay_rate pcie_replays_above";
/// The facts of a hop that change if the function below it lowers its link while idle.
const OF_RESTING_HOP: &str = "generation width bandwidth";

/// A fact on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FactSide {
    /// It has the instance, and the value.
    #[serde(rename = "value")]
    Known(Value),
    /// It has the instance, and not the value: why.
    Unknown(String),
    /// Whether it has the instance, on which the sides differ.
    Present(bool),
}

/// A fact on which the sides differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// The subject: `node`, `port`, …
    pub subject: &'static str,
    /// The instance, by its names from below the node.
    pub name: String,
    /// The fact; none if one side lacks the whole instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fact: Option<&'static str>,
    /// The other side's value.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    pub there: FactSide,
    /// This side's value.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    pub here: FactSide,
    /// Whether it is worked out from other facts.
    #[serde(skip)]
    pub derived: bool,
}

impl Difference {
    /// The difference in short, as a step from there to here: `mlx5_3/1 width x16 → x8`.
    pub fn step(&self) -> String {
        let value = |side: &FactSide| match side {
            FactSide::Known(value) => value.to_string(),
            FactSide::Unknown(_) => "unknown".into(),
            FactSide::Present(true) => "present".into(),
            FactSide::Present(false) => "gone".into(),
        };
        let fact = self.fact.map(|fact| fact.replace('_', " "));
        let name = [Some(self.name.clone()), fact].into_iter().flatten();
        let name: Vec<String> = name.filter(|part| !part.is_empty()).collect();
        let (there, here) = (value(&self.there), value(&self.here));
        format!("{} {there} → {here}", name.join(" "))
    }

    /// The difference in words: this side's value, then the other's behind a word as `was`.
    pub fn sentence(&self, word: &str) -> String {
        let name = [Some(self.subject), Some(&*self.name), self.fact];
        let name = name.into_iter().flatten().filter(|n| !n.is_empty());
        let name: Vec<&str> = name.collect();
        let value = |side: &FactSide| match side {
            FactSide::Known(value) => value.to_string(),
            FactSide::Unknown(why) => format!("unknown ({why})"),
            FactSide::Present(true) => "present".into(),
            FactSide::Present(false) => "absent".into(),
        };
        let (here, there) = (value(&self.here), value(&self.there));
        format!("{}: {here}, {word} {there}", name.join(" "))
    }
}

/// An instance on both sides: its subject, and the names from below the node.
type InstanceName = (Subject, String);

/// The differences of `here` from `there`, without the nodes' own names and facts that change on any machine.
///
/// An instance that one side lacks is one difference, not one for each of its facts. A fact that neither side knows is none.
/// If `pseudonyms` says that a side is redacted, two values that both hold addresses are not compared: each recording has
/// pseudonyms of its own.
pub fn differences(there: &Facts, here: &Facts, pseudonyms: bool) -> Vec<Difference> {
    let (there, here) = (by_place(there), by_place(here));
    let places: BTreeSet<&InstanceName> = there.keys().chain(here.keys()).collect();
    let mut found = Vec::new();
    for place in places {
        let (subject, name) = place;
        let difference = |fact, there, here, derived| Difference {
            subject: subject.name(),
            name: name.clone(),
            fact,
            there,
            here,
            derived,
        };
        match (there.get(place), here.get(place)) {
            (Some(there), Some(here)) => {
                let resting = *subject == Subject::Hop && rests(there) && rests(here);
                for ((index, before), now) in there.iter().enumerate().zip(here) {
                    let schema = &subject.schema().facts[index];
                    if same(before, now) || moves(*subject, schema.name) {
                        continue;
                    }
                    if pseudonyms && holds_address(before) && holds_address(now) {
                        continue;
                    }
                    if resting && OF_RESTING_HOP.split(' ').any(|one| one == schema.name) {
                        continue;
                    }
                    let derived = schema.probe.starts_with(DERIVED);
                    let (before, now) = (side(before), side(now));
                    found.push(difference(Some(schema.name), before, now, derived));
                }
            }
            (before, now) => {
                let [before, now] = [before, now].map(|one| FactSide::Present(one.is_some()));
                found.push(difference(None, before, now, false));
            }
        }
    }
    found
}

fn moves(subject: Subject, fact: &str) -> bool {
    let mut of_subject = MOVING_FACTS.iter().filter(|(moving, _)| *moving == subject);
    of_subject.any(|(_, facts)| facts.split(' ').any(|one| one == fact))
}

/// Whether what is at the lower end of a hop lowers its link at rest.
fn rests(hop: &[Fact<Value>]) -> bool {
    let at = |fact: &&Fact<Value>| matches!(fact, Fact::Known(Value::Word(word), _) if *word != IdleReduction::Nothing.word());
    let schema = Subject::Hop.schema().facts;
    let mut all = hop.iter().enumerate();
    all.any(|(index, fact)| schema[index].name == "rest" && at(&fact))
}

fn same(a: &Fact<Value>, b: &Fact<Value>) -> bool {
    match (a, b) {
        (Fact::Known(a, _), Fact::Known(b, _)) => a == b,
        (Fact::Unknown(_), Fact::Unknown(_)) => true,
        _ => false,
    }
}

/// Whether a text has an IP address, a MAC address or a GUID in it.
fn holds_address(fact: &Fact<Value>) -> bool {
    let Fact::Known(value, _) = fact else {
        return false;
    };
    let is_address = |word: &str| {
        let ip = word.split('/').next().unwrap_or(word);
        let hex = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        ip.parse::<std::net::IpAddr>().is_ok()
            || (word.matches(':').count() >= 3 && word.split(':').all(hex))
            || (word.trim_start_matches("0x").len() == 16 && hex(word.trim_start_matches("0x")))
    };
    let within = |text: &str| {
        let apart = |c: char| {
            c.is_whitespace() || matches!(c, ',' | ';' | '=' | '(' | ')' | '<' | '>' | '%')
        };
        text.split(apart).any(is_address)
    };
    match value {
        Value::Text(text) => within(text),
        Value::Sentence(sentence) => within(&sentence.to_string()),
        Value::Texts(texts) => texts.iter().any(|text| within(text)),
        _ => false,
    }
}

fn side(fact: &Fact<Value>) -> FactSide {
    match fact {
        Fact::Known(value, _) => FactSide::Known(value.clone()),
        Fact::Unknown(gap) => FactSide::Unknown(gap.to_string()),
    }
}

/// The facts of each instance, in the order of the schema.
fn by_place(facts: &Facts) -> BTreeMap<InstanceName, Vec<Fact<Value>>> {
    let mut places: BTreeMap<InstanceName, Vec<Fact<Value>>> = BTreeMap::new();
    for (id, _, fact) in all_facts(facts) {
        let subject = facts.subject(id);
        if MOVING_SUBJECTS.contains(&subject) {
            continue;
        }
        places
            .entry((subject, place(facts, id)))
            .or_default()
            .push(fact);
    }
    places
}

/// The names from below the node down to the instance. A node compares with the other, whatever its name.
fn place(facts: &Facts, id: Id) -> String {
    if facts.subject(id) == Subject::Node {
        return String::new();
    }
    match facts.parent(id) {
        Some(parent) if facts.parent(parent).is_some() => {
            let above = place(facts, parent);
            let own = facts.name(id);
            match above.is_empty() || own.starts_with(&above) {
                true => own.to_owned(),
                false => format!("{above} {own}"),
            }
        }
        _ => facts.name(id).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Bytes, Gap, Origin, gpu, hop, interface, module, node};

    fn known<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
    }

    fn shell(memlock: Bytes) -> Facts {
        let mut facts = Facts::new();
        let n = facts.new_node("n1");
        facts.set(n, node::MEMLOCK, known(memlock));
        facts
    }

    #[test]
    fn a_limit_of_the_launcher_differs_from_the_shells() {
        let found = differences(&shell(Bytes(u64::MAX)), &shell(Bytes(65_536)), false);
        let [only] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((only.subject, only.fact), ("node", Some("memlock")));
        assert_eq!(only.here, FactSide::Known(Value::Bytes(Bytes(65_536))));
        assert!(differences(&shell(Bytes(1)), &shell(Bytes(1)), false).is_empty());
    }

    #[test]
    fn what_one_side_does_not_know_is_a_difference_and_what_neither_knows_is_none() {
        let mut hidden = Facts::new();
        let n = hidden.new_node("n2");
        hidden.set(n, node::MEMLOCK, Fact::Unknown(Gap::missing("permission")));
        let found = differences(&shell(Bytes(1)), &hidden, false);
        assert_eq!(found.len(), 1);
        assert!(matches!(found[0].here, FactSide::Unknown(_)));
        assert!(differences(&hidden, &hidden, false).is_empty());
    }

    #[test]
    fn what_moves_is_in_the_schema() {
        let hop = (Subject::Hop, OF_RESTING_HOP);
        for (subject, names) in MOVING_FACTS.iter().chain([&hop]) {
            let facts = subject.schema().facts;
            for name in names.split(' ') {
                let there = facts.iter().any(|fact| fact.name == name);
                assert!(there, "{}.{name} is not a fact", subject.name());
            }
        }
        let mut subjects: Vec<_> = MOVING_FACTS.iter().map(|(s, _)| s.name()).collect();
        subjects.sort_unstable();
        subjects.dedup();
        assert_eq!(subjects.len(), MOVING_FACTS.len(), "a subject stands once");
    }

    #[test]
    fn a_gpu_at_work_differs_in_nothing_from_itself_at_rest() {
        let with = |power, generation, rest, remapped| {
            let mut facts = Facts::new();
            let n = facts.new_node("n");
            let gpu = facts.instance(Subject::Gpu, n, "0000:1b:00.0");
            facts.set(gpu, gpu::POWER, known(power));
            facts.set(gpu, gpu::REMAPPED_UNCORRECTED, known(remapped));
            let hop = facts.instance(Subject::Hop, n, "0000:1b:00.0");
            facts.set(hop, hop::GENERATION, known(generation));
            facts.set(hop, hop::REST, known(rest));
            facts
        };
        let named = |there, here| -> Vec<_> {
            let found = differences(&there, &here, false);
            found.iter().filter_map(|d| d.fact).collect()
        };
        let rest = with(70, 1, IdleReduction::Speed, 0);
        assert!(named(rest, with(690, 5, IdleReduction::Speed, 0)).is_empty());
        // A row of memory is replaced once and for all.
        let rest = with(70, 1, IdleReduction::Speed, 0);
        assert_eq!(
            named(rest, with(70, 1, IdleReduction::Speed, 1)),
            ["remapped_uncorrected"]
        );
        // An adapter's link stays as it is.
        let slow = with(70, 1, IdleReduction::Nothing, 0);
        assert_eq!(
            named(slow, with(70, 5, IdleReduction::Nothing, 0)),
            ["generation"]
        );
    }

    #[test]
    fn pseudonyms_are_not_compared() {
        let with = |address: &str| {
            let mut facts = Facts::new();
            let n = facts.new_node("n");
            let of = facts.instance(Subject::Interface, n, "eth0");
            facts.set(of, interface::ADDRESSES, known([address.into()].into()));
            facts
        };
        let (a, b) = (with("10.0.0.1/24"), with("fd00::2/64"));
        assert_eq!(differences(&a, &b, false).len(), 1);
        assert!(differences(&a, &b, true).is_empty());
        assert_eq!(differences(&a, &with("none"), true).len(), 1);
    }

    #[test]
    fn an_instance_that_one_side_lacks_is_one_difference() {
        let mut more = shell(Bytes(1));
        let n = more.all(Subject::Node).next().unwrap();
        let m = more.instance(Subject::Module, n, "nvidia_peermem");
        more.set(m, module::VERSION, known("1".into()));
        let found = differences(&shell(Bytes(1)), &more, false);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].fact, &*found[0].name), (None, "nvidia_peermem"));
        assert_eq!(found[0].there, FactSide::Present(false));
    }
}
