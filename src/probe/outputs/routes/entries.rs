//! Lists of ip(8), as words: of text each entry's line with those that go on, of `-j` the values with the words before which text has them.

use serde_json::Value;

use crate::probe::outputs::Output;

/// The keys of JSON, each with what stands before its value in a line of text, in the order of the text.
pub(super) type Keys = &'static str;

pub(super) const ROUTE: Keys = "type= dst= gateway=via via=via family= host= dev=dev table=table metric=metric prefsrc=src mtu=mtu metrics= nexthops=";
pub(super) const RULE: Keys = "priority= not=not src=from srclen=/ dst=to dstlen=/ tos=tos fwmark=fwmark iif=iif oif=oif uid_start=uidrange \
    ipproto=ipproto sport=sport dport=dport l3mdev=l3mdev table=lookup suppress_prefixlen=suppress_prefixlength goto=goto action=";
pub(super) const NEIGHBOUR: Keys = "dst= dev=dev lladdr=lladdr state=";

/// The entries of a list, as words. A line that does not begin one goes on with the one before.
pub(super) fn entries(
    output: &Output,
    begins: fn(&[&str]) -> bool,
    keys: Keys,
) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    if let Ok(list) = serde_json::from_str::<Vec<Value>>(&output.text()) {
        for one in &list {
            let mut words = Vec::new();
            add(one, keys, &mut words);
            all.push(words);
        }
        return all;
    }
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let is_first = begins(&words) || all.is_empty();
        let words = words.into_iter().map(str::to_owned);
        match all.last_mut().filter(|_| !is_first) {
            Some(last) => last.extend(words),
            None => all.push(words.collect()),
        }
    }
    all
}

fn add(value: &Value, keys: Keys, words: &mut Vec<String>) {
    match value {
        Value::Object(of) => {
            for (key, word) in keys.split(' ').filter_map(|pair| pair.split_once('=')) {
                match (of.get(key), words.last_mut()) {
                    (Some(value), Some(last)) if word == "/" => *last += &format!("/{value}"),
                    (Some(value), _) => {
                        words.extend((!word.is_empty()).then(|| word.to_owned()));
                        add(value, keys, words);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|one| add(one, keys, words)),
        Value::String(text) => words.push(text.clone()),
        Value::Number(number) => words.push(number.to_string()),
        _ => {}
    }
}
