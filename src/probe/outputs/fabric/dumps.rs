//! Whole fabrics as files hold them: what opensm(8) dumps, and the tables of ibdiagnet2.
//!
//! ```text
//! opensm-subnet.lst   { CA-SM Ports:01 … PortGUID:… {n1 mlx5_0} LID:0001 PN:01 } { SW … } PHY=4x LOG=ACT SPD=50
//! ibdiagnet2.db_csv   START_LINKS / NodeGuid1,PortNum1,NodeGuid2,PortNum2 / rows / END_LINKS
//! ```

use std::collections::HashMap;

use super::errors::ErrorList;
use super::model::Reading;
use super::said::{End, Kind, LinkLine, Pace, hex};
use crate::fact::port::{PhysState, PortState};
use crate::probe::outputs::{Output, OutputLine};

/// The logical states of a port by their codes (PortInfo.PortState).
const STATES: [PortState; 4] = [
    PortState::Down,
    PortState::Init,
    PortState::Armed,
    PortState::Active,
];

/// How opensm writes them.
const STATE_WORDS: [&str; 4] = ["DWN", "INI", "ARM", "ACT"];

/// The physical states by their codes (PortInfo.PortPhysicalState).
const PHYS_STATES: [PhysState; 7] = [
    PhysState::Sleep,
    PhysState::Polling,
    PhysState::Disabled,
    PhysState::Training,
    PhysState::LinkUp,
    PhysState::Recovery,
    PhysState::PhyTest,
];

/// The speeds as opensm writes them, by their places; that of FDR10 is none of its own.
const SPEEDS: [&str; 9] = ["2.5", "5", "10", "", "14", "25", "50", "100", "200"];

/// The bits of LinkSpeedActive and LinkSpeedSupported in db_csv, by the places of the speeds: the
/// extended ones are 8 bits up, FDR10 is 16 up.
const SPEED_BITS: [u64; 9] = [1, 2, 4, 1 << 16, 1 << 8, 2 << 8, 4 << 8, 8 << 8, 16 << 8];

/// The bits of LinkWidthActive and LinkWidthSupported, with the lanes.
const WIDTH_BITS: [(u64, u64); 5] = [(1, 1), (16, 2), (2, 4), (4, 8), (8, 12)];

/// Reads a line of opensm-subnet.lst.
pub(super) fn subnet_line(text: &str) -> Option<LinkLine> {
    let (near, rest) = text.split_once(" } { ")?;
    let (far, link) = rest.rsplit_once(" } ")?;
    let value = |name: &str| {
        link.split_whitespace()
            .find_map(|word| word.strip_prefix(name))
    };
    let state = value("LOG=").and_then(|state| STATE_WORDS.iter().position(|one| *one == state));
    Some(LinkLine {
        near: subnet_end(near.strip_prefix("{ ")?)?,
        far: Some(subnet_end(far)?),
        state: state.and_then(|at| STATES.get(at).copied()),
        // It lists links that are up only.
        phys_state: Some(PhysState::LinkUp),
        pace: subnet_pace(value("PHY="), value("SPD=")),
        is_of_list: true,
        ..LinkLine::default()
    })
}

/// `4x` and `50`
fn subnet_pace(width: Option<&str>, speed: Option<&str>) -> Option<Pace> {
    let speed = speed?;
    Some(Pace {
        width: width?.strip_suffix('x')?.parse().ok()?,
        speed: SPEEDS.iter().position(|one| *one == speed)?,
    })
}

/// `SW Ports:08 … PortGUID:0000000000200000 … {leaf0} LID:0002 PN:01`
fn subnet_end(text: &str) -> Option<End> {
    let (before, rest) = text.split_once('{')?;
    let (name, behind) = rest.rsplit_once('}')?;
    let value = |name: &str| {
        let mut words = before.split_whitespace().chain(behind.split_whitespace());
        words.find_map(|word| word.strip_prefix(name)).and_then(hex)
    };
    Some(End {
        node: Some(name.trim().to_owned()),
        lid: value("LID:"),
        guid: value("PortGUID:"),
        port: value("PN:")?,
        kind: match before.split([' ', '-']).next()? {
            "SW" => Some(Kind::Switch),
            "CA" => Some(Kind::Adapter),
            _ => Some(Kind::Router),
        },
        device_id: value("DevID:"),
    })
}

/// What a table says of a port.
#[derive(Clone, Debug, Default)]
struct PortRow {
    guid: Option<u64>,
    lid: Option<u64>,
    state: Option<PortState>,
    phys_state: Option<PhysState>,
    pace: Option<Pace>,
    possible: Option<Pace>,
}

