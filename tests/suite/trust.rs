//! A verdict is believed only where somebody looked: each test loses or damages what a machine said, and none of them may read *OK*.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Answer, Errno, Question, Refusal};

use crate::place::{Scratch, doctor};

/// What the doctor says of a recording.
struct DoctorReply {
    status: i32,
    text: String,
}

impl DoctorReply {
    #[track_caller]
    fn is(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}", self.text);
        for words in words {
            assert!(self.text.contains(words), "no {words:?} in\n{}", self.text);
        }
        assert!(!self.text.contains("healthy"), "{}", self.text);
    }
}

fn fixture(name: &str) -> Recording {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    Recording::open(&dir.join(name)).unwrap()
}

/// The fixture with each reply as `change` leaves it; one that it refuses is left out.
fn changed(name: &str, change: impl Fn(&Question, &mut Result<Answer, Refusal>) -> bool) -> String {
    let whole = fixture(name);
    let mut other = Recording::new(whole.header.clone());
    other.header.base = None;
    for mut line in whole.to_lines() {
        let keep = match &mut line {
            Line::Reply {
                question, reply, ..
            } => change(question, &mut reply.said),
            _ => true,
        };
        if keep {
            other.add(line);
        }
    }
    other.end();
    recording_text::to_text(&other, None)
}

/// The fixture where these questions get this refusal.
fn refused(name: &str, refusal: &Refusal, of: impl Fn(&Question) -> bool) -> String {
    changed(name, |question, said| {
        if of(question) {
            *said = Err(refusal.clone());
        }
        true
    })
}

