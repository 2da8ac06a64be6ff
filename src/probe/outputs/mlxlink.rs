//! The link of a port, as mlxlink(1) prints it: state, speed, bit errors, module, recommendation.

use super::counters::{UNNAMED, option};
use super::ports::port_of;
use super::{Output, OutputLine, named, self_tests};
use crate::fact::port::{self, PhysState};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{BitRate, Facts, Id, Key, Seconds, Subject, device};

/// The rate of four lanes of InfiniBand in Gb/s, the fastest first.
const SPEEDS: [(&str, u64); 9] = [
    ("XDR", 800),
    ("NDR", 400),
    ("HDR", 200),
    ("EDR", 100),
    ("FDR", 56),
    ("FDR10", 40),
    ("QDR", 40),
    ("DDR", 20),
    ("SDR", 10),
];

/// Lanes of a port of InfiniBand whose cable is not split.
const LANES: u64 = 4;

/// What mlxlink says if there is nothing to do: no issue, or a port that somebody closed.
const NOTHING_TO_DO: [&str; 3] = [
    "No issue was observed",
    "No issue observed",
    "The port is closed by command",
];

/// States what one output says of a port.
pub(super) fn state_port(output: &Output, facts: &mut Facts, node: Id) {
    let number = option(output, "-p", "--port").and_then(|number| number.parse().ok());
    let asked = option(output, "-d", "--device").unwrap_or(UNNAMED);
    let name = device_name(facts, node, asked);
    let id = port_of(facts, node, &name, number.unwrap_or(1));
    let (mut speed, mut cable) = (None, Vec::new());
    for line in output.lines() {
        let Some((key, value)) = name_and_value(line.text) else {
            continue;
        };
        if value.is_empty() || value == "N/A" {
            continue;
        }
        match key {
            "State" => phys_state(facts, id, value, &line),
            "Physical state" => {
                if let Some(state) = named::typed(value) {
                    facts.set(id, port::PHYS_STATE, line.known(state));
                }
            }
            "Speed" => speed = Some(value),
            "Width" => {
                let width = value.trim_end_matches(['x', 'X']).parse().ok();
                if speed.is_some_and(|speed| speed.starts_with("IB-"))
                    && width.is_some_and(|width: u64| width < LANES)
                {
                    let said = format!("{value} of {}", speed.unwrap_or_default());
                    let kind = ToolResultKind::PortBelow;
                    self_tests::add(facts, node, kind, &name, (&line, &said));
                }
                if let Some(rate) = width
                    .zip(speed)
                    .and_then(|(width, speed)| rate(speed, width))
                {
                    facts.set(id, port::RATE, line.known(rate));
                }
            }
            key if key.starts_with("Supported Cable Speed") => {
                if let Some(rate) = fastest(value) {
                    facts.set(id, port::CABLE_RATE, line.known(rate));
                }
            }
            "Recommendation" => {
                let is_none = NOTHING_TO_DO.iter().any(|words| value.starts_with(words));
                let advice = if is_none { "none" } else { value };
                facts.set(id, port::ADVICE, line.known(advice.into()));
            }
            "Time Since Last Clear [Min]" => {
                let minutes: Option<f64> = value.parse().ok();
                let window = minutes.map(|minutes| Seconds(minutes * 60.0));
                facts.set(id, port::BER_WINDOW, line.read(window));
            }
            "Effective Physical BER" => {
                facts.set(id, port::EFFECTIVE_BER, line.known(value.into()));
                exponent(facts, id, port::EFFECTIVE_BER_EXPONENT, value, &line);
            }
            "Symbol BER" => {
                facts.set(id, port::SYMBOL_BER, line.known(value.into()));
                exponent(facts, id, port::SYMBOL_BER_EXPONENT, value, &line);
            }
            "BER Monitor State" => facts.set(id, port::BER_MONITOR, line.known(value.into())),
            "Temperature [C]" => temperature(facts, id, value, &line),
            "Identifier" | "Vendor Part Number" => cable.push(value.to_owned()),
            "Vendor Serial Number" => {
                let whole = format!("{}, serial {value}", cable.join(" "));
                facts.set(id, port::CABLE, line.known(whole.into()));
            }
            _ => {}
        }
    }
}

/// `Speed    : IB-NDR`
fn name_and_value(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim(), value.trim()))
}

/// The device: its name, or that of the one at the PCI address. Files of mst(1) name themselves.
pub(super) fn device_name(facts: &Facts, node: Id, asked: &str) -> String {
    let name = asked.rsplit('/').next().unwrap_or(asked);
    if !crate::tool_output::is_function(&format!("{name} x: ")) {
        return name.to_owned();
    }
    let address = match name.matches(':').count() {
        1 => format!("0000:{name}"),
        _ => name.to_owned(),
    };
    let mut devices = facts.below(node, Subject::Device);
    let is_it = |id: &Id| facts.known(*id, device::PCI).as_deref() == Some(&*address);
    let known = devices.find(is_it).map(|id| facts.name(id).to_owned());
    known.unwrap_or(address)
}

/// The state of the link below the port's; `Active` is a link that is up.
fn phys_state(facts: &mut Facts, id: Id, value: &str, line: &OutputLine<'_>) {
    let state = match value {
        "Active" => Some(PhysState::LinkUp),
        "Disable" => Some(PhysState::Disabled),
        other => named::typed(other),
    };
    if let Some(state) = state {
        facts.set(id, port::PHYS_STATE, line.known(state));
    }
}

/// The most lanes of one link.
const MOST_LANES: u64 = 16;

/// `IB-HDR` on 4 lanes, `200G_4X`, `100G`.
fn rate(speed: &str, width: u64) -> Option<BitRate> {
    let name = speed.strip_prefix("IB-").unwrap_or(speed);
    let of_lanes = SPEEDS.iter().find(|(speed, _)| *speed == name);
    let gbps = match of_lanes {
        Some((_, gbps)) => gbps * Some(width).filter(|lanes| *lanes <= MOST_LANES)? / 4,
        None => name
            .split('G')
            .next()?
            .parse()
            .ok()
            .filter(|n| *n < 10_000)?,
    };
    Some(BitRate(gbps * 1_000_000_000))
}

/// The fastest of `0x000000f1 (NDR,HDR,EDR)`, which stands first.
fn fastest(value: &str) -> Option<BitRate> {
    let (_, list) = value.split_once('(')?;
    rate(list.split([',', ')']).next()?, 4)
}

/// `15E-255` is what firmware writes for nothing.
fn exponent(facts: &mut Facts, id: Id, key: Key<u64>, value: &str, line: &OutputLine<'_>) {
    let ratio: Option<f64> = value
        .parse()
        .ok()
        .filter(|ratio| (0.0..=1.0).contains(ratio));
    // A ratio that is a power of ten may come out a trifle below its exponent.
    let exponent = ratio.map(|ratio| (1e-9 - ratio.max(1e-300).log10()) as u64);
    facts.set(id, key, line.read(exponent));
}

/// `45 [-5..75]`
fn temperature(facts: &mut Facts, id: Id, value: &str, line: &OutputLine<'_>) {
    let (now, range) = value.split_once('[').unwrap_or((value, ""));
    let most = range.trim_end_matches(']').rsplit("..").next();
    if let Ok(now) = now.trim().parse() {
        facts.set(id, port::MODULE_TEMPERATURE, line.known(now));
    }
    if let Some(most) = most.and_then(|most| most.trim().parse().ok()) {
        facts.set(id, port::MODULE_MAX_TEMPERATURE, line.known(most));
    }
}
