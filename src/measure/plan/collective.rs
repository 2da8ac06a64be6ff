//! The collectives that are measured, and what their bandwidths mean.
//!
//! Sizes and bandwidths are those of nccl-tests (`doc/PERFORMANCE.md`): GB is 10^9 bytes; algbw =
//! size / time; busbw = algbw × a factor that takes out the number of ranks, so that it can be held
//! against what the hardware carries in one direction.

use serde::{Deserialize, Serialize};

use crate::fact::BitRate;
use crate::fact::value::written;

written! {
    /// A collective operation.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Collective {
        /// Each rank ends with the reduction of all ranks' buffers.
        AllReduce = "all-reduce",
        /// Each rank ends with all ranks' parts, in their order.
        AllGather = "all-gather",
        /// Each rank ends with its part of the reduction.
        ReduceScatter = "reduce-scatter",
        /// All ranks end with the first rank's buffer.
        Broadcast = "broadcast",
        /// The first rank ends with the reduction.
        Reduce = "reduce",
        /// Each rank ends with its part of the first rank's buffer.
        Scatter = "scatter",
        /// The first rank ends with all ranks' parts.
        Gather = "gather",
        /// Each rank ends with the part that each other has for it.
        AllToAll = "all-to-all",
        /// Each rank sends its buffer to the next one, and receives from the one before.
        SendRecv = "send-recv",
    }
}

impl Collective {
    /// Whether ranks add up what they hold: the others only move it.
    pub fn reduces(self) -> bool {
        matches!(
            self,
            Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce
        )
    }

    /// busbw / algbw with this many ranks. Source: nccl-tests `doc/PERFORMANCE.md`, and `src/*.cu`,
    /// `…GetBw`.
    pub fn bus_factor(self, ranks: u64) -> f64 {
        let n = ranks.max(1) as f64;
        match self {
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::Scatter
            | Collective::Gather => (n - 1.0) / n,
            Collective::Broadcast | Collective::Reduce | Collective::SendRecv => 1.0,
        }
    }

    /// Algorithm bandwidth: `bytes` are the operation's size as nccl-tests counts it ([`Shape`]),
    /// `seconds` the time of one operation.
    pub fn algbw(self, bytes: u64, seconds: f64) -> Option<BitRate> {
        let rate = bytes as f64 * 8.0 / seconds;
        (seconds > 0.0 && rate.is_finite()).then_some(BitRate(rate as u64))
    }

    /// Bus bandwidth. With one rank nothing crosses a bus: zero where the factor is.
    pub fn busbw(self, bytes: u64, seconds: f64, ranks: u64) -> Option<BitRate> {
        let algbw = self.algbw(bytes, seconds)?;
        Some(BitRate((algbw.0 as f64 * self.bus_factor(ranks)) as u64))
    }

    /// How many elements a rank sends and receives for an operation of so many elements.
    pub fn shape(self, elements: usize, ranks: usize) -> Shape {
        let part = elements / ranks.max(1);
        let whole = part * ranks.max(1);
        let (send, receive) = match self {
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv => (elements, elements),
            Collective::AllGather | Collective::Gather => (part, whole),
            Collective::ReduceScatter | Collective::Scatter => (whole, part),
            Collective::AllToAll => (whole, whole),
        };
        Shape { send, receive }
    }
}

/// The size of a collective's reference operation where the data is in the host's memory.
pub const IN_HOST_MEMORY: u64 = 256 << 20;

/// The elements of a rank's buffers. The size of an operation is the larger of both: for
/// all-gather, reduce-scatter, scatter, gather and all-to-all all ranks' parts together, as
/// nccl-tests counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Elements that a rank sends.
    pub send: usize,
    /// Elements that a rank receives.
    pub receive: usize,
}

written! {
    /// The type of an element.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DataType {
        /// IEEE single precision: the reference benchmark's.
        Float32 = "float32",
        /// IEEE half precision.
        Float16 = "float16",
        /// bfloat16.
        Bfloat16 = "bfloat16",
        /// Unsigned bytes.
        Uint8 = "uint8",
        /// 32-bit integers.
        Int32 = "int32",
    }
}

impl DataType {
    /// The type of this name, or of that which nccl-tests gives it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "float" => Some(DataType::Float32),
            "half" => Some(DataType::Float16),
            name => Self::from_word(name),
        }
    }

    /// So many bytes in whole elements for each rank: rounded down, but one at least.
    pub fn whole(self, bytes: u64, ranks: u64) -> u64 {
        let unit = self.size() as u64 * ranks.max(1);
        (bytes / unit * unit).max(unit)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            DataType::Float32 | DataType::Int32 => 4,
            DataType::Float16 | DataType::Bfloat16 => 2,
            DataType::Uint8 => 1,
        }
    }
}

written! {
    /// How elements are put together.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Reduction {
        /// The sum.
        Sum = "sum",
        /// The least.
        Min = "min",
        /// The greatest.
        Max = "max",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_those_of_nccl_tests() {
        // all_reduce_bench: 4 GB in 20 ms on 16 ranks.
        let bytes = 4_000_000_000;
        let all_reduce = Collective::AllReduce;
        assert_eq!(
            all_reduce.algbw(bytes, 0.02),
            Some(BitRate(1_600_000_000_000))
        );
        assert_eq!(
            all_reduce.busbw(bytes, 0.02, 16),
            Some(BitRate(3_000_000_000_000))
        );
        assert_eq!(all_reduce.busbw(bytes, 0.02, 1), Some(BitRate(0)));
        assert_eq!(all_reduce.busbw(bytes, 0.0, 2), None);
        for (collective, factor) in [
            (Collective::AllReduce, 1.75),
            (Collective::AllGather, 0.875),
            (Collective::ReduceScatter, 0.875),
            (Collective::AllToAll, 0.875),
            (Collective::Scatter, 0.875),
            (Collective::Gather, 0.875),
            (Collective::Broadcast, 1.0),
            (Collective::Reduce, 1.0),
            (Collective::SendRecv, 1.0),
        ] {
            assert_eq!(collective.bus_factor(8), factor, "{collective:?}");
        }
    }

    #[test]
    fn names_lead_back() {
        for collective in Collective::ALL.iter().copied() {
            assert_eq!(Collective::from_word(collective.word()), Some(collective));
            let json = serde_json::to_string(&collective).unwrap();
            assert_eq!(json, format!("\"{}\"", collective.word()));
        }
        assert_eq!(Collective::from_word("allreduce"), None);
        for dtype in DataType::ALL.iter().copied() {
            assert_eq!(DataType::from_name(dtype.word()), Some(dtype));
            let json = serde_json::to_string(&dtype).unwrap();
            assert_eq!(json, format!("\"{}\"", dtype.word()));
        }
        for op in [Reduction::Sum, Reduction::Min, Reduction::Max] {
            assert_eq!(Reduction::from_word(op.word()), Some(op));
            let json = serde_json::to_string(&op).unwrap();
            assert_eq!(json, format!("\"{}\"", op.word()));
        }
    }

    #[test]
    fn a_part_is_the_same_for_each_rank() {
        for collective in Collective::ALL.iter().copied() {
            let shape = collective.shape(1000, 3);
            let larger = shape.send.max(shape.receive);
            assert!(larger == 1000 || larger == 999, "{collective:?}");
        }
        assert_eq!(
            Collective::AllGather.shape(8, 4),
            Shape {
                send: 2,
                receive: 8
            }
        );
    }
}
