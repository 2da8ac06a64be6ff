//! Filters of tc(8) at a device (linux/pkt_cls.h), as chains in the terms of the packet filter: they drop before or after it, and nft does not list them.

use crate::fact::ruleset::{
    Backend, Base, Chain, Family, Hook, Match, PacketField, Rule, Step, Table, Values, Verdict,
};
use crate::probe::messages_of;
use crate::source::netlink::{Attributes, Message, TCMSG, text, u16_at, u32_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
/// `TC_ACT_SHOT`, `TC_ACT_STOLEN`, `TC_ACT_QUEUED`; `TC_ACT_OK`; `TC_ACT_PIPE`, `TC_ACT_UNSPEC`
const DROPPED: [i32; 3] = [2, 4, 5];
const OK: i32 = 0;
const ON: [i32; 2] = [3, -1];
/// `TCA_EGRESS_REDIR`, `TCA_INGRESS_REDIR`
const REDIRECTS: [u32; 2] = [1, 3];
const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u16 = 0x800;
const ETH_P_IPV6: u16 = 0x86dd;

/// `TC_H_CLSACT` with `TC_H_MIN_INGRESS`, with `TC_H_MIN_EGRESS`; the handle of `ingress`.
const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT_EGRESS: u32 = 0xffff_fff3;
const INGRESS: u32 = 0xffff_0000;
/// What the kernel calls the places at which a device can have filters.
pub(super) const PARENTS: [u32; 3] = [CLSACT_INGRESS, CLSACT_EGRESS, INGRESS];

/// Where a device has filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterHook {
    /// The interface's number.
    pub(super) index: u32,
    /// What the kernel calls the place.
    pub(super) parent: u32,
    hook: Hook,
    /// What tc(8) calls it.
    word: &'static str,
}

/// The places at which devices have filters, by their queueing disciplines `clsact` and `ingress`.
pub(super) fn places(bytes: &[u8]) -> Result<Vec<FilterHook>, String> {
    let mut all = Vec::new();
    for message in messages_of::<TCMSG>(bytes, &[RTM_NEWQDISC]) {
        let message = message?;
        let index = u32_at(message.fixed, 4).unwrap_or(0);
        let mut add = |parent, hook, word| {
            all.push(FilterHook {
                index,
                parent,
                hook,
                word,
            });
        };
        match &*text(message.attributes.find(1)?.unwrap_or_default())? {
            "clsact" => {
                add(CLSACT_INGRESS, Hook::Ingress, "ingress");
                add(CLSACT_EGRESS, Hook::Egress, "egress");
            }
            "ingress" => add(INGRESS, Hook::Ingress, "ingress"),
            _ => {}
        }
    }
    Ok(all)
}

/// The filters at a place, of a device of this name.
pub(super) fn table(place: FilterHook, device: &str, bytes: &[u8]) -> Result<Table, String> {
    let mut filters: Vec<(u32, Rule)> = Vec::new();
    for message in messages_of::<TCMSG>(bytes, &[RTM_NEWTFILTER]) {
        let message = message?;
        let info = u32_at(message.fixed, 16).unwrap_or(0);
        let (preference, protocol) = (info >> 16, (info as u16).swap_bytes());
        let kind = text(message.attributes.find(1)?.unwrap_or_default())?;
        let steps = steps(&kind, protocol, &message)?;
        if !steps.is_empty() {
            let text = format!(
                "tc filter dev {device} {} pref {preference}: {kind} {}",
                place.word,
                ends(&steps)
            );
            let text = text.into();
            filters.push((preference, Rule { text, steps }));
        }
    }
    crate::small_sort::by_key(&mut filters, |(preference, _)| *preference);
    let mut table = Table::new(Family::Netdev, device, Backend::TrafficControl);
    table.chains.push(Chain {
        name: place.word.into(),
        base: Some(Base {
            hook: place.hook,
            nat: false,
            // Before nft's chains on arrival, after them on leaving.
            priority: match place.hook {
                Hook::Ingress => i64::MIN,
                _ => i64::MAX,
            },
            drops: false,
            devices: Some(vec![device.into()]),
        }),
        rules: filters.into_iter().map(|(_, rule)| rule).collect(),
    });
    Ok(table)
}

