//! Logs in, facts out.

use std::sync::Arc;

use super::{NAME, establish, file, files};
use crate::fact::event::{LogClass, Phase, Role};
use crate::fact::run::{Carrier, TransportProof};
use crate::fact::{
    Fact, Facts, Id, Key, Percent, Seconds, Subject, Type, Typed, Value, env, event, hca, host,
    rank, run,
};
use crate::nccl_log::digest::DroppedEvents;
use crate::nccl_log::{Limits, Reader};
use crate::source::recording::Recording;
use crate::source::redact::{Key as RedactKey, Redactor};
use crate::source::wire::{Header, Line};
use crate::source::{Answer, Question, Reply};

mod properties;

pub(super) fn recording(logs: &[(&str, &str)]) -> Recording {
    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let mut add = |question: Question, value: serde_json::Value| {
        recording.add(Line::Reply {
            probe: NAME.into(),
            question,
            repeat: 0,
            reply: Reply {
                at: 0,
                said: Ok(Answer::Value(Arc::new(value))),
            },
        });
    };
    let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
    add(files(), serde_json::json!({ "files": names }));
    for (name, text) in logs {
        let mut reader = Reader::new(Limits::default());
        reader.feed(text.as_bytes());
        add(
            file(name),
            serde_json::to_value(reader.finish(None)).unwrap(),
        );
    }
    recording
}

pub(super) fn facts_of(recording: &Recording) -> Facts {
    let mut facts = Facts::new();
    establish(recording, &mut facts);
    facts
}

fn facts(log: &str) -> Facts {
    facts_of(&recording(&[("job.log", log)]))
}

/// What is known of a host is what its lines say: of those without one the number matters, and not the names.
#[test]
fn hosts_without_a_kept_line_are_bounded_and_counted() {
    let lines = (0..10_000).map(|n| format!("n{n}:7:7 [0] NCCL WARN Entry {n} is stale\n"));
    let facts = facts(&lines.collect::<String>());
    let run = facts.all(Subject::Run).next().unwrap();
    let hosts = facts.below(run, Subject::Host).count();
    // Of so many the first line is kept, of so many more the name.
    assert!((8192..8600).contains(&hosts), "{hosts}");
    assert_eq!(facts.known(run, run::NODES), Some(10_000));
    assert!(facts.members(Subject::Host, run).is_err());
}

/// For dropped failures it is unknown whether one of them was the first, unless the work went on after them.
#[test]
fn a_failure_that_found_no_place_is_not_ruled_out() {
    let before = "n1:1:1 [0] NCCL INFO Using network IB\n";
    let failure = "n1:1:1 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129\n";
    let done = "State: COMPLETED (exit code 0)\n";
    let said = |text: &str, uncounted: (&str, u64)| {
        let mut reader = Reader::new(Limits::default());
        reader.feed(text.as_bytes());
        let mut digest = reader.finish(None);
        let (class, line) = uncounted;
        digest.uncounted = vec![DroppedEvents {
            class: class.into(),
            status: None,
            count: 7,
            line,
            last: line,
        }];
        let mut facts = Facts::new();
        let run = super::establish_digest("job.log", digest, &mut facts)[0];
        let mut events = facts.all(Subject::Event);
        let first = events.next().map(|id| facts.known(id, event::FIRST));
        (facts.known(run, run::FAILED), first)
    };
    let late = format!("{before}{failure}");
    assert_eq!(said(before, ("completion", 1)), (None, None));
    assert_eq!(said(before, ("connect-retry", 1)), (Some(false), None));
    assert_eq!(said(&late, ("completion", 1)), (Some(true), Some(None)));
    assert_eq!(
        said(&late, ("completion", 3)),
        (Some(true), Some(Some(true)))
    );
    let ended = format!("{before}{done}");
    assert_eq!(said(&ended, ("completion", 1)), (Some(false), None));
}

fn find(facts: &Facts, subject: Subject, name: &str) -> Id {
    let found = facts.all(subject).find(|id| facts.name(*id) == name);
    found.unwrap_or_else(|| {
        panic!(
            "no {name} among {:?}",
            facts
                .all(subject)
                .map(|id| facts.name(id))
                .collect::<Vec<_>>()
        )
    })
}

