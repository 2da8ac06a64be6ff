//! What a log's facts amount to: which failure counts, what hosts chose differently, how far an
//! address reaches.

mod adapter_shares;
mod benchmark_ceiling;
mod common_point;
mod defects;
mod gid_pair;
mod gid_table;
mod one_text;
mod watchdogs;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{cuda_release, known_defects};
use crate::fact::event::{
    self, EventOutcome, GidScope, LogClass, PciSpeed, PeerHost, PeerReach, Phase, ReportedPhase,
    Role,
};
use crate::fact::host::{self, BootstrapKind};
use crate::fact::run::{self, RdmaFailure};
use crate::fact::{Fact, Facts, Gap, Id, Key, Origin, Subject, Typed, env, rank};

/// Works out the derived facts of all runs, and relates hosts with the nodes that were examined
/// beside the log.
pub fn derive(facts: &mut Facts) {
    for run in facts.all(Subject::Run).collect::<Vec<_>>() {
        let hosts = hosts(facts, run);
        let events: Vec<Id> = facts.below(run, Subject::Event).collect();
        for host in facts.below(run, Subject::Host).collect::<Vec<_>>() {
            bootstrap_kind(facts, host);
            sockets_inside(facts, host);
            adapter_shares::state(facts, host);
            cuda_release::of_host(facts, run, host);
            for variable in facts.below(host, Subject::Env).collect::<Vec<_>>() {
                also_matches(facts, host, variable);
                plugin_missing(facts, host, variable);
            }
        }
        // What a benchmark found wrong is what its run says of itself.
        for benchmark in facts.all(Subject::Benchmark).collect::<Vec<_>>() {
            facts.relate(benchmark, run);
        }
        missing_on(facts, &hosts);
        one_text::relate(facts, run, &hosts, &events);
        choices(facts, run, &hosts);
        met(facts, run);
        let begins = begins(facts, run);
        for &id in &events {
            event(facts, run, id, begins);
            // What fails on one host is felt on all of the run.
            facts.relate(id, run);
        }
        common_point::state_common_points(facts, &events);
        watchdogs::state_stuck_calls(facts, run, &events);
        lead(facts, run, &events);
        defects::state_defects(facts, run, &hosts, &events);
        join(facts, run, &hosts);
    }
    benchmark_ceiling::derive(facts);
    for job in facts.all(Subject::LiveJob).collect::<Vec<_>>() {
        known_defects::of_live_job(facts, job);
    }
}

/// The hosts of which processes of NCCL wrote lines; a file whose lines name no host stands for one
/// only where there is no other.
pub fn hosts(facts: &Facts, run: Id) -> Vec<Id> {
    let all: Vec<Id> = facts.below(run, Subject::Host).collect();
    let wrote = |id: &Id| facts.known(*id, host::PROCESSES).is_none_or(|n| n > 0);
    let some: Vec<Id> = all.iter().copied().filter(wrote).collect();
    if some.is_empty() { all } else { some }
}

/// Whether ranks got past the bootstrap.
fn met(facts: &mut Facts, id: Id) {
    let some = |key| facts.known(id, key).is_some_and(|n: u64| n > 0);
    let initialised = facts
        .below(id, Subject::Rank)
        .any(|rank| facts.known(rank, rank::INITIALISED) == Some(true));
    let seen = initialised
        || facts.known(id, run::NODES_STATED) == Some(true)
        || facts.known(id, run::INITIALISED) == Some(true)
        || some(run::INTER)
        || some(run::INTRA);
    let met = match (seen, facts.get(id, run::INFO)) {
        (true, _) => Fact::derived(true, "lines of nodes, channels or `Init COMPLETE`"),
        (false, Fact::Known(true, origin)) => Fact::Known(false, origin),
        (false, Fact::Known(false, _)) => (facts.get(id, run::INITIALISED))
            .flat_map(|_| Fact::Unknown(Gap::missing("run.initialised"))),
        (false, Fact::Unknown(gap)) => Fact::Unknown(gap),
    };
    facts.set(id, run::MET, met);
}

/// Where an event was read: what is worked out from it has the same evidence.
fn origin(facts: &Facts, id: Id) -> Origin {
    match facts.get(id, event::CLASS) {
        Fact::Known(_, origin) => origin,
        Fact::Unknown(gap) => gap.origin,
    }
}

