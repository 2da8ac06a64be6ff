//! Logs made from seeds: each root cause has its headline, and a healthy log has no finding.

#![expect(clippy::unwrap_used, reason = "what fails in a test is to fail loudly")]

#[path = "log/corpus/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use corpus::job::Job;
use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::log;
use rdma_doctor::fact::Subject;
use rdma_doctor::nccl_log::{Limits, Reader};
use rdma_doctor::probe::nccl_log;
use rdma_doctor::report::Policy;
use rdma_doctor::report::log::LogReport;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut catalogue = Catalogue::embedded().unwrap();
        let of_log = |subject: Subject| subject.scope().any(|s| s == Subject::Run);
        catalogue.checks.retain(|check| of_log(check.subject));
        catalogue
    })
}

/// The recording of files with these names and texts.
fn recording(files: &[(&str, &str)]) -> Recording {
    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let said = serde_json::json!({ "files": names });
    recording.add(Line::of(nccl_log::NAME, nccl_log::files(), &said, 0));
    for (name, text) in files {
        let mut reader = Reader::default();
        reader.feed(text.as_bytes());
        let (question, digest) = (nccl_log::file(name), reader.finish(None));
        recording.add(Line::of(nccl_log::NAME, question, &digest, 0));
    }
    recording
}

fn judged(files: &[(&str, &str)]) -> LogReport {
    log::judged(catalogue(), &[recording(files)], Policy::default(), false)
}

fn of(text: &str) -> LogReport {
    judged(&[("job.log", text)])
}

fn causes(log: &LogReport) -> Vec<&str> {
    log.report.causes.iter().map(|f| f.check.as_str()).collect()
}

fn notes(log: &LogReport) -> Vec<&str> {
    log.report.notes.iter().map(|f| f.check.as_str()).collect()
}

/// Logs of each cause.
const SEEDS: u64 = 8;
/// Healthy logs.
const HEALTHY: u64 = 80;

/// Seeds are numbers that differ for each cause.
fn seed(cause: usize, round: u64) -> u64 {
    1 + cause as u64 * 1_000 + round
}

#[test]
fn a_healthy_log_has_no_finding_and_its_answer() {
    for round in 0..HEALTHY {
        let job = Job::new(900_000 + round);
        let (version, launcher) = (job.version, job.launcher);
        let expected = 2 * 2 * job.hosts.len();
        let text = job.text();
        let log = of(&text);
        let about = format!("seed {round}, {version:?}, {launcher:?}");
        assert!(
            causes(&log).is_empty() && notes(&log).is_empty(),
            "{about}: {:?} {:?}\n{}",
            causes(&log),
            notes(&log),
            log.report.headline
        );
        assert_eq!(log.answers.len(), 1, "{about}");
        let answer = &log.answers[0];
        assert_eq!(answer.rdma, "used", "{about}: {}", answer.sentence);
        let channels = answer.channels.unwrap();
        assert_eq!(
            (channels.all, channels.rdma, channels.socket),
            (expected as u64, expected as u64, 0),
            "{about}: {}",
            answer.sentence
        );
        assert_eq!(
            (channels.send_gdr, channels.receive_gdr),
            (channels.send, channels.receive),
            "{about}"
        );
        assert_eq!(log.report.exit, 0, "{about}: {}", log.report.headline);
    }
}