/// A port of a table: the node's GUID and the port's number.
type Place = (u64, u64);

/// The tables of ibdiagnet2.db_csv, of which the columns have names.
#[derive(Default)]
pub(super) struct Tables<'o> {
    /// Description, kind and PCI device id of each node.
    nodes: HashMap<u64, End>,
    ports: HashMap<Place, PortRow>,
    links: Vec<(OutputLine<'o>, [Place; 2])>,
    counters: Vec<PortCounters<'o>>,
    /// Subnet managers that are master.
    pub(super) masters: Vec<u64>,
    /// Whether the last table has no end.
    pub(super) is_cut: bool,
}

/// The counters of a port, by their names.
struct PortCounters<'o> {
    line: OutputLine<'o>,
    place: Place,
    counts: Vec<(String, u64)>,
}

/// A row with the names of its columns.
struct Row<'t> {
    columns: &'t [String],
    cells: Vec<String>,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let is_it = |name: &String| name.eq_ignore_ascii_case(column);
        let at = self.columns.iter().position(is_it)?;
        self.cells.get(at).map(String::as_str)
    }

    /// A number, decimal or with 0x.
    fn number(&self, column: &str) -> Option<u64> {
        number(self.text(column)?)
    }

    fn place(&self, guid: &str, port: &str) -> Option<Place> {
        Some((self.number(guid)?, self.number(port)?))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl<'o> Tables<'o> {
    pub(super) fn read_output(&mut self, output: &'o Output) {
        let (mut table, mut columns) = (None, Vec::new());
        for line in output.lines() {
            let text = line.text.trim();
            if let Some(name) = text.strip_prefix("START_") {
                table = Some(name);
                columns.clear();
            } else if text.starts_with("END_") {
                table = None;
            } else if let Some(name) = table {
                let cells = split_cells(text);
                if columns.is_empty() {
                    columns = cells.iter().map(|name| camel(name)).collect();
                } else {
                    let columns = &columns;
                    self.read_row(name, &Row { columns, cells }, line);
                }
            }
        }
        self.is_cut |= table.is_some();
    }

    /// Reads a row; what a table has no column for stays unknown.
    fn read_row(&mut self, table: &str, row: &Row<'_>, line: OutputLine<'o>) -> Option<()> {
        match table {
            "NODES" => {
                let kind = match row.number("NodeType")? {
                    1 => Kind::Adapter,
                    2 => Kind::Switch,
                    _ => Kind::Router,
                };
                let node = End {
                    node: row.text("NodeDesc").map(|name| name.trim().to_owned()),
                    kind: Some(kind),
                    device_id: row.number("DeviceID"),
                    ..End::default()
                };
                self.nodes.insert(row.number("NodeGUID")?, node);
            }
            "PORTS" => {
                let place = row.place("NodeGuid", "PortNum")?;
                self.ports.insert(place, port_row(row));
            }
            "LINKS" => {
                let near = row.place("NodeGuid1", "PortNum1")?;
                let far = row.place("NodeGuid2", "PortNum2")?;
                self.links.push((line, [near, far]));
            }
            "PM_INFO" => {
                let place = row.place("NodeGUID", "PortNumber")?;
                let cells = row.columns.iter().zip(&row.cells);
                let counts = cells.filter_map(|(name, cell)| Some((name.clone(), number(cell)?)));
                self.counters.push(PortCounters {
                    line,
                    place,
                    counts: counts.collect(),
                });
            }
            "SM_INFO" if row.number("State") == Some(3) => {
                self.masters.push(row.number("NodeGUID")?);
            }
            _ => {}
        }
        Some(())
    }

    /// The end that a place of a table is.
    fn end(&self, place: Place) -> End {
        let (guid, port) = place;
        let node = self.nodes.get(&guid).cloned().unwrap_or_default();
        let row = self.ports.get(&place);
        let is_switch = node.kind == Some(Kind::Switch);
        // A switch has one GUID and one LID, those of its port 0.
        let lid_place = if is_switch { (guid, 0) } else { place };
        End {
            guid: row
                .and_then(|row| row.guid)
                .filter(|_| !is_switch)
                .or(Some(guid)),
            lid: self.ports.get(&lid_place).and_then(|row| row.lid),
            port,
            ..node
        }
    }

    /// The links with what both ends say, and the counters of each port.
    pub(super) fn add_to(&self, lines: &mut Vec<Reading<'o>>, errors: &mut ErrorList<'o>) {
        for (line, [near, far]) in &self.links {
            let rows = [near, far].map(|place| self.ports.get(place).cloned().unwrap_or_default());
            let [own, other] = rows;
            let possible = match (own.possible, other.possible) {
                (Some(one), Some(other)) => Some(Pace {
                    width: one.width.min(other.width),
                    speed: one.speed.min(other.speed),
                }),
                _ => None,
            };
            let said = LinkLine {
                near: self.end(*near),
                far: Some(self.end(*far)),
                state: own.state,
                phys_state: own.phys_state,
                pace: own.pace,
                tells_possible: possible.is_some(),
                possible_width: possible.map(|pace| pace.width),
                possible_speed: possible.map(|pace| pace.speed),
                ..LinkLine::default()
            };
            lines.push((*line, said));
        }
        for port in &self.counters {
            errors.add_port(self.end(port.place), port.line, &port.counts);
        }
    }
}

fn port_row(row: &Row<'_>) -> PortRow {
    let code = |column: &str| {
        row.number(column)
            .and_then(|code| usize::try_from(code).ok())
    };
    let pace = |width: &str, speed: &str| {
        Some(Pace {
            width: widest(row.number(width)?)?,
            speed: fastest(row.number(speed)?)?,
        })
    };
    PortRow {
        guid: row.number("PortGuid"),
        lid: row.number("LID"),
        state: code("PortState").and_then(|code| STATES.get(code.wrapping_sub(1)).copied()),
        phys_state: code("PortPhyState")
            .and_then(|code| PHYS_STATES.get(code.wrapping_sub(1)).copied()),
        pace: pace("LinkWidthActv", "LinkSpeedActv"),
        possible: pace("LinkWidthSup", "LinkSpeedSup"),
    }
}

/// The name of a column as most versions write it: `symbol_error_counter` is SymbolErrorCounter.
fn camel(name: &str) -> String {
    if !name.contains('_') || name.contains(|c: char| c.is_ascii_uppercase()) {
        return name.to_owned();
    }
    let mut camel = String::with_capacity(name.len());
    for part in name.split('_') {
        let mut letters = part.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// The most lanes of these, of the four that a cable has.
fn widest(bits: u64) -> Option<u64> {
    let lanes = WIDTH_BITS.iter().filter(|(bit, _)| bits & bit != 0);
    lanes.map(|(_, lanes)| *lanes).max()
}

/// The fastest speed of these, by its place.
fn fastest(bits: u64) -> Option<usize> {
    SPEED_BITS.iter().rposition(|bit| bits & bit != 0)
}

/// The cells of a row; a comma in quotes is a part of one.
fn split_cells(text: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for one in text.chars() {
        match (one, cells.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => cells.push(String::new()),
            (other, Some(cell)) => cell.push(other),
            (_, None) => {}
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_codes_and_lines() {
        assert_eq!(
            split_cells("\"leaf, 1\",0x2,,N/A"),
            ["leaf, 1", "0x2", "", "N/A"]
        );
        assert_eq!(
            [widest(2), widest(31), widest(16), widest(0)],
            [Some(4), Some(12), Some(2), None]
        );
        // NDR, and all up to HDR.
        assert_eq!(
            [fastest(2048), fastest(0x707), fastest(1 << 16)],
            [Some(7), Some(6), Some(3)]
        );
        let text = "{ CA-SM Ports:01 SystemGUID:a0 NodeGUID:a0 PortGUID:00000000000000a1 VenID:02C9 DevID:1021 Rev:A1 {n0 } { mlx5_0} LID:000A PN:01 } \
            { SW Ports:08 SystemGUID:b0 NodeGUID:b0 PortGUID:00000000000000b0 VenID:0 DevID:D2F0 Rev:A1 {leaf0} LID:0002 PN:0C } PHY=2x LOG=INI SPD=50";
        // A name with the mark between the ends in it is not understood; never another link's.
        assert!(subnet_line(text).is_none());
        let line = subnet_line(&text.replace("n0 } { mlx5_0", "n0 mlx5_0")).unwrap();
        assert_eq!(
            (line.near.lid, line.near.guid, line.near.port),
            (Some(10), Some(0xa1), 1)
        );
        let far = line.far.unwrap();
        assert_eq!(
            (far.node.as_deref(), far.port, far.kind),
            (Some("leaf0"), 12, Some(Kind::Switch))
        );
        assert_eq!(line.pace.unwrap().to_string(), "2X HDR");
        assert_eq!(line.state, Some(PortState::Init));
    }
}
