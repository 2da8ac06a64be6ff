//! Evidence that is lost: no missing reply takes away a fault that another reply proves.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdma_doctor::check::{Catalogue, Outcome, Severity, judge};
use rdma_doctor::examine::one;
use rdma_doctor::fact::{Facts, Id, Origin};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Errno, Question, Refusal, Reply};

use crate::{fixtures, sample};

/// The recording with one reply refused.
fn damaged(recording: &Recording, line: &Line, refusal: Refusal) -> Recording {
    let Line::Reply {
        probe,
        question,
        repeat,
        reply,
    } = line
    else {
        unreachable!("only replies are damaged");
    };
    let mut less = recording.clone();
    // What is added to an overlay takes the place of what is there.
    less.header.base = Some("itself".into());
    less.add(Line::Reply {
        probe: probe.clone(),
        question: question.clone(),
        repeat: *repeat,
        reply: Reply {
            at: reply.at,
            said: Err(refusal),
        },
    });
    less.header.base = None;
    less
}

/// Errors that a missing reply opens though it is not written beside them as their evidence: the check or its folder, parts of the question, and why
/// nothing else decides.
const OPEN: &[(&str, &[&str], &str)] = &[
    (
        "log/",
        &["nccl_log"],
        "the log is the evidence of all that is read from it",
    ),
    (
        "ablation/",
        &["bench collective"],
        "a change is judged by all runs of both arms",
    ),
    (
        "bench/",
        &["bench collective"],
        "what a rank replied is the evidence",
    ),
    (
        "pairs/",
        &["bench pairs", "bench ablation"],
        "what a pair replied is the evidence, and the plan says what was measured",
    ),
    (
        "p2p/",
        &["bench p2p"],
        "the copy is the evidence, and the plan says what was measured",
    ),
    (
        "p2p/",
        &["cuInit", "cuDevice", "nvml_p2p"],
        "whether two GPUs are to reach each other is asked of CUDA and NVML alone",
    ),
    (
        "p2p/",
        &["/sys/bus/pci/devices/"],
        "what joins two GPUs, and what PCIe carries between them",
    ),
    (
        "cuda/",
        &["/dev/", "/proc/driver/nvidia/version"],
        "CUDA is asked only if its driver and device files are seen: it would make them",
    ),
    (
        "cuda/gpu-missing",
        &["cuDeviceGetAttribute", "nvml_system"],
        "which GPU a device of CUDA is, and which GPUs there are",
    ),
    (
        "gpu/",
        &["/dev/", "/proc/driver/nvidia/", "nvml_system"],
        "NVML is asked only if its driver and device file are seen: it would make them",
    ),
    (
        "nvlink/",
        &["/dev/", "/proc/driver/nvidia/version"],
        "NVML is asked only if its driver and device file are seen: it would make them",
    ),
    (
        "p2p/",
        &["/dev/", "/proc/driver/nvidia/version"],
        "NVML and CUDA are asked only if their device files are seen: they would make them",
    ),
    (
        "gpu/",
        &["/sys/bus/pci/devices/"],
        "whether a function is a GPU of NVIDIA's driver, and no virtual one, is told by these files alone",
    ),
    (
        "gpu/missing-from-nvml",
        &["nvml_device"],
        "a reply that does not come may be about this GPU",
    ),
    (
        "gpu/peer-missing-over-nvlink",
        &["nvml_device", "nvml_links"],
        "a divided GPU reaches no other by design, and the links say what joins the two",
    ),
    (
        "gpu/driver-not-loaded",
        &["libnvidia-ml.so"],
        "whether NVIDIA's software is installed decides whether a driver is missed",
    ),
    (
        "driver/nvidia-library-differs",
        &["/run/nvidia/driver/"],
        "the library of a driver container comes before the host's",
    ),
    (
        "gpudirect/",
        &[
            "/proc/driver/nvidia/version",
            "/proc/modules",
            "/sys/kernel/mm/",
            "nccl_libraries",
        ],
        "one way to GPU memory is enough, and this reply can show one",
    ),
    (
        "pcie/",
        &["/sys/bus/pci/devices/"],
        "what a function is, where it is, and the two ends of its link",
    ),
    (
        "self-test/",
        &["rehearse_", "/sys/class/infiniband", "environment TMPDIR"],
        "the trial is the evidence, and these replies say what is to be tried",
    ),
    (
        "service/",
        &["running_commands"],
        "which processes run is the evidence",
    ),
    (
        "device/",
        &["/dev/", "/sys/class/infiniband"],
        "which devices there are, and which file is whose",
    ),
    (
        "device/function-without-driver",
        &["/sys/bus/pci/devices/"],
        "the driver of the function is the evidence",
    ),
    (
        "host/",
        &[
            "/dev/infiniband/",
            "/sys/class/",
            "/proc/self/status",
            "/ue_count",
        ],
        "what is missing, or too low, is told by this file alone",
    ),
    (
        "ib/",
        &["/sys/class/infiniband/"],
        "which devices and ports there are",
    ),
    (
        "link/",
        &["/sys/class/infiniband/"],
        "which devices and ports there are, and each port's state",
    ),
    (
        "roce/",
        &["/sys/class/infiniband/"],
        "which devices and ports there are, and their GIDs",
    ),
    (
        "firewall/",
        &["/sys/module/", "iptables-nft-save"],
        "which packet filters the kernel has, and their rules",
    ),
    (
        "firewall/",
        &["ip_local_port_range", "netlink route/", "nf_conntrack_max"],
        "which ports and addresses the packet has",
    ),
    (
        "firewall/roce-blocked",
        &["/proc/net/route", "/sys/class/infiniband/"],
        "whether the port is meant to be used",
    ),
    (
        "gpu/amd-without-kfd",
        &["/sys/bus/pci/drivers/amdgpu/", "/sys/class/kfd/"],
        "which GPUs there are, and which of them the KFD lists",
    ),
    (
        "gpu/xgmi-fewer-than-equals",
        &["/sys/bus/pci/drivers/amdgpu/", "/sys/class/kfd/", "/device"],
        "which GPUs there are, of which model, and their links",
    ),
    ("job/", &["job_process"], "which process was named"),
    (
        "nccl/",
        &[
            "/etc/nccl.conf",
            "/.nccl.conf",
            "NCCL_*",
            "nccl_files",
            "nccl_libraries",
        ],
        "each of them can set the variable, and the release decides what it means",
    ),
    (
        "nccl/",
        &["/sys/class/infiniband", "/dev/", "netlink route/"],
        "what the list can choose from",
    ),
    (
        "network/",
        &["netlink route/"],
        "which interfaces, addresses and rules there are",
    ),
    (
        "rail/",
        &["/ifindex"],
        "which network device the addresses are of",
    ),
    (
        "setting/",
        &["environment ", "netlink route/"],
        "what is set, and what it names",
    ),
    (
        "storage/",
        &[
            "/proc/fs/beegfs/",
            "/sys/class/iscsi_host/",
            "/sys/class/nvme/",
        ],
        "which mounts and sessions there are",
    ),
    ("topology/", &["environment NCCL_*"], "which file was named"),
];

