//! Queueing disciplines and classes as the kernel dumps them (linux/pkt_sched.h).

use std::fmt;
use std::sync::Arc;

use crate::fact::{BitRate, Percent, Seconds};
use crate::probe::messages_of;
use crate::source::netlink::{Attributes, TCMSG, text, u16_at, u32_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
/// `TC_H_ROOT`
pub(super) const ROOT: u32 = u32::MAX;

/// What a queueing discipline or a class does to packets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// netem loses or corrupts so many.
    Loss(Percent),
    /// netem delays them by so much, or disturbs their order.
    Delay(Seconds),
    /// They are sent at this rate at most.
    Rate(BitRate),
    /// There is room for none.
    NoRoom,
}

/// A queueing discipline, or a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Qdisc {
    /// The interface's number.
    pub(super) index: u32,
    pub(super) handle: Handle,
    pub(super) parent: Handle,
    pub(super) kind: Arc<str>,
    /// Packets that it dropped.
    pub(super) drops: u64,
    pub(super) effects: Vec<Effect>,
    /// The class of packets that no filter claims.
    pub(super) default_class: Option<Handle>,
}

/// A handle: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle(pub(super) u32);

impl fmt::Display for Handle {
    /// As tc(8) writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 >> 16, self.0 & 0xffff) {
            _ if self.0 == ROOT => f.write_str("root"),
            (major, 0) => write!(f, "{major:x}:"),
            (major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

impl Qdisc {
    /// What tc(8) takes to name it: `root`, or `parent 1:3 handle 30:`.
    pub(super) fn place(&self) -> String {
        match self.parent.0 {
            ROOT => "root".into(),
            _ => format!("parent {} handle {}", self.parent, self.handle),
        }
    }

    /// Whether it limits packets by its classes.
    pub(super) fn is_classful_shaper(&self) -> bool {
        matches!(&*self.kind, "htb" | "hfsc")
    }
}

/// The queueing disciplines, or the classes, of a reply.
pub(super) fn read(bytes: &[u8]) -> Result<Arc<[Qdisc]>, String> {
    let mut all = Vec::new();
    for message in messages_of::<TCMSG>(bytes, &[RTM_NEWQDISC, RTM_NEWTCLASS]) {
        let message = message?;
        let class = message.kind == RTM_NEWTCLASS;
        let number = |at| u32_at(message.fixed, at).unwrap_or(0);
        let attributes = message.attributes;
        let kind = text(attributes.find(1)?.unwrap_or_default())?;
        let options = attributes.find(2)?.unwrap_or_default();
        let queue = match attributes.nested(7)? {
            Some(stats) => stats.find(3)?,
            None => None,
        };
        let handle = number(8);
        let default_class = default_class(&kind, class, options)?;
        all.push(Qdisc {
            index: number(4),
            handle: Handle(handle),
            parent: Handle(number(12)),
            effects: effects(&kind, class, options)?,
            kind,
            // struct gnet_stats_queue: length, backlog, drops.
            drops: queue.and_then(|queue| u32_at(queue, 8)).unwrap_or(0).into(),
            default_class: default_class.map(|minor| Handle(handle & 0xffff_0000 | minor)),
        });
    }
    Ok(all.into())
}

fn default_class(kind: &str, class: bool, options: &[u8]) -> Result<Option<u32>, String> {
    Ok(match kind {
        _ if class => None,
        // struct tc_htb_glob: version, rate to quantum, default class.
        "htb" => Attributes(options)
            .find(2)?
            .and_then(|glob| u32_at(glob, 8)),
        // struct tc_hfsc_qopt
        "hfsc" => u16_at(options, 0).map(u32::from),
        _ => None,
    })
}

fn effects(kind: &str, class: bool, options: &[u8]) -> Result<Vec<Effect>, String> {
    let of = Attributes(options);
    let rate = |bytes: u64| {
        let limited = bytes > 0 && bytes < u64::from(u32::MAX) || bytes > u64::from(u32::MAX);
        limited.then(|| Effect::Rate(BitRate(bytes.saturating_mul(8))))
    };
    // struct tc_ratespec ends with the rate, and a 64-bit one stands apart if it is larger than that.
    let spec = |at, wide| -> Result<Option<Effect>, String> {
        let parameters = of.find(1)?.unwrap_or_default();
        let narrow = u32_at(parameters, at).unwrap_or(0).into();
        Ok(rate(of.find(wide)?.and_then(u64_of).unwrap_or(narrow)))
    };
    Ok(match (kind, class) {
        ("netem", false) => netem(options)?,
        ("tbf", false) => spec(8, 4)?.into_iter().collect(),
        // The ceiling follows the guaranteed rate.
        ("htb", true) => spec(20, 7)?.into_iter().collect(),
        // struct tc_service_curve of the upper limit: slope, duration, slope after it.
        ("hfsc", true) => {
            let curve = of.find(3)?.and_then(|curve| u32_at(curve, 8));
            curve
                .and_then(|bytes| rate(bytes.into()))
                .into_iter()
                .collect()
        }
        ("cake", false) => {
            let bytes = of.find(2)?.and_then(u64_of);
            bytes.and_then(rate).into_iter().collect()
        }
        // The largest rate of one flow; all ones by default.
        ("fq", false) => {
            let bytes = of.number(7)?.map(u64::from);
            bytes.and_then(rate).into_iter().collect()
        }
        ("pfifo" | "bfifo" | "pfifo_head_drop", false) if u32_at(options, 0) == Some(0) => {
            vec![Effect::NoRoom]
        }
        ("blackhole", false) => vec![Effect::NoRoom],
        _ => Vec::new(),
    })
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// `struct tc_netem_qopt` (latency, limit, loss, gap, duplicate, jitter), then attributes.
fn netem(options: &[u8]) -> Result<Vec<Effect>, String> {
    const FIXED: usize = 24;
    let more = options
        .get(FIXED..)
        .ok_or("netem's options are cut short")?;
    let more = Attributes(more);
    let number = |at| u32_at(options, at).unwrap_or(0);
    let first = |kind| -> Result<u32, String> {
        let found = more.find(kind)?.and_then(|bytes| u32_at(bytes, 0));
        Ok(found.unwrap_or(0))
    };
    // A model of loss (TCA_NETEM_LOSS) begins with the chance to go from the good state to the bad one.
    let model = match more.nested(5)? {
        Some(model) => {
            let mut chances = model.each().filter_map(|one| u32_at(one.ok()?.1, 0));
            chances.next().unwrap_or(0)
        }
        None => 0,
    };
    let lost = number(8).max(model).max(first(4)?);
    let nanoseconds = match more.find(10)?.and_then(u64_of) {
        Some(exact) => exact,
        // Ticks of the packet scheduler.
        None => u64::from(number(0)) << 6,
    };
    let bytes = match more.find(8)?.and_then(u64_of) {
        Some(wide) => wide,
        None => first(6)?.into(),
    };
    let mut effects = Vec::new();
    if lost > 0 {
        effects.push(Effect::Loss(Percent(
            100.0 * f64::from(lost) / f64::from(u32::MAX),
        )));
    }
    if bytes > 0 {
        effects.push(Effect::Rate(BitRate(bytes.saturating_mul(8))));
    }
    if nanoseconds > 0 || number(16) > 0 || first(3)? > 0 {
        effects.push(Effect::Delay(Seconds(nanoseconds as f64 / 1e9)));
    }
    Ok(effects)
}

/// The rate to which a shaper with classes holds packets that no filter claims: the lowest of the default class and those above it.
pub(super) fn default_rate(shaper: &Qdisc, classes: &[Qdisc]) -> Option<BitRate> {
    let mut at = shaper.default_class?;
    let mut lowest: Option<BitRate> = None;
    // Classes nest eight deep (TC_HTB_MAXDEPTH).
    for _ in 0..8 {
        let Some(class) = classes.iter().find(|class| class.handle == at) else {
            break;
        };
        for effect in &class.effects {
            if let Effect::Rate(rate) = effect {
                lowest = Some(lowest.map_or(*rate, |known| BitRate(known.0.min(rate.0))));
            }
        }
        at = class.parent;
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::message;

    fn tc(kind: u16, handle: u32, parent: u32, name: &[u8], options: &[u8]) -> Vec<u8> {
        let fixed = [0, 2, handle, parent, 0].map(u32::to_le_bytes).concat();
        let attributes = [attribute(1, name), attribute(2, options)].concat();
        message(kind, &[fixed, attributes].concat())
    }

    fn one(name: &[u8], options: &[u8]) -> Vec<Effect> {
        let bytes = tc(RTM_NEWQDISC, 0x8001_0000, ROOT, name, options);
        read(&bytes).unwrap()[0].effects.clone()
    }

    #[test]
    fn netem_loses_delays_and_limits() {
        // As Linux 6.1 dumps `netem loss 10% delay 200ms`.
        let fixed = [3_125_000, 1000, 429_496_729, 0, 0, 0]
            .map(u32::to_le_bytes)
            .concat();
        let exact = attribute(10, &200_000_000u64.to_le_bytes());
        let effects = one(b"netem\0", &[fixed.clone(), exact].concat());
        assert!(matches!(effects[0], Effect::Loss(Percent(p)) if (9.9..10.1).contains(&p)));
        assert_eq!(effects[1], Effect::Delay(Seconds(0.2)));
        // Kernels before 4.16 say ticks.
        assert_eq!(one(b"netem\0", &fixed)[1], Effect::Delay(Seconds(0.2)));
        let rate = [125_000u32, 0, 0, 0].map(u32::to_le_bytes).concat();
        let effects = one(b"netem\0", &[vec![0; 24], attribute(6, &rate)].concat());
        assert_eq!(effects, [Effect::Rate(BitRate(1_000_000))]);
        let broken = tc(RTM_NEWQDISC, 1, ROOT, b"netem\0", &[0; 20]);
        assert!(read(&broken).is_err());
    }

    #[test]
    fn shapers_have_a_rate_and_default_disciplines_none() {
        let spec = [0, 0, 125_000, 0, 0, 0].map(u32::to_le_bytes).concat();
        assert_eq!(
            one(b"tbf\0", &attribute(1, &spec)),
            [Effect::Rate(BitRate(1_000_000))]
        );
        let wide = [
            attribute(1, &[0xff; 24]),
            attribute(4, &12_500_000_000u64.to_le_bytes()),
        ];
        assert_eq!(
            one(b"tbf\0", &wide.concat()),
            [Effect::Rate(BitRate(100_000_000_000))]
        );
        assert_eq!(one(b"cake\0", &attribute(2, &0u64.to_le_bytes())), []);
        assert_eq!(one(b"fq\0", &attribute(7, &[0xff; 4])), []);
        assert_eq!(
            one(b"fq\0", &attribute(7, &[1, 0, 0, 0])),
            [Effect::Rate(BitRate(8))]
        );
        assert_eq!(one(b"pfifo\0", &[0; 4]), [Effect::NoRoom]);
        for default in [&b"mq\0"[..], b"fq_codel\0", b"pfifo_fast\0", b"noqueue\0"] {
            assert_eq!(one(default, &[9; 40]), []);
        }
    }

    #[test]
    fn the_default_class_and_those_above_it_limit_what_no_filter_claims() {
        let glob = [3, 10, 0x10, 0, 0].map(u32::to_le_bytes).concat();
        let htb = tc(RTM_NEWQDISC, 0x1_0000, ROOT, b"htb\0", &attribute(2, &glob));
        let htb = read(&htb).unwrap()[0].clone();
        assert_eq!(htb.default_class, Some(Handle(0x1_0010)));
        let class = |handle, parent, bytes: u32| {
            let parameters = [0, 0, 1, 0, 0, bytes].map(u32::to_le_bytes).concat();
            tc(
                RTM_NEWTCLASS,
                handle,
                parent,
                b"htb\0",
                &attribute(1, &parameters),
            )
        };
        let classes = [
            class(0x1_0001, ROOT, 125_000),
            class(0x1_0010, 0x1_0001, 250_000),
        ];
        let classes = read(&classes.concat()).unwrap();
        assert_eq!(default_rate(&htb, &classes), Some(BitRate(1_000_000)));
        assert_eq!(default_rate(&htb, &classes[..1]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
            for name in [&b"netem\0"[..], b"tbf\0", b"htb\0", b"hfsc\0", b"cake\0", b"fq\0"] {
                let _ = read(&tc(RTM_NEWQDISC, 1, 2, name, &bytes));
                let _ = read(&tc(RTM_NEWTCLASS, 1, 2, name, &bytes));
            }
        }
    }
}
