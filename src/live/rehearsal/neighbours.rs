//! Gateways and neighbours that the kernel knows, asked from each interface's own address: an echo
//! request, and where the process may send packets of its own, ARP (RFC 826). ARP also asks who
//! else has the own address, as a host does before it takes one (RFC 5227).

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::connection;
use super::echo::{Arp, Echo, Mac};
use crate::live::peer_route::{self, PeerRoute};
use crate::live::routes::{self, Gateway};
use crate::source::{Errno, Refusal};

/// How many are asked on an interface.
const A_RAIL: usize = 4;
/// How many interfaces are asked on.
const RAILS: usize = 64;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(300);
/// When those are asked again that have not answered.
const AGAIN: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(180)];
/// How long one is waited for whose address only the kernel can ask for: it asks again each second.
const OF_THE_KERNEL: Duration = Duration::from_millis(1300);
/// How long another owner of an own address may take to speak up.
const OWNER: Duration = Duration::from_millis(30);
/// `ARPHRD_ETHER` of linux/if_arp.h.
const ETHERNET: u64 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `NUD_REACHABLE`, `NUD_STALE`, `NUD_DELAY`, `NUD_PROBE`, `NUD_PERMANENT`: those that answered once,
/// and those that were written down.
const KNOWN: u16 = 0x2 | 0x4 | 0x8 | 0x10 | PERMANENT;
const REACHABLE: u16 = 0x2;
const PERMANENT: u16 = 0x80;
/// `NUD_INCOMPLETE`, `NUD_FAILED`
const UNRESOLVED: u16 = 0x1 | 0x20;

/// One that is asked.
struct Asked {
    address: IpAddr,
    /// "default gateway", "peer's gateway", "gateway", "neighbour".
    is: &'static str,
    /// The host at which the job meets, if this is the way to it.
    leads_to: Option<PeerRoute>,
    /// Whether it had answered before.
    had_answered: bool,
    /// The hardware address that was written down for it.
    noted: Option<Mac>,
    refused: Option<Errno>,
    echoed: bool,
    by_arp: Option<Mac>,
    resolved: Option<bool>,
    /// Whether a policy of IPsec refused packets meanwhile.
    by_policy: bool,
}

impl Asked {
    fn new(address: IpAddr, is: &'static str) -> Self {
        Asked {
            address,
            is,
            leads_to: None,
            had_answered: false,
            noted: None,
            refused: None,
            echoed: false,
            by_arp: None,
            resolved: None,
            by_policy: false,
        }
    }

    fn value(&self) -> Value {
        let mut value = json!({ "address": self.address.to_string(), "is": self.is });
        if let Some(peer) = &self.leads_to {
            value["to"] = json!(peer.address.to_string());
            let network = peer.way.as_ref().ok().and_then(|way| way.network.as_ref());
            value["route"] = json!(network);
        }
        if let Some(errno) = self.refused {
            value["errno"] = json!(errno.to_string());
            if self.by_policy {
                value["by_policy"] = json!(true);
            }
        }
        if self.had_answered {
            value["had_answered"] = json!(true);
        }
        if self.echoed {
            value["echo"] = json!(true);
        }
        if let Some(mac) = self.by_arp {
            value["arp"] = json!(mac.to_string());
        }
        if let Some(mac) = self.noted {
            value["noted"] = json!(mac.to_string());
        }
        if let Some(resolved) = self.resolved {
            value["resolved"] = json!(resolved);
        }
        value
    }
}

/// An interface, and the hosts that are asked on it.
struct Rail {
    name: String,
    index: u32,
    address: IpAddr,
    echo: Result<Echo, Refusal>,
    arp: Option<Result<Arp, Refusal>>,
    owners: Vec<Mac>,
    asked: Vec<Asked>,
}

