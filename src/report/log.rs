//! What a report says of logs: what is wrong leads, and whether RDMA was used stands below it, with
//! the line that says so.

mod found;
mod shown_transport;
pub(super) mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

pub use self::shown_transport::ShownTransport;

use super::{EvidenceLine, Finding, headline, plural, some};
use crate::check::Catalogue;
use crate::fact::channel::{Direction, Transport};
use crate::fact::event::{self, LogClass, Role};
use crate::fact::run::{Carrier, Library, RunOutcome, TransportProof};
use crate::fact::{
    Fact, Facts, Id, Key, Origin, Subject, Typed, Why, channel, cluster, hca, host, run,
};
use crate::sentence::{Sentence, Span};
use crate::small_sort;

/// The settings with which a log shows whether RDMA was used.
const LOG_MORE: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH";

/// The check that fails where traffic between nodes goes over TCP: its causes are the answer's.
const OVER_TCP: &str = "log/inter-node-over-tcp";

/// What logs say beyond what is wrong.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogAnswers {
    /// The files of the log, as they were named.
    pub files: Vec<String>,
    /// The answers, one for each run.
    pub answers: Vec<Answer>,
    /// What benchmarks printed, one sentence each, and the outputs of other tools with their key
    /// values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Sentence>,
    /// Files and lines that were not read or only counted: a sentence for each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<Sentence>,
    /// What the runs' lines show of the transport, in the order of the answers.
    #[serde(skip)]
    pub transports: Vec<ShownTransport>,
    /// Whether the headline says whether RDMA was used.
    #[serde(skip)]
    pub is_in_headline: bool,
}

/// Whether a run used RDMA.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Answer {
    /// The run.
    pub run: String,
    /// `used`, `partly`, `not-used`, `unknown` or `does-not-apply`.
    pub rdma: &'static str,
    /// The answer in a sentence.
    pub sentence: Sentence,
    /// The library and its version, machines, ranks.
    pub what: String,
    /// How the run ended, if its lines show that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// Lines of channels between nodes, if they are logged.
    pub channels: Option<Channels>,
    /// The facts and lines on which the answer rests.
    pub evidence: Vec<EvidenceLine>,
    /// What would settle the question, if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<String>,
    /// Whether no line of the log is recognised as NCCL's.
    #[serde(skip)]
    pub is_silent: bool,
}

/// Lines of channels between nodes: each channel is logged by its sender and by its receiver.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Channels {
    /// All.
    pub all: u64,
    /// Over RDMA.
    pub rdma: u64,
    /// Over TCP sockets.
    pub socket: u64,
    /// Of those over RDMA, the senders'.
    pub send: u64,
    /// Of these, with GPUDirect RDMA.
    pub send_gdr: u64,
    /// Of those over RDMA, the receivers'.
    pub receive: u64,
    /// Of these, with GPUDirect RDMA.
    pub receive_gdr: u64,
}

impl LogAnswers {
    /// What is said of the logs beside these causes; `None` where no log was given.
    pub(super) fn from_facts(
        catalogue: &Catalogue,
        facts: &Facts,
        causes: &[Finding],
    ) -> Option<Self> {
        let files = facts.known(Facts::CLUSTER, cluster::LOGS)?;
        let mut answers = Vec::new();
        let mut transports = Vec::new();
        for run in facts.all(Subject::Run) {
            answers.push(answer(catalogue, facts, run, causes));
            transports.push(ShownTransport::of(facts, run));
        }
        Some(LogAnswers {
            files: files.iter().map(ToString::to_string).collect(),
            answers,
            found: found::sentences(facts),
            not_read: not_read(facts),
            transports,
            is_in_headline: false,
        })
    }

    /// Whether it was asked if RDMA was used, and no line tells.
    pub(super) fn is_open(&self, catalogue: &Catalogue) -> bool {
        catalogue.get(OVER_TCP).is_some() && self.answers.iter().any(|a| a.rdma == "unknown")
    }

