//! Faults made for real: each script of `tests/vm/faults` breaks a throw-away VM with the kernel's soft-RoCE, and
//! the doctor has to name the cause that the script's head states.
//!
//! * `RDMA_DOCTOR_BINARY` is the doctor to examine with (default: the release build, which `make test` makes first).
//! * `RDMA_DOCTOR_VM=0` skips these tests, `RDMA_DOCTOR_VM=require` makes a machine that cannot run them a failure.
//! * `RDMA_DOCTOR_CASES=all` records the machine with each fault, not with one in six, and makes all faults, not one for each finding.
//! * `RDMA_DOCTOR_VM_FAULTS="NAME ..."` runs only these faults, `RDMA_DOCTOR_VM_JOBS=N` that many VMs at once (as many as
//!   there are CPUs, and two at least).
//!
//! Faults that ask for the same machine begin at one snapshot of it: each has it fresh, and only the first waits for a boot.
//!
//! What each doctor said stays in `target/tmp/vm/NAME`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Instant;
use std::{env, fs, io, thread};

use serde_json::Value;

use rdma_doctor::examine::given::Given;
use rdma_doctor::examine::sink::Silent;

use crate::sample;

pub(crate) const VM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vm");
pub(crate) const OUT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/vm");
/// Machines as they are after their boot: each test that asks for the same begins there.
pub(crate) const SNAPSHOTS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/vm/snapshots");

/// The tests take turns: each fills the machine by itself.
pub(crate) static TURN: Mutex<()> = Mutex::new(());

/// Around libtest's capture: a skipped test and the table are to be seen in a passing run too.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
}

pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The doctor to examine with, or why these tests cannot run here.
fn doctor() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the VM is one for x86-64 Linux".into());
    }
    let binary = match variable("RDMA_DOCTOR_BINARY") {
        Some(path) => PathBuf::from(path),
        // CARGO_TARGET_TMPDIR is the folder `tmp` beside the profiles' folders.
        None => Path::new(env!("CARGO_TARGET_TMPDIR"))
            .with_file_name("release")
            .join("rdma-doctor"),
    };
    let binary = fs::canonicalize(&binary).map_err(|error| {
        format!(
            "no doctor at {}: {error}; `make test` builds it first",
            binary.display()
        )
    })?;
    let built = Command::new(format!("{VM}/softroce-vm"))
        .arg("--build")
        .output()
        .map_err(|error| format!("softroce-vm: {error}"))?;
    if built.status.success() {
        Ok(binary)
    } else {
        let said = String::from_utf8_lossy(&built.stderr);
        Err(said
            .trim()
            .lines()
            .last()
            .unwrap_or("softroce-vm says nothing")
            .to_owned())
    }
}

/// As `doctor`, for a test: none means that the test is skipped, which has been said.
pub(crate) fn doctor_or_skip() -> Option<PathBuf> {
    let wish = variable("RDMA_DOCTOR_VM").unwrap_or_default();
    if wish == "0" {
        say("skipped: VM tests (RDMA_DOCTOR_VM=0)");
        return None;
    }
    match doctor() {
        Ok(binary) => Some(binary),
        Err(why) if wish == "require" => panic!("VM tests are required and cannot run: {why}"),
        Err(why) => {
            say(&format!("skipped: VM tests ({why})"));
            None
        }
    }
}

/// A fault's script, and what its head says that the doctor has to find.
#[derive(Debug)]
struct Fault {
    name: String,
    /// A check's id, or one of the states without a cause: `healthy`, `no-fault-found`, `undecided`.
    expect: String,
    /// The cause's subject; a `*` at its end stands for any rest.
    subject: String,
    exit: i64,
    /// A check that has to be among the notes of a healthy machine.
    note: Option<String>,
    /// The areas that must be examined, where the emulated machine cannot have the usual ones.
    require: Option<String>,
    /// Its VM's topology and options: two faults with the same begin on the same machine.
    machine: String,
    /// Whether the machine is recorded too, and the recording judged there and here.
    is_recorded: bool,
}

