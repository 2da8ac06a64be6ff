//! `check --cluster` as processes of their own that meet over TCP: on this machine's loopback, and on namespaces that are hosts on one wire. Each fault
//! is planted, and has to be named exactly, in time, with nothing left running.
//!
//! Namespaces need root (`tests/install-deps test` installs the tools); elsewhere those tests are skipped and say so. `RDMA_DOCTOR_NETNS=0` skips
//! them, `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure. `RDMA_DOCTOR_BINARY` is another doctor to test.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bridged_hosts::{self, BridgedHosts};
use crate::namespaces::say;
use crate::place::{Scratch, doctor, free_port};
use crate::process::{Ended, PATIENT, Running, start, wait_until};
use rdma_doctor::cluster::frame::Frames;
use rdma_doctor::cluster::handshake::NodeIdentity;
use rdma_doctor::cluster::key::{Key, Trust};
use rdma_doctor::cluster::rendezvous::{JoinedNode, Rendezvous};
use serde_json::json;

pub(crate) const KEY: &str = "sixteen characters and more";

/// A doctor without anything of this test's environment.
pub(crate) fn bare(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    command
}

fn check(command: &mut Command, rank: usize, nodes: usize, at: &str) {
    command
        .args(["check", "--format", "json"])
        .args(["--rank", &rank.to_string(), "--nodes", &nodes.to_string()])
        .args(["--rendezvous", at]);
}

/// A node on this machine's loopback, which replays a fixture.
pub(crate) fn replaying(rank: usize, nodes: usize, port: u16, fixture: &str) -> Command {
    let mut command = bare(doctor());
    check(&mut command, rank, nodes, &format!("localhost:{port}"));
    command.arg(recording(fixture));
    command
}

fn recording(fixture: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(fixture)
}

pub(crate) const ROCE: &str = "modelled-roce.jsonl";

/// Rank 2 of three, which has the key and whose recording the test makes.
pub(crate) fn last_of_three(port: u16) -> JoinedNode {
    let own = NodeIdentity {
        version: env!("CARGO_PKG_VERSION").into(),
        job: String::new(),
        rank: 2,
        ranks: 3,
        name: "bomber".into(),
    };
    let trust = Trust::Key(Key::from_text(KEY).unwrap());
    JoinedNode::join("localhost", port, &own, &trust, PATIENT, false).unwrap()
}

/// Waits until somebody on this machine listens at a port.
pub(crate) fn wait_for(port: u16) {
    wait_for_state(port, "0A");
}

/// Waits until a socket of this machine at a port is in this state of `include/net/tcp_states.h`: 0A listens, 01 is connected.
fn wait_for_state(port: u16, state: &str) {
    let is_there = |file| {
        let table = std::fs::read_to_string(file).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().unwrap_or("");
            local.ends_with(&format!(":{port:04X}")) && words.nth(1) == Some(state)
        })
    };
    wait_until(&format!("a socket at {port} in state {state}"), || {
        is_there("/proc/net/tcp") || is_there("/proc/net/tcp6")
    });
}

fn end(all: Vec<Running>) -> Vec<Ended> {
    all.into_iter().map(|one| one.ends()).collect()
}

#[test]
fn nodes_meet_and_all_carry_the_verdict_that_are_to() {
    let port = free_port();
    let all = ["rank0", "all", "rank0"].into_iter().enumerate();
    let all = all.map(|(rank, exit_on)| {
        let fixture = ["modelled-roce-v1-only.jsonl", ROCE, ROCE][rank];
        start(replaying(rank, 3, port, fixture).args(["--exit-on", exit_on]))
    });
    let all = end(all.collect());
    let report = all[0].report();
    assert_eq!(report.nodes().len(), 3);
    let (sentence, _) = report.finding("cluster/gids-differ").unwrap();
    assert!(sentence.contains("RoCE v1 only"), "{sentence}");
    let status: Vec<i32> = all.iter().map(|one| one.status).collect();
    assert_eq!(status, [2, 2, 0]);
    // The report is rank 0's, and nobody else says a word.
    assert!(
        all[1..]
            .iter()
            .all(|one| one.out.is_empty() && one.err.is_empty())
    );
    assert!(all[0].err.contains("rank 0 of 3, as the command line says"));
    assert!(all[0].err.contains("unauthenticated"), "{}", all[0].err);
    assert_eq!(report.0["unauthenticated"], true);
}