    /// The answers in one sentence, where nothing is wrong, or nothing but what they say; `None`
    /// where a
    /// finding leads.
    pub(super) fn headline(
        &self,
        catalogue: &Catalogue,
        causes: &[Finding],
        damage: &[Sentence],
    ) -> Option<Sentence> {
        let is_told = match causes.first() {
            None => true,
            Some(first) => self.states_traffic_over_tcp(catalogue, first),
        };
        if !is_told {
            return None;
        }
        let mut said = self.in_one_sentence();
        if !causes.is_empty() {
            said = said.then_optionally(headline::other_causes(causes.len(), ""));
        }
        let ends = damage.first().into_iter();
        Some(Sentence::joined(
            std::iter::once(said).chain(ends.cloned()),
            "; ",
        ))
    }

    /// Whether the answer says what this cause says: that the traffic goes over TCP, and why.
    fn states_traffic_over_tcp(&self, catalogue: &Catalogue, cause: &Finding) -> bool {
        let is_of_tcp =
            cause.check == OVER_TCP || cause.consequences.iter().any(|c| c.check == OVER_TCP);
        is_of_tcp && self.answers.len() == 1 && catalogue.get(&cause.check).is_some()
    }

    fn in_one_sentence(&self) -> Sentence {
        match (self.answers.as_slice(), self.found.as_slice()) {
            ([], []) => {
                let why = match self.not_read.as_slice() {
                    [] => "no line of this log is recognised as NCCL's".into(),
                    not_read => Sentence::joined(not_read.iter().cloned(), "; "),
                };
                Sentence::from("nothing to examine: ").then(why)
            }
            ([], [one]) => one.clone(),
            ([], [first, others @ ..]) => {
                let others = plural(others.len() as u64, "further output");
                first.then_optionally(format!(" ({others} of tools below)"))
            }
            ([one], _) => one.sentence.clone(),
            (many, _) => {
                let words = [
                    ("used", "RDMA used"),
                    ("partly", "RDMA used by part"),
                    ("not-used", "RDMA not used"),
                    ("unknown", "RDMA cannot be determined"),
                    ("does-not-apply", "one node"),
                ];
                let mut counted = Vec::new();
                for (word, text) in words {
                    let runs = many.iter().filter(|answer| answer.rdma == word).count();
                    if runs > 0 {
                        let runs = plural(runs as u64, "run");
                        counted.push(Sentence::from(format!("{runs}: {text}")));
                    }
                }
                Sentence::joined(counted, "; ")
            }
        }
    }
}

/// `3 files are not text: core.1, core.2, model.pt`.
fn not_read(facts: &Facts) -> Vec<Sentence> {
    let kinds = [
        (cluster::LOGS_NO_TEXT, "not text", "not text"),
        (
            cluster::LOGS_RECORDINGS,
            "a recording (--with judges it with the log)",
            "recordings (--with judges them with the log)",
        ),
    ];
    let left_out = facts.texts(Facts::CLUSTER, cluster::LEFT_OUT);
    let left_out = left_out.map(|what| what.to_string());
    let said = kinds.into_iter().filter_map(|(key, one, many)| {
        let names = facts.known(Facts::CLUSTER, key)?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let what = match names.len() {
            1 => format!("is {one}"),
            _ => format!("are {many}"),
        };
        let files = plural(names.len() as u64, "file");
        Some(format!("{files} {what}, and not read: {}", some(&names)))
    });
    let tools = facts.texts(Facts::CLUSTER, cluster::LOGS_UNREAD);
    let outputs = tools.map(|tool| format!("output of {tool}: not read"));
    let all = said
        .chain(left_out)
        .chain(outputs)
        .chain(found::withheld(facts));
    all.map(Sentence::from).collect()
}

