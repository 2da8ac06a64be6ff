//! The packet filter, as `nft list ruleset` and iptables-save(8) print it.

use std::sync::Arc;

use super::Output;
use crate::fact::ruleset::{Backend, Family, Ruleset};
use crate::fact::{Fact, Facts, Gap, Id};
use crate::probe::firewall;

/// The table that `iptables -S` lists, as iptables-save(8) writes it: `-P INPUT ACCEPT` and
/// `-N chain` are chains.
fn as_saved(listed: &str) -> String {
    let mut saved = String::from("*filter\n");
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["-P", name, policy] => saved.push_str(&format!(":{name} {policy} [0:0]")),
            ["-N", name] => saved.push_str(&format!(":{name} - [0:0]")),
            _ => saved.push_str(line),
        }
        saved.push('\n');
    }
    saved + "COMMIT\n"
}

/// States the rules of all these outputs. What none of them lists may hold others, so that they prove what is blocked and not that nothing is.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut ruleset = Ruleset::default();
    let mut origin = None;
    let mut has_nft = false;
    for output in outputs.iter().filter(|output| !output.is_cut) {
        let is_listed = output.has("-S") || output.has("--list-rules");
        let printed = output.text();
        let text = if is_listed {
            as_saved(&printed)
        } else {
            printed
        };
        let family = match output.argv.first().map_or("", |tool| &**tool) {
            "nft" => {
                let read = firewall::nft::ruleset(&text);
                if let Ok(read) = read.or_else(|_| firewall::nft::listing(&text)) {
                    ruleset.tables.extend(read.tables);
                    has_nft = true;
                    origin.get_or_insert(output.origin());
                }
                continue;
            }
            "iptables-save" | "iptables" => Family::Ipv4,
            "ip6tables-save" | "ip6tables" => Family::Ipv6,
            _ => continue,
        };
        if let Ok(read) = firewall::iptables::tables(&text, family, Backend::IptablesLegacy) {
            ruleset.tables.extend(read);
            origin.get_or_insert(output.origin());
        }
    }
    let Some(origin) = origin else {
        return;
    };
    if facts.ruleset(node).known().is_none() {
        let others = if has_nft {
            "what the other tables of iptables hold"
        } else {
            "what nftables holds besides"
        };
        ruleset.open = Some(Gap::missing(others));
        facts.set_ruleset(node, Fact::Known(Arc::new(ruleset), origin));
    }
}
