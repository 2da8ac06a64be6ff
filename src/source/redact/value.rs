//! JSON values: the replies of library calls, and the environment.

use serde_json::{Map, Value};

use super::key::Key;
use super::log::words;
use super::text::{self, Kind};
use super::words::is_secret;
use super::{Names, files, module, nvml, settings};
use crate::launch;
use crate::source::wire;

/// Variables that a recording holds. The question asks for these prefixes; an answer with more of them is cut here.
///
/// Kubernetes' own two or three say that this is a pod.
const PREFIXES: &str = "NCCL_ UCX_ FI_ CUDA_ KUBERNETES_SERVICE_";
/// Settings besides NCCL's, and variables that describe a job.
const OTHER_PREFIXES: &str = "\
    GLOO_ TP_SOCKET_IFNAME OMPI_MCA_ OMPI_COMM_WORLD_ PRTE_MCA_ I_MPI_ NVSHMEM_ HOROVOD_ MASTER_ \
    PET_ TORCH_ IBV_FORK_SAFE MLX5_ RDMAV_ WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE \
    SLURM_STEP_NUM_NODES SLURM_JOB_NUM_NODES SLURM_NNODES NNODES RANK LOCAL_RANK GROUP_RANK \
    NODE_RANK";

/// Whether a recording holds the variable of this name.
pub(in crate::source) fn is_recorded(name: &str) -> bool {
    let mut prefixes = PREFIXES.split(' ').chain(OTHER_PREFIXES.split(' '));
    prefixes.any(|prefix| name.starts_with(prefix))
}

/// Variables in which launchers say how many tasks they started: numbers.
const LAUNCHERS: [&str; 4] = [
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_TASKS_PER_NODE",
];

/// Whether a variable holds a number by which a launch is understood.
fn is_rank(name: &str, value: &Value) -> bool {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    value.as_str().is_some_and(is_number) && launch::numbers().any(|known| known == name)
}

/// The environment of a job's process: that of the doctor's own, and the number of ranks.
pub(super) fn job_environment(names: &Names, value: &Value) -> Value {
    let mut kept = environment(names, value);
    if let (Value::Object(kept), Value::Object(all)) = (&mut kept, value) {
        for name in launch::RANK_COUNTS {
            // Its longer relatives (SLURM_NTASKS_PER_NODE) begin like it and are not kept.
            if let Some(number) = all.get(name).filter(|n| {
                n.as_str()
                    .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            }) {
                kept.insert(name.to_owned(), number.clone());
            }
        }
    }
    kept
}

/// The same value with other leaves, each by the name of the member that it is in: those that `leaf` leaves stay as they are. `name` maps the names
/// of members.
pub(super) fn mapped(
    value: &Value,
    member: &str,
    name: &dyn Fn(&str) -> String,
    leaf: &dyn Fn(&str, &Value) -> Option<Value>,
) -> Value {
    match (leaf(member, value), value) {
        (Some(mapped), _) => mapped,
        (None, Value::Array(items)) => (items.iter())
            .map(|item| mapped(item, member, name, leaf))
            .collect(),
        (None, Value::Object(members)) => (members.iter())
            .map(|(member, value)| (name(member), mapped(value, member, name, leaf)))
            .collect::<Map<_, _>>()
            .into(),
        (None, other) => other.clone(),
    }
}

/// A reply whose texts speak of people and places: lines of a log, names of programs, files that a program has open.
pub(super) fn free(names: &Names, value: &Value) -> Value {
    let key = &names.key;
    mapped(value, "", &|name| names.free(name), &|_, leaf| {
        let text = targets(key, &server(key, &programs(key, leaf.as_str()?)));
        Some(names.free(&text).into())
    })
}

/// Lines of files of the boot, by the paths of these: the order of files is that of their names, which begin with digits.
pub(super) fn boot_settings(names: &Names, value: &Value) -> Value {
    const OWN_NAMES: [&str; 8] = [
        "/boot/",
        "/etc/default/",
        "/etc/kernel/",
        "/etc/modules",
        "/etc/network/interfaces",
        "/etc/sysconfig/",
        "/etc/sysctl.conf",
        "/etc/tuned/",
    ];
    let path = |path: &str| match path.rsplit_once('/') {
        Some((directory, file)) if !OWN_NAMES.iter().any(|own| path.starts_with(own)) => {
            let bare = file.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
            let (name, ending) = bare.rsplit_once('.').unwrap_or((bare, ""));
            let before = &file[..file.len() - bare.len()];
            let other = names.key.other(name);
            format!("{}/{before}{other}.{ending}", names.free(directory))
        }
        _ => path.to_owned(),
    };
    mapped(value, "", &path, &|_, leaf| {
        let text = leaf.as_str()?;
        Some(if text.starts_with('/') {
            path(text).into()
        } else {
            names.free(text).into()
        })
    })
}

