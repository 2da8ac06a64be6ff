//! Who listens at the TCP port at which a job means to meet.

use std::collections::BTreeSet;

use serde_json::json;

use super::environment::path_variable;
use super::files;
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// `TCP_LISTEN` (include/net/tcp_states.h), as /proc/net/tcp has it.
const LISTEN: &str = "0A";
/// Parents that are followed from this process up.
const GENERATIONS: usize = 64;

/// Answers `port_holder` of a variable that holds a port: `{"listening":false}`, or who listens
/// there, as far as it may be seen: `{"listening":true,"uid":1001,"pid":4711,"name":"python3","of_job":false}`.
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let name = match call.text("of") {
        Some(name @ ("MASTER_PORT" | "PET_MASTER_PORT")) => name,
        _ => return Err(Refusal::not_asked("no such port")),
    };
    let number = path_variable(name).and_then(|text| text.trim().parse::<u16>().ok());
    let port = number.ok_or_else(|| Refusal::not_asked(format!("{name} is no port")))?;
    let Some(listener) = listener(port) else {
        return Ok(Answer::from(json!({ "listening": false })));
    };
    let mut said = json!({ "listening": true, "uid": listener.user });
    if let Some(pid) = holder(listener.inode) {
        said["pid"] = json!(pid);
        said["name"] = json!(Process::read(pid).map(|one| one.name));
        said["of_job"] = json!(is_of_job(pid));
    }
    Ok(Answer::from(said))
}

/// A socket that listens.
struct Listener {
    user: u32,
    inode: u64,
}

/// Who listens at a port, on any address.
fn listener(port: u16) -> Option<Listener> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| files::text(None, path))
        .find_map(|table| listed(&table, port))
}

/// The row of a table of sockets (proc_net(5)) that listens at a port.
fn listed(table: &str, port: u16) -> Option<Listener> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = fields.get(1)?.rsplit_once(':')?;
        let is_meant = u16::from_str_radix(own, 16) == Ok(port) && *fields.get(3)? == LISTEN;
        is_meant.then_some(Listener {
            user: fields.get(7)?.parse().ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    })
}

/// The first process that holds a socket; others' processes are hidden from an ordinary user.
#[expect(
    clippy::disallowed_methods,
    reason = "the processes are part of the machine"
)]
fn holder(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    let holds = |pid: &u32| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        descriptors
            .flatten()
            .filter_map(|one| std::fs::read_link(one.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str())
    };
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.collect::<BTreeSet<u32>>().into_iter().find(holds)
}

/// What of a process tells to whom it belongs.
struct Process {
    name: String,
    parent: u32,
    session: u32,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let text = files::text(None, &format!("/proc/{pid}/stat"))?;
        let (head, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Process {
            name: head.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
        })
    }
}

/// Whether a process is of the job that this one is started in: it started this one, is of its
/// session, or in its control group, which is not the machine's.
fn is_of_job(pid: u32) -> bool {
    let own = std::process::id();
    let mut at = own;
    for _ in 0..GENERATIONS {
        if at == pid {
            return true;
        }
        match Process::read(at) {
            Some(one) if one.parent > 1 => at = one.parent,
            _ => break,
        }
    }
    let session = session(own);
    let group = job_group(own);
    (session.is_some() && session == self::session(pid))
        || (group.is_some() && group == job_group(pid))
}

fn session(pid: u32) -> Option<u32> {
    Some(Process::read(pid)?.session)
}

/// The job's part of a process's control groups, as Slurm names it: each step has one below it.
fn job_group(pid: u32) -> Option<String> {
    let groups = files::text(None, &format!("/proc/{pid}/cgroup"))?;
    let part = groups
        .split(['/', '\n'])
        .find(|part| part.starts_with("job_"));
    part.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_in_the_kernels_table() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 11111 1 ffff 100 0 0 10 0
   1: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 22222 1 ffff 100 0 0 10 0
";
        let found = listed(table, 29500).unwrap();
        assert_eq!((found.user, found.inode), (1001, 22222));
        assert!(listed(table, 29501).is_none());
    }
}
