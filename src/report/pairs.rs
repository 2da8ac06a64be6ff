//! What pairs of nodes say: one sentence, whom they accuse, and the matrix.

pub mod text;

use serde::Serialize;

use crate::fact::Limits;
use crate::measure::plan::pairs as bench;
use crate::measure::plan::pairs::verdict::{self, Range};
use crate::measure::plan::pairs::{Counted, Flow, Member, Memory, Results, Silent};
use crate::sentence::{Sentence, sentence};

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-pairs/1.2";

/// The measurements between nodes. Quantities are numbers in their base unit: bytes, bits per second, seconds.
#[derive(Debug, Default, Serialize)]
pub struct Pairs {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The one sentence.
    pub sentence: Sentence,
    /// Which of the accused it is about.
    #[serde(skip)]
    leads: Option<usize>,
    /// The backend that moved the data.
    pub backend: Option<&'static str>,
    /// Why it was that one.
    pub why: Option<String>,
    /// Where the data was, in turn: "host", "gpu".
    pub memory: Vec<&'static str>,
    /// The nodes and their adapters, in the order of the rails, with the GPU of each if that was asked for.
    pub nodes: Vec<Member>,
    /// Unresponsive nodes: they did not connect, or were lost.
    pub silent: Vec<Silent>,
    /// How many rails all nodes have.
    pub rails: usize,
    /// Whom the pairs accuse, and of what: the fewest that explain all.
    pub accused: Vec<Suspect>,
    /// The bandwidth of all directions.
    pub range: Option<Range>,
    /// Each direction of each pair of adapters of the same rail.
    pub ways: Vec<MeasuredDirection>,
    /// The same of adapters of different rails, if those were measured.
    pub across: Vec<MeasuredDirection>,
    /// The bandwidth of all directions from GPU to GPU, if both memories were measured.
    pub range_on_gpus: Option<Range>,
    /// The directions from GPU to GPU, if both memories were measured.
    pub on_gpus: Vec<MeasuredDirection>,
    /// Why nothing was measured; `null` where something was.
    pub nothing: Option<String>,
}

/// A suspect, and its problem.
#[derive(Debug, Serialize)]
pub struct Suspect {
    /// A node, an adapter, a rail or two ends.
    pub name: String,
    /// What is wrong: "silent", "unreachable", "packet-short", "rdma-fails", "gpu-fails", "gpu-none", "gpu-slow", "loss", "slow",
    /// "late", "rails-apart".
    pub problem: &'static str,
    /// The observation.
    pub what: Sentence,
    /// Counters of its ports and interfaces that rose meanwhile.
    pub counted: Vec<String>,
}

/// One direction of two adapters.
#[derive(Debug, Serialize)]
pub struct MeasuredDirection {
    /// The node that sends, by its place among the nodes.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// The rail; of adapters of different rails the sender's.
    pub rail: usize,
    /// The receiver's rail.
    pub to_rail: usize,
    /// Where the data was at both ends: "host" or "gpu".
    pub memory: &'static str,
    /// What arrived in a second, in bits.
    pub rate: Option<f64>,
    /// Of the segments, or of RDMA's packets, those that were retransmitted, in percent.
    pub loss: Option<f64>,
    /// The least time of a byte, or of a small RDMA write, there and back.
    pub round_trip: Option<f64>,
    /// The largest packet that got through unfragmented; `null` if none was answered.
    pub packet: Option<u64>,
    /// Why nothing was measured.
    pub failed: Option<String>,
    /// The sender's counters of port and interface that rose meanwhile: faults, losses and waits.
    pub sender: Counted,
    /// The receiver's counters that rose meanwhile.
    pub receiver: Counted,
    /// Whether it was measured a second time, alone: the figures are those.
    pub again: bool,
}

impl Pairs {
    /// What the results say by these limits.
    pub fn of(results: &Results, limits: &Limits) -> Self {
        let suspects = verdict::suspects(results, limits);
        let sentence = verdict::sentence(results, &suspects);
        let leads = verdict::leading(&suspects);
        let accused = suspects.into_iter().map(|one| Suspect {
            name: one.name,
            problem: one.problem.word(),
            what: one.what,
            counted: one.counted,
        });
        let leading = results.plan.leading();
        let row = |way: bench::PairDirection, flow: Option<&Flow>, memory: Memory| {
            let counted = |of: fn(&Flow) -> &Counted| flow.map(of).cloned().unwrap_or_default();
            MeasuredDirection {
                from: way.from.0,
                to: way.to.0,
                rail: way.from.1,
                to_rail: way.to.1,
                memory: memory.word(),
                rate: flow.and_then(|flow| flow.rate()),
                loss: flow.and_then(|flow| flow.loss()),
                round_trip: flow
                    .and_then(|flow| flow.round_trip_ns)
                    .map(|ns| ns as f64 / 1e9),
                packet: results.reached(way).and_then(|reach| reach.packet),
                failed: flow.and_then(|flow| flow.failed.clone()),
                sender: counted(|flow| &flow.sender),
                receiver: counted(|flow| &flow.receiver),
                again: match memory == leading {
                    true => results.second.contains_key(&way),
                    false => results.on_gpus_again.contains_key(&way),
                },
            }
        };
        let ways = results.ways().into_iter();
        let ways = ways.map(|way| row(way, results.flow(way), leading));
        let across = results.across.iter();
        let across = across.map(|(way, flow)| row(*way, Some(flow), leading));
        let on_gpus = results.ways_on_gpus().into_iter();
        let on_gpus = on_gpus.map(|way| row(way, results.flow_on_gpus(way), Memory::Gpu));
        Pairs {
            schema: SCHEMA,
            sentence,
            leads,
            backend: Some(results.plan.backend.word()),
            why: results.plan.why.as_ref().map(bench::Why::words),
            memory: results.plan.memory.iter().map(|m| m.word()).collect(),
            nodes: results.plan.nodes.clone(),
            silent: results.plan.silent.clone(),
            rails: results.plan.rails(),
            accused: accused.collect(),
            range: verdict::range(results),
            ways: ways.collect(),
            across: across.collect(),
            range_on_gpus: verdict::range_on_gpus(results),
            on_gpus: on_gpus.collect(),
            nothing: None,
        }
    }

    /// Nothing was measured.
    pub fn nothing(why: String) -> Self {
        Pairs {
            schema: SCHEMA,
            sentence: sentence!("nothing was measured", ": {why}"),
            nothing: Some(why),
            ..Pairs::default()
        }
    }
}
