//! A running job's process (--as): the limits that count are its own, not those of the shell from which somebody looks.
//!
//! The device list of a control group of version 2 is a program of the kernel's that cannot be read: what may be opened shows in what
//! the process has open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Ask, Probe, host, is_numbered, member, topology, tuning};
use crate::cpu_list;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Membership, Presence, Subject, job as fact, known};
use crate::launch::RANK_COUNTS;
use crate::source::Question;

/// The probe.
pub const PROBE: Probe = Probe::new("job", run);

/// More processes and threads than any kernel has (`include/linux/threads.h`, PID_MAX_LIMIT).
const MOST_PROCESSES: u64 = 4 << 20;
/// The variables that are compared with the shell's.
const COMPARED: [&str; 3] = ["NCCL_", "UCX_", "FI_"];
type Texts = Arc<[Arc<str>]>;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let named = Question::call("job_process", []);
    let (pid, origin) = match ask.value(named) {
        Fact::Known(value, origin) => (value.as_u64(), origin),
        Fact::Unknown(gap) => {
            facts.set_members(Subject::Job, node, Membership::Unknown(gap));
            return;
        }
    };
    facts.set_members(Subject::Job, node, Membership::Known(origin));
    // No process has the number 0: none was named.
    let Some(pid) = pid.filter(|pid| *pid > 0) else {
        return;
    };
    let place = format!("/proc/{pid}");
    let comm = ask.text(format!("{place}/comm"));
    // Its name may be unknown, its number is not.
    let name = format!("process {pid}");
    let id = facts.instance(Subject::Job, node, &name);
    facts.set(id, fact::COMMAND, comm);
    limits(ask, facts, id, &place);
    mounts(ask, facts, id, &place);
    devices(ask, facts, id, pid);
    libraries(ask, facts, id, pid);
    environment(ask, facts, id, pid);
}

fn limits(ask: &Ask<'_>, facts: &mut Facts, id: Id, place: &str) {
    let limits = ask.text(format!("{place}/limits"));
    let limit = |name: &'static str| {
        let limits = limits.clone();
        limits.and_then(|text| host::parse::soft_limit(&text, name))
    };
    let memlock = limit("Max locked memory").map(Bytes);
    facts.set(id, fact::NOFILE, limit("Max open files"));

    let status = ask.text(format!("{place}/status"));
    let nproc = tuning::processes(status.clone(), limit("Max processes"));
    facts.set(id, fact::NPROC, nproc.map(|n| n.min(MOST_PROCESSES)));
    let capabilities = status.clone();
    let capabilities = capabilities.and_then(|text| host::parse::effective_capabilities(&text));
    let user = namespace(ask, &format!("{place}/ns/user"));
    let in_first_user = user.map(|user| &*user == host::FIRST_USER);
    let binds = match (&memlock, host::may_lock(capabilities, in_first_user)) {
        (Fact::Known(Bytes::UNLIMITED, origin), _) => Fact::Known(false, origin.clone()),
        (Fact::Unknown(gap), Fact::Known(false, _)) => Fact::Unknown(gap.clone()),
        (_, lifted) => lifted.map(|lifted| !lifted),
    };
    facts.set(id, fact::MEMLOCK, memlock);
    facts.set(id, fact::MEMLOCK_BINDS, binds);

    let memory = status
        .clone()
        .and_then(|text| cpu_list::numbers(&topology::status_line(&text, "Mems_allowed_list")?));
    let memory = memory.map(|nodes| nodes.iter().map(|n| Arc::from(n.to_string())).collect());
    facts.set(id, fact::MEMORY_NODES, memory);

    let cpus = status.and_then(|text| cpu_list::allowed(&text));
    facts.set(id, fact::CPUS, cpus.clone().map(|cpus| cpus.len() as u64));
    facts.set(id, fact::NUMA_NODES, numa_nodes(ask, cpus));

    let cgroup = ask.text_if_any(format!("{place}/cgroup"));
    let online = ask.parse("/sys/devices/system/cpu/online", cpu_list::numbers);
    let online = online.known().map(Vec::len);
    let pids = tuning::cgroup::processes(ask, &cgroup);
    let quotas = tuning::cgroup::quotas(ask, &cgroup);
    let throttled = tuning::cgroup::throttled(ask, &quotas, online);
    let (throttled, periods) = throttled.unzip();
    facts.set(id, fact::CGROUP_PIDS, pids.map(|n| n.min(MOST_PROCESSES)));
    facts.set(id, fact::CPU_THROTTLED, throttled);
    facts.set(id, fact::CPU_PERIODS, periods);
    facts.set(id, fact::OOM_KILLS, tuning::cgroup::killed(ask, &cgroup));
    let limits = host::cgroup::rdma_limits(ask, cgroup);
    let (limited, limits) = host::cgroup::in_words(limits);
    facts.set(id, fact::RDMA_LIMITED, limited);
    facts.set(id, fact::RDMA_LIMITS, limits);
}