fn known<T: Typed>(facts: &Facts, subject: Subject, name: &str, key: Key<T>) -> Option<T> {
    facts.known(find(facts, subject, name), key)
}

fn texts(list: Option<Arc<[Arc<str>]>>) -> Vec<String> {
    list.unwrap_or_default()
        .iter()
        .map(|text| text.to_string())
        .collect()
}

/// The lines of a job of this many hosts with two GPUs each, which is connected in a ring.
struct Job {
    hosts: u64,
    /// `IB`, `Socket`.
    network: &'static str,
    /// What is behind the adapter in what hosts send, and in what they receive.
    suffix: fn(u64, bool) -> &'static str,
    extra: &'static [&'static str],
    complete: fn(u64) -> bool,
}

const HEALTHY: Job = Job {
    hosts: 2,
    network: "IB",
    suffix: |_, _| "/GDRDMA",
    extra: &[],
    complete: |_| true,
};

impl Job {
    fn of_host(&self, host: u64, pids: u64) -> String {
        let ranks = self.hosts * 2;
        let mut text = String::new();
        for local in 0..2 {
            let rank = host * 2 + local;
            let pid = pids + rank;
            let mut say = |message: &str| {
                text.push_str(&format!(
                    "node{host}:{pid}:{pid} [{local}] NCCL INFO {message}\n"
                ))
            };
            say(&format!("Bootstrap: Using eth0:10.0.0.{}<0>", host + 1));
            for message in self.extra {
                say(message);
            }
            match self.network {
                "IB" => say(&format!(
                    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.{}<0>",
                    host + 1
                )),
                _ => {
                    say("NET/IB : No device found.");
                    say(&format!(
                        "NET/IB : Using [RO]; OOB eth0:10.0.0.{}<0>",
                        host + 1
                    ));
                    say(&format!(
                        "NET/Socket : Using [0]eth0:10.0.0.{}<0> [1]eth1:10.1.0.{}<0>",
                        host + 1,
                        host + 1
                    ));
                }
            }
            say(&format!("Using network {}", self.network));
            let comm = format!(
                "ncclCommInitRank comm 0x5{pid:05x}0 rank {rank} nranks {ranks} cudaDev {local} nvmlDev {local} busId {local}b000 commId 0x{pids:x}abc"
            );
            say(&format!("{comm} - Init START"));
            say(&format!(
                "comm 0x5{pid:05x}0 rank {rank} nRanks {ranks} nNodes {} localRanks 2 localRank {local} MNNVL 0",
                self.hosts
            ));
            if !(self.complete)(rank) {
                continue;
            }
            for channel in 0..4 {
                let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                match local {
                    0 => {
                        say(&format!(
                            "Channel {channel:02}/0 : {last}[1] -> {rank}[0] [receive] via NET/{}/0{}",
                            self.network,
                            (self.suffix)(host, true)
                        ));
                        say(&format!(
                            "Channel {channel:02}/0 : {rank}[0] -> {next}[1] via P2P/CUMEM/read"
                        ));
                    }
                    _ => say(&format!(
                        "Channel {channel:02}/0 : {rank}[1] -> {next}[0] [send] via NET/{}/1{}",
                        self.network,
                        (self.suffix)(host, false)
                    )),
                }
            }
            say("Connected all rings, use ring PXN 0 GDR 1");
            say("16 coll channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer");
            say(&format!("{comm} - Init COMPLETE"));
            say(&format!(
                "Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total 1.{rank}0 (kernels 0.20, alloc 0.10, bootstrap 0.{rank}5, allgathers 0.01)"
            ));
        }
        text
    }

    fn text(&self) -> String {
        (0..self.hosts)
            .map(|host| self.of_host(host, 4000))
            .collect::<String>()
            + "NCCL version 2.22.3+cuda12.6\n"
    }
}

