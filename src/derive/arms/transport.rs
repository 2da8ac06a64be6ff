//! What channels used, by the proof of an arm's runs: counted by pairs of ranks, and in words.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::arm::GpuDirectUse;
use crate::fact::arms::{PairPath, PathKind, TransportProof};
use crate::small_sort;

/// So many devices are named.
const DEVICES: usize = 4;

impl TransportProof {
    pub(super) fn paths(&self) -> impl Iterator<Item = &PairPath> {
        self.pairs.values().flatten()
    }

    /// Pairs of ranks that use a path of this kind.
    pub(super) fn count(&self, is: impl Fn(&PairPath) -> bool) -> u64 {
        let pairs = self.pairs.values();
        pairs.filter(|paths| paths.iter().any(&is)).count() as u64
    }

    /// Each path with how many pairs of ranks use it: `14 pairs P2P/CUMEM, 2 pairs NET/IB/GDRDMA`.
    /// Without NCCL how ranks were connected: `4 connections (10.0.0.1, 10.0.0.2)`.
    pub(super) fn in_short(&self) -> String {
        if !self.devices.is_empty() {
            let each = self.devices.iter().map(|(how, devices)| {
                let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
                let (shown, more) = devices.split_at(devices.len().min(DEVICES));
                let more = match more.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{how} ({}{more})", shown.join(", "))
            });
            return each.collect::<Vec<_>>().join("; ");
        }
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for paths in self.pairs.values() {
            let words: BTreeSet<&str> = paths.iter().map(|path| path.word.as_str()).collect();
            for word in words {
                *counts.entry(word).or_default() += 1;
            }
        }
        let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
        small_sort::by_key(&mut counts, |(_, count)| std::cmp::Reverse(*count));
        let texts: Vec<String> = counts
            .iter()
            .map(|(word, count)| match count {
                1 => format!("1 pair {word}"),
                n => format!("{n} pairs {word}"),
            })
            .collect();
        texts.join(", ")
    }

    /// Whether GPUDirect RDMA was used.
    pub(super) fn direct(&self) -> GpuDirectUse {
        if !self.channels {
            return GpuDirectUse::NotLogged;
        }
        let net = |wanted: Option<bool>| {
            self.paths().any(|path| match path.kind {
                PathKind::Net(_, gdr) => wanted.is_none_or(|wanted| gdr == wanted),
                _ => false,
            })
        };
        match (net(Some(true)), net(Some(false))) {
            (true, true) => GpuDirectUse::Some,
            (true, false) => GpuDirectUse::All,
            (false, true) => GpuDirectUse::None,
            (false, false) => GpuDirectUse::NoNetwork,
        }
    }
}
