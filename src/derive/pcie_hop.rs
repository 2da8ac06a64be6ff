//! The links of PCIe paths: what each carries, what it could, and which is the narrowest of a path.

use super::Derivation;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::bridge::PortType;
use crate::fact::hop::IdleReduction;
use crate::fact::kleene::Several;
use crate::fact::pcie::LinkKeys;
use crate::fact::{
    BitRate, Bytes, Fact, Facts, Gap, Id, Key, Membership, Origin, PerSecond, Phrase, Subject,
    Typed, bridge, function, gpu, hop, known, node,
};

/// What a link carries, the encoding taken off, by the kernel's own numbers, so that they are those
/// of its line "available PCIe bandwidth" (drivers/pci/pci.h, PCIE_SPEED2MBS_ENC).
pub fn bandwidth(generation: u64, width: u64) -> Option<BitRate> {
    let per_lane = match generation {
        1 => 2_500 * 8 / 10,
        2 => 5_000 * 8 / 10,
        3 => 8_000 * 128 / 130,
        4 => 16_000 * 128 / 130,
        5 => 32_000 * 128 / 130,
        // Fixed-size packets (FLIT) need no encoding.
        6 => 64_000,
        _ => return None,
    };
    Some(BitRate(per_lane * width * 1_000_000))
}

/// A GPU or a function that can do RDMA, and its path.
pub(super) struct Endpoint {
    pub id: Id,
    pub is_gpu: bool,
    pub path: Arc<[Arc<str>]>,
    /// A virtual function shares the link of its adapter, and knows nothing of it.
    is_virtual: bool,
}

/// The endpoints whose path is known; a gap where there may be more, or where the path of one is
/// not known.
pub(super) fn endpoints(facts: &Facts, node: Id) -> (Vec<Endpoint>, Option<Gap>) {
    let mut found = Vec::new();
    let mut open = None;
    for (subject, path, virtual_function) in [
        (Subject::Gpu, gpu::PATH, gpu::VIRTUAL_FUNCTION),
        (
            Subject::Function,
            function::PATH,
            function::VIRTUAL_FUNCTION,
        ),
    ] {
        open = open.or(facts.members(subject, node).err());
        for id in facts.below(node, subject) {
            match facts.get(id, path) {
                Fact::Known(path, _) => found.push(Endpoint {
                    id,
                    is_gpu: subject == Subject::Gpu,
                    path,
                    is_virtual: facts.known(id, virtual_function) == Some(true),
                }),
                Fact::Unknown(gap) => open = open.or(Some(gap)),
            }
        }
    }
    (found, open)
}

/// What tells links apart: the port above, and the device below without the number of its function,
/// since the functions of a card share its link.
type LinkName = (Arc<str>, String);

/// A link while it is being put together.
struct Link {
    upper: Arc<str>,
    lower: Arc<str>,
    /// The RDMA functions below it.
    nics: Vec<Id>,
}

/// The derivation.
pub(super) const DERIVATION: Derivation =
    Derivation::new("pcie_hop", &["function.port_rate"], derive);

