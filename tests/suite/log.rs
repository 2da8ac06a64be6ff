//! Logs made from seeds: each root cause has its headline, and a healthy log has no finding.

mod asserted;
mod cases;
mod corpus;
mod forms;
mod symptoms;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use corpus::job::Job;
use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::log;
use rdma_doctor::fact::Subject;
use rdma_doctor::nccl_log::{Limits, Reader};
use rdma_doctor::probe::nccl_log;
use rdma_doctor::report::log::LogAnswers;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::sentence::Sentence;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::{Header, Line};

use crate::sample;

/// The check to which this case belongs, as reports name it.
fn check_of(case: &str) -> &'static str {
    let check = catalogue().get(case);
    &check.unwrap_or_else(|| panic!("{case} is a check")).id
}

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
pub(crate) fn recording(files: &[(&str, &str)]) -> Recording {
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

/// The checks of a log as the subcommand judges them, those of benchmarks and of outputs of tools among them.
fn all_checks() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut catalogue = Catalogue::embedded().unwrap();
        catalogue.checks.retain(log::is_of_log);
        catalogue
    })
}

fn judged(files: &[(&str, &str)]) -> Report {
    log::judged(catalogue(), &[recording(files)], &Policy::default())
}

fn of(text: &str) -> Report {
    judged(&[("job.log", text)])
}

/// What the logs say beyond what is wrong.
fn answers(log: &Report) -> &LogAnswers {
    log.log.as_ref().expect("a log was given")
}

fn causes(log: &Report) -> Vec<&str> {
    log.causes.iter().map(|f| f.check.as_str()).collect()
}

fn notes(log: &Report) -> Vec<&str> {
    log.notes.iter().map(|f| f.check.as_str()).collect()
}

/// Logs of each cause.
fn seeds() -> u64 {
    sample::times(4)
}

/// Seeds are numbers that differ for each cause.
fn seed(cause: usize, round: u64) -> u64 {
    1 + cause as u64 * 1_000 + round
}

#[test]
fn a_healthy_log_has_no_finding_and_its_answer() {
    for round in 0..sample::times(80) {
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
            log.headline
        );
        assert_eq!(answers(&log).answers.len(), 1, "{about}");
        let answer = &answers(&log).answers[0];
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
        assert_eq!(log.exit, 0, "{about}: {}", log.headline);
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
        let (lead, also) = (check_of(lead), also.map(check_of));
        let mut hits = 0;
        for round in 0..seeds() {
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
                missed.push(format!("{about}: {causes:?} {notes:?}: {}", log.headline));
            }
            for other in causes {
                if other != lead && Some(other) != also {
                    *others.entry(format!("{other} in {lead}")).or_default() += 1;
                }
            }
        }
        let _ = writeln!(table, "{:<36} {hits:>3} of {}", cause.check, seeds());
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