/// For each fixture with an error, each reply turned into EIO: an error is open without its evidence, and in the cases of [`OPEN`]. What else is
/// missing opens none.
#[test]
fn errors_that_a_missing_reply_opens() {
    let mut catalogue = Catalogue::embedded().unwrap();
    catalogue.checks.retain(|c| c.severity == Severity::Error);
    let found = fixtures::fixtures();
    let lost = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (check, subject, question) in lost_in(&catalogue, path) {
                        let is_open = |(of, parts, _): &(&str, &[&str], &str)| {
                            check.starts_with(of) && parts.iter().any(|p| question.contains(p))
                        };
                        if !OPEN.iter().any(is_open) {
                            let file = path.file_name().unwrap().to_string_lossy();
                            let case = format!("{subject} without {question} of {file}");
                            let mut lost = lost.lock().unwrap();
                            lost.entry(check).or_insert_with(Vec::new).push(case);
                        }
                    }
                }
            });
        }
    });
    let lost = lost.into_inner().unwrap();
    let said = lost.iter().map(|(check, cases)| {
        let count = cases.len();
        format!("{check}: {count}\n  {}\n", cases.join("\n  "))
    });
    assert!(lost.is_empty(), "{}", said.collect::<String>());
}

/// The errors of a fixture that a reply takes with it without being their evidence: check, instance, question. Of an overlay, of what it does not say
/// itself fewer replies are lost.
fn lost_in(catalogue: &Catalogue, path: &Path) -> Vec<(String, String, String)> {
    let recording = Recording::open(path).unwrap();
    let (facts, _) = one::facts(std::slice::from_ref(&recording));
    let before = failing(catalogue, &facts);
    let mut lost = Vec::new();
    if before.is_empty() {
        return lost;
    }
    let own = fixtures::own_questions(path);
    for line in recording.to_lines() {
        let Line::Reply { question, .. } = &line else {
            continue;
        };
        let is_own = own.as_ref().is_none_or(|own| own.contains(question));
        let mut hash = DefaultHasher::new();
        (path.file_name(), question).hash(&mut hash);
        let share = sample::one_in(64) * if is_own { 1 } else { 8 };
        if !hash.finish().is_multiple_of(share as u64) {
            continue;
        }
        let less = damaged(&recording, &line, Refusal::Errno(Errno::EIO));
        let (left, _) = one::facts(std::slice::from_ref(&less));
        let after = failing(catalogue, &left);
        let is_it = |origin: &Origin| matches!(origin, Origin::Asked(q) if q == question);
        for ((check, subject), origins) in &before {
            let key = (check.clone(), subject.clone());
            if !after.contains_key(&key) && !origins.iter().any(is_it) {
                lost.push((key.0, key.1, question.to_string()));
            }
        }
    }
    lost
}

