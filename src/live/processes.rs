//! The processes of the machine: those that use most CPU time, and those that wait in the kernel.

use std::sync::Arc;

use serde_json::{Value, json};
use sysinfo::{Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::files;
use crate::small_sort;
use crate::source::{Answer, Question, Refusal};

/// How many of those that use most CPU time are reported.
const MOST: usize = 5;
/// How many processes in uninterruptible sleep are reported.
const WAITING: usize = 64;

/// Answers `processes`: `{"all","first","processes":[{"pid","name","state","cpu_ms"}]}`.
///
/// Names are the kernel's (`comm`), without arguments; users are not told. Asked twice, the difference of `cpu_ms` is what a process
/// used in between. `first` says whether process 1 is to be seen: if it is not, /proc hides those of other users.
pub fn ask() -> Result<Answer, Refusal> {
    let mut system =
        System::new().map_err(|e| Refusal::NotAsked(format!("sysinfo: {e}").into()))?;
    let what = ProcessRefreshKind::nothing().with_cpu().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, false, what);
    let own = std::process::id();
    let mut all: Vec<&Process> = system
        .processes()
        .values()
        .filter(|process| process.pid().as_u32() != own)
        .collect();
    let first = all.iter().any(|process| process.pid().as_u32() == 1);
    let count = all.len();
    let mut told: Vec<&Process> = Vec::with_capacity(MOST + WAITING);
    small_sort::by_key(&mut all, |process| {
        std::cmp::Reverse(process.accumulated_cpu_time())
    });
    told.extend(all.iter().take(MOST));
    small_sort::by_key(&mut all, |process| process.pid());
    told.extend(all.iter().filter(|process| waits(process)).take(WAITING));
    small_sort::by_key(&mut told, |process| process.pid());
    told.dedup_by_key(|process| process.pid());
    let processes: Vec<Value> = told.into_iter().map(describe).collect();
    Ok(Answer::Value(Arc::new(json!({
        "all": count,
        "first": first,
        "processes": processes,
    }))))
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
    // The kernel function in which it waits, "0" if this user may not see it.
    if waits(process)
        && let Some(Ok(Answer::Text(place))) = files::ask(
            None,
            &Question::read(format!("/proc/{}/wchan", process.pid())),
        )
        && !matches!(&*place, "" | "0")
    {
        value["waits_in"] = Value::from(&*place);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processes() {
        let Ok(Answer::Value(value)) = ask() else {
            panic!("/proc is there")
        };
        assert!(value["all"].as_u64().is_some_and(|all| all > 0));
        let told = value["processes"].as_array().unwrap();
        assert!(!told.is_empty() && told.len() <= MOST + WAITING);
        assert!(told.iter().all(|p| p["cpu_ms"].is_u64()));
        assert!(told.iter().all(|p| p["pid"] != std::process::id()));
    }
}