#[test]
fn a_healthy_run_over_rdma() {
    let facts = facts(&HEALTHY.text());
    let of = |key| known(&facts, Subject::Run, "run", key);
    assert_eq!((of(run::NODES), of(run::RANKS)), (Some(2), Some(4)));
    let version = known(&facts, Subject::Run, "run", run::VERSION);
    assert_eq!(version.as_deref(), Some("2.22.3"));
    assert_eq!(
        (
            of(run::INTER),
            of(run::INTER_RDMA),
            of(run::INTER_SOCKET),
            of(run::INTER_GDR)
        ),
        (Some(16), Some(16), Some(0), Some(16))
    );
    assert_eq!((of(run::INTRA), of(run::INTRA_P2P)), (Some(8), Some(8)));
    assert_eq!((of(run::STUCK), of(run::SILENT)), (Some(0), Some(0)));
    assert_eq!(
        known(&facts, Subject::Run, "run", run::CARRIER),
        Some(Carrier::Rdma)
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::PROOF),
        Some(TransportProof::Channels)
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::GDR_SEND),
        Some(Percent(100.0))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::INITIALISED),
        Some(true)
    );
    assert_eq!(known(&facts, Subject::Run, "run", run::FAILED), Some(false));
    assert_eq!(
        known(&facts, Subject::Run, "run", run::INIT_TIME),
        Some(Seconds(1.3))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::BOOTSTRAP_TIME),
        Some(Seconds(0.35))
    );
    assert_eq!(
        known(&facts, Subject::Host, "node1", host::IB_PORTS),
        Some(2)
    );
    assert_eq!(
        texts(known(&facts, Subject::Host, "node1", host::LINK_LAYERS)),
        ["RoCE"]
    );
    assert_eq!(
        known(&facts, Subject::Hca, "mlx5_1:1", hca::CHANNELS),
        Some(4)
    );
    assert_eq!(facts.all(Subject::Event).count(), 0);
    assert_eq!(facts.all(Subject::Host).count(), 2);
}

#[test]
fn sockets_because_a_variable_disables_ib() {
    let job = Job {
        network: "Socket",
        suffix: |_, _| "",
        extra: &["NCCL_IB_DISABLE set by environment to 1."],
        ..HEALTHY
    };
    let facts = facts(&job.text());
    assert_eq!(
        known(&facts, Subject::Run, "run", run::CARRIER),
        Some(Carrier::Socket)
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::INTER_SOCKET),
        Some(16)
    );
    // The list that is printed without entries is none.
    assert_eq!(
        known(&facts, Subject::Host, "node0", host::IB_PORTS),
        Some(0)
    );
    assert_eq!(
        texts(known(
            &facts,
            Subject::Host,
            "node0",
            host::SOCKET_INTERFACES
        )),
        ["eth0", "eth1"]
    );
    assert_eq!(
        known(&facts, Subject::Env, "NCCL_IB_DISABLE", env::NUMBER),
        Some(1)
    );
    assert_eq!(
        known(&facts, Subject::Event, "ib-none", event::ROLE),
        Some(Role::Warning)
    );
    assert_eq!(known(&facts, Subject::Run, "run", run::FAILED), Some(false));
}

#[test]
fn gpudirect_on_one_host_only() {
    let job = Job {
        suffix: |host, receives| if host == 1 && receives { "" } else { "/GDRDMA" },
        ..HEALTHY
    };
    let facts = facts(&job.text());
    assert_eq!(
        known(&facts, Subject::Host, "node1", host::GDR_RECEIVE),
        Some(Percent(0.0))
    );
    assert_eq!(
        known(&facts, Subject::Host, "node0", host::GDR_RECEIVE),
        Some(Percent(100.0))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::GDR_RECEIVE),
        Some(Percent(50.0))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::GDR_SEND),
        Some(Percent(100.0))
    );
}

#[test]
fn ranks_that_never_end_their_initialisation() {
    let job = Job {
        complete: |rank| rank != 2,
        ..HEALTHY
    };
    let facts = facts(&job.text());
    assert_eq!(
        texts(known(&facts, Subject::Run, "run", run::STUCK_RANKS)),
        ["2"]
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::INITIALISED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Rank, "rank 2", rank::INITIALISED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Rank, "rank 1", rank::INITIALISED),
        Some(true)
    );
}

#[test]
fn two_jobs_in_one_file_are_two_runs() {
    let socket = Job {
        network: "Socket",
        suffix: |_, _| "",
        ..HEALTHY
    };
    let mut text = HEALTHY.text();
    text += "+ mpirun -x NCCL_IB_DISABLE=1\n";
    text += &(0..2)
        .map(|host| socket.of_host(host, 7000))
        .collect::<String>();
    let facts = facts(&text);
    assert_eq!(facts.all(Subject::Run).count(), 2);
    assert_eq!(
        known(&facts, Subject::Run, "run 1", run::CARRIER),
        Some(Carrier::Rdma)
    );
    assert_eq!(
        known(&facts, Subject::Run, "run 2", run::CARRIER),
        Some(Carrier::Socket)
    );
    assert_eq!(known(&facts, Subject::Run, "run 2", run::NODES), Some(2));
}

