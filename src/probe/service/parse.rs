//! How systemctl(1) shows units.

use std::fmt;
use std::sync::Arc;

/// A unit of systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its name, as ibacm.socket.
    pub(super) id: Arc<str>,
    /// Whether there is such a unit: `not-found` and `masked` are other words for no.
    load: Arc<str>,
    /// Whether it is active, or on its way to it or from it.
    pub(super) active: bool,
    /// Whether it ended with an error.
    pub(super) failed: bool,
    /// `active (running)`, in systemd's words.
    state: (Arc<str>, Arc<str>),
    /// Whether it is started at boot.
    pub(super) enabled: bool,
}

impl Unit {
    /// A unit of which only this is known.
    pub(super) fn active(id: &str) -> Self {
        Unit {
            id: id.into(),
            load: "loaded".into(),
            active: true,
            failed: false,
            state: ("active".into(), "".into()),
            enabled: false,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, sub) = &self.state;
        match (&*self.load, &**sub) {
            ("not-found", _) => write!(f, "{}: not installed", self.id),
            ("masked", _) => write!(f, "{}: masked", self.id),
            (_, "") => write!(f, "{}: {state}", self.id),
            (_, sub) => write!(f, "{}: {state} ({sub})", self.id),
        }
    }
}

/// `systemctl show --property=… UNIT…`: a block of lines `NAME=VALUE` for each unit, in the order asked for, with an empty line
/// between two.
pub(super) fn units(text: &str, wanted: usize) -> Result<Vec<Unit>, String> {
    let blocks = text.split("\n\n").filter(|b| !b.trim().is_empty());
    let units: Vec<Unit> = blocks.map(unit).collect::<Result<_, _>>()?;
    match units.len() == wanted {
        true => Ok(units),
        false => Err(format!("{} units in place of {wanted}", units.len())),
    }
}

fn unit(block: &str) -> Result<Unit, String> {
    let value = |name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(str::trim)
    };
    let need = |name: &str| {
        value(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("a unit without {name}"))
    };
    let state = need("ActiveState")?;
    let active = match state {
        "active" | "reloading" | "refreshing" | "activating" | "deactivating" | "maintenance" => {
            true
        }
        "inactive" | "failed" => false,
        other => return Err(format!("the state {other:?} is unknown here")),
    };
    Ok(Unit {
        id: need("Id")?.into(),
        load: need("LoadState")?.into(),
        active,
        failed: state == "failed",
        state: (state.into(), value("SubState").unwrap_or("").into()),
        enabled: matches!(
            value("UnitFileState"),
            Some("enabled" | "enabled-runtime" | "alias")
        ),
    })
}
