//! `rdma-doctor check --cluster`: one process on each node, started by the engine that the cluster has; rank 0 gathers, judges, and says the verdict.

use std::io::Write;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::input::{BadInput, BadUsage};
use super::{AskArgs, input, many, record, seconds};
use crate::check::Catalogue;
use crate::cluster::handshake::Party;
use crate::cluster::key::{Key, Trust};
use crate::cluster::launch::{self, Launch};
use crate::exit::Exit;
use crate::fact::Subject;
use crate::report::{Policy, Report};
use crate::source::live::meeting::{Gathered, Guest, Host};
use crate::source::live::{self, files};
use crate::source::recording::Recording;

/// How nodes come together.
#[derive(Clone, Debug, Args)]
pub struct TogetherArgs {
    /// Judge all nodes of this launch together: one process on each, started by srun, mpirun, torchrun or an Indexed Job. A step of Slurm on several nodes
    /// does so by itself
    #[arg(long, conflicts_with_all = ["recordings", "root"])]
    pub cluster: bool,
    /// Do not join others, though this is a step of several nodes
    #[arg(long, conflicts_with = "cluster")]
    pub alone: bool,
    /// Where rank 0 listens; by default its host as the engine names it, and a port that follows from the job
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub rendezvous: Option<(String, u16)>,
    /// This node's place among the nodes, from 0, where no engine says it
    #[arg(long, value_name = "N", requires_all = ["nodes", "rendezvous"])]
    pub rank: Option<u64>,
    /// How many nodes there are, where no engine says it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub nodes: Option<u64>,
    /// A file with the key that all nodes share, which only its owner can read; else RDMA_DOCTOR_KEY is it
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Wait so long for the other nodes, beyond the time of one's own check
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub wait: Duration,
    /// Who ends with the verdict's exit status: mpirun, torchrun and Jobs kill the others, or start again, where one ends with another than 0
    #[arg(long, value_enum, default_value_t = ExitOn::Rank0, value_name = "WHO")]
    pub exit_on: ExitOn,
}

/// Who carries the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExitOn {
    /// Rank 0; the others end with 0 where they did their part.
    Rank0,
    /// All.
    All,
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text
        .rsplit_once(':')
        .ok_or("it is HOST:PORT, as n1:20000")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().map_err(|_| "the port is no number")?;
    match (host.is_empty(), port) {
        (true, _) => Err("there is no host in it".into()),
        (_, 0) => Err("0 is no port".into()),
        _ => Ok((host.to_owned(), port)),
    }
}

/// What this process does among the others.
#[derive(Debug)]
pub enum Role {
    /// Another process of this node acts for it.
    Idle,
    /// It takes part.
    Node(Box<Place>),
}

/// A node's place among the others.
#[derive(Debug)]
pub struct Place {
    own: Party,
    /// How many nodes take part.
    nodes: u64,
    /// Their names, where the engine says them.
    names: Vec<String>,
    trust: Trust,
    host: String,
    port: u16,
    /// What was understood, for a person.
    understood: String,
}

/// The longest recording that a node takes of another: the largest real one is 3 MB as text, a tenth of it packed.
const MOST: u64 = 64 << 20;
/// The longest verdict.
const MOST_SAID: u64 = 64 << 10;
/// The ports of which a job's is one: below those that the kernel gives to who asks for any (`ip_local_port_range`, from 32768 by default).
const PORTS: (u16, u16) = (20_000, 10_000);