/// Lines of the kernel's log: a driver may name a peer in any of them.
pub(super) fn kernel_log(names: &Names, value: &Value) -> Value {
    let without_peers = mapped(value, "", &str::to_owned, &|_, leaf| {
        let said = words(leaf.as_str()?, |word, _, _| {
            is_domain_name(word).then(|| names.key.host(word))
        });
        Some(said.into())
    });
    free(names, &without_peers)
}

/// Whether a word is the name of a host with its domain: three parts, and the last one of letters.
fn is_domain_name(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() > 2
        && parts
            .iter()
            .all(|part| !part.is_empty() && !part.contains('_'))
        && parts
            .last()
            .is_some_and(|part| part.len() > 1 && is_of_letters(part))
}

fn is_of_letters(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The processes of the machine: of each the program, and the function of the kernel in which it waits.
pub(super) fn processes(names: &Names, value: &Value) -> Value {
    with_texts(value, &|member, text| match member {
        "name" => nvml::program(&names.key, text),
        _ => names.free(text),
    })
}

/// Processes of ranks: what they wait for, and the variables of their launcher.
pub(super) fn ranks(names: &Names, value: &Value) -> Value {
    with_texts(value, &|member, text| match member {
        "name" | "function" => nvml::program(&names.key, text),
        "state" | "call" | "waits_in" | "stack" | "withheld" => text.to_owned(),
        "file" if text.ends_with(']') && !text.starts_with('/') => text.to_owned(),
        "MASTER_PORT" => text.to_owned(),
        member
            if member
                .bytes()
                .all(|byte| byte != b'_' && !byte.is_ascii_uppercase()) =>
        {
            names.free(text)
        }
        variable => self::variable(names, variable, text),
    })
}

/// The same value with other texts, each by the name of the member that it is in; names of members stay.
pub(super) fn with_texts(value: &Value, text: &dyn Fn(&str, &str) -> String) -> Value {
    mapped(value, "", &str::to_owned, &|member, leaf| {
        Some(text(member, leaf.as_str()?).into())
    })
}

/// Hands out each text of a value.
pub(super) fn each_text(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, take)),
        Value::Object(members) => members.values().for_each(|member| each_text(member, take)),
        _ => {}
    }
}

/// `nfs: server NAME not responding`, `nfs: server NAME OK`: no form betrays the name.
fn server(key: &Key, text: &str) -> String {
    let Some((before, rest)) = text.split_once("server ") else {
        return text.to_owned();
    };
    match rest.split_once(' ') {
        Some((name, after))
            if (after.starts_with("not responding") || after == "OK")
                && name.bytes().any(|b| b.is_ascii_alphabetic()) =>
        {
            format!("{before}server {} {after}", key.host(name))
        }
        _ => text.to_owned(),
    }
}

/// Programs in lines of the kernel's log: `Xid (PCI:0000:c1:00): 31, pid=4711, name=train.py, Ch 8`, `task train:4711 blocked`, `Comm: train`,
/// `Killed process 4711 (train)`, `train[4711]: segfault`.
pub(super) fn programs(key: &Key, text: &str) -> String {
    let mut text = text.to_owned();
    let mut hide = |before: &str, ends: &[char]| {
        let Some((head, rest)) = text.split_once(before) else {
            return;
        };
        let end = rest.find(ends).unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        text = format!("{head}{before}{}{tail}", nvml::program(key, name));
    };
    hide(", name=", &[',', '\n']);
    hide("Comm: ", &[' ', '\n']);
    hide("comm=", &[' ', ',', '\n']);
    hide("task ", &[':', ' ', '\n']);
    for before in ["Killed process ", "Kill process "] {
        let number = text.split_once(before).map(|(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest.get(..digits).unwrap_or("").to_owned()
        });
        if let Some(number) = number {
            let mut hide = |before: &str| {
                let (head, rest) = text.split_once(before)?;
                let (name, tail) = rest.split_once(')')?;
                text = format!("{head}{before}{}){tail}", nvml::program(key, name));
                Some(())
            };
            hide(&format!("{before}{number} ("));
        }
    }
    if let Some(at) = text
        .find("]: segfault")
        .or_else(|| text.find("] general protection"))
    {
        let head = text.get(..at).unwrap_or("");
        let start = head.rfind(' ').map_or(0, |at| at + 1);
        if let Some((name, _)) = head.get(start..).unwrap_or("").split_once('[') {
            let tail = text.get(start + name.len()..).unwrap_or("");
            text = format!("{}{}{tail}", &head[..start], nvml::program(key, name));
        }
    }
    text
}

