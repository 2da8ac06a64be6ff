//! The service that manages the packet filter.

use std::sync::Arc;

use crate::fact::ruleset::{Chain, Hook, Ruleset, Step, Table, Verdict};
use crate::fact::{Fact, Facts, Id, kleene, node};

/// States who manages the rules.
pub(super) fn derive(facts: &mut Facts, node: Id, ruleset: &Fact<Arc<Ruleset>>) {
    let managers = ruleset.clone().map(|ruleset| managers(&ruleset));
    let has_ufw = managers
        .clone()
        .map(|names| names.iter().any(|name| &**name == "ufw"));
    let ufw_missing = proven(has_ufw, ruleset).map(|has| !has);
    facts.set(node, node::UFW_MISSING, ufw_missing);
    let both = proven(managers.clone().map(|names| names.len() > 1), ruleset);
    // Where both are seen there is no third; else only all tables tell.
    let managers = match both.known() {
        Some(true) => managers,
        _ => managers.unless(ruleset.known().and_then(|ruleset| ruleset.open.clone())),
    };
    facts.set(node, node::FIREWALL_MANAGERS, managers);
    facts.set(node, node::FIREWALLS_COMPETE, both);
}

/// What the tables that are known can prove, and only all of them can refute.
fn proven(is: Fact<bool>, ruleset: &Fact<Arc<Ruleset>>) -> Fact<bool> {
    let open = ruleset.known().and_then(|ruleset| ruleset.open.as_ref());
    match (is, open) {
        (Fact::Known(is, origin), open) => Fact::from_result(kleene::proven(is, open), &origin),
        (unknown, _) => unknown,
    }
}

/// By the names that they give to what they make: chains `ufw-…` that a built-in chain jumps to, a
/// table `firewalld`.
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
