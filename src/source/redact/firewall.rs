//! The packet filter's rules: addresses become pseudonyms that keep which subnet holds which, comments go.
//!
//! A range of addresses is written as the subnets that it is made of: pseudonyms keep subnets, and no order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::Names;
use super::key::Key;

/// Whether a command lists the packet filter's rules.
pub(super) fn lists_rules(argv: &[impl AsRef<str>]) -> bool {
    let Some(program) = argv.first().map(AsRef::as_ref) else {
        return false;
    };
    program == "nft"
        || program.ends_with("tables-save")
        || program.ends_with("tables-legacy-save")
        || program.ends_with("tables-nft-save")
}

/// What a command said; `None` if it has to be left out.
pub(super) fn rules(names: &Names, argv: &[impl AsRef<str>], text: &str) -> Option<String> {
    let plain = || !argv.iter().any(|word| word.as_ref() == "-j");
    if argv.first().map(AsRef::as_ref) == Some("nft") && plain() {
        // Which chain is at which device is all that is read of a plain listing.
        let kept = |line: &&str| {
            let first = line.split_whitespace().next();
            matches!(first, Some("table" | "chain" | "type" | "}"))
        };
        let lines = text.split_inclusive('\n').filter(kept);
        Some(lines.map(|line| names.free(line)).collect())
    } else if argv.first().map(AsRef::as_ref) == Some("nft") {
        let mut value: Value = serde_json::from_str(text).ok()?;
        walk(names, &mut value);
        serde_json::to_string(&value).ok()
    } else {
        Some(
            text.split_inclusive('\n')
                .map(|line| save_line(names, line))
                .collect(),
        )
    }
}

fn word(names: &Names, word: &str) -> String {
    match word.parse::<IpAddr>() {
        Ok(IpAddr::V4(a)) => names.key.ipv4(a).to_string(),
        Ok(IpAddr::V6(a)) => names.key.ipv6(a).to_string(),
        Err(_) => names.free(word),
    }
}

fn subnet(key: &Key, address: IpAddr, length: u32) -> String {
    match address {
        IpAddr::V4(a) => key.ipv4_net(a, length).to_string(),
        IpAddr::V6(a) => key.ipv6_net(a, length).to_string(),
    }
}

/// The subnets that a range of addresses is made of.
fn subnets(from: IpAddr, to: IpAddr) -> Vec<(IpAddr, u32)> {
    let (mut low, high, bits) = match (from, to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(u32::from(a)), u128::from(u32::from(b)), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a), u128::from(b), 128u32),
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    while low <= high {
        // The largest subnet that begins here and does not reach beyond the end.
        let mut free = low.trailing_zeros().min(bits);
        let last = |free: u32| match free {
            128 => u128::MAX,
            free => low | ((1u128 << free) - 1),
        };
        while free > 0 && last(free) > high {
            free -= 1;
        }
        let address = match bits {
            // All numbers of a range of IPv4 addresses have 32 bits.
            32 => IpAddr::V4(Ipv4Addr::from(low as u32)),
            _ => IpAddr::V6(Ipv6Addr::from(low)),
        };
        found.push((address, bits - free));
        match last(free).checked_add(1) {
            Some(next) => low = next,
            None => break,
        }
    }
    found
}

/// The range of addresses that an expression of nft is, as subnets under their pseudonyms.
fn range(key: &Key, value: &Value) -> Option<Vec<Value>> {
    let inner = value
        .get("elem")
        .and_then(|elem| elem.get("val"))
        .unwrap_or(value);
    let [from, to] = inner.get("range")?.as_array()?.as_slice() else {
        return None;
    };
    let (from, to) = (from.as_str()?.parse().ok()?, to.as_str()?.parse().ok()?);
    let parts = subnets(from, to).into_iter().map(|(address, length)| {
        json!({ "prefix": { "addr": subnet(key, address, length), "len": length } })
    });
    Some(parts.collect())
}

