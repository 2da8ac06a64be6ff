//! What became of a rank in a run.

use serde::{Deserialize, Serialize};

use crate::fact::value::written;
use crate::measure::plan::run::Point;
use crate::source::wire::Line;

/// What became of a rank in a run: the answer to
/// `{"bench":"collective","arm":…,"round":…,"rank":…}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReply {
    /// How it ended.
    pub ended: Ended,
    /// The last step that it reached, in words.
    #[serde(default)]
    pub step: String,
    /// What it measured until then.
    #[serde(default)]
    pub points: Vec<PointReply>,
    /// The library that it loaded: its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The library's version, as it says itself: `2.21.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The device that it used where the backend chose one, and how: `mlx5_0/1 GID 3`,
    /// `eth0 10.0.0.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Files in shared memory that the rank left when it was killed, and that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// What its port carried from the connection to the last point, of whomever: proof that the
    /// device was used. Absent where the backend does not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// How its adapter came to the GPU's memory, or why it did not; absent where it was not to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<GpuMemory>,
}

impl Ended {
    /// How many steps a rank did that went on until the deadline.
    pub fn steps(&self) -> Option<u64> {
        match self {
            Ended::Slow { done, .. } => Some(*done),
            _ => None,
        }
    }

    /// How far a rank came that went on until the deadline.
    pub fn progress(&self) -> Option<String> {
        match self {
            Ended::Slow { done, of, seconds } => {
                Some(format!("{done} of {of} steps in {seconds} s"))
            }
            _ => None,
        }
    }
}

/// What became of the attempts to let an adapter have a GPU's memory: GPUDirect RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMemory {
    /// The way that led there; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<GpuMemoryAccess>,
    /// Why it was not DMA-BUF, which is tried first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_dma_buf: Option<String>,
    /// Why it was not peer memory, which is tried where DMA-BUF fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_peer_memory: Option<String>,
}

written! {
    /// A way from an adapter to a GPU's memory.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GpuMemoryAccess {
        /// CUDA hands the memory out as a file, which the adapter's driver maps:
        /// `cuMemGetHandleForAddressRange`, `ibv_reg_dmabuf_mr`.
        DmaBuf = "DMA-BUF",
        /// A module of the kernel knows the address as a GPU's (`nvidia_peermem`): `ibv_reg_mr`
        /// takes it like any other.
        PeerMemory = "peer memory",
    }
}

/// What a port counted: the difference of two readings of its counters in sysfs. Absent where the
/// device does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Bytes sent (`port_xmit_data`, which counts words of four).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes received (`port_rcv_data`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Packets sent (`port_xmit_packets`; soft-RoCE: `sent_pkts`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    /// Packets received (`port_rcv_packets`; soft-RoCE: `rcvd_pkts`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_packets: Option<u64>,
}

impl Carried {
    /// What was counted between an earlier reading and this one. A counter that was set back in
    /// between says nothing.
    pub fn since(self, earlier: Self) -> Self {
        let since = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Carried {
            sent_bytes: since(self.sent_bytes, earlier.sent_bytes),
            received_bytes: since(self.received_bytes, earlier.received_bytes),
            sent_packets: since(self.sent_packets, earlier.sent_packets),
            received_packets: since(self.received_packets, earlier.received_packets),
        }
    }
}

/// How a rank ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It measured all points.
    Well,
    /// A function failed.
    Failed {
        /// The function: `ncclAllReduce`, `ibv_modify_qp`.
        function: String,
        /// Its result, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i64>,
        /// What the library says of it.
        error: String,
    },
    /// It did not end by the deadline, made no step for longer than its steps before took, and was
    /// killed.
    #[default]
    Hung,
    /// It did not end by the deadline, and went on until it was killed.
    Slow {
        /// So many steps it had done.
        done: u64,
        /// Of so many.
        of: u64,
        /// In so many seconds.
        seconds: u64,
    },
    /// Its process died.
    Died {
        /// Of what: `killed by signal 11`.
        how: String,
    },
    /// It was not started, or stopped since another rank did not end well.
    Stopped {
        /// Why.
        why: String,
    },
}

/// The points that the rank which came furthest measured, by the recorded lines of a run.
pub fn measured_points(lines: &[Line]) -> Vec<Point> {
    let replies = lines
        .iter()
        .filter_map(|line| RankReply::deserialize(line.value()?).ok());
    let furthest = replies.max_by_key(|reply| reply.points.len());
    let points = furthest.map(|reply| reply.points).unwrap_or_default();
    points.into_iter().map(|reply| reply.point).collect()
}

/// What a rank measured at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointReply {
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// How long each trial took, in milliseconds, all its operations together: by the device's
    /// clock where there is one.
    pub ms: Vec<f64>,
    /// Which part of its trials the rank was ready to run and had no CPU, in percent; absent where
    /// the kernel does not count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Elements whose value was looked at after the last trial.
    pub checked: u64,
    /// How many of these are wrong.
    pub wrong: u64,
    /// The first wrong one, by its place in the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::collective::{Collective, DataType, Reduction};

    #[test]
    fn what_a_port_carried_is_a_difference() {
        let then = Carried {
            sent_bytes: Some(5),
            received_bytes: Some(9),
            sent_packets: None,
            received_packets: None,
        };
        let now = Carried {
            sent_bytes: Some(12),
            received_bytes: Some(3),
            sent_packets: Some(1),
            received_packets: None,
        };
        let carried = Carried {
            sent_bytes: Some(7),
            ..Carried::default()
        };
        assert_eq!(now.since(then), carried);
        assert_eq!(
            serde_json::to_string(&carried).unwrap(),
            r#"{"sent_bytes":7}"#
        );
    }

    #[test]
    fn replies_are_json_of_one_shape() {
        let point = Point {
            collective: Collective::AllReduce,
            bytes: 1024,
            dtype: DataType::Float32,
            op: Reduction::Sum,
            in_place: true,
            iterations: 20,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(1),
            trials: 2,
        };
        let reply = RankReply {
            ended: Ended::Failed {
                function: "ncclAllReduce".into(),
                code: Some(1),
                error: "unhandled cuda error".into(),
            },
            step: "warm-up".into(),
            points: vec![PointReply {
                point,
                ms: vec![0.5, 0.25],
                waited: None,
                checked: 256,
                wrong: 0,
                first_wrong: None,
            }],
            library: None,
            version: Some("2.21.3".into()),
            device: None,
            host: None,
            removed: Vec::new(),
            carried: None,
            gpu_memory: Some(GpuMemory {
                way: Some(GpuMemoryAccess::PeerMemory),
                no_dma_buf: Some("ibv_reg_dmabuf_mr: EOPNOTSUPP".into()),
                no_peer_memory: None,
            }),
        };
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<RankReply>(&text).unwrap(), reply);
        let hung: RankReply = serde_json::from_str(r#"{"ended":"hung"}"#).unwrap();
        assert_eq!((hung.ended, hung.points.len()), (Ended::Hung, 0));
    }
}
