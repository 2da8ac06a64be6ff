//! What one line of a tool says of a link of the fabric.

use std::fmt;

use crate::fact::port::{PhysState, PortState};

/// The names of the speeds of a lane, the slowest first.
const SPEEDS: [&str; 9] = [
    "SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR",
];

/// The lanes of a cable: ports that could be bundled to 8X and 12X say so at each.
const CABLE_LANES: u64 = 4;

/// What a device of the fabric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Adapter,
    Router,
}

/// A port, as a line names it.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    /// The description of its node.
    pub(super) node: Option<String>,
    /// 0 and 65535 where no subnet manager gave one.
    pub(super) lid: Option<u64>,
    /// Of a switch, or of an adapter's port.
    pub(super) guid: Option<u64>,
    pub(super) port: u64,
    pub(super) kind: Option<Kind>,
    /// The PCI device id of its node.
    pub(super) device_id: Option<u64>,
}

impl End {
    /// Takes what the other names and this one does not.
    pub(super) fn fill_from(&mut self, other: &End) {
        if self.node.is_none() {
            self.node.clone_from(&other.node);
        }
        self.guid = self.guid.or(other.guid);
        self.lid = self.lid.or(other.lid);
        self.kind = self.kind.or(other.kind);
        self.device_id = self.device_id.or(other.device_id);
    }
}

/// Lanes, and the place of their speed among [`SPEEDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pace {
    pub(super) width: u64,
    pub(super) speed: usize,
}

impl Pace {
    /// Reads `4xHDR`, `4x HDR`.
    pub(super) fn read(text: &str) -> Option<Pace> {
        let (width, speed) = text.split_once(['x', 'X'])?;
        Some(Pace {
            width: width.trim().parse().ok()?,
            speed: SPEEDS.iter().position(|name| *name == speed.trim())?,
        })
    }

    pub(super) fn reaches(self, possible: Pace) -> bool {
        self.width >= possible.width && self.speed >= possible.speed
    }

    /// Whether a port shows this as long as it has no link.
    pub(super) fn is_initial(self) -> bool {
        self.speed == 0
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SPEEDS.get(self.speed).unwrap_or(&"");
        write!(f, "{}X {name}", self.width)
    }
}

/// What a line says of a link, or of a port that has none.
#[derive(Debug, Default)]
pub(super) struct LinkLine {
    pub(super) near: End,
    pub(super) far: Option<End>,
    pub(super) state: Option<PortState>,
    pub(super) phys_state: Option<PhysState>,
    pub(super) pace: Option<Pace>,
    /// Whether the line says what both ends support if the link runs below that.
    pub(super) tells_possible: bool,
    pub(super) possible_width: Option<u64>,
    pub(super) possible_speed: Option<usize>,
    /// Whether the tool lists all links of each device.
    pub(super) is_of_list: bool,
    /// Whether all links of the near end stand in one block.
    pub(super) is_of_block: bool,
}

impl LinkLine {
    /// The ends that it names.
    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        std::iter::once(&self.near).chain(&self.far)
    }

    /// How it runs.
    pub(super) fn running(&self) -> Option<Pace> {
        let pace = self.pace.filter(|_| self.state != Some(PortState::Down))?;
        self.far.as_ref().map(|_| pace)
    }

    /// How it runs, and how it could.
    pub(super) fn paces(&self) -> Option<(Pace, Pace)> {
        let pace = self.pace.filter(|_| self.state != Some(PortState::Down))?;
        let width = self.possible_width.unwrap_or(pace.width);
        let possible = Pace {
            width: width.min(CABLE_LANES).max(pace.width),
            speed: self.possible_speed.unwrap_or(pace.speed),
        };
        self.tells_possible.then_some((pace, possible))
    }

    /// Takes what another line of the same link says and this one does not.
    pub(super) fn fill_from(&mut self, other: LinkLine) {
        self.state = self.state.or(other.state);
        self.phys_state = self.phys_state.or(other.phys_state);
        if other.tells_possible && !self.tells_possible {
            self.tells_possible = true;
            self.pace = other.pace.or(self.pace);
            self.possible_width = other.possible_width;
            self.possible_speed = other.possible_speed;
        }
        self.pace = self.pace.or(other.pace);
        self.far = self.far.take().or(other.far);
    }

    /// Whether the port has trained, and nothing behind it is named.
    pub(super) fn is_unanswered(&self) -> bool {
        let trained = match self.phys_state {
            Some(state) => state == PhysState::LinkUp,
            None => self.pace.is_some_and(|pace| !pace.is_initial()),
        };
        self.far.is_none() && trained && self.state != Some(PortState::Down)
    }
}

pub(super) fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}
