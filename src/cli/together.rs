//! `rdma-doctor check --cluster`: one process on each node, started by the engine that the cluster has; rank 0 gathers, judges, and says the verdict.

mod left_here;
pub mod starter;

use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::hosts::HostsArgs;
use super::input::{BadInput, bad_usage};
use super::output::{self, StandardError};
use super::seconds;
use crate::cluster::handshake::NodeIdentity;
use crate::cluster::key::{Key, Trust};
use crate::cluster::ssh_child::{RunAssignment, stdio};
use crate::examine::given::{ExitOn, NodePlacement};
use crate::examine::launch::session::{Joined, join};
use crate::examine::launch::{addresses, addresses_of_all};
use crate::launch::{self, Launch};
use crate::live::{environment, files};
use crate::terminal;

/// How nodes come together.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several nodes")]
pub struct TogetherArgs {
    /// Judge all nodes of this launch together: one process on each, started by srun, mpirun, torchrun or an Indexed Job. A step of Slurm on several nodes
    /// does so by itself. A RECORDING or --root, if given, is examined in place of this node
    #[arg(long)]
    pub cluster: bool,
    /// Do not join others, though this is a step of several nodes
    #[arg(long, conflicts_with = "cluster")]
    pub alone: bool,
    /// Address at which rank 0 listens; by default its host as the engine names it and a port derived from the job; with --hosts the first host and any
    /// free port
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub rendezvous: Option<(String, u16)>,
    /// Rank of this node, from 0, if no engine provides it
    #[arg(long, value_name = "N", requires_all = ["nodes", "rendezvous"])]
    pub rank: Option<u64>,
    /// Number of nodes, if no engine provides it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub nodes: Option<u64>,
    /// File with the key that all nodes share, readable only by its owner; - is standard input; by default the key is RDMA_DOCTOR_KEY
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Wait this long for the other nodes, after this node's own check
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub wait: Duration,
    /// Ranks that end with the verdict's exit status; mpirun, torchrun and Jobs kill or restart the others when one ends with a status other than 0
    #[arg(long, value_enum, default_value_t = ExitOn::Rank0, value_name = "WHO")]
    pub exit_on: ExitOn,
    /// Take part as standard input says, and end with it: --hosts starts the doctor so.
    #[arg(long, hide = true, conflicts_with_all = ["hosts", "hostfile", "cluster", "alone", "rank", "nodes", "rendezvous", "key_file"])]
    pub held: bool,
    /// How hosts are reached.
    #[command(flatten)]
    pub hosts: HostsArgs,
}

impl TogetherArgs {
    /// Whether the command line says to join others.
    pub fn is_asked(&self) -> bool {
        self.cluster || self.rank.is_some()
    }
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text
        .rsplit_once(':')
        .ok_or("it is HOST:PORT, as n1:20000")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().map_err(|_| "the port is not a number")?;
    match (host.is_empty(), port) {
        (true, _) => Err("there is no host in it".into()),
        (_, 0) => Err("0 is not a port".into()),
        _ => Ok((host.to_owned(), port)),
    }
}

/// What this process does among the others.
#[derive(Debug)]
pub enum Role {
    /// Another process of this node acts for it.
    Idle,
    /// It takes part.
    Node(Box<NodePlacement>),
}

/// The ports of which a job's is one: below those that the kernel gives to who asks for any (`ip_local_port_range`, from 32768 by default).
const PORTS: (u16, u16) = (20_000, 10_000);

