//! Addresses of an interface at which peers do not reach it, or not for long.

use std::collections::BTreeMap;

use serde_json::Value;

use super::routing::Route;
use super::{Ask, Found, routing, way};
use crate::fact::obstacle::ObstacleKind;
use crate::fact::{Fact, Gap, Id, Origin, Subject, interface, known, obstacle};
use crate::probe::interface::messages::{self, Address, FOR_EVER};
use crate::probe::service::first_pid_namespace;
use crate::sentence::shell::Command;
use crate::source::Question;

/// What renews leases: the names of their processes, as the kernel keeps them (cut to 15 bytes).
const CLIENTS: &str = "dhclient dhcpcd udhcpc NetworkManager systemd-network wickedd-dhcp4 connmand \
                       iwd dhcp6c cloud-init ovs-vswitchd";

/// What is asked because of the addresses that there are. It depends on no other probe's facts.
struct Asked {
    /// Routes to hosts out of interfaces without a network, by the interface's number.
    to_hosts: BTreeMap<u32, Fact<Vec<Route>>>,
    /// Whether something renews leases, where there is one.
    renewed: Option<Fact<bool>>,
}

impl Asked {
    fn of(ask: &Ask<'_>, routes: Option<&[Route]>) -> Self {
        let addresses = ask.bytes(Question::netlink("route/getaddr", []));
        let addresses = addresses.and_then(|bytes| messages::addresses(&bytes));
        let addresses: &[Address] = addresses.known().map_or(&[], |all| all);
        let four = addresses.iter().filter(|one| one.address.is_ipv4());
        let mut is_lone: BTreeMap<u32, bool> = BTreeMap::new();
        for one in four.clone() {
            *is_lone.entry(one.index).or_insert(true) &= one.prefix == 32;
        }
        is_lone.retain(|index, is_lone| {
            *is_lone && routes.is_some_and(|all| !all.iter().any(|r| r.interfaces.contains(index)))
        });
        let to_hosts = is_lone.into_keys().map(|index| {
            let of = [("index", u64::from(index).into())];
            let found = ask.bytes(Question::netlink("route/getroute-hosts", of));
            (index, found.and_then(|bytes| routing::routes(&bytes)))
        });
        let is_leased = |one: &Address| one.valid_s.is_some_and(|valid| valid != FOR_EVER);
        Asked {
            to_hosts: to_hosts.collect(),
            renewed: four.clone().any(is_leased).then(|| is_renewed(ask)),
        }
    }
}

/// States what is wrong with the addresses of the interfaces that are up.
pub(super) fn state(ask: &Ask<'_>, found: &mut Found<'_>, routes: Option<&[Route]>) {
    let asked = Asked::of(ask, routes);
    let addresses = way::addresses(found);
    for own in way::interfaces(found) {
        let Some(id) = found.facts.find(Subject::Interface, found.node, &own.name) else {
            continue;
        };
        let origin = match found.facts.get(id, interface::ADDRESSES) {
            Fact::Known(_, origin) => origin,
            Fact::Unknown(_) => continue,
        };
        for (address, net) in addresses.get(&own.name).into_iter().flatten() {
            let (kind, is_what) = if net.is_broadcast(*address) {
                (ObstacleKind::BroadcastAddress, "the broadcast address of")
            } else if net.is_first(*address) {
                (ObstacleKind::NetworkAddress, "the address of")
            } else {
                continue;
            };
            let what = format!("{address}/{} is {is_what} its network", net.length);
            let removing = format!("ip address del {address}/{} dev {{}}", net.length);
            let removal = Command::filled(&removing, &[&own.name]);
            found.add(kind, &own.name, Some(*net), (what, removal), &origin);
        }
        let refused: Vec<_> = found
            .facts
            .texts(id, interface::REFUSED_ADDRESSES)
            .collect();
        for address in refused {
            let what = format!("another machine answered for {address}");
            let look = Command::filled("ip -6 address show dev {}", &[&own.name]);
            let kind = ObstacleKind::RefusedAddress;
            found.add(kind, &own.name, None, (what, look), &origin);
        }
        match asked.to_hosts.get(&own.index) {
            Some(Fact::Known(routes, origin)) if routes.is_empty() => {
                let what = "its address is in no network, and no route leads out of it";
                let look = Command::filled("ip route show dev {}", &[&own.name]);
                let kind = ObstacleKind::LoneAddress;
                found.add(kind, &own.name, None, (what.to_owned(), look), origin);
            }
            Some(Fact::Unknown(gap)) => found.missing(gap),
            Some(Fact::Known(..)) | None => {}
        }
        if let Some(renewed) = &asked.renewed {
            ending(found, &own, id, renewed);
        }
    }
}

/// A leased address that nothing renews.
fn ending(found: &mut Found<'_>, own: &way::Interface, id: Id, renewed: &Fact<bool>) {
    let ends = found.facts.known(id, interface::LEASE_ENDS);
    let address = found.facts.known(id, interface::LEASED_ADDRESS);
    let (Some(ends), Some(address)) = (ends, address) else {
        return;
    };
    match renewed {
        Fact::Known(false, origin) => {
            let what = format!("{address}, which nothing renews");
            let look = Command::filled("ip address show dev {}", &[&own.name]);
            let kind = ObstacleKind::EndingAddress;
            let id = found.add(kind, &own.name, None, (what, look), origin);
            found.facts.know(id, obstacle::ENDS, ends, origin);
        }
        Fact::Known(true, _) => {}
        Fact::Unknown(gap) => found.missing(gap),
    }
}

/// Whether something runs that renews leases. Whoever sees a part of the processes cannot deny it.
fn is_renewed(ask: &Ask<'_>) -> Fact<bool> {
    if !known!(first_pid_namespace(ask)) {
        return Fact::derived(true, "a container's addresses are its engine's");
    }
    let question = Question::call("running_commands", [("names", CLIENTS.into())]);
    let origin = Origin::Asked(question.clone());
    let reply = known!(ask.value(question));
    let runs = reply.get("running").and_then(Value::as_array);
    match runs.map(Vec::is_empty) {
        Some(false) => Fact::Known(true, origin),
        Some(true) if reply.get("all") == Some(&Value::Bool(true)) => Fact::Known(false, origin),
        _ => Fact::Unknown(Gap::not_said("processes of others are hidden", origin)),
    }
}