/// Works out the hops of a node, and what follows from them for GPUs and functions.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let (endpoints, mut open) = endpoints(facts, node);
    let mut links: BTreeMap<LinkName, Link> = BTreeMap::new();
    let mut paths: Vec<Vec<LinkName>> = Vec::new();
    for endpoint in &endpoints {
        let mut keys = Vec::new();
        let functions = endpoint.path.get(1..).unwrap_or_default();
        for (place, pair) in functions.windows(2).enumerate() {
            let [upper, lower] = pair else { continue };
            if endpoint.is_virtual && endpoint.path.last() == Some(lower) {
                continue;
            }
            match is_link(facts, node, upper, place, functions.len()) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(gap) => {
                    open = open.or(Some(gap));
                    keys.clear();
                    break;
                }
            }
            let device = lower
                .rsplit_once('.')
                .map_or(&**lower, |(device, _)| device);
            let key = (Arc::clone(upper), device.to_owned());
            let link = links.entry(key.clone()).or_insert_with(|| Link {
                upper: Arc::clone(upper),
                lower: Arc::clone(lower),
                nics: Vec::new(),
            });
            // A card's first function stands for it.
            if *lower < link.lower {
                link.lower = Arc::clone(lower);
            }
            if !endpoint.is_gpu {
                link.nics.push(endpoint.id);
            }
            keys.push(key);
        }
        paths.push(keys);
    }
    let mut ids = BTreeMap::new();
    for (key, link) in links {
        let id = facts.instance(Subject::Hop, node, &link.lower);
        describe(facts, node, id, &link);
        let (needed, least) = needed(facts, &link.nics, open.as_ref());
        state_need(facts, id, &needed, least);
        facts.set_at_least(id, hop::NEEDED, needed, least);
        ids.insert(key, id);
    }
    let how = Origin::derived("the paths of GPUs and RDMA functions");
    facts.set_members(Subject::Hop, node, Membership::known_unless(open, how));
    for (endpoint, keys) in endpoints.iter().zip(paths) {
        let hops: Vec<Id> = keys
            .iter()
            .filter_map(|key| ids.get(key).copied())
            .collect();
        let related = facts.related(endpoint.id).iter().copied();
        let devices: Vec<Id> = related
            .filter(|id| facts.subject(*id) == Subject::Device)
            .collect();
        for hop in &hops {
            facts.relate(endpoint.id, *hop);
            // The device of a function, and so its ports, suffer with it.
            for device in &devices {
                facts.relate(*device, *hop);
            }
        }
        summarise(facts, node, endpoint, &hops);
    }
}

/// Whether a link leads down from a port: from a root port and from a downstream port of a switch.
/// What connects the upstream port of a switch with its downstream ports is inside the switch.
///
/// Others than root do not see of what kind a port is. Then its place tells, where the path has an
/// even number of functions: a root port, two for each switch, and the function at the end.
fn is_link(facts: &Facts, node: Id, port: &str, place: usize, length: usize) -> Result<bool, Gap> {
    let kind = match facts.find(Subject::Bridge, node, port) {
        Some(id) => facts.get(id, bridge::KIND),
        None => Fact::Unknown(Gap::missing(format!("PCI function {port}"))),
    };
    match kind {
        Fact::Known(kind, _) => Ok(matches!(kind, PortType::Root | PortType::Downstream)),
        Fact::Unknown(_) if length.is_multiple_of(2) => Ok(place.is_multiple_of(2)),
        Fact::Unknown(gap) => Err(gap),
    }
}

/// The function of this name, and where its facts are.
fn function_of(facts: &Facts, node: Id, name: &str) -> Option<(Id, &'static LinkKeys)> {
    [
        (Subject::Bridge, &bridge::LINK),
        (Subject::Gpu, &gpu::LINK),
        (Subject::Function, &function::LINK),
    ]
    .into_iter()
    .find_map(|(subject, keys)| Some((facts.find(subject, node, name)?, keys)))
}

/// A fact of one end of a link.
fn of_end<T: Typed>(
    facts: &Facts,
    node: Id,
    name: &str,
    key: impl Fn(&LinkKeys) -> Key<T>,
) -> Fact<T> {
    match function_of(facts, node, name) {
        Some((id, keys)) => facts.get(id, key(keys)),
        None => Fact::Unknown(Gap::missing(format!("PCI function {name}"))),
    }
}

/// A value out of two; a gap where one is missing.
fn both<A: Clone, B: Clone, C>(
    a: &Fact<A>,
    b: &Fact<B>,
    how: impl Into<Phrase>,
    make: impl FnOnce(A, B) -> Option<C>,
) -> Fact<C> {
    let (a, b) = known!(a.clone().zip(b.clone()));
    let made = make(a, b).ok_or_else(|| Gap::missing("a known generation"));
    Fact::of(made, how)
}

