//! The packet filter's rules.
//!
//! `nft` and the legacy `iptables-save` load the kernel's modules by asking, so each is run only if what it asks for is there
//! already: then its listing changes nothing.

pub(super) mod iptables;
pub(super) mod nft;
mod nft_text;
mod render;
#[cfg(test)]
mod tests;
mod traffic_control;
mod words;

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Probe};
use crate::fact::ruleset::{Backend, Base, Family, Hook, PacketField, Ruleset, Step, Table};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Presence, Subject, Why, interface, node};
use crate::source::{Errno, Question, Refusal};

/// The probe.
// Tens of thousands of rules take nft a second or two.
pub const PROBE: Probe = Probe::new("firewall", run).within(Duration::from_secs(5));

/// The list in which ip_tables names the tables of this network namespace, for each of the two families.
const LEGACY: [(Family, &str, &str); 2] = [
    (Family::Ipv4, "ip_tables_names", "iptables"),
    (Family::Ipv6, "ip6_tables_names", "ip6tables"),
];

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let range = ask.parse("/proc/sys/net/ipv4/ip_local_port_range", port_range);
    let port_range = range.map(|(low, high)| format!("{low}-{high}").into());
    facts.set(node, node::PORT_RANGE, port_range);
    let ufw = (ask.text_if_any("/etc/ufw/ufw.conf")).map(|text| enabled(&text));
    facts.set(node, node::UFW_ENABLED, ufw.or_absent(false));

    let modules = Modules::ask(ask);
    let mut ruleset = Ruleset::default();
    let mut origin = None;
    let mut open = nftables(ask, &modules, &mut ruleset, &mut origin).err();
    for of in LEGACY {
        let gap = legacy(ask, of, &mut ruleset, &mut origin).err();
        open = open.or(gap);
    }
    let open = open.or(filters_of_devices(ask, facts, node, &mut ruleset).err());
    let fact = match open {
        Some(gap) if ruleset.tables.is_empty() => Fact::Unknown(gap),
        open => {
            ruleset.open = open;
            let origin =
                origin.unwrap_or(Origin::derived("neither nf_tables nor ip_tables is there"));
            Fact::Known(Arc::new(ruleset), origin)
        }
    };
    facts.set_ruleset(node, fact);
}

/// The filters of tc(8) at devices. A kernel without traffic control has none; a recording that never asked for them is judged by its rules.
fn filters_of_devices(
    ask: &Ask<'_>,
    facts: &Facts,
    node: Id,
    ruleset: &mut Ruleset,
) -> Result<(), Gap> {
    use Refusal::{Errno as Failed, NotRecorded};
    let filters = |index: u64, parent: u32| {
        let arguments = [
            ("index", index.into()),
            ("parent", u64::from(parent).into()),
        ];
        ask.bytes(Question::netlink("route/gettfilter", arguments))
    };
    let places = ask.bytes(Question::netlink("route/getqdisc", []));
    let places = places.and_then(|bytes| traffic_control::places(&bytes));
    let places = match places.into_result() {
        Err(gap) if gap.why == Why::Refused(Failed(Errno::EOPNOTSUPP)) => return Ok(()),
        Err(gap) if gap.why == Why::Refused(NotRecorded) => {
            // Filters without the list of their places: the list is lost.
            let recorded = |interface: Id| {
                let index = facts.known(interface, interface::INDEX);
                index.is_some_and(|index| {
                    traffic_control::PARENTS.iter().any(|parent| {
                        let answer = filters(index, *parent).into_result();
                        !answer.is_err_and(|gap| gap.why == Why::Refused(NotRecorded))
                    })
                })
            };
            let lost = facts.below(node, Subject::Interface).any(recorded);
            return if lost { Err(gap) } else { Ok(()) };
        }
        places => places?,
    };
    // All are asked before any is judged: a probe's process asks without knowing the interfaces.
    let answers: Vec<_> = places
        .iter()
        .map(|place| filters(u64::from(place.index), place.parent))
        .collect();
    for (place, filters) in places.into_iter().zip(answers) {
        let index = u64::from(place.index);
        let named = |id: &Id| facts.known(*id, interface::INDEX) == Some(index);
        let Some(name) = facts.below(node, Subject::Interface).find(named) else {
            let question = Question::netlink("route/getqdisc", []);
            let what = format!("interface {index} is in no list of interfaces");
            return Err(Gap::not_understood(&question, what));
        };
        let table =
            filters.and_then(|bytes| traffic_control::table(place, facts.name(name), &bytes));
        ruleset.tables.push(table.into_result()?);
    }
    Ok(())
}