/// Asks on each interface that is up; the reply has an element for each.
pub(super) fn each_rail() -> Result<Value, Refusal> {
    let mut rails = rails()?;
    let left_out = rails.len().saturating_sub(RAILS);
    rails.truncate(RAILS);
    for family in [AF_INET, AF_INET6] {
        if rails.iter().any(|rail| family_of(rail.address) == family) {
            choose(&mut rails, family)?;
        }
    }
    let blocked = blocked_by_policies();
    converse(&mut rails)?;
    let own = own_macs();
    for rail in &mut rails {
        rail.owners.retain(|mac| !own.contains(mac));
    }
    if blocked_by_policies() > blocked {
        for asked in rails.iter_mut().flat_map(|rail| &mut rail.asked) {
            asked.by_policy = asked.refused.is_some();
        }
    }
    let more = (left_out > 0).then(|| json!({ "left_out": left_out }));
    Ok(rails.iter().map(Rail::value).chain(more).collect())
}

fn family_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

#[expect(clippy::disallowed_methods, reason = "attributes of an interface")]
fn attribute(name: &str, which: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{which}")).ok()?;
    Some(text.trim().to_owned())
}

/// How many packets policies of IPsec have refused (`/proc/net/xfrm_stat`, in this network
/// namespace); 0 where the kernel does not count them.
#[expect(clippy::disallowed_methods, reason = "a counter around what is sent")]
fn blocked_by_policies() -> u64 {
    let text = std::fs::read_to_string("/proc/net/xfrm_stat").unwrap_or_default();
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(char::is_whitespace)?;
        let is_of_policy = matches!(
            name,
            "XfrmOutPolBlock" | "XfrmOutPolError" | "XfrmOutNoStates"
        );
        count.trim().parse::<u64>().ok().filter(|_| is_of_policy)
    });
    counts.sum()
}

/// The hardware addresses of this machine, those of members of bonds and bridges included: a switch
/// gives back what one of them sends to all.
#[expect(clippy::disallowed_methods, reason = "the list of interfaces")]
fn own_macs() -> Vec<Mac> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| Mac::read(&attribute(&name, "address")?))
        .collect()
}

fn rails() -> Result<Vec<Rail>, Refusal> {
    let mut all = Vec::new();
    for (name, address) in connection::addresses()? {
        let number = |which| attribute(&name, which)?.parse::<u64>().ok();
        let has_carrier = attribute(&name, "carrier").as_deref() == Some("1");
        let index = number("ifindex").and_then(|index| u32::try_from(index).ok());
        let Some(index) = index.filter(|_| has_carrier && !address.is_loopback()) else {
            continue;
        };
        if connection::is_of_router(&name) {
            continue;
        }
        let is_ethernet = number("type") == Some(ETHERNET);
        let mac = attribute(&name, "address").and_then(|text| Mac::read(&text));
        let arp = match (address, mac) {
            (IpAddr::V4(_), Some(mac)) if is_ethernet => Some(Arp::open(index, mac)),
            _ => None,
        };
        all.push(Rail {
            echo: Echo::open(address),
            name,
            index,
            address,
            arp,
            owners: Vec::new(),
            asked: Vec::new(),
        });
    }
    Ok(all)
}

/// The gateway over which the kernel sends from a rail to a host at which the job meets: of several
/// it is the one that matters.
fn gateways_to_peers(peers: &[PeerRoute], rail: &Rail) -> Vec<Asked> {
    let over_gateway = peers.iter().filter_map(|peer| {
        let way = peer.way.as_ref().ok()?;
        let gateway = way.gateway.filter(|_| way.interface == rail.index)?;
        let is_of_family = family_of(gateway) == family_of(rail.address);
        is_of_family.then(|| Asked {
            leads_to: Some(peer.clone()),
            ..Asked::new(gateway, "peer's gateway")
        })
    });
    let mut all: Vec<Asked> = over_gateway.collect();
    all.dedup_by_key(|one| one.address);
    all
}