/// The targets of a Lustre file system, which have its name: `scratch-OST0003-osc-ffff9e4b`, `scratch-MDT0000`.
fn targets(key: &Key, text: &str) -> String {
    let Some((before, after)) = text.split_once("-OST").or_else(|| text.split_once("-MDT")) else {
        return text.to_owned();
    };
    let digits = after.bytes().take_while(u8::is_ascii_hexdigit).count();
    let start = before
        .rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        .map_or(0, |at| at + 1);
    let (Some(head), Some(name), Some(mark)) = (
        before.get(..start),
        before.get(start..),
        text.get(before.len()..before.len() + 4),
    ) else {
        return text.to_owned();
    };
    if digits < 4 || name.is_empty() {
        return text.to_owned();
    }
    format!("{head}{}{mark}{}", key.other(name), targets(key, after))
}

/// The environment: only the variables that matter, no secrets, no hosts.
pub(super) fn environment(names: &Names, value: &Value) -> Value {
    let Value::Object(variables) = value else {
        return Value::Null;
    };
    variables
        .iter()
        .filter(|(name, value)| {
            is_recorded(name)
                || LAUNCHERS.contains(&&***name)
                || is_rank(name, value)
                || name.as_str() == "TMPDIR"
        })
        .map(|(name, value)| {
            let text = value.as_str().unwrap_or("");
            (name.clone(), variable(names, name, text).into())
        })
        .collect::<Map<_, _>>()
        .into()
}

/// A file of `NAME=VALUE` lines, as NCCL's configuration is.
pub(super) fn assignments(names: &Names, text: &str) -> String {
    let one = |line: &str| match line.split_once('=') {
        Some((name, value)) if !line.starts_with('#') => {
            let end = value.trim_end_matches(['\r', '\n']).len();
            let (value, end) = value.split_at(end);
            let name = name.to_owned();
            format!("{name}={}{end}", variable(names, &name, value))
        }
        _ if line.starts_with('#') => line.trim_start_matches(|c| c != '\n').replace('\n', "#\n"),
        _ => names.free(line),
    };
    text.split_inclusive('\n').map(one).collect()
}

/// The value of a variable, by its name.
pub(super) fn variable(names: &Names, name: &str, text: &str) -> String {
    if is_secret(name) {
        names.key.secret(text)
    } else if names_hosts(name) {
        hosts(names, text)
    } else {
        let dotted = !text::is_version_word(name);
        names.scan(
            text,
            Kind {
                dotted,
                ..Kind::LISTED
            },
        )
    }
}

/// What a file of the user's says: variables for every rank, or settings.
pub(super) fn home_file(names: &Names, file: &str, value: &Value) -> Value {
    match value.get("text").and_then(Value::as_str) {
        Some(text) if file == ".deepspeed_env" => {
            serde_json::json!({ "text": settings::variables(names, text) })
        }
        Some(text) => serde_json::json!({ "text": settings::assignments(names, text) }),
        None => serde_json::json!({ "absent": value.get("absent") == Some(&Value::Bool(true)) }),
    }
}

/// Whether a variable's value names a host: `NCCL_COMM_ID=node7:2345`, `NCCL_HOSTID`.
fn names_hosts(name: &str) -> bool {
    name.split('_')
        .any(|word| matches!(word, "HOST" | "HOSTS" | "HOSTID" | "HOSTNAME" | "SERVER"))
        || matches!(
            name,
            "NCCL_COMM_ID" | "MASTER_ADDR" | "PET_MASTER_ADDR" | "PET_RDZV_ENDPOINT"
        )
}

pub(super) fn hosts(names: &Names, text: &str) -> String {
    let one = |part: &str| {
        let (host, port) = part.split_once(':').unwrap_or((part, ""));
        let is_name = host.bytes().any(|b| b.is_ascii_alphabetic()) && !port.contains(':');
        match (is_name && !host.contains('/'), port) {
            (false, _) => names.free(part),
            (true, "") => names.key.host(host),
            (true, port) => format!("{}:{}", names.key.host(host), names.free(port)),
        }
    };
    text.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// The memory of a cable or transceiver, in hexadecimal digits; of other members only numbers are kept.
pub(super) fn module(key: &Key, value: &Value) -> Value {
    let Value::Object(members) = value else {
        return Value::Null;
    };
    let kept = members.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) if name == "hex" => {
                wire::to_hex(&module::memory(key, &wire::from_hex(text)?)).into()
            }
            Value::Number(_) => value.clone(),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    kept.collect::<Map<_, _>>().into()
}

