//! What did not respond, and what was cut short.

use super::node_head::RecordedNode;
use crate::check::Catalogue;
use crate::fact::{Facts, Id, Subject, cluster, node, respondent};
use crate::sentence::in_words::some;
use crate::sentence::{Name, Sentence, Span};

/// The damage in sentences: recordings that are truncated or in doubt, and parts that did not respond. A choice of checks that has no areas is judged by its checks alone.
pub(super) fn damage(
    catalogue: &Catalogue,
    facts: &Facts,
    recordings: &[RecordedNode],
) -> Vec<Sentence> {
    let cut = recordings.iter().filter(|one| !one.is_complete);
    let cut = cut.map(|one| {
        Sentence::from("the recording of ")
            .then(Span::Node(facts.shared_name(one.id)))
            .then(" was cut short")
    });
    let mut damage: Vec<Sentence> = match catalogue.areas.is_empty() && !catalogue.is_chosen {
        true => Vec::new(),
        false => cut.chain(left_out(facts)).collect(),
    };
    let doubts = recordings.iter().filter_map(|one| one.doubt.clone());
    damage.extend(doubts.map(Sentence::from));
    let nodes = facts.all(Subject::Node);
    let of_nodes = nodes.flat_map(|node| facts.texts(node, node::LEFT_OUT));
    let of_logs = facts.texts(Facts::CLUSTER, cluster::LEFT_OUT);
    for what in of_logs.chain(of_nodes).map(|what| what.to_string().into()) {
        if !damage.contains(&what) {
            damage.push(what);
        }
    }
    if !catalogue.areas.is_empty() {
        let mut all: Vec<Id> = facts.all(Subject::Respondent).collect();
        all.sort_by_key(|id| {
            let is_probe =
                facts.known(*id, respondent::KIND) == Some(respondent::RespondentKind::Probe);
            let mostly = facts.known(*id, respondent::MOSTLY_FAILED) == Some(true);
            (is_probe, !mostly)
        });
        let names: Vec<String> = all.iter().map(|id| facts.name(*id).to_owned()).collect();
        if let Some(first) = all.first() {
            let reason = facts.known(*first, respondent::REASON);
            let reason = reason
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            let what = match facts.known(*first, respondent::KIND) {
                Some(respondent::RespondentKind::Probe) => "ended early",
                _ => "did not answer",
            };
            let said = Sentence::from(format!("{what}: {}", some(&names)));
            damage.push(said.then_optionally(reason));
        }
    }
    damage
}

/// What is not judged, with its node.
fn left_out(facts: &Facts) -> impl Iterator<Item = Sentence> {
    let all = facts.left_out().into_iter();
    all.map(|(parent, what)| {
        let name = facts.shared_name(parent);
        let parent = match facts.subject(parent) {
            Subject::Node => Span::Node(name),
            subject => Span::Name(Name::of_key(subject.name(), name)),
        };
        Sentence::from(parent).then(format!(" has {what}"))
    })
}