/// An event's own derived facts.
fn event(facts: &mut Facts, run: Id, id: Id, begins: bool) {
    let at = origin(facts, id);
    let when = match facts.known(id, event::PHASE) {
        // Of an excerpt nobody can say what came before it.
        Some(Phase::Init) if begins => ReportedPhase::Init,
        Some(Phase::Init) => ReportedPhase::NotLogged,
        Some(Phase::Running) => ReportedPhase::Running,
        None => ReportedPhase::NotLogged,
    };
    facts.know(id, event::WHEN, when, &at);
    let fault = facts.known(id, event::ERRNO);
    let reason = fault.clone();
    let fault = fault.unwrap_or_else(|| "not-logged".into());
    facts.know(id, event::FAULT, fault, &at);
    // What a finding says of the three, whether the line names them or not.
    let is_cut = facts
        .known(id, event::TEXT)
        .is_some_and(|text| is_cut(&text));
    let reason = reason.unwrap_or_else(|| {
        if is_cut {
            "the line is cut off before it says why".into()
        } else {
            "the line names no error that is recognised".into()
        }
    });
    facts.know(id, event::REASON, reason, &at);
    let whom: Arc<str> = match facts.known(id, event::PEER) {
        Some(peer) => format!("its peer ({peer})").into(),
        None => "its peer".into(),
    };
    facts.know(id, event::WHOM, whom, &at);
    let reach = match facts.known(id, event::PEER) {
        Some(peer) if peer.starts_with("127.") || &*peer == "::1" => PeerReach::Loopback,
        Some(_) => PeerReach::Others,
        None => PeerReach::NotLogged,
    };
    facts.know(id, event::PEER_REACH, reach, &at);
    let adapter = facts.known(id, event::DEVICE);
    let adapter = adapter.unwrap_or_else(|| "an adapter".into());
    facts.know(id, event::ADAPTER, adapter, &at);
    let scope = match facts.known(id, event::LOCAL_GID) {
        Some(gid) if is_link_local(&gid) => GidScope::LinkLocal,
        Some(_) => GidScope::Routable,
        None => GidScope::NotLogged,
    };
    facts.know(id, event::GID_SCOPE, scope, &at);
    gid_pair::state_gid_pair(facts, id, &at);
    if let (Some(local), Some(remote)) = (
        facts.known(id, event::DEVICE),
        facts.known(id, event::PEER_DEVICE),
    ) && local != remote
    {
        let rails =
            format!("it goes from {local} here to {remote} there: separate rails do not meet");
        facts.know(id, event::RAILS_DIFFER, rails.into(), &at);
    }
    let Some(text) = facts.known(id, event::TEXT) else {
        return;
    };
    match facts.known(id, event::CLASS) {
        Some(LogClass::Cuda) => {
            let code = facts.known(id, event::STATUS).or_else(|| cuda_code(&text));
            facts.know(id, event::CODE, code.unwrap_or(0), &at);
        }
        Some(LogClass::SocketMagic) => {
            facts.know(id, event::INTRUDER, intruder(&text).into(), &at);
        }
        Some(LogClass::DuplicateGpu) => {
            let place = whereabouts(facts, run, &text);
            facts.know(id, event::SAME_HOST, place, &at);
        }
        Some(LogClass::PciSpeedUnknown) => {
            let speed = match facts.known(id, event::DETAIL) {
                None => PciSpeed::None,
                Some(value) if value.starts_with("Unknown") => PciSpeed::None,
                Some(value) if value.contains("GT/s") => PciSpeed::Speed,
                Some(_) => PciSpeed::Other,
            };
            facts.know(id, event::SPEED, speed, &at);
        }
        Some(LogClass::EnvInvalid) => {
            let unknown = text.contains("Unrecognized") || text.contains("nrecognised");
            facts.know(id, event::WORD_UNKNOWN, unknown, &at);
        }
        Some(LogClass::Nvml) => {
            let words = ["version mismatch", "don't match with driver version"];
            let lower = text.to_ascii_lowercase();
            let differs = words.iter().any(|words| lower.contains(words));
            facts.know(id, event::MISMATCH, differs, &at);
        }
        _ => {}
    }
}

/// Whether somebody cut a line off.
fn is_cut(text: &str) -> bool {
    let text = text.trim_end();
    text.ends_with('\u{2026}') || text.ends_with("...") || text.ends_with("[truncated]")
}