#[test]
fn the_first_failure_by_time_over_the_files_of_two_hosts() {
    let one = HEALTHY.of_host(0, 4000)
        + "\n[2025-03-04 05:06:09] node0:4001:4001 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.2<4711>\n\
           [2025-03-04 05:06:10] node0:4001:4001 [1] proxy.cc:1 NCCL WARN [Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 3\n\
           node0:4001:4001 [1] NCCL INFO proxy.cc:1 -> 3\n";
    let two = HEALTHY.of_host(1, 4000)
        + "\n[2025-03-04 05:06:07] node1:4002:4002 [0] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<4711> with \
           status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 req_type=Send localGid ::ffff:10.0.0.2 remoteGids ::ffff:10.0.0.1 hca mlx5_0\n";
    let facts = facts_of(&recording(&[("one.log", &one), ("two.log", &two)]));
    let of = |key| known(&facts, Subject::Event, "completion", key);
    assert_eq!(
        (of(event::STATUS), of(event::VENDOR_ERR), of(event::RANK)),
        (Some(12), Some(129), Some(2))
    );
    assert_eq!(
        known(&facts, Subject::Event, "completion", event::FIRST),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Event, "completion", event::PHASE),
        None::<Phase>
    );
    let text = |key| {
        known(&facts, Subject::Event, "completion", key)
            .map(|text: Arc<str>| text.to_string())
            .unwrap_or_default()
    };
    assert_eq!(text(event::LOCAL_GID), "::ffff:10.0.0.2");
    assert_eq!(
        (text(event::DEVICE), text(event::PEER)),
        ("mlx5_0".into(), "10.0.0.1<4711>".into())
    );
    assert_eq!(
        known(&facts, Subject::Event, "proxy-failed", event::FIRST),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Event, "proxy-failed", event::AFTER),
        Some(Seconds(3.0))
    );
    assert_eq!(
        known(&facts, Subject::Event, "peer-closed", event::ROLE),
        Some(Role::Consequence)
    );
    assert_eq!(
        known(&facts, Subject::Event, "unwinding", event::ROLE),
        Some(Role::Consequence)
    );
    let first = find(&facts, Subject::Event, "completion");
    assert_eq!(facts.name(facts.parent(first).unwrap()), "node1");
}

#[test]
fn without_times_the_order_of_two_files_is_not_known() {
    let warn = |host: &str| {
        format!("{host}:1:1 [0] x.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'\n")
    };
    let facts = facts_of(&recording(&[
        ("a.log", &warn("a1")),
        ("b.log", &warn("b1")),
    ]));
    for id in facts.all(Subject::Event) {
        assert_eq!(facts.known(id, event::CLASS), Some(LogClass::Cuda));
        assert_eq!(facts.known(id, event::STATUS), Some(802));
        assert_eq!(facts.known(id, event::FIRST), None);
        assert_eq!(facts.known(id, event::ORDERED), Some(false));
    }
    let facts = facts_of(&recording(&[("a.log", &(warn("a1") + &warn("b1")))]));
    let first: Vec<_> = facts
        .all(Subject::Event)
        .filter(|id| facts.known(*id, event::FIRST) == Some(true))
        .collect();
    assert_eq!(first.len(), 1);
    assert_eq!(facts.name(facts.parent(first[0]).unwrap()), "a1");
}

