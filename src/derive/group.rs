//! Equals: devices of one driver, model and board, and their ports. What one of them can, the
//! others can.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, device, port};

/// What makes two devices equal. Empty texts stand for what software devices do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKind {
    /// Kernel driver.
    pub driver: String,
    /// The vendor's model.
    pub model: String,
    /// The board.
    pub board: String,
}

/// The kind of a device; the gap that keeps it from being known.
pub fn kind(facts: &Facts, device: Id) -> Result<DeviceKind, Gap> {
    let text = |key: Key<Arc<str>>| facts.value(device, key).map(|text| text.to_string());
    if let Some(true) = facts.known(device, device::SOFTWARE) {
        return Ok(DeviceKind {
            driver: text(device::DRIVER)?,
            ..DeviceKind::default()
        });
    }
    // A gathered tree may lack the driver's link: the board alone tells as much.
    Ok(DeviceKind {
        driver: String::new(),
        model: text(device::MODEL)?,
        board: text(device::BOARD)?,
    })
}

/// The kind of a port's device together with the port's link layer: ports that are equal in all
/// that they can.
pub fn port_kind(facts: &Facts, port: Id) -> Result<(DeviceKind, &'static str), Gap> {
    let device = facts
        .ancestor(port, Subject::Device)
        .ok_or_else(|| Gap::missing("device"))?;
    let layer = facts.value(port, port::LINK_LAYER)?;
    Ok((kind(facts, device)?, layer.word()))
}

/// What `look` says of those of these ports that are equal to a port, itself included. What may be
/// equal and does not say is a gap.
pub fn of_equals<T>(
    facts: &Facts,
    ports: impl Iterator<Item = Id>,
    port: Id,
    look: impl Fn(Id) -> Fact<T>,
) -> Result<Vec<Fact<T>>, Gap> {
    let own = port_kind(facts, port)?;
    let of = |other: Id| match port_kind(facts, other) {
        Ok(kind) if kind != own => None,
        Ok(_) => Some(look(other)),
        Err(gap) => Some(Fact::Unknown(gap)),
    };
    Ok(ports.filter_map(of).collect())
}