/// Whether the log shows that ranks began: what follows then is known to be their initialisation.
fn begins(facts: &Facts, id: Id) -> bool {
    let some = |key| facts.known(id, key).is_some_and(|n: u64| n > 0);
    let announced = |h: Id| facts.known(h, host::BOOTSTRAP_INTERFACE).is_some();
    facts.known(id, run::RANKS).is_some()
        || some(run::INTER)
        || some(run::INTRA)
        || facts.below(id, Subject::Host).any(announced)
}

fn is_link_local(gid: &str) -> bool {
    gid.get(..4)
        .is_some_and(|head| head.eq_ignore_ascii_case("fe80"))
        || gid.starts_with("169.254.")
}

/// The peer that connected, by the eight bytes where NCCL expects its magic, printed as a number of
/// a little-endian CPU.
fn intruder(text: &str) -> String {
    let unknown = || "something that is not this run".to_owned();
    let Some((_, rest)) = text.split_once("magic ") else {
        return unknown();
    };
    let digits = rest.trim_start_matches("0x");
    let end = digits.find(|c: char| !c.is_ascii_hexdigit());
    let digits = digits.get(..end.unwrap_or(digits.len())).unwrap_or("");
    let Ok(number) = u64::from_str_radix(digits, 16) else {
        return unknown();
    };
    let bytes = number.to_le_bytes();
    let said = String::from_utf8_lossy(&bytes);
    let said = said.trim_end_matches(|c: char| c.is_control());
    let begins = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
    if begins(&["GET ", "HEAD ", "POST ", "PUT ", "OPTIONS", "PRI "]) {
        format!("an HTTP client (`{said}…`): a health check, or something that collects metrics")
    } else if begins(&["SSH-"]) {
        "an SSH client: a scanner".into()
    } else if bytes.starts_with(&[0x16, 0x03]) {
        "a TLS client: a health check or a scanner".into()
    } else {
        unknown()
    }
}

/// CUDA's numbers of the texts that NCCL before 2.19 prints alone (`cudaGetErrorString`).
fn cuda_code(text: &str) -> Option<u64> {
    const TEXTS: &[(&str, u64)] = include!(concat!(std::env!("OUT_DIR"), "/cuda_errors.texts.rs"));
    let found = TEXTS.iter().find(|(words, _)| text.contains(words))?;
    Some(found.1)
}

/// Whether the two ranks that a line about one GPU names are on one host.
fn whereabouts(facts: &Facts, run: Id, text: &str) -> PeerHost {
    let mut numbers = text.split("rank ").skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    });
    let (Some(a), Some(b)) = (numbers.next(), numbers.next()) else {
        return PeerHost::NotLogged;
    };
    let host_of = |number: u64| {
        let mut all = facts.below(run, Subject::Rank);
        let rank = all.find(|id| facts.known(*id, rank::NUMBER) == Some(number));
        if let Some(rank) = rank {
            return facts.parent(rank);
        }
        // The rank that writes such a line names itself first.
        let own = format!(" : rank {number} ");
        let mut events = facts.below(run, Subject::Event);
        let event = events.find(|id| {
            facts.known(*id, event::CLASS) == Some(LogClass::DuplicateGpu)
                && facts.known(*id, event::RANKS).is_some()
                && facts
                    .known(*id, event::TEXT)
                    .is_some_and(|t| t.contains(&own))
        })?;
        facts.parent(event)
    };
    match (host_of(a), host_of(b)) {
        (Some(a), Some(b)) if a == b => PeerHost::Same,
        (Some(_), Some(_)) => PeerHost::Other,
        _ => PeerHost::NotLogged,
    }
}