/// The role of this process: `None` where it examines its node alone.
///
/// # Errors
///
/// The launch is not understood, or says too little; the key is none.
pub fn role(args: &TogetherArgs) -> anyhow::Result<Option<Role>> {
    if args.alone {
        return Ok(None);
    }
    let bad = |text: String| anyhow::Error::from(BadUsage(text));
    if let (Some(rank), Some(nodes), Some((host, port))) = (args.rank, args.nodes, &args.rendezvous)
    {
        if rank >= nodes {
            return Err(bad(format!(
                "--rank {rank} --nodes {nodes}: ranks count from 0"
            )));
        }
        let own = party(rank, nodes, String::new());
        let understood = format!("rank {rank} of {nodes}, as the command line says");
        return place(
            args,
            own,
            nodes,
            Vec::new(),
            (host.clone(), *port),
            understood,
        )
        .map(Some);
    }
    let launch = match launch::read(live::variable) {
        Ok(launch) => launch,
        // Who did not ask for others is not held up by variables that are none of his.
        Err(_) if !args.cluster => return Ok(None),
        Err(error) => return Err(bad(format!("--cluster: {error}"))),
    };
    match launch {
        Some(launch) if args.cluster => of_launch(args, &launch).map(Some),
        Some(launch)
            if launch.engine == launch::Engine::Slurm && launch.is_of_several_nodes() =>
        {
            of_launch(args, &launch).map(Some)
        }
        None if args.cluster => Err(bad(
            "--cluster: no engine started this process (srun, mpirun, torchrun, an Indexed Job): give --rank, --nodes and --rendezvous".into(),
        )),
        _ => Ok(None),
    }
}

fn of_launch(args: &TogetherArgs, launch: &Launch) -> anyhow::Result<Role> {
    let bad = |text: String| anyhow::Error::from(BadUsage(text));
    match launch.acts() {
        Some(true) => {}
        Some(false) => return Ok(Role::Idle),
        None => {
            return Err(bad(format!(
                "{} does not say which of its node's processes this is: start one on each node, or give --rank, --nodes and --rendezvous",
                launch.engine
            )));
        }
    }
    let Some(nodes) = args.nodes.or(launch.nodes) else {
        return Err(bad(format!(
            "{} does not say how many nodes there are: give --nodes",
            launch.engine
        )));
    };
    let job = launch.job.clone().unwrap_or_default();
    let at = match (&args.rendezvous, &launch.master) {
        (Some(at), _) => at.clone(),
        (None, Some(host)) => (host.clone(), port_of(&job, launch.master_port)),
        (None, None) => {
            return Err(bad(format!(
                "{} does not say where rank 0 is: give --rendezvous HOST:PORT",
                launch.engine
            )));
        }
    };
    let understood = format!(
        "{}: rank {} of {}, {nodes} nodes ({})",
        launch.engine,
        launch.rank,
        launch.ranks.unwrap_or(nodes),
        launch
            .from
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" "),
    );
    let own = party(launch.rank, launch.ranks.unwrap_or(nodes), job);
    place(args, own, nodes, launch.names.clone(), at, understood)
}

fn party(rank: u64, ranks: u64, job: String) -> Party {
    Party {
        version: env!("CARGO_PKG_VERSION").into(),
        job,
        rank,
        ranks,
        name: live::node_name(),
    }
}

fn place(
    args: &TogetherArgs,
    own: Party,
    nodes: u64,
    names: Vec<String>,
    (host, port): (String, u16),
    understood: String,
) -> anyhow::Result<Role> {
    let trust = match key(args)? {
        Some(key) => Trust::Key(key),
        None if names.is_empty() => Trust::Loopback,
        None => Trust::Allocation(
            names
                .iter()
                .filter_map(|name| (name.as_str(), 0).to_socket_addrs().ok())
                .flatten()
                .map(|address| address.ip())
                .collect(),
        ),
    };
    Ok(Role::Node(Box::new(Place {
        own,
        nodes,
        names,
        trust,
        host,
        port,
        understood,
    })))
}

/// The key of a file that nobody else can read, or of the environment.
fn key(args: &TogetherArgs) -> anyhow::Result<Option<Key>> {
    let (text, of) = match &args.key_file {
        Some(path) => (private(path)?, path.display().to_string()),
        None => match live::variable("RDMA_DOCTOR_KEY") {
            Some(text) => (text, "RDMA_DOCTOR_KEY".to_owned()),
            None => return Ok(None),
        },
    };
    let key = Key::from_text(&text).map_err(|error| BadInput(format!("{of}: {error}")))?;
    Ok(Some(key))
}

