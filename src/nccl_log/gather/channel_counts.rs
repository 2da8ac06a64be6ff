//! Lines of channels: of two ranks there are many, most processes write them in a row, and a large job has more than are kept.

use std::collections::BTreeMap;

use super::kept_lines::hash;
use crate::left_out::LeftOut;
use crate::nccl_log::channel::{Channel, Transport};
use crate::nccl_log::digest::DroppedChannels;
use crate::nccl_log::message::MessageGroup;
use crate::nccl_log::prefix::LogWriter;

/// Kinds of channels that are told apart beyond those that are kept. Hosts and networks are few; a file that invents them for each line is not to
/// fill the memory.
const KINDS: usize = 4096;
const KINDS_BOUND: &str = "more than 4096 kinds of them";

/// The channel that a process told last, and how often it told the same since.
#[derive(Clone, Copy, Default)]
pub(super) struct RecentChannel {
    /// The hash of its words, without the channel's number.
    pub(super) words: u64,
    pub(super) identity: u64,
    pub(super) last: u64,
    pub(super) count: u64,
}

/// The channels of all processes.
#[derive(Default)]
pub(super) struct ChannelCounts {
    /// For each process.
    recent: Vec<RecentChannel>,
    dropped: BTreeMap<DroppedChannels, u64>,
    /// Lines of further kinds.
    uncounted: u64,
}

impl ChannelCounts {
    /// Whether the process told the same channel last; then it is counted.
    pub(super) fn is_recent(&mut self, process: Option<u32>, words: u64, number: u64) -> bool {
        let recent = process.and_then(|process| self.recent.get_mut(process as usize));
        match recent {
            Some(recent) if words != 0 && recent.words == words => {
                recent.last = number;
                recent.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Puts a channel in the place of the one that the process told last, and gives that.
    pub(super) fn replace(&mut self, process: u32, channel: RecentChannel) -> RecentChannel {
        let process = process as usize;
        if process >= self.recent.len() {
            self.recent.resize(process + 1, RecentChannel::default());
        }
        match self.recent.get_mut(process) {
            Some(recent) => std::mem::replace(recent, channel),
            None => RecentChannel::default(),
        }
    }

    /// The channels that processes told last.
    pub(super) fn recent(&mut self) -> Vec<RecentChannel> {
        std::mem::take(&mut self.recent)
    }

    /// Counts a channel that found no place.
    pub(super) fn drop_channel(&mut self, writer: Option<LogWriter<'_>>, channel: &Channel<'_>) {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let transport = match channel.transport {
            Transport::P2p => "p2p",
            Transport::Shm => "shm",
            Transport::Net => "net",
            Transport::CollNet => "collnet",
        };
        let kind = DroppedChannels {
            host: writer.map_or(String::new(), |writer| lossy(writer.host)),
            transport: transport.to_owned(),
            kind: lossy(channel.kind),
            receives: channel.receives,
            gdr: channel.gdr,
            count: 0,
        };
        if self.dropped.len() < KINDS || self.dropped.contains_key(&kind) {
            *self.dropped.entry(kind).or_default() += 1;
        } else {
            self.uncounted += 1;
        }
    }

    /// The channels that are not even counted.
    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut::counted(self.uncounted, "channel", KINDS_BOUND)
    }

    /// Those that found no place, by their common properties.
    pub(super) fn finish(self) -> Vec<DroppedChannels> {
        let dropped = self.dropped.into_iter();
        dropped
            .map(|(kind, count)| DroppedChannels { count, ..kind })
            .collect()
    }
}

/// What makes two lines of channels the same.
pub(super) fn identity(process: Option<u32>, channel: &Channel<'_>) -> u64 {
    let flags =
        u8::from(channel.receives) | u8::from(channel.gdr) << 1 | u8::from(channel.pxn) << 2;
    hash(&(
        (
            MessageGroup::Channel as u8,
            channel.transport as u8,
            flags,
            process,
        ),
        (channel.from, channel.to, channel.adapter, channel.comm),
        channel.kind,
    ))
}
