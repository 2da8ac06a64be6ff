//! The report of many nodes: each node is judged by itself and only its findings are kept, folded over the nodes that have the same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::open_question::UnwordedQuestion;
use super::writer::Writer;
use super::{
    Consequence, Contents, Counts, Finding, NodeHead, Pass, Policy, Report, WaivedFinding, areas,
    contents,
};
use crate::check::{Catalogue, Check, Lacks, Verdict};
use crate::derive::comparison::Concerns;
use crate::diagnosis;
use crate::fact::{Facts, Id};
use crate::nodeset;
use crate::sentence::{Sentence, Span};

/// Letters that a list of nodes may have in a sentence.
const LONGEST: usize = 48;
/// Names that are folded to a list; of more the first ones stand for all.
const FOLDED: usize = 2000;

/// Builds the report. Nodes are added one after the other, in the order in which they are named.
#[derive(Default)]
pub struct ManyNodesReport {
    /// What needs no folding.
    sum: Contents,
    causes: BTreeMap<usize, FoldedFinding>,
    /// Each with its subjects on the nodes.
    open: Vec<(UnwordedQuestion, NodeSentences)>,
    /// Where those of a check are, by its place in the catalogue.
    open_at: HashMap<usize, Vec<usize>, RandomState>,
    failures: NodeSentences,
    areas: areas::FoldedAreas,
    damage: NodeSentences,
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
    list(&names)
}