fn private(path: &Path) -> anyhow::Result<String> {
    let bad = |why: String| BadInput(format!("{}: {why}", path.display()));
    let mode = files::mode(path).map_err(|error| bad(error.to_string()))?;
    if mode & 0o077 != 0 {
        return Err(bad(format!(
            "others can read it (mode {:04o}): chmod 600",
            mode & 0o7777
        ))
        .into());
    }
    Ok(files::read_input(path).map_err(|error| bad(error.to_string()))?)
}

/// The port of a job: the same on all of its nodes, and seldom another job's. Never the job's own, which its store may hold.
fn port_of(job: &str, masters: Option<u16>) -> u16 {
    let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = job.bytes().fold(0x811c_9dc5, fnv);
    // Below 10,000, which fits.
    let port = PORTS.0 + (hash % u32::from(PORTS.1)) as u16;
    if Some(port) == masters {
        port + 1
    } else {
        port
    }
}

/// What rank 0 tells the others.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    exit: u8,
    headline: String,
}

/// What this node does, and the report where it is rank 0's.
pub enum Outcome {
    /// The report on all nodes; the others wait to be told.
    Report(Box<(Report, Gathered)>),
    /// What rank 0 said.
    Told(Exit),
}

/// Takes part: records this node, and gives the recording or judges all.
///
/// # Errors
///
/// Rank 0 is not reached, or does not answer; its port is taken.
pub fn run(
    place: &Place,
    args: &TogetherArgs,
    ask: &AskArgs,
    catalogue: &Catalogue,
    policy: Policy,
    with_passes: bool,
) -> anyhow::Result<Outcome> {
    // The others start when they do, and need their own time to look.
    let wait = ask.deadline + args.wait;
    if place.own.rank != 0 {
        return guest(place, args, ask, wait).map(Outcome::Told);
    }
    say(&place.understood);
    if !place.trust.is_authenticated() && place.nodes > 1 {
        say(
            "unauthenticated: no key was given (RDMA_DOCTOR_KEY, --key-file); what others say is believed by their addresses",
        );
    }
    let host = Host::open(place.port, place.own.clone(), place.trust.clone()).map_err(|error| {
        let port = place.port;
        BadInput(format!("rank 0 cannot listen at port {port}: {error}; give another one to all (--rendezvous HOST:PORT)"))
    })?;
    let (own, gathered) = std::thread::scope(|scope| {
        let gathering = scope.spawn(|| host.gather(place.nodes, wait, MOST, |_| {}));
        let own = input::record(ask);
        let gathered = gathering.join().unwrap_or_default();
        (own, gathered)
    });
    drop(host);
    let mut recordings = vec![own?];
    let mut broken = Vec::new();
    for came in gathered.came.values() {
        match unpacked(&came.message, &came.name) {
            Ok(recording) => recordings.push(recording),
            Err(error) => broken.push(format!("what {} gave: {error:#}", came.name)),
        }
    }
    for (at, why) in &gathered.turned_away {
        say(&format!("turned away: {at}: {why}"));
    }
    for why in broken {
        say(&why);
    }
    let expected = expected(place, &recordings);
    let report = many::recordings(catalogue, &recordings, Some(expected), policy, with_passes);
    Ok(Outcome::Report(Box::new((report, gathered))))
}

/// Who should be there: the engine's names; where it says a number only, those that came and as many without a name.
fn expected(place: &Place, recordings: &[Recording]) -> Vec<String> {
    let came: Vec<String> = recordings.iter().map(|r| r.header.node.clone()).collect();
    if place.names.len() as u64 == place.nodes {
        // The engine's names may be short, the nodes' own long, or the other way round.
        let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
        let name = |name: &String| {
            let same = came.iter().find(|came| short(came) == short(name));
            same.unwrap_or(name).clone()
        };
        return place.names.iter().map(name).collect();
    }
    let missing = place.nodes.saturating_sub(came.len() as u64);
    let mut all = came;
    all.extend((0..missing).map(|n| format!("(unnamed node {} of {missing})", n + 1)));
    all
}

