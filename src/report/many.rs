//! The report of many nodes: each node is judged by itself and only its findings are kept, folded over the nodes that have the same.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use foldhash::fast::RandomState;

use super::contents::Contents;
use super::finding::findings;
use super::{Consequence, Counts, Finding, NodeHead, Pass, Policy, Report, WaivedFinding};
use crate::check::{Catalogue, Lacks, Severity, Verdict};
use crate::derive::comparison::Concerns;
use crate::diagnosis::{self, FailedCheck};
use crate::fact::{Facts, Subject};
use crate::nodeset;
use crate::sentence::{Sentence, Span};
use crate::whole::area_line::{self, FoldedAreas};
use crate::whole::peers::NodesByKey;
use crate::whole::relations::{Concerned, NodeRelations};
use crate::whole::remedy::with_steps_of;
use crate::whole::{self, Contribution, UnwordedQuestion, Writer};

/// Builds the report. Nodes are added one after the other, in the order in which they are named.
#[derive(Default)]
pub struct ManyNodesReport {
    /// What needs no folding.
    sum: Contribution,
    causes: BTreeMap<usize, FoldedFinding>,
    /// Each with its subjects on the nodes.
    open: Vec<(UnwordedQuestion, NodeSentences)>,
    /// Where those of a check are, by its place in the catalogue.
    open_at: HashMap<usize, Vec<usize>, RandomState>,
    failures: NodeSentences,
    areas: FoldedAreas,
    damage: NodeSentences,
    /// By which addresses others name the nodes.
    addresses: Vec<(IpAddr, u32)>,
}

/// A check that fails on some nodes.
struct FoldedFinding {
    /// Of the first node.
    finding: Finding,
    subjects: Vec<String>,
    lines: NodeSentences,
    nodes: Vec<u32>,
    consequences: BTreeMap<String, (Consequence, NodeSentences)>,
}

/// Sentences with the nodes to which each applies.
#[derive(Default)]
struct NodeSentences {
    said: Vec<(Sentence, Vec<u32>)>,
    places: HashMap<Sentence, usize, RandomState>,
}

impl NodeSentences {
    /// Adds a sentence about a node, or a subject on it, which may name it.
    fn add(&mut self, sentence: &Sentence, name: &str, node: u32) {
        let of_each = sentence.of_each(name);
        let at = *self.places.entry(of_each).or_insert_with_key(|of_each| {
            self.said.push((of_each.clone(), Vec::new()));
            self.said.len() - 1
        });
        let nodes = &mut self.said[at].1;
        if nodes.last() != Some(&node) {
            nodes.push(node);
        }
    }

    /// The sentences with the nodes before them, those of most nodes first.
    fn written(mut self, nodes: &[NodeHead]) -> Vec<Sentence> {
        self.said.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
        let write = |(said, of): &(Sentence, Vec<u32>)| match of.as_slice() {
            [one] => {
                let name = nodes[*one as usize].name.as_str();
                match said.spans() {
                    // The sentence begins with the name itself.
                    [Span::EachNode, ..] => said.of_node(name),
                    _ => Sentence::from(Span::On(name.into())).then(said.of_node(name)),
                }
            }
            _ => Sentence::from(Span::On(who(nodes, of).into())).then(said.clone()),
        };
        self.said.iter().map(write).collect()
    }
}

/// Of how many of all nodes something is said, and of which.
fn who(nodes: &[NodeHead], of: &[u32]) -> String {
    match of.len() {
        n if n == nodes.len() => format!("all {n} nodes"),
        n => format!("{n} of {} nodes ({})", nodes.len(), names(nodes, of)),
    }
}

fn names(nodes: &[NodeHead], of: &[u32]) -> String {
    let names: Vec<&str> = of
        .iter()
        .map(|at| nodes[*at as usize].name.as_str())
        .collect();
    nodeset::list(&names)
}

fn prefixed(name: &str, subject: &str) -> String {
    if name == subject {
        subject.to_owned()
    } else {
        format!("{name}: {subject}")
    }
}

