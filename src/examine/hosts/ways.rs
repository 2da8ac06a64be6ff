//! Hosts that gave recordings try the ways between them: a doctor is started on each once more.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::cluster::gather_tree;
use crate::cluster::ssh::assignment::{assign, put_leader_first};
use crate::cluster::ssh::{RemoteCommand, SshDialogue};
use crate::cluster::ssh_child::RunAssignment;
use crate::examine::given::HostsRequest;
use crate::examine::many::work_in_order;
use crate::examine::sink::Sink;
use crate::examine::ways_message::WaysMessage;
use crate::live::worker::Progress;
use crate::live::{clock, judging_child, own_process, random};
use crate::measure::plan::reach::{TriedWays, Unreached};

/// The longest that rank 0 may say: of 500 nodes it is some megabytes.
const MOST: u64 = 256 << 20;
/// The longest that another node may say.
const MOST_OF_OTHER: u64 = 64 << 10;
/// How long all ways may take.
const TRYING: Duration = Duration::from_secs(60);
/// How long a node tries to reach rank 0, which listens already.
const MEETING: Duration = Duration::from_secs(10);
/// Below it no run is begun.
const SHORTEST: Duration = Duration::from_secs(2);
/// From so many hosts on, more files may have to be open than a process is given at first (1024).
const MANY: usize = 250;

/// What the hosts said of the ways between them.
#[derive(Default)]
pub struct WaysOfHosts {
    leader: String,
    /// What rank 0 said.
    said: Option<Vec<u8>>,
    /// What the others said.
    others: Vec<(String, Vec<u8>)>,
    left_out: Vec<String>,
}

impl WaysOfHosts {
    fn untried(why: impl Into<String>) -> Self {
        WaysOfHosts {
            left_out: vec![why.into()],
            ..WaysOfHosts::default()
        }
    }

    /// What came of them.
    pub(super) fn tried(&self) -> TriedWays {
        let mut tried = self.tried_at_rank_0();
        tried.left_out.extend(self.left_out.iter().cloned());
        for (host, said) in &self.others {
            let unreached = message(said).ok().and_then(|message| message.unreached);
            if let Some(why) = unreached {
                tried.unreached.push(Unreached {
                    host: host.clone(),
                    leader: self.leader.clone(),
                    why,
                });
            }
        }
        tried
    }

    fn tried_at_rank_0(&self) -> TriedWays {
        let Some(said) = &self.said else {
            return TriedWays::default();
        };
        let read = judging_child::input("the ways between the hosts", || message(said));
        match read.flatten() {
            Ok(message) => message.tried(),
            Err(why) => TriedWays {
                left_out: vec![format!("{}: {why}", self.leader)],
                ..TriedWays::default()
            },
        }
    }
}

fn message(said: &[u8]) -> Result<WaysMessage, String> {
    serde_json::from_slice(said).map_err(|error| error.to_string())
}

/// Has these hosts try the ways between them, until then at most.
pub(super) fn try_ways(
    request: &HostsRequest,
    names: &[&str],
    ends: Instant,
    sink: &dyn Sink,
) -> WaysOfHosts {
    if names.len() < 2 {
        return WaysOfHosts::untried("fewer than two hosts answered");
    }
    if gather_tree::fanin(names.len() as u64, None).is_some() {
        return WaysOfHosts::untried(format!("more than {} hosts", gather_tree::STAR));
    }
    let within = ends.saturating_duration_since(clock::now()).min(TRYING);
    if within < SHORTEST {
        return WaysOfHosts::untried("no time was left");
    }
    // Three pipes each.
    if names.len() > MANY {
        own_process::allow_many_files();
    }
    let remote = RemoteCommand {
        ssh: request.ssh.clone(),
        command: format!(
            "{} reach --wait {}",
            request.doctor,
            within.min(MEETING).as_secs_f64()
        ),
        deadline: within,
        max_output: MOST,
    };
    let (nodes, mut left_out) = start_all(&remote, names, request.fanout, sink);
    let ran = run(nodes, ends.min(clock::now() + TRYING));
    let mut ways = ran.unwrap_or_else(WaysOfHosts::untried);
    ways.left_out.append(&mut left_out);
    sink.progress(Progress::Done);
    ways
}

/// Starts a doctor on each: those that run, and why the others do not.
fn start_all(
    remote: &RemoteCommand,
    names: &[&str],
    fanout: usize,
    sink: &dyn Sink,
) -> (Vec<SshDialogue>, Vec<String>) {
    let done = AtomicU64::new(0);
    let of = names.len() as u64;
    let start = |at: usize| {
        let started = remote.start_own_version(names[at]);
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        let what = "hosts meet";
        sink.progress(Progress::Counted { count, of, what });
        started
    };
    let (mut nodes, mut left_out) = (Vec::new(), Vec::new());
    work_in_order(names.len(), fanout, start, |at, started| match started {
        Ok(node) => nodes.push(node),
        Err(why) => left_out.push(format!("{}: {why}", names[at])),
    });
    (nodes, left_out)
}

/// Tells all who they are, and waits for what they say.
fn run(mut nodes: Vec<SshDialogue>, ends: Instant) -> Result<WaysOfHosts, String> {
    if nodes.len() < 2 {
        return Err("fewer than two hosts take part".into());
    }
    put_leader_first(&mut nodes);
    let names: Vec<String> = nodes.iter().map(|node| node.host.clone()).collect();
    let mut leader = nodes.remove(0);
    let told = RunAssignment {
        key: random::hex_key().map_err(|error| format!("no random key: {error}"))?,
        rank: 0,
        nodes: names.len() as u64,
        host: leader.host.clone(),
        names,
        port: 0,
        absent: Vec::new(),
    };
    let within = ends.saturating_duration_since(clock::now());
    assign(&mut leader, &mut nodes, &told, within)
        .map_err(|why| format!("{}: {why}", leader.host))?;
    let of_leader = all_of(&mut leader, MOST);
    let mut of_others = Vec::with_capacity(nodes.len());
    for node in &mut nodes {
        of_others.push(all_of(node, MOST_OF_OTHER));
    }
    let mut ways = WaysOfHosts {
        leader: leader.host.clone(),
        ..WaysOfHosts::default()
    };
    match of_leader.recv_timeout(ends.saturating_duration_since(clock::now())) {
        Ok(said) if !said.is_empty() => ways.said = Some(said),
        Ok(_) => {
            let why = last_word(&mut leader);
            ways.left_out.push(format!("{}: {why}", leader.host));
        }
        Err(_) => {
            let why = format!("{}: no answer in time", leader.host);
            ways.left_out.push(why);
        }
    }
    for (node, said) in nodes.iter_mut().zip(of_others) {
        // Rank 0 waits for all of them.
        match said.recv_timeout(SHORTEST) {
            Ok(said) if !said.is_empty() => ways.others.push((node.host.clone(), said)),
            // It took no part, and of its ways nothing is known.
            _ => {
                let why = last_word(node);
                ways.left_out.push(format!("{}: {why}", node.host));
            }
        }
    }
    Ok(ways)
}

/// Why a node ended without a word.
fn last_word(node: &mut SshDialogue) -> String {
    match node.wait_for_exit(SHORTEST) {
        Some(status) => node.exit_error(status).to_string(),
        None => "it closed its output".to_owned(),
    }
}

/// All that a node says, read in a thread.
fn all_of(node: &mut SshDialogue, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = node.output() {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // After a read error the truncated output is used.
            let _ = output.take(most).read_to_end(&mut all);
            // Whoever waited may have given up.
            let _ = sender.send(all);
        });
    }
    receiver
}