impl Fault {
    fn read(path: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let head = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(&format!("# {key}:")))
                .map(str::trim)
        };
        let need =
            |key: &str| head(key).ok_or_else(|| format!("{}: no line `# {key}:`", path.display()));
        need("fault")?;
        let machine = format!("{} {}", need("topo")?, head("options").unwrap_or_default());
        Ok(Self {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            expect: need("expect")?.to_owned(),
            subject: head("subject").unwrap_or("*").to_owned(),
            exit: need("exit")?
                .parse()
                .map_err(|error| format!("{}: exit: {error}", path.display()))?,
            note: head("note").map(str::to_owned),
            require: head("require").map(str::to_owned),
            machine,
            is_recorded: true,
        })
    }

    /// The faults to try: of each machine the first, so that no two wait for one boot; then those that take long, which do not stand
    /// alone at the end then.
    fn all() -> Result<Vec<Self>, String> {
        let only = variable("RDMA_DOCTOR_VM_FAULTS");
        let only: Option<Vec<_>> = only
            .as_deref()
            .map(|names| names.split_whitespace().collect());
        let mut faults = Vec::new();
        for entry in fs::read_dir(format!("{VM}/faults")).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.extension().is_some_and(|extension| extension == "sh") {
                faults.push(Self::read(&path)?);
            }
        }
        if let Some(only) = &only {
            if let Some(name) = only
                .iter()
                .find(|name| faults.iter().all(|fault| fault.name != **name))
            {
                return Err(format!("RDMA_DOCTOR_VM_FAULTS: no fault {name}"));
            }
            faults.retain(|fault| only.contains(&fault.name.as_str()));
        }
        faults.sort_by_key(|fault| {
            let long = ["packet-loss", "healthy-busy", "link-flaps"].contains(&fault.name.as_str());
            (!long, fault.name.clone())
        });
        if only.is_none() {
            // One for each finding, with each exit status, and all that must be quiet; all with all
            // cases.
            let all = variable("RDMA_DOCTOR_CASES").as_deref() == Some("all");
            let mut made = HashSet::new();
            faults.retain(|fault| {
                let is_new = made.insert((fault.expect.clone(), fault.exit));
                is_new || all || !fault.expect.contains('/')
            });
            for (index, fault) in faults.iter_mut().enumerate() {
                fault.is_recorded = index % sample::one_in(6) == 0;
            }
        }
        let mut seen = HashSet::new();
        let (first, others): (Vec<_>, Vec<_>) = faults
            .into_iter()
            .partition(|fault| seen.insert(fault.machine.clone()));
        Ok(first.into_iter().chain(others).collect())
    }
}

/// What became of one fault: the verdict in a few words, and what is wrong with it.
struct Outcome {
    name: String,
    expect: String,
    verdict: String,
    seconds: f64,
    wrong: Vec<String>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn list<'a>(report: &'a Value, key: &str) -> &'a [Value] {
    report
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// One finding without its numbers: a recording is made a moment after the check.
fn gist(finding: &Value) -> String {
    let mut line = format!(
        "{} {} {}",
        text(finding, "severity"),
        text(finding, "check"),
        text(finding, "subject")
    );
    let mut beneath: Vec<_> = list(finding, "consequences").iter().map(gist).collect();
    beneath.sort();
    if !beneath.is_empty() {
        let _ = write!(line, " ({})", beneath.join("; "));
    }
    line
}

fn parse(what: &str, bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("{what} is no JSON: {error}"))
}

/// The end of what a program said on stderr, for a failure's text.
pub(crate) fn tail(bytes: &[u8]) -> String {
    let said = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = said.trim().lines().collect();
    lines[lines.len().saturating_sub(6)..].join("\n      ")
}

/// What `run-fault` is asked for: a topology, or where the snapshots are.
pub(crate) fn run_vm(
    options: &[&str],
    name: &str,
    binary: &Path,
    out: &Path,
) -> Result<Output, String> {
    run_vm_with(&[], options, name, binary, out)
}

fn run_vm_with(
    variables: &[(&str, &str)],
    options: &[&str],
    name: &str,
    binary: &Path,
    out: &Path,
) -> Result<Output, String> {
    let mut command = Command::new(format!("{VM}/run-fault"));
    command.envs(variables.iter().copied()).args(options);
    command
        .arg(name)
        .arg(binary)
        .arg(out)
        .output()
        .map_err(|error| format!("run-fault: {error}"))
}

/// Compares what the doctor said in the VM with what the fault's head expects.
fn judge(fault: &Fault, status: i64, report: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let causes = list(report, "causes");
    if status != fault.exit {
        wrong.push(format!("exit status {status}, not {}", fault.exit));
    }
    if report.get("exit").and_then(Value::as_i64) != Some(status) {
        wrong.push(format!(
            "the report says exit {:?}, the process {status}",
            report.get("exit")
        ));
    }
    match fault.expect.as_str() {
        state @ ("healthy" | "no-fault-found" | "undecided") => {
            if text(report, "status") != state {
                wrong.push(format!("status {}, not {state}", text(report, "status")));
            }
            wrong.extend(
                causes
                    .iter()
                    .map(|cause| format!("a cause where none is: {}", gist(cause))),
            );
            if let Some(note) = &fault.note
                && list(report, "notes")
                    .iter()
                    .all(|n| text(n, "check") != note)
            {
                wrong.push(format!("{note} is not among the notes"));
            }
        }
        // Nothing failed, for there was nothing to examine: that is said by a note or an open question.
        check if fault.exit == 3 => {
            let named = |key| {
                list(report, key)
                    .iter()
                    .any(|finding| text(finding, "check") == check)
            };
            if !named("causes") && !named("notes") && !named("open") {
                wrong.push(format!("{check} is not in the report"));
            }
            let others = causes.iter().filter(|cause| text(cause, "check") != check);
            wrong.extend(others.map(|cause| format!("a cause beside it: {}", gist(cause))));
        }
        check => match causes {
            [] => wrong.push(format!("no cause, not {check}")),
            [cause, rest @ ..] => {
                if text(cause, "check") != check {
                    wrong.push(format!("the cause is {}, not {check}", gist(cause)));
                }
                let subject = text(cause, "subject");
                let fits = match fault.subject.strip_suffix('*') {
                    Some(start) => subject.starts_with(start),
                    None => subject == fault.subject,
                };
                if !fits {
                    wrong.push(format!("the subject is {subject}, not {}", fault.subject));
                }
                wrong.extend(
                    rest.iter()
                        .map(|cause| format!("not folded beneath it: {}", gist(cause))),
                );
            }
        },
    }
    wrong
}

