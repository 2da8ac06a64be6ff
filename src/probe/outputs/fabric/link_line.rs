//! A line of iblinkinfo(8): `4  1[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>  12  1[  ] "n1" ( )`.

use super::said::{End, Kind, LinkLine, Pace, hex};
use crate::probe::outputs::named;

/// How the tools print each in Gb/s; the fourth by its name.
const PRINTED: [&str; 9] = [
    "2.5", "5.0", "10.0", "FDR10", "14.0625", "25.78125", "53.125", "106.25", "212.5",
];

/// Reads a line that is whole.
pub(super) fn read(text: &str) -> Option<LinkLine> {
    let (near, rest) = text.split_once("==(")?;
    let (link, behind) = rest.split_once(")==>")?;
    let (before, after) = link.split_once('/')?;
    let is_end = |c: char| c.is_whitespace() || c == ')';
    let mut words = before.split_whitespace();
    let width = before.split_whitespace().find_map(lanes);
    let (far, hints) = far_end(behind)?;
    Some(LinkLine {
        near: near_end(near)?,
        far,
        state: named::typed(words.next_back()?),
        phys_state: named::typed(after.trim_start().split(is_end).next()?),
        pace: width.and_then(|width| {
            let speed = speed_in(before)?;
            Some(Pace { width, speed })
        }),
        tells_possible: true,
        possible_width: hints.iter().find_map(|hint| lanes(hint)),
        possible_speed: hints.iter().find_map(|hint| speed_in(hint)),
        ..LinkLine::default()
    })
}

/// `Switch: 0x0002c903007b78b0 sw226:`, `CA: n1 HCA-1:`.
pub(super) fn heading(text: &str) -> Option<End> {
    let (kind, rest) = text.trim_end().strip_suffix(':')?.split_once(": ")?;
    let kind = match kind {
        "Switch" => Kind::Switch,
        "CA" => Kind::Adapter,
        "Router" => Kind::Router,
        _ => return None,
    };
    let of_switch = rest.split_once(' ').filter(|_| kind == Kind::Switch);
    let (guid, name) = match of_switch {
        Some((guid, name)) => (hex(guid), name),
        None => (None, rest),
    };
    Some(End {
        node: Some(name.trim().to_owned()),
        guid,
        kind: Some(kind),
        ..End::default()
    })
}

/// `0xb8ce "   leaf1"  11  21[  ]`; the node's name in one form of the list only.
fn near_end(text: &str) -> Option<End> {
    let Some((_, quoted)) = text.split_once('"') else {
        return numbered_end(text);
    };
    let (name, rest) = quoted.rsplit_once('"')?;
    let mut end = numbered_end(rest)?;
    end.node = Some(name.trim().to_owned());
    Some(end)
}

/// `0xb8ce  31  1[  ] "spine1" (Could be 4X )`: the end if there is one, and what it could be.
fn far_end(text: &str) -> Option<(Option<End>, Vec<&str>)> {
    let (before, rest) = text.split_once('"')?;
    let (name, after) = rest.rsplit_once('"')?;
    let mut end = numbered_end(before);
    if let Some(end) = &mut end {
        end.node = Some(name.trim().to_owned());
    }
    Some((end, after.split("Could be ").skip(1).collect()))
}

/// `0xb8ce  31  1[  ]`: GUID, LID and port.
fn numbered_end(text: &str) -> Option<End> {
    let mut words = text.split('[').next()?.split_whitespace().rev();
    let port = words.next()?.parse().ok()?;
    let lid = words.next()?.parse().ok()?;
    Some(End {
        lid: Some(lid),
        guid: words
            .next()
            .filter(|word| word.starts_with("0x"))
            .and_then(hex),
        port,
        ..End::default()
    })
}

/// `4X`
fn lanes(text: &str) -> Option<u64> {
    let word = text.split([' ', ')']).next()?;
    word.strip_suffix('X')?.parse().ok()
}

/// The speed that stands before `Gbps`, or the name of the one that has no number of its own.
fn speed_in(text: &str) -> Option<usize> {
    let word = if text.contains("FDR10") {
        "FDR10"
    } else {
        let (before, _) = text.split_once("Gbps")?;
        before.split_whitespace().next_back()?
    };
    let same = PRINTED.iter().position(|printed| *printed == word);
    same.or_else(|| nearest_speed(word.parse().ok()?))
}

/// The speed of this number, where it is rounded or without what the code of the line adds.
fn nearest_speed(printed: f64) -> Option<usize> {
    const ROUNDED: f64 = 0.07;
    PRINTED.iter().position(|known| {
        let known: f64 = known.parse().unwrap_or(0.0);
        (known - printed).abs() < ROUNDED * printed
    })
}
