//! PFC, ECN, DSCP and traffic classes of RoCE: the node's settings, and its adapters' counters of pauses and drops.

pub(super) mod dcb;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::device::{self, PortEntry};
use super::netdev::{NET, Texts, netdev_of};
use super::{Ask, Probe};
use crate::fact::netdev::{self, Fec, Trust};
use crate::fact::port::{self, CmaMode};
use crate::fact::{Fact, Facts, Gap, Id, Origin, PerSecond, Presence, Subject, Why, known};
use crate::source::{Errno, Micros, Question, Refusal};
use dcb::{Dcb, EIGHT};

/// The probe. An adapter's statistics take its firmware some milliseconds.
pub const PROBE: Probe = Probe::new("qos", run).within(Duration::from_secs(5));

const CONFIGFS: &str = "/sys/kernel/config/rdma_cm";
/// Devices below each other (VLAN on bond on ports), beyond which nothing is followed.
const STACK: u32 = 4;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, _) = device::ports(ask, facts, node);
    let mut texts = Texts::new(ask);
    let mut configured: Option<Presence<Arc<[Arc<str>]>>> = None;
    let mut found: BTreeMap<Arc<str>, bool> = BTreeMap::new();
    for port in &ports {
        let layer = texts.text(format!("{}/link_layer", port.dir));
        if layer.known().is_none_or(|layer| &**layer != "Ethernet") {
            continue;
        }
        forced_class(ask, facts, port);
        let configured = configured.get_or_insert_with(|| rdma_cm(ask));
        connection_manager(ask, facts, port, configured);
        if let Presence::Present(name, _) = netdev_of(&mut texts, port) {
            let driver = ask.link_name(format!("{}/{}/device/driver", device::CLASS, port.device));
            let mlx5 = matches!(driver, Presence::Present(driver, _) if &*driver == "mlx5_core");
            *found.entry(name).or_default() |= mlx5;
        }
    }
    let mut first = Vec::new();
    for (name, mlx5) in found {
        let id = facts.instance(Subject::Netdev, node, &name);
        let below = below(ask, &name);
        let dcb = combined(&below, |leaf| bridging(ask, leaf), &name);
        state_bridging(facts, id, &dcb, mlx5);
        congestion(ask, facts, id, &below);
        pauses(ask, facts, id, &below);
        let fec = combined(&below, |leaf| correction(ask, leaf), &name);
        facts.set(id, netdev::FEC, fec);
        first.push((id, count(ask, facts, id, below)));
    }
    again(ask, facts, &first);
}

