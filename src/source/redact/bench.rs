//! Replies of benchmarks: the hosts that ranks ran on, addresses in what they say of devices and failures, values of variables. What is a word of the
//! benchmark's own stays, whoever is called like it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::key::Key;
use super::text::Kind;
use super::{Names, log, scan, value};
use crate::source::question::Call;

/// Members whose text is a word or a number of the benchmark's own.
const OWN: [&str; 10] = [
    "backend",
    "collective",
    "dtype",
    "op",
    "ended",
    "time",
    "figure",
    "unit",
    "version",
    "function",
];

/// Whether a question asks for the log of a run.
pub(super) fn is_log(call: &Call) -> bool {
    call.args.iter().any(|(name, _)| &**name == "log")
}

/// A reply that is no log, with pseudonyms.
pub(super) fn reply(key: &Key, names: &Names, hosts: &HashSet<String>, value: &Value) -> Value {
    let of = |value: &Value| reply(key, names, hosts, value);
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("set", Value::Object(set)) => variables(key, names, set),
                    ("host", Value::String(host)) if !host.is_empty() => key.host(host).into(),
                    // As in the questions that name the arm.
                    ("name", Value::String(arm)) => scan(key, names, arm, Kind::NAME).into(),
                    (name, Value::String(_)) if OWN.contains(&name) => value.clone(),
                    (_, value) => of(value),
                };
                (name.clone(), value)
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(of).collect(),
        Value::String(text) => log::file(key, names, hosts, text).into(),
        other => other.clone(),
    }
}

fn variables(key: &Key, names: &Names, set: &Map<String, Value>) -> Value {
    let of = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => value::variable(key, names, name, text).into(),
            other => other.clone(),
        };
        (name.clone(), value)
    };
    set.iter().map(of).collect::<Map<_, _>>().into()
}
