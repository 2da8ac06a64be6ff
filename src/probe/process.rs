//! Processes that hog the machine, or are stuck in it; and how hard the machine is pressed.

mod cpu_time;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Ask, Probe};
use crate::cpu_list;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Percent, Presence, Seconds, Subject, Why, limit,
    node, process as fact,
};
use crate::left_out::LeftOut;
use crate::small_sort;
use crate::source::{Errno, Question, Refusal};

/// The probe.
// One question reads thousands of processes.
pub const PROBE: Probe = Probe::new("process", run).within(Duration::from_secs(10));

/// Beginnings of the names of drivers' threads and tools, and of the functions in which a process waits for them.
const DRIVERS: [&str; 14] = [
    "nvidia", "nv_", "nvswitch", "uvm_", "mlx4", "mlx5", "ib_", "ibv_", "uverbs", "rdma", "irdma",
    "bnxt_", "mlnx", "amdgpu",
];

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let cpus = ask
        .parse("/sys/devices/system/cpu/online", cpu_list::numbers)
        .map(|list| list.len() as u64);
    pressure(ask, facts, node, &cpus);

    // It is about the doctor's own processes: respondents are made of its reply.
    let _ = ask.raw(&Question::call("earlier_run", []));
    let before = ask.parse("/proc/stat", cpu_time::parse);
    let question = Question::call("processes", []);
    let origin = Origin::Asked(question.clone());
    let read = |value: Result<Arc<Value>, Gap>| {
        let snapshot = ProcessSnapshot::deserialize(&*value?);
        let mut snapshot =
            snapshot.map_err(|error| Gap::not_understood(&question, error.to_string()))?;
        small_sort::by_key(&mut snapshot.processes, |one| one.pid);
        Ok(snapshot)
    };
    let (started, first) = ask.value_at(&question);
    let first = match read(first) {
        Ok(first) => first,
        Err(gap) => {
            facts.set_members(Subject::Process, node, Membership::Unknown(gap));
            return;
        }
    };
    let (mut sampled, unsampled) = ask.sample();
    let second = match unsampled {
        Some(gap) => Err(gap),
        None => {
            let (at, again) = ask.value_at(&question);
            let window = Seconds(at.saturating_sub(started) as f64 / 1e6);
            let second = read(again).map(|look| (look, window));
            if let Err(gap) = &second {
                sampled = Fact::Unknown(gap.clone());
            }
            second
        }
    };
    let members = match (&sampled, &cpus) {
        // /proc is mounted with hidepid: those of other users are not to be seen.
        _ if !first.all_visible => {
            Membership::Unknown(Gap::refused(&question, Refusal::Errno(Errno::EACCES)))
        }
        // Whether one of the others is worth telling of is open.
        (Fact::Unknown(gap), _) | (Fact::Known(true, _), Fact::Unknown(gap)) => {
            Membership::Unknown(gap.clone())
        }
        _ => Membership::Known(origin.clone()),
    };
    facts.set_members(Subject::Process, node, members);
    if second.is_ok() {
        left_out(&first, facts, node, &origin);
    }
    let mut hogs: Vec<Hog<'_>> = Vec::new();
    for one in &first.processes {
        let again = second
            .as_ref()
            .map(|(look, window)| (look.get(one.pid), *window));
        if let Ok((Some(then), window)) = &again
            && let Some(of_one) = of_one_cpu(one, then, *window)
            && of_one >= facts.limit(limit::CPU_HOG)
        {
            hogs.push((one, then.cpu, of_one));
        }
        // A process that waits in a single look waits as all do: it is looked at only where there are two.
        if !one.waits() || second.is_err() {
            continue;
        }
        let name = format!("{} ({})", one.name, one.pid);
        let id = facts.instance(Subject::Process, node, &name);
        let known = |value: &Arc<str>| Fact::Known(Arc::clone(value), origin.clone());
        facts.know(id, fact::PID, one.pid, &origin);
        facts.set(id, fact::COMMAND, known(&one.name));
        facts.know(id, fact::OF_DRIVER, one.of_driver(), &origin);
        facts.set(id, fact::WAITS_IN, known(&one.waits_in));
        facts.set(id, fact::STUCK, stuck(one, again.as_ref(), &origin));
        if let Ok((_, window)) = &again {
            facts.know(id, fact::STUCK_FOR, *window, &origin);
        }
    }
    let allowed = match &second {
        Ok(_) => ask.parse("/proc/self/status", cpu_list::allowed),
        Err(gap) => Fact::Unknown(gap.clone()),
    };
    let taken = allowed.as_result().map_err(Gap::clone);
    let taken = taken.and_then(|allowed| taken_by(ask, &hogs, allowed));
    let spent = allowed.zip(before).flat_map(|(allowed, before)| {
        let after = ask.parse("/proc/stat", cpu_time::parse);
        after.and_then(|after| cpu_time::spent(&before, &after, &allowed))
    });
    facts.set(node, node::CPUS_IDLE, spent.clone().map(|spent| spent.idle));
    facts.set(node, node::CPUS_STOLEN, spent.map(|spent| spent.stolen));
    let (share, takers) = Fact::from_result(taken, &origin).unzip();
    facts.set(node, node::CPUS_TAKEN, share);
    facts.set(node, node::CPU_TAKERS, takers);
}

