//! How the ranks of a run exchange small values: what each rank gives, all get.

use serde_json::Value;

use super::backend::Identity;
use crate::live::failure::Failure;

/// The connection of a rank to all others, through the processes that started them. Small and slow: for addresses and barriers, not for data.
pub trait RankExchange {
    /// This rank's number.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Contributes a value and returns those of all ranks, in rank order. All ranks call it equally often, so it is a barrier too.
    ///
    /// # Errors
    ///
    /// The parent is gone.
    fn all_gather(&mut self, value: Value) -> Result<Vec<Value>, Failure>;

    /// Reports which library moves the data over which device: later failures are attributed to it.
    fn report_identity(&mut self, identity: Identity);

    /// Reports what this rank is about to do: of a rank that hangs, only the last step is known.
    fn report_step(&mut self, what: &str);
}