/// Two numbers, low and high.
fn port_range(text: &str) -> Result<(u16, u16), String> {
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high)), None) if low <= high => Ok((low, high)),
        _ => Err(format!("{text:?} is not a range of ports")),
    }
}

/// `ENABLED=yes` of ufw.conf, which its start-up script reads as a shell does.
fn enabled(text: &str) -> bool {
    let value = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ENABLED="))
        .next_back()
        .unwrap_or("no");
    let value = value.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    matches!(value.as_str(), "yes" | "true")
}

/// Which modules are there, so that asking loads none.
struct Modules {
    /// Names in /sys/module: what is loaded, and some of what is built in.
    loaded: Fact<Arc<[Arc<str>]>>,
    /// The built-in modules; or that the kernel has no modules, so that nothing can be loaded.
    builtin: Presence<Arc<str>>,
    fixed: bool,
}

impl Modules {
    fn ask(ask: &Ask<'_>) -> Self {
        let loaded = ask.names("/sys/module");
        let has = |name: &str| {
            loaded
                .known()
                .is_some_and(|names| names.iter().any(|n| &**n == name))
        };
        // A kernel without CONFIG_MODULES has no such file.
        let fixed = ask.value(Question::stat("/proc/modules")).known().is_none()
            && ask.exists("/proc/modules").known() == Some(&false);
        let builtin = if has("nf_tables") || fixed {
            Presence::Absent(Origin::derived("nf_tables is loaded"))
        } else {
            match ask.text("/proc/sys/kernel/osrelease") {
                Fact::Known(release, _) if !release.is_empty() && !release.contains('/') => {
                    match ask.text(format!("/lib/modules/{release}/modules.builtin")) {
                        Fact::Known(text, origin) => Presence::Present(text, origin),
                        Fact::Unknown(gap) => Presence::Unknown(gap),
                    }
                }
                Fact::Known(..) => Presence::Unknown(Gap::missing("the kernel's release")),
                Fact::Unknown(gap) => Presence::Unknown(gap),
            }
        };
        Modules {
            loaded,
            builtin,
            fixed,
        }
    }

    /// Whether a module is there: loaded, or part of the kernel.
    fn has(&self, name: &str) -> Result<bool, Gap> {
        if self.fixed {
            // It may be built in or not; nothing can be loaded by asking.
            return Ok(true);
        }
        if self
            .loaded
            .as_result()
            .map_err(Clone::clone)?
            .iter()
            .any(|n| &**n == name)
        {
            return Ok(true);
        }
        match &self.builtin {
            Presence::Present(text, _) => {
                let file = format!("/{name}.ko");
                Ok(text.lines().any(|line| line.ends_with(&file)))
            }
            Presence::Absent(_) => Ok(false),
            Presence::Unknown(gap) => Err(gap.clone()),
        }
    }
}

/// Recognises the tools' messages for missing root privileges.
fn gap(question: &Question, refusal: Refusal) -> Gap {
    let refusal = match refusal {
        Refusal::CommandFailed(_, words)
            if ["not permitted", "ermission denied", "must be root"]
                .iter()
                .any(|part| words.contains(part)) =>
        {
            Refusal::Errno(Errno::EPERM)
        }
        other => other,
    };
    Gap::refused(question, refusal)
}

