//! One fabric from all that was given: devices, and the links between their ports.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::said::{End, Kind, LinkLine};
use crate::probe::outputs::OutputLine;

/// A switch, or a port of an adapter: what has a GUID and a LID of its own.
#[derive(Default)]
pub(super) struct Device {
    /// How an operator finds it: by its description, with its LID if others have the same.
    pub(super) label: String,
    pub(super) description: Option<String>,
    pub(super) guid: Option<u64>,
    pub(super) lid: Option<u64>,
    pub(super) kind: Option<Kind>,
    pub(super) device_id: Option<u64>,
    /// Whether a line says that no subnet manager gave it a LID.
    pub(super) lacks_lid: bool,
    /// Whether a list of all links has lines of it.
    is_listed: bool,
}

/// The PCI device id of the node in a switch that aggregates for SHARP.
const AGGREGATION: u64 = 0xcf09;

impl Device {
    /// Whether it is within a switch and serves SHARP: its link is no cable.
    pub(super) fn is_aggregation(&self) -> bool {
        let name = self.description.as_deref().unwrap_or("");
        self.device_id == Some(AGGREGATION) || name.ends_with("Aggregation Node")
    }

    pub(super) fn is_switch(&self) -> bool {
        self.kind == Some(Kind::Switch)
    }

    /// Whether it is an adapter of a host.
    pub(super) fn is_adapter(&self) -> bool {
        self.kind == Some(Kind::Adapter) && !self.is_aggregation()
    }
}

/// A port, by the place of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PortAt {
    pub(super) device: usize,
    pub(super) port: u64,
}

/// A link, or a port without one.
pub(super) struct Link<'o> {
    pub(super) near: PortAt,
    pub(super) far: Option<PortAt>,
    pub(super) line: OutputLine<'o>,
    pub(super) said: LinkLine,
    /// What the lines of the two ends contradict each other in.
    pub(super) conflict: Option<String>,
    /// Whether the far end's block names it too.
    is_returned: bool,
}

impl Link<'_> {
    pub(super) fn ends(&self) -> impl Iterator<Item = PortAt> + use<> {
        std::iter::once(self.near).chain(self.far)
    }

    /// The other end, seen from this one.
    pub(super) fn peer_of(&self, port: PortAt) -> Option<PortAt> {
        if self.near == port {
            self.far
        } else {
            Some(self.near)
        }
    }
}

/// By what an end names its device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Identity {
    GuidAndLid,
    /// A LID, or a name alone.
    NoGuid,
    GuidAlone,
}

impl Identity {
    /// What says most comes first: what says less is found by it.
    const STEPS: [Identity; 3] = [Identity::GuidAndLid, Identity::NoGuid, Identity::GuidAlone];

    fn of(end: &End) -> Self {
        match end.guid {
            Some(_) if end.lid.is_some() => Identity::GuidAndLid,
            Some(_) => Identity::GuidAlone,
            None => Identity::NoGuid,
        }
    }
}

/// What a line says, with the line.
pub(super) type Reading<'o> = (OutputLine<'o>, LinkLine);

/// The fabric, as far as it was given.
#[derive(Default)]
pub(super) struct Fabric<'o> {
    pub(super) devices: Vec<Device>,
    pub(super) links: Vec<Link<'o>>,
    places: HashMap<PortAt, usize>,
    by_guid: HashMap<u64, usize>,
    by_lid: HashMap<u64, Vec<usize>>,
    by_name: HashMap<String, Vec<usize>>,
}

impl<'o> Fabric<'o> {
    /// Puts the lines together, those of ports without a link among them.
    pub(super) fn build(lines: Vec<Reading<'o>>, more_ends: &[&End]) -> Self {
        let mut fabric = Fabric::default();
        for step in Identity::STEPS {
            for end in all_ends(&lines, more_ends).filter(|end| Identity::of(end) == step) {
                fabric.register(end);
            }
        }
        fabric.label_devices(all_ends(&lines, more_ends));
        for (line, said) in lines {
            fabric.add_line(line, said);
        }
        fabric.infer_kinds();
        fabric.find_unreturned();
        fabric
    }