/// Names as a list that a sentence can hold.
pub(super) fn list(names: &[&str]) -> String {
    let folded = if names.len() <= FOLDED {
        nodeset::fold(names)
    } else {
        String::new()
    };
    match folded.is_empty() || folded.len() > LONGEST {
        false => folded,
        true if names.len() <= 5 => names.join(", "),
        true => format!("{} and {} more", names[..4].join(", "), names.len() - 4),
    }
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
    pub fn add(&mut self, mut part: Contents) {
        let Some(head) = part.nodes.pop() else {
            return;
        };
        // Bounded by the recordings on a command line.
        let at = self.sum.nodes.len() as u32;
        let name = head.name.clone();
        for mut finding in part.causes {
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
        for how in part.failures {
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
        sum.has_unknown_failure |= part.has_unknown_failure;
        sum.withheld += part.withheld;
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
        sum.is_empty = contents::is_empty(facts) && (sum.nodes.is_empty() || sum.is_empty);
        sum.has_unknown_failure |= contents::has_unknown_failure(facts);
        sum.areas = self.areas.lines();
        let of_all = areas::of_all(catalogue, facts, (verdicts, &lacks), &policy.require);
        sum.areas.extend(of_all);
        sum.damage = self.damage.written(&sum.nodes);
        sum.failures = self.failures.written(&sum.nodes);
        let folded = self.open.into_iter().map(|(mut question, of_nodes)| {
            for subject in of_nodes.written(&sum.nodes) {
                question.subjects.push(subject.to_string());
            }
            question
        });
        sum.open = folded.collect();
        let of_nodes: Vec<ExplainableFinding> = self
            .causes
            .into_values()
            .map(|folded| ExplainableFinding::for_nodes(folded, &sum.nodes))
            .collect();
        let of_all = diagnosis::diagnose(catalogue, facts, verdicts);
        let of_all = of_all.iter().flat_map(|cause| {
            // Each comparison has nodes of its own: what explains one does not explain the next.
            let each: Vec<diagnosis::Cause> = match cause.subjects.len() {
                1 => vec![cause.clone()],
                _ if cause.subjects.iter().any(|id| concerns.contains_key(id)) => {
                    let one = |id: &Id| diagnosis::Cause {
                        check: cause.check,
                        subjects: vec![*id],
                        consequences: Vec::new(),
                        presumed: cause.presumed.clone(),
                    };
                    cause.subjects.iter().map(one).collect()
                }
                _ => vec![cause.clone()],
            };
            let unit = |cause: &diagnosis::Cause| {
                let nodes = cause.subjects.first().and_then(|id| concerns.get(id));
                ExplainableFinding::for_all_nodes(writer.finding(cause), nodes)
            };
            each.iter().map(unit).collect::<Vec<_>>()
        });
        let units = together(explain(catalogue, of_nodes, of_all.collect()));
        sum.causes = ordered(catalogue, units, sum.nodes.len());
        sum.into_report(catalogue, policy)
    }
}

/// The gravest first; of those that are as grave, those that set nodes apart from others before those that all have.
fn ordered(catalogue: &Catalogue, mut units: Vec<ExplainableFinding>, all: usize) -> Vec<Finding> {
    units.sort_by_key(|unit| {
        let severity = catalogue.checks[unit.finding.place].severity;
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

/// A finding that may be explained by another.
struct ExplainableFinding {
    finding: Finding,
    nodes: HashSet<String>,
    /// Whether it applies to all nodes together.
    of_all: bool,
}

impl ExplainableFinding {
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
        ExplainableFinding {
            nodes: names().collect(),
            finding,
            of_all: false,
        }
    }

    fn for_all_nodes(mut finding: Finding, nodes: Option<&Vec<Arc<str>>>) -> Self {
        let names = nodes.into_iter().flatten().map(|name| name.to_string());
        finding.nodes = names.collect();
        ExplainableFinding {
            nodes: finding.nodes.iter().cloned().collect(),
            finding,
            of_all: true,
        }
    }
}

/// Folds what is said about all nodes together beneath what explains it on the nodes that it concerns, and the other way round.
fn explain(
    catalogue: &Catalogue,
    of_nodes: Vec<ExplainableFinding>,
    of_all: Vec<ExplainableFinding>,
) -> Vec<ExplainableFinding> {
    let check = |unit: &ExplainableFinding| -> &Check { &catalogue.checks[unit.finding.place] };
    let mut units = of_nodes;
    units.extend(of_all);
    let explains = |a: &ExplainableFinding, b: &ExplainableFinding| {
        (a.of_all || b.of_all)
            // A folded finding is not more severe than the one it is folded under.
            && check(a).severity <= check(b).severity
            && check(a).explains(&check(b).id)
            && !b.nodes.is_empty()
            && b.nodes.iter().all(|name| a.nodes.contains(name))
    };
    let by: Vec<Option<usize>> = (0..units.len())
        .map(|b| (0..units.len()).find(|a| *a != b && explains(&units[*a], &units[b])))
        .collect();
    // The first finding that nothing explains, at the end of the chain; in a cycle none is folded.
    let root = |mut at: usize| {
        for _ in 0..units.len() {
            match by[at] {
                Some(next) => at = next,
                None => return Some(at),
            }
        }
        None
    };
    let roots: Vec<Option<usize>> = (0..units.len()).map(root).collect();
    let mut kept: Vec<Option<ExplainableFinding>> = units.into_iter().map(Some).collect();
    for at in 0..kept.len() {
        let Some(to) = roots[at].filter(|to| *to != at) else {
            continue;
        };
        let Some(unit) = kept[at].take() else {
            continue;
        };
        let finding = unit.finding;
        let folded = Consequence {
            check: finding.check,
            severity: finding.severity,
            subject: finding.subject,
            sentence: finding.sentence,
        };
        if let Some(host) = kept[to].as_mut() {
            host.finding.consequences.push(folded);
            host.finding.consequences.extend(finding.consequences);
        }
    }
    kept.into_iter().flatten().collect()
}

/// Several findings of one check about all nodes become one.
fn together(units: Vec<ExplainableFinding>) -> Vec<ExplainableFinding> {
    let mut all: Vec<ExplainableFinding> = Vec::new();
    let mut places: HashMap<(usize, bool), usize> = HashMap::new();
    for unit in units {
        match places.get(&(unit.finding.place, unit.of_all)) {
            Some(at) => {
                let first = &mut all[*at];
                first.finding.subjects.extend(unit.finding.subjects);
                first.finding.further.push(unit.finding.sentence);
                first.finding.further.extend(unit.finding.further);
                first.finding.consequences.extend(unit.finding.consequences);
                for name in unit.finding.nodes {
                    if first.nodes.insert(name.clone()) {
                        first.finding.nodes.push(name);
                    }
                }
            }
            None => {
                places.insert((unit.finding.place, unit.of_all), all.len());
                all.push(unit);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_short() {
        let many: Vec<String> = (0..5000).map(|n| format!("n{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(list(&many), "n0, n1, n2, n3 and 4996 more");
        assert_eq!(list(&many[..17]), "n[0-16]");
        assert_eq!(list(&["a", "b"]), "a,b");
    }
}
