//! How the ranks of a run exchange small values: what each rank gives, all get.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::Receiver;

use serde_json::Value;

use super::backend::Identity;
use super::rank_messages::{RankCommand, RankMessage};
use crate::live::failure::Failure;

/// The connection of a rank to all others, through the processes that started them. Small and slow:
/// for addresses and barriers, not for data.
pub struct RankExchange {
    /// This rank's number.
    pub(super) rank: usize,
    /// How many ranks there are.
    pub(super) ranks: usize,
    pub(super) outlet: File,
    pub(super) inbox: Receiver<RankCommand>,
}

impl RankExchange {
    pub(super) fn send(&mut self, said: &RankMessage) {
        // If the parent is gone, the lifeline ends this process.
        if let Ok(mut line) = serde_json::to_vec(said) {
            line.push(b'\n');
            let _ = self.outlet.write_all(&line);
        }
    }

    pub(super) fn barrier(&mut self) -> Result<(), Failure> {
        self.all_gather(Value::Null).map(|_| ())
    }

    /// Contributes a value and returns those of all ranks, in rank order. All ranks call it equally
    /// often, so it is a barrier too.
    ///
    /// # Errors
    ///
    /// The parent is gone.
    pub fn all_gather(&mut self, value: Value) -> Result<Vec<Value>, Failure> {
        self.send(&RankMessage::Give(value));
        match self.inbox.recv() {
            Ok(RankCommand::All(all)) if all.len() == self.ranks => Ok(all),
            _ => Err(Failure::new(
                "exchange",
                "the process that started this rank is gone",
            )),
        }
    }

    /// Reports which library moves the data over which device: later failures are attributed to it.
    pub fn report_identity(&mut self, identity: Identity) {
        self.send(&RankMessage::Identity(identity));
    }

    /// Reports what this rank is about to do: of a rank that hangs, only the last step is known.
    pub fn report_step(&mut self, what: &str) {
        self.send(&RankMessage::Step(what.into()));
    }
}