#[test]
fn what_is_not_logged_is_unknown_and_says_what_would_show_it() {
    let facts = facts(
        "n1:1:1 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n",
    );
    let run = find(&facts, Subject::Run, "run");
    for key in [run::CARRIER.path(), run::INTER.path(), run::GDR_SEND.path()] {
        assert!(!key.is_empty());
    }
    // Registering memory with an adapter proves RDMA.
    assert_eq!(facts.known(run, run::CARRIER), Some(Carrier::Rdma));
    assert_eq!(facts.known(run, run::PROOF), Some(TransportProof::Queues));
    assert_eq!(facts.known(run, run::NODES), None);
    assert_eq!(facts.known(run, run::INFO), Some(false));
    let gap = match facts.get(run, run::INTER) {
        Fact::Unknown(gap) => gap,
        Fact::Known(..) => panic!("known"),
    };
    assert_eq!(gap.why.to_string(), "not logged");
    assert!(gap.why.remedy().unwrap().contains("NCCL_DEBUG=INFO"));
    assert_eq!(
        known(&facts, Subject::Event, "verbs-call", event::ERRNO).as_deref(),
        Some("ENOMEM")
    );
    assert_eq!(
        known(&facts, Subject::Event, "verbs-call", event::FUNCTION).as_deref(),
        Some("ibv_reg_mr")
    );
    assert_eq!(
        known(&facts, Subject::Event, "verbs-call", event::PHASE),
        None
    );
}

#[test]
fn a_failed_transition_has_both_gids() {
    let facts = facts(
        "n1:1:1 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_4:1, \
         curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.168.1.7, remote GID ::ffff:192.168.9.8\n",
    );
    let text = |key| {
        known(&facts, Subject::Event, "verbs-call", key).map(|text: Arc<str>| text.to_string())
    };
    assert_eq!(text(event::ERRNO).as_deref(), Some("ETIMEDOUT"));
    assert_eq!(text(event::DEVICE).as_deref(), Some("mlx5_4"));
    assert_eq!(
        text(event::LOCAL_GID).as_deref(),
        Some("::ffff:192.168.1.7")
    );
}

#[test]
fn completions_of_all_forms() {
    for (message, status, vendor) in [
        (
            "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
            12,
            129,
        ),
        (
            "NET/IB : Got completion from peer 10.0.0.1<5> with error 5, opcode 1, len 0, vendor err 249 (Recv)",
            5,
            249,
        ),
        (
            "NET/IB : Got completion from peer 10.0.0.1<5> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGidsfe80::2",
            12,
            129,
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.1<5> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 Send hca mlx5_0",
            4,
            81,
        ),
    ] {
        let facts = facts(&format!("n1:1:1 [0] x.cc:1 NCCL WARN {message}\n"));
        let of = |key| known(&facts, Subject::Event, "completion", key);
        assert_eq!(
            (of(event::STATUS), of(event::VENDOR_ERR)),
            (Some(status), Some(vendor)),
            "{message}"
        );
        let role = if status == 5 {
            Role::Consequence
        } else {
            Role::Failure
        };
        assert_eq!(
            known(&facts, Subject::Event, "completion", event::ROLE),
            Some(role)
        );
    }
}

#[test]
fn what_pytorch_says_is_of_the_rank_that_it_names() {
    let text = HEALTHY.text()
        + "[rank3]:[E304 05:06:07.891234567 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: \
           WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n\
           [rank3]:[E304 05:06:08.0 ProcessGroupNCCL.cpp:670] [Rank 3] To avoid data inconsistency, we are taking the entire process down.\n";
    let facts = facts(&text);
    let id = find(&facts, Subject::Event, "torch-timeout");
    assert_eq!(facts.name(facts.parent(id).unwrap()), "node1");
    assert_eq!(facts.known(id, event::RANK), Some(3));
    assert_eq!(facts.known(id, event::FIRST), Some(true));
    assert_eq!(
        known(&facts, Subject::Event, "torch-teardown", event::ROLE),
        Some(Role::Consequence)
    );
}