impl ManyNodesReport {
    /// Adds a node, which was judged alone.
    pub fn add(&mut self, catalogue: &Catalogue, mut part: Contribution) {
        let Some(mut head) = part.nodes.pop() else {
            return;
        };
        // Bounded by the recordings on a command line.
        let at = self.sum.nodes.len() as u32;
        let name = head.name.clone();
        let addresses = part.addresses.into_iter();
        self.addresses.extend(addresses.map(|one| (one, at)));
        for mut finding in findings(catalogue, part.failures, false) {
            let subjects = std::mem::take(&mut finding.subjects);
            let consequences = std::mem::take(&mut finding.consequences);
            let further = std::mem::take(&mut finding.further);
            let sentence = finding.sentence.clone();
            let folded = self
                .causes
                .entry(finding.place)
                .or_insert_with(|| FoldedFinding {
                    finding,
                    subjects: Vec::new(),
                    lines: NodeSentences::default(),
                    nodes: Vec::new(),
                    consequences: BTreeMap::new(),
                });
            folded.nodes.push(at);
            folded
                .subjects
                .extend(subjects.iter().map(|subject| prefixed(&name, subject)));
            folded.lines.add(&sentence, &name, at);
            for sentence in &further {
                folded.lines.add(sentence, &name, at);
            }
            for consequence in consequences {
                let text = consequence.sentence.clone();
                let (_, lines) = folded
                    .consequences
                    .entry(consequence.check.clone())
                    .or_insert_with(|| {
                        let subject = prefixed(&name, &consequence.subject);
                        let first = Consequence {
                            subject,
                            ..consequence
                        };
                        (first, NodeSentences::default())
                    });
                lines.add(&text, &name, at);
            }
        }
        for question in part.open {
            self.add_open_question(question, Some((&name, at)));
        }
        for how in part.probe_failures {
            self.failures.add(&how, &name, at);
        }
        let sum = &mut self.sum;
        sum.passes.extend(part.passes.into_iter().map(|pass| Pass {
            subject: prefixed(&name, &pass.subject),
            ..pass
        }));
        sum.counts.add(&part.counts);
        sum.micros = sum.micros.max(part.micros);
        sum.is_empty = part.is_empty && (at == 0 || sum.is_empty);
        sum.is_left_open |= part.is_left_open;
        sum.withheld += part.withheld;
        head.area_states = part.areas.iter().map(|area| area.rank).collect();
        sum.nodes.push(head);
        self.areas.add(part.areas, &name);
        for one in part.waived {
            self.add_waived(one, &name);
        }
        for sentence in part.damage {
            self.damage.add(&sentence, &name, at);
        }
    }

    fn add_open_question(&mut self, mut question: UnwordedQuestion, on: Option<(&str, u32)>) {
        let subjects = std::mem::take(&mut question.subjects);
        let open = &mut self.open;
        let of_check = self.open_at.entry(question.place).or_default();
        let known = of_check.iter().find(|at| open[**at].0.is_like(&question));
        let at = known.copied().unwrap_or_else(|| {
            of_check.push(open.len());
            open.push((question, NodeSentences::default()));
            open.len() - 1
        });
        let (question, of_nodes) = &mut open[at];
        match on {
            Some((name, node)) => {
                for subject in subjects {
                    let subject = if subject == name {
                        Span::Node(name.into())
                    } else {
                        Span::Text(subject.into())
                    };
                    of_nodes.add(&subject.into(), name, node);
                }
            }
            None => question.subjects.extend(subjects),
        }
    }

    fn add_waived(&mut self, mut one: WaivedFinding, name: &str) {
        for subject in &mut one.subjects {
            *subject = prefixed(name, subject);
        }
        one.nodes = vec![name.to_owned()];
        match self.sum.waived.iter_mut().find(|known| known.is_like(&one)) {
            Some(known) => {
                known.subjects.extend(one.subjects);
                known.nodes.extend(one.nodes);
            }
            None => {
                one.sentence = Sentence::from(Span::On(name.into())).then(one.sentence);
                self.sum.waived.push(one);
            }
        }
    }

