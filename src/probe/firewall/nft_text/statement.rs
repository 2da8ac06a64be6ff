//! The statements of a rule, and their values.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::Words;

/// Statements that say nothing of what becomes of a packet, each with the words that go on with it.
const SILENT: [(&str, &[&str]); 3] = [
    ("counter", &["packets", "bytes", "name"]),
    ("log", &["prefix", "level", "group", "snaplen", "flags"]),
    ("comment", &[]),
];
const OPERATORS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];

impl<'w> Words<'w> {
    /// The next statement of a rule; nothing of one that says nothing.
    pub(super) fn read(&mut self) -> Option<Option<Value>> {
        let all = self.0;
        let word = self.take()?;
        if let Some((_, follow)) = SILENT.iter().find(|(silent, _)| *silent == word) {
            if word == "comment" {
                self.take();
            }
            while follow.contains(&self.peek()) {
                self.0 = self.0.get(2..)?;
            }
            return Some(None);
        }
        Some(Some(match word {
            "accept" | "drop" | "continue" | "return" | "notrack" => json!({ word: null }),
            "jump" | "goto" => json!({ word: { "target": self.take()? } }),
            "reject" | "queue" | "masquerade" | "snat" | "dnat" | "redirect" | "tproxy" => {
                self.0 = &[];
                json!({ word: null })
            }
            "limit" if self.takes("rate") => {
                let over = self.takes("over");
                let (rate, per) = self.take()?.split_once('/')?;
                if self.takes("burst") {
                    self.0 = self.0.get(2..)?;
                }
                json!({ "limit": { "rate": rate, "per": per, "inv": over } })
            }
            _ => {
                self.0 = all;
                self.matching()?
            }
        }))
    }

    /// `tcp dport != { 22, 80 }`, `ct state vmap { established : accept }`
    fn matching(&mut self) -> Option<Value> {
        let mut left = match self.take()? {
            kind @ ("iifname" | "oifname" | "iif" | "oif" | "mark") => {
                json!({ "meta": { "key": kind } })
            }
            kind @ ("ct" | "meta") => json!({ kind: { "key": self.take()? } }),
            "fib" => {
                let mut flags = vec![self.take()?];
                while self.takes(".") {
                    flags.push(self.take()?);
                }
                json!({ "fib": { "flags": flags, "result": self.take()? } })
            }
            kind @ ("ip" | "ip6" | "tcp" | "udp" | "th" | "icmp" | "icmpv6" | "ether" | "sctp") => {
                json!({ "payload": { "protocol": kind, "field": self.take()? } })
            }
            _ => return None,
        };
        if self.takes("vmap") {
            return Some(json!({ "vmap": { "key": left, "data": self.value()? } }));
        }
        if self.takes("set") {
            // Of a mark that is made of another nobody knows what it becomes.
            let value = self
                .take()
                .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
            return Some(json!({ "mangle": { "key": left, "value": value } }));
        }
        let named = OPERATORS.into_iter().find(|operator| self.takes(operator));
        let right = self.value()?;
        if self.takes("/") {
            left = json!({ "&": [left, self.value()?] });
        }
        // One flag, and several without braces, are any of them.
        let flags = ["state", "status", "flags"].map(Value::from);
        let of = [&left["ct"]["key"], &left["payload"]["field"]];
        let implied = match right.get("set") {
            None if of.iter().any(|of| flags.contains(of)) => "in",
            _ => "==",
        };
        Some(json!({ "match": { "op": named.unwrap_or(implied), "left": left, "right": right } }))
    }

    /// A value, several with commas, or a set.
    pub(super) fn value(&mut self) -> Option<Value> {
        if !self.takes("{") {
            let mut all = vec![plain(self.take()?)?];
            while self.takes(",") {
                all.push(plain(self.take()?)?);
            }
            return if all.len() == 1 {
                all.pop()
            } else {
                Some(json!(all))
            };
        }
        let mut set = Vec::new();
        while !self.takes("}") {
            let key = plain(self.take()?)?;
            set.push(match self.takes(":") {
                true => json!([key, self.read()??]),
                false => key,
            });
            // How long an element stays, and what it counted.
            while !self.takes(",") && self.peek() != "}" {
                self.take()?;
            }
        }
        Some(json!({ "set": set }))
    }
}

/// A word, a name in quotes, a prefix, or a range of numbers or addresses.
fn plain(word: &str) -> Option<Value> {
    let is_number = |text: &str| text.parse::<u64>().is_ok() || text.parse::<IpAddr>().is_ok();
    if let Some((address, length)) = word.split_once('/') {
        let length = length.parse::<u8>().ok()?;
        return Some(json!({ "prefix": { "addr": address, "len": length } }));
    }
    Some(match word.split_once('-') {
        Some((from, to)) if is_number(from) && is_number(to) => json!({ "range": [from, to] }),
        _ if word == "missing" || word == "exists" => json!(word == "exists"),
        _ if ["over", ".", "&", "|", "^"].contains(&word) => return None,
        _ => json!(word.trim_start_matches('"')),
    })
}
