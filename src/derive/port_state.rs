//! Whether sysfs, libibverbs and netlink say the same of a port.

use super::Derivation;
use crate::fact::{Fact, Facts, Id, Subject, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("port_state", &[], derive);

/// Compares the sources of each port's state. They agree only if all three answered.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let said = [
            ("sysfs", facts.get(port, port::STATE)),
            ("libibverbs", facts.get(port, port::VERBS_STATE)),
            ("netlink", facts.get(port, port::NETLINK_STATE)),
        ];
        let known: Vec<_> = said
            .iter()
            .filter_map(|(who, fact)| Some((*who, fact.known()?.word())))
            .collect();
        let by_source = known
            .iter()
            .map(|(who, word)| format!("{who} says {word}"))
            .collect::<Vec<_>>()
            .join(", ");
        let differ = known.windows(2).any(|pair| pair[0].1 != pair[1].1);
        let open = said
            .iter()
            .find_map(|(_, fact)| fact.as_result().err().cloned());
        let agree = match (differ, open) {
            (true, _) => Fact::derived(false, &by_source),
            (false, Some(gap)) => Fact::Unknown(gap),
            (false, None) => Fact::derived(true, &by_source),
        };
        facts.set(port, port::SOURCES_AGREE, agree);
        let how = "sysfs, libibverbs, netlink";
        facts.derive(port, port::STATE_BY_SOURCE, by_source.into(), how);
    }
}
