//! Network interfaces and their addresses, in the order in which getifaddrs(3) lists them.

pub(super) mod messages;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use super::{Ask, Probe};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Membership, Origin, Seconds, Subject, interface};
use crate::source::Question;
use messages::{Address, FOR_EVER, IFF_LOOPBACK, IFF_NOARP, IFF_RUNNING, IFF_UP, Link};

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
    let of_link = addresses.clone().map(|all| by_name(&all, &names));
    // An alias is an entry of its own to whoever reads getifaddrs(3), and there is one only if an address has its label.
    let open = of_link.as_result().err().cloned();
    let membership = Membership::known_unless(open, origin.clone());
    facts.set_members(Subject::Interface, node, membership);
    let mut aliases: HashMap<u32, Vec<Arc<str>>> = HashMap::new();
    for (index, name) in of_link.known().into_iter().flat_map(|of| of.keys()) {
        if names.get(index).is_some_and(|own| *own != name) {
            aliases.entry(*index).or_default().push(Arc::clone(name));
        }
    }
    aliases.values_mut().for_each(|names| names.sort_unstable());
    // Of another network namespace the interface below, or the bond or bridge, has no name here.
    let name_of = |index: Option<u32>| {
        let name = index.and_then(|index| names.get(&index));
        name.map_or_else(|| "none".into(), |name| Arc::clone(name))
    };
    let mut left = DEVICES;
    for link in links.iter() {
        let physical = physical(ask, link, &mut left);
        let describe = |facts: &mut Facts, name: &str| {
            let id = facts.instance(Subject::Interface, node, name);
            facts.know(id, interface::UP, link.has(IFF_UP), &origin);
            facts.know(id, interface::RUNNING, link.has(IFF_RUNNING), &origin);
            facts.know(id, interface::LOOPBACK, link.has(IFF_LOOPBACK), &origin);
            facts.set(id, interface::MTU, mtu(link, &origin));
            facts.know(id, interface::INDEX, u64::from(link.index), &origin);
            facts.know(id, interface::ARP, !link.has(IFF_NOARP), &origin);
            let said = Fact::Known(link, origin.clone());
            let program = said.and_then(|link| Ok(link.xdp()?.into()));
            facts.set(id, interface::XDP, program);
            // A veth's other end is below nothing.
            let stacked = matches!(link.kind.as_deref(), Some("vlan" | "macvlan" | "ipvlan"));
            let lower = name_of(link.lower.filter(|_| stacked));
            facts.know(id, interface::LOWER, lower, &origin);
            let kind = link.kind.clone().unwrap_or_else(|| "none".into());
            facts.know(id, interface::KIND, kind, &origin);
            facts.set(id, interface::PHYSICAL, physical.clone());
            facts.know(id, interface::MASTER, name_of(link.master), &origin);
            let own = match &of_link {
                Fact::Known(of, origin) => {
                    let own = of.get(&(link.index, Arc::from(name)));
                    let own = own.map(|own| own.iter().cloned().collect());
                    Fact::Known(own.unwrap_or_else(|| [].into()), origin.clone())
                }
                Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
            };
            facts.set(id, interface::ADDRESSES, own);
            lifetimes(facts, id, link.index, &addresses);
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
        of.entry((address.index, name))
            .or_default()
            .push(address.to_string().into());
    }
    of
}

/// States which addresses of an interface are not used, and which are not for ever.
fn lifetimes(facts: &mut Facts, id: Id, index: u32, addresses: &Fact<Arc<[Address]>>) {
    let of_own = |all: &Arc<[Address]>| -> Vec<Address> {
        all.iter()
            .filter(|one| one.index == index)
            .cloned()
            .collect()
    };
    let own = addresses.clone().map(|all| of_own(&all));
    let refused = own.clone().map(|all| {
        let refused = all.iter().filter(|one| one.is_duplicate);
        refused.map(|one| one.to_string().into()).collect()
    });
    facts.set(id, interface::REFUSED_ADDRESSES, refused);
    let first_to_end = own.and_then(|all| {
        let mut first: Option<(u32, String)> = None;
        // The lifetimes of IPv6 are a router's, which renews them by itself.
        for one in all.iter().filter(|one| one.address.is_ipv4()) {
            let valid = one.valid_s.ok_or("IFA_CACHEINFO is not in it")?;
            if valid != FOR_EVER && first.as_ref().is_none_or(|(least, _)| valid < *least) {
                first = Some((valid, one.to_string()));
            }
        }
        Ok(first)
    });
    let leased = first_to_end.clone().map(|first| match first {
        Some((_, address)) => address.into(),
        None => "none".into(),
    });
    facts.set(id, interface::LEASED_ADDRESS, leased);
    if let Fact::Known(Some((valid, _)), origin) = first_to_end {
        facts.know(id, interface::LEASE_ENDS, Seconds(valid.into()), &origin);
    }
}

fn mtu(link: &Link, origin: &Origin) -> Fact<Bytes> {
    match link.mtu {
        Some(mtu) => Fact::Known(Bytes(u64::from(mtu)), origin.clone()),
        None => Fact::Unknown(Gap::missing("IFLA_MTU")),
    }
}

/// A kind is software's; hardware has none, and a device below it.
fn physical(ask: &Ask<'_>, link: &Link, left: &mut usize) -> Fact<bool> {
    if link.has(IFF_LOOPBACK) {
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