/// The traffic class that the vendor's mlx5 forces: `tcd->val` of its sysfs class `tc`.
fn forced_class(ask: &Ask<'_>, facts: &mut Facts, port: &PortEntry) {
    let dir = format!("{}/{}/tc", device::CLASS, port.device);
    let class = match ask.exists(&dir) {
        Fact::Known(false, origin) => Fact::Known(None, origin),
        Fact::Known(true, _) => {
            let path = format!("{dir}/{}/traffic_class", port.number);
            ask.parse(path, parse::forced_class)
        }
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    let forced = class.clone().map(|class| class.is_some());
    facts.set(port.id, port::CLASS_FORCED, forced);
    if class.known() != Some(&None) {
        let class = class.map(Option::unwrap_or_default);
        facts.set(port.id, port::FORCED_CLASS, class);
    }
}

/// The devices that somebody has set rdma_cm's defaults for. Making a directory there is how one sets them: none is made here.
fn rdma_cm(ask: &Ask<'_>) -> Presence<Arc<[Arc<str>]>> {
    let (parent, _) = CONFIGFS.rsplit_once('/').unwrap_or_default();
    match ask.names_if_any(parent) {
        Presence::Present(names, origin) if names.is_empty() => {
            Presence::Unknown(Gap::misread("configfs is not mounted", origin))
        }
        Presence::Unknown(gap) => Presence::Unknown(gap),
        _ => ask.names_if_any(CONFIGFS),
    }
}

fn connection_manager(
    ask: &Ask<'_>,
    facts: &mut Facts,
    port: &PortEntry,
    configured: &Presence<Arc<[Arc<str>]>>,
) {
    match configured {
        Presence::Present(names, _) if names.contains(&port.device) => {
            let dir = format!("{CONFIGFS}/{}/ports/{}", port.device, port.number);
            let mode = ask.parse(format!("{dir}/default_roce_mode"), parse::roce_mode);
            facts.set(port.id, port::CMA_MODE, mode);
            let tos = ask.parse(format!("{dir}/default_roce_tos"), super::whole_number);
            facts.set(port.id, port::CMA_TOS_SET, tos.clone().map(|tos| tos != 0));
            facts.set(port.id, port::CMA_TOS, tos);
        }
        Presence::Present(_, origin) | Presence::Absent(origin) => {
            facts.know(port.id, port::CMA_MODE, CmaMode::Default, origin);
            facts.know(port.id, port::CMA_TOS_SET, false, origin);
        }
        Presence::Unknown(gap) => {
            let open = [port::CMA_MODE.index, port::CMA_TOS_SET.index];
            facts.leave_open(port.id, &open, gap);
        }
    }
}

/// The devices that a netdev's packets leave by: itself, or the members of a bond, of a VLAN's bond.
fn below(ask: &Ask<'_>, name: &Arc<str>) -> Result<Vec<Arc<str>>, Gap> {
    let mut level = vec![Arc::clone(name)];
    for _ in 0..STACK {
        let mut next: Vec<Arc<str>> = Vec::new();
        let mut deeper = false;
        for one in &level {
            let entries = ask.names(format!("{NET}/{one}")).into_result()?;
            let lower = entries.iter().filter_map(|e| e.strip_prefix("lower_"));
            let before = next.len();
            for lower in lower.map(Arc::from) {
                if !next.contains(&lower) {
                    next.push(lower);
                }
            }
            match next.len() == before {
                true => next.push(Arc::clone(one)),
                false => deeper = true,
            }
        }
        level = next;
        if !deeper {
            break;
        }
    }
    Ok(level)
}

/// The common value of all devices; a gap if they differ, or one has none.
fn combined<T: PartialEq + Clone>(
    below: &Result<Vec<Arc<str>>, Gap>,
    look: impl Fn(&str) -> Fact<T>,
    name: &str,
) -> Fact<T> {
    let leaves = known!(ok below);
    // Each is asked, whatever the others say: the questions must not depend on an order of replies.
    let all: Vec<Fact<T>> = leaves.iter().map(|leaf| look(leaf)).collect();
    if let Some(open) = all.iter().find(|fact| fact.known().is_none()) {
        return open.clone();
    }
    match all.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other.known() == first.known()) => {
            first.clone()
        }
        _ => Fact::Unknown(Gap::misread(
            format!("the devices below {name} differ"),
            Origin::derived(format!("the devices below {name}")),
        )),
    }
}

/// The bridging of one device; `None` if its driver has none.
fn bridging(ask: &Ask<'_>, leaf: &str) -> Fact<Option<Dcb>> {
    let question = Question::netlink("route/getdcb", [("netdev", leaf.into())]);
    let dcb = ask.bytes(question).and_then(|bytes| Dcb::read(&bytes));
    dcb.map(Some).or_refused(Errno::EOPNOTSUPP, None)
}