fn describe(facts: &mut Facts, node: Id, id: Id, link: &Link) {
    let Link { upper, lower, .. } = link;
    let how = format!("{upper} and {lower}");
    facts.derive(id, hop::UPPER, Arc::clone(upper), "the path");
    facts.set(id, hop::REST, rest(facts, node, link));

    let generation = of_end(facts, node, lower, |k| k.generation);
    let width = of_end(facts, node, lower, |k| k.width);
    let least = |key: fn(&LinkKeys) -> Key<u64>| {
        both(
            &of_end(facts, node, lower, key),
            &of_end(facts, node, upper, key),
            format!("the lesser of {how}"),
            |a, b| Some(a.min(b)),
        )
    };
    let possible_generation = least(|k| k.max_generation);
    let possible_width = least(|k| k.max_width);
    let now = both(&generation, &width, "generation and lanes now", bandwidth);
    let ends = "generation and lanes that both ends can";
    let possible = both(&possible_generation, &possible_width, ends, bandwidth);
    facts.set(id, hop::GENERATION, generation);
    facts.set(id, hop::WIDTH, width);
    facts.set(id, hop::POSSIBLE_GENERATION, possible_generation);
    facts.set(id, hop::POSSIBLE_WIDTH, possible_width);
    facts.set(id, hop::BANDWIDTH, now);
    facts.set(id, hop::POSSIBLE_BANDWIDTH, possible);
    errors(facts, node, id, link);
}

/// What the fastest port below a link needs of it, and what it needs at least.
fn needed(facts: &Facts, nics: &[Id], open: Option<&Gap>) -> (Fact<BitRate>, BitRate) {
    let mut most = BitRate(0);
    let mut open = open.cloned();
    for nic in nics {
        if let Some(rate) = facts.get(*nic, function::PORT_RATE).or_open(&mut open) {
            most = most.max(rate);
        }
    }
    let needed = Fact::derived(most, "the fastest port in use below it").unless(open);
    (needed, most)
}

/// Says what the need is, also where it is unknown: a link that trained low is a fault whatever
/// needs it.
fn state_need(facts: &mut Facts, hop: Id, needed: &Fact<BitRate>, least: BitRate) {
    let need: Arc<str> = match needed {
        Fact::Known(BitRate(0), _) => "no port below is in use".into(),
        Fact::Known(rate, _) => format!("the port below needs {rate}").into(),
        Fact::Unknown(_) if least.0 > 0 => format!("the port below needs at least {least}").into(),
        Fact::Unknown(_) => "what the port below needs is unknown".into(),
    };
    facts.derive(hop, hop::NEED, need, "hop.needed");
}

/// A GPU lowers its link while it has nothing to do, and so does the bridge on an AMD GPU's own
/// board.
fn rest(facts: &Facts, node: Id, link: &Link) -> Fact<IdleReduction> {
    if !link.nics.is_empty() {
        return Fact::derived(IdleReduction::Nothing, "an RDMA function is below it");
    }
    let id = match facts.find(Subject::Gpu, node, &link.lower) {
        Some(gpu) => facts.get(gpu, gpu::ID),
        None => match facts.find(Subject::Bridge, node, &link.lower) {
            Some(bridge) => facts.get(bridge, bridge::ID),
            None => Fact::Unknown(Gap::missing(format!("PCI function {}", link.lower))),
        },
    };
    id.map(|id| match id.split(':').next() {
        Some("10de") => IdleReduction::Speed,
        Some("1002") => IdleReduction::SpeedAndWidth,
        _ => IdleReduction::Nothing,
    })
}

