//! What a port's GID table offers: RoCE v2, routable, at which index.

use super::Derivation;
use crate::fact::gid::{GidKind, GidType};
use crate::fact::kleene::Several;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, gid, interface, known, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gid_choice", &[], derive);

/// Works out what the GID table of each port offers.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let table = Table::of(facts, port);
        let is = |wanted: GidType| move |row: &Row| row.is(wanted);
        facts.set(port, port::GID_V2, table.any("v2", is(GidType::V2)));
        let routable = table
            .any("routable v2", |row| row.is_routable(GidType::V2))
            .or_else(|| no_address(facts, node, port));
        facts.set(port, port::GID_ROUTABLE_V2, routable);
        let routable = table.any("routable v1", |row| row.is_routable(GidType::V1));
        facts.set(port, port::GID_ROUTABLE_V1, routable);
        facts.set(port, port::GID_INDEX, table.index());
        facts.set(port, port::SUBNET_PREFIX, subnet_prefix(facts, port));
        for gid in facts.below(port, Subject::Gid).collect::<Vec<_>>() {
            if let Some(here) = address_here(facts, node, gid) {
                facts.set(gid, gid::ADDRESS_HERE, here);
            }
        }
    }
}

/// Whether an interface has the IPv4 address of a GID. In a container that may be one of the host.
fn address_here(facts: &Facts, node: Id, gid: Id) -> Option<Fact<bool>> {
    let address = facts.known(gid, gid::ADDRESS)?;
    let own = address.strip_prefix("::ffff:")?;
    let has = |id: Id| {
        let all = facts.value(id, interface::ADDRESSES)?;
        let mut all = all.iter().filter_map(|text| text.split_once('/'));
        Ok(all.any(|(address, _)| address == own))
    };
    let interfaces = facts.below(node, Subject::Interface).map(has);
    let interfaces: Several<bool> = interfaces.collect();
    let found = interfaces.or_others(facts.members(Subject::Interface, node).err());
    Some(Fact::of(
        found.any(|has| *has),
        "the addresses of interfaces",
    ))
}

/// A row of the table that is in use.
struct Row {
    index: Result<u64, Gap>,
    of_type: Result<GidType, Gap>,
    kind: Result<GidKind, Gap>,
}

impl Row {
    fn is(&self, wanted: GidType) -> Result<bool, Gap> {
        self.of_type.clone().map(|found| found == wanted)
    }

    /// Of this type, and routable: a row that is known not to be one of them is not both.
    fn is_routable(&self, wanted: GidType) -> Result<bool, Gap> {
        let routable = self.kind.clone().map(|kind| kind != GidKind::LinkLocal);
        let both: Several<bool> = [self.is(wanted), routable].into_iter().collect();
        both.all(|is| *is)
    }
}

struct Table {
    rows: Vec<Row>,
    /// Why there may be further rows.
    others: Option<Gap>,
}

impl Table {
    fn of(facts: &Facts, port: Id) -> Self {
        let row = |id: Id| Row {
            index: facts.value(id, gid::INDEX),
            of_type: facts.value(id, gid::TYPE),
            kind: facts.value(id, gid::KIND),
        };
        Table {
            rows: facts.below(port, Subject::Gid).map(row).collect(),
            others: facts.members(Subject::Gid, port).err(),
        }
    }

    fn any(&self, what: &str, fits: impl Fn(&Row) -> Result<bool, Gap>) -> Fact<bool> {
        let of_row = |row: &Row| Ok((fits(row)?, row.index.clone()));
        let rows: Several<(bool, Result<u64, Gap>)> = self.rows.iter().map(of_row).collect();
        match rows.or_others(self.others.clone()).find(|(fits, _)| *fits) {
            Ok(Some((_, Ok(index)))) => Fact::derived(true, format!("GID {index}")),
            Ok(Some((_, Err(_)))) => Fact::derived(true, "a GID"),
            Ok(None) => Fact::derived(false, format!("no {what} GID among {}", self.rows.len())),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    /// NCCL prefers IPv4 too (net_ib.cc, ncclUpdateGidIndex): two indexes are compared by what
    /// would be used.
    fn index(&self) -> Fact<u64> {
        let of_row = |row: &Row| Ok((row.index.clone()?, row.of_type.clone()?, row.kind.clone()?));
        let rows: Several<(u64, GidType, GidKind)> = self.rows.iter().map(of_row).collect();
        let rows = rows.or_others(self.others.clone());
        let rows = known!(ok rows.known());
        let lowest = |kind: GidKind| {
            rows.iter()
                .filter(|(_, t, k)| *t == GidType::V2 && *k == kind)
                .map(|(i, ..)| *i)
                .min()
        };
        let index = lowest(GidKind::Ipv4).or_else(|| lowest(GidKind::Ipv6));
        let index = index.ok_or_else(|| Gap::missing("port.gid_routable_v2"));
        Fact::of(index, "lowest routable RoCE v2 GID")
    }
}

/// Whether a port has no routable GID for want of an address: the kernel makes its GIDs of the
/// addresses of its network device, and of what lies over that. Known only where nothing that may
/// lie over it has an address that can be routed.
fn no_address(facts: &Facts, node: Id, port: Id) -> Fact<bool> {
    let answer = (|| {
        facts.members(Subject::Interface, node)?;
        let own = facts.value(port, port::NETDEV)?;
        let Some(netdev) = facts.find(Subject::Interface, node, &own) else {
            return Err(Gap::missing("interface.addresses"));
        };
        let alone = |id: Id| Ok(&*facts.value(id, interface::MASTER)? == "none");
        // A bond or bridge has its members; what else has neither hardware nor a pair lies over
        // any.
        let apart = |id: Id| {
            let kind = facts.value(id, interface::KIND)?;
            Ok(matches!(
                &*kind,
                "none" | "bond" | "bridge" | "veth" | "tun" | "vxlan"
            ))
        };
        let unrouted = |id: Id| {
            let addresses = facts.value(id, interface::ADDRESSES)?;
            Ok(!addresses.iter().any(|address| is_routable(address)))
        };
        let over = |id: Id| {
            let either: Several<bool> = [apart(id), unrouted(id)].into_iter().collect();
            either.any(|is| *is)
        };
        let others = facts.below(node, Subject::Interface);
        let others = others.filter(|id| *id != netdev).map(over);
        let all: Several<bool> = [alone(netdev), unrouted(netdev)]
            .into_iter()
            .chain(others)
            .collect();
        if all.all(|is| *is)? {
            Ok(own)
        } else {
            Err(Gap::missing("port.gid_routable_v2"))
        }
    })();
    match answer {
        Ok(own) => Fact::derived(false, format!("{own} has no address that can be routed")),
        Err(gap) => Fact::Unknown(gap),
    }
}

/// Whether an address, as `10.0.0.1/24`, is none of its own link.
fn is_routable(address: &str) -> bool {
    let address = address.split('/').next().unwrap_or_default();
    match address.parse() {
        Ok(std::net::IpAddr::V6(address)) => !address.is_unicast_link_local(),
        // What is not understood may be one.
        _ => true,
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
                .map_err(|_| format!("{address} is not a GID"))?;
            let s = full.segments();
            Ok(format!("{:04x}:{:04x}:{:04x}:{:04x}", s[0], s[1], s[2], s[3]).into())
        }),
        None => Fact::Unknown(Gap::missing("GID 0")),
    }
}