/// Chooses the hosts to ask: gateways first, then neighbours, recent ones before others.
fn choose(rails: &mut [Rail], family: u8) -> Result<(), Refusal> {
    let gateways = routes::all_gateways(family)?;
    let mut neighbours = routes::neighbours(family)?;
    neighbours.retain(|one| one.state & KNOWN != 0 && one.mac.is_some_and(is_one_hosts));
    neighbours.sort_by_key(|one| (one.state & (REACHABLE | PERMANENT) == 0, one.address));
    let own: Vec<IpAddr> = rails.iter().map(|rail| rail.address).collect();
    let peers = peer_route::without_name_server();
    for rail in rails.iter_mut().filter(|r| family_of(r.address) == family) {
        let is_bridge = attribute(&rail.name, "bridge/bridge_id").is_some();
        let of_rail = |one: &&Gateway| one.interface == rail.index;
        // Behind a bridge without a gateway there are only this machine's own guests.
        if is_bridge && !gateways.iter().any(|one| of_rail(&one)) {
            continue;
        }
        let to_peers = gateways_to_peers(&peers, rail);
        let over_routes = gateways.iter().filter(of_rail).map(|one| {
            let is = if one.is_default {
                "default gateway"
            } else {
                "gateway"
            };
            Asked::new(one.address, is)
        });
        let of_rail = neighbours.iter().filter(|one| one.interface == rail.index);
        let known = of_rail.map(|one| Asked::new(one.address, "neighbour"));
        for one in to_peers.into_iter().chain(over_routes).chain(known) {
            // A node of a large network knows thousands of neighbours.
            if rail.asked.len() == A_RAIL {
                break;
            }
            let is_there = rail.asked.iter().any(|asked| asked.address == one.address);
            if !is_there && !own.contains(&one.address) {
                rail.asked.push(one);
            }
        }
        for asked in &mut rail.asked {
            let entry = neighbours
                .iter()
                .find(|one| one.interface == rail.index && one.address == asked.address);
            let is_written = entry.is_some_and(|one| one.state & PERMANENT != 0);
            asked.had_answered = entry.is_some() && !is_written;
            let noted = entry.filter(|_| is_written).and_then(|one| one.mac);
            asked.noted = noted.map(Mac);
        }
    }
    Ok(())
}

/// Neither a group's nor nobody's.
fn is_one_hosts(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

/// Sends, and hears answers until all have come or the time is up.
#[expect(
    clippy::disallowed_methods,
    reason = "the child times its own questions"
)]
fn converse(rails: &mut [Rail]) -> Result<(), Refusal> {
    let started = Instant::now();
    for rail in rails.iter_mut() {
        rail.send(true);
    }
    let mut again = AGAIN.iter().peekable();
    loop {
        for rail in rails.iter_mut() {
            rail.hear();
        }
        let past = started.elapsed();
        let mut until = if rails.iter().any(Rail::waits) {
            PATIENCE
        } else {
            OWNER
        };
        if past >= until {
            resolve(rails)?;
            if rails.iter().all(|rail| !rail.waits_for_the_kernel()) || past >= OF_THE_KERNEL {
                return Ok(());
            }
            until = OF_THE_KERNEL.min(past + AGAIN[0]);
        }
        if again.next_if(|at| past >= **at).is_some() {
            for rail in rails.iter_mut() {
                rail.send(false);
            }
        }
        let next = again.peek().map_or(until, |at| until.min(**at));
        wait(rails, next.saturating_sub(past));
    }
}

/// Waits for a packet to any of the sockets.
fn wait(rails: &[Rail], most: Duration) {
    let sockets = rails.iter().flat_map(|rail| {
        let arp = rail.arp.as_ref().and_then(|arp| arp.as_ref().ok());
        let echo = rail.echo.as_ref().ok();
        arp.map(Arp::socket)
            .into_iter()
            .chain(echo.map(Echo::socket))
    });
    let mut all: Vec<PollFd<'_>> = sockets
        .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
        .collect();
    let patience = Timespec {
        tv_sec: most.as_secs().cast_signed(),
        tv_nsec: most.subsec_nanos().into(),
    };
    // An interruption only looks earlier.
    let _ = poll(&mut all, Some(&patience));
}

