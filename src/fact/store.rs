//! All facts about the nodes that are judged together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::terminal;

use super::arms::Arms;
use super::ruleset::Ruleset;
use super::{Fact, Gap, Key, Limit, Limits, Origin, Phrase, Subject, Typed, Value, Why};

/// An instance of a subject: this port, that counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u32);

/// Whether all members of a subject below a parent are known: not knowing the ports is not having none.
#[derive(Clone, Debug)]
pub enum Membership {
    /// These are all.
    Known(Origin),
    /// There may be others.
    Unknown(Gap),
}

impl Membership {
    /// All of this origin, unless something is missing.
    pub fn known_unless(open: Option<Gap>, origin: Origin) -> Self {
        open.map_or(Membership::Known(origin), Membership::Unknown)
    }
}

struct Instance {
    subject: Subject,
    parent: Option<Id>,
    name: Arc<str>,
    /// For each fact of the schema its place among `facts`, counted from 1; 0 if nobody stated it. Most instances lack most facts.
    places: Box<[u16]>,
    facts: Vec<Fact<Value>>,
    related: Vec<Id>,
    /// It stands for instances that are not judged, and keeps no facts.
    is_stand_in: bool,
}

/// The instances of a subject below a parent.
#[derive(Default)]
struct Below {
    /// In the order in which they were found.
    ids: Vec<Id>,
    named: HashMap<Arc<str>, Id, Hasher>,
}

/// The instances of a subject below a parent that are not judged.
struct LeftOut {
    stand_in: Id,
    /// The names of those beyond the bound.
    beyond: HashSet<Arc<str>, Hasher>,
    is_nameless: bool,
}

/// A probe that did not end well on a node.
struct Failure {
    node: Id,
    probe: &'static str,
    how: Arc<str>,
}

type Hasher = foldhash::fast::RandomState;

/// The facts.
pub struct Facts {
    instances: Vec<Instance>,
    /// The instances of each subject, by its place among [`Subject::ALL`].
    by_subject: [Vec<Id>; Subject::ALL.len()],
    below: HashMap<(Subject, Id), Below, Hasher>,
    members: HashMap<(Subject, Id), Membership, Hasher>,
    left_out: HashMap<(Subject, Id), LeftOut, Hasher>,
    /// Of unknown numbers: what they are at least.
    least: HashMap<(Id, usize), Value, Hasher>,
    failures: Vec<Failure>,
    rulesets: HashMap<Id, Fact<Arc<Ruleset>>>,
    arms: HashMap<Id, Arc<Arms>>,
    limits: Limits,
}

impl Facts {
    /// The cluster: the one instance that is always there.
    pub const CLUSTER: Id = Id(0);

    /// No facts yet, and the limits of the built-in checks.
    pub fn new() -> Self {
        Facts::within(Limits::default())
    }

    /// No facts yet, and these limits.
    pub fn within(limits: Limits) -> Self {
        let mut facts = Facts {
            instances: Vec::with_capacity(256),
            by_subject: std::array::from_fn(|_| Vec::new()),
            below: HashMap::default(),
            members: HashMap::default(),
            left_out: HashMap::default(),
            least: HashMap::default(),
            failures: Vec::new(),
            rulesets: HashMap::new(),
            arms: HashMap::new(),
            limits,
        };
        facts.push(Subject::Cluster, None, "cluster".into());
        facts
    }

