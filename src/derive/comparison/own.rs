//! What is to be one machine's own: addresses, GUIDs, LIDs, names.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::{Realm, Sample};
use crate::fact::comparison::ComparedProperty;
use crate::fact::gid::GidKind;
use crate::fact::port::LinkLayer;
use crate::fact::setting::SettingRole;
use crate::fact::{
    Fact, Facts, Gap, Id, Subject, gid, interface, netdev, node, port, setting, variable,
};

/// Why identities of a redacted recording say nothing beside others.
pub(super) const ALONE: &str =
    "a redacted recording has pseudonyms of its own: record with --redact-key";

/// Takes a node's identities.
pub(super) fn take(facts: &Facts, node: Id, sample: &mut Sample) {
    let all = [
        ComparedProperty::Guid,
        ComparedProperty::Address,
        ComparedProperty::Lid,
        ComparedProperty::HostId,
    ];
    if sample.realm == Realm::Alone {
        sample.own_open.extend(all.map(|of| (of, Arc::from(ALONE))));
        return;
    }
    ports(facts, node, sample);
    addresses(facts, node, sample);
    ranks(facts, node, sample);
    if let Err(gap) = facts.members(Subject::Variable, node) {
        sample.own_unknown(&[ComparedProperty::HostId], &gap);
    } else if let Some(id) = facts.find(Subject::Variable, node, "NCCL_HOSTID")
        && let Some(value) = facts.known(id, variable::VALUE)
    {
        sample.owns(ComparedProperty::HostId, value, "NCCL_HOSTID");
    }
}

impl Sample {
    fn owns(&mut self, of: ComparedProperty, value: impl Into<Arc<str>>, whose: &str) {
        self.own.push((of, value.into(), whose.into()));
    }

    fn own_unknown(&mut self, of: &[ComparedProperty], why: &dyn Display) {
        let why: Arc<str> = why.to_string().into();
        let each = of.iter().map(|of| (*of, Arc::clone(&why)));
        self.own_open.extend(each);
    }
}

/// The numbers of the nodes that one launch started. `LOCAL_RANK` is the same on all of them.
fn ranks(facts: &Facts, node: Id, sample: &mut Sample) {
    let Some(run) = facts.known(node, node::CLOCK_OFFSET_RUN) else {
        return;
    };
    for id in facts.below(node, Subject::Setting) {
        let name = facts.name(id);
        if facts.known(id, setting::ROLE) == Some(SettingRole::Rank)
            && !name.starts_with("LOCAL_")
            && let Some(value) = facts.known(id, setting::VALUE)
        {
            // Two runs have each a number 0.
            let number = format!("{run}/{name} {value}");
            sample.owns(ComparedProperty::Rank, number, name);
        }
    }
}

fn ports(facts: &Facts, node: Id, sample: &mut Sample) {
    let both = [ComparedProperty::Guid, ComparedProperty::Lid];
    if let Some(gap) = facts.incomplete(node, Subject::Port) {
        sample.own_unknown(&both, &gap);
    }
    for id in facts.below(node, Subject::Port) {
        let name = facts.name(id);
        match facts.value(id, port::LINK_LAYER) {
            Ok(LinkLayer::InfiniBand) => {}
            Ok(_) => {
                // Its link-local GID holds the MAC address.
                if facts.known(id, port::INTENDED) == Some(true)
                    && let Some(guid) = link_local(facts, id)
                {
                    sample.owns(ComparedProperty::Guid, guid, name);
                }
                continue;
            }
            Err(gap) => {
                sample.own_unknown(&both, &gap);
                continue;
            }
        }
        match guid(facts, id) {
            Some(guid) => sample.owns(ComparedProperty::Guid, guid, name),
            None => {
                let why = format!("the GUID of {name} is unknown");
                sample.own_unknown(&[ComparedProperty::Guid], &why);
            }
        }
        match lid(facts, id) {
            Ok(Some(lid)) => sample.owns(ComparedProperty::Lid, lid, name),
            Ok(None) => {}
            Err(_) => {
                let why = format!("the LID of {name} is unknown");
                sample.own_unknown(&[ComparedProperty::Lid], &why);
            }
        }
    }
}

/// The LID of an active port, with its subnet; none if it has none.
fn lid(facts: &Facts, id: Id) -> Result<Option<String>, Gap> {
    let state = facts.value(id, port::STATE)?;
    if !state.is_active() {
        return Ok(None);
    }
    let lid = facts.value(id, port::LID)?;
    if lid == 0 {
        return Ok(None);
    }
    let manager = facts.value(id, port::SM_LID)?;
    let prefix = facts.value(id, port::SUBNET_PREFIX)?;
    let name = facts.name(id);
    // Rails may be fabrics of their own that all have the default prefix: only ports of one name
    // are in one for certain.
    Ok(Some(format!(
        "{lid} (subnet {prefix}, its manager at {manager}, {name})"
    )))
}

/// The lower half of an Ethernet port's link-local GID.
pub(super) fn link_local(facts: &Facts, port: Id) -> Option<Arc<str>> {
    let local = |gid: &Id| facts.known(*gid, gid::KIND) == Some(GidKind::LinkLocal);
    lower_half(facts, facts.below(port, Subject::Gid).find(local)?)
}

/// The lower half of a port's first GID.
fn guid(facts: &Facts, port: Id) -> Option<Arc<str>> {
    let first = |gid: &Id| facts.known(*gid, gid::INDEX) == Some(0);
    lower_half(facts, facts.below(port, Subject::Gid).find(first)?)
}

fn lower_half(facts: &Facts, gid: Id) -> Option<Arc<str>> {
    let address: Ipv6Addr = facts.known(gid, gid::ADDRESS)?.parse().ok()?;
    let [.., a, b, c, d] = address.segments();
    Some(format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}").into())
}

/// The IPv4 addresses of a rail: those of its interface, else those that its routes name.
pub(super) fn rail_addresses(facts: &Facts, node: Id, netdev: Id) -> Fact<Arc<[Arc<str>]>> {
    let own = facts.find(Subject::Interface, node, facts.name(netdev));
    match own.map(|id| facts.get(id, interface::ADDRESSES)) {
        Some(Fact::Known(all, origin)) => {
            let address = |text: &Arc<str>| {
                let (address, _) = text.split_once('/')?;
                let of_all = match address.parse::<IpAddr>().ok()? {
                    IpAddr::V4(_) => true,
                    IpAddr::V6(six) => !six.is_unicast_link_local(),
                };
                of_all.then(|| address.into())
            };
            Fact::Known(all.iter().filter_map(address).collect(), origin)
        }
        _ => facts.get(netdev, netdev::ADDRESSES),
    }
}

/// Addresses of rails. Bridges, tunnels and adapters' own networks (tmfifo_net0) have the same ones
/// on every node.
fn addresses(facts: &Facts, node: Id, sample: &mut Sample) {
    if let Err(gap) = facts.members(Subject::Netdev, node) {
        sample.own_unknown(&[ComparedProperty::Address], &gap);
    }
    for id in facts.below(node, Subject::Netdev) {
        let used = [netdev::ROCE, netdev::INTENDED];
        if !used.iter().all(|key| facts.known(id, *key) == Some(true)) {
            continue;
        }
        match rail_addresses(facts, node, id) {
            Fact::Known(addresses, _) => {
                for address in addresses.iter() {
                    sample.owns(
                        ComparedProperty::Address,
                        Arc::clone(address),
                        facts.name(id),
                    );
                }
            }
            Fact::Unknown(gap) => sample.own_unknown(&[ComparedProperty::Address], &gap),
        }
    }
}
