//! A cabling plan, as UFM's NDT plugin takes it, and what the cabling has otherwise.
//!
//! ```text
//! #StartDevice,StartPort,EndDevice,EndPort,LinkType
//! leaf1,Port 21,spine3,Port 2,Data
//! leaf1,Port 22,director1,Blade 16_Port 2/20,Data
//! n1,n1 mlx5_0,leaf1,Port 1,Data
//! ```

use std::collections::{BTreeSet, HashMap};

use super::model::{Fabric, Link, PortAt};
use crate::probe::outputs::{Output, OutputLine};

/// The columns that name the ends.
const COLUMNS: [&str; 4] = ["StartDevice", "StartPort", "EndDevice", "EndPort"];

/// An end of a planned link: the names of its device, in capitals, and the port.
struct PlannedEnd {
    /// As reports name a port.
    text: String,
    device: String,
    port: u64,
}

/// A planned link.
struct PlannedLink<'o> {
    line: OutputLine<'o>,
    ends: [PlannedEnd; 2],
}

/// The links of a plan.
#[derive(Default)]
pub(super) struct Plan<'o> {
    links: Vec<PlannedLink<'o>>,
    /// Rows that are not understood.
    pub(super) unread: u64,
}

/// What a plan says of the cabling.
pub(super) struct Deviation<'o> {
    pub(super) kind: DeviationKind,
    /// The line of the plan; none where a link is not planned.
    pub(super) line: Option<OutputLine<'o>>,
    /// The devices whose ports are planned otherwise.
    pub(super) devices: Vec<usize>,
}

/// How the cabling differs.
pub(super) enum DeviationKind {
    /// A link has another peer at one end than planned.
    Miswired { link: usize, planned: String },
    /// Neither end of a planned link has a link.
    Missing { name: String },
    /// A link of planned devices stands in no plan.
    Extra { link: usize },
}

/// How a plan and the cabling agree.
pub(super) struct Comparison<'o> {
    pub(super) deviations: Vec<Deviation<'o>>,
    pub(super) as_planned: Vec<usize>,
    pub(super) planned: u64,
    /// Ends that are ports of this fabric.
    pub(super) found: u64,
}

