//! What a remedy tells somebody to run, the doctor can read: a tool whose output nothing reads is excused here by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rdma_doctor::tool_output::is_read;

/// Tools that remedies name and whose output nothing reads, by the reason.
const EXCUSED: &[(&str, &[&str])] = &[
    ("it is the doctor itself", &["rdma-doctor"]),
    (
        "it changes, starts or loads something, and what it prints shows no more than that",
        &[
            "apt",
            "apt-get",
            "chcpu",
            "chmod",
            "cma_roce_tos",
            "cpupower",
            "dkms",
            "dnf",
            "dracut",
            "echo",
            "export",
            "gdrcopy",
            "grubby",
            "kill",
            "lctl",
            "ldconfig",
            "mkdir",
            "mknod",
            "mlnxofedinstall",
            "mlxfwreset",
            "modprobe",
            "netplan",
            "nv-fabricmanager",
            "ofed_uninstall",
            "openibd",
            "opensm",
            "pip",
            "powerprofilesctl",
            "rm",
            "sed",
            "setpci",
            "taskset",
            "tuned-adm",
            "umount",
            "unset",
            "wpa_cli",
        ],
    ),
    ("its output is read as a file of its own", &["ncclras"]),
    (
        "it runs another command, whose output counts",
        &["clush", "mpirun", "sort", "srun", "ssh", "timeout", "while"],
    ),
    (
        "it tries something once, and its answer is seen at a glance",
        &[
            "arping",
            "arptables",
            "bridge",
            "grep",
            "munge",
            "nc",
            "pmc",
            "rping",
            "rpcinfo",
            "tcpdump",
            "tracepath",
        ],
    ),
    (
        "it shows who uses something at this moment",
        &[
            "conntrack",
            "du",
            "fuser",
            "lsof",
            "nstat",
            "ps",
            "py-spy",
            "ss",
            "top",
        ],
    ),
    (
        "it is of a storage, scheduler or log service, of which only the effect on RDMA is judged",
        &[
            "ausearch",
            "beegfs-ctl",
            "iscsiadm",
            "lfs",
            "lnetctl",
            "nfsstat",
            "nvme",
            "quota",
            "smartctl",
        ],
    ),
    (
        "it describes the machine, and the doctor reads the same from the kernel",
        &[
            "bpftool",
            "devlink",
            "dmidecode",
            "findmnt",
            "firewall-cmd",
            "hostnamectl",
            "hwclock",
            "lsblk",
            "modinfo",
            "ofed_info",
        ],
    ),
    (
        "it lists software, of which the doctor asks the libraries themselves",
        &["apt-cache", "fi_info", "ompi_info", "rpm"],
    ),
    (
        "it is a vendor's, and its output is for the vendor",
        &[
            "cxi_stat",
            "flint",
            "ipmitool",
            "mget_temp",
            "mlxfwmanager",
            "mstdump",
            "nvidia-bug-report",
            "ras-mc-ctl",
        ],
    ),
    (
        "it asks the fabric for one record, which the link or the manager shows as well",
        &["ibswitches", "ibtracert", "saquery"],
    ),
    (
        "its table is read from a log, with the job that it measures",
        &["iperf3"],
    ),
];

/// The commands that stand on lines of their own in the remedies, by tool.
fn commands() -> BTreeMap<String, Vec<Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
    for subject in std::fs::read_dir(folder).unwrap() {
        let Ok(files) = std::fs::read_dir(subject.unwrap().path()) else {
            continue;
        };
        for file in files {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines().map(str::trim) {
                let command = line
                    .strip_prefix('`')
                    .and_then(|line| line.strip_suffix('`'));
                let Some(command) = command.map(|command| command.split('|').next().unwrap())
                else {
                    continue;
                };
                let is_variable = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
                let words = command.split_whitespace();
                let words = words.skip_while(|word| *word == "sudo" || is_variable(word));
                let argv: Vec<String> = words.map(str::to_owned).collect();
                let Some(first) = argv.first().filter(|first| !first.starts_with('{')) else {
                    continue;
                };
                let name = first.rsplit('/').next().unwrap();
                let name = name.strip_suffix(".sh").unwrap_or(name).to_owned();
                all.entry(name).or_default().push(argv);
            }
        }
    }
    all
}

#[test]
fn what_remedies_tell_to_run_is_read() {
    let commands = commands();
    assert!(commands.len() > 100, "{} tools", commands.len());
    let mut excused = BTreeSet::new();
    for name in EXCUSED.iter().flat_map(|(_, names)| *names) {
        assert!(excused.insert(*name), "{name} is excused twice");
    }
    let mut wrong = Vec::new();
    for (tool, commands) in &commands {
        let is_read = commands.iter().any(|argv| is_read(argv));
        match (is_read, excused.contains(&**tool)) {
            (false, false) => wrong.push(format!("{tool} is neither read nor excused")),
            (true, true) => wrong.push(format!("{tool} is read, and needs no excuse")),
            _ => {}
        }
    }
    for name in excused.iter().filter(|name| !commands.contains_key(**name)) {
        wrong.push(format!("no remedy names {name}, which is excused"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
