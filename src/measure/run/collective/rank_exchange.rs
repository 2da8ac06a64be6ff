//! How the ranks of a run find each other: what each gives, all get.

use serde_json::Value;

use super::backend::Identity;
use crate::live::failure::Failure;

/// The way from a rank to all others, through the processes that started them. Small and slow: for addresses and for barriers, not for data.
pub trait RankExchange {
    /// This rank's number.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Gives a value to all ranks and returns what each of them gave, in their order. All ranks call it equally often, so it is a barrier too.
    ///
    /// # Errors
    ///
    /// The parent is gone.
    fn all_gather(&mut self, value: Value) -> Result<Vec<Value>, Failure>;

    /// Says which library moves the data, and over what: what fails afterwards is a failure of that.
    fn report_identity(&mut self, identity: Identity);

    /// Says what this rank is about to do: the last step is what is known of a rank that hangs.
    fn report_step(&mut self, what: &str);
}
