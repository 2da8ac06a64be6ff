//! A real Slurm on this machine: slurmctld on the first of some hosts, a slurmd on each.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bridged_hosts::BridgedHosts;
use crate::process::{PATIENT, Running, start};

/// A Slurm that runs.
pub(crate) struct Slurm<'n> {
    net: &'n BridgedHosts,
    /// The nodes' daemons before the controller, which would see them vanish.
    daemons: Vec<Running>,
}

impl<'n> Slurm<'n> {
    /// Starts it on so many hosts, with further lines of slurm.conf. Without munge: whoever is in these namespaces is believed.
    pub(crate) fn start(net: &'n BridgedHosts, count: usize, further: &str) -> Self {
        let dir = net.dir().display();
        for sub in ["state", "spool", "log"] {
            std::fs::create_dir_all(net.dir().join(sub)).unwrap();
        }
        let mut conf = format!(
            "ClusterName=rd\nSlurmctldHost=n1(10.77.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/none\nCredType=cred/none\n\
            StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool/%n\nSlurmctldPidFile={dir}/ctld.pid\nSlurmdPidFile={dir}/%n.pid\n\
            SlurmctldLogFile={dir}/log/ctld\nSlurmdLogFile={dir}/log/%n\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
            JobAcctGatherType=jobacct_gather/none\nSchedulerType=sched/builtin\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
            MpiDefault=none\nReturnToService=2\nKillWait=2\nSlurmctldTimeout=10\nSlurmdTimeout=10\nSlurmdParameters=config_overrides\n\
            PlugStackConfig=/dev/null\nCommunicationParameters=NoAddrCache\n{further}\n"
        );
        for n in 1..=count {
            let _ = writeln!(
                conf,
                "NodeName=n{n} NodeAddr=10.77.0.{n} CPUs=2 RealMemory=256 State=UNKNOWN"
            );
            std::fs::create_dir_all(net.dir().join(format!("spool/n{n}"))).unwrap();
        }
        conf.push_str("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
        let file = net.dir().join("slurm.conf");
        std::fs::write(&file, conf).unwrap();
        std::fs::write(
            net.dir().join("cgroup.conf"),
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n",
        )
        .unwrap();
        let mut daemons = Vec::new();
        for n in 1..=count {
            let mut slurmd = net.on(n, "slurmd");
            slurmd.args(["-D", "-N", &format!("n{n}"), "-f"]).arg(&file);
            daemons.push(start(&mut slurmd));
        }
        let mut controller = net.on(1, "slurmctld");
        daemons.push(start(controller.arg("-D").arg("-f").arg(&file)));
        let slurm = Slurm { net, daemons };
        slurm.wait(count);
        slurm
    }

    fn wait(&self, count: usize) {
        let begun = Instant::now();
        let is_up = || {
            let idle = self.output("sinfo", &["-h", "-o", "%D", "-t", "idle"]);
            idle.trim() == count.to_string()
        };
        while !is_up() {
            if begun.elapsed() > PATIENT {
                let logs = std::fs::read_dir(self.net.dir().join("log")).unwrap();
                let logs: String = logs
                    .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
                    .collect();
                panic!(
                    "the nodes did not come up:
{logs}"
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A command of Slurm's, given on the first node.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.net.on(1, program);
        command.env("SLURM_CONF", self.net.dir().join("slurm.conf"));
        command
    }

    /// What a command of Slurm's says.
    pub(crate) fn output(&self, program: &str, args: &[&str]) -> String {
        let out = self.command(program).args(args).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Waits until nothing runs on the nodes but Slurm itself.
    pub(crate) fn nothing_else_is_left(&self) {
        self.net.nothing_is_left_but("slurm");
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            daemon.kill();
        }
    }
}