#[test]
fn a_log_of_the_first_releases() {
    let mut text = String::from("NCCL version 2.4.8+cuda10.1\n");
    for (host, rank) in [("a", 0), ("b", 1)] {
        let mut say =
            |message: &str| text.push_str(&format!("{host}:9:9 [0] NCCL INFO {message}\n"));
        say("NET/Socket : Using [0]eth0:10.0.0.1<0>");
        say("NET/Plugin : No plugin found (libnccl-net.so).");
        say("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>");
        say(&format!(
            "Ring 00 : {} -> {rank} [receive] via NET/IB/0/GDRDMA",
            1 - rank
        ));
        say(&format!(
            "Ring 00 : {rank} -> {} [send] via NET/IB/0",
            1 - rank
        ));
        say(&format!(
            "comm 0x7f rank {rank} nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE"
        ));
    }
    let facts = facts(&text);
    assert_eq!(
        known(&facts, Subject::Run, "run", run::CARRIER),
        Some(Carrier::Rdma)
    );
    assert_eq!(known(&facts, Subject::Run, "run", run::NODES), Some(2));
    assert_eq!(
        known(&facts, Subject::Run, "run", run::VERSION).as_deref(),
        Some("2.4.8")
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::GDR_SEND),
        Some(Percent(0.0))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::GDR_RECEIVE),
        Some(Percent(100.0))
    );
    assert_eq!(
        known(&facts, Subject::Run, "run", run::INITIALISED),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Event, "plugin-missing", event::ROLE),
        Some(Role::Benign)
    );
}

#[test]
fn a_node_alone_has_no_carrier_and_a_log_without_nccl_no_run() {
    let job = Job {
        hosts: 1,
        ..HEALTHY
    };
    let facts_one = facts(&job.text());
    assert_eq!(known(&facts_one, Subject::Run, "run", run::NODES), Some(1));
    assert_eq!(known(&facts_one, Subject::Run, "run", run::CARRIER), None);
    let none = facts("epoch 1\nloss 2.3\nRuntimeError: shapes differ\n");
    assert_eq!(none.all(Subject::Run).count(), 0);
    assert!(none.members(Subject::Run, Facts::CLUSTER).is_ok());
}

