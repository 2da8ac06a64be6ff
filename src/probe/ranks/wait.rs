//! What a process waits for, in words and by kind.

use super::look::{Connection, Look, Thread};
use super::mounts::Mounts;

/// What a process waits for, as far as it tells ranks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitKind {
    /// For nothing: it runs.
    Runs,
    /// For a socket, or several files at once: a peer, as ranks do.
    Peer,
    /// For another thread: behind it may be a peer.
    Thread,
    /// For time to pass.
    Time,
    /// For a pipe or a FIFO.
    Pipe,
    /// For a process below it.
    Child,
    /// For a file system.
    Files,
    /// For the disk, with what it wrote before.
    Flush,
    /// For something else.
    Other,
    /// The kernel does not tell this user.
    Unknown,
}

impl WaitKind {
    /// Whether no other rank can end the wait.
    pub(super) fn is_own(self) -> bool {
        matches!(
            self,
            WaitKind::Time | WaitKind::Pipe | WaitKind::Child | WaitKind::Files | WaitKind::Other
        )
    }
}

/// What a process waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) kind: WaitKind,
    /// What ranks that wait alike have in common: `recv`, `futex`.
    pub(super) place: String,
    /// The socket, the file or the pipe.
    pub(super) target: Option<String>,
    /// The file system that the kernel's functions belong to.
    pub(super) file_system: Option<&'static str>,
    in_freezer: bool,
}

/// Beginnings of functions of file systems, and the types of mounts that these are.
const FILE_SYSTEMS: [(&[&str], &str); 8] = [
    (
        &["nfs_", "nfs3_", "nfs4_", "rpc_wait", "__rpc_", "rpc_"],
        "nfs",
    ),
    (&["fuse_", "request_wait_answer", "__fuse_"], "fuse"),
    (
        &["ll_", "cl_", "lov_", "osc_", "ldlm_", "ptlrpc_", "mdc_"],
        "lustre",
    ),
    (&["cifs_", "smb2_", "smb_", "compound_send_recv"], "cifs"),
    (&["ceph_"], "ceph"),
    (&["Fhgfs", "fhgfs"], "beegfs"),
    (&["gpfs", "mmfs", "cxiWait"], "gpfs"),
    (&["v9fs_", "p9_"], "9p"),
];

/// Functions in which a process waits for a pipe, or for another end of a FIFO.
const PIPES: [&str; 4] = ["pipe_", "anon_pipe_", "wait_for_partner", "fifo_"];

/// Functions in which a process waits whose control group is frozen.
const FREEZERS: [&str; 3] = ["__refrigerator", "do_freezer_trap", "cgroup_freez"];

impl Wait {
    /// What this process waits for, by its main thread.
    pub(super) fn read(look: &Look) -> Self {
        match look.main() {
            Some(main) => Self::of_thread(main),
            None => Self::plain(WaitKind::Unknown, "nothing that is known"),
        }
    }

    pub(super) fn plain(kind: WaitKind, place: &str) -> Self {
        Wait {
            kind,
            place: place.to_owned(),
            target: None,
            file_system: None,
            in_freezer: false,
        }
    }

    pub(super) fn of_thread(thread: &Thread) -> Self {
        if &*thread.state == "R" {
            return Self::plain(WaitKind::Runs, "");
        }
        let call = thread.call.as_deref();
        let Some(place) = call.or(thread.waits_in.as_deref()) else {
            return Self::plain(WaitKind::Unknown, "nothing that the kernel tells this user");
        };
        let functions = thread.waits_in.iter().chain(&thread.stack);
        let functions: Vec<&str> = functions.map(|function| &**function).collect();
        let begins = |names: &[&str]| {
            functions
                .iter()
                .any(|function| names.iter().any(|name| function.starts_with(name)))
        };
        let found = FILE_SYSTEMS.iter().find(|(names, _)| begins(names));
        let file_system = found.map(|(_, file_system)| *file_system);
        let file = thread.file.as_deref();
        let is_socket = file.is_some_and(|file| file.starts_with("socket:"));
        let waits_on_disk = &*thread.state == "D" && !is_socket;
        let kind = match place {
            "fsync" => WaitKind::Flush,
            _ if begins(&PIPES) => WaitKind::Pipe,
            _ if file_system.is_some() || waits_on_disk => WaitKind::Files,
            "recv" | "send" | "connect" | "accept" | "poll" | "select" | "epoll_wait" => {
                WaitKind::Peer
            }
            "read" | "write" if is_socket => WaitKind::Peer,
            "futex" => WaitKind::Thread,
            "nanosleep" | "pause" | "sigwait" => WaitKind::Time,
            "wait4" => WaitKind::Child,
            place => by_function(place),
        };
        Wait {
            kind,
            place: place.to_owned(),
            target: file.map(str::to_owned),
            file_system,
            in_freezer: begins(&FREEZERS),
        }
    }