#[test]
fn who_has_the_key_is_not_unauthenticated() {
    let port = free_port();
    let dir = Scratch::new("key");
    let file = dir.join("key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let host = start(replaying(0, 3, port, ROCE).env("RDMA_DOCTOR_KEY", KEY));
    let by_file = start(replaying(1, 3, port, ROCE).arg("--key-file").arg(&file));
    let mut by_input = replaying(2, 3, port, ROCE);
    by_input.args(["--key-file", "-"]).stdin(Stdio::piped());
    let mut by_input = by_input
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    by_input
        .stdin
        .take()
        .unwrap()
        .write_all(KEY.as_bytes())
        .unwrap();
    let by_input = by_input.wait_with_output().unwrap();
    assert_eq!(by_input.status.code(), Some(0), "{by_input:?}");
    let all = end(vec![host, by_file]);
    let report = all[0].report();
    assert_eq!(report.nodes().len(), 3);
    assert_eq!(report.0.get("unauthenticated"), None);
    assert!(!all[0].err.contains("unauthenticated"), "{}", all[0].err);
    assert_eq!(all[1].status, 0, "{:?}", all[1]);
    // A file that others can read is no secret.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = start(replaying(1, 3, port, ROCE).arg("--key-file").arg(&file)).ends();
    assert_eq!(refused.status, 65);
    assert!(
        refused.err.contains("(mode 0640): chmod 600"),
        "{}",
        refused.err
    );
    let short = start(replaying(1, 3, port, ROCE).env("RDMA_DOCTOR_KEY", "short")).ends();
    assert!(
        short.err.contains("at least 16 characters"),
        "{}",
        short.err
    );
}

#[test]
fn a_node_that_never_comes_is_named_in_time() {
    let port = free_port();
    let mut host = replaying(0, 3, port, ROCE);
    let host = start(host.args(["--deadline", "10", "--wait", "5"]));
    let guest = start(&mut replaying(1, 3, port, ROCE));
    let all = end(vec![host, guest]);
    assert!(all[0].took < PATIENT / 2, "{:?}", all[0].took);
    assert_eq!((all[0].status, all[1].status), (2, 0));
    let (sentence, nodes) = all[0].report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["rank 2"]);
    assert!(
        sentence.starts_with(
            "rank 2 did not respond, 2 others answered: it did not connect to rank 0 within "
        ),
        "{sentence}"
    );
}

#[test]
fn a_node_that_is_killed_in_the_middle_is_named() {
    let port = free_port();
    let mut host = replaying(0, 3, port, ROCE);
    let host = start(host.args(["--deadline", "10", "--wait", "5"]));
    wait_for(port);
    // The kernel closes what a killed process held: rank 0 sees the same of one that has joined and goes.
    drop(joined(port, 1, 3));
    let guest = start(&mut replaying(2, 3, port, ROCE));
    let all = end(vec![host, guest]);
    let (sentence, nodes) = all[0].report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["rank 1"]);
    assert!(
        sentence.contains("it connected, but disconnected before it sent its recording"),
        "{sentence}"
    );
    assert_eq!((all[0].status, all[1].status), (2, 0));
}

#[test]
fn who_waits_for_a_rank_0_that_is_killed_ends_soon() {
    let port = free_port();
    let host = Rendezvous::open(port, party(0, 3), Trust::Loopback).unwrap();
    let guest = start(&mut replaying(1, 3, port, ROCE));
    // It has given its recording, waits for the verdict, and is left alone.
    let gathered = host.gather(2, PATIENT, 1 << 24, |_| {});
    assert_eq!(gathered.nodes.len(), 1);
    drop((host, gathered));
    let guest = guest.ends();
    assert_eq!(guest.status, 65, "{guest:?}");
    assert!(
        guest.err.contains("rank 0 ended before it "),
        "{}",
        guest.err
    );
}

