//! The digest of a log: relevant lines verbatim with their number of occurrences, and counts of the rest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::left_out::{self, LeftOut};
use crate::tool_output::{self, Block};
use crate::trace::Trace;

/// The digest of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Bytes that were read, after unpacking.
    pub bytes: u64,
    /// Lines that were read.
    pub lines: u64,
    /// Lines of each sort ([`super::message::MessageGroup::word`]).
    #[serde(default)]
    pub sorts: BTreeMap<String, u64>,
    /// The lines that were kept, in their order.
    #[serde(default)]
    pub kept: Vec<KeptLine>,
    /// The processes that wrote, in the order of their first lines.
    #[serde(default)]
    pub processes: Vec<Process>,
    /// Lines of channels that found no place among those kept, together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crowd: Vec<DroppedChannels>,
    /// Lines of each sort that found no place; channels among these are in `crowd`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Events that found no place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<DroppedEvents>,
    /// The outputs of other tools that are between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Block>,
    /// Lines that show the progress of the program around NCCL, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<super::sign::Sign>,
    /// What launchers say of the number of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<super::launch::Launch>,
    /// What ranks recorded of their collectives, where the file holds that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<Trace>>,
    /// What else there was no room for: processes, kinds of channels, outputs of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<LeftOut>,
    /// Why reading ended before the end of the file, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
}

impl Digest {
    /// Whether the file holds anything that can be judged: lines of NCCL or of a program around it,
    /// or an output of a tool that is read.
    pub fn is_recognised(&self) -> bool {
        let mut outputs = self.outputs.iter();
        !(self.kept.is_empty() && self.signs.is_empty() && self.launches.is_empty())
            || self.trace.is_some()
            || outputs.any(|block| block.tool() == "log" || tool_output::is_read(&block.argv))
    }

    /// Appends the digest of another file.
    pub fn join(&mut self, other: Digest) {
        let before = self.lines;
        self.bytes += other.bytes;
        self.lines += other.lines;
        for (all, more) in [
            (&mut self.sorts, other.sorts),
            (&mut self.left_out, other.left_out),
        ] {
            for (sort, count) in more {
                *all.entry(sort).or_default() += count;
            }
        }
        self.kept
            .extend(other.kept.into_iter().map(|kept| KeptLine {
                line: kept.line + before,
                last: kept.last + before,
                ..kept
            }));
        self.processes
            .extend(other.processes.into_iter().map(|process| Process {
                first: process.first + before,
                last: process.last + before,
                ..process
            }));
        self.crowd.extend(other.crowd);
        let uncounted = other.uncounted.into_iter().map(|of_class| DroppedEvents {
            line: of_class.line + before,
            last: of_class.last + before,
            ..of_class
        });
        self.uncounted.extend(uncounted);
        // Ranks write no other tool's output.
        self.outputs.extend(other.outputs);
        self.signs
            .extend(other.signs.into_iter().map(|sign| super::sign::Sign {
                line: sign.line + before,
                last: sign.last + before,
                ..sign
            }));
        self.launches.extend(other.launches);
        for more in other.not_read {
            left_out::add(&mut self.not_read, more);
        }
        self.broken_off = self.broken_off.take().or(other.broken_off);
    }
}

/// Events of one class beyond the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedEvents {
    /// Their class.
    pub class: String,
    /// The status that all of them have, if the class has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// How many there are.
    pub count: u64,
    /// The number of the first one's line.
    pub line: u64,
    /// The number of the last one's line.
    pub last: u64,
}

/// A line that was kept, for itself and for those that say the same. As JSON a list of its members: there are thousands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Members", into = "Members")]
pub struct KeptLine {
    /// Its number in the file, from 1.
    pub line: u64,
    /// The number of the last line with the same text.
    pub last: u64,
    /// How many there are.
    pub count: u64,
    /// By how many processes; at most [`super::gather::TOLD_APART`] are distinguished.
    pub processes: u64,
    /// The line from its beginning, or the part of a truncated or long one that holds the message.
    pub text: String,
}

type Members = (u64, u64, u64, u64, String);

impl From<Members> for KeptLine {
    fn from((line, last, count, processes, text): Members) -> Self {
        KeptLine {
            line,
            last,
            count,
            processes,
            text,
        }
    }
}

impl From<KeptLine> for Members {
    fn from(kept: KeptLine) -> Self {
        (kept.line, kept.last, kept.count, kept.processes, kept.text)
    }
}

/// A process that wrote lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The host, as NCCL writes it.
    pub host: String,
    /// The process.
    pub pid: u64,
    /// The CUDA device; absent if the thread had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// The number of its first line.
    pub first: u64,
    /// The number of its last line.
    pub last: u64,
    /// Lines of level INFO.
    #[serde(default)]
    pub info: u64,
    /// Lines of level WARN.
    #[serde(default)]
    pub warnings: u64,
}

/// Channels beyond the limit, counted by their common properties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DroppedChannels {
    /// The host that wrote.
    pub host: String,
    /// `p2p`, `shm`, `net`, `collnet`.
    pub transport: String,
    /// The network, or the transport's own words.
    pub kind: String,
    /// Whether the receivers wrote.
    pub receives: bool,
    /// Whether GPUDirect RDMA is used.
    pub gdr: bool,
    /// How many lines.
    pub count: u64,
}