#[test]
fn a_log_of_rank_nought_alone_says_nothing_of_the_others() {
    let text: String = HEALTHY
        .of_host(0, 4000)
        .lines()
        .filter(|line| line.contains(":4000:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let facts = facts(&text);
    assert_eq!(known(&facts, Subject::Run, "run", run::SILENT), None);
    assert_eq!(known(&facts, Subject::Run, "run", run::INITIALISED), None);
    assert_eq!(known(&facts, Subject::Run, "run", run::NODES), Some(2));
    assert_eq!(
        known(&facts, Subject::Run, "run", run::CARRIER),
        Some(Carrier::Rdma)
    );
}

#[test]
fn a_file_that_breaks_off_leaves_counts_unknown() {
    let mut log = recording(&[("job.log", &HEALTHY.text())]);
    let mut reader = Reader::new(Limits::default());
    reader.feed(HEALTHY.text().as_bytes());
    let digest = reader.finish(Some("corrupt deflate stream".into()));
    log.add(Line::Drop(file("job.log")));
    log.add(Line::Reply {
        probe: NAME.into(),
        question: file("job.log"),
        repeat: 0,
        reply: Reply {
            at: 0,
            said: Ok(Answer::Value(Arc::new(
                serde_json::to_value(digest).unwrap(),
            ))),
        },
    });
    let facts = facts_of(&log);
    assert_eq!(known(&facts, Subject::Run, "run", run::INTER), None);
    assert_eq!(known(&facts, Subject::Run, "run", run::FAILED), None);
    assert!(facts.members(Subject::Run, Facts::CLUSTER).is_err());
}

#[test]
fn a_lost_line_makes_facts_unknown_and_never_others() {
    let whole = recording(&[
        ("one.log", &HEALTHY.of_host(0, 4000)),
        ("two.log", &HEALTHY.of_host(1, 4000)),
    ]);
    for question in [files(), file("one.log"), file("two.log")] {
        let mut lacking = whole.clone();
        lacking.add(Line::Drop(question));
        let facts = facts_of(&lacking);
        assert!(facts.members(Subject::Run, Facts::CLUSTER).is_err());
        for run in facts.all(Subject::Run) {
            assert_eq!(facts.known(run, run::INTER), None);
            assert_eq!(facts.known(run, run::FAILED), None);
            assert_eq!(facts.known(run, run::STUCK), None);
        }
    }
}

/// All facts that a pseudonym does not change, in their order.
fn without_names(facts: &Facts) -> Vec<String> {
    let mut all = Vec::new();
    for subject in [
        Subject::Run,
        Subject::Host,
        Subject::Rank,
        Subject::Channel,
        Subject::Hca,
        Subject::Env,
        Subject::Event,
    ] {
        let mut of_subject = Vec::new();
        for id in facts.all(subject) {
            let mut line = format!("{}:", subject.name());
            for (index, fact) in subject.schema().facts.iter().enumerate() {
                match facts.look(id, index) {
                    Some(Fact::Known(value, _)) => match (fact.ty, value) {
                        (Type::Text, _) => line += &format!(" {} is known", fact.name),
                        (Type::Texts, Value::Texts(texts)) => {
                            line += &format!(" {} are {}", fact.name, texts.len())
                        }
                        (_, value) => line += &format!(" {}={value}", fact.name),
                    },
                    Some(Fact::Unknown(gap)) => line += &format!(" {}?{}", fact.name, gap.why),
                    None => {}
                }
            }
            of_subject.push(line);
        }
        of_subject.sort();
        all.extend(of_subject);
    }
    all
}

#[test]
fn redaction_replaces_names_and_keeps_what_is_judged() {
    let mut one = HEALTHY.of_host(0, 4000).replace("node0", "secretrack7-n0");
    one += "worker-secretpod trainer 2025-03-04T05:06:07.1Z secretrack7-n0:4001:4001 [1] x.cc:1 NCCL WARN NET/IB : Got completion from peer \
            secretrack9-n4.corp.example<4711> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::ba3f:d2ff:fec0:ffee remoteGids fe80::ba3f:d2ff:fec0:ffef\n\
            secretrack7-n0:4001:4001 [1] NCCL INFO NCCL_HOSTID set by environment to secrethostid\n\
            secretrack7-n0:4001:4001 [1] NCCL INFO NET/Plugin: Could not find: /home/alice/libnccl-net.so\n\
            [rank1]: Traceback (most recent call last) in /home/alice/train.py on secretrack7-n0\n";
    let two = HEALTHY.of_host(1, 4000).replace("node1", "secretrack7-n1");
    let raw = recording(&[("secretrack7-n0.log", &one), ("secretrack7-n1.log", &two)]);
    let lines = raw.to_lines();
    let mut redactor = Redactor::new(RedactKey::from_text("0123456789"), "", &["alice"]);
    redactor.learn(&lines);
    let mut redacted = Recording::new(redactor.header(raw.header.clone()));
    let mut text = String::new();
    for line in lines {
        let line = redactor.line(line);
        text += &crate::source::wire::write_line(&line).unwrap();
        redacted.add(line);
    }
    for secret in ["secret", "alice", "corp.example", "d2ff:fec0", "10.0.0.1"] {
        let at = text.find(secret);
        assert_eq!(
            at.map(|at| &text[at.saturating_sub(80)..(at + 80).min(text.len())]),
            None,
            "{secret}"
        );
    }
    assert_eq!(
        without_names(&facts_of(&redacted)),
        without_names(&facts_of(&raw))
    );
}

#[test]
fn a_channel_whose_network_is_torn_is_over_no_other_network() {
    let healthy = HEALTHY.text();
    for left in ["B", "IBIB", "ICUMEM"] {
        let torn = format!("[send] via NET/{left}/");
        let torn = healthy.replacen("[send] via NET/IB/", &torn, 1);
        assert_ne!(healthy, torn);
        let carrier = known(&facts(&torn), Subject::Run, "run", run::CARRIER);
        assert_eq!(carrier, Some(Carrier::Rdma), "{left}");
    }
    let two = healthy.replacen("[send] via NET/IB/", "[send] via NET/Socket/", 1);
    let carrier = known(&facts(&two), Subject::Run, "run", run::CARRIER);
    assert_eq!(carrier, Some(Carrier::Mixed));
}

#[test]
fn a_torn_name_of_a_network_is_no_other_network() {
    let healthy = HEALTHY.of_host(0, 100) + &HEALTHY.of_host(1, 100);
    let torn = healthy
        .replacen("Using network IB\n", "Using network I\nB\n", 1)
        .replacen(
            "Using network IB\n",
            "Using network IBstep 12 loss 0.1\n",
            1,
        );
    assert_ne!(healthy, torn);
    let read = facts(&torn);
    for host in ["node0", "node1"] {
        let network = known(&read, Subject::Host, host, host::NETWORK);
        assert!(network.is_none_or(|network| &*network == "IB"));
        assert_ne!(
            known(&read, Subject::Host, host, host::CARRIER),
            Some(Carrier::Mixed)
        );
    }
}

#[test]
fn where_nearly_all_ended_their_initialisation_the_others_lines_are_lost() {
    let job = Job {
        hosts: 4,
        ..HEALTHY
    };
    let text: String = (0..4).map(|host| job.of_host(host, 100)).collect();
    let line = text
        .lines()
        .find(|l| l.contains("rank 3 ") && l.contains("Init COMPLETE"))
        .unwrap();
    let read = facts(&text.replace(line, &line[..line.len() - 20]));
    let run = read.all(Subject::Run).next().unwrap();
    assert_eq!(read.known(run, run::STUCK), Some(0));
    assert_eq!(read.known(run, run::INITIALISED), None);
}

#[test]
fn channels_between_nodes_over_nvlink_need_no_network() {
    let text = HEALTHY.of_host(0, 100) + &HEALTHY.of_host(1, 100);
    let text = text
        .replace(" [receive] via NET/IB/0/GDRDMA", " via P2P/MNNVL")
        .replace(" [send] via NET/IB/1/GDRDMA", " via P2P/MNNVL");
    let read = facts(&text);
    let run = read.all(Subject::Run).next().unwrap();
    assert_eq!(read.known(run, run::CARRIER), Some(Carrier::Nvlink));
    assert_eq!(read.known(run, run::PROOF), Some(TransportProof::Channels));
    assert_eq!(read.known(run, run::INTER), Some(0));
    assert!(read.known(run, run::INTER_NVLINK).is_some_and(|n| n > 0));
}

#[test]
fn what_connections_were_made_with() {
    use super::hosts::connection;
    for (message, expected) in [
        (
            "NET/IB: Dev 0 Port 1 qpn 74 mtu 5 LID 3",
            Some((4096, None)),
        ),
        (
            "NET/IB: Dev 0 Port 1 qpn 74 mtu 3 GID 3 (0/8D01A8C0FFFF0000)",
            Some((1024, Some((3, false)))),
        ),
        (
            "NET/IB: Dev 0 Port 1 qpn 74 mtu 5 query_ece={supported=1, vendor_id=0x15b3, options=0x30000002, comp_mask=0x0} GID 0 (80FE/8D01A8C0FFFF0000)",
            Some((4096, Some((0, true)))),
        ),
        (
            "NET/IB: NCCL Dev 0 IbDev 2 Port 1 qpn 74 mtu 5 LID 7 subnet-prefix 65534  FLID 0 fifoRkey=0x1 fifoLkey=0x1",
            Some((4096, None)),
        ),
        (
            "NET/IB: ncclIbConnect: NCCL Dev 0 IbDev 0 Port 1 qp_num 74 mtu 4 GID 3 (0/1) ctsFifoRkey=0x1 ctsFifoLkey=0x1",
            Some((2048, Some((3, false)))),
        ),
        ("NET/IB: Dev 0 Port 1 qpn 74 mtu 5 GI", None),
        ("NET/IB: Dev 0 Port 1 qpn 74 mtu 9 LID 3", None),
    ] {
        assert_eq!(connection(message), expected, "{message}");
    }
    let text = HEALTHY.of_host(0, 100)
        + &HEALTHY.of_host(1, 100)
        + "node0:100:100 [0] NCCL INFO NET/IB: Dev 0 Port 1 qpn 74 mtu 5 GID 3 (0/8D01A8C0FFFF0000)\n"
        + "node0:100:100 [0] NCCL INFO NET/IB: Dev 1 Port 1 qpn 75 mtu 3 GID 3 (0/8D01A8C0FFFF0000)\n"
        + "node0:100:100 [0] NCCL INFO NET/IB: Dev 1 Port 1 qpn 76 mtu 3 GID 3 (0/8D01A8C0FFFF0000)\n";
    let read = facts(&text);
    assert_eq!(
        known(&read, Subject::Host, "node0", host::QUEUE_MTU),
        Some(1024)
    );
    assert_eq!(
        known(&read, Subject::Host, "node0", host::QUEUE_GID_INDEX),
        Some(3)
    );
    assert_eq!(
        known(&read, Subject::Host, "node0", host::QUEUE_LINK_LOCAL),
        Some(false)
    );
    assert_eq!(known(&read, Subject::Host, "node1", host::QUEUE_MTU), None);
}