fn failing(catalogue: &Catalogue, facts: &Facts) -> BTreeMap<(String, String), Vec<Origin>> {
    let name = |id: Id| facts.name(id).to_owned();
    judge(catalogue, facts)
        .into_iter()
        .filter(|v| matches!(v.outcome, Outcome::Fails))
        .map(|v| {
            let check = &catalogue.checks[v.check];
            let origins = check.evidence(facts, v.subject);
            let origins = origins.into_iter().filter_map(|e| e.origin).collect();
            ((check.case.to_string(), name(v.subject)), origins)
        })
        .collect()
}

/// What becomes of a check that fails in a fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    /// It still fails.
    Found,
    /// It is open, and so is the verdict.
    Undecided,
    /// Nothing tells that there was a fault.
    Green,
}

fn left(catalogue: &Catalogue, recording: &Recording) -> Left {
    let (facts, _) = one::facts(std::slice::from_ref(recording));
    let verdicts = judge(catalogue, &facts);
    let any = |wanted: fn(&Outcome) -> bool| verdicts.iter().any(|v| wanted(&v.outcome));
    if any(|outcome| matches!(outcome, Outcome::Fails)) {
        Left::Found
    } else if any(|outcome| matches!(outcome, Outcome::Unknown(_) | Outcome::FailsIf)) {
        Left::Undecided
    } else {
        Left::Green
    }
}

fn refusals() -> [Refusal; 3] {
    [
        Refusal::Errno(Errno::EIO),
        Refusal::Timeout,
        Refusal::Crash("killed by signal 11".into()),
    ]
}

fn open(fixture: &str) -> Recording {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let path = ["jsonl", "jsonl.zst"].map(|end| dir.join(format!("{fixture}.{end}")));
    Recording::open(path.iter().find(|path| path.exists()).unwrap()).unwrap()
}

fn alone(check: &str) -> Catalogue {
    let mut catalogue = Catalogue::embedded().unwrap();
    catalogue.checks.retain(|c| *c.case == *check);
    assert_eq!(catalogue.checks.len(), 1, "{check}");
    catalogue
}

/// After so many damaged replies the others are damaged in one way only.
const MANY: usize = 60;

/// Damages each of these replies in turn, in three ways; gives those without which the check does not fail, and what it says then.
fn losses(check: &str, fixture: &str, of: impl Fn(&Question) -> bool) -> Vec<(String, Left)> {
    let (catalogue, recording) = (alone(check), open(fixture));
    assert_eq!(
        left(&catalogue, &recording),
        Left::Found,
        "{check} in {fixture}"
    );
    let mut lost = Vec::new();
    let mut tried = 0;
    let lines = recording.to_lines();
    let wanted = lines
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if of(question)));
    for (at, line) in wanted.enumerate() {
        let Line::Reply { question, .. } = line else {
            continue;
        };
        // Of many replies one way to lose each is enough, and an ordinary run loses some of them.
        let many = tried > MANY;
        if many && at % sample::one_in(6) != 0 {
            continue;
        }
        for (way, refusal) in refusals().into_iter().enumerate() {
            if many && way != at % 3 {
                continue;
            }
            tried += 1;
            let left = left(&catalogue, &damaged(&recording, line, refusal));
            if left != Left::Found {
                lost.push((serde_json::to_string(question).unwrap(), left));
            }
        }
    }
    assert!(tried > 0, "{fixture} has no such reply");
    lost.dedup();
    lost
}