#[test]
fn a_wrong_key_is_named_on_both_sides() {
    let port = free_port();
    let mut host = replaying(0, 3, port, ROCE);
    host.args(["--deadline", "10", "--wait", "5"]);
    let host = start(host.env("RDMA_DOCTOR_KEY", KEY));
    wait_for(port);
    let other =
        start(replaying(1, 3, port, ROCE).env("RDMA_DOCTOR_KEY", "another key of many letters"));
    let none = start(&mut replaying(2, 3, port, ROCE));
    let all = end(vec![host, other, none]);
    assert_eq!(
        all.iter().map(|one| one.status).collect::<Vec<_>>(),
        [2, 65, 65]
    );
    assert!(
        all[1]
            .err
            .contains("the listening process does not have this node's key"),
        "{}",
        all[1].err
    );
    assert!(
        all[2]
            .err
            .contains("rank 0 requires a key, and this node has none"),
        "{}",
        all[2].err
    );
    let (sentence, nodes) = all[0].report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["rank 1", "rank 2"]);
    assert!(
        sentence.contains("refused: this node's key differs from rank 0's"),
        "{sentence}"
    );
    assert!(!all[0].err.contains(KEY) && !all[0].out.contains(KEY));
}

fn party(rank: u64, ranks: u64) -> NodeIdentity {
    NodeIdentity {
        version: env!("CARGO_PKG_VERSION").into(),
        job: String::new(),
        rank,
        ranks,
        name: format!("n{}", rank + 1),
    }
}

/// A node that has joined rank 0.
fn joined(port: u16, rank: u64, ranks: u64) -> JoinedNode {
    let own = party(rank, ranks);
    JoinedNode::join("127.0.0.1", port, &own, &Trust::Loopback, PATIENT, false).unwrap()
}

/// A client that speaks the doctor's language without being one.
fn hello(port: u16, version: &str, job: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let party = json!({"version": version, "job": job, "rank": 1, "ranks": 2, "name": "n2"});
    let hello = json!({"party": party, "nonce": vec![7; 16], "key": false});
    Frames::upward(None)
        .write(&mut stream, hello.to_string().as_bytes())
        .unwrap();
    let answer = Frames::downward(None).read(&mut stream, 4096).unwrap();
    serde_json::from_slice(&answer).unwrap()
}

#[test]
fn another_version_is_told_so_and_named() {
    let port = free_port();
    let mut host = replaying(0, 2, port, ROCE);
    let host = start(host.args(["--deadline", "10", "--wait", "5"]));
    wait_for(port);
    let answer = hello(port, "0.0.1", "");
    let own = env!("CARGO_PKG_VERSION");
    let refused = &answer["refused"]["version"];
    assert_eq!(
        (&refused["host"], &refused["guest"]),
        (&json!(own), &json!("0.0.1")),
        "{answer}"
    );
    let (sentence, nodes) = host.ends().report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["rank 1"]);
    assert!(
        sentence.contains(&format!(
            "runs rdma-doctor {own}, this node 0.0.1: install the same version on all nodes"
        )),
        "{sentence}"
    );
}

/// A process of torchrun's, of a job of this name.
fn of_torchrun(job: &str, rank: usize, master_port: u16) -> Command {
    let mut command = bare(doctor());
    command
        .args(["check", "--cluster", "--format", "json", "--wait", "20"])
        .envs([("RANK", rank.to_string()), ("GROUP_RANK", rank.to_string())])
        .envs([
            ("WORLD_SIZE", "2"),
            ("GROUP_WORLD_SIZE", "2"),
            ("LOCAL_RANK", "0"),
            ("LOCAL_WORLD_SIZE", "1"),
        ])
        .envs([("MASTER_ADDR", "localhost"), ("TORCHELASTIC_RUN_ID", job)])
        .env("MASTER_PORT", master_port.to_string())
        .arg(recording(ROCE));
    command
}