/// A command's output; `Ok(None)` if it is larger than a reply may be.
fn output(ask: &Ask<'_>, argv: &[&str]) -> Result<Option<(Arc<str>, Origin)>, Gap> {
    let question = Question::run(argv);
    match ask.raw(&question).said {
        Ok(crate::source::Answer::Text(text)) => Ok(Some((text, Origin::Asked(question)))),
        Ok(_) => Err(Gap::not_understood(&question, "the reply is not text")),
        Err(Refusal::TooLarge) => Ok(None),
        Err(refusal) => Err(gap(&question, refusal)),
    }
}

fn not_understood(argv: &[&str], what: String) -> Gap {
    Gap::not_understood(&Question::run(argv), what)
}

/// The rules of nf_tables, those that iptables made there too.
fn nftables(
    ask: &Ask<'_>,
    modules: &Modules,
    ruleset: &mut Ruleset,
    origin: &mut Option<Origin>,
) -> Result<(), Gap> {
    if !modules.has("nf_tables")? {
        return Ok(());
    }
    let whole = ["nft", "-j", "list", "ruleset"];
    // Without the elements of named sets, of which there can be a hundred thousand.
    let terse = ["nft", "-j", "-t", "list", "ruleset"];
    let mut read = None;
    for argv in [&whole[..], &terse[..]] {
        if let Some((text, from)) = output(ask, argv)? {
            read = Some(nft::ruleset(&text).map_err(|what| not_understood(argv, what))?);
            *origin = Some(from);
            break;
        }
    }
    let mut read = match read {
        Some(read) => read,
        None => by_table(ask, origin)?,
    };
    let bases = read.tables.iter().flat_map(|table| &table.chains);
    let of_device = |base: &Base| matches!(base.hook, Hook::Ingress | Hook::Egress);
    let mut bases = bases.filter_map(|chain| chain.base.as_ref());
    if bases.any(|base| of_device(base) && base.devices.is_none())
        && let Ok(Some((text, _))) = output(ask, &["nft", "-t", "list", "ruleset"])
    {
        nft::name_devices(&mut read, &text);
    }
    substitute(ask, modules, &mut read);
    ruleset.tables.append(&mut read.tables);
    Ok(())
}

/// Table by table, where all at once are too large: the service addresses of Kubernetes fill one, and the others tell.
fn by_table(ask: &Ask<'_>, origin: &mut Option<Origin>) -> Result<Ruleset, Gap> {
    let argv = ["nft", "-j", "list", "tables"];
    let Some((text, from)) = output(ask, &argv)? else {
        return Err(Gap::refused(&Question::run(&argv), Refusal::TooLarge));
    };
    *origin = Some(from);
    let mut ruleset = nft::ruleset(&text).map_err(|what| not_understood(&argv, what))?;
    for table in &mut ruleset.tables {
        let family = match table.family {
            Family::Inet => "inet",
            Family::Ipv4 => "ip",
            Family::Ipv6 => "ip6",
            Family::Netdev => "netdev",
            Family::Other => continue,
        };
        let name = Arc::clone(&table.name);
        let argv = ["nft", "-j", "-t", "list", "table", family, &name];
        match output(ask, &argv)? {
            Some((text, _)) => {
                let read = nft::ruleset(&text).map_err(|what| not_understood(&argv, what))?;
                let fits = |t: &Table| t.family == table.family && t.name == table.name;
                match read.tables.into_iter().find(fits) {
                    Some(read) => *table = read,
                    None => table.gap = Some("nft lists nothing of it".into()),
                }
            }
            None => table.gap = Some("too large to be listed".into()),
        }
    }
    Ok(ruleset)
}

