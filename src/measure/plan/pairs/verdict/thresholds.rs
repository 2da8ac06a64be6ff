//! From where on a pair is an outlier: limits of the checks `pairs/*`, as plain numbers.

use crate::fact::{Limit, Limits, Percent, limit};
use crate::measure::plan::run::Backend;

/// A threshold for one pair, and the milder one for a pair with an end that has a bad pair already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    alone: f64,
    beside: f64,
}

impl Threshold {
    /// The number that counts.
    pub(super) fn value(self, is_beside: bool) -> f64 {
        if is_beside { self.beside } else { self.alone }
    }
}

/// From where on a pair is slow, late, or loses packets.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// The part of what equal pairs carry below which a pair is slow.
    pub(super) slow: Threshold,
    /// So many times the spread of what equals carry is a difference.
    pub(super) slow_spreads: f64,
    /// A smaller difference than this part is none, however alike equals are.
    pub(super) slow_least: f64,
    /// So many times what the network in use carries makes another one faster.
    pub(super) faster_times: f64,
    /// The part of what the pair carries in the host's memory below which it is slow from GPU to
    /// GPU.
    pub(super) slow_on_gpus: Threshold,
    /// Of its packets so many percent are sent again.
    pub(super) loss: Threshold,
    /// So many packets at least.
    pub(super) lost_packets: u64,
    /// So many times what equal pairs lose.
    pub(super) loss_times: f64,
    /// A round trip takes so many times that of equal pairs.
    pub(super) late_times: f64,
    /// And so many nanoseconds more.
    pub(super) late_by_ns: f64,
}

impl Thresholds {
    /// The part of what equals carry below which a pair is slow. Where equals are alike, a smaller
    /// difference counts.
    pub(super) fn slow_part(&self, spread: Option<f64>, is_beside: bool) -> f64 {
        let fixed = self.slow.value(is_beside);
        let told = spread.map(|spread| 1.0 - (self.slow_spreads * spread).max(self.slow_least));
        told.map_or(fixed, |told| told.max(fixed))
    }

    /// The thresholds of pairs that were measured by this backend.
    pub fn new(limits: &Limits, backend: Backend) -> Self {
        let part = |alone: Limit<Percent>, beside: Limit<Percent>| Threshold {
            alone: limits.get(alone).0 / 100.0,
            beside: limits.get(beside).0 / 100.0,
        };
        // Nothing may drop RDMA's packets: two ports that talk to each other alone congest nothing.
        // No processor has a part in a round trip.
        let (loss, loss_beside, late_by) = match backend {
            Backend::Verbs => (
                limit::PAIR_LOSS_RDMA,
                limit::PAIR_LOSS_RDMA,
                limit::PAIR_LATE_RDMA,
            ),
            _ => (
                limit::PAIR_LOSS_TCP,
                limit::PAIR_LOSS_TCP_BESIDE,
                limit::PAIR_LATE_TCP,
            ),
        };
        Thresholds {
            slow: part(limit::PAIR_SLOW, limit::PAIR_SLOW_BESIDE),
            slow_spreads: limits.get(limit::PAIR_SLOW_SPREADS) as f64,
            slow_least: limits.get(limit::PAIR_SLOW_LEAST).0 / 100.0,
            faster_times: limits.get(limit::FASTER_NETWORK).0 / 100.0,
            slow_on_gpus: part(limit::PAIR_SLOW_ON_GPUS, limit::PAIR_SLOW_ON_GPUS_BESIDE),
            loss: Threshold {
                alone: limits.get(loss).0,
                beside: limits.get(loss_beside).0,
            },
            lost_packets: limits.get(limit::PAIR_LOSS_PACKETS),
            loss_times: limits.get(limit::PAIR_LOSS_TIMES) as f64,
            late_times: limits.get(limit::PAIR_LATE_TIMES) as f64,
            late_by_ns: (limits.get(late_by).0 * 1e9).round(),
        }
    }
}