/// Tells the others, and says which did not hear it.
pub fn tell(report: &Report, exit: Exit, mut gathered: Gathered) {
    let said = Said {
        exit: exit.code(),
        headline: report.headline.clone(),
    };
    // Two plain members: there is nothing that JSON cannot hold.
    let text = serde_json::to_vec(&said).unwrap_or_default();
    for (_, deaf) in gathered.tell(&text, Duration::from_secs(10)) {
        say(&format!("the verdict did not reach {deaf}"));
    }
}

fn guest(
    place: &Place,
    args: &TogetherArgs,
    ask: &AskArgs,
    wait: Duration,
) -> anyhow::Result<Exit> {
    let recording = input::record(ask)?;
    let text = record::to_text(&recording, None);
    let packed = zstd::encode_all(text.as_bytes(), 3).context("the recording cannot be packed")?;
    let mut guest = Guest::join(&place.host, place.port, &place.own, &place.trust, args.wait)
        .map_err(|error| BadInput(unreached(&error.to_string(), &recording, place)))?;
    guest
        .give(&packed)
        .context("rank 0 did not take the recording")?;
    let said = guest
        .wait(2 * wait, MOST_SAID)
        .map_err(|error| BadInput(format!("rank 0 did not say its verdict: {error}")))?;
    let said: Said = serde_json::from_slice(&said).context("rank 0's verdict")?;
    let exit = Exit::ALL.into_iter().find(|exit| exit.code() == said.exit);
    Ok(match args.exit_on {
        ExitOn::Rank0 => Exit::Healthy,
        ExitOn::All => exit.unwrap_or(Exit::Internal),
    })
}

/// Why rank 0 was not reached, with the rule of this node's packet filter that decides, where one does.
fn unreached(error: &str, recording: &Recording, place: &Place) -> String {
    use crate::fact::flow::{self, Direction, Passage, Purpose};
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let rule = nodes.first().and_then(|(_, node)| {
        facts.below(*node, Subject::Flow).find_map(|flow| {
            let outward = facts.known(flow, flow::DIRECTION)? == Direction::Out;
            let tcp = matches!(
                facts.known(flow, flow::PURPOSE)?,
                Purpose::Bootstrap | Purpose::Rendezvous
            );
            let lost = matches!(
                facts.known(flow, flow::VERDICT)?,
                Passage::Dropped | Passage::Rejected
            );
            let rule = facts.known(flow, flow::RULE)?;
            let (interface, ports) = (
                facts.known(flow, flow::INTERFACE)?,
                facts.known(flow, flow::PORTS)?,
            );
            (outward && tcp && lost)
                .then(|| format!("{rule} (TCP to ports {ports} over {interface})"))
        })
    });
    match rule {
        Some(rule) => format!("{error}; this node's packet filter decides: {rule}"),
        None => format!(
            "{error}; from {} to port {}: a packet filter on the way, another --rendezvous, or rank 0 did not start",
            place.own.name, place.port
        ),
    }
}

fn unpacked(packed: &[u8], name: &str) -> anyhow::Result<Recording> {
    // Recording::read knows a packed one by its first bytes, and bounds what comes out of it.
    Ok(Recording::read(packed, Path::new(name), 0)?)
}

fn say(text: &str) {
    // A terminal that is gone misses nothing of the report.
    let _ = writeln!(std::io::stderr(), "rdma-doctor: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_rank_0() {
        assert_eq!(host_and_port("n1:20000"), Ok(("n1".into(), 20000)));
        assert_eq!(host_and_port("[fe80::1]:2"), Ok(("fe80::1".into(), 2)));
        for bad in ["n1", "n1:", ":7", "n1:0", "n1:70000"] {
            assert!(host_and_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_jobs_port_is_its_own_and_never_its_masters() {
        let ports: std::collections::HashSet<u16> = (0..100)
            .map(|job: u32| port_of(&job.to_string(), None))
            .collect();
        assert!(ports.len() > 95);
        assert!(ports.iter().all(|port| (20_000..30_000).contains(port)));
        let port = port_of("77", None);
        assert_eq!(port_of("77", Some(port)), port + 1);
    }
}
