use super::*;
use crate::fact::live_rank::RankFault;
use crate::fact::{live_node, live_rank};
use crate::probe::testing::run;
use crate::source::wire::{self, Header};

/// The load of a GPU: percent of time with a kernel and with memory in use, and watts of 700.
type Load = [u64; 3];

const SPINS: Load = [100, 0, 120];
const IDLE: Load = [0, 0, 70];
const COMPUTES: Load = [100, 60, 610];

/// A node with four ranks, each with a GPU and one port of an adapter; what differs from one that stands still in the GPU.
struct Node {
    gpus: [Load; 4],
    /// Nanoseconds of CPU time that each rank used in five seconds.
    cpu: u64,
    /// A rank that sleeps meanwhile.
    sleeps: Option<u64>,
    /// Rises of counters of the port.
    xmit_data: u64,
    ack_timeouts: u64,
    state: &'static str,
    /// A question that has no answer.
    lost: &'static str,
}

impl Default for Node {
    fn default() -> Self {
        Node {
            gpus: [SPINS; 4],
            cpu: 5_000_000_000,
            sleeps: None,
            xmit_data: 0,
            ack_timeouts: 0,
            state: "4: ACTIVE",
            lost: "",
        }
    }
}

impl Node {
    fn lines(&self) -> Vec<String> {
        let text = |path: &str, n: u32, t: u64, text: &str| {
            format!(r#"{{"q":{{"read":"{path}"}},"n":{n},"t":{t},"text":"{text}\n"}}"#)
        };
        let list =
            |path: &str, names: &str| format!(r#"{{"q":{{"list":"{path}"}},"names":[{names}]}}"#);
        let process = |rank: u32| {
            let pid = 10 + rank;
            format!(
                r#"{{"env":{{"LOCAL_RANK":"{rank}","LOCAL_WORLD_SIZE":"4","MASTER_ADDR":"n0","MASTER_PORT":"1","RANK":"{rank}","WORLD_SIZE":"4"}},"name":"python3","parent":1,"pid":{pid},"state":"R"}}"#
            )
        };
        let processes: Vec<String> = (0..4).map(process).collect();
        let processes = processes.join(",");
        let mut lines = vec![
            r#"{"q":{"call":"rank_named"},"value":{"pids":[]}}"#.to_owned(),
            r#"{"q":{"wait":"sample"},"value":5.0}"#.to_owned(),
            r#"{"q":{"call":"nvml_system"},"value":{"nvmlDeviceGetCount_v2":4}}"#.to_owned(),
            list("/sys/class", r#""infiniband","net""#),
            r#"{"q":{"netlink":"rdma/dev-get"},"hex":""}"#.to_owned(),
            r#"{"q":{"call":"process_libraries","pid":10},"value":{"libraries":[],"nccl":null}}"#
                .to_owned(),
            text("/sys/devices/system/cpu/modalias", 0, 1, "cpu:type:x86"),
            list("/sys/class/infiniband", r#""mlx5_0""#),
            list("/sys/class/infiniband/mlx5_0/ports", r#""1""#),
            list(
                "/sys/class/infiniband/mlx5_0/ports/1/counters",
                r#""port_xmit_data""#,
            ),
            list(
                "/sys/class/infiniband/mlx5_0/ports/1/hw_counters",
                r#""local_ack_timeout_err""#,
            ),
            text(
                "/sys/class/infiniband/mlx5_0/ports/1/state",
                0,
                1,
                self.state,
            ),
        ];
        for (n, t, rises) in [(0, 1_000, 0), (1, 5_001_000, 1)] {
            lines.push(format!(r#"{{"q":{{"call":"rank_processes","pids":""}},"n":{n},"value":{{"all_visible":true,"withheld":[],"processes":[{processes}]}}}}"#));
            for (rank, load) in (0..4).zip(self.gpus) {
                let pid = 10 + rank;
                let (state, call, rises) = match self.sleeps {
                    Some(one) if one == rank => ("S", r#""call":"nanosleep","#, 0),
                    _ => ("R", "", rises),
                };
                let cpu = 1_000_000_000 + rises * self.cpu;
                let slices = 100 + rises * 50;
                lines.push(format!(r#"{{"q":{{"call":"rank_threads","pid":{pid}}},"n":{n},"t":{t},"value":{{"pid":{pid},"state":"{state}","io":{{"rchar":5}},"threads":[{{{call}"tid":{pid},"name":"python3","state":"{state}","cpu_ns":{cpu},"slices":{slices}}}]}}}}"#));
                lines.push(format!(
                    r#"{{"q":{{"call":"rank_sockets","pid":{pid}}},"n":{n},"value":{{"sockets":[]}}}}"#
                ));
                let [kernel, memory, watts] = load;
                lines.push(format!(r#"{{"q":{{"call":"nvml_load","index":{rank}}},"n":{n},"value":{{"nvmlDeviceGetUtilizationRates":{{"gpu":{kernel},"memory":{memory}}},"nvmlDeviceGetPowerUsage":{watts}000,"nvmlDeviceGetEnforcedPowerLimit":700000,"nvmlDeviceGetComputeRunningProcesses":[{{"pid":{pid},"memory":1,"ancestors":[1]}}]}}}}"#));
            }
            let port = "/sys/class/infiniband/mlx5_0/ports/1";
            let counter = |name: &str, rise: u64| {
                text(
                    &format!("{port}/{name}"),
                    n,
                    t,
                    &(7 + rises * rise).to_string(),
                )
            };
            lines.push(counter("counters/port_xmit_data", self.xmit_data));
            lines.push(counter(
                "hw_counters/local_ack_timeout_err",
                self.ack_timeouts,
            ));
        }
        lines.retain(|line| self.lost.is_empty() || !line.contains(self.lost));
        lines
    }

    fn facts(&self) -> Facts {
        let lines = self.lines();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        run(&PROBE, &lines).0
    }
}

fn job<T: crate::fact::Typed>(facts: &Facts, key: crate::fact::Key<T>) -> Option<T> {
    let id = facts.all(Subject::LiveJob).next().unwrap();
    facts.known(id, key)
}

/// The rank that is at fault, and what is said of it.
fn odd(facts: &Facts) -> Vec<(String, RankFault, String)> {
    let text = |id, key| {
        facts
            .known(id, key)
            .map_or(String::new(), |text: Arc<str>| text.to_string())
    };
    let ranks = facts.all(Subject::LiveRank).map(|id| {
        let fault = facts.known(id, live_rank::FAULT).unwrap();
        let said = format!(
            "{}; {}",
            text(id, live_rank::WAITS),
            text(id, live_rank::OTHERS)
        );
        (facts.name(id).to_owned(), fault, said)
    });
    ranks
        .filter(|(_, fault, _)| *fault != RankFault::None)
        .collect()
}

fn of_node<T: crate::fact::Typed>(facts: &Facts, key: crate::fact::Key<T>) -> Option<T> {
    let id = facts.all(Subject::LiveNode).next().unwrap();
    facts.known(id, key)
}

#[test]
fn gpus_that_all_spin_stand_still_though_their_processes_use_cpu_time() {
    let facts = Node::default().facts();
    assert_eq!(job(&facts, live_job::STANDS_STILL), Some(true));
    let waits = job(&facts, live_job::WAITS).unwrap();
    assert_eq!(
        &*waits,
        "the GPUs of its 4 ranks spin (100 % busy, memory 0 %, 120 W of 700 W)"
    );
    assert_eq!(odd(&facts), []);
    assert_eq!(job(&facts, live_job::COMPLETE), Some(true));
}

#[test]
fn a_rank_whose_gpu_is_idle_while_the_others_spin_has_launched_nothing() {
    let gpus = [SPINS, SPINS, IDLE, SPINS];
    let rank = "rank 2 (pid 12)".to_owned();
    let facts = Node {
        gpus,
        sleeps: Some(2),
        ..Node::default()
    }
    .facts();
    assert_eq!(job(&facts, live_job::STANDS_STILL), Some(false));
    let said = "has launched nothing on its GPU, which is idle; its process sleeps (nanosleep); the GPUs of the other 3 spin (100 % busy, memory 0 %, 120 W of 700 W)";
    assert_eq!(
        odd(&facts),
        [(rank.clone(), RankFault::Differs, said.to_owned())]
    );
    // It may write a checkpoint for all.
    let facts = Node {
        gpus,
        ..Node::default()
    }
    .facts();
    let said = "has launched nothing on its GPU, which is idle; its process works; the GPUs of the other 3 spin (100 % busy, memory 0 %, 120 W of 700 W)";
    assert_eq!(
        odd(&facts),
        [(rank, RankFault::ComputesAlone, said.to_owned())]
    );
    assert_eq!(job(&facts, live_job::STANDS_STILL), Some(false));
}

#[test]
fn a_rank_whose_gpu_computes_while_the_others_spin_is_waited_for() {
    let gpus = [SPINS, SPINS, SPINS, COMPUTES];
    let facts = Node {
        gpus,
        ..Node::default()
    }
    .facts();
    let said = "computes on its GPU (100 % busy, memory 60 %, 610 W of 700 W); the GPUs of the other 3 spin (100 % busy, memory 0 %, 120 W of 700 W)";
    let rank = "rank 3 (pid 13)".to_owned();
    assert_eq!(
        odd(&facts),
        [(rank, RankFault::ComputesAlone, said.to_owned())]
    );
    assert_eq!(job(&facts, live_job::STANDS_STILL), Some(false));
}

#[test]
fn what_moves_or_computes_is_not_called_still() {
    let moving = Node {
        xmit_data: 1 << 30,
        ..Node::default()
    };
    let computing = Node {
        gpus: [COMPUTES; 4],
        ..Node::default()
    };
    let half = Node {
        gpus: [SPINS, COMPUTES, SPINS, COMPUTES],
        ..Node::default()
    };
    let idle = Node {
        gpus: [IDLE; 4],
        ..Node::default()
    };
    for node in [moving, computing, half, idle] {
        let facts = node.facts();
        assert_eq!(job(&facts, live_job::STANDS_STILL), Some(false));
        assert_eq!(odd(&facts), []);
        let summary = job(&facts, live_job::SUMMARY).unwrap();
        assert!(summary.starts_with("working: 4 ranks"), "{summary}");
    }
}

#[test]
fn errors_of_ports_and_ports_that_are_down_are_said() {
    let facts = Node {
        ack_timeouts: 3,
        ..Node::default()
    }
    .facts();
    assert_eq!(of_node(&facts, live_node::HAS_RAISED), Some(true));
    assert_eq!(
        of_node(&facts, live_node::RAISED).as_deref(),
        Some("mlx5_0/1: local_ack_timeout_err +3 (acknowledgements that did not come in time)")
    );
    let facts = Node::default().facts();
    assert_eq!(of_node(&facts, live_node::HAS_RAISED), Some(false));
    // Nobody has queue pairs there.
    let facts = Node {
        state: "1: DOWN",
        ..Node::default()
    }
    .facts();
    assert_eq!(of_node(&facts, live_node::HAS_UNUSABLE), Some(false));
}

#[test]
fn what_did_not_answer_is_said_and_nothing_is_called_well() {
    for lost in [
        r#""nvml_system""#,
        r#""nvml_load","index":1"#,
        r#""list":"/sys/class/infiniband""#,
        r#""list":"/sys/class/infiniband/mlx5_0/ports/1/counters""#,
        "ports/1/state",
    ] {
        let facts = Node {
            lost,
            gpus: [COMPUTES; 4],
            ..Node::default()
        }
        .facts();
        assert_eq!(job(&facts, live_job::COMPLETE), Some(false), "{lost}");
    }
}

#[test]
fn jobs_of_one_node_each_are_not_joined_though_their_launches_look_alike() {
    let recorded = |name: &str, node: &Node| {
        let mut recording = Recording::new(Header {
            node: name.to_owned(),
            ..Header::default()
        });
        for line in node.lines() {
            let line = format!("{{\"probe\":\"ranks\",{}", line.strip_prefix('{').unwrap());
            recording.add(wire::parse_line(&line).unwrap());
        }
        recording
    };
    let computing = Node {
        gpus: [COMPUTES; 4],
        ..Node::default()
    };
    let recordings = [recorded("n1", &Node::default()), recorded("n2", &computing)];
    let mut facts = Facts::new();
    establish(&recordings, &mut facts);
    let still: Vec<Option<bool>> = facts
        .all(Subject::LiveJob)
        .map(|id| facts.known(id, live_job::STANDS_STILL))
        .collect();
    assert_eq!(still, [Some(true), Some(false)]);
}