fn is_rank(question: &Question) -> bool {
    matches!(question, Question::Bench(call) if call.number("rank").is_some())
}

const NOTHING: [(String, Left); 0] = [];

fn is_read(path: &'static str) -> impl Fn(&Question) -> bool {
    move |question| matches!(question, Question::Read(read) if **read == *path)
}

#[test]
fn the_missing_reply_of_one_rank_hides_no_wrong_result() {
    let fixture = "modelled-ablation-ib-cures";
    let all = losses("bench/results-wrong", fixture, is_rank);
    // Only the rank that saw it is missed, and then nobody says that the results are right.
    let of_witness = (
        r#"{"bench":"collective","arm":"baseline","rank":3,"round":0}"#.to_owned(),
        Left::Undecided,
    );
    assert_eq!(all, [of_witness]);
}

#[test]
fn the_missing_reply_of_one_rank_hides_no_rank_that_hung() {
    for fixture in [
        "modelled-ablation-cross-nic-cures",
        "modelled-ablation-p2p-cures",
    ] {
        assert_eq!(losses("bench/rank-hung", fixture, is_rank), NOTHING);
    }
}

#[test]
fn a_rank_that_crashed_is_a_run_that_failed() {
    let (catalogue, recording) = (
        alone("bench/run-failed"),
        open("modelled-ablation-one-node"),
    );
    assert_eq!(left(&catalogue, &recording), Left::Green);
    let lines = recording.to_lines();
    let is_baseline = |question: &Question| match question {
        Question::Bench(call) => call.text("arm") == Some("baseline") && is_rank(question),
        _ => false,
    };
    let ranks = lines
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if is_baseline(question)));
    let mut tried = 0;
    for line in ranks {
        tried += 1;
        let [errno, timeout, crash] =
            refusals().map(|refusal| left(&catalogue, &damaged(&recording, line, refusal)));
        assert_eq!((errno, timeout), (Left::Undecided, Left::Undecided));
        assert_eq!(crash, Left::Found);
    }
    assert!(tried > 0);
}

#[test]
fn the_missing_reply_of_one_pair_hides_no_rdma_that_fails() {
    let of_pairs =
        |question: &Question| matches!(question, Question::Bench(call) if &*call.name == "pairs");
    let all = losses("pairs/rdma-fails", "modelled-pairs-rdma", of_pairs);
    assert_eq!(all, NOTHING);
}

#[test]
fn the_missing_row_of_a_gid_table_hides_no_missing_address() {
    // A thousand empty rows are alike: of those that are not in use a few are enough.
    let rows = |question: &Question| {
        let path = question.path().unwrap_or_default();
        let row = path.split_once("/gids/").or(path.split_once("/types/"));
        row.is_some_and(|(_, index)| index.len() < 2 && index < "4" || index == "700")
    };
    let all = losses("roce/v2-gid-link-local-only", "rxe-no-address", rows);
    // Without the type of the only row nobody knows that it is of RoCE v2.
    let of_type = |(question, left): &(String, Left)| {
        question.contains("/types/0") && *left == Left::Undecided
    };
    assert!(all.iter().all(of_type), "{all:?}");
}

/// What the reply itself is the evidence of is open without it, and not fine.
#[test]
fn without_the_reply_of_cuda_it_is_not_known_to_start() {
    let starts = |question: &Question| question.to_string().starts_with("cuInit");
    for (check, fixture) in [
        ("cuda/fails", "modelled-gpu-cuda-fails"),
        ("cuda/library-mismatch", "modelled-gpu-cuda-mismatch"),
        ("cuda/not-ready", "modelled-gpu-cuda-not-ready"),
        ("cuda/stub-library", "modelled-gpu-cuda-stub"),
        ("cuda/compat-unsupported", "modelled-gpu-cuda-compat"),
    ] {
        let all = losses(check, fixture, starts);
        assert!(!all.is_empty());
        for (question, left) in all {
            assert_eq!(left, Left::Undecided, "{check}: {question}");
        }
    }
}