#[test]
fn two_jobs_on_one_port_are_told_apart() {
    let port = free_port();
    let at = format!("localhost:{port}");
    let of = |job, rank| {
        let mut command = of_torchrun(job, rank, 29500);
        command.args(["--rendezvous", &at]);
        command
    };
    let host = start(&mut of("first", 0));
    wait_for(port);
    let second = start(&mut of("second", 0)).ends();
    assert_eq!(second.status, 65);
    assert!(
        second.err.contains(&format!(
            "rank 0 cannot listen at port {port}: Address already in use"
        )),
        "{}",
        second.err
    );
    let stray = start(&mut of("second", 1)).ends();
    assert_eq!(stray.status, 65);
    assert!(
        stray
            .err
            .contains(r#"job "first" listens there, not "second": give each job its own port"#),
        "{}",
        stray.err
    );
    let guest = start(&mut of("first", 1));
    let all = end(vec![host, guest]);
    assert_eq!(all[0].report().nodes().len(), 2);
    assert!(
        all[0].err.contains("turned away: 127.0.0.1:"),
        "{}",
        all[0].err
    );
    assert_eq!(all[1].status, 0);
}

#[test]
fn torchruns_processes_meet_beside_the_jobs_own_store() {
    // The store holds MASTER_PORT, and is not spoken to.
    let store = TcpListener::bind("127.0.0.1:0").unwrap();
    store.set_nonblocking(true).unwrap();
    let port = store.local_addr().unwrap().port();
    let host = start(&mut of_torchrun("none", 0, port));
    let guest = start(&mut of_torchrun("none", 1, port));
    // Of several processes of a node, the lowest acts; the others do not wait.
    let idle = start(of_torchrun("none", 1, port).envs([
        ("RANK", "1"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
    ]))
    .ends();
    assert_eq!(
        (idle.status, idle.out.as_str(), idle.err.as_str()),
        (0, "", "")
    );
    let all = end(vec![host, guest]);
    assert_eq!(all[0].report().nodes().len(), 2, "{:?}", all[0]);
    assert!(
        all[0]
            .err
            .contains("torchrun: rank 0 of 2, 2 nodes (RANK=0 WORLD_SIZE=2"),
        "{}",
        all[0].err
    );
    assert!(store.accept().is_err(), "nobody came to the job's store");
    let taken =
        start(of_torchrun("none", 0, port).args(["--rendezvous", &format!("localhost:{port}")]))
            .ends();
    assert_eq!(taken.status, 64);
    assert!(
        taken
            .err
            .contains("is MASTER_PORT, which the job's own store holds"),
        "{}",
        taken.err
    );
}

#[test]
fn pods_of_an_indexed_job_meet() {
    let port = free_port();
    let pod = |index: usize| {
        let mut command = bare(doctor());
        command
            .args(["check", "--cluster", "--nodes", "2", "--format", "json"])
            .args(["--rendezvous", &format!("localhost:{port}")])
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .env("RDMA_DOCTOR_KEY", KEY)
            .arg(recording(ROCE));
        command
    };
    let all = end((0..2).map(|index| start(&mut pod(index))).collect());
    assert_eq!(all[0].report().nodes().len(), 2);
    assert!(
        all[0]
            .err
            .contains("Kubernetes Indexed Job: rank 0 of 2, 2 nodes (JOB_COMPLETION_INDEX=0)"),
        "{}",
        all[0].err
    );
    let mut lost = bare(doctor());
    lost.args(["check", "--cluster"])
        .env("JOB_COMPLETION_INDEX", "1");
    let lost = start(&mut lost).ends();
    assert_eq!(lost.status, 64);
    assert!(
        lost.err
            .contains("Kubernetes Indexed Job does not say how many nodes there are: give --nodes"),
        "{}",
        lost.err
    );
}

#[test]
fn scanners_cost_nothing() {
    let port = free_port();
    let host = start(&mut replaying(0, 2, port, ROCE));
    wait_for(port);
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    // One that says nothing, and stays.
    let silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    for words in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"rdd1\xff\xff\xff\xff\xff\xff\xff\xff",
        b"rdd1\x00\x00\x00\x00\x00\x00\x00\x04null",
        b"",
    ] {
        let mut stream = connect();
        let _ = stream.write_all(words);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty(),
            "who is no doctor gets no word: {answer:?}"
        );
    }
    let all = end(vec![host, start(&mut replaying(1, 2, port, ROCE))]);
    assert_eq!((all[0].report().nodes().len(), all[1].status), (2, 0));
    assert!(
        all[0]
            .err
            .contains("it does not speak rdma-doctor's protocol"),
        "{}",
        all[0].err
    );
    drop(silent);
}