/// How a rule ends, for its text.
fn ends(steps: &[Step]) -> &'static str {
    match steps {
        [.., Step::Rate, Step::Verdict(Verdict::Drop)] => "action police drop",
        [.., Step::Verdict(Verdict::Drop)] => "action drop",
        [.., Step::Divert] => "action redirect",
        _ => "",
    }
}

/// What a filter matches, and does; nothing where it can do nothing to packets that matter.
fn steps(kind: &str, protocol: u16, message: &Message<'_, TCMSG>) -> Result<Vec<Step>, String> {
    let Some(options) = message.attributes.nested(2)? else {
        return Ok(Vec::new());
    };
    let version = match protocol {
        ETH_P_ALL | 0 => None,
        ETH_P_IP => Some(4),
        ETH_P_IPV6 => Some(6),
        // ARP, and other frames that carry no IP.
        _ => return Ok(Vec::new()),
    };
    let (actions, matches) = match kind {
        "matchall" => (options.nested(2)?, Some(Vec::new())),
        "flower" => (options.nested(3)?, flower(options)?),
        "u32" => (options.nested(7)?, keys(options)?),
        // A program that acts by itself (Cilium's) is not known to drop anything.
        "bpf" => (options.nested(1)?, None),
        _ => (None, None),
    };
    let ends = match actions {
        Some(actions) => verdict(actions)?,
        None => Vec::new(),
    };
    if ends.is_empty() {
        return Ok(Vec::new());
    }
    let mut steps: Vec<Step> = Vec::new();
    steps.extend(version.map(|version| Step::Match(Match::is(PacketField::Version, version))));
    match matches {
        Some(matches) => steps.extend(matches.into_iter().map(Step::Match)),
        None => steps.push(Step::Unread),
    }
    steps.extend(ends);
    Ok(steps)
}

/// What the actions do to a packet, one after the other.
fn verdict(actions: Attributes<'_>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for action in actions.each() {
        let action = Attributes(action?.1);
        let kind = text(action.find(1)?.unwrap_or_default())?;
        let options = action.nested(2)?.unwrap_or(Attributes(&[]));
        let parameters = |number| options.find(number).map(Option::unwrap_or_default);
        let number = |bytes: &[u8], at| u32_at(bytes, at).unwrap_or(0).cast_signed();
        // Each begins with index, capabilities, action; of police the action is that beyond its rate.
        let (does, limits) = match &*kind {
            "police" => (number(parameters(1)?, 4), true),
            "mirred" => {
                let mirror = parameters(2)?;
                match REDIRECTS.contains(&u32_at(mirror, 20).unwrap_or(0)) {
                    true => return Ok([steps, vec![Step::Divert]].concat()),
                    false => (number(mirror, 8), false),
                }
            }
            "gact" => (number(parameters(2)?, 8), false),
            // What changes a packet lets it go on.
            _ => continue,
        };
        if DROPPED.contains(&does) {
            steps.extend(limits.then_some(Step::Rate));
            steps.push(Step::Verdict(Verdict::Drop));
            return Ok(steps);
        }
        if does == OK && !limits {
            steps.push(Step::Verdict(Verdict::Accept));
            return Ok(steps);
        }
        if !limits && !ON.contains(&does) {
            return Ok(Vec::new());
        }
    }
    Ok(Vec::new())
}

/// An address under its mask.
fn network(field: PacketField, value: u32, mask: u32) -> Match {
    Match::has(field, Values::Masked(mask.into(), u128::from(value & mask)))
}

