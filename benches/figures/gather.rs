//! Many nodes that give their recordings to rank 0: all to rank 0 itself, or through a tree. The nodes are threads of another process on the same machine, so
//! that what rank 0 has to do by itself, its processor time, is told apart from what all nodes have to.

use rdma_doctor::live::own_process;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rdma_doctor::cluster::gather_tree;
use rdma_doctor::cluster::handshake::NodeIdentity;
use rdma_doctor::cluster::key::{Key, Trust};
use rdma_doctor::cluster::rendezvous::{JoinedNode, Rendezvous};

use super::{Figure, milliseconds};

/// What the process of the nodes is told: rank 0's port, how many nodes there are, and whether they sit in a tree.
const GUESTS: &str = "BENCH_GATHER_GUESTS";
/// Bytes of a node's recording, compressed.
const RECORDING: usize = 40 << 10;
const PATIENCE: Duration = Duration::from_secs(300);
/// What a thread of a node needs.
const STACK: usize = 256 << 10;

/// A gathering, as rank 0 saw it.
struct Gathering {
    /// Until all had given.
    wall: Duration,
    /// Rank 0's processor time.
    processor: Duration,
    connections: usize,
}

/// As many nodes as `BENCH_JOINING` says, else 500, as a star and as a tree.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    own_process::allow_many_files();
    let nodes = std::env::var("BENCH_JOINING").ok();
    let nodes: u64 = nodes.and_then(|n| n.parse().ok()).unwrap_or(500);
    let star = gather(nodes, None).context("a star")?;
    let tree = gather(nodes, Some(gather_tree::FANIN)).context("a tree")?;
    let ratio = |tree: Duration, star: Duration| tree.as_secs_f64() / star.as_secs_f64().max(1e-9);
    Ok(vec![Figure {
        name: format!(
            "{nodes} nodes give to rank 0 through a tree of {}",
            gather_tree::FANIN
        ),
        measured: format!("{:.2} x a star", ratio(tree.wall, star.wall)),
        target: String::new(),
        met: None,
        beside: format!(
            "{:.0} and {:.0} ms, of which rank 0 works {:.0} and {:.0} ({:.2} x), with {} and {} connections",
            milliseconds(tree.wall),
            milliseconds(star.wall),
            milliseconds(tree.processor),
            milliseconds(star.processor),
            ratio(tree.processor, star.processor),
            tree.connections,
            star.connections,
        ),
    }])
}

fn trust() -> anyhow::Result<Trust> {
    let key = Key::from_text("a key of many nodes").map_err(|why| anyhow::anyhow!("{why}"))?;
    Ok(Trust::Key(key))
}

fn party(rank: u64, ranks: u64) -> NodeIdentity {
    NodeIdentity {
        version: "1".into(),
        job: "1".into(),
        rank,
        ranks,
        name: format!("node{rank:05}"),
    }
}

fn gather(nodes: u64, fanin: Option<u64>) -> anyhow::Result<Gathering> {
    let host = Rendezvous::open(0, party(0, nodes), trust()?)?.with_fanin(fanin);
    let mut guests = Guests::start(host.port()?, nodes, fanin.is_some())?;
    let (begun, before) = (Instant::now(), processor());
    guests.go()?;
    let mut gathered = host.gather(nodes, PATIENCE, 1 << 20, |_| {});
    let (wall, after) = (begun.elapsed(), processor());
    let came = gathered.nodes.len() as u64 + 1;
    if came < nodes {
        bail!(
            "{came} of {nodes} nodes came: {:?}",
            gathered.refused.first()
        );
    }
    let connections = gathered.connections;
    let untold = gathered.broadcast(b"healthy", PATIENCE);
    if let Some((rank, why)) = untold.first() {
        bail!("{} nodes were not told, rank {rank}: {why}", untold.len());
    }
    Ok(Gathering {
        wall,
        processor: after.saturating_sub(before),
        connections,
    })
}

/// The processor time of this process until now.
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let part = |of: i64| u64::try_from(of).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// The process of the nodes.
struct Guests(Child);

impl Guests {
    fn start(port: u16, nodes: u64, in_tree: bool) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(GUESTS, format!("{port} {nodes} {in_tree}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let ready = child.stdout.as_mut().context("no pipe")?;
        BufReader::new(ready).read_line(&mut line)?;
        let guests = Guests(child);
        match line.trim() {
            "ready" => Ok(guests),
            _ => bail!("the nodes did not start"),
        }
    }

    fn go(&mut self) -> anyhow::Result<()> {
        Ok(self.0.stdin.as_mut().context("no pipe")?.write_all(b"!")?)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether this process is that of the nodes: then it has been them when this returns.
pub(crate) fn was_guests() -> anyhow::Result<bool> {
    let Ok(told) = std::env::var(GUESTS) else {
        return Ok(false);
    };
    let told: Vec<&str> = told.split(' ').collect();
    let [port, nodes, in_tree] = told.as_slice() else {
        bail!("{GUESTS}");
    };
    let (port, nodes): (u16, u64) = (port.parse()?, nodes.parse()?);
    let in_tree = *in_tree == "true";
    own_process::allow_many_files();
    let all = usize::try_from(nodes)?;
    let gate = Arc::new(Barrier::new(all));
    let guests: Vec<_> = (1..nodes)
        .map(|rank| {
            let gate = Arc::clone(&gate);
            let node = move || -> anyhow::Result<()> {
                gate.wait();
                let (own, trust) = (party(rank, nodes), trust()?);
                let mut guest =
                    JoinedNode::join("127.0.0.1", port, &own, &trust, PATIENCE, in_tree)?;
                let byte = rank.to_le_bytes()[0];
                guest.send(&vec![byte; RECORDING])?;
                guest.receive(PATIENCE, 99)?;
                Ok(())
            };
            std::thread::Builder::new().stack_size(STACK).spawn(node)
        })
        .collect::<Result<_, _>>()?;
    println!("ready");
    std::io::stdin().read_exact(&mut [0])?;
    gate.wait();
    // Where rank 0 is gone, nobody is to be waited for.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    for guest in guests {
        if let Ok(said) = guest.join() {
            said.context("a node")?;
        }
    }
    Ok(true)
}
