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
use rdma_doctor::nccl_log::Reader;
use rdma_doctor::probe::nccl_log;
use rdma_doctor::report::Policy;
use rdma_doctor::report::log::LogReport;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};
use rdma_doctor::source::{Answer, Question, Reply};

fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut catalogue = Catalogue::embedded().unwrap();
        let of_log = |subject: Subject| subject.scope().any(|s| s == Subject::Run);
        catalogue.checks.retain(|check| of_log(check.subject));
        catalogue
    })
}

fn reply(question: Question, value: serde_json::Value) -> Line {
    Line::Reply {
        probe: nccl_log::NAME.into(),
        question,
        repeat: 0,
        reply: Reply {
            said: Ok(Answer::Value(value.into())),
            at: 0,
        },
    }
}

/// The recording of files with these names and texts.
fn recording(files: &[(&str, &str)]) -> Recording {
    let mut recording = Recording::new(Header {
        log: true,
        ..Header::default()
    });
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    recording.add(reply(
        nccl_log::files(),
        serde_json::json!({ "files": names }),
    ));
    for (name, text) in files {
        let mut reader = Reader::default();
        reader.feed(text.as_bytes());
        let digest = serde_json::to_value(reader.finish(None)).unwrap();
        recording.add(reply(nccl_log::file(name), digest));
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
        "misc/ibvwrap.cc:113",
        "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12",
    );
    let log = of(&job.text());
    assert_eq!(causes(&log), ["log/memlock-exhausted"]);
    assert_eq!(log.answers[0].rdma, "unknown");
    assert!(log.answers[0].settle.is_some());
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