/// A process that uses much of a CPU, the CPU on which it ran last, and how much of one it used.
type Hog<'l> = (&'l ProcessState, Option<u64>, Percent);

/// The share of the CPUs that processes took, and their names.
type Takers = (Percent, Arc<[Arc<str>]>);

/// The share of the CPUs that this process may use which others take, and who: a process with an RDMA device or a GPU open is a job's own.
fn taken_by(ask: &Ask<'_>, hogs: &[Hog<'_>], allowed: &[u64]) -> Result<Takers, Gap> {
    let (mut sum, mut takers) = (0.0, Vec::new());
    for (one, cpu, of_one) in hogs {
        let here = |cpu: u64| allowed.contains(&cpu);
        if !cpu.is_none_or(here) {
            continue;
        }
        let question = Question::call("process_files", [("pid", one.pid.into())]);
        let devices = ask.value(question).and_then(|value| {
            let devices = value.get("devices").and_then(Value::as_object);
            Ok(devices.ok_or("the reply has no devices")?.len())
        });
        match devices.into_result() {
            Ok(0) => {
                sum += of_one.0;
                takers.push(format!("{} ({})", one.name, one.pid).into());
            }
            Ok(_) => {}
            // It has ended.
            Err(gap) if matches!(gap.why, Why::Refused(Refusal::Errno(Errno::ENOENT))) => {}
            Err(gap) => return Err(gap),
        }
    }
    let share = match allowed.is_empty() {
        true => 0.0,
        false => (sum / allowed.len() as f64 * 10.0).round() / 10.0,
    };
    Ok((Percent(share), takers.into()))
}

fn stuck(
    one: &ProcessState,
    again: Result<&(Option<&ProcessState>, Seconds), &&Gap>,
    origin: &Origin,
) -> Fact<bool> {
    if !one.waits() {
        return Fact::Known(false, origin.clone());
    }
    match again {
        Ok((Some(then), _)) => Fact::Known(
            then.waits()
                && then.name == one.name
                && then.cpu_ms == one.cpu_ms
                && then.waits_in == one.waits_in,
            origin.clone(),
        ),
        // It has ended, or no longer waits and is not reported.
        Ok((None, _)) => Fact::Known(false, origin.clone()),
        Err(gap) => Fact::Unknown((**gap).clone()),
    }
}

/// How much of one CPU a process used between the two looks.
fn of_one_cpu(one: &ProcessState, then: &ProcessState, window: Seconds) -> Option<Percent> {
    let used = then.cpu_ms.checked_sub(one.cpu_ms)? as f64 / 1e3;
    share(used, window.0).ok()
}

fn share(part: f64, of: f64) -> Result<Percent, String> {
    match of > 0.0 {
        true => Ok(Percent((part / of * 1000.0).round() / 10.0)),
        false => Err("there is nothing to be a part of".to_owned()),
    }
}

/// The load, and the stalls (`Documentation/accounting/psi.rst`) of the last minute.
fn pressure(ask: &Ask<'_>, facts: &mut Facts, node: Id, cpus: &Fact<u64>) {
    let load = ask.parse("/proc/loadavg", |text| {
        let first = text.split_whitespace().next();
        let number = first.and_then(|first| first.parse::<f64>().ok());
        number
            .filter(|n| n.is_finite())
            .ok_or_else(|| "it begins with no number".to_owned())
    });
    let both = load.zip(cpus.clone());
    let load = both.and_then(|(load, cpus)| share(load, cpus as f64));
    facts.set(node, node::LOAD, load);
    // A kernel without PSI has no such file, and one that was booted with psi=0 gives EOPNOTSUPP.
    let (counted, stalled) = match ask.text_if_any("/proc/pressure/memory") {
        Presence::Present(text, origin) => (
            Fact::Known(true, origin.clone()),
            Fact::Known(text, origin).and_then(|text| stalled(&text)),
        ),
        Presence::Absent(origin) => (
            Fact::Known(false, origin),
            Fact::Unknown(Gap::missing("node.stalls_counted")),
        ),
        Presence::Unknown(gap) => match gap.why {
            Why::Refused(Refusal::Errno(Errno::EOPNOTSUPP)) => {
                (Fact::Known(false, gap.origin.clone()), Fact::Unknown(gap))
            }
            _ => (Fact::Unknown(gap.clone()), Fact::Unknown(gap)),
        },
    };
    facts.set(node, node::STALLS_COUNTED, counted);
    facts.set(node, node::MEMORY_STALLED, stalled);
}