    /// The device of this end.
    fn find(&self, end: &End) -> Option<usize> {
        if let Some(at) = end.guid.and_then(|guid| self.by_guid.get(&guid)) {
            return Some(*at);
        }
        match assigned(end.lid) {
            Some(lid) => {
                let fits = |at: &&usize| {
                    let device = self.devices.get(**at);
                    device.is_some_and(|device| fits_by_lid(device, end))
                };
                self.by_lid.get(&lid)?.iter().find(fits).copied()
            }
            // A name that one device has; with a GUID, one that nothing gave a GUID yet.
            None => match self.by_name.get(end.node.as_ref()?)?.as_slice() {
                [one] => Some(*one).filter(|_| end.guid.is_none() || self.lacks_guid(*one)),
                _ => None,
            },
        }
    }

    fn lacks_guid(&self, device: usize) -> bool {
        self.device(device)
            .is_some_and(|device| device.guid.is_none())
    }

    fn register(&mut self, end: &End) {
        let at = self.find(end).unwrap_or_else(|| {
            self.devices.push(Device::default());
            self.devices.len() - 1
        });
        let Some(device) = self.devices.get_mut(at) else {
            return;
        };
        if device.description.is_none() {
            device.description.clone_from(&end.node);
        }
        device.guid = device.guid.or(end.guid);
        device.kind = device.kind.or(end.kind);
        device.device_id = device.device_id.or(end.device_id);
        device.lacks_lid |= end.lid.is_some() && assigned(end.lid).is_none();
        if let Some(guid) = end.guid {
            self.by_guid.entry(guid).or_insert(at);
        }
        if let Some(lid) = assigned(end.lid) {
            device.lid = device.lid.or(Some(lid));
            let devices = self.by_lid.entry(lid).or_default();
            if !devices.contains(&at) {
                devices.push(at);
            }
        }
        if let Some(name) = &end.node {
            let devices = self.by_name.entry(name.clone()).or_default();
            if !devices.contains(&at) {
                devices.push(at);
            }
        }
    }

