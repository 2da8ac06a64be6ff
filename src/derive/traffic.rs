//! The chain of NCCL's RoCE traffic: traffic class, DSCP, priority, PFC, ECN; closed, or broken at
//! a link that has a name.
//!
//! 1. The traffic class is what the vendor's mlx5 forces on the port, whatever the application asks
//!    for; else NCCL_IB_TC; else NCCL's default, 0.
//! 2. Its upper six bits are the DSCP. 3. Where the port trusts DSCP, its map gives the priority;
//!    where it trusts PCP, a packet without a VLAN has priority 0. 4. PFC on that priority, or
//!    pause of the whole link, keeps packets from being dropped.
//! 5. ECN on that priority keeps queues from filling.

use super::Derivation;
use std::sync::Arc;

use super::agreement::{Used, agree};
use super::group;
use super::nccl::setting;
use crate::fact::device::NodeType;
use crate::fact::kleene::Several;
use crate::fact::netdev::Trust;
use crate::fact::port::{LinkLayer, PortState};
use crate::fact::traffic::{self, BrokenAt, ClassSource};
use crate::fact::{
    Bytes, Fact, Facts, Gap, Id, Key, Membership, Percent, Subject, Typed, device, gid, netdev,
    node, port,
};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("traffic", &["port.intended"], derive);

/// Makes the traffic of each Ethernet port, and follows it.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let settings = Settings {
        class: setting(facts, node, "NCCL_IB_TC"),
        service_level: setting(facts, node, "NCCL_IB_SL"),
    };
    let environment = environment(facts, node);
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let membership = match facts.get(port, port::LINK_LAYER) {
            Fact::Known(LinkLayer::Ethernet, origin) => {
                let name = facts.name(port).to_owned();
                let id = facts.instance(Subject::Traffic, port, &name);
                state(facts, id, traffic::JOB_ENVIRONMENT, environment.clone());
                follow(facts, node, port, id, &settings);
                Membership::Known(origin)
            }
            Fact::Known(_, origin) => Membership::Known(origin),
            Fact::Unknown(gap) => Membership::Unknown(gap),
        };
        facts.set_members(Subject::Traffic, port, membership);
    }
    for netdev in facts.below(node, Subject::Netdev).collect::<Vec<_>>() {
        let as_switch = (|| {
            if !facts.value(netdev, netdev::SWITCH_ANNOUNCES)? {
                return Ok(true);
            }
            let own = facts.value(netdev, netdev::PFC)?;
            Ok(own == facts.value(netdev, netdev::SWITCH_PFC)?)
        })();
        state(facts, netdev, netdev::PFC_AS_SWITCH, as_switch);
    }
    agreement(facts, node);
}

/// What NCCL's variables say; `None` where one is not set.
struct Settings {
    class: Result<Option<Arc<str>>, Gap>,
    service_level: Result<Option<Arc<str>>, Gap>,
}

fn state<T: Typed>(facts: &mut Facts, id: Id, key: Key<T>, outcome: Result<T, Gap>) {
    let fact = Fact::of(outcome, "the chain from traffic class to switch");
    facts.set(id, key, fact);
}

/// Whether any variable of NCCL's is in effect.
fn environment(facts: &Facts, node: Id) -> Result<bool, Gap> {
    let mut variables = facts.below(node, Subject::Variable);
    if variables.any(|id| facts.name(id).starts_with("NCCL_")) {
        return Ok(true);
    }
    facts.members(Subject::Variable, node).map(|_| false)
}

/// A variable's number as strtoll(3) with base 0 reads it, which is how NCCL reads these; 0 where
/// it begins with none, or is negative (NCCL takes -1 for its default, which is 0).
fn number(text: &str) -> u64 {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    digits
        .get(..end)
        .and_then(|digits| u64::from_str_radix(digits, radix).ok())
        .unwrap_or(0)
}