fn state_bridging(facts: &mut Facts, id: Id, dcb: &Fact<Option<Dcb>>, mlx5: bool) {
    let (dcb, origin) = match dcb {
        Fact::Known(dcb, origin) => (dcb, origin),
        Fact::Unknown(gap) => {
            let texts = [netdev::PFC, netdev::DSCP_PRIORITIES, netdev::SCHEDULING];
            let flags = [netdev::DCB, netdev::SWITCH_ANNOUNCES, netdev::DCBX_HOST];
            facts.leave_open(id, &texts.map(|key| key.index), gap);
            facts.leave_open(id, &flags.map(|key| key.index), gap);
            facts.leave_open(id, &[netdev::TRUST.index], gap);
            return;
        }
    };
    facts.know(id, netdev::DCB, dcb.is_some(), origin);
    let Some(dcb) = dcb else {
        // What a driver cannot do, it does not do.
        facts.know(id, netdev::PFC, Arc::new([]), origin);
        facts.know(id, netdev::SWITCH_ANNOUNCES, false, origin);
        return;
    };
    let peer = dcb.peer_pfc.as_ref();
    facts.know(id, netdev::SWITCH_ANNOUNCES, peer.is_some(), origin);
    if let Some(peer) = peer {
        let peer = words(peer);
        let on = peer.iter().map(|priority| format!(" {priority}:on"));
        let prio_pfc = format!("all:off{}", on.collect::<String>());
        facts.know(id, netdev::SWITCH_PRIO_PFC, prio_pfc.into(), origin);
        facts.know(id, netdev::SWITCH_PFC, peer, origin);
    }
    let priorities = dscp_map(&dcb.dscp, mlx5);
    facts.know(id, netdev::DSCP_PRIORITIES, priorities, origin);
    // What it says takes the place of these.
    for (key, what) in [
        (netdev::PFC, "which priorities have PFC"),
        (netdev::SCHEDULING, "how classes are scheduled"),
        (netdev::BUFFERS, "its buffers"),
        (netdev::BUFFER_SIZES, "its buffers"),
    ] {
        facts.set(id, key, Fact::Unknown(unsaid(what, origin)));
    }
    let trust = unsaid("what it trusts", origin);
    facts.set(id, netdev::TRUST, Fact::Unknown(trust));
    let host = unsaid("who negotiates", origin);
    facts.set(id, netdev::DCBX_HOST, Fact::Unknown(host));
    state_own(facts, id, dcb, mlx5, origin);
}

fn unsaid(what: &str, origin: &Origin) -> Gap {
    Gap::misread(format!("the driver does not say {what}"), origin.clone())
}

/// States what a device says of itself, and not of the switch, in whatever form it came.
pub(super) fn state_own(facts: &mut Facts, id: Id, dcb: &Dcb, mlx5: bool, origin: &Origin) {
    if let Some(pfc) = &dcb.pfc {
        facts.know(id, netdev::PFC, words(pfc), origin);
    }
    if let Some(dscp) = dcb.trusts_dscp(mlx5) {
        let trust = if dscp { Trust::Dscp } else { Trust::Pcp };
        facts.know(id, netdev::TRUST, trust, origin);
    }
    if let Some(ets) = &dcb.ets {
        facts.know(id, netdev::SCHEDULING, scheduling(ets), origin);
    }
    if let Some(buffers) = &dcb.buffers {
        facts.know(id, netdev::BUFFERS, words(&buffers.of_priority), origin);
        facts.know(id, netdev::BUFFER_SIZES, words(&buffers.size), origin);
    }
    if let Some(host) = dcb.host {
        facts.know(id, netdev::DCBX_HOST, host, origin);
    }
}

fn words<T: ToString>(items: &[T]) -> Arc<[Arc<str>]> {
    items
        .iter()
        .map(|item| Arc::from(item.to_string()))
        .collect()
}

/// The priority of each DSCP. mlx5 sets the priority of a DSCP to 0 when its entry is deleted, so one without an entry has 0.
pub(super) fn dscp_map(entries: &[(u8, u8)], mlx5: bool) -> Arc<[Arc<str>]> {
    (0..64)
        .map(|dscp| {
            let mut own = entries.iter().filter(|(entry, _)| *entry == dscp);
            match (own.next(), own.next()) {
                (Some((_, priority)), None) => priority.to_string().into(),
                (None, _) if mlx5 && !entries.is_empty() => "0".into(),
                // None, or several: which one holds is the driver's own.
                _ => "-".into(),
            }
        })
        .collect()
}

fn scheduling(ets: &dcb::Ets) -> Arc<[Arc<str>]> {
    let one = |priority: usize| -> Arc<str> {
        let class = usize::from(*ets.class.get(priority).unwrap_or(&0));
        match (ets.algorithm.get(class), ets.share.get(class)) {
            (Some(0), _) => "strict".into(),
            (Some(1), _) => "shaper".into(),
            (Some(2), Some(share)) => share.to_string().into(),
            (Some(255), _) => "vendor".into(),
            _ => "-".into(),
        }
    };
    (0..EIGHT).map(one).collect()
}