/// `full avg10=0.00 avg60=1.25 avg300=0.40 total=123`
fn stalled(text: &str) -> Result<Percent, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("full"))
        .and_then(|rest| {
            rest.split_whitespace()
                .find_map(|word| word.strip_prefix("avg60="))
        })
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(Percent)
        .ok_or_else(|| "it has no avg60 of full".to_owned())
}

/// States how many processes a look left out.
fn left_out(look: &ProcessSnapshot, facts: &mut Facts, node: Id, origin: &Origin) {
    for (count, why) in [
        (look.waiting_left_out, "more than 64 wait in the kernel"),
        (look.running_left_out, "more than 1024 run"),
    ] {
        if count > 0 {
            let more = LeftOut::counted(count, "process", why);
            super::state_left_out(facts, node, &more, origin);
        }
    }
}

/// One look at the processes.
#[derive(Deserialize)]
struct ProcessSnapshot {
    /// Whether process 1 is among those that are seen.
    #[serde(rename = "first")]
    all_visible: bool,
    /// How many others wait in the kernel; recordings before 0.2 do not say it.
    #[serde(default)]
    waiting_left_out: u64,
    /// How many others run; recordings before 0.2 do not say it.
    #[serde(default)]
    running_left_out: u64,
    /// In the order of their pids.
    processes: Vec<ProcessState>,
}

#[derive(Deserialize)]
struct ProcessState {
    pid: u64,
    name: Arc<str>,
    state: Option<String>,
    #[serde(default = "unknown")]
    waits_in: Arc<str>,
    cpu_ms: u64,
    /// The CPU on which it ran last; recordings before 0.2 do not say it.
    cpu: Option<u64>,
}

fn unknown() -> Arc<str> {
    "unknown".into()
}

impl ProcessState {
    fn waits(&self) -> bool {
        self.state.as_deref() == Some("D")
    }

    fn of_driver(&self) -> bool {
        let is = |name: &str| DRIVERS.iter().any(|driver| name.starts_with(driver));
        is(&self.name) || is(&self.waits_in)
    }
}

