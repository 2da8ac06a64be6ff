//! The port parameters of a rank: those of its plan, else those of NCCL's variables, so that it uses the port as NCCL would.

use crate::live::failure::Failure;
use crate::measure::plan::run::RankPlacement;

/// The default size of a write in bytes.
const PIECE: u64 = 512 << 10;
/// The most connections to another rank: as many as NCCL allows (`NCCL_IB_MAX_QPS`).
const PAIRS: u64 = 128;

/// The requested port parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRequest {
    /// Connections to each other rank.
    pub(crate) pairs: usize,
    /// Bytes of a write.
    pub(crate) piece: usize,
    /// Bytes of a packet at most.
    pub(crate) mtu: Option<u64>,
    /// The row of the GID table; `None`: the one that NCCL chooses.
    pub(crate) gid_index: Option<u8>,
    pub(crate) pkey_index: u16,
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
}

impl PortRequest {
    /// Reads it; `variable` gives a variable's text.
    ///
    /// # Errors
    ///
    /// A number that is none, or too large.
    pub(crate) fn new(
        place: &RankPlacement,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let number = |name: &str| -> Result<Option<u64>, Failure> {
            match variable(name).as_deref().map(str::trim) {
                // A negative one is NCCL's way to leave the choice to itself.
                None | Some("") => Ok(None),
                Some(text) if text.starts_with('-') => Ok(None),
                Some(text) => text
                    .parse()
                    .map(Some)
                    .map_err(|_| Failure::new(name, format!("{text} is not a number"))),
            }
        };
        let gid_index = match place.gid_index {
            Some(index) => Some(index),
            None => number("NCCL_IB_GID_INDEX")?,
        };
        let pairs = match place.queue_pairs {
            Some(pairs) => pairs,
            None => number("NCCL_IB_QPS_PER_CONNECTION")?.unwrap_or(1),
        };
        Ok(PortRequest {
            pairs: pairs.clamp(1, PAIRS) as usize,
            piece: place.message.unwrap_or(PIECE).clamp(64, 1 << 30) as usize,
            mtu: place.mtu,
            gid_index: gid_index
                .map(|index| small("GID index", index))
                .transpose()?,
            pkey_index: small("NCCL_IB_PKEY", number("NCCL_IB_PKEY")?.unwrap_or(0))?,
            service_level: small("NCCL_IB_SL", number("NCCL_IB_SL")?.unwrap_or(0))?,
            traffic_class: small("NCCL_IB_TC", number("NCCL_IB_TC")?.unwrap_or(0))?,
        })
    }
}

fn small<N: TryFrom<u64>>(name: &str, number: u64) -> Result<N, Failure> {
    N::try_from(number).map_err(|_| Failure::new(name, format!("{number} is too large")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_goes_before_the_variables() {
        let set = |name: &str| match name {
            "NCCL_IB_GID_INDEX" => Some("3".to_owned()),
            "NCCL_IB_TC" => Some("106".to_owned()),
            "NCCL_IB_SL" => Some("-1".to_owned()),
            _ => None,
        };
        let mut place = RankPlacement::default();
        let wish = PortRequest::new(&place, set).unwrap();
        assert_eq!((wish.gid_index, wish.traffic_class), (Some(3), 106));
        assert_eq!(
            (wish.service_level, wish.pairs, wish.piece),
            (0, 1, 512 << 10)
        );
        place.gid_index = Some(1);
        place.queue_pairs = Some(4);
        place.message = Some(65536);
        let wish = PortRequest::new(&place, set).unwrap();
        assert_eq!(
            (wish.gid_index, wish.pairs, wish.piece),
            (Some(1), 4, 65536)
        );
        place.gid_index = Some(256);
        assert_eq!(
            PortRequest::new(&place, set).unwrap_err().error,
            "256 is too large"
        );
        let bad = |name: &str| (name == "NCCL_IB_TC").then(|| "x".to_owned());
        let refused = PortRequest::new(&RankPlacement::default(), bad).unwrap_err();
        assert_eq!(refused.to_string(), "NCCL_IB_TC: x is not a number");
    }
}
