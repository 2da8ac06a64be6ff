//! The switch port at the other end of each cable by LLDP, as lldpctl(8) and networkctl(1) print it.

use serde_json::Value;

use super::Output;
use crate::fact::{Bytes, Facts, Id, Subject, netdev};

/// What is said of the neighbour of an interface.
#[derive(Default)]
struct Neighbour {
    interface: String,
    chassis: Option<String>,
    switch: Option<String>,
    port: Option<String>,
    /// The port's description, where its id is a MAC address.
    port_description: Option<String>,
    is_mac: bool,
    frame: Option<u64>,
}

/// States what one output says.
pub(super) fn state_neighbours(output: &Output, facts: &mut Facts, node: Id) {
    let text = output.text();
    let begin = text.trim_start();
    let neighbours = if output.tool() == "networkctl" {
        output.lines().filter_map(|l| row(l.text)).collect()
    } else if begin.starts_with(['{', '"']) {
        of_json(begin)
    } else {
        of_text(output)
    };
    for one in neighbours {
        let id = facts.instance(Subject::Netdev, node, &one.interface);
        let described = one.port_description.filter(|_| one.is_mac);
        if let Some(switch) = one.switch.or(one.chassis) {
            facts.set(id, netdev::SWITCH, output.known(switch.into()));
        }
        if let Some(port) = described.or(one.port) {
            facts.set(id, netdev::SWITCH_PORT, output.known(port.into()));
        }
        if let Some(frame) = one.frame {
            facts.set(id, netdev::SWITCH_MTU, output.known(Bytes(frame)));
        }
    }
}

/// The neighbours in the JSON of lldpd, which has lists for what there is several of, and in its
/// other form lists for all.
fn of_json(text: &str) -> Vec<Neighbour> {
    // A pasted part may begin behind the first brace.
    let whole = if text.starts_with('{') {
        text.to_owned()
    } else {
        format!("{{{text}")
    };
    let mut values = serde_json::Deserializer::from_str(&whole).into_iter::<Value>();
    let Some(Ok(root)) = values.next() else {
        return Vec::new();
    };
    let interfaces = member(&root, "lldp").and_then(|lldp| member(lldp, "interface"));
    let listed = match interfaces {
        Some(Value::Array(all)) => all.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let mut found = Vec::new();
    for one in listed {
        match one.get("name").and_then(Value::as_str) {
            Some(name) => found.push(neighbour(name, one)),
            None => found.extend(
                one.as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, value)| neighbour(name, value)),
            ),
        }
    }
    found
}

fn neighbour(name: &str, value: &Value) -> Neighbour {
    let (mut switch, mut chassis) = (None, member(value, "chassis"));
    let is_bare = chassis.is_none_or(|inner| member(inner, "id").is_some());
    if is_bare {
        switch = chassis
            .and_then(|inner| member(inner, "name"))
            .and_then(word);
    } else if let Some((key, inner)) = chassis.and_then(|c| c.as_object()?.iter().next()) {
        (switch, chassis) = (Some(key.clone()), Some(inner));
    }
    let port = member(value, "port");
    let of_port = |key: &str| port.and_then(|port| member(port, key));
    let id = of_port("id");
    Neighbour {
        interface: name.to_owned(),
        chassis: chassis.and_then(|inner| member(inner, "id")).and_then(word),
        switch,
        port: id.and_then(word),
        port_description: of_port("descr").and_then(word),
        is_mac: id
            .and_then(|id| member(id, "type"))
            .and_then(word)
            .as_deref()
            == Some("mac"),
        frame: of_port("mfs")
            .and_then(word)
            .and_then(|frame| frame.parse().ok()),
    }
}

/// A member of an object, or of the first object of a list.
fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Array(all) => member(all.first()?, key),
        value => value.get(key),
    }
}

/// A text, or the first in a list, or what an object has as its value.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(all) => word(all.first()?),
        value => word(value.get("value")?),
    }
}

/// The neighbours below `Interface:    eth0, via: LLDP, RID: 4`.
fn of_text(output: &Output) -> Vec<Neighbour> {
    let mut all: Vec<Neighbour> = Vec::new();
    for line in output.lines() {
        let Some((key, value)) = line.text.trim().split_once(':') else {
            continue;
        };
        let said = value.trim();
        if key == "Interface" {
            let interface = said.split(',').next().unwrap_or(said).to_owned();
            all.push(Neighbour {
                interface,
                ..Neighbour::default()
            });
        }
        let Some(one) = all.last_mut() else {
            continue;
        };
        let (kind, rest) = said.split_once(' ').unwrap_or(("", said));
        match key {
            "ChassisID" => one.chassis = Some(rest.to_owned()),
            "SysName" => one.switch = Some(said.to_owned()),
            "PortID" => (one.is_mac, one.port) = (kind == "mac", Some(rest.to_owned())),
            "PortDescr" => one.port_description = Some(said.to_owned()),
            "MFS" => one.frame = said.parse().ok(),
            _ => {}
        }
    }
    all
}

/// `eth0  c2:18:50:40:d6:2c  leaf-1  ....r......  eth1/27/1  n/a`
fn row(text: &str) -> Option<Neighbour> {
    let mut words = text.split_whitespace();
    let (interface, chassis, switch) = (words.next()?, words.next()?, words.next()?);
    let (flags, port) = (words.next()?, words.next()?);
    let is_flag = |c: char| c == '.' || c.is_ascii_lowercase();
    if flags.len() != 11 || !flags.chars().all(is_flag) {
        return None;
    }
    let said = |word: &str| Some(word.to_owned()).filter(|word| word != "n/a");
    Some(Neighbour {
        interface: interface.to_owned(),
        chassis: said(chassis),
        switch: said(switch),
        port: said(port),
        ..Neighbour::default()
    })
}