    /// Names each device; a description that several have on the same port goes with a number.
    fn label_devices<'e>(&mut self, ends: impl Iterator<Item = &'e End>) {
        let mut owners: HashMap<(&str, u64), usize> = HashMap::new();
        let mut ambiguous: HashSet<&str> = HashSet::new();
        for end in ends {
            if let (Some(name), Some(at)) = (&end.node, self.find(end))
                && *owners.entry((name, end.port)).or_insert(at) != at
            {
                ambiguous.insert(name);
            }
        }
        for device in &mut self.devices {
            let number = match (device.lid, device.guid) {
                (Some(lid), _) => format!("LID {lid}"),
                (None, Some(guid)) => format!("GUID {guid:#x}"),
                (None, None) => "unnamed".to_owned(),
            };
            device.label = match device.description.as_deref() {
                Some(name) if ambiguous.contains(name) => format!("{name} ({number})"),
                Some(name) if !name.is_empty() => name.to_owned(),
                _ => number,
            };
        }
    }

    /// The port that a line names.
    pub(super) fn port_of(&self, end: &End) -> Option<PortAt> {
        let device = self.find(end)?;
        let port = end.port;
        Some(PortAt { device, port })
    }

    fn add_line(&mut self, line: OutputLine<'o>, said: LinkLine) {
        let Some(near) = self.port_of(&said.near) else {
            return;
        };
        let far = said.far.as_ref().and_then(|far| self.port_of(far));
        if said.is_of_list
            && let Some(device) = self.devices.get_mut(near.device)
        {
            device.is_listed = true;
        }
        if let Some(at) = self.link_at(near) {
            self.add_to_link(at, near, far, said);
        } else if let Some(at) = far.and_then(|far| self.link_at(far)) {
            self.add_to_far_end(at, near, far, said);
        } else {
            self.push_link(near, far, line, said);
        }
    }

    /// Adds what a further line says of a port that is in a link already.
    fn add_to_link(&mut self, at: usize, near: PortAt, far: Option<PortAt>, said: LinkLine) {
        let Some(link) = self.links.get_mut(at) else {
            return;
        };
        let Some((stated, named)) = link.peer_of(near).zip(far) else {
            link.said.fill_from(said);
            if let Some(far) = far {
                link.far = Some(far);
                self.places.insert(far, at);
            }
            return;
        };
        if stated != named {
            let conflict = two_peers(&self.devices, near, [stated, named]);
            link.conflict.get_or_insert(conflict);
            return;
        }
        link.is_returned |= said.is_of_block && link.far == Some(near);
        link.said.fill_from(said);
    }

    /// Adds a port that names one as its peer which is in a link already.
    fn add_to_far_end(&mut self, at: usize, near: PortAt, far: Option<PortAt>, said: LinkLine) {
        let (Some(link), Some(far)) = (self.links.get_mut(at), far) else {
            return;
        };
        if let Some(other) = link.peer_of(far) {
            let conflict = two_peers(&self.devices, far, [other, near]);
            link.conflict.get_or_insert(conflict);
            return;
        }
        link.far = Some(near);
        link.said.fill_from(said);
        self.places.insert(near, at);
    }

    fn push_link(
        &mut self,
        near: PortAt,
        far: Option<PortAt>,
        line: OutputLine<'o>,
        said: LinkLine,
    ) {
        for end in std::iter::once(near).chain(far) {
            self.places.insert(end, self.links.len());
        }
        self.links.push(Link {
            near,
            far,
            line,
            said,
            conflict: None,
            is_returned: false,
        });
    }

    /// A device of which nobody says what it is has several ports if it is a switch.
    fn infer_kinds(&mut self) {
        let mut ports = vec![0; self.devices.len()];
        for end in self.links.iter().flat_map(Link::ends) {
            if let Some(count) = ports.get_mut(end.device) {
                *count += 1;
            }
        }
        for (device, count) in self.devices.iter_mut().zip(ports) {
            let inferred = if count > 1 {
                Kind::Switch
            } else {
                Kind::Adapter
            };
            device.kind.get_or_insert(inferred);
        }
    }

    /// Says which links are listed by one end alone.
    fn find_unreturned(&mut self) {
        for link in &mut self.links {
            let Some(far) = link.far.filter(|far| far.device != link.near.device) else {
                continue;
            };
            let is_listed = self
                .devices
                .get(far.device)
                .is_some_and(|far| far.is_listed);
            if link.said.is_of_block && is_listed && !link.is_returned && link.conflict.is_none() {
                let far = name_of(&self.devices, far);
                link.conflict = Some(format!("{far} does not list it"));
            }
        }
    }

    /// The devices that others name, and that have no block of their own though others have.
    pub(super) fn count_unlisted(&self) -> u64 {
        if !self.devices.iter().any(|device| device.is_listed) {
            return 0;
        }
        let unlisted = self.devices.iter().filter(|device| !device.is_listed);
        unlisted.count() as u64
    }

    pub(super) fn link_at(&self, port: PortAt) -> Option<usize> {
        self.places.get(&port).copied()
    }

    pub(super) fn device(&self, at: usize) -> Option<&Device> {
        self.devices.get(at)
    }

    /// `leaf01 port 5`
    pub(super) fn port_name(&self, port: PortAt) -> String {
        name_of(&self.devices, port)
    }

    /// The ports of each device that have a link, with the port at the other end.
    pub(super) fn peers(&self) -> Vec<BTreeMap<u64, PortAt>> {
        let mut peers = vec![BTreeMap::new(); self.devices.len()];
        for link in &self.links {
            let Some(far) = link.far else {
                continue;
            };
            for (own, other) in [(link.near, far), (far, link.near)] {
                if let Some(ports) = peers.get_mut(own.device) {
                    ports.insert(own.port, other);
                }
            }
        }
        peers
    }
}

fn all_ends<'e>(
    lines: &'e [Reading<'_>],
    more_ends: &'e [&'e End],
) -> impl Iterator<Item = &'e End> {
    let of_lines = lines.iter().flat_map(|(_, said)| said.ends());
    of_lines.chain(more_ends.iter().copied())
}

/// A LID that a subnet manager gave.
fn assigned(lid: Option<u64>) -> Option<u64> {
    lid.filter(|lid| ![0, 65535].contains(lid))
}

/// Whether a device with the LID of an end is the end's: two may have one LID by mistake.
fn fits_by_lid(device: &Device, end: &End) -> bool {
    let is_other_guid = |guid: u64| device.guid.is_some_and(|own| own != guid);
    let is_other_name = |name: &String| device.description.as_ref().is_some_and(|own| own != name);
    !end.guid.is_some_and(is_other_guid) && !end.node.as_ref().is_some_and(is_other_name)
}

/// `leaf1 port 5 is named with two peers, spine0 port 3 and spine1 port 3`
fn two_peers(devices: &[Device], port: PortAt, peers: [PortAt; 2]) -> String {
    let [port, one, other] = [port, peers[0], peers[1]].map(|port| name_of(devices, port));
    format!("{port} is named with two peers, {one} and {other}")
}

fn name_of(devices: &[Device], port: PortAt) -> String {
    let label = devices.get(port.device).map_or("", |device| &device.label);
    format!("{label} port {}", port.port)
}
