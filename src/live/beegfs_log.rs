//! The last lines about connections in the log of BeeGFS's client, read from the end of a file that may be huge.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use rustix::io::Errno as Sys;
use serde_json::{Value, json};

use super::files::{Root, open_regular};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// Bytes that are read from the end.
const TAIL: u64 = 1 << 20;
/// How many lines are reported, the last ones.
const LINES: usize = 256;
/// The most characters of a reported line.
const LENGTH: usize = 200;
/// Texts of the reported lines (client_module/source/common/nodes/NodeConnPool.c).
const MARKS: [&str; 2] = ["Connected: beegfs-", "Connect failed"];

/// `{"call":"beegfs_log","file":PATH}` → `{"whole":true,"age":12,"last":"May24 11:56:05","lines":[{"at":"May24 11:56:05","said":"Connected: …"}]}`;
/// `age` is how many seconds ago the file was written, null for a copied tree. The process that logged a line is left out.
pub(super) fn ask(root: Option<&Root>, call: &Call) -> Result<Answer, Refusal> {
    let path = call.text("file").unwrap_or("");
    let errno = |e: Sys| Refusal::Errno(Errno(e.raw_os_error()));
    let failed = |e: std::io::Error| Refusal::Errno(Errno::from(&e));
    let fd = open_regular(root, path)?;
    let stat = rustix::fs::fstat(&fd).map_err(errno)?;
    let mut file = std::fs::File::from(fd);
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let start = size.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).map_err(failed)?;
    let mut value = last_connection_lines(&String::from_utf8_lossy(&bytes), start == 0);
    if let Some(value) = value.as_object_mut() {
        let age = root.is_none().then(|| now().saturating_sub(stat.st_mtime));
        value.insert("age".into(), age.map(|age| age.max(0)).into());
    }
    Ok(Answer::Value(Arc::new(value)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the age of a file counts from now"
)]
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0))
}

fn last_connection_lines(text: &str, from_start: bool) -> Value {
    // The first line of a tail is a piece of one.
    let text = match from_start {
        true => text,
        false => text.split_once('\n').map_or("", |(_, rest)| rest),
    };
    let found = |line| -> Option<Value> {
        let at = MARKS
            .iter()
            .filter_map(|mark| str::find(line, mark))
            .min()?;
        let said: String = line.get(at..)?.trim_end().chars().take(LENGTH).collect();
        Some(json!({ "at": clock(line), "said": said }))
    };
    let mut lines: Vec<Value> = text
        .lines()
        .rev()
        .filter_map(found)
        .take(LINES + 1)
        .collect();
    let all = lines.len() <= LINES;
    lines.truncate(LINES);
    lines.reverse();
    let last = text.lines().rev().find_map(clock);
    json!({ "whole": from_start && all, "last": last, "lines": lines })
}

/// When a line was written: `(3) May24 11:56:05 Main [App] >> …`; without the day where logNoDate is set.
fn clock(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('(')?.split_once(") ")?.1;
    let is_clock = |word: &str| word.len() == 8 && word.bytes().filter(|b| *b == b':').count() == 2;
    let (day, after) = rest.split_once(' ')?;
    if is_clock(day) {
        return Some(day);
    }
    let clock = after.split(' ').next()?;
    let end = day.len() + 1 + clock.len();
    (is_clock(clock) && day.len() <= 6)
        .then(|| rest.get(..end))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_are_reported() {
        let value = last_connection_lines(
            "of the first\n(1) Nov20 09:00:00 mount(811) [App] >> Version: 7.4.5\n\
             (3) Nov20 09:00:01 *beegfs_XNodeSyn(812) [1A2-65F0-node7: NodeConn (acquire stream)] >> Connected: beegfs-mgmtd@10.0.0.2:8008 (protocol: TCP)\n\
             (3) 09:00:02 dd(99) [NodeConn (acquire stream)] >> Connect failed: beegfs-storage@10.0.0.3:8003 (protocol: RDMA)\n\
             (2) Nov21 10:00:00 x(1) [y] >> é\n\n",
            false,
        );
        assert_eq!(
            value,
            json!({
                "whole": false,
                "last": "Nov21 10:00:00",
                "lines": [
                    { "at": "Nov20 09:00:01", "said": "Connected: beegfs-mgmtd@10.0.0.2:8008 (protocol: TCP)" },
                    { "at": "09:00:02", "said": "Connect failed: beegfs-storage@10.0.0.3:8003 (protocol: RDMA)" },
                ],
            })
        );
    }

    #[test]
    fn many_lines_are_bounded() {
        let line = "(3) Nov20 09:00:01 x(1) [y] >> Connected: beegfs-meta@10.0.0.2:8005 (protocol: RDMA)\n";
        let value = last_connection_lines(&line.repeat(LINES + 1), true);
        assert_eq!(value["lines"].as_array().map(Vec::len), Some(LINES));
        assert_eq!(value["whole"], json!(false));
        assert_eq!(
            last_connection_lines("", true),
            json!({ "whole": true, "last": null, "lines": [] })
        );
    }
}
