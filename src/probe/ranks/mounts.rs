//! The mounts that a process sees which waits for files, and how their servers stand.

use std::collections::BTreeMap;

use super::look::{Connection, Connections};
use super::standing::Rank;
use super::wait::Wait;
use crate::fact::Bytes;
use crate::probe::Ask;
use crate::source::Question;

/// The mounts that each process which waits for files sees.
#[derive(Default)]
pub(super) struct Mounts(BTreeMap<u32, Vec<Mount>>);

/// A mount.
pub(super) struct Mount {
    /// The numbers of its device, which name it without saying where it is.
    device: String,
    point: String,
    file_system: String,
    source: String,
}

impl Mounts {
    /// Asks for those of ranks that wait for files.
    pub(super) fn read(ask: &Ask<'_>, ranks: &[Rank]) -> Self {
        let mut all = Mounts::default();
        for pid in ranks.iter().flat_map(Rank::pids_at_files) {
            let text = ask.text(format!("/proc/{pid}/mountinfo"));
            let mounts = text
                .known()
                .map(|text| text.lines().filter_map(mount).collect());
            all.0.insert(pid, mounts.unwrap_or_default());
        }
        all
    }

    /// The mount that a process waits for, in words: `/data (nfs4 of 10.0.0.9:/data)`.
    pub(super) fn describe(&self, pid: u32, wait: &Wait) -> Option<String> {
        let found = self.candidates(pid, wait)?;
        match found.as_slice() {
            [] => None,
            [one] => Some(format!(
                "{} ({} of {})",
                one.point, one.file_system, one.source
            )),
            _ => Some(format!("a mount of {}", wait.file_system?)),
        }
    }

    /// That mount, where it is one.
    pub(super) fn of(&self, pid: u32, wait: &Wait) -> Option<&Mount> {
        match self.candidates(pid, wait)?.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The mount of the path that the process waits for, or those of the kind of file system whose functions it waits in.
    fn candidates(&self, pid: u32, wait: &Wait) -> Option<Vec<&Mount>> {
        let mounts = self.0.get(&pid)?;
        let path = wait.target.as_deref().filter(|path| path.starts_with('/'));
        let found = match path {
            Some(path) => mounts
                .iter()
                .filter(|mount| is_below(path, &mount.point))
                .max_by_key(|mount| mount.point.len())
                .into_iter()
                .collect(),
            None => {
                let kind = wait.file_system?;
                mounts.iter().filter(|mount| mount.is_of(kind)).collect()
            }
        };
        Some(found)
    }
}

impl Mount {
    /// The mounts of the control file system of FUSE are none that a file is read from.
    fn is_of(&self, kind: &str) -> bool {
        self.file_system.starts_with(kind) && self.file_system != "fusectl"
    }

    /// How the connection with its server stands, where it has one over TCP: `the server 10.0.0.9:2049 does not acknowledge 312 B, sent again 6 times`.
    pub(super) fn server(&self, ask: &Ask<'_>, pid: u32) -> Option<String> {
        let question = Question::call(
            "rank_server",
            [
                ("pid", u64::from(pid).into()),
                ("device", self.device.as_str().into()),
            ],
        );
        let found = ask.read::<Connections>(question);
        let sockets = &found.known()?.sockets;
        let is_open =
            |one: &&Connection| one.timer == 1 && (one.unacknowledged > 0 || one.retransmits > 0);
        let worst = sockets
            .iter()
            .filter(is_open)
            .max_by_key(|one| one.retransmits);
        if let Some(one) = worst {
            let what = match one.unacknowledged {
                0 => "a request to connect".to_owned(),
                bytes => Bytes(bytes).to_string(),
            };
            let times = match one.retransmits {
                1 => "once".to_owned(),
                many => format!("{many} times"),
            };
            return Some(format!(
                "the server {} does not acknowledge {what}, sent again {times}",
                one.peer
            ));
        }
        let one = sockets.first()?;
        Some(format!(
            "the server {} acknowledges what was sent to it, and does not answer",
            one.peer
        ))
    }
}

fn is_below(path: &str, point: &str) -> bool {
    let rest = path.strip_prefix(point.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A line of proc_pid_mountinfo(5).
fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let file_system = right.next()?;
    let left: Vec<&str> = left.split(' ').collect();
    Some(Mount {
        device: (*left.get(2)?).to_owned(),
        point: left.get(4)?.replace("\\040", " "),
        file_system: file_system.to_owned(),
        source: right.next()?.to_owned(),
    })
}