/// Makes one fault in a VM and judges the report; then judges the recording here, where nothing is broken, if one was made.
fn examine(
    fault: &Fault,
    snapshots: Option<&str>,
    binary: &Path,
) -> Result<(String, Vec<String>), String> {
    let out = Path::new(OUT).join(&fault.name);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut options = snapshots.map_or(vec![], |folder| vec!["--snapshot", folder]);
    if !fault.is_recorded {
        options.push("--check-alone");
    }
    let ran = run_vm(&options, &fault.name, binary, &out)?;
    let status = i64::from(ran.status.code().unwrap_or(-1));
    let read = |name: &str| {
        fs::read(out.join(name)).map_err(|error| {
            let doctor = fs::read(out.join("stderr")).unwrap_or_default();
            format!(
                "status {status}, no {name}: {error}\n      {}\n      {}",
                tail(&ran.stderr),
                tail(&doctor)
            )
        })
    };
    let report = parse("report.json", &read("report.json")?)?;
    let mut wrong = judge(fault, status, &report);
    if fault.is_recorded {
        let recorded =
            read("node.jsonl").and_then(|_| parse("replay.json", &read("replay.json")?))?;
        wrong.extend(judge_recording(fault, &report, &recorded, &out, binary)?);
    }
    if let Some(failed) = list(&report, "probe_failures").first() {
        wrong.push(format!("{failed}"));
    }

    let named = match list(&report, "causes") {
        [] => text(&report, "status").to_owned(),
        [cause] => format!("{} {}", text(cause, "check"), text(cause, "subject")),
        [cause, rest @ ..] => format!(
            "{} {} and {} more",
            text(cause, "check"),
            text(cause, "subject"),
            rest.len()
        ),
    };
    Ok((format!("{status} {named}"), wrong))
}

/// Compares the reports of a recording, made in the VM and here, with that of the machine.
fn judge_recording(
    fault: &Fault,
    report: &Value,
    there: &Value,
    out: &Path,
    binary: &Path,
) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let replayed = Command::new(binary)
        .args(["check", "--format", "json"])
        .args(fault.require.iter().flat_map(|areas| ["--require", areas]))
        .arg(out.join("node.jsonl"))
        .output()
        .map_err(|error| format!("the replay: {error}"))?;
    let again = parse("the recording's report", &replayed.stdout)
        .map_err(|error| format!("{error}\n      {}", tail(&replayed.stderr)))?;
    // One recording gives one verdict, on the broken machine and on this one.
    if *there != again {
        wrong.push("the recording gives another report here than in the VM".into());
    }
    // The recording is made after the check, and counters move in between: the lead is the same.
    let lead = |report: &Value| {
        let cause = list(report, "causes").first();
        (
            text(report, "status").to_owned(),
            cause.map(|c| text(c, "check").to_owned()),
        )
    };
    if lead(report) != lead(&again) {
        wrong.push(format!(
            "the machine says {:?}, its recording {:?}",
            lead(report),
            lead(&again)
        ));
    }
    Ok(wrong)
}

fn examine_all(faults: Vec<Fault>, binary: &Path, jobs: usize) -> Vec<Outcome> {
    // A machine that only one fault asks for is booted.
    let mut machines: HashMap<String, usize> = HashMap::new();
    for fault in &faults {
        *machines.entry(fault.machine.clone()).or_default() += 1;
    }
    let queue = Mutex::new(VecDeque::from(faults));
    let outcomes = Mutex::new(Vec::new());
    let next = || {
        queue
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .pop_front()
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    let from = Instant::now();
                    let shared = (machines.get(&fault.machine) > Some(&1)).then_some(SNAPSHOTS);
                    let (verdict, wrong) = examine(&fault, shared, binary)
                        .unwrap_or_else(|error| ("-".into(), vec![error]));
                    let outcome = Outcome {
                        name: fault.name,
                        expect: fault.expect,
                        verdict,
                        seconds: from.elapsed().as_secs_f64(),
                        wrong,
                    };
                    outcomes
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .push(outcome);
                }
            });
        }
    });
    // A quarter of a gigabyte each. (This test is the last one.)
    let _ = fs::remove_dir_all(SNAPSHOTS);
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    outcomes
}

fn table(outcomes: &[Outcome]) -> String {
    let width = |of: fn(&Outcome) -> usize, least: usize| {
        outcomes.iter().map(of).max().unwrap_or(0).max(least)
    };
    let (name, expect, verdict) = (
        width(|o| o.name.len(), 5),
        width(|o| o.expect.len(), 8),
        width(|o| o.verdict.len(), 7),
    );
    let mut table = format!(
        "{:name$}  {:expect$}  {:verdict$}  {:>5}\n",
        "fault", "expected", "verdict", "s"
    );
    for o in outcomes {
        let _ = writeln!(
            table,
            "{:name$}  {:expect$}  {:verdict$}  {:5.0}",
            o.name, o.expect, o.verdict, o.seconds
        );
    }
    table
}