    /// Whether its control group is frozen, where that cannot be read.
    pub(super) fn is_frozen(&self) -> bool {
        self.in_freezer
    }

    /// `runs`, `sleeps`, `waits in recv`
    pub(super) fn in_short(&self) -> String {
        match self.kind {
            WaitKind::Runs => "runs".to_owned(),
            WaitKind::Time => "sleeps".to_owned(),
            WaitKind::Unknown => "is not told".to_owned(),
            _ => format!("waits in {}", self.place),
        }
    }

    /// `sleeps (nanosleep)`, `waits in recv from 10.0.0.2:29500`, `waits to read /data/fifo`
    pub(super) fn in_words(&self, sockets: &[Connection], mounts: &Mounts, pid: u32) -> String {
        let place = &self.place;
        let target = self.target.as_deref();
        match self.kind {
            WaitKind::Runs => "runs".to_owned(),
            WaitKind::Time => format!("sleeps ({place})"),
            WaitKind::Thread => format!("waits for another thread ({place})"),
            WaitKind::Child => format!("waits for a process below it ({place})"),
            WaitKind::Unknown => format!("waits for {place}"),
            WaitKind::Other => match target {
                Some(target) => format!("waits in {place} of {target}"),
                None => format!("waits in {place}"),
            },
            WaitKind::Peer => match socket(sockets, target) {
                Some(one) => format!("waits in {place} of the connection with {}", one.peer),
                None => format!("waits in {place}"),
            },
            WaitKind::Pipe => match target.filter(|target| target.starts_with('/')) {
                Some(path) => format!("waits to {place} {path} (FIFO)"),
                None if place == "open" => "waits to open a FIFO".to_owned(),
                None => format!("waits to {place} a pipe"),
            },
            WaitKind::Files | WaitKind::Flush => {
                let mount = mounts.describe(pid, self);
                match (target.filter(|target| target.starts_with('/')), mount) {
                    (Some(path), Some(mount)) => format!("waits in {place} of {path} on {mount}"),
                    (Some(path), None) => format!("waits in {place} of {path}"),
                    (None, Some(mount)) => format!("waits in {place} on {mount}"),
                    (None, None) => format!("waits in {place} for a file system"),
                }
            }
        }
    }
}

/// The kind of a function of the kernel, where the call is withheld or unknown.
fn by_function(function: &str) -> WaitKind {
    let kinds: [(&[&str], WaitKind); 5] = [
        (&["futex_"], WaitKind::Thread),
        (
            &["hrtimer_", "do_nanosleep", "sigsuspend", "do_sigtimedwait"],
            WaitKind::Time,
        ),
        (
            &[
                "sk_",
                "wait_woken",
                "unix_stream",
                "inet_",
                "tcp_",
                "ep_",
                "do_epoll",
                "poll_",
                "do_sys_poll",
                "do_select",
            ],
            WaitKind::Peer,
        ),
        (&["do_wait", "kernel_wait"], WaitKind::Child),
        (&["ib_uverbs_", "nvidia", "nv_", "uvm_"], WaitKind::Peer),
    ];
    let found = kinds
        .iter()
        .find(|(names, _)| names.iter().any(|name| function.starts_with(name)));
    found.map_or(WaitKind::Other, |(_, kind)| *kind)
}

/// The connection that a descriptor leads to.
fn socket<'c>(sockets: &'c [Connection], target: Option<&str>) -> Option<&'c Connection> {
    let inode = target?.strip_prefix("socket:[")?.strip_suffix(']')?;
    let inode: u64 = inode.parse().ok()?;
    sockets.iter().find(|one| one.inode == inode)
}