fn errors(facts: &mut Facts, node: Id, id: Id, link: &Link) {
    let counts = |name: &str| of_end(facts, node, name, |k| k.counts_errors);
    let ends = [
        (&link.lower, counts(&link.lower)),
        (&link.upper, counts(&link.upper)),
    ];
    let each: Several<bool> = ends.iter().map(|(_, counts)| counts.clone()).collect();
    let counts_errors = Fact::of(each.any(|is| *is), "aer_dev_correctable of both ends");
    let sum = |key: fn(&LinkKeys) -> Key<u64>| {
        let mut total = 0u64;
        for (name, counts) in &ends {
            if *known!(counts) {
                total = total.saturating_add(known!(of_end(facts, node, name, key)));
            }
        }
        Fact::derived(total, format!("{} and {}", link.lower, link.upper))
    };
    let corrected = sum(|k| k.link_errors);
    let nonfatal = sum(|k| k.nonfatal_errors);
    let fatal = sum(|k| k.fatal_errors);
    let counted = corrected.clone().zip(facts.get(node, node::UPTIME));
    let rate = counted.flat_map(|(errors, uptime)| {
        if uptime.0 > 0.0 {
            let rate = PerSecond(errors as f64 / uptime.0);
            Fact::derived(rate, format!("{errors} in {uptime}"))
        } else {
            Fact::Unknown(Gap::missing("node.uptime"))
        }
    });
    facts.set(id, hop::COUNTS_ERRORS, counts_errors);
    facts.set(id, hop::LINK_ERRORS, corrected);
    facts.set(id, hop::LINK_ERROR_RATE, rate);
    facts.set(id, hop::NONFATAL_ERRORS, nonfatal);
    facts.set(id, hop::FATAL_ERRORS, fatal);
}

/// The least of a path, with what it is the least of.
fn least<T: Typed + Clone + Ord>(
    values: impl Iterator<Item = (Fact<T>, Arc<str>)>,
) -> Fact<(T, Arc<str>)> {
    let mut least: Option<(T, Arc<str>)> = None;
    for (value, name) in values {
        let value = known!(value);
        if least.as_ref().is_none_or(|(old, _)| value < *old) {
            least = Some((value, name));
        }
    }
    match least {
        Some((value, name)) => Fact::derived((value, Arc::clone(&name)), name),
        None => Fact::Unknown(Gap::missing("a PCIe link on the path")),
    }
}

