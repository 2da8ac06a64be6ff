//! How many events of each class there are, and which of them have a right to more room.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::LogMessage;
use super::kept_lines::{ExtraRoom, Hashed, hash};
use crate::nccl_log::digest::DroppedEvents;
use crate::nccl_log::text;

/// Statuses of completions that are distinguished: `ibv_wc_status` has fewer.
const STATUSES: u64 = 64;

/// A class, and the status if its events tell one: a flushed request is of the class of the one that failed, and no failure.
pub(super) type ClassKey = (&'static str, Option<u64>);

/// Events of a class.
#[derive(Default)]
struct ClassCount {
    /// How many differ.
    count: usize,
    /// How many signs stood before the last one.
    signs: Option<u64>,
    /// Those that found no place: how many, the line of the first and of the last.
    dropped: Option<(u64, u64, u64)>,
}

/// Events of a class that each host may have kept, however many of the class there are: the last
/// host of a job is heard too.
const OF_HOST: u32 = 2;
/// Hosts of classes that are told apart.
const HOSTS: usize = 4096;

/// The counts of all classes.
#[derive(Default)]
pub(super) struct ClassCounts {
    all: HashMap<ClassKey, ClassCount, FixedState>,
    /// For each class and host how many differ.
    of_host: HashMap<u64, u32, Hashed>,
}

impl ClassCounts {
    /// Counts an event with so many signs before it; gives its key, and its room unless its class has had its share.
    pub(super) fn count(
        &mut self,
        class: &'static str,
        said: &LogMessage<'_>,
        signs: u64,
        most: usize,
    ) -> (ClassKey, Option<ExtraRoom>) {
        let mut status = ["status=", "with error "].iter();
        let status = status.find_map(|before| text::number_after(said.message, before));
        let key = (class, status.map(|status| status.min(STATUSES)));
        let is_of_few = self.is_of_few(hash(&(key, said.host())));
        let of_class = self.all.entry(key).or_default();
        of_class.count += 1;
        let room = match of_class.signs.replace(signs) == Some(signs) {
            false => Some(ExtraRoom::FirstEvent),
            true => (of_class.count <= most || is_of_few).then_some(ExtraRoom::Event),
        };
        (key, room)
    }

    /// Counts an event of a class and a host; whether it is one of the first.
    fn is_of_few(&mut self, class_and_host: u64) -> bool {
        if self.of_host.len() >= HOSTS && !self.of_host.contains_key(&class_and_host) {
            return false;
        }
        let count = self.of_host.entry(class_and_host).or_default();
        *count = count.saturating_add(1);
        *count <= OF_HOST
    }

    /// Counts an event that found no place.
    pub(super) fn drop_event(&mut self, key: ClassKey, number: u64) {
        let of_class = self.all.entry(key).or_default();
        let (count, first, _) = of_class.dropped.unwrap_or((0, number, number));
        of_class.dropped = Some((count + 1, first, number));
    }

    /// Those that found no place, in the order of their first lines.
    pub(super) fn finish(self) -> Vec<DroppedEvents> {
        let all = self.all.into_iter();
        let mut dropped: Vec<DroppedEvents> = all
            .filter_map(|((class, status), of_class)| {
                let (count, line, last) = of_class.dropped?;
                Some(DroppedEvents {
                    class: class.to_owned(),
                    status,
                    count,
                    line,
                    last,
                })
            })
            .collect();
        dropped.sort_unstable_by_key(|of_class| of_class.line);
        dropped
    }
}