/// The keys of flower; none where one of them is not read.
fn flower(options: Attributes<'_>) -> Result<Option<Vec<Match>>, String> {
    let short = |number| -> Result<Option<u16>, String> {
        let bytes = options.find(number)?;
        Ok(bytes.and_then(|bytes| Some(u16::from_be_bytes(bytes.try_into().ok()?))))
    };
    let long = |number| -> Result<Option<u32>, String> {
        let bytes = options.find(number)?;
        Ok(bytes.and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?))))
    };
    let mut all = Vec::new();
    for each in options.each() {
        let (number, value) = each?;
        match number {
            // CLASSID, ACT, ETH_TYPE, masks that are read with their keys, FLAGS, IN_HW_COUNT
            1 | 3 | 8 | 11 | 13 | 35..=38 | 72 | 22 | 86 => {}
            9 => all.extend(
                value
                    .first()
                    .map(|n| Match::is(PacketField::Protocol, (*n).into())),
            ),
            10 | 12 => {
                let field = match number {
                    10 => PacketField::Source4,
                    _ => PacketField::Destination4,
                };
                let mask = long(number + 1)?.unwrap_or(u32::MAX);
                all.extend(long(number)?.map(|value| network(field, value, mask)));
            }
            18..=21 => {
                let field = match number {
                    18 | 20 => PacketField::SourcePort,
                    _ => PacketField::DestinationPort,
                };
                if short(number + 17)?.is_some_and(|mask| mask != u16::MAX) {
                    return Ok(None);
                }
                all.extend(short(number)?.map(|port| Match::is(field, port.into())));
            }
            71 => {
                let mask = short(72)?.unwrap_or(0xfff).into();
                let flags = short(71)?.unwrap_or(0).into();
                all.push(Match::has(
                    PacketField::TcpFlags,
                    Values::Masked(mask, flags),
                ));
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(all))
}

/// The keys of u32 (`struct tc_u32_sel`, `struct tc_u32_key`), where they are fields of an IPv4 header without options.
fn keys(options: Attributes<'_>) -> Result<Option<Vec<Match>>, String> {
    let Some((head, keys)) = options.find(5)?.and_then(|s| s.split_at_checked(16)) else {
        return Ok(None);
    };
    // Offsets that are taken from the packet.
    if u16_at(head, 6).unwrap_or(0) != 0 || u32_at(head, 8).unwrap_or(0) & 0xffff_0000 != 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    for one in keys.chunks_exact(16) {
        let word = |at| u32_at(one, at).unwrap_or(0).swap_bytes();
        let (mask, value) = (word(0), word(4));
        let part = |low: u32| u128::from(value >> low);
        all.push(match (u32_at(one, 8).unwrap_or(0), mask) {
            (_, 0) => continue,
            (8, 0x00ff_0000) => Match::is(PacketField::Protocol, part(16) & 0xff),
            (12, mask) => network(PacketField::Source4, value, mask),
            (16, mask) => network(PacketField::Destination4, value, mask),
            (20, 0xffff_0000) => Match::is(PacketField::SourcePort, part(16)),
            (20, 0x0000_ffff) => Match::is(PacketField::DestinationPort, part(0) & 0xffff),
            _ => return Ok(None),
        });
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    const EGRESS: FilterHook = FilterHook {
        index: 2,
        parent: 0xffff_fff3,
        hook: Hook::Egress,
        word: "egress",
    };

    fn filter(kind: &[u8], protocol: u16, options: &[Vec<u8>]) -> Vec<u8> {
        let info = 49152 << 16 | u32::from(protocol.swap_bytes());
        let fixed = [0, 2, 1, EGRESS.parent, info]
            .map(u32::to_le_bytes)
            .concat();
        let attributes = [attribute(1, kind), attribute(2, &options.concat())];
        message(RTM_NEWTFILTER, &[fixed, attributes.concat()].concat())
    }

    fn action(kind: &[u8], number: u16, words: &[u32]) -> Vec<u8> {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let options = attribute(2, &attribute(number, &words));
        attribute(1, &[attribute(1, kind), options].concat())
    }

    fn rules(bytes: &[u8]) -> Vec<Rule> {
        table(EGRESS, "eth0", bytes).unwrap().chains[0]
            .rules
            .clone()
    }

    #[test]
    fn a_flower_filter_that_drops_roce() {
        let keys = [
            attribute(8, &[8, 0]),
            attribute(9, &[17]),
            attribute(21, &4791u16.to_be_bytes()),
            attribute(38, &[255, 255]),
            attribute(3, &action(b"gact\0", 2, &[1, 0, 2, 1, 1])),
        ];
        let rules = rules(&filter(b"flower\0", ETH_P_IP, &keys));
        assert_eq!(
            &*rules[0].text,
            "tc filter dev eth0 egress pref 49152: flower action drop"
        );
        let is = |field, value| Step::Match(Match::is(field, value));
        assert_eq!(
            rules[0].steps,
            [
                is(PacketField::Version, 4),
                is(PacketField::Protocol, 17),
                is(PacketField::DestinationPort, 4791),
                Step::Verdict(Verdict::Drop),
            ]
        );
    }

    #[test]
    fn u32_reads_ports_and_addresses_and_leaves_the_rest_unread() {
        let key = |mask: u32, value: u32, at: u32| {
            [
                &mask.to_be_bytes()[..],
                &value.to_be_bytes(),
                &at.to_le_bytes(),
                &[0; 4],
            ]
            .concat()
        };
        let of = |keys: &[Vec<u8>]| {
            let head = vec![
                1,
                0,
                keys.len() as u8,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            let selector = attribute(5, &[head, keys.concat()].concat());
            let drop = attribute(7, &action(b"gact\0", 2, &[1, 0, 2, 1, 1]));
            rules(&filter(b"u32\0", ETH_P_ALL, &[selector, drop]))[0]
                .steps
                .clone()
        };
        let steps = of(&[key(0xff_0000, 17 << 16, 8), key(0xffff, 4791, 20)]);
        assert_eq!(
            steps[1],
            Step::Match(Match::is(PacketField::DestinationPort, 4791))
        );
        let steps = of(&[key(0xffff_ff00, 0x0a01_0200, 16)]);
        let net = Values::Masked(0xffff_ff00, 0x0a01_0200);
        assert_eq!(
            steps[0],
            Step::Match(Match::has(PacketField::Destination4, net))
        );
        assert_eq!(of(&[key(0xf, 1, 0)])[0], Step::Unread);
    }

    #[test]
    fn redirects_police_and_programs() {
        let mirror = action(b"mirred\0", 2, &[1, 0, 4, 1, 1, 1, 7]);
        let all = rules(&filter(b"matchall\0", ETH_P_ALL, &[attribute(2, &mirror)]));
        assert_eq!(all[0].steps, [Step::Divert]);
        let police = action(b"police\0", 1, &[1, 2, 0, 0]);
        let all = rules(&filter(b"matchall\0", ETH_P_ALL, &[attribute(2, &police)]));
        assert_eq!(all[0].steps, [Step::Rate, Step::Verdict(Verdict::Drop)]);
        let drop = action(b"gact\0", 2, &[1, 0, 2, 1, 1]);
        let all = rules(&filter(b"bpf\0", ETH_P_ALL, &[attribute(1, &drop)]));
        assert_eq!(all[0].steps, [Step::Unread, Step::Verdict(Verdict::Drop)]);
        // A program that acts by itself, an observer, and one of ARP.
        assert!(rules(&filter(b"bpf\0", ETH_P_ALL, &[attribute(8, &[1, 0, 0, 0])])).is_empty());
        let pass = action(b"gact\0", 2, &[1, 0, 3, 1, 1]);
        assert!(rules(&filter(b"matchall\0", ETH_P_ALL, &[attribute(2, &pass)])).is_empty());
        assert!(rules(&filter(b"matchall\0", 0x806, &[attribute(2, &drop)])).is_empty());
    }

    #[test]
    fn places_are_those_of_ingress_and_clsact() {
        let of =
            |kind: &[u8]| message(RTM_NEWQDISC, &[vec![0; TCMSG], attribute(1, kind)].concat());
        let bytes = [of(b"netem\0"), of(b"clsact\0"), of(b"ingress\0")].concat();
        let words: Vec<_> = places(&bytes)
            .unwrap()
            .iter()
            .map(|place| place.word)
            .collect();
        assert_eq!(words, ["ingress", "egress", "ingress"]);
        assert!(places(&filter(b"u32\0", 0, &[])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, number in 0u16..96) {
            let _ = places(&bytes);
            for kind in [&b"flower\0"[..], b"u32\0", b"matchall\0", b"bpf\0"] {
                let options = [attribute(number, &bytes), attribute(2, &bytes)];
                let _ = table(EGRESS, "eth0", &filter(kind, ETH_P_ALL, &options));
            }
        }
    }
}