/// The NUMA nodes that have one of these CPUs.
fn numa_nodes(ask: &Ask<'_>, cpus: Fact<Vec<u64>>) -> Fact<Texts> {
    const NODES: &str = "/sys/devices/system/node";
    let (cpus, origin) = known!(cpus, with origin);
    let cpus: BTreeSet<u64> = cpus.into_iter().collect();
    let online = known!(ask.parse(format!("{NODES}/online"), cpu_list::numbers));
    let mut found: Vec<Arc<str>> = Vec::new();
    for node in online {
        let list = ask.parse(format!("{NODES}/node{node}/cpulist"), cpu_list::numbers);
        if known!(list).iter().any(|cpu| cpus.contains(cpu)) {
            found.push(node.to_string().into());
        }
    }
    Fact::Known(found.into(), origin)
}

fn namespace(ask: &Ask<'_>, path: &str) -> Fact<Arc<str>> {
    match ask.link_name(path) {
        Presence::Present(name, origin) => Fact::Known(name, origin),
        Presence::Absent(_) => Fact::Unknown(Gap::missing("the namespace")),
        Presence::Unknown(gap) => Fact::Unknown(gap),
    }
}

fn mounts(ask: &Ask<'_>, facts: &mut Facts, id: Id, place: &str) {
    let dev = ask.names(format!("{place}/root/dev"));
    let dev = dev.map(|names| names.iter().any(|name| &**name == "infiniband"));
    facts.set(id, fact::DEV_INFINIBAND, dev);
    let shm = ask.value(Question::statvfs(format!("{place}/root/dev/shm")));
    let size = shm.and_then(|value| member(&value, "size"));
    facts.set(id, fact::SHM_SIZE, size.map(Bytes));
}

fn devices(ask: &Ask<'_>, facts: &mut Facts, id: Id, pid: u64) {
    let files = ask.value(Question::call("process_files", [("pid", pid.into())]));
    let open = files.clone().and_then(|value| member(&value, "open"));
    facts.set(id, fact::OPEN_FILES, open);
    let count = |kind: &'static str| {
        files.clone().and_then(|value| {
            let devices: BTreeMap<String, u64> = member(&value, "devices")?;
            let numbered = devices.iter().filter(|(path, _)| is_numbered(path, kind));
            Ok(numbered.map(|(_, n)| n).sum())
        })
    };
    facts.set(id, fact::VERBS_OPEN, count("/dev/infiniband/uverbs"));
    facts.set(id, fact::GPUS_OPEN, count("/dev/nvidia"));
}

fn libraries(ask: &Ask<'_>, facts: &mut Facts, id: Id, pid: u64) {
    let mapped = ask.value(Question::call("process_libraries", [("pid", pid.into())]));
    let nccl: Fact<Texts> = mapped.and_then(|value| {
        let paths: Vec<Arc<str>> = member(&value, "libraries")?;
        Ok(paths.into_iter().filter(|path| is_nccl(path)).collect())
    });
    let copies = nccl.clone().map(|paths| paths.len() as u64);
    facts.set(id, fact::NCCL_COPIES, copies);
    facts.set(id, fact::NCCL, nccl);
}

