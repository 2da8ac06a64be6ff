//! What a port's GID table offers: RoCE v2, routable, at which index.

use crate::fact::gid::{GidKind, GidType};
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, gid, port};

/// Works out what the GID table of each port offers.
pub fn derive(facts: &mut Facts, node: Id) {
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let table = Table::of(facts, port);
        facts.set(port, port::GID_V2, table.any("v2", |t, _| t == GidType::V2));
        let routable = |k: GidKind| k != GidKind::LinkLocal;
        facts.set(
            port,
            port::GID_ROUTABLE_V2,
            table.any("routable v2", |t, k| t == GidType::V2 && routable(k)),
        );
        facts.set(
            port,
            port::GID_ROUTABLE_V1,
            table.any("routable v1", |t, k| t == GidType::V1 && routable(k)),
        );
        facts.set(port, port::GID_INDEX, table.index());
        let prefix = subnet_prefix(facts, port);
        facts.set(port, port::SUBNET_PREFIX, prefix);
    }
}

struct Table {
    entries: Vec<(u64, GidType, GidKind)>,
    open: Option<Gap>,
}

impl Table {
    fn of(facts: &Facts, port: Id) -> Self {
        let mut table = Table {
            entries: Vec::new(),
            open: facts.members(Subject::Gid, port).err(),
        };
        for id in facts.below(port, Subject::Gid) {
            match (
                facts.get(id, gid::INDEX),
                facts.get(id, gid::TYPE),
                facts.get(id, gid::KIND),
            ) {
                (Fact::Known(i, _), Fact::Known(t, _), Fact::Known(k, _)) => {
                    table.entries.push((i, t, k))
                }
                (Fact::Unknown(gap), ..)
                | (_, Fact::Unknown(gap), _)
                | (.., Fact::Unknown(gap)) => {
                    table.open = Some(gap);
                }
            }
        }
        table
    }

    fn any(&self, what: &str, fits: impl Fn(GidType, GidKind) -> bool) -> Fact<bool> {
        match (
            self.entries.iter().find(|(_, t, k)| fits(*t, *k)),
            &self.open,
        ) {
            (Some((index, ..)), _) => Fact::derived(true, format!("GID {index}")),
            (None, Some(gap)) => Fact::Unknown(gap.clone()),
            (None, None) => {
                Fact::derived(false, format!("no {what} GID among {}", self.entries.len()))
            }
        }
    }

    /// NCCL prefers IPv4 too (net_ib.cc, ncclUpdateGidIndex): two indexes are compared by what would be used.
    fn index(&self) -> Fact<u64> {
        if let Some(gap) = &self.open {
            return Fact::Unknown(gap.clone());
        }
        let lowest = |kind: GidKind| {
            self.entries
                .iter()
                .filter(|(_, t, k)| *t == GidType::V2 && *k == kind)
                .map(|(i, ..)| *i)
                .min()
        };
        match lowest(GidKind::Ipv4).or_else(|| lowest(GidKind::Ipv6)) {
            Some(index) => Fact::derived(index, "lowest routable RoCE v2 GID"),
            None => Fact::Unknown(Gap::missing("port.gid_routable_v2")),
        }
    }
}

fn subnet_prefix(facts: &Facts, port: Id) -> Fact<std::sync::Arc<str>> {
    if facts.known(port, port::LINK_LAYER) != Some(LinkLayer::InfiniBand) {
        return Fact::Unknown(Gap::missing("an InfiniBand port's GID 0"));
    }
    let first = facts
        .below(port, Subject::Gid)
        .find(|id| facts.known(*id, gid::INDEX) == Some(0));
    match first.map(|id| facts.get(id, gid::ADDRESS)) {
        Some(fact) => fact.and_then(|address| {
            let full: std::net::Ipv6Addr = address
                .parse()
                .map_err(|_| format!("{address} is no GID"))?;
            let s = full.segments();
            Ok(format!("{:04x}:{:04x}:{:04x}:{:04x}", s[0], s[1], s[2], s[3]).into())
        }),
        None => Fact::Unknown(Gap::missing("GID 0")),
    }
}
