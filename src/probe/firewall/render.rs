//! A rule as nft(8) writes it, from its JSON, for findings.

use std::sync::Arc;

use serde_json::Value;

use super::nft::{one_member, verdict};

/// The rule with its place and handle: `inet filter in handle 7: udp dport 4791 drop`.
pub(super) fn rule_text(rule: &Value) -> Arc<str> {
    let of = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or("?");
    let family = match of("family") {
        family @ ("ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev") => family,
        _ => "?",
    };
    let handle = rule.get("handle").and_then(Value::as_u64);
    let handle = handle.map_or_else(String::new, |handle| format!(" handle {handle}"));
    let statements = rule.get("expr").and_then(Value::as_array);
    let words = statements.into_iter().flatten().map(statement);
    let words: Vec<String> = words.filter(|said| !said.is_empty()).collect();
    format!(
        "{} {} {}{handle}: {}",
        family,
        of("table"),
        of("chain"),
        words.join(" ")
    )
    .into()
}

fn statement(statement: &Value) -> String {
    let Some((kind, what)) = one_member(statement) else {
        return plain(statement);
    };
    let side = |key| what.get(key).map(expression).unwrap_or_default();
    match kind {
        "match" => {
            let op = what.get("op").and_then(Value::as_str).unwrap_or("==");
            let op = match op {
                "==" | "in" => String::new(),
                op => format!("{op} "),
            };
            format!("{} {op}{}", side("left"), side("right"))
        }
        "counter" | "log" | "last" => String::new(),
        "jump" | "goto" => {
            let target = what.get("target").and_then(Value::as_str);
            format!("{kind} {}", target.unwrap_or("?"))
        }
        "vmap" => format!("{} vmap {}", side("key"), side("data")),
        "limit" => {
            let over = what.get("inv").and_then(Value::as_bool) == Some(true);
            let number = |key: &str| what.get(key).map(plain).unwrap_or_default();
            let over = if over { "over " } else { "" };
            format!("limit rate {over}{}/{}", number("rate"), number("per"))
        }
        "mangle" => format!("{} set {}", side("key"), side("value")),
        "xt" => format!("xt {}", what.get("name").map(plain).unwrap_or_default()),
        kind => kind.to_owned(),
    }
}

fn expression(value: &Value) -> String {
    if let Value::Array(list) = value {
        return match list.as_slice() {
            // An element of a map.
            [key, target @ Value::Object(_)] if is_verdict(target) => {
                format!("{} : {}", expression(key), statement(target))
            }
            list => list.iter().map(expression).collect::<Vec<_>>().join(","),
        };
    }
    let Some((kind, what)) = one_member(value) else {
        return plain(value);
    };
    let word = |key: &str| what.get(key).map(plain).unwrap_or_default();
    let list = |between: &str| {
        let parts = what.as_array().into_iter().flatten();
        parts.map(expression).collect::<Vec<_>>().join(between)
    };
    match kind {
        "meta" => match &*word("key") {
            key @ ("iifname" | "oifname" | "iif" | "oif") => key.to_owned(),
            key => format!("meta {key}"),
        },
        "ct" => format!("ct {}", word("key")),
        "payload" => format!("{} {}", word("protocol"), word("field")),
        "fib" => format!("fib {}", word("result")),
        "set" => {
            let parts = what.as_array().map(Vec::as_slice).unwrap_or_default();
            let shown: Vec<String> = parts.iter().take(8).map(expression).collect();
            let more = if parts.len() > 8 { ", ..." } else { "" };
            format!("{{ {}{more} }}", shown.join(", "))
        }
        "range" => list("-"),
        "prefix" => format!("{}/{}", word("addr"), word("len")),
        "concat" => list(" . "),
        "elem" => what.get("val").map(expression).unwrap_or_default(),
        "&" | "|" | "^" => list(&format!(" {kind} ")),
        kind => kind.to_owned(),
    }
}

fn is_verdict(value: &Value) -> bool {
    one_member(value).is_some_and(|(kind, what)| verdict(kind, what).is_some())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}
