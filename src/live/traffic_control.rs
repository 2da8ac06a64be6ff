//! Traffic control (tc(8)): queueing disciplines with what they dropped, their classes, and the filters of devices.

use netlink_sys::protocols::NETLINK_ROUTE;

use super::netlink::{Connection, NLM_F_DUMP, chosen};
use crate::source::netlink::{Attributes, Message, TCMSG, u32_at};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;
/// `TCA_KIND`, `TCA_OPTIONS`, `TCA_STATS2` and in it `TCA_STATS_QUEUE`, of whose `struct gnet_stats_queue` the third number counts drops.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATS2: u16 = 7;
const STATS_QUEUE: u16 = 3;
const DROPS: usize = 8;
/// What the kernel gives a device by itself. An adapter has one for each of its queues: they are left out unless they dropped something.
const DEFAULT: [&[u8]; 5] = [
    b"noqueue\0",
    b"mq\0",
    b"pfifo_fast\0",
    b"fq_codel\0",
    b"fq\0",
];
/// `TCA_FQ_FLOW_MAX_RATE`, which limits nothing by default.
const FQ_MAX_RATE: u16 = 7;

/// Answers `route/getqdisc`, `route/gettclass` (`index`: the interface's) and `route/gettfilter` (`index`, and `parent`: where the filters are).
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let number = |name| {
        let number = call.number(name).and_then(|n| u32::try_from(n).ok());
        number.ok_or(Refusal::Errno(Errno::EINVAL))
    };
    let mut body = [0; TCMSG];
    let kind = match &*call.name {
        "route/getqdisc" => RTM_GETQDISC,
        name => {
            body[4..8].copy_from_slice(&number("index")?.to_le_bytes());
            match name {
                "route/gettclass" => RTM_GETTCLASS,
                _ => {
                    body[12..16].copy_from_slice(&number("parent")?.to_le_bytes());
                    RTM_GETTFILTER
                }
            }
        }
    };
    let reply = Connection::open(NETLINK_ROUTE)?.request(kind, NLM_F_DUMP, &body)?;
    let kept = chosen(&reply, |message| {
        kind != RTM_GETQDISC || is_noteworthy(message)
    })?;
    Ok(Answer::Bytes(kept.into()))
}

fn find(of: Attributes<'_>, number: u16) -> Option<Attributes<'_>> {
    of.nested(number).ok().flatten()
}

/// Whether a queueing discipline is none that is there by default, or dropped something.
fn is_noteworthy(message: &Message<'_, TCMSG>) -> bool {
    let attributes = message.attributes;
    let kind = find(attributes, KIND).map_or(&[][..], |kind| kind.0);
    let queue = find(attributes, STATS2).and_then(|stats| find(stats, STATS_QUEUE));
    let drops = queue.and_then(|queue| u32_at(queue.0, DROPS)).unwrap_or(0);
    let limited = || {
        let rate = find(attributes, OPTIONS).and_then(|options| find(options, FQ_MAX_RATE));
        kind == b"fq\0" && rate.is_some_and(|rate| rate.0 != [0xff; 4])
    };
    !DEFAULT.contains(&kind) || drops > 0 || limited()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    fn qdisc(kind: &[u8], drops: u32, options: &[u8]) -> Vec<u8> {
        let queue = [0, 0, drops, 0, 0].map(u32::to_le_bytes).concat();
        let body = [
            vec![0; TCMSG],
            attribute(KIND, kind),
            attribute(OPTIONS, options),
            attribute(STATS2, &attribute(STATS_QUEUE, &queue)),
        ];
        message(36, &body.concat())
    }

    #[test]
    fn what_is_there_by_default_and_drops_nothing_is_left_out() {
        let loses = qdisc(b"fq_codel\0", 3, &[]);
        let netem = qdisc(b"netem\0", 0, &[7; 8]);
        let slow = qdisc(b"fq\0", 0, &attribute(FQ_MAX_RATE, &[1, 0, 0, 0]));
        let all = [
            qdisc(b"mq\0", 0, &[]),
            loses.clone(),
            qdisc(b"fq\0", 0, &attribute(FQ_MAX_RATE, &[0xff; 4])),
            netem.clone(),
            slow.clone(),
        ];
        let kept = chosen(&all.concat(), is_noteworthy);
        assert_eq!(kept, Ok([loses, netem.clone(), slow].concat()));
        let many = netem.repeat(1000);
        assert_eq!(chosen(&many, is_noteworthy), Ok(many));
        assert!(chosen(&netem[..30], is_noteworthy).is_err());
    }

    #[test]
    fn this_machine_says_which_disciplines_it_has() {
        let said = ask(&Call::new("route/getqdisc", []));
        assert!(matches!(said, Ok(Answer::Bytes(_))), "{said:?}");
        let none = ask(&Call::new("route/gettfilter", [("index", 1.into())]));
        assert_eq!(none, Err(Refusal::Errno(Errno::EINVAL)));
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>) {
            let _ = chosen(&bytes, is_noteworthy);
            let _ = chosen(&message(36, &bytes), is_noteworthy);
        }
    }
}