/// DCQCN by priority: `ecn/roce_np` (notification point: the receiver) and `ecn/roce_rp` (reaction point: the sender).
fn congestion(ask: &Ask<'_>, facts: &mut Facts, id: Id, below: &Result<Vec<Arc<str>>, Gap>) {
    let name = facts.name(id).to_owned();
    let switched = combined(
        below,
        |leaf| ask.exists(&format!("{NET}/{leaf}/ecn")),
        &name,
    );
    facts.set(id, netdev::ECN_SWITCHED, switched.clone());
    if switched.known() != Some(&true) {
        return;
    }
    for (point, key) in [
        ("roce_np", netdev::ECN_NOTIFIES),
        ("roce_rp", netdev::ECN_REACTS),
    ] {
        let on = combined(below, |leaf| priorities(ask, leaf, point), &name);
        facts.set(id, key, on);
    }
    let dscp = combined(
        below,
        |leaf| {
            let path = format!("{NET}/{leaf}/ecn/roce_np/cnp_dscp");
            ask.parse(path, super::whole_number)
        },
        &name,
    );
    facts.set(id, netdev::CNP_DSCP, dscp);
}

fn priorities(ask: &Ask<'_>, leaf: &str, point: &str) -> Fact<Arc<[Arc<str>]>> {
    let dir = format!("{NET}/{leaf}/ecn/{point}/enable");
    let mut on: Vec<Arc<str>> = Vec::new();
    let mut open = None;
    for priority in 0..EIGHT {
        match ask.parse(format!("{dir}/{priority}"), parse::on_or_off) {
            Fact::Known(true, _) => on.push(priority.to_string().into()),
            Fact::Known(false, _) => {}
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    Fact::Known(on.into(), Origin::Asked(Question::list(dir))).unless(open)
}

/// Pause of the whole link; a driver that does not know it does not do it.
fn pauses(ask: &Ask<'_>, facts: &mut Facts, id: Id, below: &Result<Vec<Arc<str>>, Gap>) {
    let look = |leaf: &str| {
        let question = Question::call("ethtool_pause", [("netdev", leaf.into())]);
        let both = ask.value(question).and_then(|value| {
            let on = |member: &str| value.get(member).and_then(Value::as_u64);
            let both = on("rx").zip(on("tx")).ok_or("no rx and tx in it")?;
            Ok((both.0 != 0, both.1 != 0))
        });
        both.or_refused(Errno::EOPNOTSUPP, (false, false))
    };
    let (rx, tx) = combined(below, look, facts.name(id)).unzip();
    facts.set(id, netdev::PAUSE_RX, rx);
    facts.set(id, netdev::PAUSE_TX, tx);
}

/// The error correction of a device, of the bits of `enum ethtool_fec_config_bits`. A link that is down, or a driver that does not know, names none.
fn correction(ask: &Ask<'_>, leaf: &str) -> Fact<Fec> {
    let question = Question::call("ethtool_fec", [("netdev", leaf.into())]);
    ask.value(question).and_then(|value| {
        let bits = value.get("active").and_then(Value::as_u64);
        let kinds = [Fec::Off, Fec::Rs, Fec::BaseR, Fec::LowLatency];
        let mut named = (2..).zip(kinds).map(|(bit, kind)| (1 << bit, kind));
        let found = named.find(|(bit, _)| bits == Some(*bit));
        found
            .map(|(_, kind)| kind)
            .ok_or_else(|| "it names no encoding".to_owned())
    })
}

/// A reading of a device's statistics.
struct Reading {
    question: Question,
    at: Micros,
    said: Result<Arc<Value>, Gap>,
}

fn reading(ask: &Ask<'_>, leaf: &str) -> Reading {
    let question = Question::call("ethtool_statistics", [("netdev", leaf.into())]);
    let (at, said) = ask.value_at(&question);
    Reading { question, at, said }
}

/// The statistics of a netdev's devices at the first reading, and what they say since the driver was loaded.
fn count(
    ask: &Ask<'_>,
    facts: &mut Facts,
    id: Id,
    below: Result<Vec<Arc<str>>, Gap>,
) -> Vec<Reading> {
    let leaves = match below {
        Ok(leaves) => leaves,
        Err(gap) => {
            facts.set(id, netdev::COUNTS_DROPS, Fact::Unknown(gap));
            return Vec::new();
        }
    };
    let readings: Vec<Reading> = leaves.iter().map(|leaf| reading(ask, leaf)).collect();
    let total = |name: &str| sum(&readings, |value| value.get(name).and_then(Value::as_u64));
    let discards = total("rx_discards_phy");
    let counts = match &discards {
        Fact::Known(_, origin) => Fact::Known(true, origin.clone()),
        Fact::Unknown(gap) => match &gap.why {
            // The device answered, and has no such statistic; or it has no statistics at all.
            Why::NotUnderstood(_) | Why::Refused(Refusal::Errno(Errno::EOPNOTSUPP)) => {
                Fact::Known(false, gap.origin.clone())
            }
            _ => Fact::Unknown(gap.clone()),
        },
    };
    facts.set(id, netdev::COUNTS_DROPS, counts);
    facts.set(id, netdev::DISCARDS, discards);
    // Adapters that cannot watch for stalls have none of them.
    let storms = sum(&readings, |value| {
        let storms = value.get("tx_pause_storm_error_events");
        value.get("rx_discards_phy")?;
        Some(storms.and_then(Value::as_u64).unwrap_or(0))
    });
    facts.set(id, netdev::PAUSE_STORMS, storms);
    readings
}

/// A statistic summed over a netdev's devices, each of which has to have it.
fn sum(readings: &[Reading], look: impl Fn(&Value) -> Option<u64>) -> Fact<u64> {
    let mut total = 0u64;
    let mut origin = Origin::derived("the statistics of no device");
    for reading in readings {
        origin = Origin::Asked(reading.question.clone());
        match reading.said.as_ref().map(|value| look(value)) {
            Ok(Some(value)) => total = total.saturating_add(value),
            Ok(None) => {
                return Fact::Unknown(Gap::not_understood(&reading.question, "it is not in it"));
            }
            Err(gap) => return Fact::Unknown(gap.clone()),
        }
    }
    Fact::Known(total, origin)
}

/// Pause frames sent: of the link where they are counted so, and of each priority.
fn pauses_sent(value: &Value) -> Option<u64> {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    // tx_pause_ctrl_phy counts those of the priorities too.
    number("tx_pause_ctrl_phy").or_else(|| {
        let all = (0..EIGHT).filter_map(|p| number(&format!("tx_prio{p}_pause")));
        all.reduce(u64::saturating_add)
    })
}

/// Reads the statistics again if a sample was asked for.
fn again(ask: &Ask<'_>, facts: &mut Facts, first: &[(Id, Vec<Reading>)]) {
    let counted = first
        .iter()
        .any(|(_, readings)| readings.iter().any(|r| r.said.is_ok()));
    if !counted {
        return;
    }
    let (sampled, missing) = ask.sample();
    for (id, before) in first {
        facts.set(*id, netdev::SAMPLED, sampled.clone());
        if let Some(gap) = &missing {
            let rates = [netdev::DISCARD_RATE, netdev::PAUSE_SENT_RATE];
            facts.leave_open(*id, &rates.map(|key| key.index), gap);
            continue;
        }
        let after: Vec<Reading> = before
            .iter()
            .filter(|reading| reading.said.is_ok())
            .filter_map(|reading| match &reading.question {
                Question::Call(call) => Some(self::reading(ask, call.text("netdev")?)),
                _ => None,
            })
            .collect();
        let discards = |value: &Value| value.get("rx_discards_phy").and_then(Value::as_u64);
        let rate = rate(before, &after, discards);
        facts.set(*id, netdev::DISCARD_RATE, rate);
        let rate = self::rate(before, &after, pauses_sent);
        facts.set(*id, netdev::PAUSE_SENT_RATE, rate);
    }
}

/// The increase of a statistic over the time between its readings.
fn rate(
    before: &[Reading],
    after: &[Reading],
    look: impl Fn(&Value) -> Option<u64>,
) -> Fact<PerSecond> {
    let was = known!(sum(before, &look));
    let is = known!(sum(after, &look), with origin);
    let (Some(one), Some(two)) = (before.first(), after.first()) else {
        return Fact::Unknown(Gap::missing("a second reading"));
    };
    let window = two.at.checked_sub(one.at).filter(|window| *window > 0);
    let what = match (is.0.checked_sub(was), window) {
        (Some(rise), Some(window)) => {
            return Fact::Known(PerSecond(rise as f64 / (window as f64 / 1e6)), is.1);
        }
        (None, _) => format!("it went down, from {was} to {}", is.0),
        (_, None) => "no time between the two readings".to_owned(),
    };
    Fact::Unknown(Gap::not_understood(&two.question, what))
}
