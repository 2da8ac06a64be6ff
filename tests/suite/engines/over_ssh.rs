//! What measures between nodes, started on hosts over a real ssh: network namespaces with an sshd each. What goes wrong is named with the host and the
//! reason, in time; whatever ends the starting process ends all of it, and nobody but the nodes sees their key.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::ssh::Ssh;
use crate::bridged_hosts::{self, BridgedHosts};
use crate::namespaces::shell;
use crate::place::doctor;
use crate::process::{Ended, Process, start, wait_until};

/// A collective that takes some seconds, and one that would take minutes.
const SHORT: [&str; 10] = [
    "bench",
    "all-reduce",
    "--backend",
    "tcp",
    "-b",
    "1M",
    "--trials",
    "1",
    "--warmups",
    "0",
];
const LONG: [&str; 9] = [
    "bench",
    "all-reduce",
    "--backend",
    "tcp",
    "-b",
    "256M",
    "--trials",
    "1000",
    "--deadline=300",
];

fn can_run() -> bool {
    bridged_hosts::can_run(&["ssh", "ssh-keygen", "sshd"])
}

fn ends(command: &mut Command) -> Ended {
    start(command).ends()
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn words<'v>(list: &'v Value, of: &str) -> Vec<&'v str> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one[of].as_str().unwrap()).collect()
}

/// Processes of doctors and of ssh on all hosts, the daemons left out.
fn busy(net: &BridgedHosts) -> Vec<(usize, Process)> {
    let mut all = net.running();
    all.retain(|(_, process)| process.program != "sshd");
    all
}

/// Waits until ranks run on all of these hosts.
fn measures(net: &BridgedHosts, hosts: &[usize]) {
    wait_until("ranks run", || {
        let all = busy(net);
        let has_rank = |n: &usize| all.iter().any(|(host, one)| host == n && one.has("__rank"));
        hosts.iter().all(has_rank)
    });
}

fn nothing_is_left(net: &BridgedHosts) {
    net.nothing_is_left_but("sshd");
}

fn script(path: &Path, text: &str) -> String {
    std::fs::write(path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn hosts_measure_together_and_who_takes_no_part_is_named() {
    if !can_run() {
        return;
    }
    let net = BridgedHosts::new(5);
    // The fourth has no sshd, and the fifth no doctor.
    let ssh = Ssh::start(&net, [1, 2, 3, 5]);
    let recording = net.dir().join("pairs.jsonl.zst");
    let pairs = ["bench", "pairs", "--flow", "0.1", "--backend", "tcp"];
    let pairs = ends(
        ssh.doctor(&pairs)
            .args(["--hosts", "n[1-5]", "-o"])
            .arg(&recording),
    );
    let value = json(&pairs);
    assert_eq!(value["ways"].as_array().unwrap().len(), 6, "{value:#}");
    // On a busy machine one of the others may be slow.
    let accused = words(&value["accused"], "name").into_iter();
    let accused = accused.zip(words(&value["accused"], "problem"));
    let silent: Vec<_> = accused.filter(|(_, what)| *what == "silent").collect();
    assert_eq!(silent, [("n4", "silent"), ("n5", "silent")], "{value:#}");
    let said = value.to_string();
    for why in [
        "ssh: connect to host n4 port 22: Connection refused",
        "command not found (bash: line 1: ",
    ] {
        assert!(said.contains(why), "{why}: {value:#}");
    }
    assert_eq!(pairs.status, 2, "{pairs:?}");
    assert!(
        pairs.err.contains("rank 0 of 3, started over ssh"),
        "{}",
        pairs.err
    );
    nothing_is_left(&net);
    // The recording is on this side, packed as its name says, and says the same.
    let replayed = Command::new(doctor())
        .args(["bench", "pairs", "--format", "json"])
        .arg(&recording)
        .output()
        .unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["ways"], value["ways"]);

    let file = net.dir().join("hostfile");
    std::fs::write(&file, "# three of them\nn2 slots=8\nn3:8\nn1\n").unwrap();
    let reduce = ends(
        ssh.doctor(&SHORT)
            .args(["--ranks", "1", "--hostfile"])
            .arg(&file),
    );
    let value = json(&reduce);
    assert_eq!(words(&value["ranks"], "host"), ["n2", "n3", "n1"]);
    assert_eq!(value["rows"][0]["wrong"], 0, "{value:#}");
    assert_eq!(value["troubles"], serde_json::json!([]));
    assert!(matches!(reduce.status, 0 | 1), "{reduce:?}");
    nothing_is_left(&net);

    // Where the first host does not answer, the next one leads; the report comes into a file of this side.
    let report = net.dir().join("report");
    let triage = ends(
        ssh.doctor(&["triage", "--quick", "--size", "1M", "--exit-on", "all"])
            .args(["--hosts", "n4,n3,n1", "--output"])
            .arg(&report),
    );
    assert_eq!(triage.out, "", "{triage:?}");
    let found = Ended {
        out: std::fs::read_to_string(&report).unwrap(),
        ..triage
    };
    let found = found.report();
    assert_eq!(found.nodes(), ["n3", "n1"]);
    let (sentence, nodes) = found.finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["n4"], "{sentence}");
    assert!(
        sentence.contains("ssh: connect to host n4 port 22: Connection refused"),
        "{sentence}"
    );
    assert_eq!(i64::from(triage.status), found.0["exit"].as_i64().unwrap());
    nothing_is_left(&net);
}

