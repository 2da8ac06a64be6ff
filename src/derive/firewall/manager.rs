//! Who manages the packet filter, and how many filters there are.

use std::sync::Arc;

use crate::fact::ruleset::{Backend, Chain, Hook, Ruleset, Step, Table, Verdict};
use crate::fact::{Fact, Facts, Id, kleene, node};

/// States who manages the rules and which implementations filter.
pub(super) fn derive(facts: &mut Facts, node: Id, ruleset: &Fact<Arc<Ruleset>>) {
    let managers = ruleset.clone().map(|ruleset| managers(&ruleset));
    let has_ufw = managers
        .clone()
        .map(|names| names.iter().any(|name| &**name == "ufw"));
    let ufw_missing = proven(has_ufw, ruleset).map(|has| !has);
    facts.set(node, node::UFW_MISSING, ufw_missing);
    let both = proven(managers.clone().map(|names| names.len() > 1), ruleset);
    // Where both are seen there is no third.
    let managers = match both.known() {
        Some(true) => managers,
        _ => whole(managers, ruleset),
    };
    facts.set(node, node::FIREWALL_MANAGERS, managers);
    facts.set(node, node::FIREWALLS_COMPETE, both);
    let backends = ruleset.clone().map(|ruleset| backends(&ruleset));
    let twice = backends.clone().map(|found| {
        found.contains(&Backend::IptablesLegacy)
            && found.iter().any(|b| *b != Backend::IptablesLegacy)
    });
    let twice = proven(twice, ruleset);
    let names = backends.map(|found| found.into_iter().map(|b| Arc::from(name(b))).collect());
    let names = match twice.known() {
        Some(true) => names,
        _ => whole(names, ruleset),
    };
    facts.set(node, node::FILTERS_TWICE, twice);
    facts.set(node, node::FILTER_BACKENDS, names);
}

/// What the tables that are known can prove, and only all of them can refute.
fn proven(is: Fact<bool>, ruleset: &Fact<Arc<Ruleset>>) -> Fact<bool> {
    let open = ruleset.known().and_then(|ruleset| ruleset.open.as_ref());
    match (is, open) {
        (Fact::Known(is, origin), open) => match kleene::proven(is, open) {
            Ok(is) => Fact::Known(is, origin),
            Err(gap) => Fact::Unknown(gap),
        },
        (unknown, _) => unknown,
    }
}

/// What only all tables tell.
fn whole<T>(fact: Fact<T>, ruleset: &Fact<Arc<Ruleset>>) -> Fact<T> {
    fact.unless(ruleset.known().and_then(|ruleset| ruleset.open.clone()))
}

fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Nftables => "nftables",
        Backend::TrafficControl => "tc",
        Backend::IptablesNft => "iptables over nf_tables",
        Backend::IptablesLegacy => "iptables over ip_tables",
    }
}

/// By the names that they give to what they make: chains `ufw-…` that a built-in chain jumps to, a table `firewalld`.
fn managers(ruleset: &Ruleset) -> Arc<[Arc<str>]> {
    let jumps = |table: &Table, start: &[&str]| {
        let base = table.chains.iter().filter(|chain| chain.base.is_some());
        base.flat_map(|chain| &chain.rules)
            .flat_map(|rule| &rule.steps)
            .any(|step| match step {
                Step::Verdict(Verdict::Jump(to) | Verdict::Goto(to)) => {
                    start.iter().any(|start| to.starts_with(start))
                }
                _ => false,
            })
    };
    let any = |is: &dyn Fn(&Table) -> bool| ruleset.tables.iter().any(is);
    let mut found: Vec<Arc<str>> = Vec::new();
    if any(&|table| jumps(table, &["ufw-", "ufw6-"])) {
        found.push("ufw".into());
    }
    if any(&|table| {
        (&*table.name == "firewalld" && table.chains.iter().any(is_met))
            || jumps(table, &["INPUT_ZONES", "IN_ZONES"])
    }) {
        found.push("firewalld".into());
    }
    found.into()
}

/// Whether packets to or from this node meet the chain.
fn is_met(chain: &Chain) -> bool {
    chain
        .base
        .as_ref()
        .is_some_and(|base| base.hook != Hook::Other && !base.nat)
}

/// The implementations that can keep a packet from this node, or in it.
fn backends(ruleset: &Ruleset) -> Vec<Backend> {
    let denies = |table: &Table| {
        let met: Vec<&Chain> = table.chains.iter().filter(|c| is_met(c)).collect();
        let policy = met
            .iter()
            .any(|c| c.base.as_ref().is_some_and(|base| base.drops));
        let rules = met.iter().any(|c| !c.rules.is_empty())
            && table
                .chains
                .iter()
                .filter(|c| c.base.is_none() || is_met(c))
                .flat_map(|c| &c.rules)
                .flat_map(|r| &r.steps)
                .any(|step| matches!(step, Step::Verdict(Verdict::Drop | Verdict::Reject)));
        policy || rules
    };
    let mut found: Vec<Backend> = Vec::new();
    for table in ruleset.tables.iter().filter(|table| denies(table)) {
        if !found.contains(&table.backend) {
            found.push(table.backend);
        }
    }
    found
}
