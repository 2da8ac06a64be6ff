//! Replies of benchmarks: the hosts that ranks ran on, the library's path, the variables of arms, and words in which addresses and hosts may stand. What
//! is a word of the benchmark's own stays, whoever is called like it.

use serde_json::{Map, Value};

use super::{Names, log, value};
use crate::source::question::Call;

/// Members whose text is a word or a number of the benchmark's own.
const OWN: &str = "\
    backend collective dtype op ended time figure unit version function way memory";

/// Whether a question asks for the log of a run.
pub(super) fn is_log(call: &Call) -> bool {
    call.args.iter().any(|(name, _)| &**name == "log")
}

/// A plan, or what became of a rank; `path` redacts a path as in the questions that have it.
pub(super) fn reply(names: &Names, path: &dyn Fn(&str) -> String, value: &Value) -> Value {
    value::mapped(value, "", &str::to_owned, &|member, leaf| match leaf {
        Value::String(one) => Some(text(names, path, member, one).into()),
        Value::Object(variables) if member == "set" => {
            let variables = variables.iter().map(|(name, value)| {
                let value = value::variable(names, name, value.as_str().unwrap_or(""));
                (name.clone(), value.into())
            });
            Some(variables.collect::<Map<_, _>>().into())
        }
        _ => None,
    })
}

fn text(names: &Names, path: &dyn Fn(&str) -> String, member: &str, text: &str) -> String {
    match member {
        "host" if !text.is_empty() => names.key.host(text),
        "library" => path(text),
        // As in the questions that name the arm.
        "name" => names.name(text),
        own if OWN.split(' ').any(|one| one == own) => text.to_owned(),
        // Words of a library or of the kernel, about whatever they were about.
        _ => log::file(names, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::redact::key::Key;
    use serde_json::json;

    #[test]
    fn hosts_addresses_and_paths_have_pseudonyms_and_figures_stay() {
        let key = Key::from_text("k");
        let mut names = Names::new(key.clone(), "node1720", &["alice"]);
        names.writers = ["node1720".to_owned()].into();
        let path = |path: &str| path.replace("alice", "user-1");
        let reply = json!({
            "ended": { "failed": { "function": "connect", "code": 111, "error": "rank 1 at 10.20.30.40:5000 on node1720: refused" } },
            "step": "all-reduce of 256 MiB: trial 3 of 5", "host": "node1720",
            "library": "/home/alice/venv/libnccl.so.2", "version": "2.21.5", "device": "mlx5_0/1 GID 3, 10.20.30.40",
            "points": [{ "bytes": 1024, "collective": "all-reduce", "dtype": "float32", "op": "sum", "ms": [0.5], "wrong": 0 }],
        });
        let mapped = super::reply(&names, &path, &reply);
        assert_eq!(mapped["points"], reply["points"]);
        assert_eq!(
            (&mapped["step"], &mapped["version"]),
            (&reply["step"], &reply["version"])
        );
        assert_eq!(mapped["host"], key.host("node1720"));
        assert_eq!(mapped["library"], "/home/user-1/venv/libnccl.so.2");
        let device = mapped["device"].as_str().unwrap();
        assert!(
            device.starts_with("mlx5_0/1 GID 3, ") && !device.contains("10.20.30.40"),
            "{device}"
        );
        let text = mapped.to_string();
        assert!(
            !text.contains("node1720") && !text.contains("10.20.30.40"),
            "{text}"
        );
        assert_eq!(mapped["ended"]["failed"]["code"], 111);

        let pairs = json!({ "pairs": {
            "backend": "verbs", "why": { "without": { "host": "node1720", "why": "mlx5_0/1: no library" } },
            "nodes": [{ "host": "node1720", "rails": [{ "device": "mlx5_0/1", "port": "mlx5_0/1 GID 3 MTU 4096", "gid": "::ffff:10.20.30.40", "mtu": 9000,
                "gpu": { "pci": "0000:1b:00.0", "way": "peer-memory", "why": "ibv_reg_dmabuf_mr: refused on node1720", "by_facts": "dma-buf" } }] }],
            "memory": ["host", "gpu"],
        } });
        let flow = json!({
            "failed": "transport retry counter exceeded (IBV_WC_RETRY_EXC_ERR, vendor error 129): RDMA write from GID ::ffff:10.20.30.40 to GID fe80::ba3f:d2ff:fe01:203",
            "arrived": false, "sender": { "packet_seq_err": 5 },
        });
        let (pairs, mapped) = (
            super::reply(&names, &path, &pairs),
            super::reply(&names, &path, &flow),
        );
        let text = format!("{pairs}{mapped}");
        for secret in ["node1720", "10.20.30.40", "a14:1e28", "d2ff:fe01:203"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        let failed = mapped["failed"].as_str().unwrap();
        assert!(failed.starts_with("transport retry counter exceeded (IBV_WC_RETRY_EXC_ERR, vendor error 129): RDMA write from GID ::ffff:"), "{failed}");
        assert_eq!(
            (&mapped["arrived"], &mapped["sender"]),
            (&flow["arrived"], &flow["sender"])
        );
        let rail = &pairs["pairs"]["nodes"][0]["rails"][0];
        assert_eq!(rail["port"], "mlx5_0/1 GID 3 MTU 4096");
        assert_eq!(pairs["pairs"]["memory"], json!(["host", "gpu"]));
        for (member, word) in [
            ("pci", "0000:1b:00.0"),
            ("way", "peer-memory"),
            ("by_facts", "dma-buf"),
        ] {
            assert_eq!(rail["gpu"][member], word);
        }

        let plan = json!({
            "arms": [{ "name": "nic", "set": { "NCCL_IB_HCA": "mlx5_0", "NCCL_COMM_ID": "node7:1234", "MY_TOKEN": "hunter2" } }],
            "ranks": [{ "node": 0, "gpu": "0000:1b:00.0" }, { "node": 0, "device": "10.20.30.40" }],
        });
        let mapped = super::reply(&names, &path, &plan);
        let set = &mapped["arms"][0]["set"];
        assert_eq!(set["NCCL_IB_HCA"], "mlx5_0");
        assert_eq!(set["NCCL_COMM_ID"], format!("{}:1234", key.host("node7")));
        assert_eq!(set["MY_TOKEN"], "redacted");
        assert_eq!(mapped["ranks"][0], plan["ranks"][0]);
        assert_ne!(mapped["ranks"][1], plan["ranks"][1]);
    }
}