/// The role of this process: `None` where it examines its node alone. Who examines no live machine (`of_this_machine`) joins others only where it is told to.
///
/// # Errors
///
/// The launch is not understood, or says too little; the key is none.
pub fn role(args: &TogetherArgs, of_this_machine: bool) -> anyhow::Result<Option<Role>> {
    if args.alone || !(of_this_machine || args.is_asked()) {
        return Ok(None);
    }
    if args.held {
        return Err(bad_usage("--held is for what measures between nodes"));
    }
    if let (Some(rank), Some(nodes), Some((host, port))) = (args.rank, args.nodes, &args.rendezvous)
    {
        if rank >= nodes {
            return Err(bad_usage(format!(
                "--rank {rank} --nodes {nodes}: ranks count from 0"
            )));
        }
        if nodes == 1 {
            return Ok(None);
        }
        let own = party(rank, nodes, String::new());
        let understood = format!("rank {rank} of {nodes}, as the command line says");
        let at = (host.clone(), *port);
        return place(args, own, nodes, Vec::new(), at, understood).map(Some);
    }
    if args.rank.is_some() {
        return Err(bad_usage("--rank: give --nodes and --rendezvous too"));
    }
    let launch = match launch::read(environment::variable) {
        Ok(launch) => launch,
        // Without --cluster, another program's variables stop nothing.
        Err(_) if !args.cluster => return Ok(None),
        Err(error) => return Err(bad_usage(format!("--cluster: {error}"))),
    };
    let is_of_slurm =
        |launch: &Launch| launch.engine == launch::Engine::Slurm && launch.is_of_several_nodes();
    match launch {
        Some(launch) if args.cluster || is_of_slurm(&launch) => of_launch(args, &launch),
        None if args.cluster => Err(bad_usage(
            "--cluster: no engine started this process (srun, mpirun, torchrun, an Indexed Job): give --rank, --nodes and --rendezvous",
        )),
        _ => Ok(None),
    }
}

/// What this process does in a measurement between nodes.
pub enum Part {
    /// The node is alone: nobody is to be joined.
    Alone,
    /// Another process of this node acts for it.
    Idle,
    /// It takes part.
    Joined(Box<Joined>),
}

/// Joins the others of the launch, where there are any.
///
/// # Errors
///
/// The launch is not understood; there is no key; rank 0 is not reached, or its port is taken.
pub fn part(args: &TogetherArgs) -> anyhow::Result<Part> {
    if args.held {
        return held(args);
    }
    Ok(match role(args, true)? {
        None => Part::Alone,
        Some(Role::Idle) => Part::Idle,
        Some(Role::Node(place)) => {
            Part::Joined(Box::new(join(&place, args.wait, None, &StandardError)?))
        }
    })
}

/// The part that this process has by the word of who started it from another host.
fn held(args: &TogetherArgs) -> anyhow::Result<Part> {
    let told = assignment()?;
    if told.nodes < 2 {
        return Ok(Part::Alone);
    }
    Ok(Part::Joined(Box::new(join(
        &placement(&told)?,
        args.wait,
        Some(&told),
        &StandardError,
    )?)))
}

/// What who started this process from another host says of its part.
///
/// # Errors
///
/// Standard input is closed.
pub fn assignment() -> anyhow::Result<RunAssignment> {
    stdio::receive_assignment(env!("CARGO_PKG_VERSION"))
        .context("no launcher tells this node's rank")
}

/// A node's place by the word of who started it from another host.
///
/// # Errors
///
/// The key is none.
pub fn placement(told: &RunAssignment) -> anyhow::Result<NodePlacement> {
    let nodes = told.nodes;
    let key = Key::from_text(&told.key).map_err(|error| BadInput(format!("the key: {error}")))?;
    Ok(NodePlacement {
        own: party(told.rank, nodes, String::new()),
        nodes,
        names: told.names.clone(),
        trust: Trust::Key(key),
        host: told.host.clone(),
        port: told.port,
        understood: format!("rank {} of {nodes}, started over ssh", told.rank),
    })
}

fn of_launch(args: &TogetherArgs, launch: &Launch) -> anyhow::Result<Option<Role>> {
    let engine = &launch.engine;
    match launch.acts() {
        Some(true) => {}
        Some(false) => return Ok(Some(Role::Idle)),
        None => {
            return Err(bad_usage(format!(
                "{engine} does not say which of its node's processes this is: start one on each node, or give --rank, --nodes and --rendezvous"
            )));
        }
    }
    let Some(nodes) = args.nodes.or(launch.nodes) else {
        return Err(bad_usage(format!(
            "{engine} does not say how many nodes there are: give --nodes"
        )));
    };
    let by = launch
        .from
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let known = Launch {
        nodes: Some(nodes),
        ranks: launch.ranks.or(Some(nodes)),
        ..launch.clone()
    };
    let understood = format!("{} ({})", known.words(), by.collect::<Vec<_>>().join(" "));
    if nodes == 1 {
        output::say(&understood);
        return Ok(None);
    }
    let job = launch.job.clone().unwrap_or_default();
    let at = match (&args.rendezvous, &launch.master) {
        (Some(at), _) => at.clone(),
        (None, Some(host)) => (host.clone(), port_of(&job, launch.master_port)),
        (None, None) => {
            return Err(bad_usage(format!(
                "{engine} does not say where rank 0 is: give --rendezvous HOST:PORT"
            )));
        }
    };
    let own = party(launch.rank, launch.ranks.unwrap_or(nodes), job);
    place(args, own, nodes, launch.names.clone(), at, understood).map(Some)
}