#[test]
fn every_fault_is_named_as_the_cause() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let faults = Fault::all().unwrap_or_else(|error| panic!("{error}"));
    let jobs = variable("RDMA_DOCTOR_VM_JOBS")
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or_else(|| thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)));
    let outcomes = examine_all(faults, &binary, jobs);
    let mut failures = String::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.wrong.is_empty()) {
        let _ = writeln!(failures, "{}: {}", outcome.name, outcome.wrong.join("; "));
    }
    // The table is long: a reader of a failure needs its rows alone.
    assert!(
        failures.is_empty(),
        "faults that are not named as they are (each with its files in {OUT}/NAME):\n{failures}"
    );
    say(&format!("\n{}", table(&outcomes)));
}

/// The verbs backend over a wire that is whole, one that loses packets, and one that is cut.
#[test]
fn collectives_by_rdma_writes_are_right_or_name_their_failure() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("collectives");
    let ran = fs::create_dir_all(&out)
        .map_err(|error| error.to_string())
        .and_then(|()| {
            let options = ["--topo", "loop", "--snapshot", SNAPSHOTS];
            run_vm(&options, "collectives", &binary, &out)
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let said = String::from_utf8_lossy(&ran.stdout);
    say(&format!("\n{said}"));
    assert!(
        ran.status.success() && said.matches("ok: ").count() == 3,
        "{} (see {}):\n{said}{}",
        ran.status,
        out.display(),
        tail(&ran.stderr)
    );
}

/// The verbs backend from GPU to GPU, where the GPUs and their adapter's way to them are stand-ins, and the RDMA writes are not.
#[test]
fn rdma_writes_from_gpu_to_gpu_are_right_or_name_what_refused_them() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let standins = crate::stage::built("standin_cuda");
    crate::stage::built("standin_verbs");
    let standins = standins.parent().unwrap_or_else(|| Path::new("."));
    let standins = standins.to_string_lossy();
    let out = Path::new(OUT).join("gpudirect");
    let options = [
        "--topo",
        "loop",
        "--snapshot",
        SNAPSHOTS,
        "--standins",
        &*standins,
    ];
    let ran = fs::create_dir_all(&out)
        .map_err(|error| error.to_string())
        .and_then(|()| run_vm(&options, "gpudirect", &binary, &out))
        .unwrap_or_else(|error| panic!("{error}"));
    let said = String::from_utf8_lossy(&ran.stdout);
    say(&format!("\n{said}"));
    assert!(
        ran.status.success() && said.matches("ok: ").count() == 6,
        "{} (see {}):\n{said}{}",
        ran.status,
        out.display(),
        tail(&ran.stderr)
    );
}

/// What rank 0 said of a step of `nodes.sh` or `slow-node.sh`.
fn said_of(out: &Path, step: &str) -> Value {
    let file = out.join(format!("{step}.json"));
    let words = ["n0", "n1", "n2", "n3"].map(|node| {
        let words = fs::read(out.join(format!("{step}.{node}")));
        tail(&words.unwrap_or_default())
    });
    fs::read(&file)
        .map_err(|error| format!("{}: {error}", file.display()))
        .and_then(|bytes| parse(step, &bytes))
        .unwrap_or_else(|error| panic!("{error}\n{}", words.join("\n")))
}

/// Who is accused by pairs, and of what.
fn accused(value: &Value) -> Vec<(&str, &str)> {
    let all = list(value, "accused").iter();
    all.map(|one| (text(one, "name"), text(one, "problem")))
        .collect()
}

/// Runs a script on several nodes at once, and says what each of them says.
fn run_nodes(name: &str, binary: &Path, out: &Path) {
    run_nodes_with(&[], name, binary, out);
}

/// The same, with variables for `run-fault`.
fn run_nodes_with(variables: &[(&str, &str)], name: &str, binary: &Path, out: &Path) {
    // What nodes of an earlier run asked of each other would be taken for this run's.
    let _ = fs::remove_dir_all(out.join("all"));
    let ran = fs::create_dir_all(out)
        .map_err(|error| error.to_string())
        .and_then(|()| run_vm_with(variables, &[], name, binary, out))
        // Of several emulated machines at once QEMU breaks one now and then (an assertion of its own): that says nothing of the doctor.
        .and_then(|ran| match ran.status.code() {
            Some(125) => run_vm_with(variables, &[], name, binary, out),
            _ => Ok(ran),
        })
        .unwrap_or_else(|error| panic!("{error}"));
    say(&format!("\n{}", String::from_utf8_lossy(&ran.stdout)));
    assert!(
        ran.status.success(),
        "{}: {}",
        ran.status,
        tail(&ran.stderr)
    );
}