/// nft names the extensions of iptables without saying what they ask; iptables-save of the same tables says it.
///
/// It looks extensions up in the kernel, which loads those that are missing: so only if the common ones are there.
fn substitute(ask: &Ask<'_>, modules: &Modules, ruleset: &mut Ruleset) {
    let opaque = |step: &Step| match step {
        Step::Opaque(what) | Step::OpaqueVerdict(what) => what.ends_with("of iptables"),
        Step::Mark(None) => true,
        _ => false,
    };
    let has = |name: &str| modules.has(name).is_ok_and(|has| has);
    for (family, command) in [
        (Family::Ipv4, "iptables-nft-save"),
        (Family::Ipv6, "ip6tables-nft-save"),
    ] {
        let wanted = ruleset.tables.iter().any(|table| {
            let mut steps = table
                .chains
                .iter()
                .flat_map(|c| &c.rules)
                .flat_map(|r| &r.steps);
            table.family == family && table.backend == Backend::IptablesNft && steps.any(opaque)
        });
        if !wanted || !needed(ruleset, family).iter().all(|name| has(name)) {
            continue;
        }
        let Ok(Some((text, _))) = output(ask, &[command]) else {
            continue;
        };
        let Ok(tables) = iptables::tables(&text, family, Backend::IptablesNft) else {
            continue;
        };
        for read in tables {
            let same = |t: &&mut Table| {
                t.family == family && t.name == read.name && t.backend == Backend::IptablesNft
            };
            if let Some(table) = ruleset.tables.iter_mut().find(same) {
                // A table that nft wrote into holds more than iptables can say.
                if table.chains.iter().map(|c| c.rules.len()).sum::<usize>()
                    == read.chains.iter().map(|c| c.rules.len()).sum::<usize>()
                {
                    *table = read;
                }
            }
        }
    }
}

/// The modules of the extensions under whose names iptables-save writes what is in the kernel without them.
fn needed(ruleset: &Ruleset, family: Family) -> Vec<&'static str> {
    let mut names = vec!["nft_compat", "xt_tcpudp"];
    let tables = ruleset.tables.iter().filter(|t| t.family == family);
    let rules = tables.flat_map(|t| &t.chains).flat_map(|c| &c.rules);
    for step in rules.flat_map(|rule| &rule.steps) {
        match step {
            Step::Rate => names.push("xt_limit"),
            Step::Mark(_) => names.push("xt_mark"),
            Step::Match(wanted) if wanted.fields.contains(&PacketField::Mark) => {
                names.push("xt_mark")
            }
            _ => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The rules of ip_tables or ip6_tables, of the tables that are there.
fn legacy(
    ask: &Ask<'_>,
    (family, file, tool): (Family, &str, &str),
    ruleset: &mut Ruleset,
    origin: &mut Option<Origin>,
) -> Result<(), Gap> {
    let names = match ask.text_if_any(format!("/proc/net/{file}")) {
        Presence::Present(names, _) => names,
        // Not loaded: there are no such tables.
        Presence::Absent(_) => return Ok(()),
        Presence::Unknown(gap) => return Err(gap),
    };
    for name in names.split_whitespace() {
        let command = format!("{tool}-legacy-save");
        let mut argv = vec![command.as_str(), "-t", name];
        let mut said = output(ask, &argv);
        let old = format!("{tool}-save");
        if matches!(&said, Err(gap) if gap.why == Why::Refused(Refusal::CommandMissing))
            && is_legacy(ask, &old)
        {
            argv[0] = &old;
            said = output(ask, &argv);
        }
        let tables = match said? {
            Some((text, from)) => {
                origin.get_or_insert(from);
                iptables::tables(&text, family, Backend::IptablesLegacy)
                    .map_err(|what| not_understood(&argv, what))?
            }
            None => vec![Table {
                gap: Some("too large to be listed".into()),
                ..Table::new(family, name, Backend::IptablesLegacy)
            }],
        };
        ruleset.tables.extend(tables);
    }
    Ok(())
}

/// Whether a command is the implementation over ip_tables: by the program that its name leads to.
fn is_legacy(ask: &Ask<'_>, command: &str) -> bool {
    for dir in ["/usr/sbin", "/sbin"] {
        let mut path = format!("{dir}/{command}");
        // A name, a link of the alternatives, the program.
        for _ in 0..3 {
            let Presence::Present(target, _) = ask.link_name(path.as_str()) else {
                break;
            };
            match &*target {
                "xtables-legacy-multi" | "xtables-multi" => return true,
                "xtables-nft-multi" => return false,
                other if other == command => path = format!("/etc/alternatives/{command}"),
                _ => break,
            }
        }
    }
    false
}
