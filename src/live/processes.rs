//! The processes of the machine: those that use most CPU time, and those that wait in the kernel.

use serde_json::{Value, json};
use sysinfo::{Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::files;
use crate::small_sort;
use crate::source::{Answer, Refusal};

/// How many of those that use most CPU time are reported.
const MOST: usize = 16;
/// How many that run are reported: one that has just begun to take a CPU has used little yet.
const RUNNING: usize = 1024;
/// How many processes in uninterruptible sleep are reported.
const WAITING: usize = 64;

/// Answers `processes`: `{"all","first","waiting_left_out","running_left_out","processes":[{"pid","name","state","cpu_ms","cpu"}]}`: `cpu` is the one on which it
/// ran last.
///
/// Names are the kernel's (`comm`), without arguments; users are not told. Asked twice, the difference of `cpu_ms` is what a process
/// used in between. `first` says whether process 1 is to be seen: if it is not, /proc hides those of other users.
pub fn ask() -> Result<Answer, Refusal> {
    let mut system = System::new().map_err(|e| Refusal::not_asked(format!("sysinfo: {e}")))?;
    let what = ProcessRefreshKind::nothing().with_cpu().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, false, what);
    let own = std::process::id();
    // The doctor's processes are no load of the machine's: this one, its parent, and what that started.
    let parent = (system.processes().values()).find(|process| process.pid().as_u32() == own);
    let parent = parent.and_then(Process::parent);
    let of_doctor = |process: &Process| {
        process.pid().as_u32() == own
            || parent
                .is_some_and(|parent| process.pid() == parent || process.parent() == Some(parent))
    };
    let mut all: Vec<&Process> = system
        .processes()
        .values()
        .filter(|process| !of_doctor(process))
        .collect();
    let first = all.iter().any(|process| process.pid().as_u32() == 1);
    let count = all.len();
    let mut told: Vec<&Process> = Vec::with_capacity(MOST + WAITING + RUNNING);
    small_sort::by_key(&mut all, |process| {
        std::cmp::Reverse(process.accumulated_cpu_time())
    });
    told.extend(all.iter().take(MOST));
    small_sort::by_key(&mut all, |process| process.pid());
    let waiting: Vec<&Process> = all.iter().copied().filter(|one| waits(one)).collect();
    told.extend(waiting.iter().take(WAITING));
    let runs = |process: &&&Process| process.status() == ProcessStatus::Run;
    let running: Vec<&Process> = all.iter().filter(runs).copied().collect();
    told.extend(running.iter().take(RUNNING));
    small_sort::by_key(&mut told, |process| process.pid());
    told.dedup_by_key(|process| process.pid());
    let processes: Vec<Value> = told.into_iter().map(describe).collect();
    Ok(Answer::from(json!({
        "all": count,
        "first": first,
        "waiting_left_out": waiting.len().saturating_sub(WAITING),
        "running_left_out": running.len().saturating_sub(RUNNING),
        "processes": processes,
    })))
}

fn waits(process: &Process) -> bool {
    process.status() == ProcessStatus::UninterruptibleDiskSleep
}

fn describe(process: &Process) -> Value {
    let mut value = json!({
        "pid": process.pid().as_u32(),
        "name": process.name().to_string_lossy(),
        "state": if waits(process) { "D" } else { "-" },
        "cpu_ms": process.accumulated_cpu_time(),
    });
    let text = |name: &str| files::text(None, &format!("/proc/{}/{name}", process.pid()));
    if let Some(cpu) = text("stat").and_then(|stat| last_cpu(&stat)) {
        value["cpu"] = cpu.into();
    }
    // The kernel function in which it waits, "0" if this user may not see it.
    if waits(process)
        && let Some(place) = text("wchan").filter(|place| !matches!(&**place, "" | "0"))
    {
        value["waits_in"] = Value::from(&*place);
    }
    value
}

/// The CPU on which a process ran last: field 39 of proc_pid_stat(5), behind the name, which may hold anything.
fn last_cpu(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(") ")?.1;
    fields.split(' ').nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cpu_is_behind_the_name() {
        let stat = "1234 (a b) c) R 1 1 1 0 -1 4194304 100 0 0 0 5 2 0 0 20 0 1 0 300 1000000 200 18446744073709551615 1 1 0 0 0 0 0 0 65536 0 0 0 17 7 0 0 0 0 0";
        assert_eq!(last_cpu(stat), Some(7));
        assert_eq!(last_cpu("1 (x) R 1"), None);
    }

    #[test]
    fn this_machine_has_processes() {
        let Ok(Answer::Value(value)) = ask() else {
            panic!("/proc is there")
        };
        assert!(value["all"].as_u64().is_some_and(|all| all > 0));
        let told = value["processes"].as_array().unwrap();
        assert!(!told.is_empty() && told.len() <= MOST + WAITING + RUNNING);
        assert!(told.iter().all(|p| p["cpu_ms"].is_u64()));
        assert!(told.iter().all(|p| p["pid"] != std::process::id()));
    }
}