/// Running jobs on two nodes: by RDMA, one rank of which is stopped and then gone; and one that waits for a file of a server behind a packet filter.
#[test]
fn jobs_of_two_nodes_name_the_rank_that_keeps_the_other_waiting() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("job");
    run_nodes("job", &binary, &out);
    let said = |name: &str| {
        let node = |node: usize| out.join("all").join(format!("{name}.n{node}.jsonl"));
        let ran = Command::new(&binary)
            .arg("job")
            .args([node(0), node(1)])
            .args(["--json", "--all"])
            .output()
            .unwrap();
        let report = parse(name, &ran.stdout).unwrap_or_else(|error| panic!("{error}"));
        say(&format!("{name}: {}", text(&report, "headline")));
        (
            text(&report, "headline").to_owned(),
            ran.status.code(),
            String::from_utf8_lossy(&ran.stdout).into_owned(),
        )
    };
    // Emulated processors lose packets of soft-RoCE, which is said.
    let (_, _, all) = said("moves");
    assert!(all.contains("working: 2 ranks"), "{all}");
    assert!(!all.contains("carries nothing"), "{all}");
    let (headline, exit, all) = said("stopped");
    assert_eq!(exit, Some(2), "{all}");
    assert!(headline.starts_with("rank 0 (n0, pid "), "{headline}");
    assert!(
        headline.contains(") is stopped by a signal (state T)"),
        "{headline}"
    );
    let of_queue_pairs = "; its RDMA connection carries nothing; rank 1 (n1, pid ";
    assert!(all.contains(of_queue_pairs), "{all}");
    let (_, exit, all) = said("killed");
    assert_eq!(exit, Some(2), "{all}");
    assert!(
        all.contains("without a process: rank 0 (n0 has none at all)"),
        "{all}"
    );
    let (headline, _, all) = said("mount");
    assert!(headline.starts_with("rank 1 (n1, pid "), "{headline}");
    assert!(
        all.contains("on /run/data (nfs4 of 192.168.77.1:/)"),
        "{all}"
    );
    assert!(
        all.contains("the server 192.168.77.1:2049 does not acknowledge "),
        "{all}"
    );
}

/// Four nodes with two rails each: one whose link is slow makes an all-reduce slow; one rail of it is slow, and rails have a network each.
#[test]
fn a_slow_node_is_found_by_halves_and_a_slow_rail_by_pairs() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("slow-node");
    run_nodes("slow-node", &binary, &out);

    let bisected = said_of(&out, "bisected");
    assert_eq!(text(&bisected, "backend"), "verbs");
    let slow = text(&bisected, "what_is_slow");
    assert!(slow.starts_with("n2 makes it slow: "), "{slow}");
    let parts = list(&bisected["scopes"]["bisection"], "parts");
    // Two halves; then n2, and the one beside it, each with a good one.
    assert_eq!(parts.len(), 4, "{parts:#?}");
    let named = |check: &str| {
        let mut all = list(&bisected, "findings").iter();
        all.any(|finding| text(finding, "check") == check)
    };
    assert!(named("bench/node-slows-job"), "{bisected:#}");

    let rails = said_of(&out, "rails");
    let mut all = accused(&rails);
    // Busy processors may hold up each small write of a pair, and drop a packet that soft-RoCE has no room for.
    all.retain(|(_, problem)| !["late", "loss"].contains(problem));
    assert_eq!(
        all,
        [("n2/rxe5/1", "slow"), ("all rails", "rails-apart")],
        "{rails:#}"
    );
    let slow = list(&rails, "accused")
        .iter()
        .find(|one| text(one, "problem") == "slow");
    let what = slow.map_or("", |one| text(one, "what"));
    assert!(what.contains(" to n0, n1 and n3, where equals"), "{what}");
    let across = list(&rails, "across");
    assert_eq!(across.len(), 24);
    assert!(across.iter().all(|way| way["failed"].is_string()));
    let along = list(&rails, "ways");
    assert_eq!(along.len(), 24);
    assert!(
        along.iter().all(|way| way["failed"].is_null()),
        "{along:#?}"
    );
}