fn walk(names: &Names, value: &mut Value) {
    match value {
        Value::String(text) => *text = word(names, text),
        Value::Array(items) => {
            let mut out = Vec::with_capacity(items.len());
            for mut item in std::mem::take(items) {
                // An element of a set, and one of a map with what it leads to.
                if let Some(parts) = range(&names.key, &item) {
                    out.extend(parts);
                } else if let Some([first, target]) = item.as_array().map(Vec::as_slice)
                    && let Some(parts) = range(&names.key, first)
                {
                    let mut target = target.clone();
                    walk(names, &mut target);
                    out.extend(parts.into_iter().map(|part| json!([part, target])));
                } else {
                    walk(names, &mut item);
                    out.push(item);
                }
            }
            *items = out;
        }
        Value::Object(members) => {
            members.remove("comment");
            if let Some(prefix) = members.get_mut("log").and_then(|log| log.get_mut("prefix")) {
                *prefix = "redacted".into();
            }
            let net = members.get("addr").zip(members.get("len"));
            let net = net.and_then(|(addr, len)| {
                Some((
                    addr.as_str()?.parse().ok()?,
                    u32::try_from(len.as_u64()?).ok()?,
                ))
            });
            if let Some((address, length)) = net {
                members.insert("addr".into(), subnet(&names.key, address, length).into());
                return;
            }
            for member in members.values_mut() {
                match range(&names.key, member) {
                    Some(parts) => *member = json!({ "set": parts }),
                    None => walk(names, member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A line of iptables-save: its words one by one, so that no word before an address makes it look like a version.
fn save_line(names: &Names, line: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = String::new();
    while !rest.is_empty() {
        let blank = rest.len() - rest.trim_start().len();
        let (space, after) = rest.split_at(blank);
        out.push_str(space);
        let end = if after.starts_with('"') {
            quoted(after)
        } else {
            after.find(char::is_whitespace).unwrap_or(after.len())
        };
        let (this, next) = after.split_at(end);
        if this.is_empty() {
            break;
        }
        out.push_str(&match before.as_str() {
            "--comment" | "--log-prefix" | "--nflog-prefix" => "redacted".to_owned(),
            "--src-range" | "--dst-range" => ranges(&names.key, this),
            _ => argument(names, this),
        });
        before = this.to_owned();
        rest = next;
    }
    out
}

/// Where a quoted word ends.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// `10.0.0.1-10.0.0.9` as `10.0.0.1/32,10.0.0.2/31,…`.
fn ranges(key: &Key, text: &str) -> String {
    let ends = text
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match ends {
        Some((from, to)) => {
            let parts = subnets(from, to);
            let named = parts
                .iter()
                .map(|(address, length)| format!("{}/{length}", subnet(key, *address, *length)));
            named.collect::<Vec<_>>().join(",")
        }
        None => "redacted".into(),
    }
}

fn argument(names: &Names, text: &str) -> String {
    if let Some((address, length)) = text.split_once('/')
        && let Ok(address) = address.parse::<IpAddr>()
    {
        let bits = length.parse::<u32>().ok();
        let mask = length
            .parse::<Ipv4Addr>()
            .ok()
            .map(|mask| u32::from(mask).leading_ones());
        if let Some(bits) = bits.or(mask) {
            return format!("{}/{length}", subnet(&names.key, address, bits));
        }
    }
    word(names, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::from_text("k")
    }

    fn names() -> Names {
        Names::new(key(), "", &[])
    }

    fn nft(text: &str) -> Value {
        let said = rules(&names(), &["nft", "-j", "list", "ruleset"], text);
        serde_json::from_str(&said.unwrap()).unwrap()
    }

    fn save(text: &str) -> String {
        rules(&names(), &["iptables-legacy-save", "-t", "filter"], text).unwrap()
    }

    #[test]
    fn addresses_of_nft_become_pseudonyms_and_numbers_stay() {
        let ten = key().ipv4_net([10, 0, 0, 0].into(), 8);
        let host = key().ipv4([10, 1, 2, 3].into());
        let value = nft(
            r#"{"nftables":[{"rule":{"table":"fw","handle":7,"comment":"for alice","expr":[
                {"match":{"left":{"payload":{"protocol":"ip","field":"saddr"}},"right":{"set":[{"prefix":{"addr":"10.0.0.0","len":8}},"10.1.2.3"]}}},
                {"match":{"left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"range":[1000,2000]}}},
                {"log":{"prefix":"alice "}},{"drop":null}]}}]}"#,
        );
        let rule = &value["nftables"][0]["rule"];
        assert_eq!(rule.get("comment"), None);
        assert_eq!(rule["table"], "fw");
        let set = &rule["expr"][0]["match"]["right"]["set"];
        assert_eq!(set[0]["prefix"]["addr"], ten.to_string());
        assert_eq!(set[1], host.to_string());
        assert_eq!(
            rule["expr"][1]["match"]["right"]["range"],
            json!([1000, 2000])
        );
        assert!(!value.to_string().contains("alice"));
    }

    #[test]
    fn a_range_of_addresses_becomes_its_subnets() {
        let value = nft(
            r#"[{"match":{"right":{"range":["10.0.0.4","10.0.0.11"]}}},{"set":{"elem":[{"range":["10.0.0.4","10.0.0.4"]},5]}}]"#,
        );
        let parts = value[0]["match"]["right"]["set"].as_array().unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0]["prefix"]["len"], 30);
        assert_eq!(value[1]["set"]["elem"][0]["prefix"]["len"], 32);
        assert_eq!(value[1]["set"]["elem"][1], 5);
    }

    #[test]
    fn a_word_before_an_address_of_iptables_is_no_version() {
        let net = key().ipv4_net([10, 1, 0, 0].into(), 16);
        let line = "-A fw-in -s 10.1.0.0/16 -p tcp -m comment --comment \"host \\\"a\\\" of alice\" -m tcp --dport 22 -j ACCEPT\n";
        assert_eq!(
            save(line),
            format!(
                "-A fw-in -s {net}/16 -p tcp -m comment --comment redacted -m tcp --dport 22 -j ACCEPT\n"
            )
        );
        assert!(
            save("-A INPUT -m iprange --src-range 10.1.0.0-10.1.255.255 -j DROP\n")
                .contains(&format!("--src-range {net}/16 "))
        );
        assert_eq!(
            save(":INPUT ACCEPT [0:0]\n*filter\nCOMMIT\n"),
            ":INPUT ACCEPT [0:0]\n*filter\nCOMMIT\n"
        );
        assert_eq!(
            save("-A INPUT -m mark --mark 0x8000/0x8000 -j DROP\n"),
            "-A INPUT -m mark --mark 0x8000/0x8000 -j DROP\n"
        );
    }

    proptest! {
        #[test]
        fn subnets_are_the_range_and_nothing_else(a: u32, b: u32, c: u32) {
            let (low, high) = (a.min(b), a.max(b));
            let parts = subnets(Ipv4Addr::from(low).into(), Ipv4Addr::from(high).into());
            let inside = |n: u32| parts.iter().any(|(net, length)| match net {
                IpAddr::V4(net) => u64::from(u32::from(*net) ^ n) < 1u64 << (32 - length),
                IpAddr::V6(_) => false,
            });
            for n in [a, b, c, low.wrapping_sub(1), high.wrapping_add(1)] {
                prop_assert_eq!(inside(n), (low..=high).contains(&n), "{}", n);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-\"\\\\!a-z0-9./:, \\[\\]{}\n]{0,80}") {
            for program in ["nft", "iptables-legacy-save"] {
                let _ = rules(&names(), &[program], &text);
            }
        }
    }
}
