//! Devices, ports, their counters and the machine, as rdma(8) prints them: words in pairs, as text and as JSON.

use serde_json::Value;

use super::{Output, OutputLine, counters, named, ports};
use crate::fact::port::LinkLayer;
use crate::fact::{Facts, Id, Membership, Subject, port};

/// States what `rdma link`, `dev`, `statistic` and `system` say.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let json: Option<Vec<Value>> = serde_json::from_str(&output.text()).ok();
    if let (Some(all), Some(line)) = (json, output.lines().next()) {
        for one in all.iter().filter_map(Value::as_object) {
            let plain = |value: &Value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            };
            let name = one.get("ifname").map(plain).unwrap_or_default();
            let port = one
                .get("port")
                .map_or_else(String::new, |port| format!("/{port}"));
            let words: Vec<String> = one
                .iter()
                .flat_map(|(key, value)| [key.clone(), plain(value)])
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            pairs(facts, node, &format!("{name}{port}"), &words, &line);
        }
    } else {
        for line in output.lines() {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            // `link mlx5_0/1 state …`, before iproute2 5.0 `1/1: mlx5_0/1: state …`, `0: mlx5_0: node_type …`, `netns shared`.
            let is_place =
                |word: &&&str| **word == "link" || word.starts_with(|c: char| c.is_ascii_digit());
            let places = words.iter().take_while(is_place).count();
            match words.get(places..).unwrap_or_default() {
                ["netns", ..] => pairs(facts, node, "", &words, &line),
                [name, words @ ..] => pairs(facts, node, name.trim_end_matches(':'), words, &line),
                [] => {}
            }
        }
    }
    if output.is_whole(&["link", "dev", "show", "list"])
        && facts.below(node, Subject::Device).next().is_some()
    {
        facts.set_members(Subject::Device, node, Membership::Known(output.origin()));
        // A link is a port; a list of devices has none.
        for device in facts.below(node, Subject::Device).collect::<Vec<_>>() {
            if output.has("link") && facts.below(device, Subject::Port).next().is_some() {
                facts.set_members(Subject::Port, device, Membership::Known(output.origin()));
            }
        }
    }
}

fn pairs(facts: &mut Facts, node: Id, name: &str, words: &[&str], line: &OutputLine<'_>) {
    let has = |word: &str| words.chunks(2).any(|pair| pair[0] == word);
    let port = name
        .split_once('/')
        .and_then(|(device, n)| Some((device, n.parse().ok()?)));
    let at = match port {
        Some((device, number)) => ports::port_of(facts, node, device, number),
        None if has("node_type") => facts.instance(Subject::Device, node, name),
        None if has("netns") => node,
        None => return,
    };
    for pair in words.chunks_exact(2) {
        let pair = (pair[0], pair[1]);
        match (pair, facts.subject(at)) {
            // Ports of Ethernet have none.
            (("subnet_prefix", _), _) => {
                facts.set(at, port::LINK_LAYER, line.known(LinkLayer::InfiniBand))
            }
            (("netdev", name), Subject::Port) => ports::runs_on(facts, node, at, name, line),
            ((name, value), Subject::Port) => {
                counters::count(facts, at, name, value, line);
                named::state(facts, at, named::PORT, pair, line);
            }
            (_, Subject::Device) => named::state(facts, at, named::DEVICE, pair, line),
            _ => named::state(facts, at, named::NODE, pair, line),
        }
    }
}