/// The reply of a call: texts are scanned, and the name of a member says what a number or a list of bytes is.
pub(super) fn reply(names: &Names, value: &Value) -> Value {
    mapped(value, "", &|name| names.name(name), &|member, leaf| {
        let kind = MemberKind::of(member);
        match leaf {
            Value::Number(number) if kind == MemberKind::Address => {
                let guid = number.as_u64().filter(|guid| guid >> 48 != 0)?;
                Some(names.key.guid(guid).into())
            }
            Value::String(text) => Some(member_text(names, kind, text).into()),
            Value::Array(items) => match (kind, bytes(items)?) {
                (MemberKind::Address, bytes) => {
                    Some(names.key.hardware(&bytes).unwrap_or_default().into())
                }
                (MemberKind::Serial, _) => Some(Value::Null),
                _ => None,
            },
            _ => None,
        }
    })
}

fn member_text(names: &Names, kind: MemberKind, text: &str) -> String {
    match kind {
        MemberKind::Serial => names.key.serial(text),
        MemberKind::Secret => names.key.secret(text),
        MemberKind::Host => files::host(&names.key, text),
        MemberKind::Description => files::node_description(names, text),
        MemberKind::Address => {
            address(&names.key, text).unwrap_or_else(|| names.scan(text, Kind::KERNEL))
        }
        MemberKind::Version => names.name(text),
        // Bare digits are as likely a bitmap, as of link modes.
        MemberKind::Other => names.scan(
            text,
            Kind {
                bare: false,
                ..Kind::KERNEL
            },
        ),
    }
}

/// Hexadecimal digits that are an address whatever is in them.
fn address(key: &Key, text: &str) -> Option<String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !matches!(digits.len(), 12 | 16 | 32 | 40) {
        return None;
    }
    let mapped = key.hardware(&wire::from_hex(digits)?)?;
    let digits = wire::to_hex(&mapped);
    Some(if text.starts_with("0x") {
        format!("0x{digits}")
    } else {
        digits
    })
}

fn bytes(items: &[Value]) -> Option<Vec<u8>> {
    let byte = |item: &Value| item.as_u64().and_then(|n| u8::try_from(n).ok());
    items
        .iter()
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .filter(|b| !b.is_empty())
}

/// What kind of text a member of an object is, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    Serial,
    Secret,
    Host,
    Description,
    Address,
    Version,
    Other,
}