    /// The value of a limit that is read before its check is judged.
    pub fn limit<T: Typed>(&self, limit: Limit<T>) -> T {
        self.limits.get(limit)
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn push(&mut self, subject: Subject, parent: Option<Id>, name: Arc<str>) -> Id {
        let id = self.push_unlisted(subject, parent, name);
        self.by_subject[subject as usize].push(id);
        if let Some(parent) = parent {
            self.below
                .entry((subject, parent))
                .or_default()
                .ids
                .push(id);
        }
        id
    }

    /// An instance that nobody finds by its subject or its parent.
    fn push_unlisted(&mut self, subject: Subject, parent: Option<Id>, name: Arc<str>) -> Id {
        // Instances are bounded by the lines of recordings, far below 2^32.
        let id = Id(self.instances.len() as u32);
        let name = match name.contains('\n') {
            true => terminal::one_line(&name).into(),
            false => name,
        };
        #[cfg(test)]
        super::reads::note(|used| {
            used.made.insert(subject);
        });
        self.instances.push(Instance {
            subject,
            parent,
            name,
            places: vec![0; subject.schema().facts.len()].into(),
            facts: Vec::new(),
            related: Vec::new(),
            is_stand_in: false,
        });
        id
    }

    /// The instance of this name below this parent, made if it is not yet there. One beyond
    /// [`Subject::bound`], or without a name, is left out: a stand-in
    /// that nobody finds takes its facts, and the membership is unknown.
    pub fn instance(&mut self, subject: Subject, parent: Id, name: &str) -> Id {
        debug_assert_eq!(subject.parent(), Some(self.subject(parent)));
        if let Some(id) = self.find(subject, parent, name) {
            return id;
        }
        let is_nameless = name.chars().all(|c| c.is_whitespace() || c.is_control());
        let is_beyond = self.children(subject, parent).len() >= subject.bound();
        if is_nameless || is_beyond || self.is_left_out(parent) {
            return self.leave_out(subject, parent, name, is_nameless);
        }
        let name: Arc<str> = name.into();
        let id = self.push(subject, Some(parent), Arc::clone(&name));
        let below = self.below.entry((subject, parent)).or_default();
        below.named.insert(name, id);
        id
    }

    fn leave_out(&mut self, subject: Subject, parent: Id, name: &str, is_nameless: bool) -> Id {
        let at = (subject, parent);
        let stand_in = match self.left_out.get(&at) {
            Some(left_out) => left_out.stand_in,
            None => {
                let id = self.push_unlisted(subject, Some(parent), "left out".into());
                self.instances[id.0 as usize].is_stand_in = true;
                id
            }
        };
        let is_counted = !is_nameless && !self.is_left_out(parent);
        let left_out = self.left_out.entry(at).or_insert_with(|| LeftOut {
            stand_in,
            beyond: HashSet::default(),
            is_nameless: false,
        });
        left_out.is_nameless |= is_nameless;
        if is_counted && !left_out.beyond.contains(name) {
            left_out.beyond.insert(name.into());
        }
        stand_in
    }

    /// Whether this stands for instances that are not judged.
    pub fn is_left_out(&self, id: Id) -> bool {
        self.instances[id.0 as usize].is_stand_in
    }

    /// What is not judged, in words, with the parent of it.
    pub fn left_out(&self) -> Vec<(Id, String)> {
        let judged = |at: &&(Subject, Id)| !self.is_left_out(at.1);
        let mut places: Vec<(Subject, Id)> = self.left_out.keys().filter(judged).copied().collect();
        places.sort_unstable_by_key(|(subject, parent)| (*parent, *subject as usize));
        let worded = |(subject, parent)| Some((parent, self.left_out_below(subject, parent)?));
        places.into_iter().filter_map(worded).collect()
    }

    fn left_out_below(&self, subject: Subject, parent: Id) -> Option<String> {
        let left_out = self.left_out.get(&(subject, parent))?;
        let noun = subject.noun();
        if left_out.beyond.is_empty() {
            return Some(format!("a {noun} without a name"));
        }
        let judged = self.children(subject, parent).len();
        let all = judged + left_out.beyond.len();
        Some(format!("{all} {noun}s, of which {judged} were judged"))
    }

    /// A node, even where another of the same name is there: two recordings of one name are two nodes.
    pub fn new_node(&mut self, name: &str) -> Id {
        self.push(Subject::Node, Some(Facts::CLUSTER), name.into())
    }

    /// The instance of this name below this parent.
    pub fn find(&self, subject: Subject, parent: Id, name: &str) -> Option<Id> {
        #[cfg(test)]
        super::reads::note(|used| {
            used.looked_for.insert(subject);
        });
        let below = self.below.get(&(subject, parent))?;
        below.named.get(name).copied()
    }

    /// Says that two instances belong together though neither is the other's ancestor: a port and its netdev; or that what befalls
    /// an instance befalls all of its ancestor: an event and its run. An ancestor has those in it anyway, and does not name them.
    pub fn relate(&mut self, a: Id, b: Id) {
        if self.is_left_out(a) || self.is_left_out(b) {
            return;
        }
        for (one, other) in [(a, b), (b, a)] {
            if !self.lineage(other).any(|id| id == one) {
                self.instances[one.0 as usize].related.push(other);
            }
        }
    }

    /// The instances that belong to this one by [`Facts::relate`].
    pub fn related(&self, id: Id) -> &[Id] {
        &self.instances[id.0 as usize].related
    }

    /// States a fact. The first known value stays; a gap gives way to a value.
    pub fn set<T: Typed>(&mut self, id: Id, key: Key<T>, fact: Fact<T>) {
        self.set_at(id, key.index, fact.erase());
        debug_assert_eq!(self.subject(id), key.subject);
    }

    /// States a value that this origin gave, among others.
    pub fn know<T: Typed>(&mut self, id: Id, key: Key<T>, value: T, origin: &Origin) {
        self.set(id, key, Fact::Known(value, origin.clone()));
    }

    /// States a fact that was worked out from others: how, in a few words.
    pub fn derive<T: Typed>(&mut self, id: Id, key: Key<T>, value: T, how: impl Into<Phrase>) {
        self.set(id, key, Fact::derived(value, how));
    }

    /// States a number of which a part is known: where it is unknown it is `least` at least, and that decides what it can.
    pub fn set_at_least<T: Typed>(&mut self, id: Id, key: Key<T>, number: Fact<T>, least: T) {
        if number.known().is_none() && !self.is_left_out(id) {
            self.least.insert((id, key.index), least.into_value());
        }
        self.set(id, key, number);
    }

    /// What an unknown number is at least, if that is known.
    pub fn at_least(&self, id: Id, index: usize) -> Option<&Value> {
        self.least.get(&(id, index))
    }

    /// Whether there is one at least.
    pub fn is_any(&self, id: Id, key: Key<u64>) -> Fact<bool> {
        match (self.get(id, key), self.at_least(id, key.index)) {
            (Fact::Unknown(_), Some(Value::Count(least))) if *least > 0 => {
                Fact::derived(true, key.path())
            }
            (count, _) => count.map(|count| count > 0),
        }
    }

    /// Leaves facts open for one reason: their places in the schema.
    pub fn leave_open(&mut self, id: Id, indexes: &[usize], gap: &Gap) {
        for index in indexes {
            self.set_at(id, *index, Fact::Unknown(gap.clone()));
        }
    }

    /// States a fact by its place in the schema.
    pub fn set_at(&mut self, id: Id, index: usize, fact: Fact<Value>) {
        #[cfg(test)]
        super::reads::note(|used| {
            used.set.insert((self.subject(id), index));
        });
        let fact = match fact {
            Fact::Known(value, origin) => Fact::Known(value.on_one_line(), origin),
            gap => gap,
        };
        let instance = &mut self.instances[id.0 as usize];
        if instance.is_stand_in {
            return;
        }
        let most = instance.places.len();
        let place = &mut instance.places[index];
        match instance.facts.get_mut(usize::from(*place).wrapping_sub(1)) {
            Some(Fact::Known(..)) => {}
            Some(gap) => *gap = fact,
            None => {
                if instance.facts.capacity() == 0 {
                    let room = if most > 16 { most / 2 } else { most };
                    instance.facts.reserve_exact(room);
                }
                instance.facts.push(fact);
                // A test holds each schema to fewer facts than this type counts.
                *place = instance.facts.len() as u16;
            }
        }
    }

    /// A fact with its Rust type.
    pub fn get<T: Typed>(&self, id: Id, key: Key<T>) -> Fact<T> {
        match self.look(id, key.index) {
            Some(Fact::Known(value, origin)) => match T::from_value(value) {
                Some(value) => Fact::Known(value, origin.clone()),
                // The keys are typed, so a value of another type cannot have been set; if it were, it is a gap.
                None => Fact::Unknown(Gap::missing(key.path())),
            },
            Some(Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
            None => Fact::Unknown(self.unset(id, key.index)),
        }
    }

    /// The value of a fact, or why it is unknown.
    ///
    /// # Errors
    ///
    /// It is unknown.
    pub fn value<T: Typed>(&self, id: Id, key: Key<T>) -> Result<T, Gap> {
        self.get(id, key).into_result()
    }

    /// A fact of the instance of this name; `None` if there is none, which is known only where all are.
    pub fn named<T: Typed>(&self, parent: Id, name: &str, key: Key<T>) -> Fact<Option<T>> {
        match self.find(key.subject, parent, name) {
            Some(id) => self.get(id, key).map(Some),
            None => self.complete(key.subject, parent).map(|()| None),
        }
    }

    /// Known where all members below a parent are.
    pub fn complete(&self, subject: Subject, parent: Id) -> Fact<()> {
        match self.members(subject, parent) {
            Ok(origin) => Fact::Known((), origin.clone()),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    /// The texts of a fact; none if it is unknown.
    pub fn texts(
        &self,
        id: Id,
        key: Key<Arc<[Arc<str>]>>,
    ) -> impl Iterator<Item = Arc<str>> + use<> {
        let texts = self.known(id, key).unwrap_or_default();
        (0..texts.len()).map(move |at| Arc::clone(&texts[at]))
    }

    /// Adds texts to those that are known.
    pub fn add_texts(
        &mut self,
        id: Id,
        key: Key<Arc<[Arc<str>]>>,
        more: impl IntoIterator<Item = Arc<str>>,
        origin: &Origin,
    ) {
        let all: Arc<[Arc<str>]> = self.texts(id, key).chain(more).collect();
        if all.is_empty() {
            return;
        }
        let grown = Fact::Known(all.into_value().on_one_line(), origin.clone());
        let instance = &mut self.instances[id.0 as usize];
        let place = usize::from(instance.places[key.index]);
        // What is known is not stated again; this grows.
        match instance.facts.get_mut(place.wrapping_sub(1)) {
            Some(fact @ Fact::Known(..)) => *fact = grown,
            _ => self.set_at(id, key.index, grown),
        }
    }

    /// The value of a fact, if it is known.
    pub fn known<T: Typed>(&self, id: Id, key: Key<T>) -> Option<T> {
        match self.look(id, key.index) {
            Some(Fact::Known(value, _)) => T::from_value(value),
            _ => None,
        }
    }

    /// All facts that were stated of a node and of what is on it. Nodes are established one after the other: this is the latest.
    pub fn stated(&self, node: Id) -> impl Iterator<Item = &Fact<Value>> {
        let instances = self.instances.iter().skip(node.0 as usize);
        instances.flat_map(|instance| &instance.facts)
    }

    /// The fact as it was stated; `None` if it was not.
    pub fn look(&self, id: Id, index: usize) -> Option<&Fact<Value>> {
        #[cfg(test)]
        super::reads::note(|used| {
            used.read.insert((self.subject(id), index));
        });
        let instance = &self.instances[id.0 as usize];
        let place = usize::from(instance.places[index]);
        instance.facts.get(place.wrapping_sub(1))
    }

    /// Why a fact that was not stated is missing.
    pub fn unset(&self, id: Id, index: usize) -> Gap {
        let fact = &self.subject(id).schema().facts[index];
        let why = match self.failure(id, fact.probe) {
            Some(how) => Why::ProbeFailed(how),
            None => Why::NotEstablished,
        };
        Gap {
            why,
            origin: Origin::Probe(fact.probe),
        }
    }

    fn failure(&self, id: Id, probe: &str) -> Option<Arc<str>> {
        let node = self.ancestor(id, Subject::Node);
        let failure = self
            .failures
            .iter()
            .find(|f| Some(f.node) == node && f.probe == probe)?;
        Some(Arc::clone(&failure.how))
    }

    /// States the rules of a node's packet filter, which no fact of the schema can hold.
    pub fn set_ruleset(&mut self, node: Id, ruleset: Fact<Arc<Ruleset>>) {
        self.rulesets.insert(node, ruleset);
    }

    /// The rules of a node's packet filter.
    pub fn ruleset(&self, node: Id) -> Fact<Arc<Ruleset>> {
        match self.rulesets.get(&node) {
            Some(fact) => fact.clone(),
            None => Fact::Unknown(Gap {
                why: self
                    .failure(node, "firewall")
                    .map_or(Why::NotEstablished, Why::ProbeFailed),
                origin: Origin::Probe("firewall"),
            }),
        }
    }

    /// States the arms of a measurement, which no fact of the schema can hold.
    pub fn set_arms(&mut self, measurement: Id, arms: Arms) {
        self.arms.insert(measurement, Arc::new(arms));
    }

    /// The arms of a measurement.
    pub fn arms(&self, measurement: Id) -> Option<Arc<Arms>> {
        self.arms.get(&measurement).map(Arc::clone)
    }

    /// States that a probe did not end well, so that what it did not establish says why.
    pub fn probe_failed(&mut self, node: Id, probe: &'static str, how: impl Into<Arc<str>>) {
        self.failures.push(Failure {
            node,
            probe,
            how: terminal::one_line(&how.into()).into(),
        });
    }

    /// The probes that did not end well: node, probe, how.
    pub fn failures(&self) -> impl Iterator<Item = (Id, &'static str, &str)> {
        self.failures.iter().map(|f| (f.node, f.probe, &*f.how))
    }

    /// States whether all members below a parent are known.
    pub fn set_members(&mut self, subject: Subject, parent: Id, members: Membership) {
        debug_assert_eq!(subject.parent(), Some(self.subject(parent)));
        match self.members.get(&(subject, parent)) {
            Some(Membership::Known(_)) => {}
            _ => {
                self.members.insert((subject, parent), members);
            }
        }
    }

    /// Whether all members below a parent are known; `Err` says why they may not be.
    pub fn members(&self, subject: Subject, parent: Id) -> Result<&Origin, Gap> {
        if let Some(what) = self.left_out_below(subject, parent) {
            let origin = Origin::Probe(subject.schema().probe);
            return Err(Gap::new(Why::LeftOut(what.into()), origin));
        }
        match self.members.get(&(subject, parent)) {
            Some(Membership::Known(origin)) => Ok(origin),
            Some(Membership::Unknown(gap)) => Err(gap.clone()),
            None => {
                let probe = subject.schema().probe;
                let why = self
                    .failure(parent, probe)
                    .map_or(Why::NotEstablished, Why::ProbeFailed);
                Err(Gap {
                    why,
                    origin: Origin::Probe(probe),
                })
            }
        }
    }

    /// Why not all instances of a subject below an ancestor are known, if they are not.
    pub fn incomplete(&self, ancestor: Id, subject: Subject) -> Option<Gap> {
        let parent = subject.parent()?;
        if self.subject(ancestor) == parent {
            return self.members(subject, ancestor).err();
        }
        self.incomplete(ancestor, parent).or_else(|| {
            let mut parents = self.below(ancestor, parent);
            parents.find_map(|id| self.members(subject, id).err())
        })
    }

    /// All instances of a subject, in the order in which they were found.
    pub fn all(&self, subject: Subject) -> impl Iterator<Item = Id> + '_ {
        #[cfg(test)]
        super::reads::note(|used| {
            used.looked_for.insert(subject);
        });
        self.by_subject[subject as usize].iter().copied()
    }

    /// The instances of a subject that belong to this ancestor, in the order in which they were found.
    pub fn below(&self, ancestor: Id, subject: Subject) -> impl Iterator<Item = Id> + '_ {
        #[cfg(test)]
        super::reads::note(|used| {
            used.looked_for.insert(subject);
        });
        let own = self.subject(ancestor);
        let children: &[Id] = match subject.parent() == Some(own) {
            true => self.children(subject, ancestor),
            false => &[],
        };
        let mut found = Vec::new();
        if children.is_empty() && subject.scope().any(|kind| kind == own) {
            found.push(ancestor);
            // Only what is of a kind in between leads to one of the subject.
            let between: Vec<Subject> = subject.scope().take_while(|kind| *kind != own).collect();
            for kind in between.into_iter().rev() {
                let is_nested = found.len() > 1;
                let members = found.iter().flat_map(|id| self.children(kind, *id));
                found = members.copied().collect();
                // What is below one alone is in order already.
                if is_nested {
                    found.sort_unstable();
                }
            }
        }
        children.iter().copied().chain(found)
    }

    /// The instances of a subject whose parent this is.
    fn children(&self, subject: Subject, parent: Id) -> &[Id] {
        let below = self.below.get(&(subject, parent));
        below.map_or(&[], |below| &below.ids)
    }

    /// The subject of the instance.
    pub fn subject(&self, id: Id) -> Subject {
        self.instances[id.0 as usize].subject
    }

    /// The instance's name.
    pub fn name(&self, id: Id) -> &str {
        &self.instances[id.0 as usize].name
    }

    /// The instance's name, to be kept.
    pub fn shared_name(&self, id: Id) -> Arc<str> {
        Arc::clone(&self.instances[id.0 as usize].name)
    }

    /// The instance's parent.
    pub fn parent(&self, id: Id) -> Option<Id> {
        self.instances[id.0 as usize].parent
    }

    /// The instance itself, its parent, and so on up to the cluster.
    pub fn lineage(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        std::iter::successors(Some(id), |id| self.parent(*id))
    }

    /// The ancestor of this kind, or the instance itself.
    pub fn ancestor(&self, id: Id, subject: Subject) -> Option<Id> {
        self.lineage(id).find(|id| self.subject(*id) == subject)
    }

    /// What an instance counts as if it is asked what touches it: a port for its counters and GIDs.
    pub fn stands_for(&self, id: Id) -> Id {
        match self.subject(id) {
            Subject::Counter | Subject::Gid => self.parent(id).unwrap_or(id),
            _ => id,
        }
    }

    /// Whether two instances are the same, one inside the other, or related (with what is inside the related one).
    /// Counters and GIDs count as their port: what befalls one of them befalls the port.
    pub fn touches(&self, a: Id, b: Id) -> bool {
        let (a, b) = (self.stands_for(a), self.stands_for(b));
        let inside = |inner: Id, outer: Id| self.lineage(inner).any(|id| id == outer);
        let near = |a: Id, b: Id| inside(a, b) || inside(b, a);
        near(a, b)
            || self.related(a).iter().any(|r| near(*r, b))
            || self.related(b).iter().any(|r| near(*r, a))
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{GapKind, gpu, netdev, port};

    /// A node with many GPUs has tens of thousands of facts, most of them gaps: what they take is what reading them costs.
    #[test]
    fn facts_are_small() {
        assert_eq!(size_of::<Origin>(), 24);
        assert_eq!(size_of::<Gap>(), 48);
        assert_eq!(size_of::<Fact<Value>>(), 56);
    }

    #[test]
    fn a_gap_gives_way_to_a_value_and_a_value_stays() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let device = facts.instance(Subject::Device, node, "d");
        let p = facts.instance(Subject::Port, device, "d/1");
        assert_eq!(facts.known(p, port::LID), None);
        facts.set(p, port::LID, Fact::Unknown(Gap::missing("x")));
        facts.set(p, port::LID, Fact::Known(7, Origin::Stated));
        facts.set(p, port::LID, Fact::Known(8, Origin::Stated));
        assert_eq!(facts.known(p, port::LID), Some(7));
    }

    /// A node with so many GPUs, of which each is stated to be in CUDA.
    fn with_gpus(names: impl Iterator<Item = String>) -> (Facts, Id) {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        for name in names {
            let id = facts.instance(Subject::Gpu, node, &name);
            facts.know(id, gpu::IN_CUDA, true, &Origin::Stated);
            let link = facts.instance(Subject::Nvlink, id, "link 0");
            facts.relate(link, node);
        }
        facts.set_members(Subject::Gpu, node, Membership::Known(Origin::Stated));
        (facts, node)
    }

    #[test]
    fn instances_beyond_the_bound_are_counted_and_not_judged() {
        let twice = (0..136).chain(0..136).map(|n| format!("0000:{n:02x}:00.0"));
        let (facts, node) = with_gpus(twice);
        assert_eq!(facts.below(node, Subject::Gpu).count(), 64);
        assert_eq!(facts.all(Subject::Nvlink).count(), 64);
        let gap = facts.members(Subject::Gpu, node).unwrap_err();
        assert_eq!(gap.to_string(), "136 GPUs, of which 64 were judged");
        assert_eq!(facts.gap_kind(node, &gap), GapKind::Damage);
        assert_eq!(facts.left_out(), [(node, gap.to_string())]);
        assert!(facts.find(Subject::Gpu, node, "0000:40:00.0").is_none());
    }

    #[test]
    fn an_instance_without_a_name_is_none_and_is_not_dropped_in_silence() {
        for name in ["", " ", "\t\n", "\u{1}"] {
            let (facts, node) = with_gpus(["0000:19:00.0".into(), name.into()].into_iter());
            assert_eq!(facts.all(Subject::Gpu).count(), 1, "{name:?}");
            let gap = facts.members(Subject::Gpu, node).unwrap_err();
            assert_eq!(gap.to_string(), "a GPU without a name");
        }
    }

    #[test]
    fn what_a_failed_probe_did_not_establish_says_so() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let device = facts.instance(Subject::Device, node, "d");
        facts.probe_failed(node, "device", "timeout after 2 s");
        let gap = facts.members(Subject::Port, device).unwrap_err();
        assert_eq!(gap.why.to_string(), "timeout after 2 s");
    }

    #[test]
    fn relation_reaches_through_a_ports_netdev() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let device = facts.instance(Subject::Device, node, "d");
        let p = facts.instance(Subject::Port, device, "d/1");
        let gid = facts.instance(Subject::Gid, p, "d/1 gid 0");
        let n = facts.instance(Subject::Netdev, node, "eth0");
        let other = facts.instance(Subject::Netdev, node, "eth1");
        facts.relate(p, n);
        assert!(
            facts.touches(n, gid)
                && facts.touches(gid, n)
                && facts.touches(node, gid)
                && facts.touches(n, device)
        );
        assert!(!facts.touches(other, gid) && !facts.touches(n, other));
        facts.set(n, netdev::UP, Fact::Known(true, Origin::Stated));
    }
}