/// Which events count, and what came after them.
fn lead(facts: &mut Facts, run: Id, events: &[Id]) {
    let of_role = |facts: &Facts, role: Role| -> Vec<Id> {
        let all = events.iter().copied();
        all.filter(|id| facts.known(*id, event::ROLE) == Some(role))
            .filter(|id| is_open(facts, *id))
            .collect()
    };
    let failures = of_role(facts, Role::Failure);
    let consequences = of_role(facts, Role::Consequence);
    // A warning that counts as the first is one that unwinding follows.
    let is_first = |id: &Id| facts.known(*id, event::FIRST) == Some(true);
    let warned = events.iter().copied();
    let warned: Vec<Id> = warned
        .filter(|id| failures.is_empty() && is_first(id))
        .collect();
    let (among, heads) = if !warned.is_empty() {
        (&warned, warned.clone())
    } else if failures.is_empty() {
        let mut own = consequences.clone();
        own.retain(|id| facts.known(*id, event::PASSED_ON) != Some(true));
        let first = earliest(facts, if own.is_empty() { &consequences } else { &own });
        (&consequences, first.into_iter().collect::<Vec<_>>())
    } else {
        let is_ordered = |id: &Id| facts.known(*id, event::ORDERED) == Some(true);
        let ordered = failures.iter().copied();
        let ordered: Vec<Id> = ordered
            .filter(|id| is_first(id) && is_ordered(id))
            .collect();
        // Where nobody knows which came first, each may have.
        if ordered.is_empty() {
            (&failures, failures.clone())
        } else {
            let mut heads = ordered;
            heads.extend(absences(facts, &failures, &heads));
            (&failures, heads)
        }
    };
    let kind = |facts: &Facts, id: Id| {
        (
            facts.known(id, event::CLASS),
            facts.known(id, event::FAULT),
            facts.known(id, event::STATUS),
            facts.known(id, event::FUNCTION),
        )
    };
    let kinds: HashSet<_> = heads.iter().map(|id| kind(facts, *id)).collect();
    let among: HashSet<Id> = among.iter().copied().collect();
    let mut leading = Vec::new();
    let mut followed: BTreeMap<&'static str, u64> = BTreeMap::new();
    for &id in events {
        let leads = among.contains(&id) && kinds.contains(&kind(facts, id));
        facts.know(id, event::LEADS, leads, &origin(facts, id));
        let role = facts.known(id, event::ROLE);
        match (leads, role, facts.known(id, event::CLASS)) {
            (true, ..) => leading.push(id),
            (false, Some(Role::Failure | Role::Consequence), Some(class)) if is_open(facts, id) => {
                *followed.entry(class.word()).or_default() += 1;
            }
            _ => {}
        }
    }
    let how = "events of the log after the failure that counts";
    let count = followed.values().sum();
    facts.derive(run, run::FOLLOWED, count, how);
    let classes: Arc<[Arc<str>]> = followed.keys().map(|word| Arc::from(*word)).collect();
    facts.derive(run, run::FOLLOWED_CLASSES, classes, how);
    rdma_failure(facts, run, &leading);
}

/// What says that a node or a process was missing, beside nothing but those that waited for
/// another: launchers and schedulers notice it last.
fn absences(facts: &Facts, failures: &[Id], heads: &[Id]) -> Vec<Id> {
    const WAITED: [LogClass; 4] = [
        LogClass::ConnectFailed,
        LogClass::TorchStore,
        LogClass::TorchTimeout,
        LogClass::PeerClosed,
    ];
    const ABSENT: [LogClass; 4] = [
        LogClass::NodeFailed,
        LogClass::LaunchFailed,
        LogClass::LoginFailed,
        LogClass::CredentialRefused,
    ];
    if !heads.iter().all(|id| is_of_class(facts, *id, &WAITED)) {
        return Vec::new();
    }
    let failures = failures.iter().copied();
    failures
        .filter(|id| is_of_class(facts, *id, &ABSENT))
        .collect()
}

fn is_of_class(facts: &Facts, id: Id, classes: &[LogClass]) -> bool {
    let class = facts.known(id, event::CLASS);
    class.is_some_and(|class| classes.contains(&class))
}

/// Whether nothing that follows shows that the run went on after the event.
fn is_open(facts: &Facts, id: Id) -> bool {
    facts
        .known(id, event::OUTCOME)
        .is_none_or(|outcome| outcome == EventOutcome::Open)
}

/// The first of these events: by line where one file has all, else by time.
fn earliest(facts: &Facts, events: &[Id]) -> Option<Id> {
    let place = |id: Id| {
        let place = facts.known(id, event::PLACE)?;
        let (file, line) = place.rsplit_once([':', ' '])?;
        Some((Arc::<str>::from(file), line.parse::<u64>().ok()?))
    };
    let places: Option<Vec<_>> = events.iter().map(|id| place(*id)).collect();
    if let Some(places) = places
        && places.windows(2).all(|pair| pair[0].0 == pair[1].0)
    {
        let lines = places.iter().zip(events);
        return lines.min_by_key(|((_, line), _)| *line).map(|(_, id)| *id);
    }
    let after = |id: Id| facts.known(id, event::AFTER).map_or(f64::MAX, |s| s.0);
    events
        .iter()
        .copied()
        .min_by(|a, b| after(*a).total_cmp(&after(*b)))
}