fn answer(catalogue: &Catalogue, facts: &Facts, id: Id, causes: &[Finding]) -> Answer {
    let hosts = crate::derive::log::hosts(facts, id);
    let channels = channels(facts, id);
    let mut evidence = Vec::new();
    let (rdma, said) = match (
        facts.get(id, run::NODES),
        facts.get(id, run::CARRIER),
        facts.known(id, run::PROOF),
    ) {
        (Fact::Known(..=1, _), ..) => {
            show(facts, id, run::NODES, &mut evidence);
            let ranks = facts.known(id, run::RANKS);
            let ranks = ranks.map_or(String::new(), |n| format!(" with {}", plural(n, "rank")));
            (
                "does-not-apply",
                format!("does not apply: the run has one node{ranks}").into(),
            )
        }
        (_, Fact::Known(Carrier::Nvlink, _), _) => {
            show(facts, id, run::INTER_NVLINK, &mut evidence);
            let all = facts.known(id, run::INTER_NVLINK).unwrap_or(0);
            (
                "does-not-apply",
                format!(
                    "does not apply: all of {} between nodes go over NVLink (MNNVL)",
                    plural(all, "channel")
                )
                .into(),
            )
        }
        (Fact::Unknown(_), Fact::Known(carrier, _), Some(TransportProof::Network | TransportProof::Adapters)) => {
            let verdict = match carrier {
                Carrier::Rdma => "used by",
                Carrier::Mixed => "used by part of",
                _ => "not used by",
            };
            let who = who(facts, &hosts);
            let because = match carrier {
                Carrier::Rdma => Sentence::default(),
                _ => because(catalogue, causes, &who),
            };
            let they = if choosers(facts, &hosts).len() == 1 { "it" } else { "they" };
            let said = by_hosts(facts, &hosts, they, &mut evidence);
            let said = Sentence::from(format!("{verdict} {who}")).then_optionally(format!(": {said}"));
            (word(carrier), said.then(because).then_optionally("; ").then(OTHERS))
        }
        (_, Fact::Known(carrier, _), proof) => {
            show(facts, id, run::CARRIER, &mut evidence);
            show(facts, id, run::INTER_GDR, &mut evidence);
            let collnet = facts.known(id, run::COLLNET_CHANNELS);
            let collnet = collnet.map(|n| plural(n, "channel"));
            let how = match (proof, channels, collnet) {
                (Some(TransportProof::Channels), Some(counted), collnet) => {
                    let said = by_channels(facts, &hosts, carrier, counted);
                    match collnet {
                        Some(n) => said.then_optionally(format!(". {n} over CollNet, too")),
                        None => said,
                    }
                }
                (Some(TransportProof::Channels), None, Some(collnet)) if carrier == Carrier::Rdma => {
                    Sentence::from("used").then_optionally(format!(". {collnet} over CollNet"))
                }
                _ => by_network(facts, id, &hosts, carrier, proof),
            };
            let because = match carrier {
                Carrier::Rdma => Sentence::default(),
                _ => because(catalogue, causes, ""),
            };
            (word(carrier), how.then(because))
        }
        (Fact::Unknown(_), Fact::Unknown(_), _) => {
            let who = who(facts, &hosts);
            let said = by_hosts(facts, &hosts, &who, &mut evidence);
            let said = Sentence::from(format!("cannot be determined: {said}"));
            ("unknown", said.then_optionally(", and ").then(OTHERS))
        }
        (Fact::Known(..), Fact::Unknown(gap), _) => (
            "unknown",
            match gap.why {
                Why::NotLogged(_) => "cannot be determined: the log has neither lines of channels between nodes nor `Using network`".into(),
                why => format!("cannot be determined: {why}").into(),
            },
        ),
    };
    let unread = match facts.get(id, run::CARRIER) {
        Fact::Unknown(gap) => matches!(gap.why, Why::NotSaid(_)),
        Fact::Known(..) => false,
    };
    // Variables of NCCL make no other library say more.
    let is_silent = rdma == "unknown" && facts.known(id, run::NCCL_LOGGED) == Some(false);
    let known = rdma != "unknown" && facts.known(id, run::NODES).is_some();
    let settle = match (rdma, facts.known(id, run::PROOF)) {
        _ if is_silent => Some(format!("if the program uses NCCL, run it with {LOG_MORE}")),
        // What its lines are is not known: other variables would not help.
        ("unknown", _) if unread => Some("give the logs of all hosts, whole".into()),
        ("unknown", _) | (_, Some(TransportProof::Network | TransportProof::Adapters))
            if !known =>
        {
            Some(format!(
                "run with {LOG_MORE}, and give the logs of all hosts"
            ))
        }
        (
            "used" | "partly" | "not-used",
            Some(TransportProof::Network | TransportProof::Adapters),
        ) => Some(format!(
            "lines of channels prove it: run with {LOG_MORE}, and log until the first collective has ended"
        )),
        _ => None,
    };
    Answer {
        run: facts.name(id).to_owned(),
        rdma,
        sentence: if is_silent {
            "no line of this log is recognised as NCCL's".into()
        } else {
            Sentence::from("RDMA: ").then(said)
        },
        what: if is_silent {
            "no line recognised as NCCL's".into()
        } else {
            what(facts, id)
        },
        outcome: outcome(facts, id),
        channels,
        evidence,
        settle,
        is_silent,
    }
}

