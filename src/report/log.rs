//! The report on a log of NCCL: first whether RDMA was used, then the line that says so, then causes and what stays open.

mod found;
mod shown_transport;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

pub use self::shown_transport::ShownTransport;

use super::headline::unknown_failure;
use super::{EvidenceLine, Finding, Report, plural, some, text};
use crate::check::Catalogue;
use crate::exit::Exit;
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

/// The report on a log.
#[derive(Debug, Serialize)]
pub struct LogReport {
    /// The files of the log, as they were named.
    pub files: Vec<String>,
    /// The answers, one for each run.
    pub answers: Vec<Answer>,
    /// What benchmarks printed, one sentence each, and of which other tools there are outputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Sentence>,
    /// Files and lines that were not read or only counted: a sentence for each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<Sentence>,
    /// What the runs' lines show of the transport, in the order of the answers.
    #[serde(skip)]
    pub transports: Vec<ShownTransport>,
    /// The report.
    #[serde(flatten)]
    pub report: Report,
}

/// Whether a run used RDMA.
#[derive(Debug, Serialize)]
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
}

/// Lines of channels between nodes: each channel is logged by its sender and by its receiver.
#[derive(Clone, Copy, Debug, Default, Serialize)]
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

impl LogReport {
    /// Puts the answer in front of a report.
    pub fn new(catalogue: &Catalogue, facts: &Facts, mut report: Report) -> Self {
        let answers: Vec<Answer> = facts
            .all(Subject::Run)
            .map(|id| answer(catalogue, facts, id, &report))
            .collect();
        let found = found::sentences(facts);
        let not_read = not_read(facts);
        report.headline = headline(catalogue, &answers, &found, &not_read, &report);
        // If the question is asked and has no answer, nothing is healthy.
        let open = catalogue.get(OVER_TCP).is_some() && answers.iter().any(|a| a.rdma == "unknown");
        if open && matches!(report.exit(), Exit::Healthy | Exit::Warnings) {
            report.exit = Exit::Undecided.code();
            report.status = "undecided";
        }
        let files = facts.texts(Facts::CLUSTER, cluster::LOGS);
        LogReport {
            files: files.map(|file| file.to_string()).collect(),
            answers,
            found,
            not_read,
            transports: facts
                .all(Subject::Run)
                .map(|id| ShownTransport::of(facts, id))
                .collect(),
            report,
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
    let all = said.chain(left_out).chain(outputs);
    all.map(Sentence::from).collect()
}

/// Writes the report for people.
///
/// # Errors
///
/// What `out` returns.
pub fn write(
    out: &mut dyn Write,
    log: &LogReport,
    detail: text::Detail,
    width: usize,
) -> io::Result<()> {
    text::headline(out, &log.report)?;
    if detail.quiet {
        return Ok(());
    }
    let several = log.answers.len() > 1;
    let files = named(&log.files);
    if log.answers.len() != 1 {
        text::aside(out, &files)?;
    }
    let mut shown = Vec::new();
    for answer in &log.answers {
        let outcome = answer
            .outcome
            .map_or(String::new(), |how| format!(" · {how}"));
        let name = if several {
            format!("{} · {}{outcome}", answer.run, answer.what)
        } else {
            format!("{}{outcome} · {files}", answer.what)
        };
        text::aside(out, &name)?;
        if several {
            text::paragraph(out, "         ", 9, &answer.sentence, width)?;
        }
        for line in &answer.evidence {
            if !shown.contains(&line.origin) {
                text::evidence(out, line)?;
                shown.push(line.origin.clone());
            }
        }
        if let Some(settle) = &answer.settle {
            text::paragraph(out, "  settle ", 9, settle, width)?;
        }
    }
    // A single one is the answer.
    let told = log.answers.is_empty() && log.found.len() == 1;
    for sentence in log.found.iter().filter(|_| !told) {
        text::paragraph(out, "  found  ", 9, sentence, width)?;
    }
    for sentence in &log.not_read {
        text::paragraph(out, "  left   ", 9, sentence, width)?;
    }
    text::body(out, &log.report, detail, width, Some(shown))
}

/// The files by one name, or by their directory.
fn named(files: &[String]) -> String {
    match files {
        [one] if one == "-" => "standard input".into(),
        [one] => one.clone(),
        many => {
            let directory = |name: &String| name.rsplit_once('/').map(|(to, _)| to.to_owned());
            let first = many.first().and_then(directory);
            let count = plural(many.len() as u64, "file");
            match first.filter(|first| many.iter().all(|name| name.starts_with(first.as_str()))) {
                Some(directory) => format!("{count} in {directory}"),
                None => count,
            }
        }
    }
}

/// The answers, and what failed, in one sentence.
fn headline(
    catalogue: &Catalogue,
    answers: &[Answer],
    found: &[Sentence],
    not_read: &[Sentence],
    report: &Report,
) -> Sentence {
    let mut said: Vec<Sentence> = Vec::new();
    match answers {
        [] => match found {
            [] if not_read.is_empty() => {
                return "nothing to examine: no line of this log is recognised as NCCL's".into();
            }
            [] => {
                let not_read = Sentence::joined(not_read.iter().cloned(), "; ");
                return Sentence::from("nothing to examine: ").then(not_read);
            }
            [one] => said.push(one.clone()),
            [first, others @ ..] => {
                let others = plural(others.len() as u64, "further output");
                said.push(first.then_optionally(format!(" ({others} of tools below)")));
            }
        },
        [one] => said.push(one.sentence.clone()),
        many => {
            let count = |word: &str| many.iter().filter(|a| a.rdma == word).count() as u64;
            let words = [
                ("used", "RDMA used"),
                ("partly", "RDMA used by part"),
                ("not-used", "RDMA not used"),
                ("unknown", "RDMA cannot be determined"),
                ("does-not-apply", "one node"),
            ];
            let parts = words.iter().filter(|(word, _)| count(word) > 0);
            said.extend(
                parts.map(|(word, text)| format!("{}: {text}", plural(count(word), "run")).into()),
            );
        }
    }
    let fails = |finding: &&Finding| {
        let explains_tcp =
            finding.check == OVER_TCP || finding.consequences.iter().any(|c| c.check == OVER_TCP);
        !explains_tcp && catalogue.get(&finding.check).is_some()
    };
    let mut others = report.causes.iter().filter(fails);
    if let Some(first) = others.next() {
        let more = match first.subjects.len() {
            1 => String::new(),
            n => format!(" (and {}{} more)", at_least(report), n - 1),
        };
        let cause = if more.is_empty() {
            first.sentence.clone()
        } else {
            first.sentence.then_optionally(more)
        };
        // The failure of a run comes first, and what a benchmark has against it before its figures.
        if first.severity == "error" || answers.is_empty() {
            said.insert(0, cause)
        } else {
            said.push(cause)
        }
        match others.count() {
            0 => {}
            1 => said.push("one other cause below".into()),
            n => said.push(format!("{n} other causes below").into()),
        }
    }
    // A driver's line is no part of a run that has its answer.
    let quoted = unknown_failure(&report.notes)
        .filter(|note| answers.is_empty() || note.check.starts_with("log/"));
    if let (Some(unknown), []) = (quoted, report.causes.as_slice()) {
        said.insert(0, unknown.sentence.clone());
    }
    said.extend(report.damage.first().cloned());
    Sentence::joined(said, "; ")
}

/// A count of what was found is no count of what there is, where not all was read.
fn at_least(report: &Report) -> &'static str {
    if report.damage.is_empty() {
        ""
    } else {
        "at least "
    }
}

fn answer(catalogue: &Catalogue, facts: &Facts, id: Id, report: &Report) -> Answer {
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
                _ => because(catalogue, report, &who),
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
                _ => because(catalogue, report, ""),
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
    let networks = networks(facts, hosts);
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

/// The hosts' choice of network, if the log does not show whether there are several hosts. `who` is how it calls them.
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

/// The cause of the traffic over TCP, if a check found one. A variable comes before what it leads to.
/// The sentence leaves out `who`, which the answer names before it.
fn because(catalogue: &Catalogue, report: &Report, who: &str) -> Sentence {
    let claims = |f: &&Finding| f.consequences.iter().any(|c| c.check == OVER_TCP);
    if !report.causes.iter().any(|f| claims(&f)) {
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
    let causes = report.causes.iter().filter(explains);
    let Some(cause) = causes.min_by_key(|f| !is_variable(f)) else {
        return Sentence::default();
    };
    let sentence = match cause.premise {
        Some(premise) => cause.sentence.without_premise(premise),
        None => cause.sentence.clone(),
    };
    let because = Sentence::new(vec![Span::MayEnd, Span::Text(", because ".into())]);
    let because = because.then(sentence.without_subject(who));
    match cause.subjects.len() {
        1 => because,
        n => because.then_optionally(format!(" (and {} more)", n - 1)),
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
