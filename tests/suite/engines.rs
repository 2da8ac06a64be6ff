//! The doctor under the engines that clusters start it with: a real Slurm whose nodes are namespaces with a name and a network of their own, Open MPI,
//! and ssh. None of them is told of the doctor, nor the doctor of them.
//!
//! Needs root and the engines (`tests/install-deps test` installs them); elsewhere the tests are skipped and say so. `RDMA_DOCTOR_NETNS=0` skips
//! them, `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure. `RDMA_DOCTOR_BINARY` is another doctor to test.

mod over_ssh;
mod slurm;
pub(crate) mod ssh;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use crate::bridged_hosts::{self, BridgedHosts};
use crate::place::doctor;
use crate::process::{Ended, PATIENT, start, wait_until};
use slurm::Slurm;
use ssh::Ssh;

const KEY: &str = "sixteen characters and more";

fn ends(command: &mut Command) -> Ended {
    start(command).ends()
}

#[test]
fn a_step_of_slurm_joins_by_itself_and_a_batch_step_stays_alone() {
    if !bridged_hosts::can_run(&["slurmctld", "slurmd", "srun", "sbatch"]) {
        return;
    }
    let net = BridgedHosts::new(3);
    for n in 1..=3 {
        let kind = if n == 3 { "IB/RoCE v1\n" } else { "RoCE v2\n" };
        net.roce_port(n, kind);
    }
    net.shell(2, "ip link set eth0 mtu 1500");
    let slurm = Slurm::start(&net, 3, "");
    let doctor = doctor();
    // Two tasks on each node: the lowest acts.
    let step = ends(
        slurm
            .command("srun")
            .args(["-N3", "--ntasks-per-node=2", doctor])
            .args(["check", "--format", "json"]),
    );
    let report = step.report();
    assert_eq!(report.nodes(), ["n1", "n2", "n3"]);
    let of_cluster = ["cluster/gids-differ", "cluster/netdev-mtu-differs"];
    assert_eq!(report.of_cluster(), of_cluster);
    for (check, odd) in of_cluster.into_iter().zip(["n3", "n2"]) {
        assert_eq!(report.finding(check).unwrap().1, [odd]);
    }
    assert!(
        step.err
            .contains("rdma-doctor: Slurm: rank 0 of 6, 3 nodes (SLURM_PROCID=0"),
        "{}",
        step.err
    );
    assert!(
        step.err.contains("SLURM_STEP_NODELIST=n[1-3]"),
        "{}",
        step.err
    );
    assert!(step.err.contains("unauthenticated"), "{}", step.err);
    assert!(!step.err.contains("turned away"), "{}", step.err);
    // What each process understood is recorded with its node.
    let launch = |at: usize| report.0["nodes"][at]["launch"].as_str().unwrap();
    assert_eq!(
        [launch(0), launch(2)],
        ["Slurm: rank 0 of 6, 3 nodes", "Slurm: rank 4 of 6, 3 nodes"]
    );
    // srun ends with the highest status of its tasks, which is rank 0's.
    assert_eq!(
        step.status,
        report.0["exit"].as_i64().unwrap() as i32,
        "{}",
        step.err
    );

    let silent = "[ $SLURM_PROCID != 1 ] || exit 0; exec \"$@\"";
    let silent = ends(
        slurm
            .command("srun")
            .args(["-N3", "bash", "-c", silent, "_", doctor])
            .args([
                "check",
                "--format",
                "json",
                "--deadline",
                "20",
                "--wait",
                "10",
            ]),
    );
    let (sentence, nodes) = silent.report().finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["n2"], "{sentence}");
    assert!(silent.took < PATIENT / 2, "{:?}", silent.took);

    let script = net.dir().join("job");
    let text = format!(
        "#!/bin/bash\n{doctor} check --format json >{0}/batch.json 2>{0}/batch.err\nsrun {doctor} check --format json >{0}/step.json\nexit 0\n",
        net.dir().display()
    );
    std::fs::write(&script, text).unwrap();
    let batch = ends(
        slurm
            .command("sbatch")
            .args(["--wait", "-N3", "-o", "/dev/null"])
            .arg(&script),
    );
    assert_eq!(batch.status, 0, "{batch:?}");
    let nodes = |file: &str| {
        let text = std::fs::read_to_string(net.dir().join(file)).unwrap();
        let ended = Ended {
            out: text,
            err: String::new(),
            status: 0,
            took: Duration::ZERO,
        };
        ended.report().nodes()
    };
    assert_eq!(nodes("batch.json"), ["n1"]);
    assert_eq!(
        std::fs::read_to_string(net.dir().join("batch.err")).unwrap(),
        ""
    );
    assert_eq!(nodes("step.json"), ["n1", "n2", "n3"]);
    slurm.nothing_else_is_left();
}