/// When RDMA failed, if it is what leads.
fn rdma_failure(facts: &mut Facts, run: Id, leading: &[Id]) {
    let mut found = Fact::derived(RdmaFailure::None, "no failed call or request of RDMA leads");
    for &id in leading {
        let class = facts.known(id, event::CLASS);
        let at = origin(facts, id);
        let when = match (class, facts.known(id, event::WHEN)) {
            (Some(LogClass::Completion | LogClass::VerbsCall), Some(ReportedPhase::Init)) => {
                RdmaFailure::Start
            }
            (Some(LogClass::Completion), Some(ReportedPhase::Running)) => RdmaFailure::Later,
            (Some(LogClass::Completion), _) => RdmaFailure::NotLogged,
            // A connection is made when it is first used: that is its start.
            (Some(LogClass::VerbsCall), _) => RdmaFailure::Start,
            _ => continue,
        };
        found = Fact::Known(when, at);
        break;
    }
    facts.set(run, run::RDMA_FAILURE, found);
}

/// Interfaces of the host's inside among those that carry data over TCP, beside one that reaches
/// others.
fn sockets_inside(facts: &mut Facts, id: Id) {
    let inside = facts.get(id, host::SOCKET_INTERFACES).map(|names| {
        let inside: Arc<[Arc<str>]> = names.iter().filter(|n| is_inside(n)).cloned().collect();
        if inside.len() < names.len() {
            inside
        } else {
            Arc::from([])
        }
    });
    let sockets_inside = inside.clone().map(|names| names.len() as u64);
    facts.set(id, host::SOCKETS_INSIDE, sockets_inside);
    facts.set(id, host::SOCKETS_INSIDE_NAMES, inside);
}

/// Whether an interface of this name is a bridge, or an end of a network inside the host.
fn is_inside(interface: &str) -> bool {
    const INSIDE: [&str; 11] = [
        "docker", "virbr", "br-", "veth", "cni", "lxcbr", "lxdbr", "podman", "dummy", "ip6tnl",
        "kube-",
    ];
    INSIDE.iter().any(|head| interface.starts_with(head))
}

/// What an interface is, by its name and address.
fn bootstrap_kind(facts: &mut Facts, id: Id) {
    let address = facts.known(id, host::BOOTSTRAP_ADDRESS);
    let address = address.as_deref().unwrap_or("");
    let interface = facts.get(id, host::BOOTSTRAP_INTERFACE);
    let kind = interface.map(|interface| kind_of(&interface, address));
    facts.set(id, host::BOOTSTRAP_KIND, kind);
}

fn kind_of(interface: &str, address: &str) -> BootstrapKind {
    let address = address.trim_start_matches('[');
    if interface == "lo" || address.starts_with("127.") || address == "::1" {
        return BootstrapKind::Loopback;
    }
    if is_inside(interface) {
        return BootstrapKind::Virtual;
    }
    if is_link_local(address) {
        return BootstrapKind::LinkLocal;
    }
    if address.starts_with("172.17.") {
        return BootstrapKind::Container;
    }
    BootstrapKind::Usual
}

/// What hosts chose, side by side.
fn choices(facts: &mut Facts, id: Id, hosts: &[Id]) {
    let ports = hosts.iter().filter_map(|h| facts.known(*h, host::IB_PORTS));
    let most = ports.max().ok_or_else(|| Gap::missing("host.ib_ports"));
    facts.set(id, run::MOST_PORTS, Fact::of(most, "the most of any host"));
    let versions = facts.get(id, run::VERSIONS);
    let seen = versions.map(|versions| versions.len() as u64);
    facts.set(id, run::VERSIONS_SEEN, seen);

    let mut by_network: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    for &h in hosts {
        if let Some(network) = facts.known(h, host::NETWORK) {
            let names = by_network.entry(network).or_default();
            names.push(facts.name(h).to_owned());
        }
    }
    let told = by_network.iter();
    let told = told.map(|(network, names)| format!("{network} on {}", several(names)));
    let told: Vec<String> = told.collect();
    let networks = different(facts, hosts, host::NETWORK);
    facts.set(id, run::NETWORKS_CHOSEN, networks);
    let carriers = different(facts, hosts, host::CARRIER);
    facts.set(id, run::CARRIERS_CHOSEN, carriers);
    let told = if told.is_empty() {
        Fact::Unknown(Gap::missing("host.network"))
    } else {
        Fact::derived(Arc::from(told.join("; ")), "`Using network` of each host")
    };
    facts.set(id, run::NETWORKS_BY_HOST, told);
}