/// The library itself, not its plugins (`libnccl-net.so`, `libnccl-tuner.so`).
fn is_nccl(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or("");
    name.starts_with("libnccl.so") || name.starts_with("librccl.so")
}

fn environment(ask: &Ask<'_>, facts: &mut Facts, id: Id, pid: u64) {
    let mut wanted: Vec<&str> = COMPARED.to_vec();
    wanted.extend(RANK_COUNTS);
    let question = Question::call(
        "process_env",
        [
            ("pid", pid.into()),
            ("prefixes", wanted.join(",").as_str().into()),
        ],
    );
    let theirs = ask.value(question);
    let ranks = theirs.clone().and_then(|value| {
        let told = RANK_COUNTS
            .iter()
            .find_map(|name| value.get(*name).and_then(Value::as_str));
        match told {
            Some(text) => super::whole_number(text),
            None => Ok(1),
        }
    });
    facts.set(id, fact::RANKS, ranks);
    let own = ask.value(Question::env(&COMPARED));
    let lost: Fact<Texts> = own.flat_map(|own| {
        theirs.map(|theirs| {
            let own = own.as_object().into_iter().flatten();
            let lost = own.filter(|(name, value)| theirs.get(name.as_str()) != Some(value));
            lost.map(|(name, _)| name.as_str().into()).collect()
        })
    });
    let none = lost.clone().map(|lost| lost.is_empty());
    facts.set(id, fact::HAS_VARIABLES, none);
    facts.set(id, fact::LOST_VARIABLES, lost);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    const NAMED: &str = r#"{"q":{"call":"job_process"},"value":42}"#;
    const COMM: &str = r#"{"q":{"read":"/proc/42/comm"},"text":"python3\n"}"#;

    #[test]
    fn without_a_name_there_is_none() {
        let (facts, node) = run(&PROBE, &[r#"{"q":{"call":"job_process"},"value":0}"#]);
        assert!(facts.members(Subject::Job, node).is_ok());
        assert_eq!(facts.all(Subject::Job).count(), 0);
        let (facts, node) = run(&PROBE, &[]);
        assert!(facts.members(Subject::Job, node).is_err());
    }

    #[test]
    fn the_process_is_read_as_it_is() {
        let (facts, _) = run(
            &PROBE,
            &[
                NAMED,
                COMM,
                r#"{"q":{"read":"/proc/42/limits"},"text":"Max locked memory         65536                65536                bytes     \nMax open files            256                  524288               files     \nMax processes             4096                 8192                 processes \n"}"#,
                r#"{"q":{"read":"/proc/42/status"},"text":"Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0\n"}"#,
                r#"{"q":{"read":"/proc/42/cgroup"},"text":"0::/job/step\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/step/pids.max"},"text":"512\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/pids.max"},"text":"max\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/pids.max"},"errno":"ENOENT"}"#,
                r#"{"q":{"list":"/sys/fs/cgroup"},"names":["cgroup.controllers","job"]}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/step/cpu.max"},"text":"400000 100000\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/step/cpu.stat"},"text":"usage_usec 1\nnr_periods 1000\nnr_throttled 250\nthrottled_usec 9\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/cpu.max"},"text":"max 100000\n"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/cpu.max"},"errno":"ENOENT"}"#,
                r#"{"q":{"read":"/sys/fs/cgroup/job/step/memory.events"},"text":"low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n"}"#,
                r#"{"q":{"read":"/sys/devices/system/node/online"},"text":"0-1\n"}"#,
                r#"{"q":{"read":"/sys/devices/system/node/node0/cpulist"},"text":"0-1\n"}"#,
                r#"{"q":{"read":"/sys/devices/system/node/node1/cpulist"},"text":"2-3\n"}"#,
                r#"{"q":{"list":"/proc/42/root/dev"},"names":["null","shm"]}"#,
                r#"{"q":{"statvfs":"/proc/42/root/dev/shm"},"value":{"size":67108864}}"#,
                r#"{"q":{"call":"process_files","pid":42},"value":{"open":9,"devices":{"/dev/infiniband/uverbs0":2,"/dev/infiniband/rdma_cm":1,"/dev/nvidia0":3,"/dev/nvidiactl":1}}}"#,
                r#"{"q":{"call":"process_libraries","pid":42},"value":{"libraries":["/a/libnccl.so.2","/b/libnccl.so.2","/b/libnccl-net.so"]}}"#,
                r#"{"q":{"call":"process_env","pid":42,"prefixes":"NCCL_,UCX_,FI_,WORLD_SIZE,OMPI_COMM_WORLD_SIZE,PMI_SIZE,SLURM_NTASKS"},"value":{"WORLD_SIZE":"16","NCCL_DEBUG":"INFO"}}"#,
                r#"{"q":{"env":["NCCL_","UCX_","FI_"]},"value":{"NCCL_DEBUG":"INFO","NCCL_IB_HCA":"mlx5_0"}}"#,
            ],
        );
        let name = "process 42";
        let command = known(&facts, Subject::Job, name, fact::COMMAND);
        assert_eq!(command.as_deref(), Some("python3"));
        let bytes = |key| known(&facts, Subject::Job, name, key);
        assert_eq!(bytes(fact::MEMLOCK), Some(Bytes(65536)));
        assert_eq!(bytes(fact::SHM_SIZE), Some(Bytes(64 << 20)));
        let count = |key| known(&facts, Subject::Job, name, key);
        assert_eq!(count(fact::NOFILE), Some(256));
        assert_eq!(count(fact::CPUS), Some(2));
        assert_eq!(count(fact::VERBS_OPEN), Some(2));
        assert_eq!(count(fact::GPUS_OPEN), Some(3));
        assert_eq!(count(fact::OPEN_FILES), Some(9));
        assert_eq!(count(fact::NCCL_COPIES), Some(2));
        assert_eq!(count(fact::RANKS), Some(16));
        assert_eq!(count(fact::NPROC), Some(4096));
        assert_eq!(count(fact::CGROUP_PIDS), Some(512));
        assert_eq!(count(fact::OOM_KILLS), Some(2));
        let share = known(&facts, Subject::Job, name, fact::CPU_THROTTLED);
        assert_eq!(share, Some(crate::fact::Percent(25.0)));
        let holds = |key| known(&facts, Subject::Job, name, key);
        assert_eq!(holds(fact::MEMLOCK_BINDS), Some(true));
        assert_eq!(holds(fact::DEV_INFINIBAND), Some(false));
        assert_eq!(holds(fact::HAS_VARIABLES), Some(false));
        let texts = |key| known(&facts, Subject::Job, name, key).map(|t: Texts| t.join(" "));
        assert_eq!(texts(fact::NUMA_NODES).as_deref(), Some("1"));
        assert_eq!(texts(fact::MEMORY_NODES).as_deref(), Some("0"));
        assert_eq!(texts(fact::LOST_VARIABLES).as_deref(), Some("NCCL_IB_HCA"));
    }

    #[test]
    fn another_users_process_keeps_its_secrets() {
        let denied = [
            NAMED,
            COMM,
            r#"{"q":{"call":"process_env","pid":42,"prefixes":"NCCL_,UCX_,FI_,WORLD_SIZE,OMPI_COMM_WORLD_SIZE,PMI_SIZE,SLURM_NTASKS"},"errno":"EACCES"}"#,
            r#"{"q":{"call":"process_files","pid":42},"errno":"EACCES"}"#,
        ];
        let (facts, _) = run(&PROBE, &denied);
        let id = facts.all(Subject::Job).next().unwrap();
        assert_eq!(facts.known(id, fact::RANKS), None);
        assert_eq!(facts.known(id, fact::VERBS_OPEN), None);
        let gap = facts
            .get(id, fact::VERBS_OPEN)
            .as_result()
            .unwrap_err()
            .why
            .remedy();
        assert_eq!(gap, Some("run as root"));
    }
}
