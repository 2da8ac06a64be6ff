//! Counters over the time since boot, and what a port sends and receives during a sample.

use super::Derivation;
use crate::fact::{Fact, Facts, Gap, Id, PerSecond, Phrase, Seconds, Subject, counter, node, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("counter_rate", &[], derive);

/// Divides each counter by the uptime.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let uptime = facts.get(node, node::UPTIME);
    // Most counters stand at zero: what is said of one is said of all.
    let mut zero: Option<Phrase> = None;
    let mut said = |value: u64, up: Seconds| {
        let words = || Phrase::from(format!("{value} in {up}"));
        match value {
            0 => zero.get_or_insert_with(words).clone(),
            _ => words(),
        }
    };
    for id in facts.below(node, Subject::Counter).collect::<Vec<_>>() {
        let fact = match (facts.get(id, counter::VALUE), &uptime) {
            (Fact::Known(value, _), Fact::Known(up, _)) if up.0 >= 1.0 => {
                Fact::derived(PerSecond(value as f64 / up.0), said(value, *up))
            }
            (Fact::Known(..), Fact::Known(..)) => {
                Fact::Unknown(Gap::missing("an uptime of more than a second"))
            }
            (Fact::Unknown(gap), _) => Fact::Unknown(gap),
            (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        };
        facts.set(id, counter::PER_UPTIME, fact);
    }
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        // Each kind of adapter has its own: InfiniBand's, mlx5's, those of soft-RoCE, bnxt_re, EFA.
        let rate = |facts: &Facts, names: &[&str]| {
            let counters = facts.below(port, Subject::Counter);
            let named = |id: &Id| {
                let name = facts.known(*id, counter::NAME);
                name.is_some_and(|name| names.contains(&&*name))
            };
            let mut counters = counters.filter(named);
            counters.next().map(|id| facts.get(id, counter::RATE))
        };
        let missing = || Fact::Unknown(Gap::missing("counter.rate"));
        let sent = rate(facts, &["port_xmit_data", "sent_pkts"]);
        let received = rate(facts, &["port_rcv_data", "rcvd_pkts"]);
        let timeouts = [
            "local_ack_timeout_err",
            "completer_retry_err",
            "to_retransmits",
            "retrans_timeout_events",
        ];
        let retried = rate(facts, &timeouts);
        let retried = retried.unwrap_or_else(|| match facts.members(Subject::Counter, port) {
            Ok(_) => Fact::derived(PerSecond(0.0), "no counter of timeouts"),
            Err(gap) => Fact::Unknown(gap),
        });
        facts.set(port, port::RETRIED_RATE, retried);
        facts.set(port, port::SENT_RATE, sent.unwrap_or_else(missing));
        facts.set(port, port::RECEIVED_RATE, received.unwrap_or_else(missing));
    }
}