/// The first few names, and how many more.
fn several(names: &[String]) -> String {
    const SHOWN: usize = 4;
    match names.get(SHOWN..) {
        Some(rest) if rest.len() > 1 => {
            format!("{} and {} more", names[..SHOWN].join(", "), rest.len())
        }
        _ => names.join(", "),
    }
}

/// How many different values hosts have: unknown where one that is missing could change the answer.
fn different<T: Typed>(facts: &Facts, hosts: &[Id], key: Key<T>) -> Fact<u64> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut gap = None;
    for &h in hosts {
        match facts.get(h, key).erase() {
            Fact::Known(value, _) => {
                seen.insert(value.to_string());
            }
            Fact::Unknown(missing) => gap = Some(missing),
        }
    }
    match (seen.len(), gap) {
        (0, None) => Fact::Unknown(Gap::missing(key.path())),
        (0 | 1, Some(gap)) => Fact::Unknown(gap),
        (n, _) => Fact::derived(n as u64, format!("different values of {}", key.path())),
    }
}

/// Devices that an entry takes beside the one whose name it is.
fn also_matches(facts: &mut Facts, host: Id, variable: Id) {
    if facts.known(variable, env::NAME).as_deref() != Some("NCCL_IB_HCA") {
        return;
    }
    let both = facts
        .get(variable, env::VALUE)
        .zip(facts.get(host, host::HCAS));
    let (value, devices) = match both.into_result() {
        Ok(both) => both,
        Err(gap) => return facts.set(variable, env::ALSO_MATCHES_COUNT, Fact::Unknown(gap)),
    };
    let found: Arc<[Arc<str>]> = longer(&value, &devices).into();
    let how = format!("NCCL_IB_HCA={value} and the devices of `NET/IB : Using`");
    let count = found.len() as u64;
    facts.derive(variable, env::ALSO_MATCHES_COUNT, count, &how);
    facts.derive(variable, env::ALSO_MATCHES, found, &how);
}

/// Whether the plugin that the variable names was looked for and not found.
fn plugin_missing(facts: &mut Facts, host: Id, variable: Id) {
    if facts.known(variable, env::NAME).as_deref() != Some("NCCL_NET_PLUGIN") {
        return;
    }
    let missing = facts.get(variable, env::VALUE).flat_map(|value| {
        let named = |file: &Arc<str>| **file == *value || file.contains(&format!("-{value}."));
        let files = facts.get(host, host::PLUGINS_MISSING);
        files.map(|files| &*value != "none" && files.iter().any(named))
    });
    facts.set(variable, env::PLUGIN_MISSING, missing);
}

/// For each variable the hosts that log which variables are set, and not this one.
fn missing_on(facts: &mut Facts, hosts: &[Id]) {
    let mut of_name: BTreeMap<Arc<str>, Vec<(Id, Id)>> = BTreeMap::new();
    let mut telling: BTreeSet<Id> = BTreeSet::new();
    for &host in hosts {
        for variable in facts.below(host, Subject::Env) {
            if let Some(name) = facts.known(variable, env::NAME) {
                of_name.entry(name).or_default().push((host, variable));
            }
            if facts.known(host, host::NETWORK).is_some() {
                telling.insert(host);
            }
        }
    }
    for of_name in of_name.into_values() {
        let having: BTreeSet<Id> = of_name.iter().map(|(host, _)| *host).collect();
        let without = telling.difference(&having);
        let names: Vec<String> = without.map(|id| facts.name(*id).to_owned()).collect();
        let how = "the variables that each host logs";
        for (host, variable) in of_name {
            // Where no other host tells of its variables, nobody knows.
            if telling.iter().any(|other| *other != host) {
                facts.derive(variable, env::MISSING_ON_COUNT, names.len() as u64, how);
                facts.derive(variable, env::MISSING_ON, several(&names).into(), how);
            }
        }
    }
}

