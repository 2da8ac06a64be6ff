//! What a rank and the process that started it say to each other: JSON Lines, over the rank's standard input and what was its standard output.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend::Identity;
use crate::measure::plan::reply::{Carried, Ended, PointReply};
use crate::measure::plan::run::{Backend, Point, RankPlace};

/// What a rank is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankCommand {
    /// What it does: the first line.
    Job(Box<RankJob>),
    /// What all ranks gave, in their order.
    All(Vec<Value>),
}

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankJob {
    /// Its number.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// Where it runs and what it uses.
    pub place: RankPlace,
    /// Who moves the data.
    pub backend: Backend,
    /// The library that was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The operations, in their order.
    pub points: Vec<Point>,
    /// Seeds what the buffers hold.
    pub seed: u64,
}

/// What a rank says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankMessage {
    /// What it is about to do.
    Step(String),
    /// What it gives to all ranks: it waits until all have given.
    Give(Value),
    /// Which library moves the data, and over what.
    Identity(Identity),
    /// What it measured at a point.
    Point(Box<PointReply>),
    /// What its port carried.
    Carried(Carried),
    /// That it is done: well, or since a function failed.
    Ended(Ended),
}
