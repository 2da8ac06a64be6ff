//! Hosts that are reached over a real ssh: an sshd on each of them, with keys made for the test, and a configuration that the user's ssh is given.

use std::process::Command;

use crate::bridged_hosts::BridgedHosts;
use crate::namespaces::shell;
use crate::place::doctor;
use crate::process::{Running, start, wait_until};

/// The hosts that have an sshd.
pub(crate) struct Ssh<'n> {
    net: &'n BridgedHosts,
    hosts: Vec<usize>,
    _daemons: Vec<Running>,
}

impl<'n> Ssh<'n> {
    pub(crate) fn start(net: &'n BridgedHosts, hosts: impl IntoIterator<Item = usize>) -> Self {
        let dir = net.dir().display();
        // sshd wants a directory of root's for its unprivileged part: one that only it sees. The fifth has no doctor.
        std::fs::write(net.dir().join("mounts"), "mount -t tmpfs none /run && mkdir /run/sshd; [ $n != 5 ] || mount -t tmpfs none \"$dir/bin\"\n").unwrap();
        let (made, said) = shell(&format!(
            "set -e; cd {dir}; mkdir bin; ln {0} bin/rdma-doctor || cp {0} bin/rdma-doctor; for key in id host; do ssh-keygen -q -t ed25519 -N '' -f $key; done; cp id.pub allowed
            printf 'Host *\n User root\n IdentityFile {dir}/id\n UserKnownHostsFile {dir}/known\n StrictHostKeyChecking accept-new\n' >config",
            doctor()
        ));
        assert!(made, "{said}");
        let hosts: Vec<usize> = hosts.into_iter().collect();
        let daemon = |n: usize| {
            let mut sshd = net.on(n, "/usr/sbin/sshd");
            // The sixth knows nobody's key.
            let allowed = match n {
                6 => "none".to_owned(),
                _ => format!("{dir}/allowed"),
            };
            sshd.args(["-D", "-e", "-f", "/dev/null"]);
            for option in [
                "PidFile=none",
                "UsePAM=no",
                "StrictModes=no",
                "PermitRootLogin=prohibit-password",
                &format!("HostKey={dir}/host"),
                &format!("AuthorizedKeysFile={allowed}"),
            ] {
                sshd.args(["-o", option]);
            }
            start(&mut sshd)
        };
        let daemons = hosts.iter().map(|n| daemon(*n)).collect();
        let ssh = Ssh {
            net,
            hosts,
            _daemons: daemons,
        };
        wait_until("an sshd listens on each host", || {
            ssh.hosts.iter().all(|n| ssh.listens(*n))
        });
        ssh
    }

    fn listens(&self, n: usize) -> bool {
        let out = self.net.on(n, "cat").arg("/proc/net/tcp").output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut lines = text.lines();
        lines.any(|line| line.contains(":0016 00000000:0000 0A"))
    }

    /// Makes a host's sshd hang.
    pub(crate) fn stop(&self, n: usize) {
        let (stopped, said) = shell(&format!("kill -STOP {}", self.net.pids(n)));
        assert!(stopped, "{said}");
    }

    /// A command of the doctor's on the login node, which is the first host. It reports as JSON.
    pub(crate) fn doctor(&self, words: &[&str]) -> Command {
        let dir = self.net.dir().display();
        let mut command = self.net.on(1, doctor());
        command.args(words).args(["--format", "json"]);
        if !words.contains(&"--remote") {
            command.args(["--remote", &format!("{dir}/bin/rdma-doctor")]);
        }
        command.env("RDMA_DOCTOR_SSH", format!("ssh -F {dir}/config"));
        command
    }
}
