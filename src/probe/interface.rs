//! Network interfaces and their addresses, in the order in which getifaddrs(3) lists them.

mod messages;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use super::{Ask, Probe};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Membership, Origin, Subject, interface};
use crate::source::Question;
use messages::{Address, Link};

/// The probe.
pub const PROBE: Probe = Probe::new("interface", run);

const NET: &str = "/sys/class/net";
/// Interfaces of hardware that are asked for the device below them: a node with more has virtual functions of one kind.
const DEVICES: usize = 256;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let links = ask
        .bytes(Question::netlink("route/getlink", []))
        .and_then(|bytes| messages::links(&bytes));
    let addresses = ask
        .bytes(Question::netlink("route/getaddr", []))
        .and_then(|bytes| messages::addresses(&bytes));
    let (links, origin) = match links {
        Fact::Known(links, origin) => (links, origin),
        Fact::Unknown(gap) => {
            facts.set_members(Subject::Interface, node, Membership::Unknown(gap));
            return;
        }
    };
    let names: HashMap<u32, &Arc<str>> = links.iter().map(|l| (l.index, &l.name)).collect();
    let of_link = addresses.map(|all| by_name(&all, &names));
    // An alias is an entry of its own to whoever reads getifaddrs(3), and there is one only if an address has its label.
    let membership = match &of_link {
        Fact::Known(..) => Membership::Known(origin.clone()),
        Fact::Unknown(gap) => Membership::Unknown(gap.clone()),
    };
    facts.set_members(Subject::Interface, node, membership);
    let mut aliases: HashMap<u32, Vec<Arc<str>>> = HashMap::new();
    for (index, name) in of_link.known().into_iter().flat_map(|of| of.keys()) {
        if names.get(index).is_some_and(|own| *own != name) {
            aliases.entry(*index).or_default().push(Arc::clone(name));
        }
    }
    aliases.values_mut().for_each(|names| names.sort_unstable());
    let mut left = DEVICES;
    for link in links.iter() {
        let physical = physical(ask, link, &mut left);
        let describe = |facts: &mut Facts, name: &str| {
            let id = facts.instance(Subject::Interface, node, name);
            let known = |value: bool| Fact::Known(value, origin.clone());
            facts.set(id, interface::UP, known(link.up()));
            facts.set(id, interface::RUNNING, known(link.running()));
            facts.set(id, interface::LOOPBACK, known(link.loopback()));
            facts.set(id, interface::MTU, mtu(link, &origin));
            let index = Fact::Known(u64::from(link.index), origin.clone());
            facts.set(id, interface::INDEX, index);
            facts.set(id, interface::ARP, known(link.arp()));
            let said = Fact::Known(link, origin.clone());
            let program = said.and_then(|link| Ok(link.xdp()?.into()));
            facts.set(id, interface::XDP, program);
            // A veth's other end is below nothing.
            let stacked = matches!(link.kind.as_deref(), Some("vlan" | "macvlan" | "ipvlan"));
            let lower = link
                .lower
                .filter(|_| stacked)
                .and_then(|lower| names.get(&lower));
            let lower = lower.map_or_else(|| Arc::from("none"), |name| Arc::clone(name));
            facts.set(id, interface::LOWER, Fact::Known(lower, origin.clone()));
            let kind = link.kind.clone().unwrap_or_else(|| "none".into());
            facts.set(id, interface::KIND, Fact::Known(kind, origin.clone()));
            facts.set(id, interface::PHYSICAL, physical.clone());
            let master = match link.master.map(|index| names.get(&index)) {
                None => Arc::from("none"),
                Some(Some(name)) => Arc::clone(name),
                // The bond or bridge is in another network namespace.
                Some(None) => Arc::from("none"),
            };
            facts.set(id, interface::MASTER, Fact::Known(master, origin.clone()));
            let own = match &of_link {
                Fact::Known(of, origin) => {
                    let own = of.get(&(link.index, Arc::from(name)));
                    let own = own.map(|own| own.iter().cloned().collect());
                    Fact::Known(own.unwrap_or_else(|| [].into()), origin.clone())
                }
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            };
            facts.set(id, interface::ADDRESSES, own);
        };
        describe(facts, &link.name);
        for alias in aliases.get(&link.index).into_iter().flatten() {
            describe(facts, alias);
        }
    }
}

/// The addresses by the name that getifaddrs(3) gives them: their label, else the interface's.
type ByName = HashMap<(u32, Arc<str>), Vec<Arc<str>>>;

fn by_name(all: &[Address], names: &HashMap<u32, &Arc<str>>) -> ByName {
    let mut of = ByName::new();
    for address in all {
        let name = match (&address.label, names.get(&address.index)) {
            (Some(label), _) => Arc::clone(label),
            (None, Some(name)) => Arc::clone(name),
            // The interface came between the two dumps.
            (None, None) => continue,
        };
        let text = format!("{}/{}", address.address, address.prefix);
        of.entry((address.index, name))
            .or_default()
            .push(text.into());
    }
    of
}

fn mtu(link: &Link, origin: &Origin) -> Fact<Bytes> {
    match link.mtu {
        Some(mtu) => Fact::Known(Bytes(u64::from(mtu)), origin.clone()),
        None => Fact::Unknown(Gap::missing("IFLA_MTU")),
    }
}

/// A kind is software's; hardware has none, and a device below it.
fn physical(ask: &Ask<'_>, link: &Link, left: &mut usize) -> Fact<bool> {
    if link.loopback() {
        return Fact::derived(false, "a loopback interface");
    }
    if let Some(kind) = &link.kind
        && !matches!(&**kind, "ipoib" | "hsr")
    {
        return Fact::derived(false, format!("an interface of kind {kind}"));
    }
    if *left == 0 {
        return Fact::Unknown(Gap::missing("the device below it, which was not asked for"));
    }
    *left -= 1;
    ask.link_name(format!("{NET}/{}/device", link.name))
        .is_present()
}