#[test]
fn what_cannot_begin_says_why() {
    if !can_run() {
        return;
    }
    let net = BridgedHosts::new(3);
    let ssh = Ssh::start(&net, [1, 2]);
    let few = ends(
        ssh.doctor(&SHORT)
            .args(["--hosts", "n[2-3]"])
            .env("NCCL_IB_HCA", "mlx5_0"),
    );
    assert_eq!((few.status, few.out.as_str()), (65, ""), "{few:?}");
    assert!(
        few.err.contains(
            "nothing was measured: 1 of 2 hosts answered, and it takes two: n3: ssh: connect to host n3 port 22: Connection refused"
        ),
        "{}",
        few.err
    );
    assert!(
        few.err
            .contains("NCCL_IB_HCA is set here and not on the hosts"),
        "{}",
        few.err
    );
    // Another version there, and one that does not know how it is started.
    let dir = net.dir();
    let other = r#"case $(hostname) in
n1) echo hello; echo 'rdma-doctor-held {"here":"0.0.1"}'; exec cat;;
*) echo "error: unexpected argument '--held' found" >&2; exit 64;;
esac"#;
    let other = script(&dir.join("bin/other"), other);
    let old = [&SHORT[..], &["--hosts", "n[1-2]", "--remote", &other]].concat();
    let old = ends(&mut ssh.doctor(&old));
    for words in [
        "n1: the doctor there is version 0.0.1, and this one ",
        "n2: exited with status 64: error: unexpected argument '--held' found",
    ] {
        assert!(old.err.contains(words), "{words}: {}", old.err);
    }
    assert_eq!(old.status, 65);
    // Rank 0 has nothing at which to listen.
    let taken = ["--rendezvous", "n1:22", "--hosts", "n[1-2]"];
    let taken = ends(ssh.doctor(&SHORT).args(taken));
    assert_eq!(taken.status, 65, "{taken:?}");
    assert!(
        taken
            .err
            .contains("rdma-doctor: n1, which is rank 0: exited with status 65: rdma-doctor: rank 0 cannot listen at port 22: "),
        "{}",
        taken.err
    );
    // The others do not come there.
    net.shell(
        1,
        "nft add table inet t; nft add chain inet t in '{ type filter hook input priority 0; }'
        nft add rule inet t in tcp dport 20600 drop",
    );
    let lost = [
        "--rendezvous",
        "n1:20600",
        "--wait",
        "6",
        "--hosts",
        "n[1-2]",
    ];
    let lost = ends(ssh.doctor(&["bench", "pairs", "--flow", "0.1"]).args(lost));
    assert!(
        lost.err
            .contains("n2: rdma-doctor: rank 0 was not reached at 10.77.0.1:20600 in 6 s"),
        "{}",
        lost.err
    );
    nothing_is_left(&net);
}