fn party(rank: u64, ranks: u64, job: String) -> NodeIdentity {
    NodeIdentity {
        version: env!("CARGO_PKG_VERSION").into(),
        job,
        rank,
        ranks,
        name: environment::node_name(),
    }
}

fn place(
    args: &TogetherArgs,
    own: NodeIdentity,
    nodes: u64,
    names: Vec<String>,
    (host, port): (String, u16),
    understood: String,
) -> anyhow::Result<Role> {
    let stores = environment::variable("MASTER_PORT").and_then(|port| port.trim().parse().ok());
    if stores == Some(port) {
        return Err(bad_usage(format!(
            "port {port} is MASTER_PORT, which the job's own store holds: give --rendezvous another one"
        )));
    }
    let (trust, host) = match key(args)? {
        Some(key) => (Trust::Key(key), host),
        None if names.is_empty() => {
            let on_loopback = addresses(&host).iter().any(IpAddr::is_loopback);
            if !on_loopback {
                return Err(bad_usage(format!(
                    "no key was given (RDMA_DOCTOR_KEY, --key-file), nor does an engine name the nodes: then only processes of this machine are trusted, and {host} is not an address of its loopback interface"
                )));
            }
            (Trust::Loopback, "127.0.0.1".to_owned())
        }
        // Only who listens has to know the others' addresses.
        None if own.rank == 0 => (Trust::Allocation(addresses_of_all(&names)), host),
        None => (Trust::Allocation(Vec::new()), host),
    };
    Ok(Role::Node(Box::new(NodePlacement {
        own,
        nodes,
        names,
        trust,
        host,
        port,
        understood,
    })))
}

/// The longest key that is read from standard input.
const MOST_KEY: u64 = 4096;

/// The key of a file that nobody else can read, or of the environment.
fn key(args: &TogetherArgs) -> anyhow::Result<Option<Key>> {
    let (text, of) = match &args.key_file {
        Some(path) if path == Path::new("-") => (
            std::io::read_to_string(std::io::stdin().lock().take(MOST_KEY))
                .map_err(|error| BadInput(format!("the key on standard input: {error}")))?,
            "the key on standard input".to_owned(),
        ),
        Some(path) => (private(path)?, terminal::path(path)),
        None => match environment::variable("RDMA_DOCTOR_KEY") {
            Some(text) => (text, "RDMA_DOCTOR_KEY".to_owned()),
            None => return Ok(None),
        },
    };
    let key = Key::from_text(&text).map_err(|error| BadInput(format!("{of}: {error}")))?;
    Ok(Some(key))
}

fn private(path: &Path) -> anyhow::Result<String> {
    let unreadable = |error| BadInput::of(path, error);
    let mode = files::mode(path).map_err(unreadable)? & 0o7777;
    if mode & 0o077 != 0 {
        let why = format_args!("others can read it (mode {mode:04o}): chmod 600");
        return Err(BadInput::of(path, why).into());
    }
    Ok(files::read_input(path).map_err(unreadable)?)
}

/// The port of a job: the same on all of its nodes, and seldom another job's. Never the job's own, which its store may hold.
fn port_of(job: &str, masters: Option<u16>) -> u16 {
    let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    // torchrun calls its jobs all the same ("none"): its port tells them apart.
    let masters_text = masters.map_or(String::new(), |port| port.to_string());
    let hash = job.bytes().chain(masters_text.bytes());
    let hash = hash.fold(0x811c_9dc5, fnv);
    // Below 10,000, which fits.
    let port = PORTS.0 + (hash % u32::from(PORTS.1)) as u16;
    if Some(port) == masters {
        port + 1
    } else {
        port
    }
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
        for master in 20_000..30_000 {
            assert_ne!(port_of("77", Some(master)), master);
        }
        assert_ne!(port_of("none", Some(29500)), port_of("none", Some(29501)));
    }
}