    /// When its nodes were recorded.
    pub fn last_recorded(&self) -> impl Iterator<Item = &str> {
        self.sum.nodes.iter().map(|node| node.recorded.as_str())
    }

    /// Ends the report with what is said about all nodes together: the facts of the cluster, their verdicts, and which nodes each concerns.
    pub fn report(
        mut self,
        catalogue: &Catalogue,
        facts: &Facts,
        verdicts: &[Verdict],
        concerns: &Concerns,
        policy: &Policy,
    ) -> Report {
        let writer = Writer {
            catalogue,
            facts,
            several: false,
        };
        let lacks = Lacks::of(catalogue, facts, verdicts);
        for question in writer.open(verdicts, &lacks) {
            self.add_open_question(question, None);
        }
        let mut sum = self.sum;
        sum.counts.add(&Counts::of(catalogue, verdicts));
        if policy.with_passes {
            sum.passes.extend(writer.passes(verdicts));
        }
        sum.waived.extend(writer.waived(verdicts));
        sum.is_empty = whole::is_empty(facts) && (sum.nodes.is_empty() || sum.is_empty);
        sum.is_left_open |= whole::is_left_open(facts);
        sum.areas = self.areas.lines();
        let of_all = area_line::of_all(catalogue, facts, (verdicts, &lacks), &policy.require);
        sum.areas.extend(of_all);
        sum.damage = self.damage.written(&sum.nodes);
        sum.probe_failures = self.failures.written(&sum.nodes);
        let folded = self.open.into_iter().map(|(mut question, of_nodes)| {
            for subject in of_nodes.written(&sum.nodes) {
                question.subjects.push(subject.to_string());
            }
            question
        });
        sum.open = folded.collect();
        let of_nodes = self.causes.into_values();
        let of_nodes = of_nodes.map(|folded| DiagnosedFinding::for_nodes(folded, &sum.nodes));
        let mut all: Vec<DiagnosedFinding> = of_nodes.collect();
        let names: Vec<&str> = sum.nodes.iter().map(|node| node.name.as_str()).collect();
        // Without a log nobody names a node so.
        let by_key = LazyCell::new(|| NodesByKey::new(&names, &self.addresses));
        // Each comparison has nodes of its own: what explains one does not explain the next.
        for (id, failures) in writer.causes(verdicts, |id| concerns.contains_key(&id)) {
            let named = match &*failures[0].touches {
                [] => Vec::new(),
                touches => by_key.named(touches),
            };
            let named = named.into_iter().map(|at| names[at as usize].to_owned());
            let named: Vec<String> = named.collect();
            let nodes = concerns.get(&id).into_iter().flatten();
            let nodes: Vec<String> = nodes.map(|name| name.to_string()).collect();
            let found = findings(catalogue, failures, false).into_iter();
            all.extend(found.map(|finding| DiagnosedFinding {
                nodes: nodes.iter().cloned().collect(),
                named: named.clone(),
                finding: Finding {
                    nodes: nodes.clone(),
                    ..finding
                },
                of_all: true,
            }));
        }
        let causes = ordered(catalogue, diagnosed(catalogue, all), sum.nodes.len());
        Contents {
            said: sum,
            causes,
            log: None,
        }
        .into_report(catalogue, policy)
    }
}

/// The gravest first; of those that are as grave, those that set nodes apart from others before those that all have.
fn ordered(catalogue: &Catalogue, mut units: Vec<DiagnosedFinding>, all: usize) -> Vec<Finding> {
    units.sort_by_key(|unit| {
        let severity = Severity::from_word(unit.finding.severity);
        let common = unit.nodes.len() >= all;
        let weight = unit.finding.subjects.len() + unit.finding.consequences.len();
        // A site's check without an impact comes after those that have one.
        let impact = catalogue.checks[unit.finding.place].impact;
        (
            severity,
            common,
            impact.is_none(),
            impact,
            !unit.of_all,
            std::cmp::Reverse(weight),
            unit.finding.place,
        )
    });
    units.into_iter().map(|unit| unit.finding).collect()
}

