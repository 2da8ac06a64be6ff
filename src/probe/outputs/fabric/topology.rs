//! The topology that ibnetdiscover(8) writes: a block for each device, or with `-p` a line for
//! each port.
//!
//! ```text
//! Switch 41 "S-b8599f0300fc6de4"  # "MF0;sw95:MQM8700/U1" enhanced port 0 lid 13 lmc 0
//! [23] "H-ec0d9a03007d7d0a"[1](ec0d9a03007d7d0a)   # "n1 HCA-1" lid 9 4xEDR
//! CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'n1 HCA-1' - 'leaf1' )
//! SW  2052 37 0x506b4b03005c2740 4x ???                                    'leaf4'
//! ```

use super::said::{End, Kind, LinkLine, Pace, hex};

/// How a block begins, and what it is of.
const BLOCKS: [(&str, Kind); 4] = [
    ("Switch", Kind::Switch),
    ("Ca", Kind::Adapter),
    ("Hca", Kind::Adapter),
    ("Rt", Kind::Router),
];

/// How a line of a port begins, and what it is of.
const PORTS: [(&str, Kind); 3] = [
    ("SW", Kind::Switch),
    ("CA", Kind::Adapter),
    ("RT", Kind::Router),
];

/// Reads the lines of one output, one after the other.
#[derive(Default)]
pub(super) struct TopologyReader {
    /// The device whose block is open.
    device: Option<End>,
    /// Whether the block has no line of a link yet.
    is_begun: bool,
    device_id: Option<u64>,
}

impl TopologyReader {
    /// The link of a line; `None` where it is of a device, or of nothing.
    pub(super) fn read_line(&mut self, text: &str) -> Option<LinkLine> {
        let text = text.trim();
        if let Some(id) = text.strip_prefix("devid=") {
            self.device_id = hex(id);
            self.device = None;
            return None;
        }
        if text.starts_with('[') {
            let line = block_line(text, self.device.as_ref()?)?;
            self.is_begun = false;
            return Some(line);
        }
        if let Some(device) = block_heading(text) {
            self.device = Some(End {
                device_id: self.device_id.take(),
                ..device
            });
            self.is_begun = true;
            return None;
        }
        port_line(text)
    }

    /// Whether the text ended within a device: each has a link.
    pub(super) fn is_cut(&self) -> bool {
        self.is_begun || self.device_id.is_some()
    }
}

fn block_heading(text: &str) -> Option<End> {
    let (name, kind) = BLOCKS.iter().find(|(name, _)| text.starts_with(name))?;
    let rest = text.get(name.len()..)?.trim_start();
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (before, comment) = rest.split_once('#')?;
    let (description, behind) = split_description(comment);
    Some(End {
        node: Some(description.to_owned()),
        lid: number_behind(behind, "lid "),
        guid: guid_in_quotes(before)?.0,
        kind: Some(*kind),
        ..End::default()
    })
}

/// `[1](15) "S-0002c903007b78b0"[36]  # lid 9 lmc 0 "leaf1" lid 13 4xEDR`
fn block_line(text: &str, device: &End) -> Option<LinkLine> {
    let (ends, comment) = text.split_once('#')?;
    let (near, far) = ends.split_at(ends.find('"')?);
    let (far_guid, behind) = guid_in_quotes(far)?;
    let (near_port, near_port_guid) = numbered_port(near)?;
    let (far_port, far_port_guid) = numbered_port(behind)?;
    let (own, rest) = comment.split_once('"')?;
    let (description, behind_name) = rest.rsplit_once('"')?;
    let far_kind = match far.as_bytes().get(1)? {
        b'S' => Kind::Switch,
        b'R' => Kind::Router,
        _ => Kind::Adapter,
    };
    Some(LinkLine {
        near: End {
            port: near_port,
            guid: near_port_guid.or(device.guid),
            lid: number_behind(own, "lid ").or(device.lid),
            ..device.clone()
        },
        far: Some(End {
            node: Some(description.trim().to_owned()),
            lid: number_behind(behind_name, "lid "),
            guid: far_port_guid.or(far_guid),
            port: far_port,
            kind: Some(far_kind),
            device_id: None,
        }),
        pace: behind_name
            .split_whitespace()
            .next_back()
            .and_then(Pace::read),
        is_of_list: true,
        is_of_block: true,
        ..LinkLine::default()
    })
}

/// `"S-0002c903007b78b0"[36]`: the GUID, and what is behind the quotes.
fn guid_in_quotes(text: &str) -> Option<(Option<u64>, &str)> {
    let (_, rest) = text.split_once('"')?;
    let (id, behind) = rest.split_once('"')?;
    let (_, digits) = id.split_once('-')?;
    Some((hex(digits), behind))
}

/// ` [1](ec0d9a03007d7d0a) `: the number, and the GUID of an adapter's port.
fn numbered_port(text: &str) -> Option<(u64, Option<u64>)> {
    let (number, behind) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    let guid = behind.trim_start().strip_prefix('(');
    let guid = guid.and_then(|rest| rest.split(')').next()).and_then(hex);
    Some((number.trim().parse().ok()?, guid))
}

/// `"MF0;sw95" enhanced port 0 lid 13`: the description, which some tools do not quote, and the
/// rest.
fn split_description(comment: &str) -> (&str, &str) {
    let quoted = comment
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'));
    let (description, behind) = quoted.unwrap_or_else(|| {
        let at = [" enhanced port 0", " base port 0", " lid "];
        let at = at.iter().filter_map(|words| comment.find(words)).min();
        comment.split_at(at.unwrap_or(comment.len()))
    });
    (description.trim(), behind)
}

