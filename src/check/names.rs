//! Resolves a name in a condition or a template, and suggests one if it is unknown.

use std::ops::Range;

use super::condition::{Limit, Slot};
use super::diagnostic::{Complaint, nearest};
use crate::fact::{FactSchema, Subject};

/// The names that a check of a subject can use.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) subject: Subject,
    pub(super) limits: &'a [Limit],
}

impl Names<'_> {
    /// The subject of this name, if it is the check's or above it, and the steps up to it.
    pub(super) fn above(self, name: &str) -> Option<(u8, Subject)> {
        (0..)
            .zip(self.subject.scope())
            .find(|(_, subject)| subject.name() == name)
    }

    /// The fact of this name.
    pub(super) fn fact(
        self,
        name: &str,
        span: &Range<usize>,
    ) -> Result<(Slot, &'static FactSchema), Complaint> {
        let Some((owner, fact)) = name.split_once('.') else {
            return Err(self.no_fact(name, span));
        };
        let Some((up, subject)) = self.above(owner) else {
            return Err(match Subject::from_name(owner) {
                Some(subject) => self.out_of_scope(name, subject, fact, span),
                None => self.no_subject(name, span),
            });
        };
        let facts = subject.schema().facts;
        let found = facts.iter().position(|f| f.name == fact);
        match found.and_then(|at| Some((u16::try_from(at).ok()?, facts.get(at)?))) {
            Some((index, schema)) => Ok((Slot { up, subject, index }, schema)),
            None => Err(self.unknown_fact(name, subject, fact, span)),
        }
    }

    /// The limit of this name, its place among the check's.
    pub(super) fn limit(self, name: &str, span: &Range<usize>) -> Result<u16, Complaint> {
        let found = self.limits.iter().position(|(limit, _)| **limit == *name);
        match found.and_then(|at| u16::try_from(at).ok()) {
            Some(at) => Ok(at),
            None => {
                let names = self.limits.iter().map(|(limit, _)| &**limit);
                let help = match nearest(name, names) {
                    Some(near) => format!("write `limit.{near}`"),
                    None => format!("state it: [limits] {name} = \"1 /s\""),
                };
                Err(
                    Complaint::new(span.clone(), format!("`limit.{name}` is not stated"))
                        .help(help),
                )
            }
        }
    }

    /// The names in scope, as a sentence.
    fn scope(self) -> String {
        let subjects: Vec<&str> = self.subject.scope().map(Subject::name).collect();
        format!(
            "a check of subject {} sees the facts of {}",
            self.subject.name(),
            subjects.join(", ")
        )
    }

    fn in_scope(self) -> impl Iterator<Item = String> {
        self.subject.scope().flat_map(|subject| {
            let schema = subject.schema();
            let path = move |f: &FactSchema| format!("{}.{}", schema.name, f.name);
            schema.facts.iter().map(path)
        })
    }

    /// The fact that is called so, whatever its subject.
    fn called(self, fact: &str) -> Option<String> {
        let is_it = |path: &String| path.split('.').next_back() == Some(fact);
        self.in_scope().find(is_it)
    }

    /// A name without a dot.
    fn no_fact(self, name: &str, span: &Range<usize>) -> Complaint {
        let help = match self.called(name) {
            Some(path) => format!("write `{path}`"),
            None => format!("a fact is written `port.state`, a text or a word `\"{name}\"`"),
        };
        Complaint::new(span.clone(), format!("`{name}` is not a fact")).help(help)
    }

    /// A name whose first part is no subject.
    fn no_subject(self, name: &str, span: &Range<usize>) -> Complaint {
        let known: Vec<String> = self.in_scope().collect();
        let help = match nearest(name, known.iter().map(|k| &**k)) {
            Some(near) => format!("write `{near}`"),
            None => self.scope(),
        };
        Complaint::new(span.clone(), format!("there is no fact `{name}`")).help(help)
    }

    /// A subject that exists, but not above this check's.
    fn out_of_scope(
        self,
        name: &str,
        subject: Subject,
        fact: &str,
        span: &Range<usize>,
    ) -> Complaint {
        let help = match self.called(fact) {
            Some(path) => format!("{}; `{path}` is one of them", self.scope()),
            None => self.scope(),
        };
        Complaint::new(span.clone(), format!("`{name}` is out of scope"))
            .label(format!(
                "there may be none or several of subject {}",
                subject.name()
            ))
            .help(help)
    }

    /// A fact that its subject does not have.
    fn unknown_fact(
        self,
        name: &str,
        subject: Subject,
        fact: &str,
        span: &Range<usize>,
    ) -> Complaint {
        let facts = subject.schema().facts;
        let help = match (
            self.called(fact),
            nearest(fact, facts.iter().map(|f| f.name)),
        ) {
            (Some(path), _) => format!("write `{path}`"),
            (None, Some(near)) => format!("write `{}.{near}`", subject.name()),
            (None, None) => format!("`rdma-doctor facts` lists those of {}", subject.name()),
        };
        Complaint::new(span.clone(), format!("there is no fact `{name}`")).help(help)
    }
}
