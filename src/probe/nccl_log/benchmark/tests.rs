//! Outputs of tools as they stand in logs.

use crate::check::{Catalogue, Outcome, judge};
use crate::fact::benchmark::{self, BenchmarkFailure};
use crate::fact::gid::{self, GidType};
use crate::fact::gpu_nic::{self, Distance};
use crate::fact::gpu_pair::{self, P2p};
use crate::fact::port::{self, PhysState, PortState};
use crate::fact::*;
use crate::probe::nccl_log::tests::{facts_of, recording};
use crate::source::recording::Recording;

fn facts(log: &str) -> Facts {
    let mut facts = facts_of(&recording(&[("job.log", log)]));
    facts.set_members(
        Subject::Node,
        Facts::CLUSTER,
        Membership::Known(Origin::Stated),
    );
    crate::derive::derive(&mut facts);
    facts
}

/// The checks that fail.
fn failing(facts: &Facts) -> Vec<String> {
    let catalogue = Catalogue::embedded().unwrap();
    let verdicts = judge(&catalogue, facts);
    let mut failing: Vec<String> = verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fails)
        .map(|verdict| catalogue.checks[verdict.check].case.to_string())
        .collect();
    failing.dedup();
    failing
}

fn only(facts: &Facts, subject: Subject) -> Id {
    let all: Vec<Id> = facts.all(subject).collect();
    assert_eq!(
        all.len(),
        1,
        "{:?}",
        all.iter().map(|id| facts.name(*id)).collect::<Vec<_>>()
    );
    all[0]
}