/// The number behind the last of these words.
fn number_behind(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(words)?;
    rest.split_whitespace().next()?.parse().ok()
}

fn port_line(text: &str) -> Option<LinkLine> {
    let (places, names) = match text.split_once(" ( '") {
        Some((places, names)) => (places, names.strip_suffix("' )")?.split_once("' - '")?),
        None => {
            let (places, rest) = text.split_once('\'')?;
            (places, (rest.trim_end_matches('\''), ""))
        }
    };
    let mut words = places.split_whitespace();
    let near = numbered_end(&mut words, names.0)?;
    let pace = format!("{} {}", words.next()?, words.next()?);
    let far = match words.next() {
        Some("-") => Some(numbered_end(&mut words, names.1)?),
        _ => None,
    };
    Some(LinkLine {
        near,
        far,
        pace: Pace::read(&pace),
        is_of_list: true,
        ..LinkLine::default()
    })
}

/// `SW  1719 10 0x7cfe9003009ce5b0`
fn numbered_end<'t>(words: &mut impl Iterator<Item = &'t str>, name: &str) -> Option<End> {
    let kind = words.next()?;
    let (_, kind) = PORTS.iter().find(|(word, _)| *word == kind)?;
    Some(End {
        node: Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        lid: Some(words.next()?.parse().ok()?),
        port: words.next()?.parse().ok()?,
        guid: hex(words.next()?),
        kind: Some(*kind),
        device_id: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of each link, by LID, GUID and port, with how it runs.
    fn links(text: &str) -> Vec<String> {
        let mut reader = TopologyReader::default();
        let lines = text.lines().filter_map(|line| reader.read_line(line));
        let in_words = |end: &End| {
            let name = end.node.as_deref().unwrap_or("?");
            let (lid, guid) = (end.lid.unwrap_or(0), end.guid.unwrap_or(0));
            format!("{name}/{lid}/{guid:x}/{}", end.port)
        };
        lines
            .map(|line| {
                let ends: Vec<String> = line.ends().map(in_words).collect();
                let pace = line.pace.map_or("?".to_owned(), |pace| pace.to_string());
                format!("{} {pace}", ends.join(" - "))
            })
            .collect()
    }

    const BLOCKS_TEXT: &str = "devid=0xd2f0\n\
        Switch\t41 \"S-00000000000000a1\"\t\t# \"MF0;leaf \"A\":X/U1\" enhanced port 0 lid 13 lmc 0\n\
        [3]\t\"S-00000000000000a2\"[1]\t\t# \"spine\" lid 19 4xFDR10\n\
        [ 24 ] \t \"H-00000000000000b0\"[1](b1) \t\t# \"n1 HCA-2\" lid 28 1xHDR\n\
        \n\
        devid=0x101b\n\
        Ca\t1 \"H-00000000000000b0\"\t\t# \"n1 HCA-2\"\n\
        [1](b1) \t\"S-00000000000000a1\"[24]\t\t# lid 28 lmc 0 \"MF0;leaf \"A\":X/U1\" lid 13 1xHDR\n";

    #[test]
    fn blocks_with_quotes_in_names_spaces_and_lost_tabs() {
        let expected = [
            "MF0;leaf \"A\":X/U1/13/a1/3 - spine/19/a2/1 4X FDR10",
            "MF0;leaf \"A\":X/U1/13/a1/24 - n1 HCA-2/28/b1/1 1X HDR",
            "n1 HCA-2/28/b1/1 - MF0;leaf \"A\":X/U1/13/a1/24 1X HDR",
        ];
        assert_eq!(links(BLOCKS_TEXT), expected);
        assert_eq!(links(&BLOCKS_TEXT.replace('\t', "")), expected);
        assert_eq!(links(&BLOCKS_TEXT.replace('\t', "   ")), expected);
    }

    #[test]
    fn lines_of_ports() {
        let text = "CA   134  1 0x00000000000000b1 4x EDR - SW    13 10 0x00000000000000a1 ( 'n1 HCA-1' - 'it's 'leaf1'' )\n\
            SW    13 37 0x00000000000000a1 4x ???                                    'leaf1'\n\
            SW    13 38 0x00000000000000a1 2x HDR                                    'leaf1'\n";
        assert_eq!(
            links(text),
            [
                "n1 HCA-1/134/b1/1 - it's 'leaf1'/13/a1/10 4X EDR",
                "leaf1/13/a1/37 ?",
                "leaf1/13/a1/38 2X HDR",
            ]
        );
    }

    #[test]
    fn a_topology_that_ends_within_a_device_is_cut() {
        let is_cut = |text: &str| {
            let mut reader = TopologyReader::default();
            text.lines().for_each(|line| drop(reader.read_line(line)));
            reader.is_cut()
        };
        assert!(!is_cut(BLOCKS_TEXT));
        assert!(!is_cut(""));
        let lines: Vec<&str> = BLOCKS_TEXT.lines().collect();
        // After the first device, and behind each line of the second but its links.
        let ends = [(2, true), (4, false), (6, true), (7, true), (8, false)];
        for (count, cut) in ends {
            assert_eq!(is_cut(&lines[..count].join("\n")), cut, "{count}");
        }
    }
}