impl ProcessSnapshot {
    fn get(&self, pid: u64) -> Option<&ProcessState> {
        let at = self.processes.binary_search_by_key(&pid, |one| one.pid);
        self.processes.get(at.ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    const CPUS: &str = r#"{"q":{"read":"/sys/devices/system/cpu/online"},"text":"0-3\n"}"#;
    const MEMORY: &str = r#"{"q":{"read":"/proc/meminfo"},"text":"MemTotal:        1024 kB\n"}"#;
    const FIRST: &str = r#"{"q":{"call":"processes"},"n":0,"t":1000000,"value":{"all":3,"first":true,"processes":[{"pid":7,"name":"python3","state":"-","cpu_ms":1000,"memory":524288},{"pid":8,"name":"nvidia-smi","state":"D","cpu_ms":5,"memory":0,"waits_in":"nvidia_open"},{"pid":9,"name":"dd","state":"D","cpu_ms":5,"memory":0}]}}"#;
    const PAUSE: &str = r#"{"q":{"wait":"sample"},"value":2}"#;
    const SECOND: &str = r#"{"q":{"call":"processes"},"n":1,"t":3000000,"value":{"all":3,"first":true,"processes":[{"pid":7,"name":"python3","state":"-","cpu_ms":9000,"memory":524288},{"pid":8,"name":"nvidia-smi","state":"D","cpu_ms":5,"memory":0,"waits_in":"nvidia_open"},{"pid":9,"name":"dd","state":"D","cpu_ms":6,"memory":0}]}}"#;

    #[test]
    fn two_looks_tell_what_one_cannot() {
        let (facts, node) = run(&PROBE, &[CPUS, MEMORY, FIRST, PAUSE, SECOND]);
        assert!(facts.members(Subject::Process, node).is_ok());
        let stuck = |name| known(&facts, Subject::Process, name, fact::STUCK);
        let runs = facts.find(Subject::Process, node, "python3 (7)");
        assert!(runs.is_none(), "it waits for nothing");
        assert_eq!(stuck("nvidia-smi (8)"), Some(true));
        assert_eq!(stuck("dd (9)"), Some(false), "it ran in between");
        let driver = |name| known(&facts, Subject::Process, name, fact::OF_DRIVER);
        assert_eq!(driver("nvidia-smi (8)"), Some(true));
        assert_eq!(driver("dd (9)"), Some(false));
        let long = known(&facts, Subject::Process, "nvidia-smi (8)", fact::STUCK_FOR);
        assert_eq!(long, Some(Seconds(2.0)));
    }

    #[test]
    fn processes_that_wait_and_were_not_read_are_said() {
        let more = FIRST.replace(
            r#""first":true"#,
            r#""first":true,"waiting_left_out":7,"running_left_out":1"#,
        );
        let (facts, node) = run(&PROBE, &[CPUS, MEMORY, &more, PAUSE, SECOND]);
        let said: Vec<Arc<str>> = facts.texts(node, node::LEFT_OUT).collect();
        assert_eq!(
            said,
            [
                "7 processes were not read (more than 64 wait in the kernel)".into(),
                "1 process was not read (more than 1024 run)".into()
            ]
        );
        let (facts, node) = run(&PROBE, &[CPUS, MEMORY, FIRST, PAUSE, SECOND]);
        assert_eq!(facts.texts(node, node::LEFT_OUT).count(), 0);
    }

    #[test]
    fn processes_without_a_device_take_the_cpus() {
        const STATUS: &str =
            r#"{"q":{"read":"/proc/self/status"},"text":"Cpus_allowed_list:\t0-1\n"}"#;
        let look = |at: u64, ms: u64, n: u64| {
            let one = |pid: u64, cpu: u64| serde_json::json!({ "pid": pid, "name": "yes", "state": "-", "cpu_ms": ms, "cpu": cpu });
            let value = serde_json::json!({ "all": 3, "first": true, "processes": [one(7, 0), one(8, 1), one(9, 3)] });
            format!(r#"{{"q":{{"call":"processes"}},"n":{n},"t":{at},"value":{value}}}"#)
        };
        let files = |pid: u64, devices: &str| {
            format!(
                r#"{{"q":{{"call":"process_files","pid":{pid}}},"value":{{"open":3,"devices":{devices}}}}}"#
            )
        };
        let (first, second) = (look(1_000_000, 1000, 0), look(3_000_000, 3000, 1));
        let (idle, rank) = (files(7, "{}"), files(8, r#"{"/dev/nvidia0":2}"#));
        let lines = [CPUS, STATUS, &first, PAUSE, &second, &idle, &rank];
        let (facts, node) = run(&PROBE, &lines);
        assert_eq!(facts.known(node, node::CPUS_TAKEN), Some(Percent(50.0)));
        let takers = facts.known(node, node::CPU_TAKERS).unwrap();
        assert_eq!(&*takers, [Arc::from("yes (7)")], "process 9 runs elsewhere");
        let (facts, node) = run(&PROBE, &lines[..6]);
        assert_eq!(facts.known(node, node::CPUS_TAKEN), None, "8 may be a rank");
    }

    #[test]
    fn one_look_tells_of_no_process() {
        let pause = r#"{"q":{"wait":"sample"},"refused":"not-asked: no sample was asked for (--sample SECONDS)"}"#;
        let (facts, _) = run(&PROBE, &[CPUS, MEMORY, FIRST, pause]);
        assert_eq!(
            facts.all(Subject::Process).count(),
            0,
            "who waits in one look waits as all do"
        );
    }

    #[test]
    fn hidden_processes_are_not_none() {
        let hidden = FIRST.replace("\"first\":true", "\"first\":false");
        let (facts, node) = run(&PROBE, &[&hidden]);
        let gap = facts.members(Subject::Process, node).unwrap_err();
        assert_eq!(gap.why.remedy(), Some("run as root"));
        let (facts, node) = run(
            &PROBE,
            &[r#"{"q":{"call":"processes"},"value":{"first":true}}"#],
        );
        assert!(facts.members(Subject::Process, node).is_err());
    }

    #[test]
    fn load_and_stalls() {
        let load = r#"{"q":{"read":"/proc/loadavg"},"text":"6.00 1.00 0.50 3/400 123\n"}"#;
        let memory = r#"{"q":{"read":"/proc/pressure/memory"},"text":"some avg10=0.00 avg60=9.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=1.25 avg300=0.00 total=1\n"}"#;
        let (facts, node) = run(&PROBE, &[CPUS, load, memory]);
        assert_eq!(facts.known(node, node::LOAD), Some(Percent(150.0)));
        assert_eq!(facts.known(node, node::MEMORY_STALLED), Some(Percent(1.25)));
        let off = r#"{"q":{"read":"/proc/pressure/memory"},"errno":"EOPNOTSUPP"}"#;
        let (facts, node) = run(&PROBE, &[off]);
        assert_eq!(facts.known(node, node::STALLS_COUNTED), Some(false));
        assert_eq!(facts.known(node, node::MEMORY_STALLED), None);
    }
}