fn follow(facts: &mut Facts, node: Id, port: Id, id: Id, settings: &Settings) {
    let used = used(facts, port);
    state(facts, id, traffic::USED, used);
    let netdev = facts.value(port, port::NETDEV).and_then(|name| {
        let found = facts.find(Subject::Netdev, node, &name);
        found.ok_or_else(|| Gap::missing(format!("network device {name}")))
    });

    let wanted = settings.class.clone();
    let wanted = wanted.map(|text| text.map(|text| number(&text) & 0xff));
    let forced = facts.value(port, port::CLASS_FORCED).and_then(|forced| {
        let class = forced.then(|| facts.value(port, port::FORCED_CLASS));
        class.transpose()
    });
    let chosen = forced.clone().and_then(|forced| match forced {
        Some(class) => Ok((class, ClassSource::Device)),
        None => Ok(match wanted.clone()? {
            Some(class) => (class, ClassSource::Variable),
            None => (0, ClassSource::Default),
        }),
    });
    if let Ok(Some(class)) = &wanted {
        state(facts, id, traffic::CLASS_WANTED, Ok(*class));
    }
    let overridden = match (&forced, &wanted) {
        (Ok(Some(forced)), Ok(Some(wanted))) => Ok(forced != wanted),
        (Ok(None), _) | (_, Ok(None)) => Ok(false),
        (Err(gap), _) | (_, Err(gap)) => Err(gap.clone()),
    };
    state(facts, id, traffic::CLASS_OVERRIDDEN, overridden);
    let class = chosen.clone().map(|(class, _)| class);
    state(facts, id, traffic::CLASS, class.clone());
    let source = chosen.clone().map(|(_, source)| source);
    state(facts, id, traffic::CLASS_SOURCE, source);
    let dscp = class.map(|class| class >> 2);
    state(facts, id, traffic::DSCP, dscp.clone());

    let on_netdev = Port {
        dcb: of(facts, &netdev, netdev::DCB),
        trust: of(facts, &netdev, netdev::TRUST),
        map: of(facts, &netdev, netdev::DSCP_PRIORITIES),
        pfc: of(facts, &netdev, netdev::PFC),
        untagged: untagged(facts, port, settings),
    };
    let pauses = [netdev::PAUSE_RX, netdev::PAUSE_TX];
    let pauses = Several::from_iter(pauses.map(|key| of(facts, &netdev, key)));
    let pause = pauses.all(|on| *on);
    settings_of_port(facts, id, &on_netdev);
    state(facts, id, traffic::PAUSE, pause.clone());
    let priority = dscp.and_then(|dscp| on_netdev.priority(dscp));
    state(facts, id, traffic::PRIORITY, priority.clone());
    let pfc = on_netdev.has_pfc(&priority);
    state(facts, id, traffic::PFC, pfc.clone());
    let stops = Several::from_iter([pfc.clone(), pause.clone()]);
    let lossless = stops.any(|stops| *stops);
    state(facts, id, traffic::LOSSLESS, lossless.clone());

    let switched = of(facts, &netdev, netdev::ECN_SWITCHED);
    state(facts, id, traffic::ECN_SWITCHED, switched.clone());
    let point = |key: Key<Arc<[Arc<str>]>>| -> Result<bool, Gap> {
        Ok(has(&facts.value(netdev.clone()?, key)?, priority.clone()?))
    };
    let has_switch = switched.clone().and_then(|switched| {
        if switched {
            Ok(())
        } else {
            Err(Gap::missing("a switch for ECN in the driver"))
        }
    });
    let ecn = has_switch.clone().and_then(|()| {
        let (np, rp) = (point(netdev::ECN_NOTIFIES)?, point(netdev::ECN_REACTS)?);
        Ok((np && rp, np != rp))
    });
    state(facts, id, traffic::ECN, ecn.clone().map(|(on, _)| on));
    let half = ecn.clone().map(|(_, half)| half);
    state(facts, id, traffic::ECN_HALF, half);

    let cnp = has_switch.and_then(|()| of(facts, &netdev, netdev::CNP_DSCP));
    let with_data = match (&cnp, &priority, &on_netdev.trust) {
        (Ok(cnp), Ok(own), Ok(Trust::Dscp)) => on_netdev.priority(*cnp).map(|cnp| cnp == *own),
        // The tag of a notification is another setting, and its priority the switch's.
        (_, _, Ok(Trust::Pcp)) => Err(Gap::missing("trust in DSCP")),
        (Err(gap), ..) | (_, Err(gap), _) | (.., Err(gap)) => Err(gap.clone()),
    };
    state(facts, id, traffic::CNP_DSCP, cnp);
    state(facts, id, traffic::CNP_WITH_DATA, with_data);

    let broken = broken_at(&on_netdev, &lossless, &switched, &ecn, &chosen);
    state(facts, id, traffic::BROKEN_AT, broken);
    scheduling(facts, id, &netdev, &priority);
    buffers(facts, id, &netdev, &priority, &on_netdev.pfc);
    let host = netdev.and_then(|n| facts.value(n, netdev::DCBX_HOST));
    state(facts, id, traffic::DCBX_HOST, host);

    connection_manager(facts, port, id, &on_netdev);
}