#[test]
fn who_is_lost_in_the_middle_is_named() {
    if !can_run() {
        return;
    }
    let net = BridgedHosts::new(3);
    let ssh = Ssh::start(&net, [1, 2, 3]);
    let run = start(ssh.doctor(&LONG).args(["--hosts", "n[1-3]"]));
    measures(&net, &[1, 2, 3]);
    // The ssh to the third is ended, and by it the doctor there.
    let (killed, said) = shell(&format!(
        "for p in {}; do grep -qaz '^n3$' /proc/$p/cmdline && kill -9 $p; done; true",
        net.pids(1)
    ));
    assert!(killed, "{said}");
    let ended = run.ends();
    let value = json(&ended);
    assert!(value["troubles"].to_string().contains("n3: "), "{value:#}");
    assert_eq!(ended.status, 2, "{}", ended.err);
    assert!(
        ended.err.contains("n3: ssh was terminated by a signal"),
        "{}",
        ended.err
    );
    nothing_is_left(&net);

    // Rank 0's own.
    let run = start(ssh.doctor(&LONG).args(["--hosts", "n[2-3]"]));
    measures(&net, &[2, 3]);
    let (killed, said) = shell(&format!(
        "for p in {}; do grep -qaz '^n2$' /proc/$p/cmdline && kill -9 $p; done; true",
        net.pids(1)
    ));
    assert!(killed, "{said}");
    let ended = run.ends();
    assert_eq!((ended.status, ended.out.as_str()), (65, ""), "{ended:?}");
    assert!(
        ended
            .err
            .contains("rdma-doctor: n2, which is rank 0: ssh was terminated by a signal"),
        "{}",
        ended.err
    );
    nothing_is_left(&net);
}

#[test]
fn whatever_ends_the_starter_ends_all_and_the_key_is_nowhere_to_be_read() {
    if !can_run() {
        return;
    }
    let net = BridgedHosts::new(4);
    let ssh = Ssh::start(&net, [1, 2, 3, 4]);
    // While it logs in: the fourth takes the connection, and says nothing.
    ssh.stop(4);
    let mut run = start(
        ssh.doctor(&LONG)
            .args(["--wait", "12", "--hosts", "n[2-4]"]),
    );
    wait_until("doctors are held", || {
        let all = busy(&net);
        let held = |n: usize| {
            all.iter()
                .any(|(host, one)| *host == n && one.has("--held"))
        };
        held(2) && held(3) && all.iter().any(|(_, one)| one.has("n4"))
    });
    run.kill();
    nothing_is_left(&net);
    // What ssh is given on its standard input is kept, to know the key.
    let dir = net.dir();
    let told = dir.join("told");
    let tee = format!(
        "tee -a {} | ssh -F {}/config \"$@\"",
        told.display(),
        dir.display()
    );
    let tee = script(&dir.join("tee"), &tee);
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let _ = std::fs::remove_file(&told);
        // A shell that greets, and stays beside the doctor.
        let remote = format!("echo hello; {}/bin/rdma-doctor", dir.display());
        let run = [&LONG[..], &["--hosts", "n[1-3]", "--remote", &remote]].concat();
        let run = start(ssh.doctor(&run).env("RDMA_DOCTOR_SSH", &tee));
        measures(&net, &[1, 2, 3]);
        let lines = std::fs::read_to_string(&told).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        let key = lines[0]["key"].as_str().unwrap();
        assert!(key.len() == 64 && lines.iter().all(|line| line["key"] == key));
        let mut looked = 0;
        for process in std::fs::read_dir("/proc").unwrap() {
            for file in ["cmdline", "environ"] {
                // One that has ended meanwhile shows nothing.
                let Ok(text) = std::fs::read(process.as_ref().unwrap().path().join(file)) else {
                    continue;
                };
                looked += 1;
                let text = String::from_utf8_lossy(&text);
                assert!(!text.contains(key), "{process:?} {file}");
            }
        }
        assert!(looked > 20);
        run.signal(signal);
        let ended = run.ends();
        assert_eq!(ended.status, -1, "{ended:?}");
        nothing_is_left(&net);
    }
}