#[test]
fn slurm_drains_the_node_that_has_errors_or_does_not_answer_with_its_reason() {
    if !bridged_hosts::can_run(&["slurmctld", "slurmd", "srun", "scontrol"]) {
        return;
    }
    let net = BridgedHosts::new(3);
    // An adapter that cannot be read: a directory in the place of a file.
    let adapter = net.dir().join("sys3/bus/pci/devices/0000:01:00.0");
    std::fs::create_dir_all(adapter.join("vendor")).unwrap();
    std::fs::write(adapter.join("class"), "0x020000\n").unwrap();
    // A device that no verbs library finds is an error; no device is an open question, for which no node is drained.
    net.roce_port(2, "RoCE v2\n");
    let dir = net.dir().display().to_string();
    let made = ends(Command::new(doctor()).args([
        "integrate",
        "slurm",
        "--doctor",
        doctor(),
        "--into",
        &dir,
    ]));
    assert_eq!(made.status, 0, "{made:?}");
    // The files stand below the test's own directory, and slurm.conf names them there.
    let conf = std::fs::read_to_string(net.dir().join("etc/slurm/rdma-doctor.conf")).unwrap();
    let conf = conf.replace("/etc/slurm/", &format!("{dir}/etc/slurm/"));
    let slurm = Slurm::start(&net, 3, &conf);
    let fit = ends(slurm.command("srun").args(["-w", "n1", "hostname"]));
    assert_eq!((fit.status, fit.out.trim()), (0, "n1"), "{fit:?}");
    let unfit = start(slurm.command("srun").args(["-w", "n2", "hostname"]));
    let mut reason = String::new();
    wait_until("n2 is drained", || {
        reason = slurm.output("sinfo", &["-h", "-n", "n2", "-o", "%T|%E"]);
        reason.starts_with("drain")
    });
    assert!(
        reason.contains("|rdma-doctor: host/libibverbs-no-kernel-verbs"),
        "{reason}"
    );
    drop(unfit);
    let unread = start(slurm.command("srun").args(["-w", "n3", "hostname"]));
    wait_until("n3 is drained", || {
        reason = slurm.output("sinfo", &["-h", "-n", "n3", "-o", "%T|%E"]);
        reason.starts_with("drain")
    });
    assert!(
        reason.contains("|rdma-doctor: damage: did not answer: 0000:01:00.0"),
        "{reason}"
    );
    drop(unread);
    let states = slurm.output("sinfo", &["-h", "-N", "-n", "n1", "-o", "%T"]);
    assert_eq!(states.trim(), "idle");
}

