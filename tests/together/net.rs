//! Hosts on one wire, made of network namespaces: each with its own name, address, packet filter, /etc/hosts, boot id and, where it is wanted,
//! RDMA devices in its /sys. What is made is taken away again, with all that still runs in it.

#[path = "../shared/namespaces.rs"]
pub(crate) mod namespaces;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use namespaces::{shell, unique};

/// The doctor: this build, or the one that `RDMA_DOCTOR_BINARY` names.
pub(crate) fn doctor() -> String {
    let named = std::env::var("RDMA_DOCTOR_BINARY").ok();
    let named = named.filter(|name| !name.is_empty());
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_rdma-doctor").to_owned())
}

/// Whether hosts can be made here, and these tools are there; says why not.
pub(crate) fn can_run(tools: &[&str]) -> bool {
    let tools = [&["unshare", "mount"], tools].concat();
    namespaces::can_run("tests with namespaces as hosts", &tools, "true")
}

/// An empty directory of a test's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique(name));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
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
pub(crate) struct Net {
    id: String,
    count: usize,
    dir: PathBuf,
}

impl Net {
    pub(crate) fn new(count: usize) -> Self {
        let id = unique("rd");
        let dir = scratch("net");
        let net = Net { id, count, dir };
        let Net { id, dir, .. } = &net;
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

    /// A script in a host's network.
    pub(crate) fn shell(&self, n: usize, script: &str) {
        let (done, said) = shell(&format!(
            "ip netns exec {}-n{n} bash -ec {}",
            self.id,
            quoted(script)
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

    /// What still runs in the hosts.
    pub(crate) fn running(&self) -> Vec<String> {
        let mut all = Vec::new();
        for n in 1..=self.count {
            let (_, pids) = shell(&format!(
                "for p in {}; do tr '\\0' ' ' </proc/$p/cmdline; echo; done",
                self.pids(n)
            ));
            let words = pids.lines().map(str::trim).filter(|line| !line.is_empty());
            all.extend(words.map(|line| format!("n{n}: {line}")));
        }
        all
    }

    /// Says that all has ended: what was just killed may take a moment.
    pub(crate) fn nothing_is_left(&self) {
        let begun = Instant::now();
        loop {
            let left = self.running();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(2), "{left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let Net { id, count, .. } = self;
        shell(&format!(
            "for n in $(seq {count}); do kill -9 $(ip netns pids {id}-n$n) 2>/dev/null; ip netns del {id}-n$n; done; ip netns del {id}"
        ));
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A process that a test started, and ends where the test does not.
pub(crate) struct Running {
    child: Option<Child>,
}

/// Starts a process whose output is kept.
pub(crate) fn start(command: &mut Command) -> Running {
    use std::os::unix::process::CommandExt;
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    Running { child: Some(child) }
}

impl Running {
    pub(crate) fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        if let Some(child) = &self.child
            && let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed())
        {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// What it said, and how it ended; a failure where it does not end in time.
    pub(crate) fn ends(mut self, within: Duration) -> Ended {
        let begun = Instant::now();
        let child = self.child.take().unwrap();
        let pid = child.id();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(child.wait_with_output()));
        let Ok(out) = receive.recv_timeout(within) else {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
            panic!("still running after {within:?}");
        };
        Ended::of(out.unwrap(), begun.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) out: String,
    pub(crate) err: String,
    /// Its exit status; -1 where a signal ended it.
    pub(crate) status: i32,
    /// How long it was waited for.
    pub(crate) took: Duration,
}

impl Ended {
    fn of(out: Output, took: Duration) -> Self {
        Ended {
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
            status: out.status.code().unwrap_or(-1),
            took,
        }
    }

    /// Its report, which is JSON.
    pub(crate) fn report(&self) -> Report {
        let value = serde_json::from_str(&self.out);
        Report(value.unwrap_or_else(|e| panic!("{e}: {self:?}")))
    }
}

/// A report as JSON.
pub(crate) struct Report(pub(crate) serde_json::Value);

impl Report {
    /// What a check says of which nodes, where it fails: its sentence, and the nodes.
    pub(crate) fn finding(&self, check: &str) -> Option<(String, Vec<String>)> {
        let of = |list: &str| self.0[list].as_array().cloned().unwrap_or_default();
        let mut all = of("causes").into_iter().chain(of("notes"));
        let found = all.find(|finding| finding["check"] == check)?;
        let nodes = found["nodes"].as_array().cloned().unwrap_or_default();
        let nodes = nodes.iter().map(|n| n.as_str().unwrap().to_owned());
        let sentence = found["sentence"].as_str().unwrap().to_owned();
        Some((sentence, nodes.collect()))
    }

    /// The checks of clusters that fail, as errors or warnings.
    pub(crate) fn of_cluster(&self) -> Vec<String> {
        let causes = self.0["causes"].as_array().unwrap();
        let mut all = Vec::new();
        for cause in causes {
            all.push(cause["check"].as_str().unwrap().to_owned());
            for consequence in cause["consequences"].as_array().unwrap() {
                all.push(consequence["check"].as_str().unwrap().to_owned());
            }
        }
        all.retain(|check| check.starts_with("cluster/"));
        all.sort();
        all.dedup();
        all
    }

    /// The names of the nodes that were judged.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let nodes = self.0["nodes"].as_array().unwrap();
        let name = |node: &serde_json::Value| node["name"].as_str().unwrap().to_owned();
        nodes.iter().map(name).collect()
    }
}