fn word(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Rdma => "used",
        Carrier::Socket | Carrier::DirectTcp => "not-used",
        Carrier::Mixed => "partly",
        Carrier::Plugin => "unknown",
        Carrier::Nvlink => "does-not-apply",
    }
}

/// `used. 64 of 64 channels between nodes go over NET/IB on mlx5_0, …`
fn by_channels(facts: &Facts, hosts: &[Id], carrier: Carrier, counted: Channels) -> Sentence {
    let networks = networks_of_channels(facts, hosts);
    let verdict = match carrier {
        Carrier::Rdma => "used",
        Carrier::Socket => "not used",
        Carrier::DirectTcp => "not used, but TCP that reaches the GPUs' memory",
        Carrier::Mixed => "used by part",
        Carrier::Plugin => "cannot be determined: the plugin is not known",
        Carrier::Nvlink => "does not apply",
    };
    let devices = match carrier {
        Carrier::Rdma | Carrier::Mixed | Carrier::Plugin | Carrier::Nvlink => {
            adapters(facts, hosts)
        }
        Carrier::Socket | Carrier::DirectTcp => interfaces(facts, hosts),
    };
    let on = if devices.is_empty() {
        String::new()
    } else {
        format!(" on {}", some(&devices))
    };
    let over = match carrier {
        Carrier::Socket | Carrier::DirectTcp => counted.socket.max(counted.all - counted.rdma),
        _ => counted.rdma,
    };
    let lines = if counted.all == 1 {
        "channel"
    } else {
        "channels"
    };
    let said = Sentence::from(verdict).then_optionally(format!(
        ". {over} of {} {lines} between nodes over NET/{networks}{on}",
        counted.all
    ));
    let told = [
        (counted.send_gdr, counted.send, "send"),
        (counted.receive_gdr, counted.receive, "receive"),
    ];
    let told = told.iter().filter(|(_, all, _)| *all > 0);
    let told: Vec<String> = told
        .map(|(with, all, way)| format!("{with} of {all} that {way}"))
        .collect();
    if told.is_empty() {
        said
    } else {
        said.then_optionally(format!(". GPUDirect RDMA: {}", told.join(", ")))
    }
}

/// The chosen network, if no channel is logged.
fn by_network(
    facts: &Facts,
    id: Id,
    hosts: &[Id],
    carrier: Carrier,
    proof: Option<TransportProof>,
) -> Sentence {
    let networks = networks(facts, hosts);
    let chose = hosts
        .iter()
        .filter(|h| facts.known(**h, host::NETWORK).is_some())
        .count();
    let outcome = facts.known(id, run::OUTCOME);
    let went_on = matches!(outcome, Some(RunOutcome::Succeeded | RunOutcome::WentOn));
    let verdict = match (carrier, proof) {
        (Carrier::Rdma, Some(TransportProof::Requests)) if went_on => "used",
        (Carrier::Rdma, Some(TransportProof::Queues)) if went_on => "tried, and a call failed",
        (Carrier::Socket, Some(TransportProof::Requests)) if went_on => "not used",
        (Carrier::Rdma, Some(TransportProof::Requests)) => "used, until it failed",
        (Carrier::Rdma, Some(TransportProof::Queues)) => "tried, and it fails",
        (Carrier::Rdma, _) => "chosen, and no line of a channel proves its use",
        (Carrier::Socket, Some(TransportProof::Requests)) => {
            "not used: sockets carried the traffic until they failed"
        }
        (Carrier::Socket | Carrier::DirectTcp, _) => "not chosen",
        (Carrier::Mixed, _) => "chosen by part of the hosts",
        (Carrier::Plugin, _) => "cannot be determined: the plugin is not known",
        (Carrier::Nvlink, _) => "does not apply",
    };
    if chose == 0 {
        return verdict.into();
    }
    let of = plural(hosts.len() as u64, "host");
    Sentence::from(verdict).then_optionally(match proof {
        Some(TransportProof::Adapters) => {
            format!(". By what NCCL found, {chose} of {of} would take {networks}")
        }
        _ => format!(". {chose} of {of} chose {networks}"),
    })
}

/// The open questions if only one host's log is there.
const OTHERS: &str = "the log does not tell whether other nodes take part";