fn find(facts: &Facts, subject: Subject, name: &str) -> Id {
    facts
        .all(subject)
        .find(|id| facts.name(*id) == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

const TABLE: &str = "\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    52.31   20.05   37.59      0    51.98   20.17   37.82      0
  1073741824     268435456     float     sum      -1   4810.2  223.22  418.54      0   4806.9  223.38  418.83      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 228.195
#
# Collective test concluded: all_reduce_perf
";

const DEVICES: &str = "\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1073741824 step: 1024(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 124021 on      node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid 124022 on      node1 device  1 [0000:0f:00] NVIDIA A100-SXM4-80GB
#  Rank  2 Group  0 Pid  98212 on      node2 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
#
";

#[test]
fn a_table_has_the_ranks_that_stand_before_it() {
    let at = |busbw: &str| TABLE.replace("418.54", busbw).replace("418.83", busbw);
    let fast = facts(&format!("{DEVICES}{TABLE}"));
    let id = only(&fast, Subject::Benchmark);
    assert_eq!(fast.known(id, benchmark::RANKS), Some(3));
    assert_eq!(fast.known(id, benchmark::HOSTS), Some(2));
    let gpus = fast.known(id, benchmark::GPUS);
    assert_eq!(gpus.as_deref(), Some("NVIDIA A100-SXM4-80GB"));
    assert_eq!(fast.known(id, benchmark::REDUCES), Some(true));
    assert_eq!(failing(&fast), [""; 0]);
    // A list without a table is of nothing, and a table without a list has no hosts.
    assert_eq!(facts(DEVICES).all(Subject::Benchmark).count(), 0);
    let alone = facts(TABLE);
    assert_eq!(
        alone.known(only(&alone, Subject::Benchmark), benchmark::HOSTS),
        None
    );
    // The best row counts, and what each of them reaches here is little.
    let slow = at("1.61").replace("37.59", "1.20").replace("37.82", "1.20");
    assert_eq!(
        failing(&facts(&format!("{DEVICES}{slow}"))),
        ["log/test-at-socket-speed", "log/test-slow-for-gpus"]
    );
}

#[test]
fn small_messages_have_a_latency_and_the_first_all_reduce_bench_one_size() {
    let table = facts(TABLE);
    let id = only(&table, Subject::Benchmark);
    assert_eq!(table.known(id, benchmark::SMALLEST), Some(Bytes(1 << 20)));
    let latency = table.known(id, benchmark::LATENCY);
    assert_eq!(latency, Some(Seconds(52.31 / 1e6)));
    let old = facts(
        "The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 4 ranks):\n algbw: 247.654 GBps (1981.2 Gbps)\n busbw: 371.481 GBps (2971.9 Gbps)\n",
    );
    let id = only(&old, Subject::Benchmark);
    assert_eq!(
        old.known(id, benchmark::LARGEST),
        Some(Bytes(4_000_000_000))
    );
    assert_eq!(old.known(id, benchmark::RANKS), Some(4));
    let best = BitRate(2_971_848_000_000);
    assert_eq!(old.known(id, benchmark::BANDWIDTH), Some(best));
}

#[test]
fn a_table_of_nccl_tests() {
    let facts = facts(TABLE);
    let id = only(&facts, Subject::Benchmark);
    assert_eq!(facts.known(id, benchmark::ROWS), Some(2));
    assert_eq!(facts.known(id, benchmark::LARGEST), Some(Bytes(1 << 30)));
    assert_eq!(
        facts.known(id, benchmark::BANDWIDTH),
        Some(BitRate(3_350_640_000_000))
    );
    assert_eq!(
        facts.known(id, benchmark::MEAN_BANDWIDTH),
        Some(BitRate(1_825_560_000_000))
    );
    assert_eq!(facts.known(id, benchmark::WRONG), Some(0));
    assert_eq!(facts.known(id, benchmark::COMPLETE), Some(true));
    assert_eq!(
        facts.known(id, benchmark::TEST).as_deref(),
        Some("all_reduce_perf")
    );
    assert!(failing(&facts).is_empty());
}

#[test]
fn a_table_between_lines_of_nccl_with_a_launchers_marks() {
    let noise =
        "[1,0]<stdout>:n1:411:411 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\r\n";
    let log: String = TABLE
        .lines()
        .map(|line| format!("[1,0]<stdout>:\u{1b}[32m{line}\u{1b}[0m\r\n{noise}[1,3]<stdout>:7 8 9 10 11 12 13\r\n"))
        .collect();
    let facts = facts(&log);
    let id = only(&facts, Subject::Benchmark);
    assert_eq!(facts.known(id, benchmark::ROWS), Some(2));
    assert_eq!(facts.known(id, benchmark::WRONG), Some(0));
    assert_eq!(facts.known(id, benchmark::PLACE).as_deref(), Some("line 4"));
}

#[test]
fn wrong_values_are_an_error() {
    let log = TABLE
        .replace("37.82      0", "37.82     32")
        .replace(": 0 OK", ": 1 FAILED");
    let facts = facts(&log);
    let id = only(&facts, Subject::Benchmark);
    assert_eq!(facts.known(id, benchmark::WRONG), Some(32));
    assert_eq!(
        facts.known(id, benchmark::WRONG_ROWS).as_deref(),
        Some("1048576 bytes in place: 32")
    );
    assert!(failing(&facts).contains(&"log/test-results-wrong".to_owned()));
}

#[test]
fn what_was_not_looked_at_is_not_right() {
    let unchecked = TABLE.replace("      0", "    N/A");
    let torn = TABLE.replace(
        "223.22  418.54      0   4806.9  223.38  418.83      0",
        "223.22 n1:4",
    );
    let cut = TABLE.split("# Out of").next().unwrap().to_owned();
    // Older tables have the error of a sum in that column, which is no count.
    let old = TABLE
        .replace("#wrong", " error")
        .replace("      0\n", "  5e-07\n")
        .replace("      0 ", "  1e+00 ");
    for log in [unchecked, torn, cut, old] {
        let facts = facts(&log);
        let id = only(&facts, Subject::Benchmark);
        assert_eq!(facts.known(id, benchmark::WRONG), None, "{log}");
        assert!(failing(&facts).is_empty(), "{log}");
    }
}

#[test]
fn several_tables_are_several() {
    let facts = facts(&format!("{TABLE}{TABLE}"));
    assert_eq!(facts.all(Subject::Benchmark).count(), 2);
}

#[test]
fn a_table_of_all_reduce_bench() {
    let facts = facts(
        "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n|    32KB |   0.92GBps |   0.49GBps |\n|     4GB | 480.15GBps | 274.37GBps |\n\nNot all payloads are useful\n",
    );
    let id = only(&facts, Subject::Benchmark);
    assert_eq!(facts.known(id, benchmark::ROWS), Some(2));
    assert_eq!(facts.known(id, benchmark::LARGEST), Some(Bytes(4 << 30)));
    assert_eq!(
        facts.known(id, benchmark::BANDWIDTH),
        Some(BitRate(3_841_200_000_000))
    );
    assert!(failing(&facts).is_empty());
}

const PERFTEST: &str = "\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Mtu             : 1024[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 0[B]
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0089 PSN 0x8b1d12 RKey 0x17ebb2 VAddr 0x007f4a8c2c0000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
";

#[test]
fn results_of_perftest() {
    let good = format!(
        "{PERFTEST} 65536      5000             23531.24            23529.45\t\t   0.376471\n---------------------------------------------------------------------------------------\n"
    );
    let good = facts(&good);
    let id = only(&good, Subject::Benchmark);
    assert_eq!(
        good.known(id, benchmark::TEST).as_deref(),
        Some("RDMA_Write BW Test")
    );
    assert_eq!(good.known(id, benchmark::DEVICE).as_deref(), Some("mlx5_0"));
    assert_eq!(
        good.known(id, benchmark::LINK_LAYER).as_deref(),
        Some("Ethernet")
    );
    assert_eq!(good.known(id, benchmark::GID_INDEX), Some(3));
    assert_eq!(
        good.known(id, benchmark::FAILURE),
        Some(BenchmarkFailure::None)
    );
    let rate = good.known(id, benchmark::BANDWIDTH).unwrap().0;
    assert!((197_379_000_000..197_381_000_000).contains(&rate), "{rate}");
    assert!(failing(&good).is_empty());

    let bad = facts(&format!(
        "{PERFTEST} Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n"
    ));
    let id = only(&bad, Subject::Benchmark);
    assert_eq!(bad.known(id, benchmark::STATUS), Some(12));
    assert_eq!(failing(&bad), ["log/perftest-request-failed"]);

    let lonely = facts(
        "Couldn't connect to 192.0.2.7:18515\nUnable to open file descriptor for socket connection Unable to init the socket connection\n",
    );
    assert_eq!(failing(&lonely), ["log/perftest-not-connected"]);

    let cut = facts(PERFTEST);
    assert!(failing(&cut).is_empty());
    assert_eq!(
        cut.known(only(&cut, Subject::Benchmark), benchmark::FAILURE),
        None
    );
}

#[test]
fn latency_of_perftest() {
    let facts = facts(
        "                    Send Latency Test\n Dual-port       : OFF          Device         : mlx5_3\n #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n 2       1000          1.02           5.20         1.05      	       1.06        	0.08   		1.20    		5.20\n",
    );
    let id = only(&facts, Subject::Benchmark);
    let latency = facts.known(id, benchmark::LATENCY).unwrap().0;
    assert!((1.05e-6..1.07e-6).contains(&latency), "{latency}");
}

fn ibstat(name: &str, state: &str, phys: &str, layer: &str) -> String {
    format!(
        "CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tHardware version: 0\n\tNode GUID: 0x0200000000000000\n\tSystem image GUID: 0x0200000000000000\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {phys}\n\t\tRate: 400\n\t\tBase lid: 12\n\t\tLMC: 0\n\t\tSM lid: 1\n\t\tCapability mask: 0xa751e848\n\t\tPort GUID: 0x0200000000000000\n\t\tLink layer: {layer}\n"
    )
}

#[test]
fn ports_of_ibstat() {
    let healthy: String = (0..4)
        .map(|n| ibstat(&format!("mlx5_{n}"), "Active", "LinkUp", "InfiniBand"))
        .chain([ibstat("mlx5_4", "Down", "Disabled", "Ethernet")])
        .collect();
    let good = facts(&healthy);
    let port = find(&good, Subject::Port, "mlx5_3/1");
    assert_eq!(good.known(port, port::STATE), Some(PortState::Active));
    assert_eq!(good.known(port, port::PHYS_STATE), Some(PhysState::LinkUp));
    assert_eq!(good.known(port, port::RATE), Some(BitRate(400_000_000_000)));
    assert_eq!(good.known(port, port::INTENDED), Some(true));
    assert_eq!(failing(&good), ["link/port-listed-down"]);

    // A port that is down may be a spare one: a note, and no error.
    let one_down = facts(&format!(
        "{healthy}{}",
        ibstat("mlx5_5", "Down", "Polling", "InfiniBand")
    ));
    assert_eq!(
        failing(&one_down),
        ["log/pasted-port-down", "link/port-listed-down"]
    );

    // One that has link and no subnet manager is meant to be used.
    let init = facts(&format!(
        "{healthy}{}",
        ibstat("mlx5_5", "Initializing", "LinkUp", "InfiniBand")
    ));
    assert!(
        failing(&init).contains(&"ib/no-subnet-manager".to_owned()),
        "{:?}",
        failing(&init)
    );
}

#[test]
fn boards_of_ibv_devinfo_decide() {
    let device = |name: &str, board: &str, state: &str, phys: &str| {
        format!(
            "hca_id:\t{name}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.1002\n\tnode_guid:\t\t\t0200:0000:0000:0000\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t\t4129\n\thw_ver:\t\t\t\t0x0\n\tboard_id:\t\t\t{board}\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\t{state}\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tsm_lid:\t\t\t1\n\t\t\tport_lid:\t\t12\n\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\tInfiniBand\n\t\t\tphys_state:\t\t{phys}\n\n"
        )
    };
    let up: String = (0..4)
        .map(|n| {
            device(
                &format!("mlx5_{n}"),
                "MT_0000000838",
                "PORT_ACTIVE (4)",
                "LINK_UP (5)",
            )
        })
        .collect();
    assert_eq!(failing(&facts(&up)), Vec::<String>::new());
    let rail = facts(&format!(
        "{up}{}",
        device("mlx5_4", "MT_0000000838", "PORT_DOWN (1)", "POLLING (2)")
    ));
    assert!(
        failing(&rail).contains(&"link/polling".to_owned()),
        "{:?}",
        failing(&rail)
    );
    let spare = facts(&format!(
        "{up}{}",
        device("mlx5_4", "MT_0000000834", "PORT_DOWN (1)", "POLLING (2)")
    ));
    assert_eq!(failing(&spare), ["link/port-listed-down"]);
}

#[test]
fn hosts_of_a_parallel_shell_are_nodes() {
    let of = |host: &str, text: String| -> Vec<String> {
        text.lines()
            .map(|line| format!("{host}: {line}\n"))
            .collect()
    };
    let one = of("node1", ibstat("mlx5_0", "Active", "LinkUp", "InfiniBand"));
    let two = of("node2", ibstat("mlx5_0", "Down", "Polling", "InfiniBand"));
    let log: String = one
        .iter()
        .zip(&two)
        .map(|(a, b)| format!("{a}{b}"))
        .collect();
    let facts = facts(&log);
    let node = |name| find(&facts, Subject::Node, name);
    for (name, state) in [("node1", PortState::Active), ("node2", PortState::Down)] {
        let port = facts.below(node(name), Subject::Port).next().unwrap();
        assert_eq!(facts.known(port, port::STATE), Some(state));
    }
}

#[test]
fn gids() {
    let facts = facts(
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\nmlx5_0\t1\t0\tfe80:0000:0000:0000:0200:00ff:fe00:0001\t\t\tv1\trdma0\nmlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:c000:0201\t192.0.2.1  \tv2\trdma0\nn_gids_found=2\n",
    );
    let id = find(&facts, Subject::Gid, "mlx5_0/1 gid 3");
    assert_eq!(facts.known(id, gid::TYPE), Some(GidType::V2));
    let port = only(&facts, Subject::Port);
    assert_eq!(facts.known(port, port::GID_INDEX), Some(3));
    assert_eq!(facts.known(port, port::GID_ROUTABLE_V2), Some(true));
    assert_eq!(failing(&facts), Vec::<String>::new());
}

const MATRIX: &str = "\
\t\u{1b}[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tPXB\tSYS\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPIX\t56-111\t1\t\tN/A
NIC0\tPXB\tSYS\t X \tSYS
NIC1\tSYS\tPIX\tSYS\t X 

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
";

#[test]
fn distances() {
    let facts = facts(MATRIX);
    let near = find(&facts, Subject::GpuNic, "GPU1 mlx5_3");
    assert_eq!(facts.known(near, gpu_nic::DISTANCE), Some(Distance::Pix));
    let pair = find(&facts, Subject::GpuPair, "GPU0 - GPU1");
    assert_eq!(facts.known(pair, gpu_pair::NVLINK), Some(true));
    assert_eq!(failing(&facts), Vec::<String>::new());
}

#[test]
fn peers() {
    let matrix = |asked: &str, says: &str| {
        format!(
            "$ nvidia-smi topo -p2p {asked}\n \tGPU0\tGPU1\t\n GPU0\tX\t{says}\t\n GPU1\t{says}\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
        )
    };
    let none = facts(&matrix("r", "CNS"));
    let pair = find(&none, Subject::GpuPair, "GPU0 - GPU1");
    assert_eq!(
        none.known(pair, gpu_pair::P2P_READ),
        Some(P2p::ChipsetNotSupported)
    );
    // Whether these GPUs could reach each other on another machine, the matrix does not say.
    assert_eq!(failing(&none), ["tool/gpu-peers-refused"]);
    assert_eq!(failing(&facts(&matrix("r", "OK"))), Vec::<String>::new());
    // PCIe GPUs have no NVLink: that is their design.
    assert_eq!(failing(&facts(&matrix("n", "NS"))), Vec::<String>::new());
}

#[test]
fn a_redacted_log_says_the_same() {
    use crate::source::redact::{Key, Redactor};
    let log = format!(
        "{TABLE}{PERFTEST} Failed status 12: wr_id 0\n{}{MATRIX}",
        ibstat("mlx5_0", "Active", "LinkUp", "InfiniBand")
    );
    let raw = recording(&[("job.log", &log)]);
    let mut redactor = Redactor::new(Key::from_text("0123456789"), "", &[]);
    let lines = raw.to_lines();
    redactor.learn(&lines);
    let mut redacted = Recording::new(redactor.header(raw.header.clone()));
    for line in lines {
        redacted.add(redactor.line(line));
    }
    let verdicts = |recording: &Recording| {
        let mut facts = facts_of(recording);
        crate::derive::derive(&mut facts);
        failing(&facts)
    };
    assert_eq!(verdicts(&raw), verdicts(&redacted));
    assert_eq!(verdicts(&raw), ["log/perftest-request-failed"]);
}

#[test]
fn pieces_of_any_size_give_the_same() {
    let log = format!("{TABLE}{MATRIX}{PERFTEST}");
    let whole = |size: usize| {
        let mut reader = crate::nccl_log::Reader::new(crate::nccl_log::Limits::default());
        for piece in log.as_bytes().chunks(size) {
            reader.feed(piece);
        }
        reader.finish(None).outputs
    };
    assert_eq!(whole(1), whole(1 << 20));
    assert_eq!(whole(1).len(), 3);
}

#[test]
fn lines_of_the_kernel() {
    let dmesg = "[    9.863871] mlx5_core 0000:01:00.0: mlx5_cmd_out_err:803:(pid 1440): SET_ROCE_ADDRESS(0x761) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x63c66), err(-22)\n[    9.881250] infiniband mlx5_2: add_roce_gid GID add failed port=1 index=0\n";
    let read = facts(dmesg);
    let found = ["kernel/gid-add-failed", "kernel/not-in-catalogue"];
    assert_eq!(failing(&read), found);
    let event = find(&read, Subject::KernelEvent, "gid-add mlx5_2");
    let seen = read.get(event, kernel_event::SEEN);
    let Fact::Known(true, origin) = seen else {
        panic!("the event is seen");
    };
    assert!(origin.to_string().starts_with(":2: "), "{origin}");
    for (line, fails) in [
        (
            "[Fri Jan 17 15:36:15 2025] NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.",
            true,
        ),
        (
            "Jan 17 15:36:15 n1 kernel: [ 4711.123456] NVRM: Xid (PCI:0000:18:00): 31, pid=99, name=python, Ch 00000008",
            true,
        ),
        (
            "Jan 17 15:36:15 n1 kernel: NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.",
            true,
        ),
        (
            "[    4.100000] mlx5_core 0000:1a:00.0: firmware version: 28.39.1002",
            false,
        ),
        (
            "[  812.100000] nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            true,
        ),
        (
            "[  812.100000] nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 11012, Non-fatal, Link 46 egress crumbstore overflow",
            true,
        ),
        (
            "[ 9811.123456] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!",
            true,
        ),
        (
            "[ 9811.123456] DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0xfed00000 [fault reason 0x05] PTE Write access is not set",
            true,
        ),
        (
            "[ 9811.123456] INFO: task nvidia-smi:4711 blocked for more than 120 seconds.",
            true,
        ),
        (
            "[ 9811.123456] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
            true,
        ),
        (
            "[ 9811.123456] mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
            true,
        ),
        (
            "[ 9811.123456] mlx5_core 0000:1a:00.0: print_health_info:502:(pid 0): Health issue observed, High temperature, severity(3) ERROR:",
            true,
        ),
        (
            "n1 NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.",
            true,
        ),
        (
            "a user writes NVRM: Xid (PCI:0000:18:00): 79 in a mail",
            false,
        ),
    ] {
        assert_eq!(!failing(&facts(line)).is_empty(), fails, "{line}");
    }
}