#[test]
fn without_a_key_only_this_machine_is_listened_to() {
    let port = free_port();
    let mut far = bare(doctor());
    check(&mut far, 0, 2, &format!("192.0.2.1:{port}"));
    let far = start(&mut far).ends();
    assert_eq!(far.status, 64);
    assert!(
        far.err
            .contains("no key was given (RDMA_DOCTOR_KEY, --key-file)")
            && far
                .err
                .contains("192.0.2.1 is not an address of its loopback interface"),
        "{}",
        far.err
    );
    let mut host = start(&mut replaying(0, 2, port, ROCE));
    wait_for(port);
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = std::fs::read_to_string(file).unwrap();
        let listens = table
            .lines()
            .filter(|line| line.contains(&format!(":{port:04X} ")) && line.contains(" 0A "));
        for line in listens {
            assert!(
                line.contains(&format!(" 0100007F:{port:04X} ")),
                "{file}: {line}"
            );
        }
    }
    host.kill();
}

#[test]
fn a_batch_step_never_waits() {
    let mut batch = bare(doctor());
    batch
        .args(["check", "--format", "json"])
        .envs([
            ("SLURM_JOB_ID", "77"),
            ("SLURM_JOB_NUM_NODES", "4"),
            ("SLURM_NNODES", "4"),
            ("SLURM_NTASKS", "4"),
        ])
        .envs([
            ("SLURM_PROCID", "0"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_NODEID", "0"),
            ("SLURM_JOB_NODELIST", "n[1-4]"),
        ]);
    let alone = start(&mut batch).ends();
    assert_eq!(alone.report().nodes().len(), 1);
    assert_eq!(alone.err, "");
    // In a step of several nodes it joins by itself, unless it is told not to.
    let step = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NUM_NODES", "4"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_NODELIST", "n[1-4]"),
    ];
    let told = start(batch.envs(step).arg("--alone")).ends();
    assert_eq!((told.report().nodes().len(), told.err.as_str()), (1, ""));
    // Nor does who judges a recording.
    let replay = start(batch.arg(recording(ROCE))).ends();
    assert_eq!(replay.report().nodes(), ["roce-node"]);
}

/// The port at which rank 0 of the hosts listens; each network has its own.
const PORT: u16 = 20500;

/// A node on a host, numbered from 1, which examines the host as it is.
fn on_host(net: &BridgedHosts, n: usize, nodes: usize) -> Command {
    let mut command = net.on(n, doctor());
    check(&mut command, n - 1, nodes, &format!("10.77.0.1:{PORT}"));
    let key = net.dir().join("key");
    // Once: others may be reading it.
    if !key.exists() {
        std::fs::write(&key, KEY).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    command.arg("--key-file").arg(key);
    command
}

#[test]
fn hosts_that_differ_are_named_exactly() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    let net = BridgedHosts::new(5);
    for n in 1..=5 {
        let kind = if n == 4 { "IB/RoCE v1\n" } else { "RoCE v2\n" };
        net.roce_port(n, kind);
    }
    net.shell(3, "ip link set eth0 mtu 1500");
    let all = (1..=5).map(|n| {
        let nccl = if n == 5 { "2.18.3" } else { "2.21.5" };
        start(on_host(&net, n, 5).args(["--nccl", nccl]))
    });
    let all = end(all.collect());
    let report = all[0].report();
    assert_eq!(report.nodes(), ["n1", "n2", "n3", "n4", "n5"]);
    for (check, odd, words) in [
        ("cluster/netdev-mtu-differs", "n3", "1500"),
        ("cluster/gids-differ", "n4", "RoCE v1 only"),
        ("cluster/nccl-version-differs", "n5", "2.18.3"),
    ] {
        let (sentence, nodes) = report.finding(check).unwrap();
        assert_eq!(nodes, [odd], "{check}: {sentence}");
        assert!(sentence.contains(words), "{check}: {sentence}");
    }
    assert_eq!(report.of_cluster().len(), 3, "{:?}", report.of_cluster());
    net.nothing_is_left();
}