/// The hosts that say which network they chose.
fn choosers(facts: &Facts, hosts: &[Id]) -> Vec<Id> {
    let chose = |h: &Id| facts.known(*h, host::NETWORK).is_some();
    hosts.iter().copied().filter(chose).collect()
}

/// These by name or number.
fn who(facts: &Facts, hosts: &[Id]) -> String {
    match choosers(facts, hosts).as_slice() {
        [one] => facts.name(*one).to_owned(),
        many => plural(many.len() as u64, "host"),
    }
}

/// The hosts' choice of network, if the log does not show whether there are several hosts. `who` is
/// how it calls them.
fn by_hosts(facts: &Facts, hosts: &[Id], who: &str, evidence: &mut Vec<EvidenceLine>) -> String {
    let chose = choosers(facts, hosts);
    let Some(first) = chose.first() else {
        return "no line tells which network was chosen".into();
    };
    show(facts, *first, host::NETWORK, evidence);
    let mixed = facts.known(*first, host::CARRIER) == Some(Carrier::Mixed);
    let networks = match facts.known(*first, host::NETWORKS).filter(|_| mixed) {
        Some(all) => all.join(" and "),
        None => networks(facts, hosts),
    };
    let gdr = match facts.known(*first, host::GDR_HCAS) {
        Some(0) if facts.known(*first, host::CARRIER) == Some(Carrier::Rdma) => {
            ", without GPUDirect RDMA"
        }
        _ => "",
    };
    format!("{who} chose {networks}{gdr}")
}

/// How the run ended, if its lines show that.
fn outcome(facts: &Facts, id: Id) -> Option<&'static str> {
    let events = || facts.below(id, Subject::Event);
    let ended = |event: Id| facts.known(event, event::CLASS) == Some(LogClass::ProcessEnded);
    let failed = |event: Id| facts.known(event, event::ROLE) == Some(Role::Failure);
    match facts.get(id, run::OUTCOME) {
        Fact::Known(RunOutcome::Succeeded, _) => Some("the run ended as it should"),
        Fact::Known(RunOutcome::WentOn, _) if events().any(failed) => {
            Some("the run went on after its failures")
        }
        Fact::Known(RunOutcome::Failed, Origin::Logged(_)) => Some("the run ended with a failure"),
        Fact::Known(RunOutcome::Failed, _) if events().any(ended) => {
            Some("the run ended with a failure")
        }
        _ => None,
    }
}

/// The cause of the traffic over TCP, if a check found one. A variable comes before what it leads
/// to.
/// The sentence leaves out `who`, which the answer names before it.
fn because(catalogue: &Catalogue, causes: &[Finding], who: &str) -> Sentence {
    let claims = |f: &&Finding| f.consequences.iter().any(|c| c.check == OVER_TCP);
    if !causes.iter().any(|f| claims(&f)) {
        return Sentence::default();
    }
    let check = |f: &Finding| catalogue.get(&f.check);
    let over_tcp = catalogue.get(OVER_TCP);
    let is_because = |f: &Finding| {
        let (check, over_tcp) = (check(f)?, over_tcp?);
        Some(check.explains(over_tcp))
    };
    let explains = |f: &&Finding| claims(f) || is_because(f) == Some(true);
    let is_variable = |f: &&Finding| check(f).is_some_and(|c| c.subject == Subject::Env);
    let explaining = causes.iter().filter(explains);
    let Some(cause) = explaining.min_by_key(|f| !is_variable(f)) else {
        return Sentence::default();
    };
    let sentence = match cause.premise {
        Some(premise) => cause.sentence.without_premise(premise),
        None => cause.sentence.clone(),
    };
    let because = Sentence::new(vec![Span::MayEnd, Span::Text(", because ".into())]);
    let because = because.then(sentence.without_subject(who));
    let further = headline::further_names(&cause.subjects);
    if further.is_empty() {
        because
    } else {
        because.then_optionally(format!(" (and {})", some(&further)))
    }
}

