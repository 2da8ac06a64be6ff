//! What a remedy tells somebody to run, the doctor can read: a tool whose output nothing reads is excused here by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rdma_doctor::check::Catalogue;
use rdma_doctor::tool_output::is_read;
use regex_lite::Regex;

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
            "displaymodeselector",
            "dkms",
            "dnf",
            "dracut",
            "echo",
            "export",
            "gdrcopy",
            "grub2-mkconfig",
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
            "nvidia-ctk",
            "nvidia-modprobe",
            "ofed_uninstall",
            "openibd",
            "opensm",
            "pip",
            "powerprofilesctl",
            "rm",
            "rmmod",
            "sed",
            "setpci",
            "tuned-adm",
            "umount",
            "unset",
            "update-grub",
            "wpa_cli",
        ],
    ),
    ("its output is read as a file of its own", &["ncclras"]),
    (
        "it runs another command, whose output counts",
        &[
            "clush", "mpirun", "sort", "srun", "ssh", "time", "timeout", "while",
        ],
    ),
    (
        "it tries something once, and its answer is seen at a glance",
        &[
            "arping",
            "arptables",
            "bridge",
            "find",
            "grep",
            "ldd",
            "md5sum",
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
            "cuda-gdb",
            "du",
            "fuser",
            "lsof",
            "nstat",
            "ps",
            "py-spy",
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

/// Commands that interrupt traffic, reset a device, unmount, or restart a service.
const DISRUPTIVE: &[&str] = &[
    r"^systemctl (restart|stop) ",
    r"--gpu-reset",
    r"nvidia-smi .*-mig [01]",
    r"^mlxfwreset ",
    r"modprobe -r |rmmod ",
    r"^umount ",
    r"^ip link set \S+ (down|mtu)",
    r"^reboot",
    r"/(remove|unbind|reset)$",
    r"(openibd|gdrcopy) restart",
    r"^nmcli con\S* (reload|up|down)",
    r"^netplan apply|^ifreload",
    r"^ibportstate .* (reset|disable)$",
    r"^devlink dev reload ",
];

/// What is wrong with a remedy: a command that disrupts, and no step up to it says to drain.
fn undrained(fix: &str, disruptive: &[Regex]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut before = String::new();
    for (at, part) in fix.split('`').enumerate() {
        before.push_str(part);
        if at % 2 == 1
            && disruptive.iter().any(|pattern| pattern.is_match(part))
            && !before.to_lowercase().contains("drain")
        {
            wrong.push(part.to_owned());
        }
    }
    wrong
}

#[test]
fn a_step_that_disrupts_says_to_drain_first() {
    let patterns = DISRUPTIVE.iter();
    let disruptive: Vec<Regex> = patterns.map(|one| Regex::new(one).unwrap()).collect();
    assert_eq!(
        undrained(
            "1. Look:\n   `ls`\n2. Reset it:\n   `nvidia-smi --gpu-reset`",
            &disruptive
        ),
        ["nvidia-smi --gpu-reset"]
    );
    let catalogue = Catalogue::embedded().unwrap();
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for check in &catalogue.checks {
        let fix = check.advice().fix.as_written().to_string();
        for command in fix.split('`').skip(1).step_by(2) {
            let kinds = disruptive.iter().enumerate();
            seen.extend(
                kinds
                    .filter(|(_, one)| one.is_match(command))
                    .map(|(kind, _)| kind),
            );
        }
        for command in undrained(&fix, &disruptive) {
            wrong.push(format!("{}: {command}", check.case));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unseen = (0..disruptive.len()).filter(|kind| !seen.contains(kind));
    let unseen: Vec<&Regex> = unseen.map(|kind| &disruptive[kind]).collect();
    assert!(unseen.is_empty(), "no remedy has a command like {unseen:?}");
}