fn check(text: &str, options: &[&str]) -> DoctorReply {
    let dir = Scratch::new("trust");
    let file = dir.join("node.jsonl");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(doctor());
    let ran = command
        .arg("check")
        .args(options)
        .arg(&file)
        .output()
        .unwrap();
    let text = [ran.stdout, ran.stderr].concat();
    // Lines are broken at the terminal's width.
    let text = String::from_utf8(text).unwrap();
    DoctorReply {
        status: ran.status.code().unwrap(),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn below(dir: &'static str) -> impl Fn(&Question) -> bool {
    move |question| question.path().is_some_and(|path| path.starts_with(dir))
}

fn calls(prefix: &'static str) -> impl Fn(&Question) -> bool {
    move |question| matches!(question, Question::Call(call) if call.name.starts_with(prefix))
}

fn about(device: &'static str) -> impl Fn(&Question) -> bool {
    move |question| {
        let dir = format!("/sys/class/infiniband/{device}/");
        match question {
            Question::Call(call) => call.text("device") == Some(device),
            _ => question.path().is_some_and(|path| path.starts_with(&dir)),
        }
    }
}

const EIO: Refusal = Refusal::Errno(Errno::EIO);
const NODE: &str = "modelled-gpu-nvml.jsonl";

#[test]
fn a_port_without_its_state_is_not_examined() {
    let state = "/sys/class/infiniband/mlx5_0/ports/1/state";
    for file in [state, "/sys/class/infiniband/mlx5_0/ports/1/link_layer"] {
        let text = changed(NODE, |question, _| question.path() != Some(file));
        check(&text, &[]).is(3, &["ports", "mlx5_0/1"]);
    }
    let directory = Refusal::Errno(Errno::EISDIR);
    let text = refused(NODE, &directory, |q| q.path() == Some(state));
    check(&text, &[]).is(3, &["mlx5_0", "is a directory (EISDIR)"]);
    let text = changed(NODE, |question, _| {
        !below("/sys/class/infiniband/mlx5_0/ports")(question)
    });
    check(&text, &[]).is(3, &["devices", "mlx5_0"]);
}

#[test]
fn an_adapter_that_does_not_answer_is_an_error_that_names_it() {
    for refusal in [EIO, Refusal::Timeout] {
        let text = refused(NODE, &refusal, about("mlx5_1"));
        check(&text, &[]).is(2, &["mlx5_1 does not respond", "questions failed"]);
    }
    let crash = Refusal::Crash("killed by signal 11".into());
    let text = refused(NODE, &crash, about("mlx5_1"));
    check(&text, &[]).is(3, &["did not answer: mlx5_1"]);
}

#[test]
fn libibverbs_that_crashes_is_undecided() {
    let crash = Refusal::Crash("killed by signal 11".into());
    let text = refused(NODE, &crash, calls("ibv_"));
    check(&text, &[]).is(3, &["did not answer: libibverbs"]);
}

#[test]
fn nvml_that_fails_is_an_error() {
    let text = refused(NODE, &EIO, calls("nvml_"));
    check(&text, &[]).is(2, &["NVML"]);
}

#[test]
fn a_wait_between_two_samples_that_fails_is_undecided() {
    let waits = |question: &Question| matches!(question, Question::Wait(_));
    let text = refused("modelled-ground-fine.jsonl", &EIO, waits);
    check(&text, &[]).is(3, &["did not answer: timer"]);
}

#[test]
fn directories_that_fail_are_undecided() {
    for (dir, named) in [("/sys/bus/pci", "/sys/bus/pci"), ("/proc/", "/proc")] {
        for refusal in [EIO, Refusal::Timeout] {
            let said = check(&refused(NODE, &refusal, below(dir)), &[]);
            assert!([2, 3].contains(&said.status), "{}", said.text);
            assert!(said.text.contains(named), "{}", said.text);
        }
        let denied = Refusal::Errno(Errno::EACCES);
        let said = check(&refused(NODE, &denied, below(dir)), &[]);
        assert!([2, 3].contains(&said.status), "{}", said.text);
    }
}

#[test]
fn a_kernel_log_that_fails_is_undecided_and_one_that_is_withheld_is_not_healthy() {
    for refusal in [EIO, Refusal::Timeout] {
        let text = refused(NODE, &refusal, calls("kernel_log"));
        check(&text, &[]).is(3, &["kernel log"]);
    }
    let text = refused(NODE, &Refusal::Errno(Errno::EPERM), calls("kernel_log"));
    check(&text, &[]).is(0, &["no fault found in", "kernel-log (root)"]);
}

/// The recording of a node whose probes are killed after 2 s, all of which `is_killed` says so.
fn probes_killed(is_killed: impl Fn(&str) -> bool) -> (BTreeSet<String>, DoctorReply) {
    let whole = fixture(NODE);
    let mut killed = Recording::new(whole.header.clone());
    killed.header.base = None;
    let mut probes: BTreeSet<String> = BTreeSet::new();
    for line in whole.to_lines() {
        match &line {
            Line::Reply { probe, .. } if is_killed(probe) => {
                probes.insert(probe.to_string());
            }
            _ => killed.add(line),
        }
    }
    for probe in &probes {
        killed.add(Line::Ended(rdma_doctor::source::wire::ProbeEnd {
            probe: probe.as_str().into(),
            how: "killed after 2 s".into(),
            at: 2_000_000,
        }));
    }
    killed.end();
    let said = check(&recording_text::to_text(&killed, None), &[]);
    (probes, said)
}

#[test]
fn probes_that_were_killed_are_named() {
    let some = ["device", "counter", "nvml", "pcie", "pci", "gid", "netdev"];
    let (probes, said) = probes_killed(|probe| some.contains(&probe));
    assert_eq!(probes.len(), some.len());
    said.is(3, &["ended early", "probe device", "killed after 2 s"]);
}

#[test]
fn all_probes_but_one_that_were_killed_are_named() {
    // (what a model adds has the probe `*`)
    let (probes, said) = probes_killed(|probe| !["environment", "*"].contains(&probe));
    assert!(probes.len() > 20, "{probes:?}");
    said.is(3, &["ended early", "killed after 2 s"]);
    for probe in &probes {
        assert!(said.text.contains(probe.as_str()), "{probe}: {}", said.text);
    }
}

#[test]
fn a_recording_that_was_cut_says_so_first() {
    for name in [NODE, "modelled-gpu-faults.jsonl", "rxe-healthy.jsonl.zst"] {
        let whole = changed(name, |_, _| true);
        let lines: Vec<&str> = whole.lines().collect();
        for percent in [5, 20, 50, 80, 99] {
            let kept = lines[..(lines.len() * percent / 100).max(1)].join("\n") + "\n";
            let said = check(&kept, &[]);
            assert!([2, 3].contains(&said.status), "{percent} %: {}", said.text);
            assert!(
                said.text.contains("cut short"),
                "{percent} %: {}",
                said.text
            );
            for (format, words) in [
                ("nagios", "RDMA OK"),
                ("prometheus", "rdma_doctor_status 0"),
                ("json", "\"healthy\""),
            ] {
                let said = check(&kept, &["--format", format]);
                assert!(!said.text.contains(words), "{percent} %: {}", said.text);
            }
            let quiet = check(&kept, &["-q"]);
            assert!(quiet.text.contains("cut short"), "{}", quiet.text);
        }
        let more = format!("{whole}{}\n", lines[1]);
        assert!(check(&more, &[]).text.contains("cut short"));
    }
}

#[test]
fn gpus_without_a_driver_are_not_examined() {
    // Where nothing of NVIDIA's is installed, nobody meant to compute.
    let none = changed("modelled-gpu-no-driver.jsonl", |question, said| {
        if question.to_string().contains("libnvidia-ml") {
            *said = Err(Refusal::Errno(Errno::ENOENT));
        }
        true
    });
    check(&none, &[]).is(3, &["gpus", "driver is not loaded"]);
    let installed = changed("modelled-gpu-no-driver.jsonl", |_, _| true);
    check(&installed, &[]).is(2, &["0000:19:00.0 has no driver", "in part gpus 8 GPUs"]);
    let said = check(
        &changed("modelled-gpu-no-control-device.jsonl", |_, _| true),
        &[],
    );
    assert!([2, 3].contains(&said.status), "{}", said.text);
}

#[test]
fn one_unknown_error_of_a_gpu_is_undecided() {
    let text = changed(NODE, |question, said| {
        if let Question::Call(call) = question
            && &*call.name == "nvml_device"
            && call.number("index") == Some(3)
            && let Ok(Answer::Value(value)) = said
        {
            let mut broken = (**value).clone();
            broken["nvmlDeviceGetTemperature"] = serde_json::json!({"error": "Unknown"});
            *said = Ok(Answer::Value(broken.into()));
        }
        true
    });
    check(&text, &[]).is(3, &["did not answer", "Unknown Error"]);
}

#[test]
fn gpus_of_another_vendor_are_not_examined() {
    let text = changed(NODE, |question, said| {
        let path = question.path().unwrap_or_default();
        if path.ends_with("/vendor")
            && let Ok(Answer::Text(vendor)) = said
            && vendor.trim() == "0x10de"
        {
            *said = Ok(Answer::Text("0x1002\n".into()));
        }
        !path.starts_with("/proc/driver/nvidia") && !calls("nvml_")(question)
    });
    check(&text, &[]).is(3, &["gpus", "not an NVIDIA GPU"]);
}

#[test]
fn a_choice_of_areas_decides_what_is_required() {
    let text = changed("modelled-gpu-vm.jsonl", |_, _| true);
    let said = check(&text, &[]);
    said.is(3, &["To accept what was examined: --require "]);
    let (_, fits) = said.text.split_once("--require ").unwrap();
    let fits = fits.split(' ').next().unwrap();
    check(&text, &["--require", fits]).is(0, &["no fault found in"]);
    check(&text, &["--require", "all"]).is(3, &["gpus"]);
    check(&text, &["--require", "gpsu"]).is(64, &["`gpus`"]);
    let none = changed("host-without-rdma.jsonl.zst", |_, _| true);
    check(&none, &[]).is(3, &["no RDMA device"]);
    check(&none, &["--require", "none"]).is(0, &["no fault found"]);
    check(&none, &["--require", "ports"]).is(3, &["ports"]);
}

#[test]
fn a_choice_of_checks_is_decided_or_undecided() {
    let text = refused(NODE, &Refusal::Errno(Errno::EPERM), calls("kernel_log"));
    check(&text, &["--only", "kernel/xid-gpu-fault"]).is(3, &["undecided"]);
    let skipped = check(
        &changed(NODE, |_, _| true),
        &["--skip", "link/no-active-port"],
    );
    skipped.is(3, &["ports", "skipped"]);
}

#[test]
fn a_device_that_vanished_after_it_was_listed_does_not_respond() {
    let gone = Refusal::Errno(Errno::ENOENT);
    let text = refused(NODE, &gone, |question| {
        let below = [
            "/sys/class/infiniband/mlx5_3/",
            "/sys/class/infiniband/mlx5_3",
        ];
        let path = question.path().unwrap_or_default();
        below
            .iter()
            .any(|dir| path == *dir || path.starts_with(below[0]))
    });
    check(&text, &[]).is(2, &["mlx5_3 does not respond", "though it had been listed"]);
}

#[test]
fn one_recording_that_cannot_be_read_ends_no_other() {
    let dir = Scratch::new("trust-each");
    let (good, bad) = (dir.join("good.jsonl"), dir.join("bad.jsonl.zst"));
    std::fs::write(&good, changed(NODE, |_, _| true)).unwrap();
    std::fs::write(&bad, [0x28, 0xb5, 0x2f, 0xfd, 0, 1]).unwrap();
    let run = |paths: &[&Path]| {
        let mut command = Command::new(doctor());
        let ran = command
            .args(["check", "--each"])
            .args(paths)
            .output()
            .unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
    };
    let (status, text) = run(&[&bad, &good]);
    assert_eq!(status, Some(3), "{text}");
    assert!(
        text.contains("cannot be judged") && text.contains("no fault found"),
        "{text}"
    );
    assert_eq!(run(&[&bad]).0, Some(65));
}

/// The fixture where a function of NVML, in the reply to this call, gave this error.
fn nvml_says(call_name: &str, index: Option<u64>, function: &str, error: &str) -> String {
    changed(NODE, |question, said| {
        if let Question::Call(call) = question
            && &*call.name == call_name
            && (index.is_none() || call.number("index") == index)
            && let Ok(Answer::Value(value)) = said
        {
            let mut broken = (**value).clone();
            broken[function] = serde_json::json!({ "error": error });
            *said = Ok(Answer::Value(broken.into()));
        }
        true
    })
}

#[test]
fn nvml_without_permission_or_without_a_count_leaves_the_gpus_not_examined() {
    let denied = nvml_says("nvml_system", None, "nvmlInitWithFlags", "NoPermission");
    let said = check(&denied, &[]);
    assert!([2, 3].contains(&said.status), "{}", said.text);
    assert!(
        said.text.contains("Insufficient Permissions"),
        "{}",
        said.text
    );
    for error in ["Unknown", "NotSupported"] {
        let text = nvml_says("nvml_system", None, "nvmlDeviceGetCount_v2", error);
        let said = check(&text, &[]);
        assert!([2, 3].contains(&said.status), "{error}: {}", said.text);
        assert!(said.text.contains("gpus"), "{error}: {}", said.text);
    }
}

#[test]
fn a_gpu_that_is_lost_in_one_call_only_is_an_error() {
    let text = nvml_says(
        "nvml_device",
        Some(2),
        "nvmlDeviceGetPowerUsage",
        "GpuIsLost",
    );
    check(&text, &[]).is(2, &["lost"]);
}

/// The fixture where NVML lists one GPU less and its device file is missing, seen from this control group with a /dev of this file system.
fn one_gpu_not_listed(file_system: &str, cgroup: &str) -> String {
    changed(NODE, |question, said| {
        match (question, &mut *said) {
            (Question::Call(call), Ok(Answer::Value(value))) if &*call.name == "nvml_system" => {
                let mut fewer = (**value).clone();
                fewer["nvmlDeviceGetCount_v2"] = serde_json::json!(7);
                *said = Ok(Answer::Value(fewer.into()));
            }
            (Question::List(dir), Ok(Answer::Names(names))) if &**dir == "/dev" => {
                let rest = names.iter().filter(|name| &***name != "nvidia7");
                *said = Ok(Answer::Names(rest.cloned().collect()));
            }
            (Question::Read(path), _) if &**path == "/proc/self/cgroup" => {
                *said = Ok(Answer::Text(format!("0::{cgroup}\n").into()));
            }
            (Question::Read(path), _) if &**path == "/proc/self/mountinfo" => {
                let text = format!("26 30 0:5 / /dev rw,nosuid - {file_system} udev rw\n");
                *said = Ok(Answer::Text(text.into()));
            }
            _ => {}
        }
        true
    })
}

#[test]
fn a_gpu_of_the_driver_that_nvml_does_not_list_is_an_error_on_the_machine_itself() {
    let missing = "gpu/missing-from-nvml";
    for cgroup in [
        "/",
        "/system.slice/slurmd.service",
        "/user.slice/user-0.slice/session-3.scope",
    ] {
        let text = one_gpu_not_listed("devtmpfs", cgroup);
        check(&text, &[]).is(2, &[missing, "0000:4a:00.0"]);
    }
    // A job's step, and a container, have the GPUs that they asked for.
    for (file_system, cgroup) in [
        (
            "devtmpfs",
            "/system.slice/slurmstepd.scope/job_123/step_0/user/task_0",
        ),
        ("tmpfs", "/"),
    ] {
        let said = check(&one_gpu_not_listed(file_system, cgroup), &[]);
        assert!(!said.text.contains(missing), "{}", said.text);
    }
}

/// The fixture where these replies of NVML read otherwise.
fn nvml_otherwise(
    call_name: &str,
    index: Option<u64>,
    change: fn(&mut serde_json::Value),
) -> String {
    changed(NODE, |question, said| {
        if let Question::Call(call) = question
            && &*call.name == call_name
            && (index.is_none() || call.number("index") == index)
            && let Ok(Answer::Value(value)) = said
        {
            let mut other = (**value).clone();
            change(&mut other);
            *said = Ok(Answer::Value(other.into()));
        }
        // Without switches the links of a baseboard lead straight from GPU to GPU.
        index.is_some() || !question.to_string().contains("nvidia-nvswitch")
    })
}

#[test]
fn the_links_and_the_fabric_of_a_gpu_are_judged_by_its_equals() {
    let text = nvml_otherwise("nvml_device", Some(3), |said| {
        said["nvmlDeviceGetGpuFabricInfo"]["state"] = 0.into();
    });
    check(&text, &[]).is(
        2,
        &[
            "fabric/not-registered",
            "GPU 3 (0000:2a:00.0): NVLink fabric state is unsupported",
        ],
    );
    let text = nvml_otherwise("nvml_device", Some(3), |said| {
        said["fields"]["GET_GPU_RECOVERY_ACTION"] = 5.into();
    });
    check(&text, &[]).is(2, &["gpu/recovery-required", "recover-imex-domain"]);
    let text = nvml_otherwise("nvml_device", Some(3), |said| {
        said["fields"]["GET_GPU_RECOVERY_ACTION"] = 99.into();
    });
    check(&text, &[]).is(2, &["gpu/recovery-required", "other"]);
    let text = nvml_otherwise("nvml_links", Some(3), |said| {
        *said = serde_json::json!({ "links": [], "why": { "error": "NotSupported" } });
    });
    check(&text, &[]).is(
        2,
        &["nvlink/down", "GPU 3 (0000:2a:00.0): active NVLinks: 0"],
    );
    let text = nvml_otherwise("nvml_links", None, |said| {
        for link in said["links"].as_array_mut().unwrap() {
            link["nvmlDeviceGetNvLinkState"] = 0.into();
        }
    });
    check(&text, &[]).is(2, &["nvlink/down"]);
}

#[test]
fn check_and_triage_of_a_machine_say_the_same_of_it() {
    let run = |words: &[&str]| {
        let ran = Command::new(doctor()).args(words).output().unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        (ran.status.code(), text)
    };
    let triage = ["triage", "--backend", "tcp", "--quick", "--size", "1M"];
    let (status, text) = run(&triage);
    assert_eq!(run(&["check"]).0, status, "{text}");
    assert!(!text.contains("healthy"), "{text}");
}
