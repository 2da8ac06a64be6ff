//! The messages between a rank and the process that started it: JSON lines over the rank's stdin
//! and its original stdout.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend::Identity;
use crate::measure::plan::reply::{Carried, Ended, PointReply};
use crate::measure::plan::run::{Backend, Point, RankPlacement};

/// A command to a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankCommand {
    /// Its job: the first line.
    Job(Box<RankJob>),
    /// The values of all ranks, in rank order.
    All(Vec<Value>),
}

/// A rank's job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankJob {
    /// Its rank number.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// Where it runs and what it uses.
    pub place: RankPlacement,
    /// The backend that moves the data.
    pub backend: Backend,
    /// The library that the user chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The operations, in their order.
    pub points: Vec<Point>,
    /// How long the whole run may take, in seconds.
    pub seconds: f64,
    /// Seeds the test data.
    pub seed: u64,
}

/// A rank's message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankMessage {
    /// The step that it begins.
    Step(String),
    /// Its value for an all-gather, in which it now waits.
    Give(Value),
    /// Which library moves the data, and over what.
    Identity(Identity),
    /// The measurement of a point.
    Point(Box<PointReply>),
    /// The traffic of its port.
    Carried(Carried),
    /// Its end: done, or failed in a function.
    Ended(Ended),
}
