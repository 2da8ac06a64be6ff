//! What failures of the whole have to do with each other, by the nodes that they concern.

use std::collections::{BTreeMap, HashSet};

use crate::check::Severity;
use crate::diagnosis::Relations;

/// Whom a failure of the whole concerns.
#[derive(Debug)]
pub struct Concerned<'n> {
    /// The check, as an index into the catalogue.
    pub check: usize,
    /// How much it matters.
    pub severity: Severity,
    /// Whether a way between nodes was tried and failed: whatever explains it may be found beforehand
    /// to be less severe.
    pub is_trial: bool,
    /// Whether it is said of all nodes together, and not of each of some.
    pub of_all: bool,
    /// The nodes on which it was found, or that are odd among the others: what explains it is on
    /// each of them.
    pub nodes: &'n HashSet<String>,
    /// The nodes that it names beyond its own: what explains it is on one of them.
    pub named: &'n [String],
}

impl Concerned<'_> {
    /// Whether this explains the other, if its check does. What nodes have for themselves they are
    /// diagnosed by alone, and nothing that was not tried is folded under what is less severe.
    fn touches(&self, effect: &Concerned<'_>) -> bool {
        let is_on_each = !effect.nodes.is_empty() && effect.nodes.is_subset(self.nodes);
        let is_named = effect.named.iter().any(|node| self.nodes.contains(node));
        (self.of_all || effect.of_all)
            && (self.severity <= effect.severity || effect.is_trial)
            && (is_on_each || is_named)
    }
}

/// The relations of these.
pub struct NodeRelations<'c> {
    all: &'c [Concerned<'c>],
    of_check: BTreeMap<usize, Vec<usize>>,
}

impl<'c> NodeRelations<'c> {
    /// Those of these failures.
    pub fn new(all: &'c [Concerned<'c>]) -> Self {
        let mut of_check: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, one) in all.iter().enumerate() {
            of_check.entry(one.check).or_default().push(at);
        }
        NodeRelations { all, of_check }
    }
}

impl Relations for NodeRelations<'_> {
    fn touches(&self, cause: usize, effect: usize) -> bool {
        cause != effect && self.all[cause].touches(&self.all[effect])
    }

    fn is_touched(&self, effect: usize, check: usize) -> bool {
        let mut causes = self.of_check.get(&check).into_iter().flatten();
        causes.any(|cause| self.touches(*cause, effect))
    }

    fn take_touched(&mut self, cause: usize, check: usize) -> Vec<usize> {
        let all = self.all;
        let is_taken = |effect: &mut usize| cause != *effect && all[cause].touches(&all[*effect]);
        let effects = self.of_check.get_mut(&check);
        effects.map_or(Vec::new(), |effects| {
            effects.extract_if(.., is_taken).collect()
        })
    }
}