/// A finding of some nodes, or of all together.
struct DiagnosedFinding {
    finding: Finding,
    /// The nodes that it concerns.
    nodes: HashSet<String>,
    /// The nodes that it names beyond those.
    named: Vec<String>,
    /// Whether it applies to all nodes together.
    of_all: bool,
}

impl DiagnosedFinding {
    fn for_nodes(folded: FoldedFinding, all: &[NodeHead]) -> Self {
        let names = || folded.nodes.iter().map(|at| all[*at as usize].name.clone());
        let mut finding = folded.finding;
        let mut lines = folded.lines.written(all).into_iter();
        finding.sentence = lines.next().unwrap_or_default();
        finding.further = lines.collect();
        finding.subject = folded.subjects.first().cloned().unwrap_or_default();
        finding.subjects = folded.subjects;
        finding.nodes = names().collect();
        for (first, lines) in folded.consequences.into_values() {
            let each = lines.written(all).into_iter();
            finding
                .consequences
                .extend(each.map(|sentence| Consequence {
                    sentence,
                    ..first.clone()
                }));
        }
        DiagnosedFinding {
            nodes: names().collect(),
            finding,
            named: Vec::new(),
            of_all: false,
        }
    }

    /// Adds a finding of the same check.
    fn merge(&mut self, other: DiagnosedFinding) {
        let (own, other) = (&mut self.finding, other.finding);
        if own.place != other.place {
            own.fix = with_steps_of(&own.fix, &other.fix);
            own.is_shown_in_several_ways = true;
        }
        own.background &= other.background;
        own.subjects.extend(other.subjects);
        own.further.push(other.sentence);
        own.further.extend(other.further);
        own.consequences.extend(other.consequences);
        for name in other.nodes {
            if self.nodes.insert(name.clone()) {
                own.nodes.push(name);
            }
        }
    }
}

/// Folds findings beneath those that explain them on the nodes that they concern.
fn diagnosed(catalogue: &Catalogue, all: Vec<DiagnosedFinding>) -> Vec<DiagnosedFinding> {
    let mut failures: Vec<FailedCheck> = Vec::with_capacity(all.len());
    let mut concerned = Vec::with_capacity(all.len());
    for one in &all {
        let check = one.finding.place;
        failures.push(FailedCheck {
            check,
            presumed: false,
            effect: 0.0,
        });
        concerned.push(Concerned {
            check,
            severity: catalogue.checks[check].severity,
            is_trial: catalogue.checks[check].subject == Subject::Reach,
            of_all: one.of_all,
            nodes: &one.nodes,
            named: &one.named,
        });
    }
    let mut relations = NodeRelations::new(&concerned);
    let mut causes = diagnosis::diagnose(catalogue, &mut failures, &mut relations);
    let mut all: Vec<Option<DiagnosedFinding>> = all.into_iter().map(Some).collect();
    let mut roots = Vec::with_capacity(causes.len());
    for cause in &mut causes {
        let mut own = cause.failures.iter().filter_map(|at| all[*at].take());
        let Some(mut root) = own.next() else {
            continue;
        };
        own.for_each(|one| root.merge(one));
        cause.consequences.sort_unstable();
        for finding in cause.consequences.iter().filter_map(|at| all[*at].take()) {
            let finding = finding.finding;
            // What stops a trial is as severe as the trial's end.
            if catalogue.checks[finding.place].subject == Subject::Reach {
                root.finding.raise_to(finding.severity);
            }
            root.finding.consequences.push(Consequence {
                check: finding.check,
                severity: finding.severity,
                subject: finding.subject,
                sentence: finding.sentence,
            });
            root.finding.consequences.extend(finding.consequences);
        }
        roots.push(root);
    }
    roots
}