/// States which hardware addresses the kernel has by now.
fn resolve(rails: &mut [Rail]) -> Result<(), Refusal> {
    for family in [AF_INET, AF_INET6] {
        if !rails.iter().any(|rail| family_of(rail.address) == family) {
            continue;
        }
        let neighbours = routes::neighbours(family)?;
        for rail in rails.iter_mut() {
            for asked in &mut rail.asked {
                let entry = neighbours
                    .iter()
                    .find(|one| one.interface == rail.index && one.address == asked.address);
                let resolved = entry.map(|one| one.state & UNRESOLVED == 0);
                asked.resolved = resolved.or(asked.resolved);
            }
        }
    }
    Ok(())
}

impl Rail {
    fn can_ask_by_arp(&self) -> bool {
        matches!(self.arp, Some(Ok(_)))
    }

    /// Whether one has not answered who may yet.
    fn waits(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|one| {
            let is_silent = !one.echoed && one.by_arp.is_none();
            is_silent && (self.can_ask_by_arp() || (self.echo.is_ok() && one.refused.is_none()))
        })
    }

    /// Whether the kernel asks for an address that it has not got: nobody else could ask, or the
    /// answer to another request came. It asks again each second.
    fn waits_for_the_kernel(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|one| {
            let was_sent = self.echo.is_ok() && one.refused.is_none() && !one.echoed;
            let may_come = one.by_arp.is_some() || !self.can_ask_by_arp();
            was_sent && may_come && one.resolved == Some(false)
        })
    }

    fn send(&mut self, first: bool) {
        if let Some(Ok(arp)) = &self.arp {
            if let (true, IpAddr::V4(own)) = (first, self.address) {
                arp.ask(Ipv4Addr::UNSPECIFIED, own);
            }
            for one in self.asked.iter().filter(|one| one.by_arp.is_none()) {
                if let (IpAddr::V4(own), IpAddr::V4(to)) = (self.address, one.address) {
                    arp.ask(own, to);
                }
            }
        }
        if let Ok(echo) = &self.echo {
            for one in self.asked.iter_mut().filter(|one| !one.echoed) {
                one.refused = echo.ask(one.address, self.index).err();
            }
        }
    }

    fn hear(&mut self) {
        if let Ok(echo) = &self.echo {
            let answered: Vec<IpAddr> = echo.answers();
            for one in &mut self.asked {
                one.echoed |= answered.contains(&one.address);
            }
        }
        let Some(Ok(arp)) = &self.arp else {
            return;
        };
        for (address, mac) in arp.answers() {
            for one in &mut self.asked {
                if one.address == IpAddr::V4(address) {
                    one.by_arp = Some(mac);
                }
            }
            if self.address == IpAddr::V4(address) && !self.owners.contains(&mac) {
                self.owners.push(mac);
            }
        }
    }

    fn value(&self) -> Value {
        let asked: Vec<Value> = self.asked.iter().map(Asked::value).collect();
        let mut value = json!({
            "interface": self.name,
            "address": self.address.to_string(),
            "asked": asked,
        });
        if let Err(refusal) = &self.echo {
            value["echo_refused"] = json!(refusal.to_string());
        }
        match &self.arp {
            Some(Ok(_)) => value["by_arp"] = json!(true),
            Some(Err(refusal)) => value["arp_refused"] = json!(refusal.to_string()),
            None => {}
        }
        if !self.owners.is_empty() {
            let owners: Vec<String> = self.owners.iter().map(Mac::to_string).collect();
            value["owners"] = json!(owners);
        }
        value
    }
}