#[test]
fn processes_of_open_mpi_meet() {
    if !bridged_hosts::can_run(&["mpirun"]) {
        return;
    }
    let net = BridgedHosts::new(3);
    let doctor = doctor();
    let mpirun = || {
        let mut command = net.on(1, "mpirun");
        command
            .env("HOME", net.dir())
            .env("TMPDIR", net.dir())
            .env("RDMA_DOCTOR_KEY", KEY);
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        command
    };
    // All on one node: one of them looks, and there is nobody to wait for.
    let one =
        ends(
            mpirun()
                .args(["-n", "4", doctor])
                .args(["check", "--cluster", "--format", "json"]),
        );
    assert_eq!(one.report().nodes(), ["n1"]);
    assert!(
        one.err
            .contains("rdma-doctor: Open MPI: rank 0 of 4, 1 node (OMPI_COMM_WORLD_RANK=0"),
        "{}",
        one.err
    );

    // Two on each of three hosts, which mpirun reaches by what takes the place of ssh.
    let agent = net.dir().join("agent");
    std::fs::write(
        &agent,
        format!(
            "#!/bin/bash\nhost=$1; shift; exec {0}/enter \"$host\" bash -c \"$*\"\n",
            net.dir().display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let several = |rendezvous: &[&str]| {
        let mut command = mpirun();
        command
            .args(["--mca", "plm_rsh_agent"])
            .arg(&agent)
            .args(["--host", "n1:2,n2:2,n3:2", "-x", "RDMA_DOCTOR_KEY", doctor])
            .args(["check", "--cluster", "--format", "json"])
            .args(rendezvous);
        ends(&mut command)
    };
    let all = several(&["--rendezvous", "n1:20600"]);
    assert_eq!(all.report().nodes(), ["n1", "n2", "n3"], "{}", all.err);
    assert!(
        all.err
            .contains("rdma-doctor: Open MPI: rank 0 of 6, 3 nodes"),
        "{}",
        all.err
    );
    assert!(!all.err.contains("unauthenticated"), "{}", all.err);
    let lost = several(&[]);
    assert_ne!(lost.status, 0);
    assert!(
        lost.err
            .contains("Open MPI does not say where rank 0 is: give --rendezvous HOST:PORT"),
        "{}",
        lost.err
    );
    net.nothing_is_left();
}

#[test]
fn hosts_are_asked_over_ssh_and_who_is_silent_is_named_with_the_reason() {
    if !bridged_hosts::can_run(&["ssh", "ssh-keygen", "sshd"]) {
        return;
    }
    let net = BridgedHosts::new(6);
    for n in [1, 2] {
        net.roce_port(n, "RoCE v2\n");
    }
    // Of six hosts, the third has no sshd; that of the fourth hangs.
    let ssh = Ssh::start(&net, [1, 2, 4, 5, 6]);
    ssh.stop(4);
    let all =
        ends(
            ssh.doctor(&["check"])
                .args(["--hosts", "n[1-6]", "--deadline", "19", "--wait", "1"]),
        );
    let report = all.report();
    assert_eq!(report.nodes(), ["n1", "n2"], "{}", all.out);
    let (sentence, nodes) = report.finding("cluster/node-silent").unwrap();
    assert_eq!(nodes, ["n3", "n4", "n5", "n6"], "{sentence}");
    for words in [
        "n3: ssh: connect to host n3 port 22: Connection refused",
        "n4: no answer within 20 s",
        "n5: command not found (bash: line 1: ",
        "n6: ssh: root@n6: Permission denied (publickey",
    ] {
        assert!(sentence.contains(words), "{words}: {sentence}");
    }
    assert_eq!(all.status, 2);
    assert!(all.took < PATIENT / 2, "{:?}", all.took);

    let file = net.dir().join("hostfile");
    std::fs::write(&file, "# two of them\nn1 slots=8\nn2:8\n").unwrap();
    net.shell(2, "ip link set eth0 mtu 1500");
    let two = ends(
        ssh.doctor(&["check"])
            .args(["--fanout", "1", "--hostfile"])
            .arg(&file),
    );
    assert_eq!(two.report().nodes(), ["n1", "n2"]);
    assert_eq!(
        two.report().of_cluster(),
        ["cluster/netdev-mtu-differs"],
        "{}",
        two.out
    );
    // One host alone is judged as a node; one that is not reached gives no verdict.
    let one = ends(ssh.doctor(&["check"]).args(["--hosts", "n2"]));
    assert_eq!(one.report().nodes(), ["n2"]);
    let none = ends(ssh.doctor(&["check"]).args(["--hosts", "n3"]));
    assert_eq!(none.status, 65);
    assert!(
        none.err
            .contains("n3: ssh: connect to host n3 port 22: Connection refused"),
        "{}",
        none.err
    );
    let option = ends(ssh.doctor(&["check"]).args(["--hosts=-oProxyCommand"]));
    assert_eq!(option.status, 64);
    drop(ssh);
}