#[test]
fn each_cause_has_its_headline() {
    let mut table = String::new();
    let mut missed = Vec::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let (mut found, mut tried) = (0, 0);
    for (number, cause) in corpus::all().enumerate() {
        let (lead, also) = match cause.check.split_once(" + ") {
            Some((lead, also)) => (lead, Some(also)),
            None => (cause.check, None),
        };
        assert!(catalogue().get(lead).is_some(), "{lead} is a check");
        let mut hits = 0;
        for round in 0..SEEDS {
            let mut job = Job::new(seed(number, round));
            (cause.make)(&mut job);
            let about = format!("{lead} {:?} {:?} round {round}", job.version, job.launcher);
            let text = job.text();
            let log = of(&text);
            let (causes, notes) = (causes(&log), notes(&log));
            let first = causes.first().or(notes.first()).copied();
            let beside = also.is_none_or(|also| causes.contains(&also) || notes.contains(&also));
            tried += 1;
            if first == Some(lead) && beside {
                hits += 1;
                found += 1;
            } else {
                missed.push(format!(
                    "{about}: {causes:?} {notes:?}: {}",
                    log.report.headline
                ));
            }
            for other in causes {
                if other != lead && Some(other) != also {
                    *others.entry(format!("{other} in {lead}")).or_default() += 1;
                }
            }
        }
        let _ = writeln!(table, "{:<36} {hits:>3} of {SEEDS}", cause.check);
    }
    let wrong: u64 = others.values().sum();
    println!("{table}");
    println!("{found} of {tried} headlines; {wrong} findings beside them: {others:#?}");
    assert!(
        missed.is_empty(),
        "{} missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
    assert!(
        others.is_empty(),
        "findings that nothing calls for: {others:#?}"
    );
}

/// Of causes and healthy jobs, logs that arrive torn, stamped and with other programs' lines between: how many have the right headline,
/// and how many findings nothing calls for. `RDMA_DOCTOR_SEED=N` takes other seeds, `RDMA_DOCTOR_ROUNDS=N` more of each.
#[test]
#[expect(clippy::disallowed_methods, reason = "a table for who runs the test")]
fn recall_and_false_findings_on_weathered_logs() {
    let number = |name: &str, otherwise: u64| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let base = number("RDMA_DOCTOR_SEED", 7_000_000);
    let rounds = number("RDMA_DOCTOR_ROUNDS", 2);
    let (mut tried, mut hits, mut answered) = (0u64, 0u64, 0u64);
    let mut wrong: BTreeMap<String, u64> = BTreeMap::new();
    let mut missed = Vec::new();
    let mut causes_seen = 0u64;
    for (at, cause) in corpus::all().enumerate() {
        let (lead, also) = match cause.check.split_once(" + ") {
            Some((lead, also)) => (lead, Some(also)),
            None => (cause.check, None),
        };
        causes_seen += 1;
        for round in 0..rounds {
            let seed = base + seed(at, round);
            let mut job = Job::new(seed);
            (cause.make)(&mut job);
            let about = format!("{lead} {:?} {:?} seed {seed}", job.version, job.launcher);
            let log = of(&corpus::weather::weathered(&job.text(), seed));
            let (causes, notes) = (causes(&log), notes(&log));
            tried += 1;
            match causes.first().or(notes.first()) {
                Some(first) if *first == lead => hits += 1,
                _ => missed.push(format!("{about}: {causes:?} {notes:?}")),
            }
            for other in causes.iter().filter(|c| **c != lead && Some(**c) != also) {
                *wrong.entry(format!("{other} in {lead}")).or_default() += 1;
            }
        }
    }
    let healthy = 20 * rounds;
    for round in 0..healthy {
        let seed = base + 900_000 + round;
        let log = of(&corpus::weather::weathered(&Job::new(seed).text(), seed));
        for check in causes(&log).into_iter().chain(notes(&log)) {
            *wrong
                .entry(format!("{check} in a healthy log, seed {seed}"))
                .or_default() += 1;
        }
        answered += u64::from(log.answers.first().is_some_and(|a| a.rdma == "used"));
    }
    let false_findings: u64 = wrong.values().sum();
    println!("causes                    {causes_seen}");
    println!("logs of a cause           {tried}");
    println!(
        "with the right headline   {hits} ({:.1} %)",
        hits as f64 * 100.0 / tried as f64
    );
    println!("healthy logs              {healthy}");
    println!("with the right answer     {answered}");
    println!("findings beside the cause {false_findings}: {wrong:#?}");
    println!("missed: {missed:#?}");
    assert!(hits * 100 >= tried * 97, "{hits} of {tried}");
    assert!(false_findings * 100 <= tried, "{false_findings} in {tried}");
    assert_eq!(answered, healthy);
}

/// A log of two hosts with one rank each, whose lines these are; `N1` and `N2` stand for what NCCL puts before a line.
fn two(lines: &str) -> LogReport {
    let text = lines
        .replace("N1 ", "n1:100:110 [0] NCCL INFO ")
        .replace("N2 ", "n2:200:210 [0] NCCL INFO ")
        .replace("W1 ", "\nn1:100:120 [0] transport/net.cc:1 NCCL WARN ")
        .replace("W2 ", "\nn2:200:220 [0] transport/net.cc:1 NCCL WARN ");
    of(&text)
}

const TWO_NODES: &str = "NCCL version 2.20.5+cuda12.4
N1 comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
N2 comm 0x2 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
N1 comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE
N2 comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE
";

fn channels(net: &str, send: &str, receive: &str) -> String {
    format!(
        "N1 Channel 00/0 : 1[0] -> 0[0] [receive] via NET/{net}/0{receive}
N1 Channel 00/0 : 0[0] -> 1[0] [send] via NET/{net}/0{send}
N2 Channel 00/0 : 0[0] -> 1[0] [receive] via NET/{net}/0{receive}
N2 Channel 00/0 : 1[0] -> 0[0] [send] via NET/{net}/0{send}
"
    )
}

#[test]
fn an_empty_list_of_adapters_is_no_rdma() {
    let begin = format!(
        "{TWO_NODES}N1 NET/IB : No device found.\nN1 NET/IB : Using  [RO]; OOB eth0:10.0.0.1<0>\nN2 NET/IB : No device found.\nN2 NET/IB : Using  [RO]; OOB eth0:10.0.0.2<0>\n"
    );
    let log = two(&begin);
    assert_eq!(log.answers[0].rdma, "unknown", "{}", log.report.headline);
    assert_eq!(log.report.exit, 3, "an open answer is no healthy run");
    let log = two(&format!(
        "{begin}N1 Using network Socket\nN2 Using network Socket\n{}",
        channels("Socket", "", "")
    ));
    assert_eq!(log.answers[0].rdma, "not-used", "{}", log.report.headline);
    assert!(
        log.report.headline.contains("4 of 4 channels"),
        "{}",
        log.report.headline
    );
}

#[test]
fn the_socket_line_beside_rdma_decides_nothing() {
    let text = "NCCL version 2.4.8+cuda10.1
N1 NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>
N1 NET/Socket : Using [0]eth0:10.0.0.1<0>
N2 NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.2<0>
N2 NET/Socket : Using [0]eth0:10.0.0.2<0>
N1 Ring 00 : 1 -> 0 [receive] via NET/IB/0/GDRDMA
N1 Ring 00 : 0 -> 1 [send] via NET/IB/0/GDRDMA
N2 Ring 00 : 0 -> 1 [receive] via NET/IB/0/GDRDMA
N2 Ring 00 : 1 -> 0 [send] via NET/IB/0/GDRDMA
N1 comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE
N2 comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE
";
    let log = two(text);
    assert_eq!(log.answers[0].rdma, "used", "{}", log.report.headline);
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
}

#[test]
fn on_one_node_the_network_is_irrelevant() {
    let text = "NCCL version 2.24.3+cuda12.4
N1 NCCL_IB_DISABLE set by environment to 1.
N1 NET/IB : No device found.
N1 NET/Socket : Using [0]lo:127.0.0.1<0>
N1 Using network Socket
N1 Bootstrap: Using lo:127.0.0.1<0>
N1 comm 0x1 rank 0 nRanks 1 nNodes 1 localRanks 1 localRank 0 MNNVL 0
N1 ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE
";
    let log = two(text);
    assert_eq!(
        log.answers[0].rdma, "does-not-apply",
        "{}",
        log.report.headline
    );
    assert!(
        causes(&log).is_empty() && notes(&log).is_empty(),
        "{:?} {:?}",
        causes(&log),
        notes(&log)
    );
}

#[test]
fn what_is_not_logged_is_not_switched_off() {
    let log = two(&format!(
        "{TWO_NODES}N1 NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\nN1 Using network IB\nN2 NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\nN2 Using network IB\n"
    ));
    assert_eq!(log.answers[0].rdma, "used");
    assert!(log.answers[0].settle.is_some(), "what would prove it");
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    let open = log
        .report
        .open
        .iter()
        .find(|q| q.check == "log/gpudirect-unused")
        .unwrap();
    assert!(
        open.remedy
            .as_deref()
            .is_some_and(|r| r.contains("NCCL_DEBUG")),
        "{:?}",
        open.remedy
    );
}

#[test]
fn sends_without_gpudirect_can_be_by_design() {
    let log = two(&format!(
        "{TWO_NODES}{}",
        channels("IB", "", "/GDRDMA").replace("2.20.5", "2.18.5")
    ));
    assert!(
        causes(&log).is_empty() && notes(&log).is_empty(),
        "{:?}",
        causes(&log)
    );
    let counted = log.answers[0].channels.unwrap();
    assert_eq!((counted.send_gdr, counted.receive_gdr), (0, 2));
}

#[test]
fn a_variable_is_judged_by_its_value() {
    let log = two(&format!(
        "{TWO_NODES}N1 NCCL_IB_DISABLE set by environment to 0.\nN2 NCCL_IB_DISABLE set by environment to 0.\nN1 Using network IB\nN2 Using network IB\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    // From 2.7.3 to 2.22.3 NCCL_P2P_DISABLE=1 is logged as a level.
    let log = two(&format!(
        "{TWO_NODES}N1 NCCL_P2P_LEVEL set by environment to LOC\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert_eq!(causes(&log), ["log/p2p-level-lowered"]);
}

#[test]
fn probing_for_plugins_is_no_fault() {
    let log = two(&format!(
        "{TWO_NODES}N1 NET/Plugin: Failed to find ncclNetPlugin_v6 symbol.\nN1 NET/Plugin: Loaded net plugin NCCL RDMA Plugin (v5)\nN2 NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
}

#[test]
fn the_first_failure_counts_and_not_the_first_line() {
    let log = two(&format!(
        "{TWO_NODES}N1 Using network IB\nN2 Using network IB\n{}N1 comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE\nN2 comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE\nW1 socketProgress: Connection closed by remote peer 10.0.0.2<4000>\nN1 misc/socket.cc:775 -> 6\nW2 NET/IB : Got completion from peer 10.0.0.1<4001> with status=12 opcode=0 len=0 vendor err 129 (Send)\nN2 transport/net.cc:1134 -> 6\n",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert_eq!(causes(&log), ["log/peer-stopped-answering"]);
    let folded: Vec<_> = log.report.causes[0]
        .consequences
        .iter()
        .map(|c| c.check.as_str())
        .collect();
    assert_eq!(folded, ["log/failures-followed"]);
    let line = &log.report.causes[0].evidence[0].origin;
    assert!(
        line.contains("job.log:") && line.contains("status=12"),
        "the evidence is the line: {line}"
    );
}

#[test]
fn plugins_have_words_of_their_own() {
    let log = of(
        "n1:1:1 [0] NCCL INFO Using network IBext
n1:1:9 [0] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4001> with status=12 opcode=129 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGids::ffff:10.0.0.2
",
    );
    assert_eq!(causes(&log), ["log/gid-link-local"]);
}

#[test]
fn a_collective_that_does_not_end_is_not_blamed_on_the_network() {
    let mut job = Job::new(7);
    job.raw(
        corpus::job::Phase::Failure,
        1,
        "[rank1]:[E1121 10:44:11.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
    );
    let log = of(&job.text());
    assert_eq!(causes(&log), ["log/collective-timed-out"]);
    assert_eq!(log.answers[0].rdma, "used");
}

#[test]
fn what_rccl_says_is_not_said_of_nccl() {
    let log = two("RCCL version 2.18.3+hip6.0
W1 Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!
");
    assert_eq!(causes(&log), ["log/iommu-not-passthrough"]);
    assert!(log.answers[0].what.starts_with("RCCL"));
}

#[test]
fn a_plugin_that_is_not_known_may_be_anything() {
    let log = two(&format!(
        "{TWO_NODES}N1 Using network Novel\nN2 Using network Novel\n{}",
        channels("Novel", "", "")
    ));
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    assert_eq!((log.answers[0].rdma, log.report.exit), ("unknown", 3));
}

#[test]
fn an_excerpt_does_not_tell_when() {
    let log = of(
        "n1:1:9 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4001> with status=12 opcode=0 len=0 vendor err 129 (Send)
n1:1:9 [0] NCCL INFO transport/net.cc:1302 -> 6
",
    );
    assert_eq!(causes(&log), ["log/peer-silent"]);
}

#[test]
fn a_log_of_nothing_is_undecided() {
    let log = of("step 1 loss 9.1\nstep 2 loss 9.0\n");
    assert_eq!(log.report.exit, 3);
    assert!(log.answers.is_empty());
    assert!(
        log.report.headline.contains("no line of NCCL"),
        "{}",
        log.report.headline
    );
}

#[test]
fn warnings_alone_leave_the_answer_open() {
    let mut job = Job::new(11);
    job.warn_only = true;
    job.warn(
        corpus::job::Phase::Failure,
        2,
        "misc/shmutils.cc:72",
        "Error: failed to extend /dev/shm/nccl-Xz12ab to 9637892 bytes, error: No space left on device (28)",
    );
    let log = of(&job.text());
    assert_eq!(causes(&log), ["log/shm-full"]);
    assert_eq!(log.answers[0].rdma, "unknown");
    assert!(log.answers[0].settle.is_some());
    // What is known comes first.
    let headline = &log.report.headline;
    assert!(
        headline.find("/dev/shm") < headline.find("RDMA: cannot be told"),
        "{headline}"
    );
}

#[test]
fn what_fails_proves_what_was_used() {
    for (warning, cause, said) in [
        (
            "NET/IB : Got completion from peer 10.0.0.1<4001> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            "log/peer-silent",
            "used, until it failed",
        ),
        (
            "Call to ibv_modify_qp failed with error Network is unreachable",
            "log/queue-network-unreachable",
            "tried, and it fails",
        ),
        (
            "NET/IB : mlx5_1:1 async fatal event on QP (0x7309dc3bb338): invalid request local work queue error",
            "log/queue-broken",
            "used, until it failed",
        ),
    ] {
        let log = two(&format!("W1 {warning}\n"));
        assert_eq!(causes(&log), [cause], "{}", log.report.headline);
        assert_eq!(log.answers[0].rdma, "used", "{}", log.report.headline);
        assert!(
            log.answers[0].sentence.contains(said),
            "{}",
            log.answers[0].sentence
        );
    }
    // The first warning is lost: where the failure passed is left.
    let log = two(
        "W1 [Proxy Service 8] Failed to execute operation Connect from rank 8, retcode 2\nN1 transport/net_ib.cc:664 -> 2\nN2 Connected all trees\n",
    );
    assert_eq!(log.answers[0].rdma, "used", "{}", log.report.headline);
    // An adapter that cannot be opened proves nothing, and is no failure where others can.
    let log = two(
        "W1 Call to ibv_open_device failed\nW1 NET/IB : Unable to open device mlx5_59\nN1 NET/IB : Using [0]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>\nN1 Using network IB\n",
    );
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    assert_eq!(log.answers[0].rdma, "unknown");
}

#[test]
fn before_using_network_what_was_found_tells_the_network() {
    let log = two(
        "NCCL version 2.4.8+cuda10.1\nN1 NET/Socket : Using [0]ib0:10.0.0.1<0>\nN1 NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>\nN2 NET/Socket : Using [0]ib0:10.0.0.2<0>\nN2 NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.2<0>\n",
    );
    assert_eq!(log.answers[0].rdma, "used", "{}", log.report.headline);
    assert!(log.answers[0].settle.is_some(), "it proves nothing");
    for none in [
        "NET/IB : No device found.",
        "NCCL_IB_DISABLE set by environment to 1.",
        "Failed to open libibverbs.so[.1]",
    ] {
        let log = two(&format!(
            "NCCL version 2.4.8+cuda10.1\nN1 {none}\nN1 NET/Socket : Using [0]eth0:10.0.0.1<0>\nN2 {none}\nN2 NET/Socket : Using [0]eth0:10.0.0.2<0>\n"
        ));
        assert_eq!(log.answers[0].rdma, "not-used", "{}", log.report.headline);
    }
    // A plugin that was loaded may carry what the others do not.
    let log = two(
        "N1 NET/Plugin: Loaded net plugin Novel (v5)\nN1 NET/IB : No device found.\nN1 NET/Socket : Using [0]eth0:10.0.0.1<0>\nN2 NET/IB : No device found.\n",
    );
    assert_eq!(log.answers[0].rdma, "unknown", "{}", log.report.headline);
    let log = two(
        "NCCL version 2.4.6+cuda10.0\nN1 NET/OFI Selected Provider is tcp;ofi_rxm\nN2 NET/OFI Selected Provider is tcp;ofi_rxm\n",
    );
    assert_eq!(log.answers[0].rdma, "not-used", "{}", log.report.headline);
}

#[test]
fn one_host_of_unknown_many_is_told_as_far_as_it_goes() {
    let log = of(
        "n1:1:1 [0] NCCL INFO NET/IB : No device found.\nn1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\nn1:1:1 [0] NCCL INFO Using network Socket\n",
    );
    let said = &log.answers[0].sentence;
    assert!(
        said.contains("n1 chose Socket (no adapter is usable; job.log:1)"),
        "{said}"
    );
    assert_eq!((log.answers[0].rdma, log.report.exit), ("unknown", 3));
    let log = of(
        "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\nn1:1:1 [0] NCCL INFO Using network IB\nn1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x1 - Init START\nn1:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
    );
    let said = &log.answers[0].sentence;
    assert!(
        said.contains("n1 chose IB, without GPUDirect RDMA"),
        "{said}"
    );
}

#[test]
fn names_that_were_hidden_or_cut_off_are_read() {
    let log = of(
        "<cluster>:919:1150 [0] NCCL INFO Channel 07/0 : 8[0] -> 15[7] via P2P/IPC/read\n<cluster>:926:1151 [7] NCCL INFO Channel 03/0 : 15[7] -> 6[6] [send] via NET/Socket/3\n",
    );
    assert_eq!(log.answers[0].rdma, "not-used", "{}", log.report.headline);
    let log = of(
        " [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1e0 commId 0x1 - Init START\n[0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1e0 commId 0x1 - Init START\n[0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n",
    );
    assert_eq!(log.answers[0].rdma, "used", "{}", log.report.headline);
    // A console's time without a space behind it is no part of the name.
    let log = of(
        "| 2025-05-16T16:39:51.208-07:00 | n1:79:79 [0] NCCL INFO Using network Socket\n2025-05-16T16:39:51.208-07:00n1:79:79 [0] NCCL INFO cudaDriverVersion 12040\n2025-05-16T16:39:51.208Zn1:79:79 [0] NCCL INFO cudaDriverVersion 12040\n",
    );
    assert!(
        !log.answers[0].what.contains("nodes"),
        "{}",
        log.answers[0].what
    );
    assert!(
        log.answers[0].sentence.contains("n1 chose Socket"),
        "{}",
        log.answers[0].sentence
    );
}

#[test]
fn the_end_of_a_torn_line_is_no_part_of_a_host_s_name() {
    let lines = "g183:161264:166015 [7] NCCL INFO Channel 08/0 : 7[7] -> 15[7] [send] via NET/IB/8/GDRDMA
g183:161258:166018 [1] NCCL INFO threadThresholds 8/8/64 | 128/8/64 | 512 | 512g183:161264:166015 [7] NCCL INFO Connected NVLS tree
g183:161258:166018 [1] NCCL INFO Connected all rings
g183:161258:166018 [1] NCCL INFO Connected all trees
";
    let log = of(lines);
    assert!(
        log.answers[0].what.contains("2 nodes"),
        "{}",
        log.answers[0].what
    );
    assert_eq!(log.answers[0].channels.unwrap().all, 1);
    assert!(!serde_json::to_string(&log).unwrap().contains("512g183\""));
}

#[test]
fn the_last_error_of_pytorch_is_what_nccl_said() {
    let torch = "[rank2]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2\n[rank2]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank2]: Last error:\n[rank2]: Cuda failure 802 'system not yet initialized'\n[rank0]: Traceback (most recent call last):\n";
    let log = of(torch);
    assert_eq!(
        causes(&log),
        ["log/fabric-manager-not-ready"],
        "{}",
        log.report.headline
    );
    let log = of(
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1201, internal error, NCCL version 2.14.3\nncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found\nERROR:torch:failed\n",
    );
    assert_eq!(
        causes(&log),
        ["log/interface-missing"],
        "{}",
        log.report.headline
    );
    // With nothing behind it, it says nothing.
    let log = of(
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1201, internal error, NCCL version 2.14.3\nLast error:\n\nERROR: the job failed\n",
    );
    assert_eq!(
        causes(&log),
        ["log/framework-reports-nccl"],
        "{}",
        log.report.headline
    );
    // Where NCCL's own line is there, it repeats that.
    let log = two(&format!(
        "W1 Call to ibv_modify_qp failed with error No such device\n{}",
        "ncclSystemError: System call failed.\nLast error:\nCall to ibv_modify_qp failed with error No such device\n"
    ));
    assert_eq!(
        causes(&log),
        ["log/queue-no-such-device"],
        "{}",
        log.report.headline
    );
    assert_eq!(log.report.causes[0].subjects.len(), 1);
}

#[test]
fn a_completion_without_its_prefix_is_one() {
    let log = of(
        "NET/IB: Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)\n",
    );
    assert_eq!(causes(&log), ["log/peer-silent"], "{}", log.report.headline);
}

#[test]
fn who_knocks_is_told_where_it_speaks_http() {
    let log = two(&format!(
        "{TWO_NODES}W1 socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9\n"
    ));
    assert!(
        log.report.headline.contains("GET /met"),
        "{}",
        log.report.headline
    );
    let log = two(&format!(
        "{TWO_NODES}W1 socketFinalizeAccept: wrong magic 1 != 7970663b906d70b9\n"
    ));
    assert!(
        log.report
            .headline
            .contains("something that is not this run"),
        "{}",
        log.report.headline
    );
}

#[test]
fn a_plugin_of_the_default_name_may_be_missing() {
    let log = two(&format!(
        "{TWO_NODES}N1 NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory : when loading libnccl-net.so\nN2 NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    // A library that the plugin needs is another matter.
    let log = two(&format!(
        "{TWO_NODES}N1 NET/Plugin: Plugin load returned 2 : libfabric.so.1: cannot open shared object file: No such file or directory : when loading libnccl-net.so\n{}",
        channels("Socket", "", "")
    ));
    assert!(
        log.report.headline.contains("libfabric"),
        "{}",
        log.report.headline
    );
}

#[test]
fn files_of_hosts_are_one_run() {
    let mut job = Job::new(21);
    job.launcher = corpus::job::Launcher::Bare;
    let names: Vec<String> = job.hosts.iter().map(|h| h.name.clone()).collect();
    let text = job.text();
    let parts: Vec<(String, String)> = names
        .iter()
        .map(|name| {
            let of_host = text
                .lines()
                .filter(|line| line.starts_with(&format!("{name}:")));
            (
                format!("{name}.log"),
                of_host.fold(String::new(), |all, line| all + line + "\n"),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = parts
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let log = judged(&files);
    assert_eq!(log.answers.len(), 1, "{}", log.report.headline);
    assert_eq!(log.answers[0].rdma, "used");
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
}

/// A job whose first host is the node of a fixture, judged together with it.
fn beside(fixture: &str, make: impl FnOnce(&mut Job)) -> LogReport {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut node = Recording::open(&path.join(fixture)).unwrap();
    let mut job = Job::new(5);
    node.header.node = format!("{}.cluster.example", job.hosts[0].name);
    make(&mut job);
    let log = recording(&[("job.log", &job.text())]);
    let all = Catalogue::embedded().unwrap();
    log::judged(&all, &[log, node], Policy::default(), false)
}

/// The checks under which a check is folded.
fn folded_under<'l>(log: &'l LogReport, check: &str) -> Vec<&'l str> {
    let under = log.report.causes.iter().filter(|cause| {
        let mut consequences = cause.consequences.iter();
        consequences.any(|c| c.check == check)
    });
    under.map(|cause| cause.check.as_str()).collect()
}

#[test]
fn what_is_wrong_on_the_node_explains_the_log() {
    use corpus::job::Phase;
    let log = beside("rxe-no-ipc-lock.jsonl.zst", |job| {
        job.warn(
            Phase::Channels,
            0,
            "misc/ibvwrap.cc:113",
            "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12",
        );
        job.dies_in(Phase::Channels);
    });
    assert_eq!(
        folded_under(&log, "log/memlock-exhausted"),
        ["host/memlock-low"]
    );
    let log = beside("modelled-gpu-host-no-gpudirect.jsonl", |job| {
        job.subsystems = false;
        job.without_gdr();
    });
    // The driver's service does not run, so that there is no GPUDirect, so that the log shows none.
    assert_eq!(
        folded_under(&log, "log/gpudirect-unused"),
        ["service/openibd-not-active"]
    );
    assert_eq!(
        folded_under(&log, "gpudirect/none"),
        ["service/openibd-not-active"]
    );
}

#[test]
fn a_node_of_another_name_explains_nothing() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let node = Recording::open(&path.join("modelled-gpu-host-no-gpudirect.jsonl")).unwrap();
    let mut job = Job::new(5);
    job.subsystems = false;
    job.without_gdr();
    let all = Catalogue::embedded().unwrap();
    let log = recording(&[("job.log", &job.text())]);
    let log = log::judged(&all, &[log, node], Policy::default(), false);
    assert!(causes(&log).contains(&"log/gpudirect-unused"));
    assert!(folded_under(&log, "log/gpudirect-unused").is_empty());
}

/// A small job, for a fixture.
fn small(seed: u64) -> Job {
    let mut job = Job::new(seed);
    job.hosts.truncate(2);
    job.gpus = 4;
    for host in &mut job.hosts {
        let ports = 0..4;
        host.hcas = Some(ports.map(|g| format!("mlx5_{g}:1/{}", job.layer)).collect());
        host.version = corpus::job::Version(20, 5);
    }
    job.version = corpus::job::Version(20, 5);
    job.launcher = corpus::job::Launcher::Srun;
    job.subsystems = true;
    job
}

/// A small job with a cause, changed further.
fn made(check: &str, further: impl FnOnce(&mut Job)) -> Job {
    let mut job = small(3);
    (corpus::all().find(|c| c.check == check).unwrap().make)(&mut job);
    further(&mut job);
    job
}

/// A job whose first failure is one of RDMA, with the lines of all other causes after it.
fn troubled() -> Job {
    let mut job = made("log/peer-stopped-answering", |_| ());
    for cause in corpus::all() {
        let mut other = small(3);
        (cause.make)(&mut other);
        job.absorb(other);
    }
    job
}

/// The fixtures that the generator writes; `RDMA_DOCTOR_BLESS=1` writes them anew.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "tests write the project's own files when they are told to"
)]
fn the_fixtures_are_those_of_the_generator() {
    for (name, what, job) in [
        ("generated-log-healthy", "a healthy job", small(3)),
        (
            "generated-log-over-tcp",
            "a job over TCP, because a variable says so",
            made("log/ib-disabled", |_| ()),
        ),
        (
            "generated-log-ofi-over-tcp",
            "a job whose OFI plugin runs over TCP",
            made("log/ofi-provider-not-rdma", |_| ()),
        ),
        (
            "generated-log-unreachable",
            "a job without GPUDirect, that waits for a rank and fails while it connects",
            made("log/peer-unreachable", |job| {
                job.without_gdr();
                job.silent = vec![5];
            }),
        ),
        (
            "generated-log-warnings",
            "a job whose warnings alone were kept",
            made("log/peer-silent", |job| {
                let mut other = small(3);
                let twice = |c: &&corpus::Cause| c.check == "log/gpu-taken-twice-untold";
                (corpus::all().find(twice).unwrap().make)(&mut other);
                job.absorb(other);
            }),
        ),
        (
            "generated-log-troubled",
            "a job that fails, with the lines of all known causes after its first failure",
            troubled(),
        ),
    ] {
        let mut made = recording(&[("job.log", &job.text())]);
        made.header.version = rdma_doctor::source::wire::VERSION.into();
        made.header.altered = Some(format!(
            "written by the generator of tests/log/corpus in the words of NCCL, and by no machine: the log of {what}"
        ));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(format!("{name}.jsonl"));
        let text = rdma_doctor::cli::record::to_text(&made, None);
        if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(
            kept == text,
            "{name} is not what the generator writes: RDMA_DOCTOR_BLESS=1"
        );
    }
}

#[test]
fn channels_without_gpudirect_have_their_cause() {
    // No way in the kernel.
    let hca = "GPU Direct RDMA Disabled for HCA 0 'mlx5_0'";
    let log = two(&format!(
        "{TWO_NODES}N1 NET/IB : {hca}\nN2 NET/IB : {hca}\n{}",
        channels("IB", "", "")
    ));
    assert_eq!(
        causes(&log),
        ["log/gpudirect-off-for-adapter"],
        "{}",
        log.report.headline
    );
    // A path that is too long.
    let pair = "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)";
    let log = two(&format!(
        "{TWO_NODES}N1 {pair}\nN2 {pair}\n{}",
        channels("IB", "", "")
    ));
    assert_eq!(
        causes(&log),
        ["log/gpudirect-too-far"],
        "{}",
        log.report.headline
    );
    // A variable.
    let log = two(&format!(
        "{TWO_NODES}N1 NCCL_NET_GDR_LEVEL set by environment to LOC\nN2 NCCL_NET_GDR_LEVEL set by environment to LOC\n{}",
        channels("IB", "", "")
    ));
    assert_eq!(
        causes(&log),
        ["log/gpudirect-level-lowered"],
        "{}",
        log.report.headline
    );
    // The sender has it and the receiver has not: the receiver's host is the one.
    let both = channels("IB", "/GDRDMA", "/GDRDMA");
    let one_sided: String = both
        .lines()
        .map(|line| match line.starts_with("N2") {
            true => line.replace("/GDRDMA", "") + "\n",
            false => format!("{line}\n"),
        })
        .collect();
    let log = two(&format!("{TWO_NODES}{one_sided}"));
    assert_eq!(
        causes(&log),
        ["log/gpudirect-missing-on-host"],
        "{}",
        log.report.headline
    );
    assert!(
        log.report.headline.contains("n2"),
        "{}",
        log.report.headline
    );
}

#[test]
fn a_torn_line_is_not_read_for_what_it_may_have_been() {
    let torn = "N1 Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRD\nN1 Using network So\nN2 NCCL_IB_DISABLE set by environ\n";
    let log = two(&format!(
        "{TWO_NODES}{torn}N1 Using network IB\nN2 Using network IB\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    ));
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    assert_eq!(log.answers[0].rdma, "used");
}

#[test]
fn the_log_clears_no_pcie_link() {
    // NCCL reads what links can do, and not what they do: its picture has PCI[24.0] over a link that runs at x4.
    let log = beside("modelled-gpu-node-faults.jsonl", |job| {
        job.info_all(corpus::job::Phase::Network, "+ PCI[24.0] - GPU/1000 (0)");
    });
    let all: Vec<&str> = log
        .report
        .causes
        .iter()
        .flat_map(|c| {
            std::iter::once(c.check.as_str()).chain(c.consequences.iter().map(|c| c.check.as_str()))
        })
        .collect();
    assert!(all.contains(&"pcie/hop-degraded"), "{all:?}");
}

#[test]
fn ranks_of_two_hosts_on_one_gpu_are_hosts_of_one_identity() {
    let log = two(
        "NCCL version 2.12.10+cuda11.6\nN1 comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init START\nN2 comm 0x2 rank 1 nranks 2 cudaDev 0 busId 1000 - Init START\nW1 Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\nW2 Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000\n",
    );
    assert_eq!(
        causes(&log),
        ["log/hosts-share-identity"],
        "{}",
        log.report.headline
    );
    // On one host it is the launcher's mistake. The writer of such a line is the first rank of the two.
    let log = of(
        "n1:1:1 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\nn1:2:2 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000\n",
    );
    assert_eq!(
        causes(&log),
        ["log/gpu-taken-twice"],
        "{}",
        log.report.headline
    );
}

#[test]
fn two_nodes_may_be_faster_than_their_adapters() {
    let text = format!(
        "{TWO_NODES}{}#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1    12000   89.47   89.47      0    12010   89.40   89.40      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 89.4
",
        channels("IB", "/GDRDMA", "/GDRDMA")
    );
    let log = two(&text);
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
    assert!(
        log.pasted.iter().any(|said| said.contains("89.47 GB/s")),
        "{:?}",
        log.pasted
    );
}

/// A rule that keeps the reader from a wrong verdict, the checks that it is about, and the tests that show it kept.
type Rule = (&'static str, &'static [&'static str], &'static [fn()]);

const RULES: [Rule; 14] = [
    (
        "`NET/IB : Using` with an empty list is no RDMA",
        &["log/no-device", "log/inter-node-over-tcp"],
        &[an_empty_list_of_adapters_is_no_rdma],
    ),
    (
        "Channels decide, then `Using network`, then plugins, then what was found; `NET/Socket : Using` alone decides nothing",
        &["log/inter-node-over-tcp", "log/networks-differ"],
        &[
            the_socket_line_beside_rdma_decides_nothing,
            before_using_network_what_was_found_tells_the_network,
        ],
    ),
    (
        "On one node the network is irrelevant",
        &["log/inter-node-over-tcp", "log/no-device"],
        &[on_one_node_the_network_is_irrelevant],
    ),
    (
        "What is not logged is not switched off",
        &["log/gpudirect-unused", "log/relaxed-ordering-off"],
        &[what_is_not_logged_is_not_switched_off],
    ),
    (
        "That GDRDMA is missing has four causes, and one of them is the design",
        &[
            "log/gpudirect-off-for-adapter",
            "log/gpudirect-too-far",
            "log/gpudirect-level-lowered",
            "log/gpudirect-read-off",
            "log/gpudirect-missing-on-host",
        ],
        &[
            channels_without_gpudirect_have_their_cause,
            sends_without_gpudirect_can_be_by_design,
        ],
    ),
    (
        "A variable is judged by its value, under the name that the release logs",
        &[
            "log/ib-disabled",
            "log/p2p-level-lowered",
            "log/p2p-disabled",
        ],
        &[a_variable_is_judged_by_its_value],
    ),
    (
        "Probing for plugins is no fault",
        &["log/plugin-not-found", "log/plugin-not-loadable"],
        &[
            probing_for_plugins_is_no_fault,
            a_plugin_of_the_default_name_may_be_missing,
        ],
    ),
    (
        "Consequences are no causes, and no line has to be whole",
        &["log/failures-followed", "log/peer-gone"],
        &[
            the_first_failure_counts_and_not_the_first_line,
            a_torn_line_is_not_read_for_what_it_may_have_been,
        ],
    ),
    (
        "Plugins have words of their own",
        &["log/gid-link-local", "log/peer-silent"],
        &[
            plugins_have_words_of_their_own,
            a_completion_without_its_prefix_is_one,
        ],
    ),
    (
        "A busy GPU is no progress: a collective that does not end is not the network's fault by itself",
        &["log/collective-timed-out"],
        &[a_collective_that_does_not_end_is_not_blamed_on_the_network],
    ),
    (
        "NCCL does not see that a PCIe link runs below what it can do",
        &["log/pcie-slow", "pcie/hop-degraded"],
        &[the_log_clears_no_pcie_link],
    ),
    (
        "`iommu=pt` and NUMA balancing are RCCL's messages",
        &["log/iommu-not-passthrough", "log/numa-balancing"],
        &[what_rccl_says_is_not_said_of_nccl],
    ),
    (
        "One GPU on two hosts is one identity of two hosts",
        &["log/hosts-share-identity", "log/gpu-taken-twice"],
        &[ranks_of_two_hosts_on_one_gpu_are_hosts_of_one_identity],
    ),
    (
        "On two nodes the bus bandwidth may exceed the adapters'",
        &["log/test-results-wrong"],
        &[two_nodes_may_be_faster_than_their_adapters],
    ),
];

#[test]
fn each_rule_against_wrong_verdicts_is_kept() {
    let catalogue = Catalogue::embedded().unwrap();
    for (number, (rule, checks, tests)) in RULES.iter().enumerate() {
        for check in *checks {
            assert!(
                catalogue.get(check).is_some(),
                "rule {}: {check}",
                number + 1
            );
        }
        assert!(!tests.is_empty());
        for test in *tests {
            test();
        }
        println!("{:>2} {rule}: {}", number + 1, checks.join(", "));
    }
}

/// What the report says where a log leaves something open: which setting, or which command, would settle it.
#[test]
fn each_open_question_says_what_would_settle_it() {
    let mut jobs: Vec<(String, String)> = vec![
        ("a warning".into(), "n1:1:1 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n".into()),
        ("one rank".into(), "n1:1:1 [0] NCCL INFO Using network IB\nn1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x1 - Init START\n".into()),
        ("adapters alone".into(), "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>\nn2:1:1 [0] NCCL INFO NET/IB : No device found.\n".into()),
        ("PyTorch alone".into(), "[rank1]:[E1121 10:44:11.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n".into()),
        ("two files' worth".into(), "n1:1:1 [0] NCCL INFO Using network Novel\nn2:1:1 [0] NCCL INFO Using network Novel\n".into()),
    ];
    for (number, cause) in corpus::all().enumerate() {
        for warn_only in [false, true] {
            let mut job = Job::new(seed(number, 100));
            (cause.make)(&mut job);
            job.subsystems = false;
            job.warn_only = warn_only;
            jobs.push((
                format!("{}, warnings alone: {warn_only}", cause.check),
                job.text(),
            ));
        }
    }
    let mut open = 0;
    let mut silent: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
    for (about, text) in &jobs {
        let log = of(text);
        for question in &log.report.open {
            open += 1;
            seen.insert(question.check.clone());
            let settled = question.remedy.as_deref().is_some_and(|remedy| {
                ["NCCL_DEBUG", "give the logs", "rdma-doctor", "`"]
                    .iter()
                    .any(|word| remedy.contains(word))
            });
            if !settled {
                let missing: Vec<_> = question
                    .missing
                    .iter()
                    .map(|line| format!("{}: {}", line.fact, line.value))
                    .collect();
                *silent
                    .entry(format!(
                        "{} ({}), as in {about}",
                        question.check,
                        missing.join(", ")
                    ))
                    .or_default() += 1;
            }
        }
        for answer in &log.answers {
            assert!(
                answer.rdma != "unknown"
                    || answer
                        .settle
                        .as_deref()
                        .is_some_and(|s| s.contains("NCCL_DEBUG")),
                "{about}: {}",
                answer.sentence
            );
        }
    }
    println!(
        "{open} open questions of {} checks in {} logs",
        seen.len(),
        jobs.len()
    );
    assert!(
        silent.is_empty(),
        "{} say nothing: {silent:#?}",
        silent.len()
    );
}

/// A redirection in PowerShell writes UTF-16.
#[test]
#[expect(clippy::disallowed_methods, reason = "files of its own")]
fn a_log_in_utf_16_says_what_it_says_in_utf_8() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("utf-16");
    std::fs::create_dir_all(&dir).unwrap();
    let text = "n1:7:7 [0] NCCL INFO Using network IB\r\nn1:7:7 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129\r\n";
    let units = std::iter::once('\u{feff}').chain(text.chars());
    let units: Vec<u16> = units.collect::<String>().encode_utf16().collect();
    let read = |name: &str, bytes: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        let digest = rdma_doctor::source::live::log::read(&path, Limits::default()).unwrap();
        let lines = digest.kept.iter();
        lines.map(|kept| kept.text.clone()).collect::<Vec<_>>()
    };
    let plain = read("plain.log", text.as_bytes().to_vec());
    assert!(
        plain.iter().any(|line| line.contains("status=12")),
        "{plain:?}"
    );
    let little = units.iter().flat_map(|unit| unit.to_le_bytes());
    assert_eq!(read("little.log", little.collect()), plain);
    let big = units.iter().flat_map(|unit| unit.to_be_bytes());
    assert_eq!(read("big.log", big.collect()), plain);
}

/// torchrun has a log for each rank, below directories of its own; beside them lie core dumps and recordings. A file that cannot be read keeps open what
/// it might say.
#[test]
#[expect(clippy::disallowed_methods, reason = "files of its own")]
fn a_launchers_directory_is_read_with_all_below_it() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("torchrun");
    let _ = std::fs::remove_dir_all(&dir);
    let of_rank = |rank: usize| dir.join(format!("job_x1/attempt_0/{rank}"));
    let text = TWO_NODES.to_owned() + &channels("IB", "/GDRDMA", "/GDRDMA");
    for (rank, prefix) in ["N1 ", "N2 "].into_iter().enumerate() {
        std::fs::create_dir_all(of_rank(rank)).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        let host = format!("n{0}:{0}00:{0}10 [0] NCCL INFO ", rank + 1);
        let lines: Vec<String> = lines.map(|line| line.replace(prefix, &host)).collect();
        std::fs::write(of_rank(rank).join("stdout.log"), lines.join("\n")).unwrap();
    }
    std::fs::write(dir.join("core.7"), b"\x7fELF\x02\x01\x01\0NCCL WARN x\n").unwrap();
    std::fs::copy("fixtures/modelled-ib.jsonl", dir.join("n1.jsonl")).unwrap();
    let said = || {
        let recording = log::log(std::slice::from_ref(&dir)).unwrap();
        log::judged(catalogue(), &[recording], Policy::default(), false)
    };
    let log = said();
    assert_eq!(log.answers[0].rdma, "used", "{:?}", log.answers);
    assert!(causes(&log).is_empty());
    let file = |name: &str| dir.join(name).display().to_string();
    assert_eq!(
        log.not_read,
        [
            format!("1 file is no text, and not read: {}", file("core.7")),
            format!(
                "1 file is a recording (--with judges it with the log), and not read: {}",
                file("n1.jsonl")
            ),
        ]
    );
    // It opens, and the first read fails, as on a file system that went away.
    std::os::unix::fs::symlink("/proc/self/mem", dir.join("stale.log")).unwrap();
    let log = said();
    let lost = |log: &LogReport| {
        let missing = log
            .report
            .open
            .iter()
            .flat_map(|question| &question.missing);
        let lost = missing.filter(|missing| missing.origin.contains("stale.log"));
        lost.map(|missing| missing.value.clone())
            .collect::<Vec<_>>()
    };
    assert!(lost(&log).iter().all(|why| why.contains("EIO")));
    assert!(lost(&log).len() > 10, "{:?}", lost(&log));
    let unread = format!(
        "{} could not be read: input/output error (EIO)",
        file("stale.log")
    );
    assert_eq!(
        log.answers[0].sentence,
        format!("RDMA: cannot be told: {unread}")
    );
    let settle = log.answers[0].settle.as_deref();
    assert_eq!(settle, Some("give the logs of all hosts, whole"));
}

/// Each check of the log has a log of the generator whose headline it is, or is among these, which need what a generator of NCCL's
/// lines has not.
const WITHOUT_A_CAUSE_OF_THEIR_OWN: [(&str, &str); 10] = [
    ("log/failures-followed", "folded under each failure"),
    ("log/driver-of-older-cuda", "a fixture of its own"),
    ("log/gpudirect-partial", "seen in a log of two adapters"),
    ("log/pasted-kernel-fault", "dmesg in the stream"),
    ("log/pasted-peers-none", "nvidia-smi in the stream"),
    ("log/pasted-port-down", "ibstat in the stream"),
    ("log/perftest-not-connected", "perftest in the stream"),
    ("log/perftest-request-failed", "perftest in the stream"),
    ("log/test-at-socket-speed", "nccl-tests in the stream"),
    ("log/test-results-wrong", "nccl-tests in the stream"),
];

#[test]
fn each_check_of_the_log_has_its_generated_log() {
    let catalogue = Catalogue::embedded().unwrap();
    let covered: std::collections::BTreeSet<&str> = corpus::all()
        .flat_map(|cause| cause.check.split(" + "))
        .collect();
    let without: BTreeMap<&str, &str> = WITHOUT_A_CAUSE_OF_THEIR_OWN.into_iter().collect();
    let mut missing = Vec::new();
    let mut of_log = 0;
    for check in catalogue
        .checks
        .iter()
        .filter(|check| check.id.starts_with("log/"))
    {
        of_log += 1;
        match (covered.contains(&*check.id), without.get(&*check.id)) {
            (true, None) => {}
            (false, Some(where_else)) => println!("{}: {where_else}", check.id),
            (true, Some(_)) => {
                missing.push(format!("{} has one, and is listed as without", check.id))
            }
            (false, None) => missing.push(check.id.to_string()),
        }
    }
    println!(
        "{of_log} checks of the log, {} with a generated log of their own",
        covered.len()
    );
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(of_log >= 70);
}

#[test]
fn what_who_exported_a_log_put_around_its_lines_is_no_part_of_them() {
    let plain = format!(
        "{TWO_NODES}N1 Using network IB\nN2 Using network IB\n{}",
        channels("IB", "/GDRDMA", "/GDRDMA")
    );
    let named = plain
        .replace("N1 ", "n1:100:110 [0] NCCL INFO ")
        .replace("N2 ", "n2:200:210 [0] NCCL INFO ");
    let around = |before: &str, after: &str| -> String {
        let lines = named.lines().map(|line| format!("{before}{line}{after}\n"));
        lines.collect()
    };
    for (before, after) in [
        ("\"2025-01-02 03:04:05\",\"", "\""),
        ("> ", ""),
        ("**", "**"),
        ("", " \u{2603}"),
        ("    ", "\r"),
        (
            "(RayWorkerWrapper pid=7, ip=10.0.0.1) ",
            " [repeated 7x across cluster] (Ray deduplicates logs by default.)",
        ),
        (
            "\u{1b}[36m(RayWorker pid=7)\u{1b}[0m ",
            " \u{1b}[32m[repeated 3x across cluster]\u{1b}[0m",
        ),
        ("job-worker-0  | ", ""),
        ("[pod/job-worker-0/main] ", ""),
        ("2025-01-02T03:04:05.678901234Z stdout F ", ""),
        ("Nov 20 10:11:12 n1 slurmstepd[99]: ", ""),
    ] {
        let log = of(&around(before, after));
        let about = format!("{before:?} {after:?}: {}", log.report.headline);
        assert!(causes(&log).is_empty(), "{about}");
        let counted = log.answers[0].channels.unwrap_or_default();
        assert_eq!(
            (counted.all, counted.send_gdr, counted.receive_gdr),
            (4, 2, 2),
            "{about}"
        );
        assert!(log.answers[0].what.contains("2 nodes"), "{about}");
    }
}

#[test]
fn machines_of_one_name_are_told_apart_by_their_number() {
    let lines = "N1 comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
N2 comm 0x2 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
";
    let text = format!("{lines}{}", channels("IB", "/GDRDMA", "/GDRDMA"))
        .replace("N1 ", "worker:100:110 [0] NCCL INFO ")
        .replace("N2 ", "worker:200:210 [0] NCCL INFO ");
    let log = of(&text);
    assert_eq!(
        log.answers[0].channels.map(|c| c.all),
        Some(4),
        "{}",
        log.report.headline
    );
}

#[test]
fn the_log_of_one_rank_tells_its_own_channels() {
    let log = of(
        "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\nn1:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\nn1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n",
    );
    let said = &log.answers[0].sentence;
    assert!(
        said.contains("1 of 1 that send, 1 of 1 that receive"),
        "{said}"
    );
}

#[test]
fn the_place_of_a_call_of_cuda_tells_what_it_was_for() {
    let nvls =
        |error: &str| format!("n1:1:1 [0] transport/nvls.cc:598 NCCL WARN Cuda failure {error}\n");
    let log = of(&nvls("1 'invalid argument'"));
    assert_eq!(
        causes(&log),
        ["log/nvls-not-bound"],
        "{}",
        log.report.headline
    );
    // The fabric manager is missing for all of it.
    let log = of(&nvls("802 'system not yet initialized'"));
    assert_eq!(
        causes(&log),
        ["log/fabric-manager-not-ready"],
        "{}",
        log.report.headline
    );
    let log = of(
        "[rank11]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank 11] Timeout at NCCL work: 15734, last enqueued NCCL work: 15735, last completed NCCL work: 15733.\n",
    );
    assert_eq!(
        causes(&log),
        ["log/collective-timed-out"],
        "{}",
        log.report.headline
    );
}