#[test]
fn a_rank_0_that_is_not_reached_is_named_with_the_rule_that_decides() {
    if !bridged_hosts::can_run(&["nft"]) {
        return;
    }
    let net = BridgedHosts::new(3);
    let filter = |n: usize, hook: &str| {
        net.shell(
            n,
            &format!("nft add table inet f; nft add chain inet f c '{{ type filter hook {hook} priority 0; }}'; nft add rule inet f c tcp dport {PORT} drop"),
        );
    };
    // Rank 0's own, and for good measure one of n3, which does not get that far.
    filter(1, "input");
    filter(3, "output");
    let node = |n| start(on_host(&net, n, 3).args(["--deadline", "10", "--wait", "5"]));
    let all = end((1..=3).map(node).collect());
    let status: Vec<i32> = all.iter().map(|one| one.status).collect();
    assert_eq!(status, [2, 65, 65]);
    let at = format!("rank 0 was not reached at 10.77.0.1:{PORT} in ");
    let missed = |n: usize, said: &str| {
        let way = format!(" s: connection timed out; from n{n} over eth0 (10.77.0.{n})");
        said.contains(&at) && said.contains(&way)
    };
    let (second, third) = (&all[1].err, &all[2].err);
    assert!(missed(2, second), "{second}");
    assert!(
        second.contains(&format!(
            "a packet filter on the way or on its side drops TCP to port {PORT}"
        )),
        "{second}"
    );
    assert!(missed(3, third), "{third}");
    let rule =
        format!("it drops TCP to port {PORT} over eth0 (inet f c handle 2: tcp dport {PORT} drop)");
    assert!(
        third.contains(&format!("the packet filter of this node decides: {rule}")),
        "{third}"
    );
    let (sentence, nodes) = all[0].report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["rank 1", "rank 2"]);
    assert!(
        sentence.contains(&format!("the packet filter of n1 decides: {rule}")),
        "{sentence}"
    );
    net.nothing_is_left();
}

/// A process of a step of Slurm on n1, n2 and n3.
fn in_a_step(net: &BridgedHosts, n: usize) -> Command {
    let mut command = net.on(n, doctor());
    command
        .args(["check", "--format", "json", "--wait", "1"])
        .envs([
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_LOCALID", "0"),
        ])
        .envs([
            ("SLURM_STEP_NUM_NODES", "3"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_STEP_NODELIST", "n[1-3]"),
        ])
        .envs([
            ("SLURM_PROCID", (n - 1).to_string()),
            ("SLURM_NODEID", (n - 1).to_string()),
        ]);
    command
}

#[test]
fn without_a_key_only_the_jobs_own_addresses_are_believed() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    let net = BridgedHosts::new(4);
    let host = start(in_a_step(&net, 1).args(["--deadline", "19"]));
    let second = start(&mut in_a_step(&net, 2));
    // n4 is of no such job, and says that it is the third.
    let stranger = start(in_a_step(&net, 4).envs([("SLURM_PROCID", "2"), ("SLURM_NODEID", "2")]));
    // The third hangs as it looks, after it has come.
    let mut third = start(in_a_step(&net, 3).args(["--sample", "200", "--deadline", "300"]));
    let all = end(vec![host, second, stranger]);
    let status: Vec<i32> = all.iter().map(|one| one.status).collect();
    assert_eq!(status, [2, 0, 65], "{all:?}");
    assert!(
        all[0]
            .err
            .contains("Slurm: rank 0 of 3, 3 nodes (SLURM_PROCID=0"),
        "{}",
        all[0].err
    );
    assert!(
        all[0].err.contains("unauthenticated: no key was given"),
        "{}",
        all[0].err
    );
    assert!(
        all[0]
            .err
            .contains("10.77.0.4 is not an address of this job"),
        "{}",
        all[0].err
    );
    let report = all[0].report();
    assert_eq!(report.nodes(), ["n1", "n2"]);
    let (sentence, nodes) = report.finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["n3"]);
    assert!(
        sentence.contains("n3 came, and gave no recording in 20 s"),
        "{sentence}"
    );
    third.kill();
    drop(third);
    net.nothing_is_left();
}

/// Waits until a script succeeds on a host.
fn wait_for_host(net: &BridgedHosts, n: usize, what: &str, script: &str) {
    wait_until(&format!("{what} on n{n}"), || net.succeeds(n, script));
}

/// Waits until somebody is connected to a host at the port of rank 0, which a node that takes what others have takes as well.
fn wait_for_others_at(net: &BridgedHosts, n: usize) {
    let connected =
        format!("cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{PORT:04X} [0-9A-F]*:[0-9A-F]* 01 '");
    wait_for_host(net, n, "a connection", &connected);
}

