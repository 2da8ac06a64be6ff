//! The processes that wrote, by host, process and device.

use std::collections::HashMap;

use super::kept_lines::{Hashed, hash};
use crate::left_out::LeftOut;
use crate::nccl_log::digest::Process;
use crate::nccl_log::prefix::{LogLevel, LogWriter};

/// The processes, in the order of their first lines.
#[derive(Default)]
pub(super) struct Writers {
    most: usize,
    all: Vec<Process>,
    by_key: HashMap<u64, u32, Hashed>,
    /// Lines of processes for which there was no room.
    lines_of_others: u64,
}

impl Writers {
    /// None yet, and so many at most.
    pub(super) fn within(most: usize) -> Self {
        Writers {
            most,
            ..Writers::default()
        }
    }

    /// Whether nobody wrote yet.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The process's number, and whether it is new; `None` if there are too many.
    pub(super) fn count(
        &mut self,
        line: u64,
        level: LogLevel,
        writer: LogWriter<'_>,
    ) -> Option<(u32, bool)> {
        let key = hash(&(writer.host, writer.pid, writer.device));
        let (number, is_new) = match self.by_key.get(&key) {
            Some(number) => (*number, false),
            None if self.all.len() >= self.most => {
                self.lines_of_others += 1;
                return None;
            }
            None => {
                let number = u32::try_from(self.all.len()).ok()?;
                self.all.push(Process {
                    host: String::from_utf8_lossy(writer.host).into_owned(),
                    pid: writer.pid,
                    device: writer.device,
                    first: line,
                    last: line,
                    info: 0,
                    warnings: 0,
                });
                self.by_key.insert(key, number);
                (number, true)
            }
        };
        let process = self.all.get_mut(number as usize)?;
        process.last = line;
        match level {
            LogLevel::Info => process.info += 1,
            LogLevel::Warn => process.warnings += 1,
            LogLevel::Version | LogLevel::Other => {}
        }
        Some((number, is_new))
    }

    /// The lines whose processes are not told apart.
    pub(super) fn left_out(&self) -> LeftOut {
        let why = format!("of processes beyond the first {}", self.most);
        LeftOut::counted(self.lines_of_others, "line", why)
    }

    /// All of them.
    pub(super) fn finish(self) -> Vec<Process> {
        self.all
    }
}