/// Two nodes on one wire: a clock that is ahead, what is well, a loss that reliable connections hide, a filter, and a node without RDMA.
#[test]
fn pairs_of_two_nodes_by_rdma_name_what_is_wrong_and_where() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("nodes");
    run_nodes("nodes", &binary, &out);

    // The clock of n1 is an hour and a half ahead, as the machines themselves tell the time; slow messages between them leave "at least" a little less.
    let clock = said_of(&out, "clock");
    let causes: Vec<_> = list(&clock, "causes").iter().map(gist).collect();
    // A machine that is busy may leave replies out, which is said too.
    let apart = "warning cluster/clocks-apart clock";
    assert!(
        causes.iter().any(|cause| cause == apart)
            && causes.iter().all(|cause| cause.starts_with("warning ")),
        "{causes:?}"
    );
    let sentence = list(&clock, "causes")
        .iter()
        .find(|cause| gist(cause) == apart)
        .map_or("", |cause| text(cause, "sentence"));
    let apart = sentence
        .strip_prefix("the clocks of n[0-1] are ")
        .and_then(|rest| {
            rest.trim_start_matches("at least ")
                .strip_suffix(" min apart")
        })
        .and_then(|minutes| minutes.parse::<f64>().ok());
    assert!(
        apart.is_some_and(|minutes| (85.0..=90.5).contains(&minutes)),
        "{sentence}"
    );

    let well = said_of(&out, "well");
    assert_eq!(accused(&well), [], "{well:#}");
    assert_eq!(text(&well, "backend"), "verbs");
    for node in list(&well, "nodes") {
        let rail = &node["rails"][0];
        assert_eq!(text(rail, "port"), "rxe0/1 GID 0 MTU 1024");
        assert!(text(rail, "gid").starts_with("fe80::"), "{rail}");
    }
    for way in list(&well, "ways") {
        let number = |key: &str| way.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        // Below what the wire lets through, and a way there and back is no second.
        assert!((1e5..16e6).contains(&number("rate")), "{way:#}");
        assert!((1e-6..1.0).contains(&number("round_trip")), "{way:#}");
        assert_eq!(way.get("packet"), Some(&1500.into()));
    }
    assert_eq!(list(&well, "ways").len(), 2);

    let loss = said_of(&out, "loss");
    assert_eq!(accused(&loss), [("n1 to n0", "loss")], "{loss:#}");
    let counted: Vec<&str> = list(&loss["accused"][0], "counted")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (start, end) in [
        ("n0/rxe0/1 out_of_seq_request +", " while receiving"),
        ("n1/rxe0/1 rcvd_seq_err +", " while sending"),
    ] {
        let is = |line: &&str| line.starts_with(start) && line.ends_with(end);
        assert!(counted.iter().any(is), "{counted:?}");
    }
    assert_eq!(text(&loss["findings"][0], "check"), "pairs/loses-packets");

    let filtered = said_of(&out, "filtered");
    assert_eq!(
        accused(&filtered),
        [("n1 to n0", "rdma-fails")],
        "{filtered:#}"
    );
    let what = text(&filtered["accused"][0], "what");
    for part in [
        "IBV_WC_RETRY_EXC_ERR, vendor error ",
        "from GID ::ffff:192.168.77.2 to GID ::ffff:192.168.77.1",
        "over TCP they reach each other",
    ] {
        assert!(what.contains(part), "{what}");
    }
    // The recording of that, with all checks: the filter is the cause, and explains what it does to the pair. The wire of these machines is a shaper's.
    let check = said_of(&out, "filtered.check");
    let causes: Vec<_> = list(&check, "causes").iter().map(gist).collect();
    let [cause, wire] = causes.as_slice() else {
        panic!("{causes:#?}");
    };
    assert!(cause.starts_with("error firewall/roce-blocked"), "{cause}");
    assert!(wire.contains("network/queue-limits"), "{wire}");
    assert!(cause.contains("pairs/rdma-fails"), "{cause}");

    // Each tried to reach the other, over sockets and by RDMA; the first time all was well.
    let reached = |value: &Value| {
        let mut areas = list(value, "areas").iter();
        let area = areas.find(|area| area["area"] == "reach");
        area.map(|area| text(area, "state").to_owned())
    };
    assert_eq!(reached(&clock).as_deref(), Some("examined"));
    let reach = said_of(&out, "reach");
    assert_eq!(reached(&reach).as_deref(), Some("examined"));
    let fails = list(&reach, "causes").iter();
    let mut fails = fails.filter(|cause| text(cause, "check") == "reach/rdma-fails");
    let what = fails.next().map_or("", |cause| text(cause, "sentence"));
    for part in [
        "n1 to n0: RDMA writes do not arrive",
        "packets of 512 bytes get through, those of 1024 do not",
        "those the other way round do",
    ] {
        assert!(what.contains(part), "{what}");
    }

    let socket = said_of(&out, "socket");
    // Sockets of emulated machines are as slow as their processors are busy.
    let mut accused_there = accused(&socket);
    accused_there.retain(|(_, problem)| *problem != "slow");
    assert_eq!(accused_there, [], "{socket:#}");
    assert_eq!(text(&socket, "backend"), "tcp");
    let why = text(&socket, "why");
    assert!(why.starts_with("n1 has no RDMA port that works: "), "{why}");

    let reduced = said_of(&out, "all-reduce");
    assert_eq!(text(&reduced, "backend"), "verbs");
    assert_eq!(reduced["rows"][0]["wrong"], 0, "{reduced:#}");
    assert!(
        reduced["rows"][0]["checked"].as_u64() > Some(0),
        "{reduced:#}"
    );
    let hosts: Vec<_> = list(&reduced, "ranks")
        .iter()
        .map(|r| text(r, "host"))
        .collect();
    assert_eq!(hosts, ["n0", "n1"]);
}

/// A site's CI over recordings of two machines: the second one is recorded again when it is broken.
#[test]
fn a_recorded_node_that_breaks_is_told_waived_and_told_again() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("recorded-nodes");
    run_nodes("recorded-nodes", &binary, &out);
    let broken = ["firewall/roce-blocked", "RoCE v2 in on eth0"];
    crate::recorded_nodes::walk("walk-vm", &[], broken, &|node, to, is_broken| {
        let state = if is_broken { "broken" } else { "good" };
        fs::copy(out.join(format!("{state}-{node}.jsonl")), to)
            .unwrap_or_else(|error| panic!("{state} {node}: {error}"));
    });
}

/// A row of `path-faults`.
struct PathFault {
    name: String,
    /// The heading above it in the table.
    class: String,
    expect: String,
    /// What to the peer is dead or much slower: `rdma`, `tcp`, `both`, `none`.
    damage: String,
    /// Whether it is not named yet.
    missed: bool,
}

