//! Hosts on one wire, made of network namespaces: each with its own name, address, packet filter, /etc/hosts, boot id and, where it is wanted,
//! RDMA devices in its /sys. What is made is taken away again, with all that still runs in it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::namespaces::{self, shell};
use crate::place::{Scratch, unique};
use crate::process::{PATIENT, Process};

/// Whether hosts can be made here, and these tools are there; says why not.
pub(crate) fn can_run(tools: &[&str]) -> bool {
    let tools = [&["unshare", "mount"], tools].concat();
    namespaces::can_run("tests with namespaces as hosts", &tools, "true")
}

/// `enter HOST PROGRAM…`: a program on a host. `ip netns exec` gives it a /sys of that network.
const ENTER: &str = r#"exec ip netns exec "$id-$1" unshare --uts --mount bash -c '
    dir=$1 host=$2 n=${2#n}; shift 2; hostname "$host"
    mount --bind "$dir/hosts" /etc/hosts && mount --bind "$dir/boot$n" /proc/sys/kernel/random/boot_id || exit 125
    [ ! -d "$dir/sys$n" ] || mount -t overlay overlay -o "lowerdir=$dir/sys$n:/sys" /sys || exit 125
    [ ! -e "$dir/mounts" ] || . "$dir/mounts"
    exec "$@"' _ "$dir" "$@"
"#;

/// Hosts n1, n2, … on a bridge, at 10.77.0.1, 10.77.0.2, …
pub(crate) struct BridgedHosts {
    id: String,
    count: usize,
    dir: Scratch,
}

impl BridgedHosts {
    pub(crate) fn new(count: usize) -> Self {
        let id = unique("rd");
        let dir = Scratch::new("net");
        let net = BridgedHosts { id, count, dir };
        let BridgedHosts { id, dir, .. } = &net;
        let hosts: String = (1..=count).map(|n| format!("10.77.0.{n} n{n}\n")).collect();
        std::fs::write(dir.join("hosts"), format!("127.0.0.1 localhost\n{hosts}")).unwrap();
        for n in 1..=count {
            // Each is a machine of its own, which its boot id says.
            let boot = format!("{n:08x}-0000-4000-8000-{:012x}\n", std::process::id());
            std::fs::write(dir.join(format!("boot{n}")), boot).unwrap();
        }
        let enter = dir.join("enter");
        std::fs::write(
            &enter,
            format!("#!/bin/bash\nid={id} dir={}\n{ENTER}", dir.display()),
        )
        .unwrap();
        std::fs::set_permissions(&enter, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (done, said) = shell(&format!(
            "set -e; ip netns add {id}
            ip -n {id} link add br0 type bridge; ip -n {id} link set br0 mtu 9000 up
            for n in $(seq {count}); do
                ip netns add {id}-n$n
                printf '%s\\n' \"link add v$n mtu 9000 type veth peer name eth0 mtu 9000 netns {id}-n$n\" \"link set v$n master br0 up\" | ip -n {id} -batch -
                printf '%s\\n' 'link set lo up' \"addr add 10.77.0.$n/24 dev eth0\" 'link set eth0 up' | ip -n {id}-n$n -batch -
            done"
        ));
        assert!(done, "{said}");
        net
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A program on a host, numbered from 1, where the hosts have each other's names.
    pub(crate) fn on(&self, n: usize, program: &str) -> Command {
        assert!((1..=self.count).contains(&n));
        let mut command = Command::new(self.dir.join("enter"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args([&format!("n{n}"), program])
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", format!("{path}:/usr/sbin:/usr/bin:/sbin:/bin"));
        command
    }

    /// Whether a script succeeds in a host's network.
    pub(crate) fn succeeds(&self, n: usize, script: &str) -> bool {
        let script = quoted(script);
        shell(&format!("ip netns exec {}-n{n} bash -c {script}", self.id)).0
    }

    /// A script in a host's network.
    pub(crate) fn shell(&self, n: usize, script: &str) {
        let (done, said) = shell(&format!(
            "ip netns exec {}-n{n} bash -ec {}",
            self.id,
            quoted(script)
        ));
        assert!(done, "{said}");
    }

    /// Drops what goes to a host and matches, between it and the bridge: no host has a rule for it.
    pub(crate) fn drops_on_the_wire(&self, n: usize, rule: &str) {
        let id = &self.id;
        let (done, said) = shell(&format!(
            "set -e; nft='ip netns exec {id} nft'; $nft add table bridge f
            $nft add chain bridge f c '{{ type filter hook forward priority 0; }}'
            $nft {}",
            quoted(&format!("add rule bridge f c oifname v{n} {rule} drop"))
        ));
        assert!(done, "{said}");
    }

    /// Gives a host a port of RoCE over its eth0, with an address of this type: files that are laid over its /sys.
    pub(crate) fn roce_port(&self, n: usize, kind: &str) {
        let gid = format!("0000:0000:0000:0000:0000:ffff:0a4d:{n:04x}\n");
        let guid = format!("ba3f:d203:00c0:{n:04x}\n");
        for (path, text) in [
            ("node_type", "1: CA\n"),
            ("node_guid", &guid),
            ("hca_type", "MT4129\n"),
            ("fw_ver", "28.39.1002\n"),
            ("board_id", "MT_0000000838\n"),
            ("ports/1/state", "4: ACTIVE\n"),
            ("ports/1/phys_state", "5: LinkUp\n"),
            ("ports/1/link_layer", "Ethernet\n"),
            ("ports/1/rate", "400 Gb/sec (4X NDR)\n"),
            ("ports/1/lid", "0x0\n"),
            ("ports/1/sm_lid", "0x0\n"),
            ("ports/1/pkeys/0", "0xffff\n"),
            ("ports/1/gids/0", &gid),
            ("ports/1/gid_attrs/types/0", kind),
            ("ports/1/gid_attrs/ndevs/0", "eth0\n"),
        ] {
            let device = self.dir.join(format!("sys{n}/class/infiniband/mlx5_0"));
            let path = device.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    /// The processes that run on a host.
    pub(crate) fn pids(&self, n: usize) -> String {
        let (_, pids) = shell(&format!("ip netns pids {}-n{n}", self.id));
        pids.replace('\n', " ")
    }

    /// What still runs on the hosts: the host's number, and the process.
    pub(crate) fn running(&self) -> Vec<(usize, Process)> {
        let of_host = |n: usize| {
            let pids = self.pids(n);
            let pids = pids.split_whitespace();
            let all = pids.filter_map(|pid| Process::of(pid.parse().ok()?));
            all.map(move |process| (n, process)).collect::<Vec<_>>()
        };
        (1..=self.count).flat_map(of_host).collect()
    }

    /// Waits until nothing runs on the hosts but programs whose names begin so: what was just killed may take a moment.
    pub(crate) fn nothing_is_left_but(&self, daemons: &str) {
        let left = || {
            let mut left = self.running();
            left.retain(|(_, process)| daemons.is_empty() || !process.program.starts_with(daemons));
            left
        };
        let begun = Instant::now();
        while !left().is_empty() {
            assert!(begun.elapsed() < PATIENT, "{:?}", left());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until nothing runs on the hosts.
    pub(crate) fn nothing_is_left(&self) {
        self.nothing_is_left_but("");
    }
}

impl Drop for BridgedHosts {
    fn drop(&mut self) {
        let BridgedHosts { id, count, .. } = self;
        shell(&format!(
            "for n in $(seq {count}); do kill -9 $(ip netns pids {id}-n$n) 2>/dev/null; ip netns del {id}-n$n; done; ip netns del {id}"
        ));
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