impl MemberKind {
    fn of(member: &str) -> Self {
        let member = member.to_ascii_lowercase();
        let word = |one: &str| member.split(['_', '-', '.']).any(|word| word == one);
        if member.contains("serial") || word("sn") || word("uuid") {
            MemberKind::Serial
        } else if is_secret(&member) {
            MemberKind::Secret
        } else if member.contains("hostname") || word("host") {
            MemberKind::Host
        } else if matches!(&*member, "node_desc" | "node_description") {
            MemberKind::Description
        } else if member.contains("guid")
            || ["gid", "mac", "address", "addr", "hwaddr", "gids"]
                .iter()
                .any(|w| word(w))
        {
            MemberKind::Address
        } else if text::is_version_word(&member) {
            MemberKind::Version
        } else {
            MemberKind::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key() -> Key {
        Key::from_text("k")
    }

    fn names() -> Names {
        Names::new(key(), "", &[])
    }

    #[test]
    fn the_environment_keeps_what_matters_and_no_secret() {
        let names = Names::new(Key::from_text("k"), "node1720", &["alice"]);
        let value = environment(
            &names,
            &json!({
                "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1", "NCCL_IB_PKEY": "0x8001", "NCCL_API_KEY": "hunter2", "UCX_TOKEN": "t0k",
                "NCCL_DEBUG_FILE": "/home/alice/secret-project/log.txt", "NCCL_COMM_ID": "node1720:1234", "PATH": "/home/alice/bin",
                "FI_PROVIDER": "efa", "KUBERNETES_SERVICE_HOST": "10.96.0.1", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_X": "http://u:pw@proxy.corp.example:8080/p", "NCCL_VERSION": "2.1.5.1",
                "SLURM_STEP_TASKS_PER_NODE": "8(x2)", "SLURM_JOB_NAME": "secret-project",
            }),
        );
        let host = key().host("node1720");
        assert_eq!(value["NCCL_IB_HCA"], "=mlx5_0:1,mlx5_1");
        assert_eq!(value["NCCL_IB_PKEY"], "0x8001");
        assert_eq!(value["NCCL_VERSION"], "2.1.5.1");
        assert_eq!(value["SLURM_STEP_TASKS_PER_NODE"], "8(x2)");
        assert_eq!(value["NCCL_API_KEY"], "redacted");
        assert_eq!(value["UCX_TOKEN"], "redacted");
        assert_eq!(value["NCCL_COMM_ID"], format!("{host}:1234"));
        assert_eq!(value.get("PATH"), None);
        let all = value.to_string();
        for secret in [
            "alice",
            "hunter2",
            "t0k",
            "secret-project",
            "corp",
            "pw@",
            "10.96.0.1",
        ] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        assert!(all.contains("/log.txt") && all.contains(":8080/p"), "{all}");
    }

    #[test]
    fn a_log_keeps_its_meaning_and_no_names() {
        let names = Names::new(Key::from_text("k"), "node1720", &["alice"]);
        let line = |text: &str| {
            let value = free(&names, &json!({ "told": [{ "t": 5, "text": text }] }));
            value["told"][0]["text"].as_str().unwrap().to_owned()
        };
        let host = key().host("nas1");
        assert_eq!(
            line("nfs: server nas1 not responding, still trying"),
            format!("nfs: server {host} not responding, still trying")
        );
        assert_eq!(
            line("nfs: server nas1 OK"),
            format!("nfs: server {host} OK")
        );
        let lines = json!({ "told": [{ "text": "rpcrdma: connection to nas1.numbat.example:20049 failed" }] });
        let said = kernel_log(&names, &lines).to_string();
        assert!(!said.contains("nas1") && !said.contains("numbat"), "{said}");
        let lines = json!({ "told": [{ "text": "python3[7]: segfault in libc.so.6[7f00], 6.1.0-56-amd64" }] });
        let said = kernel_log(&names, &lines).to_string();
        assert!(
            said.contains("libc.so.6") && said.contains("6.1.0-56-amd64"),
            "{said}"
        );
        for kept in [
            "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "mlx5_core 0000:1b:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot (27W).",
            "DMAR: [DMA Write NO_PASID] Request device [1a:00.0] fault addr 0xfee00000 [fault reason 0x05]",
            "mlx5_core 0000:0c:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0",
        ] {
            assert_eq!(line(kept), kept);
        }
        let lost = line(
            "Lustre: secret-OST0003-osc-ffff9e4b: Connection to secret-OST0003 (at 10.1.2.3@o2ib) was lost",
        );
        assert!(
            !lost.contains("secret") && !lost.contains("10.1.2.3"),
            "{lost}"
        );
        let name = lost.split(' ').nth(1).unwrap().trim_end_matches(':');
        assert!(name.ends_with("-OST0003-osc-ffff9e4b"), "{lost}");
        assert!(
            line("Lustre: secret-OST0003-osc-ffff9e4b: Connection restored to  (at 10.1.2.3@o2ib)")
                .contains(name)
        );
        assert!(!line("Killed process 7 (alice)").contains("alice"));
        assert!(!line("add gid fe80:0000:0000:0000:ad3e:e3ff:fe92:b31b").contains("ad3e"));
    }

    #[test]
    fn a_jobs_environment_keeps_the_number_of_ranks() {
        let value = job_environment(
            &names(),
            &json!({ "WORLD_SIZE": "16", "SLURM_NTASKS": "x", "NCCL_DEBUG": "INFO", "AWS_KEY": "k" }),
        );
        assert_eq!(value, json!({ "WORLD_SIZE": "16", "NCCL_DEBUG": "INFO" }));
    }

    #[test]
    fn members_say_what_their_values_are() {
        let guid = key().guid(0x1234_5678_9abc_def0);
        let value = reply(
            &names(),
            &json!({
                "node_guid": 0x1234_5678_9abc_def0u64, "port_guid": "0x123456789abcdef0", "state": 4, "fw_ver": "20.31.23.54",
                "gid": [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0], "supported": "40608103000c0ffe", "serial": "MT2042X01234", "gids": ["::ffff:10.0.0.1"],
            }),
        );
        assert_eq!(value["node_guid"], guid);
        assert_eq!(value["port_guid"], format!("0x{guid:016x}"));
        assert_eq!(value["gid"][0], 0xfe);
        assert_eq!(value["gid"][15], guid & 0xff);
        assert_eq!(value["fw_ver"], "20.31.23.54");
        assert_eq!(value["supported"], "40608103000c0ffe");
        assert_eq!(value["state"], 4);
        assert_ne!(value["serial"], "MT2042X01234");
        let ten = key().ipv4([10, 0, 0, 1].into());
        assert_eq!(value["gids"][0], format!("::ffff:{ten}"));
    }
}