#[test]
fn hosts_give_through_others_and_those_of_one_that_dies_through_another() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    let nodes = 12;
    let net = BridgedHosts::new(nodes);
    let node = |n: usize, deadline: &str| {
        let mut command = on_host(&net, n, nodes);
        command.args(["--fanin", "2", "--wait", "28", "--deadline", deadline]);
        command
    };
    let replaying = |n: usize| start(node(n, "2").arg(recording(ROCE)));
    let host = replaying(1);
    // These two come first, so that the others are sent to them, and then look for a long time.
    let looking = |n: usize| start(node(n, "300").args(["--sample", "200"]));
    let (mut killed, stopped) = (looking(2), looking(3));
    wait_for_listener(&net, 2);
    wait_for_listener(&net, 3);
    let mut others: Vec<Running> = (4..=nodes - 1).map(replaying).collect();
    wait_for_others_at(&net, 2);
    wait_for_others_at(&net, 3);
    killed.kill();
    // As a machine that hangs.
    stopped.signal(rustix::process::Signal::STOP);
    others.push(replaying(nodes));
    let host = host.ends();
    let report = host.report();
    assert_eq!(report.nodes().len(), nodes - 2);
    let (sentence, silent) = report.finding("cluster/node-silent").unwrap();
    assert_eq!(silent, ["rank 1", "rank 2"], "{sentence}");
    for why in [
        "which claims to be n2, rank 1: it connected, but disconnected before it sent its recording",
        "n3 came, and gave no recording in 30 s",
    ] {
        assert!(sentence.contains(why), "{sentence}");
    }
    for other in end(others) {
        assert_eq!((other.status, other.err.as_str()), (0, ""), "{other:?}");
    }
    drop(stopped);
    net.nothing_is_left();
}

/// Waits until a host listens at the port of rank 0 and has reached rank 0.
fn wait_for_listener(net: &BridgedHosts, n: usize) {
    let tables = "/proc/net/tcp /proc/net/tcp6";
    let listens = format!("grep -qi ':{PORT:04X} [0-9A-F:]* 0A ' {tables}");
    let reached = format!("grep -qi ' [0-9A-F]*:{PORT:04X} 01 ' {tables}");
    wait_for_host(
        net,
        n,
        "a listener that reached rank 0",
        &format!("{listens} && {reached}"),
    );
}

/// How much longer sixteen nodes may take together than the slowest of them takes alone, while all the others look too.
const BEYOND: Duration = Duration::from_secs(3);

#[test]
fn sixteen_hosts_take_little_longer_than_the_slowest_of_them() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    // A build that is not optimised is another program, and takes ten times as long: fewer hosts show that it ends.
    let is_figure = std::env::var_os("RDMA_DOCTOR_BINARY").is_some();
    let nodes = if is_figure { 16 } else { 5 };
    let net = BridgedHosts::new(nodes);
    for n in 1..=nodes {
        net.roce_port(n, "RoCE v2\n");
    }
    let slowest = |command: &dyn Fn(usize) -> Command| {
        let begun = Instant::now();
        let all: Vec<_> = (1..=nodes).map(|n| start(&mut command(n))).collect();
        let all = end(all);
        (begun.elapsed(), all)
    };
    let (alone, each) = slowest(&|n| {
        let mut command = net.on(n, doctor());
        command.args(["check", "--alone", "--format", "json"]);
        command
    });
    assert!(each.iter().all(|one| one.report().nodes().len() == 1));
    let (together, all) = slowest(&|n| on_host(&net, n, nodes));
    let report = all[0].report();
    assert_eq!(
        report.nodes().len(),
        nodes,
        "{:?}",
        report.finding("cluster/node-silent")
    );
    assert_eq!(report.of_cluster(), [""; 0]);
    let beyond = together.saturating_sub(alone);
    say(&format!(
        "{nodes} hosts: {:.2} s together, {:.2} s each by itself at once, {:.2} s beyond",
        together.as_secs_f64(),
        alone.as_secs_f64(),
        beyond.as_secs_f64()
    ));
    if is_figure {
        assert!(beyond < BEYOND, "{beyond:?}");
    }
    net.nothing_is_left();
}
