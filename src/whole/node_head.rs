//! The nodes of a report.

use serde::Serialize;

use super::given::given;
use super::inventory::inventory;
use crate::diagnosis::areas::AreaState;
use crate::fact::{Facts, Id, Subject, node};

/// What a report contains about a recording beyond its facts.
#[derive(Clone, Debug)]
pub struct RecordedNode {
    /// The node.
    pub id: Id,
    /// When the recording was made, RFC 3339 in UTC.
    pub utc: String,
    /// How a person altered it, if it lies over another recording.
    pub altered: Option<String>,
    /// Whether a copied tree was examined.
    pub tree: bool,
    /// Whether its last line is there.
    pub is_complete: bool,
    /// Why it may not be of this node, or not of now.
    pub doubt: Option<String>,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// A node that was examined.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeHead {
    /// Its name.
    pub name: String,
    /// Its kernel, where known.
    pub kernel: Option<String>,
    /// Its distribution, where known.
    pub os: Option<String>,
    /// How many RDMA devices it has, where known.
    pub devices: Option<u64>,
    /// How many of its ports are active, where known.
    pub active_ports: Option<u64>,
    /// Whether its job has other nodes, and nothing was sent to them.
    #[serde(skip)]
    pub untried_peers: bool,
    /// How many GPUs it has, where known.
    pub gpus: Option<u64>,
    /// GPUs by model, adapters, ports by state, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<String>,
    /// How far each area was examined there, of several nodes: in the order of the report's areas.
    #[serde(skip)]
    pub area_states: Vec<AreaState>,
    /// What was given in its place, if it was not examined itself.
    #[serde(skip)]
    pub given: Option<String>,
    /// The launcher that started the doctor there, and the rank, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
    /// When it was recorded.
    pub recorded: String,
    /// The manual changes in its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altered: Option<String>,
    /// The outputs of tools that were read of it, each with its key values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Whether a copied tree was examined.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
    /// Whether the recording was cut short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl NodeHead {
    /// What is known of a recorded node.
    pub fn of(facts: &Facts, recorded: &RecordedNode) -> Self {
        let id = recorded.id;
        let launch = facts.known(id, node::LAUNCH);
        NodeHead {
            name: facts.name(id).to_owned(),
            kernel: facts.known(id, node::KERNEL).map(|t| t.to_string()),
            os: facts.known(id, node::OS).map(|t| t.to_string()),
            devices: facts.known(id, node::DEVICES),
            active_ports: facts.known(id, node::ACTIVE_PORTS),
            untried_peers: facts.known(id, node::JOB_NODES) > Some(1)
                && facts.members(Subject::Suspect, id).is_err(),
            gpus: facts.known(id, node::GPUS),
            inventory: inventory(facts, id),
            area_states: Vec::new(),
            given: given(facts, id),
            launch: launch.filter(|by| &**by != "none").map(|by| by.to_string()),
            recorded: recorded.utc.clone(),
            altered: recorded.altered.clone(),
            outputs: facts
                .known(id, node::OUTPUTS)
                .iter()
                .flat_map(|outputs| outputs.iter())
                .map(ToString::to_string)
                .collect(),
            tree: recorded.tree,
            truncated: !recorded.is_complete,
        }
    }
}