/// What follows from the hops of a path for the function at its end.
fn summarise(facts: &mut Facts, node: Id, endpoint: &Endpoint, hops: &[Id]) {
    let narrowest = least(hops.iter().map(|hop| {
        let key = match facts.get(*hop, hop::REST) {
            Fact::Known(IdleReduction::Nothing, _) => hop::BANDWIDTH,
            Fact::Known(..) => hop::POSSIBLE_BANDWIDTH,
            Fact::Unknown(gap) => return (Fact::Unknown(gap), "".into()),
        };
        (facts.get(*hop, key), facts.name(*hop).into())
    }));
    let own = endpoint.path.last().filter(|_| !endpoint.is_virtual);
    let slot = match (own, hops.last()) {
        (Some(_), Some(hop)) => facts.get(*hop, hop::POSSIBLE_BANDWIDTH),
        _ => Fact::Unknown(Gap::missing("a PCIe link of its own")),
    };
    let bridges = endpoint
        .path
        .get(1..endpoint.path.len().saturating_sub(1))
        .unwrap_or_default();
    let of_bridges = |key: fn(&LinkKeys) -> Key<Bytes>| {
        let each = bridges.iter();
        let each = each.map(|name| (of_end(facts, node, name, key), Arc::clone(name)));
        least(each).map(|(bytes, _)| bytes)
    };
    let payload = of_bridges(|k| k.max_payload);
    let above = of_bridges(|k| k.max_payload_supported);
    let own_supported = match endpoint.path.last() {
        Some(name) => of_end(facts, node, name, |k| k.max_payload_supported),
        None => Fact::Unknown(Gap::missing("path")),
    };
    let how = "the least that the path supports";
    let supported = both(&above, &own_supported, how, |a, b| Some(a.min(b)));
    let name = narrowest.clone().map(|(_, name)| name);
    let carried = narrowest.map(|(rate, _)| rate);
    let id = endpoint.id;
    if endpoint.is_gpu {
        facts.set(id, gpu::NARROWEST_HOP, name);
        facts.set(id, gpu::PATH_BANDWIDTH, carried);
        facts.set(id, gpu::SLOT_BANDWIDTH, slot);
    } else {
        facts.set(id, function::NARROWEST_HOP, name);
        facts.set(id, function::PATH_BANDWIDTH, carried);
        facts.set(id, function::SLOT_BANDWIDTH, slot);
        facts.set(id, function::PATH_PAYLOAD, payload);
        facts.set(id, function::PATH_PAYLOAD_SUPPORTED, supported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};

    #[test]
    fn the_kernels_own_numbers() {
        for (generation, width, written) in [
            (1, 1, "2 Gb/s"),
            (2, 8, "32 Gb/s"),
            (3, 16, "126.016 Gb/s"),
            (4, 16, "252.048 Gb/s"),
            (5, 16, "504.112 Gb/s"),
            (6, 16, "1024 Gb/s"),
        ] {
            let rate = bandwidth(generation, width).map(|rate| rate.to_string());
            assert_eq!(rate.as_deref(), Some(written), "Gen{generation} x{width}");
        }
        assert_eq!(bandwidth(7, 16), None);
    }

    /// A function on a path, with the link that it has and could have.
    fn link(
        facts: &mut Facts,
        node: Id,
        subject: Subject,
        name: &str,
        now: (u64, u64),
        max: (u64, u64),
    ) -> Id {
        let id = facts.instance(subject, node, name);
        let keys = match subject {
            Subject::Bridge => &bridge::LINK,
            Subject::Gpu => &gpu::LINK,
            _ => &function::LINK,
        };
        for (key, value) in [
            (keys.generation, now.0),
            (keys.width, now.1),
            (keys.max_generation, max.0),
            (keys.max_width, max.1),
        ] {
            facts.set(id, key, stated(value));
        }
        id
    }

    /// A switch with an adapter and an idle GPU below it; the kinds of the ports are known to root
    /// only.
    fn machine(root: bool) -> (Facts, Id) {
        machine_with(root, stated(BitRate(200_000_000_000)))
    }

    /// The same, with ports of this rate.
    fn machine_with(root: bool, rate: Fact<BitRate>) -> (Facts, Id) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        for (name, kind) in [
            ("0000:15:01.0", PortType::Root),
            ("0000:16:00.0", PortType::Upstream),
            ("0000:17:00.0", PortType::Downstream),
            ("0000:17:01.0", PortType::Downstream),
        ] {
            let now = if name == "0000:17:01.0" {
                (1, 16)
            } else {
                (5, 16)
            };
            let id = link(&mut facts, n, Subject::Bridge, name, now, (5, 16));
            facts.set(id, bridge::ID, stated("1000:c030".into()));
            if root {
                facts.set(id, bridge::KIND, stated(kind));
            }
        }
        for (subject, name, port) in [
            (Subject::Function, "0000:18:00.0", "0000:17:00.0"),
            (Subject::Function, "0000:18:00.1", "0000:17:00.0"),
            (Subject::Gpu, "0000:19:00.0", "0000:17:01.0"),
        ] {
            let (now, max) = match subject {
                Subject::Gpu => ((1, 16), (5, 16)),
                _ => ((5, 8), (5, 16)),
            };
            let id = link(&mut facts, n, subject, name, now, max);
            let path: Arc<[Arc<str>]> = ["pci0000:15", "0000:15:01.0", "0000:16:00.0", port, name]
                .into_iter()
                .map(Arc::from)
                .collect();
            if subject == Subject::Gpu {
                facts.set(id, gpu::PATH, stated(path));
                facts.set(id, gpu::ID, stated("10de:2330".into()));
            } else {
                facts.set(id, function::PATH, stated(path));
                facts.set(id, function::PORT_RATE, rate.clone());
            }
        }
        derive(&mut facts, n);
        (facts, n)
    }

    #[test]
    fn each_link_once_and_none_inside_the_switch() {
        for root in [true, false] {
            let (facts, n) = machine(root);
            let names: Vec<&str> = facts.all(Subject::Hop).map(|id| facts.name(id)).collect();
            assert_eq!(
                names,
                ["0000:16:00.0", "0000:18:00.0", "0000:19:00.0"],
                "root: {root}"
            );
            assert!(facts.members(Subject::Hop, n).is_ok());
        }
    }

    #[test]
    fn the_links_of_an_adapter_behind_two_switches() {
        // An adapter of a DGX A100, as sysfs has it there.
        let path = [
            "0000:00:01.1",
            "0000:01:00.0",
            "0000:02:04.0",
            "0000:0a:00.0",
            "0000:0b:00.0",
            "0000:0c:00.0",
        ];
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let below: Vec<&str> = path
            .windows(2)
            .enumerate()
            .filter(|(place, pair)| is_link(&facts, n, pair[0], *place, path.len()) == Ok(true))
            .map(|(_, pair)| pair[1])
            .collect();
        assert_eq!(below, ["0000:01:00.0", "0000:0a:00.0", "0000:0c:00.0"]);
    }

    #[test]
    fn a_narrow_adapter_and_a_resting_gpu() {
        let (facts, n) = machine(true);
        let of = |name: &str| facts.find(Subject::Hop, n, name).unwrap();
        let nic = of("0000:18:00.0");
        assert_eq!(
            facts.known(nic, hop::UPPER).as_deref(),
            Some("0000:17:00.0")
        );
        assert_eq!(facts.known(nic, hop::BANDWIDTH), bandwidth(5, 8));
        assert_eq!(facts.known(nic, hop::POSSIBLE_BANDWIDTH), bandwidth(5, 16));
        assert_eq!(facts.known(nic, hop::REST), Some(IdleReduction::Nothing));
        assert_eq!(
            facts.known(nic, hop::NEEDED),
            Some(BitRate(200_000_000_000))
        );
        assert_eq!(
            facts.known(nic, hop::NEED).as_deref(),
            Some("the port below needs 200 Gb/s")
        );
        assert_eq!(
            facts.known(of("0000:19:00.0"), hop::REST),
            Some(IdleReduction::Speed)
        );
        assert_eq!(
            facts.known(of("0000:19:00.0"), hop::NEEDED),
            Some(BitRate(0))
        );
        let gpu = facts.find(Subject::Gpu, n, "0000:19:00.0").unwrap();
        assert_eq!(
            facts.known(gpu, gpu::PATH_BANDWIDTH),
            bandwidth(5, 16),
            "at its best"
        );
        let function = facts.find(Subject::Function, n, "0000:18:00.1").unwrap();
        assert_eq!(
            facts.known(function, function::PATH_BANDWIDTH),
            bandwidth(5, 8)
        );
        assert_eq!(
            facts.known(function, function::NARROWEST_HOP).as_deref(),
            Some("0000:18:00.0"),
            "the functions of a card share its link"
        );
    }

    #[test]
    fn a_link_is_low_whatever_the_port_below_needs() {
        let gap = Fact::Unknown(Gap::missing("/proc/net/route"));
        let (facts, n) = machine_with(true, gap);
        let nic = facts.find(Subject::Hop, n, "0000:18:00.0").unwrap();
        assert_eq!(facts.known(nic, hop::NEEDED), None);
        assert_eq!(facts.known(nic, hop::BANDWIDTH), bandwidth(5, 8));
        assert_eq!(
            facts.known(nic, hop::NEED).as_deref(),
            Some("what the port below needs is unknown")
        );
    }

    #[test]
    fn a_place_that_tells_nothing_leaves_the_hops_open() {
        // Three functions below the host bridge: without the kinds nobody knows which two have a
        // link between them.
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        for name in ["0000:00:01.0", "0000:01:00.0"] {
            link(&mut facts, n, Subject::Bridge, name, (3, 8), (3, 8));
        }
        let id = link(
            &mut facts,
            n,
            Subject::Function,
            "0000:02:00.0",
            (3, 8),
            (3, 8),
        );
        let path: Arc<[Arc<str>]> = ["pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]
            .into_iter()
            .map(Arc::from)
            .collect();
        facts.set(id, function::PATH, stated(path));
        derive(&mut facts, n);
        assert!(facts.members(Subject::Hop, n).is_err());
        assert_eq!(facts.known(id, function::PATH_BANDWIDTH), None);
    }
}
