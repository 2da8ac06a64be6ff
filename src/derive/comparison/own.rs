//! What is to be one machine's own: addresses, GUIDs, LIDs, names.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::{Realm, Sample};
use crate::fact::comparison::ComparedProperty;
use crate::fact::gid::GidKind;
use crate::fact::port::{LinkLayer, PortState};
use crate::fact::{Fact, Facts, Id, Subject, gid, interface, netdev, port, variable};

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
    match facts.members(Subject::Variable, node) {
        Err(gap) => sample
            .own_open
            .push((ComparedProperty::HostId, gap.to_string().into())),
        Ok(_) => {
            for id in facts.below(node, Subject::Variable) {
                if facts.known(id, variable::NAME).as_deref() == Some("NCCL_HOSTID")
                    && let Some(value) = facts.known(id, variable::VALUE)
                {
                    sample
                        .own
                        .push((ComparedProperty::HostId, value, "NCCL_HOSTID".into()));
                }
            }
        }
    }
}

fn ports(facts: &Facts, node: Id, sample: &mut Sample) {
    if let Some(gap) = crate::derive::tally::incomplete(facts, node, Subject::Port) {
        let why: Arc<str> = gap.to_string().into();
        sample
            .own_open
            .push((ComparedProperty::Guid, Arc::clone(&why)));
        sample.own_open.push((ComparedProperty::Lid, why));
    }
    for id in facts.below(node, Subject::Port) {
        match facts.get(id, port::LINK_LAYER) {
            Fact::Known(LinkLayer::InfiniBand, _) => {}
            Fact::Known(..) => {
                // Its link-local GID holds the MAC address.
                if facts.known(id, port::INTENDED) == Some(true)
                    && let Some(guid) = link_local(facts, id)
                {
                    let name = facts.name(id).into();
                    sample.own.push((ComparedProperty::Guid, guid, name));
                }
                continue;
            }
            Fact::Unknown(gap) => {
                let why: Arc<str> = gap.to_string().into();
                sample
                    .own_open
                    .push((ComparedProperty::Guid, Arc::clone(&why)));
                sample.own_open.push((ComparedProperty::Lid, why));
                continue;
            }
        }
        let name: Arc<str> = facts.name(id).into();
        match guid(facts, id) {
            Some(guid) => sample
                .own
                .push((ComparedProperty::Guid, guid, Arc::clone(&name))),
            None => sample.own_open.push((
                ComparedProperty::Guid,
                format!("the GUID of {name} is unknown").into(),
            )),
        }
        let state = facts.get(id, port::STATE);
        if matches!(state, Fact::Known(s, _) if !matches!(s, PortState::Active | PortState::ActiveDefer))
        {
            continue;
        }
        match (
            state,
            facts.get(id, port::LID),
            facts.get(id, port::SM_LID),
            facts.get(id, port::SUBNET_PREFIX),
        ) {
            (
                Fact::Known(..),
                Fact::Known(lid, _),
                Fact::Known(manager, _),
                Fact::Known(prefix, _),
            ) if lid != 0 => {
                // Rails may be fabrics of their own that all have the default prefix: only ports of one name are in one for certain.
                let value = format!("{lid} (subnet {prefix}, its manager at {manager}, {name})");
                sample.own.push((ComparedProperty::Lid, value.into(), name));
            }
            (Fact::Known(..), Fact::Known(0, _), ..) => {}
            _ => sample.own_open.push((
                ComparedProperty::Lid,
                format!("the LID of {name} is unknown").into(),
            )),
        }
    }
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

/// Addresses of rails. Bridges, tunnels and adapters' own networks (tmfifo_net0) have the same ones on every node.
fn addresses(facts: &Facts, node: Id, sample: &mut Sample) {
    if let Err(gap) = facts.members(Subject::Netdev, node) {
        sample
            .own_open
            .push((ComparedProperty::Address, gap.to_string().into()));
    }
    for id in facts.below(node, Subject::Netdev) {
        match (
            facts.known(id, netdev::ROCE),
            facts.known(id, netdev::INTENDED),
        ) {
            (Some(false), _) | (_, Some(false)) => continue,
            (Some(true), Some(true)) => {}
            _ => continue,
        }
        let name: Arc<str> = facts.name(id).into();
        match rail_addresses(facts, node, id) {
            Fact::Known(addresses, _) => {
                for address in addresses.iter() {
                    sample.own.push((
                        ComparedProperty::Address,
                        Arc::clone(address),
                        Arc::clone(&name),
                    ));
                }
            }
            Fact::Unknown(gap) => sample
                .own_open
                .push((ComparedProperty::Address, gap.to_string().into())),
        }
    }
}