/// Of these devices, those that an entry takes although it is the name of another: `mlx5_1` takes
/// mlx5_10.
fn longer(value: &str, devices: &[Arc<str>]) -> Vec<Arc<str>> {
    if value.starts_with(['=', '^']) {
        return Vec::new();
    }
    let entries: Vec<&str> = value
        .split(',')
        .filter_map(|entry| entry.split(':').next())
        .filter(|name| name.ends_with(|c: char| c.is_ascii_digit()))
        .collect();
    let named = |device: &str| entries.contains(&device);
    let beside = |device: &str| {
        entries.iter().any(|entry| {
            device
                .strip_prefix(entry)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    devices
        .iter()
        .filter(|device| !named(device) && beside(device))
        .cloned()
        .collect()
}

/// Relates hosts of the log, and what the log says of them, with nodes that were examined, by name.
fn join(facts: &mut Facts, run: Id, hosts: &[Id]) {
    let mut nodes: HashMap<String, Id> = HashMap::new();
    for id in facts.all(Subject::Node) {
        nodes.entry(short(facts.name(id))).or_insert(id);
    }
    for &host in hosts {
        let Some(node) = nodes.get(&short(facts.name(host))) else {
            continue;
        };
        facts.relate(host, *node);
        facts.relate(run, *node);
        for subject in [Subject::Event, Subject::Env] {
            for id in facts.below(host, subject).collect::<Vec<_>>() {
                facts.relate(id, *node);
            }
        }
    }
}

/// A host's name without its domain.
fn short(name: &str) -> String {
    let head = name.split('.').next().unwrap_or(name);
    head.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::testing::stated;
    use super::*;

    fn log(facts: &mut Facts) -> (Id, Id) {
        let run = facts.instance(Subject::Run, Facts::CLUSTER, "run 1");
        let host = facts.instance(Subject::Host, run, "n1");
        (run, host)
    }

    fn add(facts: &mut Facts, host: Id, class: LogClass, role: Role, line: u64) -> Id {
        let id = facts.instance(Subject::Event, host, &format!("{line}"));
        facts.set(id, event::CLASS, stated(class));
        facts.set(id, event::ROLE, stated(role));
        facts.set(id, event::PLACE, stated(format!("job.log:{line}").into()));
        facts.set(id, event::TEXT, stated("text".into()));
        id
    }

    fn mark(facts: &mut Facts, id: Id, first: bool, ordered: bool) {
        facts.set(id, event::FIRST, stated(first));
        facts.set(id, event::ORDERED, stated(ordered));
    }

    #[test]
    fn the_first_failure_leads_and_consequences_follow() {
        let mut facts = Facts::new();
        let (run, host) = log(&mut facts);
        let closed = add(&mut facts, host, LogClass::PeerClosed, Role::Consequence, 3);
        let first = add(&mut facts, host, LogClass::Completion, Role::Failure, 5);
        let later = add(&mut facts, host, LogClass::Cuda, Role::Failure, 9);
        mark(&mut facts, first, true, true);
        mark(&mut facts, later, false, true);
        derive(&mut facts);
        let leads = |id| facts.known(id, event::LEADS);
        assert_eq!(
            [leads(closed), leads(first), leads(later)],
            [Some(false), Some(true), Some(false)]
        );
        assert_eq!(facts.known(run, run::FOLLOWED), Some(2));
        assert_eq!(
            facts.known(run, run::RDMA_FAILURE),
            Some(RdmaFailure::NotLogged)
        );
    }

    #[test]
    fn where_the_order_is_not_known_each_failure_leads() {
        let mut facts = Facts::new();
        let (_, host) = log(&mut facts);
        let a = add(&mut facts, host, LogClass::Completion, Role::Failure, 5);
        let b = add(&mut facts, host, LogClass::Cuda, Role::Failure, 9);
        mark(&mut facts, a, true, false);
        mark(&mut facts, b, false, false);
        derive(&mut facts);
        assert_eq!(facts.known(a, event::LEADS), Some(true));
        assert_eq!(facts.known(b, event::LEADS), Some(true));
    }

    #[test]
    fn of_consequences_alone_the_first_leads() {
        let mut facts = Facts::new();
        let (run, host) = log(&mut facts);
        let late = add(
            &mut facts,
            host,
            LogClass::PeerClosed,
            Role::Consequence,
            12,
        );
        let soon = add(
            &mut facts,
            host,
            LogClass::TorchTimeout,
            Role::Consequence,
            4,
        );
        derive(&mut facts);
        assert_eq!(facts.known(soon, event::LEADS), Some(true));
        assert_eq!(facts.known(late, event::LEADS), Some(false));
        assert_eq!(facts.known(run, run::RDMA_FAILURE), Some(RdmaFailure::None));
    }

    #[test]
    fn interfaces_by_what_they_reach() {
        for (interface, address, kind) in [
            ("lo", "127.0.0.1", BootstrapKind::Loopback),
            ("docker0", "172.17.0.1", BootstrapKind::Virtual),
            ("br-1f2e", "172.18.0.1", BootstrapKind::Virtual),
            ("br0", "10.1.1.1", BootstrapKind::Usual),
            ("eth0", "172.17.0.3", BootstrapKind::Container),
            ("eth0", "172.170.0.3", BootstrapKind::Usual),
            ("eth0", "fe80::1%eth0", BootstrapKind::LinkLocal),
            ("ib0", "10.10.0.1", BootstrapKind::Usual),
            ("eno8303", "100.83.167.142", BootstrapKind::Usual),
        ] {
            assert_eq!(kind_of(interface, address), kind, "{interface} {address}");
        }
    }

    #[test]
    fn a_prefix_takes_longer_names_too() {
        let devices: Vec<Arc<str>> = ["mlx5_1", "mlx5_10", "mlx5_2", "mlx5_11"]
            .map(Arc::from)
            .into();
        let names = |value: &str| longer(value, &devices).len();
        assert_eq!(names("mlx5_1"), 2);
        assert_eq!(names("mlx5_1:1,mlx5_10"), 1);
        assert_eq!(names("=mlx5_1"), 0);
        assert_eq!(names("^mlx5_1"), 0);
        assert_eq!(names("mlx5"), 0);
    }

    #[test]
    fn cuda_texts_have_numbers() {
        let old = "Cuda failure 'system not yet initialized'";
        assert_eq!(cuda_code(old), Some(802));
        assert_eq!(cuda_code("Cuda failure 'something new'"), None);
    }

    #[test]
    fn one_gpu_or_one_identity() {
        let mut facts = Facts::new();
        let (run, host) = log(&mut facts);
        let other = facts.instance(Subject::Host, run, "n2");
        for (host, number) in [(host, 0), (host, 1), (other, 8)] {
            let id = facts.instance(Subject::Rank, host, &format!("rank {number}"));
            facts.set(id, rank::NUMBER, stated(number));
        }
        let place = |a: u64, b: u64| {
            let text =
                format!("Duplicate GPU detected : rank {a} and rank {b} both on CUDA device 1b000");
            whereabouts(&facts, run, &text)
        };
        assert_eq!(place(0, 1), PeerHost::Same);
        assert_eq!(place(0, 8), PeerHost::Other);
        assert_eq!(place(0, 9), PeerHost::NotLogged);
    }

    #[test]
    fn hosts_without_a_network_keep_the_number_open() {
        let mut facts = Facts::new();
        let (run, host) = log(&mut facts);
        let other = facts.instance(Subject::Host, run, "n2");
        facts.set(host, host::NETWORK, stated("IB".into()));
        derive(&mut facts);
        assert_eq!(facts.known(run, run::NETWORKS_CHOSEN), None);
        let mut facts2 = Facts::new();
        let (run, host) = log(&mut facts2);
        let _ = other;
        let other = facts2.instance(Subject::Host, run, "n2");
        facts2.set(host, host::NETWORK, stated("IB".into()));
        facts2.set(other, host::NETWORK, stated("Socket".into()));
        derive(&mut facts2);
        assert_eq!(facts2.known(run, run::NETWORKS_CHOSEN), Some(2));
        assert_eq!(
            facts2.known(run, run::NETWORKS_BY_HOST).as_deref(),
            Some("IB on n1; Socket on n2")
        );
    }

    #[test]
    fn a_host_is_the_node_of_its_name() {
        let mut facts = Facts::new();
        let (_, host) = log(&mut facts);
        let node = facts.new_node("N1.cluster.local");
        let id = add(&mut facts, host, LogClass::VerbsCall, Role::Failure, 5);
        derive(&mut facts);
        assert!(facts.touches(node, id) && facts.touches(node, host));
    }
}