/// The settings of the port, and what has PFC by them.
fn settings_of_port(facts: &mut Facts, id: Id, on_netdev: &Port) {
    state(facts, id, traffic::DCB, on_netdev.dcb.clone());
    state(facts, id, traffic::TRUST, on_netdev.trust.clone());
    state(facts, id, traffic::PFC_PRIORITIES, on_netdev.pfc.clone());
    let first = on_netdev.pfc.clone().and_then(|all| {
        let first = all.first().cloned();
        first.ok_or_else(|| Gap::missing("a priority with PFC"))
    });
    state(facts, id, traffic::PROTECTED_PRIORITY, first);
    state(facts, id, traffic::PROTECTED_DSCPS, on_netdev.protected());
}

/// What connections of the RDMA connection manager get, where it has a type of service of its own.
fn connection_manager(facts: &mut Facts, port: Id, id: Id, on_netdev: &Port) {
    let set = facts.value(port, port::CMA_TOS_SET);
    if set == Ok(true) {
        let tos = facts.value(port, port::CMA_TOS);
        let priority = tos.and_then(|tos| on_netdev.priority(tos >> 2));
        let pfc = on_netdev.has_pfc(&priority);
        state(facts, id, traffic::CMA_PRIORITY, priority);
        state(facts, id, traffic::CMA_PFC, pfc);
    }
    state(facts, id, traffic::CMA_SET, set);
}

/// A fact of a port's netdev.
fn of<T: Typed>(facts: &Facts, netdev: &Result<Id, Gap>, key: Key<T>) -> Result<T, Gap> {
    facts.value(netdev.clone()?, key)
}

/// The priority of the port's packets where it trusts their tags: 0 without a VLAN, whose tag has
/// the service level otherwise.
fn untagged(facts: &Facts, port: Id, settings: &Settings) -> Result<u64, Gap> {
    let own = facts.value(port, port::NETDEV)?;
    let mut open = facts.members(Subject::Gid, port).err();
    let mut vlan = false;
    for gid in facts.below(port, Subject::Gid) {
        match facts.value(gid, gid::NETDEV) {
            Ok(name) => vlan |= name != own,
            Err(gap) => open = Some(gap),
        }
    }
    if let (false, None) = (vlan, open) {
        return Ok(0);
    }
    match settings.service_level.clone()? {
        Some(level) if number(&level) != 0 => Err(Gap::missing(
            "the priority of a service level (NCCL_IB_SL) without trust in DSCP",
        )),
        _ => Ok(0),
    }
}

/// Intended, active, and of RoCE: iWARP has its own transport.
fn used(facts: &Facts, port: Id) -> Result<bool, Gap> {
    let device = facts
        .ancestor(port, Subject::Device)
        .ok_or_else(|| Gap::missing("device"))?;
    let kind = facts.value(device, device::NODE_TYPE);
    let all = [
        facts.value(port, port::INTENDED),
        facts.value(port, port::STATE).map(PortState::is_active),
        kind.map(|kind| kind == NodeType::Ca),
    ];
    Several::from_iter(all).all(|is| *is)
}

/// What a port's netdev does with priorities.
struct Port {
    dcb: Result<bool, Gap>,
    trust: Result<Trust, Gap>,
    map: Result<Arc<[Arc<str>]>, Gap>,
    pfc: Result<Arc<[Arc<str>]>, Gap>,
    /// The priority of a packet without a tag, where the port trusts tags.
    untagged: Result<u64, Gap>,
}

impl Port {
    fn priority(&self, dscp: u64) -> Result<u64, Gap> {
        if !self.dcb.clone()? {
            return Err(Gap::missing("data centre bridging in the driver"));
        }
        match self.trust.clone()? {
            Trust::Pcp => self.untagged.clone(),
            Trust::Dscp => {
                let map = self.map.clone()?;
                let entry = usize::try_from(dscp).ok().and_then(|dscp| map.get(dscp));
                entry
                    .and_then(|priority| priority.parse().ok())
                    .ok_or_else(|| Gap::missing(format!("the priority of DSCP {dscp}")))
            }
        }
    }

