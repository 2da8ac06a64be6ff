//! The logs of a directory, as launchers leave them: torchrun has one below `attempt_0/RANK/`, Kubernetes one below each pod, and core dumps and
//! checkpoints lie beside them.

#![expect(clippy::disallowed_methods, reason = "an input named by the user")]

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{is_recording, utf16};
use crate::live::files::open_input;
use crate::live::packed::is_packed;
use crate::small_sort;
use crate::trace::is_binary_trace;

/// How deep directories are looked into.
const DEPTH: usize = 16;
/// Why what lies deeper is not read.
pub(in crate::live) const DEPTH_BOUND: &str = "more than 16 directories deep";
/// Bytes of a file that tell what it is.
const HEAD: usize = 4096;

/// What lies in a directory and below it, each sorted by its path. No link to a directory is followed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::live) struct FoundFiles {
    /// Files to read: text, whatever its name, plain or compressed.
    pub(in crate::live) logs: Vec<PathBuf>,
    /// Core dumps, programs, checkpoints: they hold whatever was in memory, and no log.
    pub(super) no_text: Vec<PathBuf>,
    /// Recordings of this program.
    pub(in crate::live) recordings: Vec<PathBuf>,
    /// Directories that lie too deep to be looked into.
    pub(in crate::live) too_deep: u64,
}

impl FoundFiles {
    /// Looks below a directory; `None` if the path is of a file.
    ///
    /// # Errors
    ///
    /// A directory that cannot be listed, with its path.
    pub(in crate::live) fn below(path: &Path) -> Result<Option<Self>, (PathBuf, io::Error)> {
        if !path.is_dir() {
            return Ok(None);
        }
        let mut found = FoundFiles::default();
        found.scan(path, DEPTH)?;
        for list in [&mut found.logs, &mut found.no_text, &mut found.recordings] {
            small_sort::by(list, Ord::cmp);
        }
        Ok(Some(found))
    }

    fn scan(&mut self, directory: &Path, depth: usize) -> Result<(), (PathBuf, io::Error)> {
        let at = |error| (directory.to_owned(), error);
        for entry in std::fs::read_dir(directory).map_err(at)? {
            let entry = entry.map_err(at)?;
            let path = entry.path();
            if entry.file_type().map_err(at)?.is_dir() {
                match depth {
                    0 => self.too_deep += 1,
                    _ => self.scan(&path, depth - 1)?,
                }
            } else if path.is_file() {
                // A file that cannot be opened counts as a log, because its content is unknown.
                let list = match head(&path) {
                    Ok(head) if !is_text(&head) && !is_binary_trace(&head) => &mut self.no_text,
                    Ok(_) if is_recording(&path) => &mut self.recordings,
                    _ => &mut self.logs,
                };
                list.push(path);
            }
        }
        Ok(())
    }
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    open_input(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a file that begins so can be a log. NUL alone is nothing against it: a log that was cut while it was written begins with a hole.
pub(in crate::live) fn is_text(head: &[u8]) -> bool {
    if is_packed(head) || utf16::is_marked(head) {
        return true;
    }
    // safetensors: the length of a header as 64 bits, then the header, which is JSON.
    let is_safetensors = head.get(6..9) == Some(b"\0\0{");
    let said = head.iter().filter(|byte| **byte != 0).count();
    let is_control = |byte: &&u8| {
        let is_of_text = matches!(byte, 0x07..=0x0d | 0x1b);
        **byte < 0x20 && **byte != 0 && !is_of_text
    };
    let controls = head.iter().filter(is_control).count();
    // A terminal's escapes have few others; a program or a dump has them everywhere.
    let is_binary = head.contains(&0) && controls * 20 > said;
    let is_archive = head.starts_with(b"PK\x03\x04") || head.starts_with(b"\x7fELF");
    !(is_safetensors || is_binary || is_archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_by_its_beginning() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let mut safetensors = 1234u64.to_le_bytes().to_vec();
        safetensors.extend(b"{\"__metadata__\":{\"format\":\"pt\"}}");
        let dump: Vec<u8> = (0..4096u32).map(|n| (n * n / 7) as u8).collect();
        for head in [&program[..HEAD], &safetensors, b"PK\x03\x04\0\0", &dump] {
            assert!(!is_text(head), "{head:?}");
        }
        let mut hole = vec![0; 3000];
        hole.extend(b"n1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n");
        for head in [
            b"".as_slice(),
            b"n1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n",
            b"\x1b[32mINFO\x1b[0m\tstep 1\r\n\x07",
            &hole,
            &[0; 4096],
            &[0x1f, 0x8b, 8, 0, 1, 2, 3, 4],
            b"\xff\xfen\x001\x00",
            "größer als \u{1f600}\n".as_bytes(),
        ] {
            assert!(is_text(head), "{head:?}");
        }
    }

    #[test]
    fn a_launchers_tree_is_looked_through_and_no_link_to_a_directory() {
        let dir = std::env::temp_dir().join(format!("rdma-doctor-logs-{}", std::process::id()));
        let rank = dir.join("attempt_0/1");
        std::fs::create_dir_all(&rank).unwrap();
        std::fs::write(rank.join("stdout.log"), "n1:7:7 [0] NCCL INFO x\n").unwrap();
        std::fs::write(dir.join("slurm.out"), "").unwrap();
        std::fs::write(dir.join("core.7"), b"\x7fELF\x02\x01\x01\0\0").unwrap();
        std::fs::write(dir.join("n1.jsonl"), "{\"rdma-doctor-recording\":1}\n").unwrap();
        std::os::unix::fs::symlink(&dir, dir.join("attempt_0/up")).unwrap();
        let found = FoundFiles::below(&dir).unwrap().unwrap();
        let file = FoundFiles::below(&dir.join("slurm.out")).unwrap();
        let none = FoundFiles::below(&dir.join("none")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(
            found,
            FoundFiles {
                logs: vec![rank.join("stdout.log"), dir.join("slurm.out")],
                no_text: vec![dir.join("core.7")],
                recordings: vec![dir.join("n1.jsonl")],
                too_deep: 0,
            }
        );
        assert_eq!((file, none), (None, None));
    }
}