fn channels(facts: &Facts, id: Id) -> Option<Channels> {
    let all = facts.known(id, run::INTER).filter(|all| *all > 0)?;
    let mut counted = Channels {
        all,
        rdma: facts.known(id, run::INTER_RDMA).unwrap_or(0),
        socket: facts.known(id, run::INTER_SOCKET).unwrap_or(0),
        ..Channels::default()
    };
    for channel in facts.below(id, Subject::Channel) {
        let known = |key| facts.known(channel, key);
        // A rank of which nothing is seen is on another node where the network leads to it.
        let collnet = facts.known(channel, channel::TRANSPORT) == Some(Transport::CollNet);
        if known(channel::INSIDE_NODE) == Some(true)
            || known(channel::RDMA) != Some(true)
            || collnet
        {
            continue;
        }
        let lines = facts.known(channel, channel::COUNT).unwrap_or(1);
        let direct = known(channel::GDR) == Some(true);
        let (sum, with) = match facts.known(channel, channel::DIRECTION) {
            Some(Direction::Send) => (&mut counted.send, &mut counted.send_gdr),
            Some(Direction::Receive) => (&mut counted.receive, &mut counted.receive_gdr),
            None => continue,
        };
        *sum += lines;
        *with += if direct { lines } else { 0 };
    }
    Some(counted)
}

fn networks(facts: &Facts, hosts: &[Id]) -> String {
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    for &h in hosts {
        names.extend(facts.known(h, host::NETWORK));
        if names.is_empty() {
            names.extend(facts.texts(h, host::NETWORKS));
        }
    }
    if names.is_empty() {
        let run = hosts.first().and_then(|h| facts.ancestor(*h, Subject::Run));
        names.extend(
            run.into_iter()
                .flat_map(|run| facts.texts(run, run::NETWORKS)),
        );
    }
    names.into_iter().collect::<Vec<_>>().join(" and ")
}

/// The networks that channels name, which need not be the one that NCCL said it would use.
fn networks_of_channels(facts: &Facts, hosts: &[Id]) -> String {
    let run = hosts.first().and_then(|h| facts.ancestor(*h, Subject::Run));
    let named = run.map(|run| facts.texts(run, run::NETWORKS));
    let named: Vec<Arc<str>> = named.into_iter().flatten().collect();
    if named.is_empty() {
        networks(facts, hosts)
    } else {
        named.join(" and ")
    }
}

/// The devices that channels name; if that is not known, those that NCCL lists.
fn adapters(facts: &Facts, hosts: &[Id]) -> Vec<String> {
    let mut used = BTreeSet::new();
    let mut listed = BTreeSet::new();
    for &h in hosts {
        for id in facts.below(h, Subject::Hca) {
            let device = facts.known(id, hca::DEVICE).map(|name| name.to_string());
            if facts.known(id, hca::CHANNELS).is_some_and(|n| n > 0) {
                used.extend(device.clone());
            }
            listed.extend(device);
        }
    }
    let chosen = if used.is_empty() { listed } else { used };
    let mut names: Vec<String> = chosen.into_iter().collect();
    // mlx5_2 before mlx5_10.
    small_sort::by_key(&mut names, |name| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.get(stem.len()..).and_then(|n| n.parse::<u64>().ok());
        (stem.to_owned(), number)
    });
    names
}

fn interfaces(facts: &Facts, hosts: &[Id]) -> Vec<String> {
    let names = hosts.iter();
    let names = names.flat_map(|h| facts.texts(*h, host::SOCKET_INTERFACES));
    let names: BTreeSet<String> = names.map(|name| name.to_string()).collect();
    names.into_iter().collect()
}

/// The library, its version, machines and ranks.
fn what(facts: &Facts, id: Id) -> String {
    let library = match facts.known(id, run::LIBRARY) {
        Some(Library::Rccl) => "RCCL",
        _ => "NCCL",
    };
    let version = facts
        .known(id, run::VERSION)
        .map_or("version not logged".into(), |v| v.to_string());
    let mut parts = vec![format!("{library} {version}")];
    let counts = [(run::NODES, "node"), (run::RANKS, "rank")];
    parts.extend(
        counts
            .iter()
            .filter_map(|(key, word)| Some(plural(facts.known(id, *key)?, word))),
    );
    parts.join(" · ")
}

fn show<T: Typed>(facts: &Facts, id: Id, key: Key<T>, evidence: &mut Vec<EvidenceLine>) {
    if let Fact::Known(value, origin) = facts.get(id, key).erase() {
        evidence.push(EvidenceLine {
            fact: key.path(),
            value: value.to_string(),
            origin: origin.to_string(),
            decides: true,
        });
    }
}