    fn has_pfc(&self, priority: &Result<u64, Gap>) -> Result<bool, Gap> {
        let pfc = self.pfc.clone()?;
        match pfc.len() {
            0 => Ok(false),
            8 => Ok(true),
            _ => Ok(has(&pfc, priority.clone()?)),
        }
    }

    /// The DSCPs that lead to a priority with PFC.
    fn protected(&self) -> Result<Arc<str>, Gap> {
        let (trust, map, pfc) = (self.trust.clone()?, self.map.clone()?, self.pfc.clone()?);
        if trust == Trust::Pcp {
            return Ok("none".into());
        }
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (dscp, priority) in map.iter().enumerate() {
            match ranges.last_mut() {
                _ if !pfc.contains(priority) => {}
                Some((_, last)) if *last + 1 == dscp => *last = dscp,
                _ => ranges.push((dscp, dscp)),
            }
        }
        let words: Vec<String> = ranges
            .iter()
            .map(|(first, last)| {
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect();
        Ok(if words.is_empty() {
            "none".into()
        } else {
            words.join(", ").into()
        })
    }
}

fn has(priorities: &[Arc<str>], priority: u64) -> bool {
    let priority = priority.to_string();
    priorities.iter().any(|p| **p == *priority)
}

fn broken_at(
    port: &Port,
    lossless: &Result<bool, Gap>,
    switched: &Result<bool, Gap>,
    ecn: &Result<(bool, bool), Gap>,
    chosen: &Result<(u64, ClassSource), Gap>,
) -> Result<BrokenAt, Gap> {
    if lossless.clone()? {
        if !switched.clone()? {
            return Ok(BrokenAt::None);
        }
        return Ok(if ecn.clone()?.0 {
            BrokenAt::None
        } else {
            BrokenAt::Ecn
        });
    }
    if port.pfc.clone()?.is_empty() {
        return Ok(BrokenAt::Pfc);
    }
    let (class, source) = chosen.clone()?;
    Ok(match (source, port.trust.clone()?) {
        (ClassSource::Default, _) => BrokenAt::TrafficClass,
        (_, Trust::Pcp) if class >> 2 != 0 => BrokenAt::Trust,
        _ => BrokenAt::DscpMap,
    })
}

/// How the class of the traffic's priority is scheduled.
fn scheduling(facts: &mut Facts, id: Id, netdev: &Result<Id, Gap>, priority: &Result<u64, Gap>) {
    let found = (|| {
        let scheduling = facts.value(netdev.clone()?, netdev::SCHEDULING)?;
        let word = entry(&scheduling, priority.clone()?)?;
        Ok(word.parse::<u64>().ok())
    })();
    let has_share = found.clone().map(|share| share.is_some());
    state(facts, id, traffic::ETS, has_share);
    if let Ok(Some(share)) = found {
        state(facts, id, traffic::SHARE, Ok(Percent(share as f64)));
    }
}

fn entry(list: &[Arc<str>], at: u64) -> Result<Arc<str>, Gap> {
    let found = usize::try_from(at).ok().and_then(|at| list.get(at));
    found
        .cloned()
        .ok_or_else(|| Gap::missing(format!("priority {at}")))
}

/// The receive buffer of the traffic's priority, and who else uses it.
fn buffers(
    facts: &mut Facts,
    id: Id,
    netdev: &Result<Id, Gap>,
    priority: &Result<u64, Gap>,
    pfc: &Result<Arc<[Arc<str>]>, Gap>,
) {
    let found: Result<(u64, bool), Gap> = (|| {
        let netdev = netdev.clone()?;
        let of_priority = facts.value(netdev, netdev::BUFFERS)?;
        let sizes = facts.value(netdev, netdev::BUFFER_SIZES)?;
        let own = entry(&of_priority, priority.clone()?)?;
        let at = own.parse().map_err(|_| Gap::missing("a buffer's number"))?;
        let size = entry(&sizes, at)?.parse();
        let size = size.map_err(|_| Gap::missing("a buffer's size"))?;
        let pfc = pfc.clone()?;
        let mut others = of_priority.iter().zip(0u64..);
        let shared = others.any(|(buffer, p)| *buffer == own && !has(&pfc, p));
        Ok((size, shared))
    })();
    let size = found.clone().map(|(size, _)| Bytes(size));
    state(facts, id, traffic::BUFFER, size);
    let shared = found.map(|(_, shared)| shared);
    state(facts, id, traffic::BUFFER_SHARED, shared);
}

/// Whether the traffic of all used ports of one board is treated alike. Ports of another board may
/// be of another network.
fn agreement(facts: &mut Facts, node: Id) {
    let lost = facts.incomplete(node, Subject::Traffic);
    let mut used: Vec<Used> = lost.map(Used::Open).into_iter().collect();
    for id in facts.below(node, Subject::Traffic) {
        match facts.value(id, traffic::USED) {
            Ok(true) => used.push(Used::Port(id, facts.name(id).to_owned())),
            Ok(false) => {}
            Err(gap) => used.push(Used::Open(gap)),
        }
    }
    let outcome = agree(&used, |id| {
        let port = facts.parent(id).ok_or_else(|| Gap::missing("port"))?;
        Ok((group::port_kind(facts, port)?, treatment(facts, id)?))
    });
    let (agrees, which) = match outcome {
        Ok(Ok(())) => (Ok(true), Ok("all the same".into())),
        Ok(Err(who)) => (Ok(false), Ok(who.into())),
        Err(gap) => (Err(gap.clone()), Err(gap)),
    };
    let how = "class, trust, PFC and priority of the ports that RoCE traffic uses";
    facts.set(node, node::QOS_AGREES, Fact::of(agrees, how));
    facts.set(node, node::QOS, Fact::of(which, how));
}

/// How a port treats its traffic, in words.
fn treatment(facts: &Facts, id: Id) -> Result<String, Gap> {
    if !facts.value(id, traffic::DCB)? {
        return Ok("no data centre bridging".to_owned());
    }
    let pfc = match facts.value(id, traffic::PFC_PRIORITIES)? {
        pfc if pfc.is_empty() => "no PFC".to_owned(),
        pfc => format!("PFC on {}", pfc.join(", ")),
    };
    let trust = facts.value(id, traffic::TRUST)?.word();
    let class = facts.value(id, traffic::CLASS)?;
    let priority = facts.value(id, traffic::PRIORITY)?;
    Ok(format!(
        "{pfc}, trust {trust}, traffic class {class} on priority {priority}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::{Origin, variable};

    fn texts(items: &[&str]) -> Arc<[Arc<str>]> {
        items.iter().map(|item| Arc::from(*item)).collect()
    }

    /// A RoCE port on a ConnectX, trust DSCP with the adapter's own map, PFC on priority 3, nothing
    /// forced, no variable set.
    fn roce(facts: &mut Facts, name: &str, netdev_name: &str) -> (Id, Id) {
        let found = facts.all(Subject::Node).next();
        let n = found.unwrap_or_else(|| node(facts));
        facts.set_members(Subject::Variable, n, Membership::Known(Origin::Stated));
        let device = facts.instance(Subject::Device, n, name);
        facts.set(device, device::NODE_TYPE, stated(NodeType::Ca));
        facts.set(device, device::MODEL, stated("MT4129".into()));
        facts.set(device, device::BOARD, stated("MT_0000000838".into()));
        facts.set_members(Subject::Port, device, Membership::Known(Origin::Stated));
        let p = facts.instance(Subject::Port, device, &format!("{name}/1"));
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::STATE, stated(PortState::Active));
        facts.set(p, port::INTENDED, stated(true));
        facts.set(p, port::NETDEV, stated(netdev_name.into()));
        let d = facts.instance(Subject::Netdev, n, netdev_name);
        facts.set(d, netdev::DCB, stated(true));
        facts.set(d, netdev::SWITCH_ANNOUNCES, stated(false));
        facts.set(d, netdev::PAUSE_RX, stated(false));
        facts.set(d, netdev::PAUSE_TX, stated(false));
        (p, d)
    }

    fn by_dscp(facts: &mut Facts, d: Id, pfc: &[&str]) {
        let map: Vec<String> = (0..64).map(|dscp| (dscp >> 3).to_string()).collect();
        let map: Vec<&str> = map.iter().map(String::as_str).collect();
        facts.set(d, netdev::TRUST, stated(Trust::Dscp));
        facts.set(d, netdev::DSCP_PRIORITIES, stated(texts(&map)));
        facts.set(d, netdev::PFC, stated(texts(pfc)));
        facts.set(d, netdev::ECN_SWITCHED, stated(false));
    }

    fn variable_is(facts: &mut Facts, name: &str, text: &str) {
        let n = facts.all(Subject::Node).next().unwrap();
        let id = facts.instance(Subject::Variable, n, name);
        facts.set(id, variable::VALUE, stated(text.into()));
    }

    fn of(facts: &mut Facts) -> Id {
        let n = facts.all(Subject::Node).next().unwrap();
        derive(facts, n);
        facts.all(Subject::Traffic).next().unwrap()
    }

    #[test]
    fn the_chain_closes_with_a_class_that_is_protected() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(false));
        by_dscp(&mut facts, d, &["3"]);
        variable_is(&mut facts, "NCCL_IB_TC", "106");
        let t = of(&mut facts);
        assert_eq!(facts.known(t, traffic::USED), Some(true));
        assert_eq!(
            facts.known(t, traffic::CLASS_SOURCE),
            Some(ClassSource::Variable)
        );
        assert_eq!(facts.known(t, traffic::DSCP), Some(26));
        assert_eq!(facts.known(t, traffic::PRIORITY), Some(3));
        assert_eq!(facts.known(t, traffic::LOSSLESS), Some(true));
        assert_eq!(facts.known(t, traffic::BROKEN_AT), Some(BrokenAt::None));
        assert_eq!(
            facts.known(t, traffic::PROTECTED_DSCPS).as_deref(),
            Some("24-31")
        );
        assert_eq!(facts.known(t, traffic::JOB_ENVIRONMENT), Some(true));
    }

    #[test]
    fn each_link_that_can_break_has_its_name() {
        type Make = fn(&mut Facts, Id, Id);
        let cases: [(BrokenAt, Make); 6] = [
            (BrokenAt::TrafficClass, |facts, _, d| {
                by_dscp(facts, d, &["3"])
            }),
            (BrokenAt::DscpMap, |facts, _, d| {
                by_dscp(facts, d, &["3"]);
                variable_is(facts, "NCCL_IB_TC", "160");
            }),
            (BrokenAt::Trust, |facts, _, d| {
                facts.set(d, netdev::TRUST, stated(Trust::Pcp));
                by_dscp(facts, d, &["3"]);
                variable_is(facts, "NCCL_IB_TC", "106");
            }),
            (BrokenAt::Pfc, |facts, _, d| {
                by_dscp(facts, d, &[]);
                variable_is(facts, "NCCL_IB_TC", "106");
            }),
            (BrokenAt::Ecn, |facts, _, d| {
                facts.set(d, netdev::ECN_SWITCHED, stated(true));
                facts.set(d, netdev::ECN_NOTIFIES, stated(texts(&["3"])));
                facts.set(d, netdev::ECN_REACTS, stated(texts(&["0"])));
                by_dscp(facts, d, &["3"]);
                variable_is(facts, "NCCL_IB_TC", "0x6a");
            }),
            (BrokenAt::None, |facts, _, d| by_dscp(facts, d, &["0"])),
        ];
        for (expected, make) in cases {
            let mut facts = Facts::new();
            let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
            facts.set(p, port::CLASS_FORCED, stated(false));
            make(&mut facts, p, d);
            let t = of(&mut facts);
            assert_eq!(facts.known(t, traffic::BROKEN_AT), Some(expected));
        }
    }

    #[test]
    fn a_tag_matters_with_a_vlan_only() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(false));
        facts.set(d, netdev::TRUST, stated(Trust::Pcp));
        by_dscp(&mut facts, d, &["3"]);
        variable_is(&mut facts, "NCCL_IB_SL", "3");
        facts.set_members(Subject::Gid, p, Membership::Known(Origin::Stated));
        let id = facts.instance(Subject::Gid, p, "mlx5_0/1 gid 3");
        facts.set(id, gid::NETDEV, stated("eth2".into()));
        let t = of(&mut facts);
        assert_eq!(facts.known(t, traffic::PRIORITY), Some(0));
        let mut facts = Facts::new();
        // On a VLAN the tag holds the service level, and what that leads to is the adapter's own.
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(false));
        facts.set(d, netdev::TRUST, stated(Trust::Pcp));
        by_dscp(&mut facts, d, &["3"]);
        variable_is(&mut facts, "NCCL_IB_SL", "3");
        let id = facts.instance(Subject::Gid, p, "mlx5_0/1 gid 5");
        facts.set(id, gid::NETDEV, stated("eth2.100".into()));
        let t = of(&mut facts);
        assert_eq!(facts.known(t, traffic::PRIORITY), None);
    }

    #[test]
    fn what_the_driver_forces_wins_over_the_variable() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(true));
        facts.set(p, port::FORCED_CLASS, stated(106));
        by_dscp(&mut facts, d, &["3"]);
        variable_is(&mut facts, "NCCL_IB_TC", "160");
        let t = of(&mut facts);
        assert_eq!(facts.known(t, traffic::CLASS), Some(106));
        assert_eq!(facts.known(t, traffic::CLASS_OVERRIDDEN), Some(true));
        assert_eq!(facts.known(t, traffic::BROKEN_AT), Some(BrokenAt::None));
        // Whether a variable is set does not matter then.
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(true));
        facts.set(p, port::FORCED_CLASS, stated(106));
        by_dscp(&mut facts, d, &["3"]);
        let t = of(&mut facts);
        assert_eq!(
            facts.known(t, traffic::CLASS_SOURCE),
            Some(ClassSource::Device)
        );
    }

    #[test]
    fn unknown_variables_leave_the_class_open_and_a_node_without_pfc_not() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let gap = Gap::missing("the environment");
        facts.set_members(Subject::Variable, n, Membership::Unknown(gap));
        let device = facts.instance(Subject::Device, n, "mlx5_0");
        facts.set_members(Subject::Port, device, Membership::Known(Origin::Stated));
        let p = facts.instance(Subject::Port, device, "mlx5_0/1");
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::NETDEV, stated("eth2".into()));
        facts.set(p, port::CLASS_FORCED, stated(false));
        let d = facts.instance(Subject::Netdev, n, "eth2");
        facts.set(d, netdev::DCB, stated(true));
        facts.set(d, netdev::PAUSE_RX, stated(false));
        by_dscp(&mut facts, d, &["3"]);
        derive(&mut facts, n);
        let t = facts.all(Subject::Traffic).next().unwrap();
        assert_eq!(facts.known(t, traffic::CLASS), None);
        assert_eq!(facts.known(t, traffic::BROKEN_AT), None);
        assert_eq!(facts.known(t, traffic::PAUSE), Some(false));
    }

    #[test]
    fn notifications_have_a_priority_of_their_own_or_the_datas() {
        let with_data = |cnp: Option<u64>, trust: Trust| {
            let mut facts = Facts::new();
            let (p, d) = roce(&mut facts, "mlx5_0", "ens0");
            facts.set(p, port::CLASS_FORCED, stated(false));
            // DSCP 24 to 31 stands for priority 3, and so on.
            let map: Vec<String> = (0..64).map(|dscp| (dscp >> 3).to_string()).collect();
            let map: Vec<&str> = map.iter().map(String::as_str).collect();
            facts.set(d, netdev::DSCP_PRIORITIES, stated(texts(&map)));
            facts.set(d, netdev::PFC, stated(texts(&["3"])));
            facts.set(d, netdev::TRUST, stated(trust));
            facts.set(d, netdev::ECN_SWITCHED, stated(true));
            facts.set(d, netdev::ECN_NOTIFIES, stated(texts(&["3"])));
            facts.set(d, netdev::ECN_REACTS, stated(texts(&["3"])));
            if let Some(cnp) = cnp {
                facts.set(d, netdev::CNP_DSCP, stated(cnp));
            }
            variable_is(&mut facts, "NCCL_IB_TC", "106");
            let id = of(&mut facts);
            facts.known(id, traffic::CNP_WITH_DATA)
        };
        assert_eq!(with_data(Some(48), Trust::Dscp), Some(false));
        assert_eq!(with_data(Some(26), Trust::Dscp), Some(true));
        assert_eq!(with_data(Some(26), Trust::Pcp), None);
        assert_eq!(with_data(None, Trust::Dscp), None);
    }

    #[test]
    fn pause_of_the_whole_link_protects_too() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(false));
        by_dscp(&mut facts, d, &[]);
        let n = facts.all(Subject::Node).next().unwrap();
        let other = facts.instance(Subject::Netdev, n, "eth3");
        facts.set(other, netdev::PAUSE_RX, stated(true));
        facts.set(other, netdev::PAUSE_TX, stated(true));
        let q = facts.instance(Subject::Port, facts.parent(p).unwrap(), "mlx5_0/2");
        facts.set(q, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(q, port::NETDEV, stated("eth3".into()));
        facts.set(q, port::CLASS_FORCED, stated(false));
        facts.set(other, netdev::DCB, stated(true));
        by_dscp(&mut facts, other, &[]);
        derive(&mut facts, n);
        let broken: Vec<_> = facts
            .all(Subject::Traffic)
            .map(|t| facts.known(t, traffic::BROKEN_AT))
            .collect();
        assert_eq!(broken, [Some(BrokenAt::Pfc), Some(BrokenAt::None)]);
    }

    #[test]
    fn a_driver_without_bridging_has_no_pfc_and_no_priority() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "rxe0", "eth0");
        facts.set(p, port::CLASS_FORCED, stated(false));
        facts.set(d, netdev::PFC, stated(texts(&[])));
        let n = facts.all(Subject::Node).next().unwrap();
        let second = facts.instance(Subject::Netdev, n, "eth1");
        facts.set(second, netdev::DCB, stated(false));
        facts.set(second, netdev::PFC, stated(texts(&[])));
        let q = facts.instance(Subject::Port, facts.parent(p).unwrap(), "rxe0/2");
        facts.set(q, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(q, port::NETDEV, stated("eth1".into()));
        derive(&mut facts, n);
        let t = facts.all(Subject::Traffic).nth(1).unwrap();
        assert_eq!(facts.known(t, traffic::PFC), Some(false));
        assert_eq!(facts.known(t, traffic::PRIORITY), None);
    }

    #[test]
    fn two_ports_that_treat_their_traffic_differently() {
        let mut facts = Facts::new();
        for (name, netdev_name, pfc) in [("mlx5_0", "eth2", "3"), ("mlx5_1", "eth3", "4")] {
            let (p, d) = roce(&mut facts, name, netdev_name);
            facts.set(p, port::CLASS_FORCED, stated(false));
            by_dscp(&mut facts, d, &[pfc]);
        }
        let n = facts.all(Subject::Node).next().unwrap();
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::QOS_AGREES), Some(false));
        assert_eq!(
            facts.known(n, node::QOS).as_deref(),
            Some(
                "PFC on 3, trust dscp, traffic class 0 on priority 0: mlx5_0/1; PFC on 4, trust dscp, traffic class 0 on priority 0: mlx5_1/1"
            )
        );
    }

    #[test]
    fn buffers_shares_and_the_connection_manager() {
        let mut facts = Facts::new();
        let (p, d) = roce(&mut facts, "mlx5_0", "eth2");
        facts.set(p, port::CLASS_FORCED, stated(true));
        facts.set(p, port::FORCED_CLASS, stated(106));
        facts.set(p, port::CMA_TOS_SET, stated(true));
        facts.set(p, port::CMA_TOS, stated(160));
        by_dscp(&mut facts, d, &["3"]);
        let eight = |text: &str| texts(&text.split(' ').collect::<Vec<_>>());
        facts.set(d, netdev::BUFFERS, stated(eight("0 0 0 0 0 0 0 0")));
        facts.set(
            d,
            netdev::BUFFER_SIZES,
            stated(eight("262016 0 0 0 0 0 0 0")),
        );
        facts.set(
            d,
            netdev::SCHEDULING,
            stated(eight("90 strict strict 5 strict strict strict strict")),
        );
        let t = of(&mut facts);
        assert_eq!(facts.known(t, traffic::BUFFER), Some(Bytes(262_016)));
        assert_eq!(facts.known(t, traffic::BUFFER_SHARED), Some(true));
        assert_eq!(facts.known(t, traffic::ETS), Some(true));
        assert_eq!(facts.known(t, traffic::SHARE), Some(Percent(5.0)));
        assert_eq!(facts.known(t, traffic::CMA_PRIORITY), Some(5));
        assert_eq!(facts.known(t, traffic::CMA_PFC), Some(false));
    }

    #[test]
    fn numbers_as_nccl_reads_them() {
        for (text, n) in [
            ("106", 106),
            (" 0x6a", 106),
            ("010", 8),
            ("106abc", 106),
            ("-1", 0),
            ("true", 0),
            ("", 0),
            ("0", 0),
            ("99999999999999999999999", 0),
        ] {
            assert_eq!(number(text), n, "{text}");
        }
    }
}