impl<'o> Plan<'o> {
    /// Reads the rows below the line that names the columns.
    pub(super) fn read_output(&mut self, output: &'o Output) {
        let mut columns = None;
        for line in output.lines() {
            let cells: Vec<&str> = line.text.split(',').map(str::trim).collect();
            if let Some(places) = column_places(&cells) {
                columns = Some(places);
                continue;
            }
            let Some(places) = columns.filter(|_| cells.len() > 1) else {
                continue;
            };
            match read_row(&cells, places) {
                Some(ends) => self.links.push(PlannedLink { line, ends }),
                None => self.unread += 1,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) fn compare(&self, fabric: &Fabric<'_>) -> Comparison<'o> {
        let places = Places::of(fabric);
        let mut compared = Comparison {
            deviations: Vec::new(),
            as_planned: Vec::new(),
            planned: self.links.len() as u64,
            found: 0,
        };
        let mut planned_ports: BTreeSet<PortAt> = BTreeSet::new();
        let mut kinds: BTreeSet<[bool; 2]> = BTreeSet::new();
        for planned in &self.links {
            let ports = [0, 1].map(|at| places.port(&planned.ends[at]));
            compared.found += ports.iter().flatten().count() as u64;
            planned_ports.extend(ports.iter().flatten());
            if let [Some(one), Some(other)] = ports {
                kinds.insert(kind_of(fabric, [one, other]));
            }
            compared.add(fabric, planned, ports);
        }
        let devices: BTreeSet<usize> = planned_ports.iter().map(|port| port.device).collect();
        for (at, link) in fabric.links.iter().enumerate() {
            if is_extra(fabric, link, &planned_ports, &devices, &kinds) {
                compared.deviations.push(Deviation {
                    kind: DeviationKind::Extra { link: at },
                    line: None,
                    devices: Vec::new(),
                });
            }
        }
        compared
    }
}

impl<'o> Comparison<'o> {
    fn add(&mut self, fabric: &Fabric<'_>, planned: &PlannedLink<'o>, ports: [Option<PortAt>; 2]) {
        let linked = |port: Option<PortAt>| {
            let at = fabric.link_at(port?)?;
            fabric.links.get(at)?.far.map(|_| at)
        };
        let [one, other] = ports.map(linked);
        let [near, far] = [&planned.ends[0].text, &planned.ends[1].text];
        let name = format!("{near} - {far}");
        let mut add = |kind| {
            self.deviations.push(Deviation {
                kind,
                line: Some(planned.line),
                devices: ports.iter().flatten().map(|port| port.device).collect(),
            });
        };
        match (one, other) {
            (Some(link), Some(same)) if link == same => self.as_planned.push(link),
            (None, None) => add(DeviationKind::Missing { name }),
            _ => {
                for link in [one, other].into_iter().flatten() {
                    let planned = name.clone();
                    add(DeviationKind::Miswired { link, planned });
                }
            }
        }
    }
}

/// Whether a link is between planned devices, of a kind that the plan has, and in no row.
fn is_extra(
    fabric: &Fabric<'_>,
    link: &Link<'_>,
    planned: &BTreeSet<PortAt>,
    devices: &BTreeSet<usize>,
    kinds: &BTreeSet<[bool; 2]>,
) -> bool {
    let Some(far) = link.far else {
        return false;
    };
    let ends = [link.near, far];
    ends.iter()
        .all(|end| !planned.contains(end) && devices.contains(&end.device))
        && kinds.contains(&kind_of(fabric, ends))
}

/// Which of the ends are switches, those that are not first.
fn kind_of(fabric: &Fabric<'_>, ends: [PortAt; 2]) -> [bool; 2] {
    let mut are = ends.map(|end| fabric.device(end.device).is_some_and(|one| one.is_switch()));
    are.sort_unstable();
    are
}

/// Where the columns stand, in a line that names them.
fn column_places(cells: &[&str]) -> Option<[usize; 4]> {
    let place = |name: &str| {
        let is_it =
            |cell: &&str| cell.trim_start_matches("#Fields:").trim_start_matches('#') == name;
        cells.iter().position(is_it)
    };
    let [Some(a), Some(b), Some(c), Some(d)] = COLUMNS.map(place) else {
        return None;
    };
    Some([a, b, c, d])
}

fn read_row(cells: &[&str], places: [usize; 4]) -> Option<[PlannedEnd; 2]> {
    let cell = |place: usize| cells.get(place).filter(|cell| !cell.is_empty()).copied();
    let [near, near_port, far, far_port] = places.map(cell);
    Some([
        PlannedEnd::read(near?, near_port?),
        PlannedEnd::read(far?, far_port?),
    ])
}

impl PlannedEnd {
    /// A port of a switch is `Port 21` or, of a director, `Blade 16_Port 2/20`; one of a host is
    /// named by the adapter's description, or by what stands behind the host's name in it.
    fn read(device: &str, place: &str) -> PlannedEnd {
        let number = place.strip_prefix("Port ").unwrap_or(place);
        let (name, port) = if let Ok(port) = number.parse() {
            (device.to_owned(), port)
        } else if let Some((blade, port)) = director_place(place) {
            (format!("{device}:{blade}"), port)
        } else if place.starts_with(device) {
            (place.to_owned(), 1)
        } else {
            (format!("{device} {place}"), 1)
        };
        let text = format!("{name} port {port}");
        let device = name.to_uppercase();
        PlannedEnd { text, device, port }
    }
}

/// `Blade 16_Port 2/20`: leaf 16, unit 2, port 20.
fn director_place(place: &str) -> Option<(String, u64)> {
    let (blade, rest) = place.strip_prefix("Blade ")?.split_once("_Port ")?;
    let (unit, port) = rest.split_once('/')?;
    Some((format!("L{blade}/U{unit}"), port.parse().ok()?))
}

/// The ports of a fabric by the names that a plan may have for them.
struct Places {
    ports: HashMap<(String, u64), PortAt>,
    switches: HashMap<String, usize>,
}

impl Places {
    fn of(fabric: &Fabric<'_>) -> Self {
        let (mut ports, mut switches) = (HashMap::new(), HashMap::new());
        for end in fabric.links.iter().flat_map(Link::ends) {
            let Some(device) = fabric.device(end.device) else {
                continue;
            };
            let names = device.description.as_deref().map(plan_names);
            for name in names.unwrap_or_default() {
                if device.is_switch() {
                    switches.insert(name, end.device);
                } else {
                    ports.insert((name, end.port), end);
                }
            }
        }
        Places { ports, switches }
    }

    fn port(&self, end: &PlannedEnd) -> Option<PortAt> {
        if let Some(device) = self.switches.get(&end.device) {
            let (device, port) = (*device, end.port);
            return Some(PortAt { device, port });
        }
        self.ports.get(&(end.device.clone(), end.port)).copied()
    }
}

/// What a description may be called in a plan: whole, and `leaf1` of `MF0;leaf1:MQM8700/U1`, or
/// `director1:L16/U2` of `MF0;director1:CS7500/L16/U2`.
fn plan_names(description: &str) -> Vec<String> {
    let whole = description.to_uppercase();
    let system = whole.split_once(';').map(|(_, rest)| rest);
    let mut names = Vec::new();
    if let Some((name, part)) = system.and_then(|rest| rest.split_once(':')) {
        names.push(match part.split_once("/L") {
            Some((_, place)) => format!("{name}:L{place}"),
            None => name.to_owned(),
        });
    }
    names.push(whole);
    names
}
