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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_addresses_and_paths_have_pseudonyms_and_figures_stay() {
        let key = Key::from_text("k");
        let names = Names::new("node1720", &["alice"]);
        let hosts: HashSet<String> = ["node1720".to_owned()].into();
        let said = json!({
            "ended": { "failed": { "function": "connect", "code": 111, "error": "rank 1 at 10.20.30.40:5000 on node1720: refused" } },
            "step": "all-reduce of 256 MiB: trial 3 of 5", "host": "node1720",
            "library": "/home/alice/venv/libnccl.so.2", "version": "2.21.5", "device": "mlx5_0/1 GID 3, 10.20.30.40",
            "points": [{ "bytes": 1024, "collective": "all-reduce", "dtype": "float32", "op": "sum", "ms": [0.5], "wrong": 0 }],
        });
        let mapped = reply(&key, &names, &hosts, &said);
        assert_eq!(mapped["points"], said["points"]);
        for member in ["step", "version"] {
            assert_eq!(mapped[member], said[member]);
        }
        assert_eq!(mapped["host"], key.host("node1720"));
        assert_eq!(mapped["ended"]["failed"]["code"], 111);
        let device = mapped["device"].as_str().unwrap();
        assert!(device.starts_with("mlx5_0/1 GID 3, "), "{device}");
        let text = mapped.to_string();
        for secret in ["node1720", "10.20.30.40", "alice"] {
            assert!(!text.contains(secret), "{text}");
        }
        let plan = json!({
            "arms": [{ "name": "nic", "set": { "NCCL_IB_HCA": "mlx5_0", "NCCL_COMM_ID": "node7:1234", "MY_TOKEN": "hunter2" } }],
            "ranks": [{ "node": 0, "gpu": "0000:1b:00.0" }, { "node": 0, "device": "10.20.30.40" }],
        });
        let mapped = reply(&key, &names, &hosts, &plan);
        let set = &mapped["arms"][0]["set"];
        assert_eq!(set["NCCL_IB_HCA"], "mlx5_0");
        assert_eq!(set["NCCL_COMM_ID"], format!("{}:1234", key.host("node7")));
        assert_eq!(set["MY_TOKEN"], "redacted");
        assert_eq!(mapped["ranks"][0], plan["ranks"][0]);
        assert_ne!(mapped["ranks"][1], plan["ranks"][1]);
    }
}
