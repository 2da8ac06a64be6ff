//! A check that fails, in the words of the node that it fails on.

use std::sync::Arc;

use super::evidence::EvidenceLine;
use crate::check::Severity;
use crate::fact::Subject;
use crate::sentence::Sentence;

/// A check that fails for one instance.
#[derive(Debug)]
pub struct Failure {
    /// The check's place in the catalogue.
    pub check: usize,
    /// For what it fails.
    pub subject: Key,
    /// What it touches beyond its own node: the hosts of its run, the peer that it names.
    pub touches: Box<[Key]>,
    /// How much it matters.
    pub severity: Severity,
    /// Whether it fails only if the premise of its check is met, which is not known.
    pub presumed: bool,
    /// The words of that premise, where they stand before the sentence.
    pub premise: Option<&'static str>,
    /// Observed and expected values.
    pub sentence: Sentence,
    /// Whether the cause before it explains it.
    pub is_consequence: bool,
    /// The facts that decided; of the first failure of a cause only.
    pub evidence: Vec<EvidenceLine>,
    /// What to do about all failures of the cause; with the first of them.
    pub remedy: Sentence,
}

/// What is the same on whatever node it is met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The node that it is a part of.
    pub node: Option<Arc<str>>,
    /// Its kind.
    pub subject: Subject,
    /// Its name, behind that of its host where it has one.
    pub name: Arc<str>,
}

impl Key {
    /// Its name behind that of its node.
    pub fn with_node(&self) -> String {
        match &self.node {
            Some(node) if *node != self.name => format!("{node}: {}", self.name),
            _ => self.name.to_string(),
        }
    }
}

impl Failure {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let evidence = self.evidence.iter().map(EvidenceLine::bytes).sum::<usize>();
        size_of::<Self>() + self.sentence.letters() + self.remedy.letters() + evidence
    }
}