#[test]
fn without_the_reply_of_nvml_it_is_not_known_to_work() {
    let asks = |question: &Question| question.to_string().starts_with("nvml_system");
    let (catalogue, recording) = (alone("gpu/nvml-hangs"), open("modelled-gpu-hangs"));
    let lines = recording.to_lines();
    let line = lines
        .iter()
        .find(|line| matches!(line, Line::Reply { question, .. } if asks(question)))
        .unwrap();
    let [errno, timeout, crash] =
        refusals().map(|refusal| left(&catalogue, &damaged(&recording, line, refusal)));
    // No answer, and a crash, are what the check is about.
    assert_eq!(errno, Left::Undecided);
    assert_eq!((timeout, crash), (Left::Found, Left::Found));
    for (question, left) in losses("gpu/nvml-hangs", "modelled-gpu-hangs", |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_reply_of_one_adapter_hides_no_list_that_names_none() {
    let fixture = "modelled-roce-nccl-nothing-selected";
    let of_adapter = |question: &Question| {
        let path = question.path().unwrap_or_default();
        path.starts_with("/sys/class/infiniband/mlx5_")
    };
    let lost = losses("nccl/no-hca", fixture, of_adapter);
    assert_eq!(lost, NOTHING);
    for (question, left) in losses("nccl/no-hca", fixture, |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_rules_of_one_packet_filter_hide_none_that_another_has() {
    let (check, fixture) = ("firewall/bootstrap-blocked", "modelled-roce-firewall");
    for path in ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"] {
        assert_eq!(losses(check, fixture, is_read(path)), NOTHING, "{path}");
    }
    for (question, left) in losses(check, fixture, |_| true) {
        assert_eq!(left, Left::Undecided, "{question}");
    }
}

#[test]
fn the_missing_reply_of_one_gpu_hides_no_pair_without_access_among_others() {
    let (check, fixture) = ("p2p/access-missing", "modelled-gpu-copies-faults");
    let rows = |question: &Question| question.to_string().starts_with("cuDeviceCanAccessPeer");
    let lost = losses(check, fixture, rows);
    let recording = open(fixture);
    let all = recording.to_lines();
    let all = all
        .iter()
        .filter(|line| matches!(line, Line::Reply { question, .. } if rows(question)));
    assert!(lost.iter().all(|(_, left)| *left == Left::Undecided));
    // Only the two of the pair are missed.
    assert!(lost.len() <= 2 && all.count() > 2, "{lost:?}");
}

/// A function without its class may be one more GPU, adapter or switch; those that are known have their faults all the same.
#[test]
fn the_missing_class_of_one_function_hides_no_fault_of_others() {
    let is_class = |question: &Question| {
        let path = question.path().unwrap_or_default();
        path.starts_with("/sys/bus/pci/devices/") && path.ends_with("/class")
    };
    for (check, fixture) in [
        ("cuda/no-device", "modelled-gpu-cuda-no-device"),
        (
            "gpu/control-device-missing",
            "modelled-gpu-no-control-device",
        ),
        ("gpu/library-missing", "modelled-gpu-no-libraries"),
        ("gpudirect/none", "modelled-gpu-host-no-gpudirect"),
        ("nvlink/down", "modelled-gpu-nvlink-faults"),
        ("nvlink/fewer-than-equals", "modelled-gpu-nvlink-faults"),
        ("nvlink/none-up", "modelled-gpu-nvlink-faults"),
        ("nvlink/slower", "modelled-gpu-nvlink-faults"),
        ("pcie/hop-degraded", "modelled-gpu-node-faults"),
        (
            "service/fabric-manager-not-running",
            "modelled-gpu-host-no-gpudirect",
        ),
    ] {
        assert_eq!(losses(check, fixture, is_class), NOTHING, "{check}");
    }
}

/// Two GPUs have no handle, for reasons of their own: without the reply about one of them the other is known by its place.
#[test]
fn the_missing_reply_of_one_gpu_hides_no_error_of_another() {
    for (check, index) in [("gpu/lost", 2), ("gpu/refused", 1)] {
        let of_other = |question: &Question| match question {
            Question::Call(call) => {
                &*call.name == "nvml_device" && call.number("index") == Some(index)
            }
            _ => false,
        };
        assert_eq!(
            losses(check, "modelled-gpu-missing", of_other),
            NOTHING,
            "{check}"
        );
    }
}
