//! Counters over the time since boot, and what a port sends and receives during a sample.

use super::Derivation;
use crate::fact::{
    Fact, Facts, Gap, Id, PerSecond, Percent, Phrase, Seconds, Subject, counter, node, port,
};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("counter_rate", &[], derive);

/// Divides each counter by the uptime.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let uptime = facts.get(node, node::UPTIME);
    let is_pasted = facts.known(node, node::PASTED) == Some(true);
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
        if let (Some(value), true) = (facts.known(id, counter::VALUE), is_pasted) {
            let undated = if uptime.known().is_some() { 0 } else { value };
            let how = "counter.value, where node.uptime is not known";
            facts.derive(id, counter::UNDATED, undated, how);
        }
        facts.set(id, counter::PER_UPTIME, fact);
    }
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        // Each kind of adapter has its own: InfiniBand's, mlx5's, those of soft-RoCE, bnxt_re, EFA.
        let of = |facts: &Facts, names: &[&str], what| {
            let counters = facts.below(port, Subject::Counter);
            let named = |id: &Id| {
                let name = facts.known(*id, counter::NAME);
                name.is_some_and(|name| names.contains(&&*name))
            };
            let mut counters = counters.filter(named);
            counters.next().map(|id| facts.get(id, what))
        };
        let rate = |facts: &Facts, names: &[&str]| of(facts, names, counter::RATE);
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
        for (key, what) in [
            (port::LOSS_OF_PACKETS, counter::RATE),
            (port::LOSS_OF_PACKETS_EVER, counter::PER_UPTIME),
        ] {
            // Only soft-RoCE has these.
            let one = |name| of(facts, &[name], what);
            let errors = ["out_of_seq_request", "rcvd_seq_err"].map(one);
            let packets = ["sent_pkts", "rcvd_pkts"].map(one);
            let loss = match (errors, packets) {
                ([Some(a), Some(b)], [Some(c), Some(d)]) => {
                    let rates = a.zip(b).zip(c.zip(d));
                    rates.map(|((a, b), (c, d))| {
                        Percent(match c.0 + d.0 {
                            all if all > 0.0 => 100.0 * (a.0 + b.0) / all,
                            _ => 100.0,
                        })
                    })
                }
                _ => Fact::derived(Percent(100.0), "an adapter that counts what is lost"),
            };
            facts.set(port, key, loss);
        }
        facts.set(port, port::SENT_RATE, sent.unwrap_or_else(missing));
        facts.set(port, port::RECEIVED_RATE, received.unwrap_or_else(missing));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::port::PortState;

    /// Rates as soft-RoCE counted them on a busy machine whose wire lost nothing, and on one that
    /// lost 0.5 %.
    #[test]
    fn what_comes_late_is_no_loss_on_soft_roce() {
        let of = |counted: &[(&str, f64)]| {
            let mut facts = Facts::new();
            let n = facts.instance(Subject::Node, Facts::CLUSTER, "n1");
            let p = port(&mut facts, n, "rxe0", PortState::Active, 100);
            for (name, per_second) in counted {
                let id = facts.instance(Subject::Counter, p, name);
                facts.derive(id, counter::NAME, (*name).into(), "stated");
                facts.derive(id, counter::RATE, PerSecond(*per_second), "stated");
                facts.derive(id, counter::VALUE, (*per_second * 100.0) as u64, "stated");
            }
            facts.derive(n, node::UPTIME, Seconds(100.0), "stated");
            derive(&mut facts, n);
            let share = |key| {
                facts
                    .known(p, key)
                    .map(|share: Percent| (share.0 * 100.0).round() / 100.0)
            };
            assert_eq!(
                share(port::LOSS_OF_PACKETS_EVER),
                share(port::LOSS_OF_PACKETS)
            );
            share(port::LOSS_OF_PACKETS)
        };
        let soft = |order, refused, sent, received| {
            of(&[
                ("out_of_seq_request", order),
                ("rcvd_seq_err", refused),
                ("sent_pkts", sent),
                ("rcvd_pkts", received),
            ])
        };
        assert_eq!(soft(0.0, 6.0, 58765.0, 7666.0), Some(0.01));
        assert_eq!(soft(9.0, 0.0, 7666.0, 58765.0), Some(0.01));
        assert_eq!(soft(0.0, 137.0, 32675.0, 4228.0), Some(0.37));
        assert_eq!(soft(155.0, 0.0, 4227.0, 32502.0), Some(0.42));
        assert_eq!(of(&[("out_of_sequence", 5.0)]), Some(100.0));
    }
}