fn path_faults() -> Vec<PathFault> {
    let table = fs::read_to_string(format!("{VM}/path-faults")).unwrap_or_default();
    let mut faults = Vec::new();
    let mut class = "";
    for line in table.lines() {
        class = line.strip_prefix("# -- ").unwrap_or(class);
        let Some(row) = line.strip_prefix("== ") else {
            continue;
        };
        let mut cells = row.split('|').map(|cell| cell.trim().to_owned());
        let mut next = || cells.next().unwrap_or_default();
        faults.push(PathFault {
            name: next(),
            class: class.to_owned(),
            expect: next(),
            damage: next(),
            missed: next() == "missed",
        });
    }
    faults
}

/// The faults that are made: those that `FAULTS` names; all with `RDMA_DOCTOR_CASES=all`; else one for each class and what is expected of it,
/// and of the healthy ones one in three.
fn chosen_path_faults() -> Vec<PathFault> {
    let named = variable("FAULTS");
    let all = variable("RDMA_DOCTOR_CASES").as_deref() == Some("all");
    let mut seen = HashSet::new();
    let mut healthy = 0;
    let mut is_chosen = |fault: &PathFault| {
        if let Some(named) = &named {
            return named.split_whitespace().any(|name| name == fault.name);
        }
        if fault.expect == "healthy" {
            healthy += 1;
            return all || healthy % 3 == 1;
        }
        seen.insert((fault.class.clone(), fault.expect.clone())) || all
    };
    let mut faults = path_faults();
    faults.retain(|fault| is_chosen(fault));
    faults
}

/// What is wrong with what the doctor said of a fault of the packet's way, or with the fault itself.
fn judge_path(fault: &PathFault, out: &Path) -> Option<String> {
    let file = |end: &str| out.join(format!("{}.{end}", fault.name));
    let proof = fs::read_to_string(file("proof")).unwrap_or_default();
    let is = |what: &str, states: &[&str]| {
        states
            .iter()
            .any(|state| proof.contains(&format!("{what}={state}")))
    };
    let harmed: &[&str] = match fault.damage.as_str() {
        "both" => &["rdma", "tcp"],
        "none" => &[],
        _ => &[&fault.damage],
    };
    let healthy = fault.expect == "healthy";
    if healthy && !is("tcp", &["ok", "slow"]) {
        return Some(format!("it is no healthy set-up: {proof}"));
    }
    if !healthy && !harmed.iter().all(|what| is(what, &["dead", "slow"])) {
        return Some(format!("it does no damage: {proof}"));
    }
    let report = fs::read(file("json")).map_err(|error| error.to_string());
    let report = match report.and_then(|bytes| parse(&fault.name, &bytes)) {
        Ok(report) => report,
        Err(error) => return Some(error),
    };
    let causes = list(&report, "causes");
    let named = match causes.first() {
        Some(cause) => text(cause, "check"),
        None => text(&report, "status"),
    };
    match (named == fault.expect, fault.missed) {
        (true, true) => Some("it is named now: take `missed` away".into()),
        (false, false) => Some(format!("it says {named}")),
        _ => None,
    }
}

/// Queueing disciplines, filters at devices, routes, neighbours, identities: made on one of two nodes that reach each other, one after the other.
#[test]
fn faults_of_the_packets_way_are_named_and_unusual_set_ups_are_healthy() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("path");
    assert!(path_faults().len() >= 90);
    let faults = chosen_path_faults();
    let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
    let names = format!("healthy-first {}", names.join(" "));
    run_nodes_with(&[("FAULTS", &names)], "path", &binary, &out);
    let wrong: Vec<String> = faults
        .iter()
        .filter_map(|fault| Some(format!("{}: {}", fault.name, judge_path(fault, &out)?)))
        .collect();
    assert!(
        wrong.is_empty(),
        "see {}:\n{}",
        out.display(),
        wrong.join("\n")
    );
}

/// Faults of the host and of settings, one after the other in one machine: the cause that `ground.sh` states leads, and nothing leads where it
/// says that all is well.
#[test]
fn faults_of_the_host_and_of_settings_lead() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("ground");
    let ran = fs::create_dir_all(&out)
        .map_err(|error| error.to_string())
        .and_then(|()| run_vm(&[], "ground", &binary, &out))
        .unwrap_or_else(|error| panic!("{error}"));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{}:\n{said}", ran.status);
    let truths = crate::ground::of_the_machine();
    let only = variable("GROUND");
    let tried = truths.into_iter().filter(|(name, _)| {
        only.as_deref()
            .is_none_or(|only| only.split_whitespace().any(|one| one == name))
    });
    let outcomes = tried.map(|(name, expect)| {
        let report = fs::read(out.join(format!("{name}.json")))
            .map_err(|error| error.to_string())
            .and_then(|bytes| parse(&name, &bytes));
        let led = match report {
            Ok(report) => match list(&report, "causes") {
                [] => None,
                [cause, ..] => Some(text(cause, "check").to_owned()),
            },
            Err(error) => Some(error),
        };
        (name, expect, led)
    });
    crate::ground::hold(outcomes.collect(), &say);
}

