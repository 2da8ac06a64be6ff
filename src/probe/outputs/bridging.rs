//! Priorities, traffic classes and buffers of network devices, as `mlnx_qos` and dcb(8) print them.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Output;
use crate::fact::{Facts, Id, Subject, netdev};
use crate::probe::qos;
use crate::probe::qos::dcb::{Buffers, Dcb, EIGHT, Ets};

/// What the outputs say of one device.
#[derive(Default)]
struct DeviceQos {
    dcb: Dcb,
    /// Whether the priorities of all DSCPs are said.
    dscp: bool,
    of_priority: Option<[u8; EIGHT]>,
    size: Option<[u32; EIGHT]>,
    share: [u8; EIGHT],
    algorithm: [Option<u8>; EIGHT],
    class: Option<[u8; EIGHT]>,
}

/// States what all these outputs say of each device: dcb(8) prints one part at a time.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut devices: BTreeMap<&str, Vec<&Output>> = BTreeMap::new();
    for output in outputs.iter().filter(|output| !output.is_cut) {
        let is_read = matches!(output.tool(), "mlnx_qos" | "dcb") && output.argv.len() > 2;
        if let Some(device) = output.operand().filter(|_| is_read) {
            devices.entry(device).or_default().push(output);
        }
    }
    for (device, outputs) in devices {
        let (mut said, mut at) = (DeviceQos::default(), None);
        for line in outputs.iter().flat_map(|output| output.lines()) {
            said.line(line.text.trim(), &mut at);
        }
        let mlx5 = outputs[0].tool() == "mlnx_qos";
        let (dscp, dcb, origin) = (said.dscp, said.whole(), outputs[0].origin());
        let id = facts.instance(Subject::Netdev, node, device);
        facts.know(id, netdev::DCB, true, &origin);
        if dscp {
            let priorities = qos::dscp_map(&dcb.dscp, mlx5);
            facts.know(id, netdev::DSCP_PRIORITIES, priorities, &origin);
        }
        qos::state_own(facts, id, &dcb, mlx5, &origin);
    }
}

impl DeviceQos {
    /// Takes a line; `at` is the class of which mlnx_qos says what follows.
    fn line(&mut self, text: &str, at: &mut Option<usize>) {
        let dcb = &mut self.dcb;
        let split = text.split_once([':', ' ']).unwrap_or((text, ""));
        let (key, rest) = match text.split_once(": ") {
            Some((key, rest)) if key.starts_with(|c: char| c.is_ascii_uppercase()) => (key, rest),
            _ => split,
        };
        // `0:off 1:on`: the values behind the numbers.
        let values = || {
            rest.split_whitespace()
                .filter_map(|pair| Some(pair.split_once(':')?.1))
        };
        match key {
            "DCBX mode" => dcb.host = Some(rest.contains("OS")),
            "host" | "lld-managed" => dcb.host = Some(key == "host"),
            "Priority trust state" | "order" => {
                dcb.trust = Some(rest.split_whitespace().filter_map(selector).collect());
                self.dscp |= key != "order";
            }
            // `prio:3 dscp:31,30,`
            "prio" => {
                let (priority, list) = rest.split_once(" dscp:").unwrap_or((rest, ""));
                if let Ok(priority) = priority.parse() {
                    let each = list.split(',').filter_map(|dscp| dscp.trim().parse().ok());
                    dcb.dscp.extend(each.map(|dscp| (dscp, priority)));
                }
            }
            // Without -n the DSCPs have names, which are not read.
            "dscp-prio" => {
                let entries = rest.split_whitespace().map(|pair| {
                    let (dscp, priority) = pair.split_once(':')?;
                    Some((dscp.parse().ok()?, priority.parse().ok()?))
                });
                if let Some(entries) = entries.collect() {
                    (dcb.dscp, self.dscp) = (entries, true);
                }
            }
            "Receive buffer size (bytes)" => self.size = eight(rest.split(',')),
            "buffer-size" => self.size = eight(values().map(|size| size.trim_end_matches('b'))),
            "buffer" => self.of_priority = eight(rest.split_whitespace()),
            "prio-buffer" => self.of_priority = eight(values()),
            "enabled" => dcb.pfc = Some(those(rest.split_whitespace(), "1")),
            "prio-pfc" => dcb.pfc = Some(those(values(), "on")),
            "tc-bw" => self.share = eight(values()).unwrap_or_default(),
            "prio-tc" => self.class = eight(values()),
            "tc-tsa" => {
                for (place, word) in self.algorithm.iter_mut().zip(values()) {
                    *place = algorithm(word);
                }
            }
            // `tc: 2 ratelimit: unlimited, tsa: ets, bw: 50%`, and below it `priority:  2`.
            "tc" => {
                *at = rest.split_whitespace().next().and_then(|n| n.parse().ok());
                let after = |key: &str| rest.split_once(key).map_or("", |(_, rest)| rest);
                let tsa = algorithm(after("tsa: ").split([',', ' ']).next().unwrap_or(""));
                if let Some(at) = at.filter(|at| *at < EIGHT) {
                    self.algorithm[at] = tsa;
                    self.share[at] = after("bw: ").trim_end_matches('%').parse().unwrap_or(0);
                }
            }
            "priority" => {
                let class = self.class.get_or_insert_default();
                let place = rest
                    .trim()
                    .parse()
                    .ok()
                    .and_then(|p: usize| class.get_mut(p));
                if let (Some(place), Some(at)) = (place, *at) {
                    *place = at as u8 & 7;
                }
            }
            _ => {}
        }
    }

    /// What is said as a whole.
    fn whole(self) -> Dcb {
        let mut dcb = self.dcb;
        if let (Some(of_priority), Some(size)) = (self.of_priority, self.size) {
            dcb.buffers = Some(Buffers { of_priority, size });
        }
        // A class without a priority has no algorithm that matters.
        if let Some(class) = self
            .class
            .filter(|_| self.algorithm.iter().any(Option::is_some))
        {
            let algorithm = self
                .algorithm
                .map(|algorithm| algorithm.unwrap_or(u8::MAX - 1));
            let share = self.share;
            dcb.ets = Some(Ets {
                share,
                algorithm,
                class,
            });
        }
        dcb
    }
}

/// The number of a selector in the kernel's table of applications.
fn selector(word: &str) -> Option<u8> {
    match word {
        "dscp" => Some(5),
        "pcp" => Some(255),
        _ => None,
    }
}

/// The number of an algorithm in `struct ieee_ets`.
fn algorithm(word: &str) -> Option<u8> {
    let all = [("strict", 0), ("cbs", 1), ("ets", 2), ("vendor", 255)];
    all.iter().find(|(name, _)| *name == word).map(|(_, n)| *n)
}

/// As many numbers as there are priorities.
fn eight<'t, T: FromStr>(words: impl Iterator<Item = &'t str>) -> Option<[T; EIGHT]> {
    let words = words.map(str::trim).filter(|word| !word.is_empty());
    let numbers: Vec<T> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// The places at which this word stands.
fn those<'t>(words: impl Iterator<Item = &'t str>, wanted: &str) -> Vec<u8> {
    let each = (0..).zip(words).filter(|(_, word)| *word == wanted);
    each.map(|(at, _)| at).collect()
}