/// Each failure, crossed with what came of the run: where the run went on or had ended well, the same lines are no error.
#[test]
fn each_failure_that_a_run_outlives_is_no_error() {
    // What a run that goes on has all the same: wrong results, GPUs that it reaches the slow way, a provider that does no RDMA.
    const STAYS: [&str; 3] = [
        "log/results-wrong",
        "log/nvlink-peers-disabled",
        "log/ofi-provider-not-rdma",
    ];
    let mut wrong = Vec::new();
    let (mut crossed, mut ended) = (0, 0);
    for (number, cause) in corpus::all().enumerate() {
        let lead = cause.check.split(" + ").next().unwrap();
        if STAYS.contains(&lead) {
            continue;
        }
        for round in 0..sample::times(2) {
            let job = |outcome: fn(&mut Job)| {
                let mut job = Job::new(seed(number, round));
                (cause.make)(&mut job);
                outcome(&mut job);
                of(&job.text())
            };
            let is_error = |log: &Report| log.exit == 2;
            // Settings and a network that is not used are errors of a run that works, too.
            let without = job(Job::without_extras);
            let is_rdma = answers(&without)
                .answers
                .first()
                .is_some_and(|a| a.rdma == "used");
            if !is_error(&job(|_| {})) || is_error(&without) || !is_rdma {
                continue;
            }
            ended += 1;
            for (outcome, change) in [
                ("went on", Job::recovers as fn(&mut Job)),
                ("had ended", Job::shuts_down),
            ] {
                crossed += 1;
                let log = job(change);
                if is_error(&log) {
                    let headline = &log.headline;
                    wrong.push(format!("{lead}, round {round}, {outcome}: {headline}"));
                }
            }
        }
    }
    println!("{ended} failures, {crossed} runs that outlived them");
    assert!(ended >= 40, "{ended} failures are too few to tell");
    assert!(
        wrong.is_empty(),
        "{} of {crossed}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Of causes and healthy jobs, logs that arrive torn, stamped and with other programs' lines between: how many have the right headline,
/// and how many findings nothing calls for. `RDMA_DOCTOR_SEED=N` takes other seeds, `RDMA_DOCTOR_ROUNDS=N` more of each.
#[test]
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
        let (lead, also) = (check_of(lead), also.map(check_of));
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
        answered += u64::from(
            log.log
                .as_ref()
                .unwrap()
                .answers
                .first()
                .is_some_and(|a| a.rdma == "used"),
        );
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
fn a_collective_that_does_not_end_is_not_blamed_on_the_network() {
    let mut job = Job::new(7);
    job.raw(
        corpus::job::Phase::Failure,
        1,
        "[rank1]:[E1121 10:44:11.1 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
    );
    let log = of(&job.text());
    assert_eq!(causes(&log), ["log/collective-timed-out"]);
    assert_eq!(answers(&log).answers[0].rdma, "used");
}

/// A request that failed, with a peer of its own.
fn request(number: u32) -> String {
    let [a, b] = [number / 250, number % 250];
    format!(
        "n1:1:1 [0] net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.1.{a}.{b}<4791> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
    )
}

/// More are counted than kept: the first failure, and what followed it, are among those that are kept.
#[test]
fn the_first_failure_counts_however_much_stands_before_it() {
    let healthy = Job::new(7).text();
    let mut text = healthy.clone();
    for number in 0..1000 {
        text += &request(number);
    }
    // After this the first thousand are no failures.
    text += "step 1 loss 9.1\nstep 2 loss 9.0\nstep 3 loss 8.9\n";
    text += &(1000..3000).map(request).collect::<String>();
    let log = of(&text);
    assert_eq!(log.causes[0].check, "log/peer-stopped-answering");
    let sentence = &log.causes[0].sentence;
    assert!(
        sentence.to_string().contains("10.1.4.0<4791>"),
        "{sentence}"
    );
    assert_eq!(log.exit, 2);
    let left = answers(&log)
        .not_read
        .iter()
        .any(|said| said.to_string().contains("events were not read"));
    assert!(left, "{:?}", answers(&log).not_read);
    // And where the work ended well, none is one.
    let ended = of(&(text + "State: COMPLETED (exit code 0)\n"));
    assert_eq!(
        causes(&ended),
        causes(&of(&(healthy
            + &request(1)
            + "State: COMPLETED (exit code 0)\n")))
    );
    assert_ne!(ended.exit, 2);
}

/// Steps and warnings take turns, more often than signs are kept: how the work ended is kept.
#[test]
fn the_end_counts_however_many_signs_stand_before_it() {
    let mut text = Job::new(7).text();
    for number in 0..2000 {
        text += &format!("step {number} loss 9.0\n{}", request(number));
    }
    assert_eq!(of(&text).exit, 2);
    assert_ne!(
        of(&(text.clone() + "State: COMPLETED (exit code 0)\n")).exit,
        2
    );
    assert_eq!(of(&(text + "State: FAILED (exit code 1)\n")).exit, 2);
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
    assert_eq!(answers(&log).answers[0].rdma, "unknown");
    assert!(answers(&log).answers[0].settle.is_some());
    // What is known leads, and what is open stands below it.
    assert!(
        log.headline.to_string().contains("/dev/shm"),
        "{}",
        log.headline
    );
    let answer = answers(&log).answers[0].sentence.to_string();
    assert!(answer.starts_with("RDMA: cannot be determined"), "{answer}");
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
    assert_eq!(answers(&log).answers.len(), 1, "{}", log.headline);
    assert_eq!(answers(&log).answers[0].rdma, "used");
    assert!(causes(&log).is_empty(), "{:?}", causes(&log));
}

/// A job whose first host is the node of a fixture, judged together with it.
fn beside(fixture: &str, make: impl FnOnce(&mut Job)) -> Report {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut node = Recording::open(&path.join(fixture)).unwrap();
    let mut job = Job::new(5);
    node.header.node = format!("{}.cluster.example", job.hosts[0].name);
    make(&mut job);
    let log = recording(&[("job.log", &job.text())]);
    let all = Catalogue::embedded().unwrap();
    log::judged(&all, &[log, node], &Policy::default())
}

/// The checks under which a check is folded.
fn folded_under<'l>(log: &'l Report, check: &str) -> Vec<&'l str> {
    let under = log.causes.iter().filter(|cause| {
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
    let log = log::judged(&all, &[log, node], &Policy::default());
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

/// Lines of several failures, and what rules out the usual cause of the first.
const REFUTED: &str = "\
dunlin1:77:90 [0] NCCL INFO Using network IB
dunlin2:78:91 [0] NCCL INFO Using network IB
dunlin1:77:90 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
dunlin2:78:91 [0] init.cc:610 NCCL WARN Cuda failure 101 'invalid device ordinal'
dunlin2:78:91 [0] bootstrap.cc:77 NCCL WARN Bootstrap : no socket interface found
slurmstepd: error: *** STEP 880.0 ON dunlin1 CANCELLED AT 2026-03-01T04:00:00 DUE TO TIME LIMIT ***
dunlin1$ ulimit -l
unlimited
dunlin1$ ethtool ens9f0 | grep Speed
	Speed: 400000Mb/s
dunlin1$ ib_read_bw -d mlx5_9 -q 4 -D 5 --report_gbits 10.2.0.2
                    RDMA_Read BW Test
 Link type       : Ethernet
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      352343           0.00               36.90                0.070380
";

/// What checks join, and lines that a text has beside NCCL's.
const SITUATION: &str = "\
emu6:88:99 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 5.
emu6:88:99 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.
emu6:88:99 [0] sharp_plugin.c:302 NCCL WARN SHARP group create: Streaming Tree lock failed (-18)
emu6:88:99 [0] NCCL INFO NET/IB : No device found.
[1720000000.112233] [emu6:99:0]     ucp_context.c:1023 UCX  WARN  transport 'rc_x' is not available, please use one or more of: posix, self, shm, sysv, tcp
ls: cannot access '/dev/infiniband': No such file or directory
srun: error: Node failure on emu7
Exiting.. can not change : incorrect RDMA subsystem network namespace
emu6:88:99 [0] misc/ibvwrap.cc:323 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument
[ 9120.100200] NVRM: Xid (PCI:0000:3b:00): 45, pid=77, name=python3, Ch 00000008 caused by previous Xid 79
[ 9120.500200] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
[ 9121.100200] infiniband mlx5_1: dump_cqe:272:(pid 709): dump error cqe
emu6$ show_gids
DEV     PORT    INDEX   GID                                     IPv4            VER     DEV
---     ----    -----   ---                                     ------------    ---     ---
mlx5_1  1       3       0000:0000:0000:0000:0000:ffff:0a1f:0006 10.31.0.6       v2      ens5f0
emu6$ ibstat
CA 'mlx5_0'
	CA type: MT4129
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Link layer: InfiniBand
CA 'mlx5_1'
	CA type: MT4129
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 200
		Link layer: InfiniBand
CA 'mlx5_2'
	CA type: MT4129
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Link layer: InfiniBand
";

/// What launchers and libraries say of what they cannot do, and of what they do without.
const PROGRAMS: &str = "\
Host key verification failed.
There are not enough slots available in the system to satisfy the 16
slurmd: error: Munge decode failed: Expired credential
libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.
ibwarn: [3412] _do_madrpc: recv failed: Connection timed out
 Found Incompatibility issue with GID types.
docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].
pml_ucx.c:309  Error: Failed to create UCP worker
cma_ep.c:91   UCX  ERROR process_vm_readv(pid=3412 length=65536) returned -1: Operation not permitted
network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp)
unused environment variable: UCX_NET_DEVICE (maybe: UCX_NET_DEVICES?)
By default, for Open MPI 4.0 and later, infiniband ports on a device
";

/// A line of a program that nobody knows, and none after it that shows that the job went on.
const UNCATALOGUED: &str = "\
dunlin1:77:90 [0] NCCL INFO Using network IB
dunlin2:78:91 [0] NCCL INFO Using network IB
[zeppelin] rank 3: zp_rail_open: rail mlx5_4 could not be brought up: lease 0x81 expired before renewal
";

/// A version that hangs where nodes have unequal ranks, a setting that another defect takes, and the
/// end of the job's time.
const DEFECTS: &str = "\
NCCL version 2.31.2+cuda13.3
koel1:70:80 [0] NCCL INFO ncclCommInitRank comm 0x50 rank 0 nranks 3 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7 - Init START
koel2:71:81 [0] NCCL INFO ncclCommInitRank comm 0x51 rank 1 nranks 3 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7 - Init START
koel2:72:82 [1] NCCL INFO ncclCommInitRank comm 0x52 rank 2 nranks 3 cudaDev 1 nvmlDev 1 busId 2b000 commId 0x7 - Init START
koel1:70:80 [0] NCCL INFO NCCL_PXN_DISABLE set by environment to 1.
koel1:70:80 [0] NCCL INFO Using network IB
koel1:70:80 [0] NCCL INFO comm 0x50 rank 0 nRanks 3 nNodes 2 localRanks 1 localRank 0 MNNVL 0
koel2:71:81 [0] NCCL INFO comm 0x51 rank 1 nRanks 3 nNodes 2 localRanks 2 localRank 0 MNNVL 0
koel1:70:80 [0] NCCL INFO Channel 00/0 : 2[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
slurmstepd: error: *** JOB 881 ON koel1 CANCELLED AT 2026-03-01T04:00:00 DUE TO TIME LIMIT ***
";

/// A version that needs a limited stack on an NVL72.
const DEFECT_OF_STACK: &str = "\
koel1$ ulimit -s
unlimited
NCCL version 2.27.5+cuda12.9
koel1:60:70 [0] NCCL INFO ncclCommInitRank comm 0x60 rank 0 nranks 48 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x8 - Init START
koel1:60:70 [0] NCCL INFO comm 0x60 rank 0 nRanks 48 nNodes 12 localRanks 4 localRank 0 MNNVL 1
[koel1:60 :0:60] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x7ff0)
";

/// A version that corrupts data where each GPU has an adapter, and a test that found nothing wrong.
const DEFECT_OF_DATA: &str = "\
NCCL version 2.18.1+cuda12.1
koel2:61:71 [0] NCCL INFO comm 0x61 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START
koel3:62:72 [0] NCCL INFO comm 0x62 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init START
koel2:61:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>
koel3:62:72 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.3<0>
koel2:61:71 [0] NCCL INFO comm 0x61 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init COMPLETE
koel3:62:72 [0] NCCL INFO comm 0x62 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9 - Init COMPLETE
";

/// A version that has no room for the topology of a node.
const DEFECT_OF_TOPOLOGY: &str = "\
NCCL version 2.30.4+cuda13.0
koel4:63:73 [0] NCCL INFO ncclCommInitRank comm 0x63 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xa - Init START
koel4:63:73 [0] graph/xml.h:90 NCCL WARN Error : too many XML nodes (max 256)
koel4:63:73 [0] NCCL INFO init.cc:1011 -> 3
";

/// The fixtures that the generator writes; `RDMA_DOCTOR_BLESS=1` writes them anew.
#[test]
fn the_fixtures_are_those_of_the_generator() {
    for (name, what, text) in [
        ("generated-log-healthy", "a healthy job", small(3).text()),
        (
            "generated-log-over-tcp",
            "a job over TCP, because a variable says so",
            made("log/ib-disabled", |_| ()).text(),
        ),
        (
            "generated-log-ofi-over-tcp",
            "a job whose OFI plugin runs over TCP",
            made("log/ofi-provider-not-rdma", |_| ()).text(),
        ),
        (
            "generated-log-unreachable",
            "a job without GPUDirect, that waits for a rank and fails while it connects",
            made("log/peer-unreachable", |job| {
                job.without_gdr();
                job.silent = vec![5];
            })
            .text(),
        ),
        (
            "generated-log-warnings",
            "a job whose warnings alone were kept",
            made("log/peer-silent", |job| {
                let mut other = small(3);
                let twice = |c: &&corpus::Cause| c.check == "log/gpu-taken-twice-unnamed";
                (corpus::all().find(twice).unwrap().make)(&mut other);
                job.absorb(other);
            })
            .text(),
        ),
        (
            "generated-log-programs",
            "a text of launchers and libraries that fail before a job runs",
            PROGRAMS.to_owned(),
        ),
        (
            "generated-log-refuted",
            "failures of which the same text rules out the usual cause, and others beside them",
            REFUTED.to_owned(),
        ),
        (
            "generated-log-situation",
            "a text with outputs of tools that confirm the causes of failures, and rule them out",
            SITUATION.to_owned(),
        ),
        (
            "generated-log-defects",
            "a job that meets a known defect of its version",
            DEFECTS.to_owned(),
        ),
        (
            "generated-log-defect-stack",
            "a job that crashes by a known defect of its version",
            DEFECT_OF_STACK.to_owned(),
        ),
        (
            "generated-log-defect-data",
            "a job that meets a known defect of its version and does not show it",
            DEFECT_OF_DATA.to_owned(),
        ),
        (
            "generated-log-defect-topology",
            "a job that cannot start by a known defect of its version",
            DEFECT_OF_TOPOLOGY.to_owned(),
        ),
        (
            "generated-log-uncatalogued",
            "a job beside which a program that no table has says that it failed",
            UNCATALOGUED.to_owned(),
        ),
        (
            "generated-log-troubled",
            "a job that fails, with the lines of all known causes after its first failure",
            troubled().text(),
        ),
    ] {
        let mut made = recording(&[("job.log", &text)]);
        made.header.version = rdma_doctor::source::wire::VERSION.into();
        made.header.altered = Some(format!(
            "written by the generator of tests/suite/log/corpus in the words of NCCL, and by no machine: the log of {what}"
        ));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(format!("{name}.jsonl"));
        let written = rdma_doctor::examine::recording_text::to_text(&made, None);
        if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(
            kept == written,
            "{name} is not what the generator writes: RDMA_DOCTOR_BLESS=1"
        );
    }
}

#[test]
fn the_log_clears_no_pcie_link() {
    // NCCL reads what links can do, and not what they do: its picture has PCI[24.0] over a link that runs at x4.
    let log = beside("modelled-gpu-node-faults.jsonl", |job| {
        job.info_all(corpus::job::Phase::Network, "+ PCI[24.0] - GPU/1000 (0)");
    });
    let all: Vec<&str> = log
        .causes
        .iter()
        .flat_map(|c| {
            std::iter::once(c.check.as_str()).chain(c.consequences.iter().map(|c| c.check.as_str()))
        })
        .collect();
    assert!(all.contains(&"pcie/hop-degraded"), "{all:?}");
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
        for question in &log.open {
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
        for answer in &answers(&log).answers {
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
fn a_log_in_utf_16_says_what_it_says_in_utf_8() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("utf-16");
    std::fs::create_dir_all(&dir).unwrap();
    let text = "n1:7:7 [0] NCCL INFO Using network IB\r\nn1:7:7 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 len=0 vendor err 129\r\n";
    let units = std::iter::once('\u{feff}').chain(text.chars());
    let units: Vec<u16> = units.collect::<String>().encode_utf16().collect();
    let read = |name: &str, bytes: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        let digest = rdma_doctor::live::log::read(&path, Limits::default(), None).unwrap();
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
        let recording =
            rdma_doctor::examine::recorded_input::read_logs(std::slice::from_ref(&dir), None)
                .unwrap();
        log::judged(catalogue(), &[recording], &Policy::default())
    };
    let log = said();
    assert_eq!(
        answers(&log).answers[0].rdma,
        "used",
        "{:?}",
        answers(&log).answers
    );
    assert!(causes(&log).is_empty());
    let file = |name: &str| dir.join(name).display().to_string();
    assert_eq!(
        answers(&log).not_read,
        [
            Sentence::from(format!(
                "1 file is not text, and not read: {}",
                file("core.7")
            )),
            Sentence::from(format!(
                "1 file is a recording (--with judges it with the log), and not read: {}",
                file("n1.jsonl")
            )),
        ]
    );
    // It opens, and the first read fails, as on a file system that went away.
    std::os::unix::fs::symlink("/proc/self/mem", dir.join("stale.log")).unwrap();
    let log = said();
    let lost = |log: &Report| {
        let missing = log.open.iter().flat_map(|question| &question.missing);
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
        answers(&log).answers[0].sentence.to_string(),
        format!("RDMA: cannot be determined: {unread}")
    );
    let settle = answers(&log).answers[0].settle.as_deref();
    assert_eq!(settle, Some("give the logs of all hosts, whole"));
}

/// Each check of the log has a log of the generator whose headline it is, or is among these, which need what a generator of NCCL's
/// lines has not.
const WITHOUT_A_CAUSE_OF_THEIR_OWN: [(&str, &str); 54] = [
    ("log/perftest-gid-empty", "symptoms/stacks.md"),
    ("log/library-over-tcp", "symptoms/stacks.md"),
    ("log/iperf-below-interface", "evidence_texts/told_alone.md"),
    ("log/failures-followed", "folded under each failure"),
    ("log/bootstrap-address-refused", "symptoms/refuted.md"),
    ("log/gpu-not-visible", "symptoms/refuted.md"),
    ("log/job-cancelled", "symptoms/refuted.md"),
    ("log/memory-not-pinned", "symptoms/refuted.md"),
    ("log/perftest-below-link", "symptoms/refuted.md"),
    ("log/perftest-gids-apart", "symptoms/many_stacks.md"),
    ("log/driver-of-older-cuda", "a fixture of its own"),
    ("log/gpudirect-partial", "seen in a log of two adapters"),
    ("log/pasted-ports-all-down", "symptoms"),
    ("log/test-of-one-rank", "symptoms"),
    ("log/test-not-joined", "symptoms"),
    ("log/pasted-port-down", "ibstat in the stream"),
    ("log/pasted-rate-lower", "ibstat in texts"),
    ("log/pasted-gpu-missing", "lspci and nvidia-smi in texts"),
    ("log/perftest-not-connected", "perftest in the stream"),
    ("log/perftest-request-failed", "perftest in the stream"),
    ("log/test-at-socket-speed", "nccl-tests in the stream"),
    ("log/test-results-wrong", "nccl-tests in the stream"),
    ("log/test-below-adapters", "cases/test-results.md"),
    ("log/test-far-below-adapters", "cases/test-results.md"),
    ("log/test-latency-high", "cases/test-results.md"),
    ("log/not-in-catalogue", "symptoms/not-in-catalogue.md"),
    ("log/nccl-versions-do-not-meet", "symptoms/many_stacks.md"),
    ("log/process-memory-denied", "symptoms/many_stacks.md"),
    ("log/gid-types-differ", "symptoms/stacks.md"),
    ("log/gpu-driver-missing", "symptoms/stacks.md"),
    ("log/harmless-line", "symptoms/stacks.md"),
    ("log/variable-unused", "symptoms/stacks.md"),
    ("log/job-not-launched", "symptoms/stacks.md"),
    ("log/credential-refused", "symptoms/stacks.md"),
    ("log/login-failed", "symptoms/logins.md"),
    ("log/mad-unanswered", "symptoms/stacks.md"),
    ("log/memlock-small", "symptoms/stacks.md"),
    ("log/ucx-device-missing", "symptoms/stacks.md"),
    ("log/library-not-started", "symptoms/stacks.md"),
    ("log/one-adapter-carries-all", "symptoms/joined.md"),
    ("log/rank-behind", "symptoms/joined.md"),
    ("log/topology-too-large", "symptoms/defects.md"),
    ("log/test-slow-for-gpus", "cases/test-results.md"),
    ("log/device-files-missing", "symptoms/situation.md"),
    ("log/failure-recovered", "cases/outcome.md"),
    ("log/gid-index-empty", "symptoms/situation.md"),
    ("log/netns-refused", "symptoms/situation.md"),
    ("log/node-failed", "symptoms/situation.md"),
    ("log/pasted-no-gids", "symptoms/situation.md"),
    ("log/pasted-rate-low", "symptoms/situation.md"),
    ("log/sharp-unavailable", "symptoms/refuted.md"),
    ("log/transport-missing", "symptoms/situation.md"),
    ("log/shutdown-noise", "cases/outcome.md"),
    ("log/warning-before-failure", "cases/outcome.md"),
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
        .filter(|check| check.case.starts_with("log/"))
    {
        of_log += 1;
        match (covered.contains(&*check.case), without.get(&*check.case)) {
            (true, None) => {}
            (false, Some(where_else)) => println!("{}: {where_else}", check.case),
            (true, Some(_)) => {
                missing.push(format!("{} has one, and is listed as without", check.case))
            }
            (false, None) => missing.push(check.case.to_string()),
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
        let about = format!("{before:?} {after:?}: {}", log.headline);
        assert!(causes(&log).is_empty(), "{about}");
        let counted = answers(&log).answers[0].channels.unwrap_or_default();
        assert_eq!(
            (counted.all, counted.send_gdr, counted.receive_gdr),
            (4, 2, 2),
            "{about}"
        );
        assert!(answers(&log).answers[0].what.contains("2 nodes"), "{about}");
    }
}