#[test]
fn the_doctor_changes_nothing() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let failures: Vec<_> = thread::scope(|scope| {
        // With the RDMA modules loaded, and on a machine where none is: asking must not load one.
        let runs = ["rxe", "none"].map(|topo| {
            let binary = &binary;
            scope.spawn(move || {
                let out = Path::new(OUT).join(format!("invariants-{topo}"));
                let ran = fs::create_dir_all(&out)
                    .map_err(|error| error.to_string())
                    .and_then(|()| {
                        let options = ["--topo", topo, "--snapshot", SNAPSHOTS];
                        run_vm(&options, "invariants", binary, &out)
                    })?;
                let said = String::from_utf8_lossy(&ran.stdout).into_owned();
                if ran.status.success() && said.contains("ok: ") {
                    Ok(())
                } else {
                    Err(format!(
                        "topology {topo}: {}\n{said}{}",
                        ran.status,
                        tail(&ran.stderr)
                    ))
                }
            })
        });
        runs.into_iter()
            .filter_map(|run| {
                run.join()
                    .unwrap_or_else(|_| Err("a thread of the test panicked".into()))
                    .err()
            })
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What the tools of a machine print leads to the verdicts to which its recording leads, in all that both decide.
#[test]
fn outputs_of_tools_and_a_recording_agree() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("outputs");
    fs::create_dir_all(&out).unwrap();
    let ran = run_vm(&["--snapshot", SNAPSHOTS], "outputs", &binary, &out).unwrap();
    assert!(ran.status.success(), "{}", tail(&ran.stderr));
    let catalogue = rdma_doctor::check::Catalogue::embedded().unwrap();
    let [live, tools] = ["live.jsonl", "tools.txt"].map(|file| {
        let recordings = Given::of_path(&out.join(file)).recordings(&Silent).unwrap();
        let (facts, _) = rdma_doctor::examine::one::facts(&recordings);
        let mut decided = std::collections::BTreeMap::new();
        for verdict in rdma_doctor::check::judge(&catalogue, &facts) {
            use rdma_doctor::check::Outcome;
            let fails = match verdict.outcome {
                Outcome::Passes(_) => false,
                Outcome::Fails | Outcome::FailsIf => true,
                _ => continue,
            };
            // The machine is named by what it is called here and there.
            let subject = match facts.subject(verdict.subject).name() {
                name @ ("node" | "cluster") => name.to_owned(),
                name => format!("{name} {}", facts.name(verdict.subject)),
            };
            decided.insert(
                (catalogue.checks[verdict.check].id.to_string(), subject),
                fails,
            );
        }
        decided
    });
    let both = live
        .iter()
        .filter(|(verdict, _)| tools.contains_key(*verdict));
    let (mut agreed, mut failed, mut wrong) = (0, 0, String::new());
    for (verdict, fails) in both {
        match tools[verdict] == *fails {
            true => agreed += 1,
            false => drop(writeln!(
                wrong,
                "{verdict:?} fails: {fails} live, {} by tools",
                !fails
            )),
        }
        failed += usize::from(*fails);
    }
    // A flow that a recording knows not to be used is no flow there, but its check can fail for another.
    let fails_live = |check: &str| live.iter().any(|((of, _), fails)| *fails && of == check);
    // What a tool says of itself, no recording of a machine has: perfquery has no port to ask here.
    let of_machine = |subject: &str| !subject.starts_with("tool_result ");
    let failing = tools
        .iter()
        .filter(|((_, of), fails)| **fails && of_machine(of));
    for (verdict, _) in failing.filter(|((check, _), _)| !fails_live(check)) {
        let _ = writeln!(wrong, "{verdict:?} fails by tools alone");
    }
    say(&format!(
        "{agreed} verdicts agree, {failed} of them failures; {} live, {} by tools",
        live.len(),
        tools.len()
    ));
    assert!(
        wrong.is_empty() && failed > 2 && agreed > 20,
        "{agreed} agree, {failed} failures\n{wrong}"
    );
}

/// What was said to vanish at a reboot vanishes, what a file changes changes, and the rest stays.
#[test]
fn a_reboot_takes_away_what_was_said() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(binary) = doctor_or_skip() else {
        return;
    };
    let out = Path::new(OUT).join("reboot");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).unwrap();
    for boot in ["first", "second"] {
        let ran = run_vm(&[], "reboot", &binary, &out).unwrap();
        assert!(ran.status.success(), "{boot}: {}", tail(&ran.stderr));
    }
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let said: Value = serde_json::from_str(&read("said.json")).unwrap();
    let value = |one: &Value, fact: &str| text(&one["facts"][fact], "value").to_owned();
    let said: Vec<(String, String, String)> = said
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                text(one, "name").to_owned(),
                value(one, "after"),
                value(one, "next"),
            )
        })
        .collect();
    let after = read("after");
    let mut states = Vec::new();
    for (name, value) in after.lines().filter_map(|line| line.split_once('=')) {
        let (_, state, next) = said.iter().find(|(one, ..)| one == name).expect(name);
        assert_eq!(next, value, "{name} ({state})");
        states.push(format!("{name} {state}"));
    }
    assert_eq!(
        states,
        [
            "MTU of eth0 lost",
            "MTU of kept0 stays",
            "MTU of other0 changes",
            "vm.max_map_count stays",
            "net.core.wmem_max stays",
            "net.core.rmem_max changes",
            "vm.zone_reclaim_mode lost",
            "net.ipv4.conf.all.arp_ignore lost",
        ]
    );
}
