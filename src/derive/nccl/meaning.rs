//! What NCCL makes of a variable's value, and what that does to a job.

use super::dictionary::{Entry, VariableKind};
use crate::fact::variable::VariableEffect;
use crate::fact::{Limits, limit};
use crate::nccl_rules::number::number;

/// The levels of `NCCL_P2P_LEVEL` and `NCCL_NET_GDR_LEVEL`, nearest first (`src/graph/topo.cc`).
const LEVELS: [&str; 10] = [
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS",
];
/// The default of `NCCL_NET_GDR_LEVEL`.
const PXB: usize = 5;
const ALGORITHMS: &str = "tree ring collnet collnetdirect collnetchain nvls nvlstree pat";
const PROTOCOLS: [&str; 3] = ["ll", "ll128", "simple"];
const DEBUG: [&str; 7] = ["NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE", "ATTN"];

/// The least and the largest numbers of variables that go to a field of an InfiniBand packet or
/// queue pair (`ibv_modify_qp(3)`), or to a table of NCCL's (`src/transport/net_ib`: MAX_QPS;
/// `src/transport/net_socket.cc`: MAX_THREADS). -1 and -2 are defaults.
const RANGES: &[(&str, i64, i64)] = include!(concat!(env!("OUT_DIR"), "/ranges.numbers.rs"));
/// Networks that `NCCL_NET` can name: NCCL's own, and the beginnings of known plugins' names, in
/// small letters.
const NETWORKS: [&str; 2] = ["ib", "socket"];
const PLUGINS: &str = "anp aws bxi cxi fastrak fasttrak gib gpudirect ibext libfabric ofi ucx";

/// The numbers that a variable takes, in words.
pub(super) fn range(name: &str) -> String {
    match RANGES.iter().find(|(own, ..)| *own == name) {
        Some((_, least, i64::MAX)) => format!("{least} or more"),
        Some((_, least, most)) => format!("{} to {most}", (*least).max(0)),
        None => "any".into(),
    }
}

/// Whether a value of `NCCL_NET` is the name of no known network.
pub(super) fn is_unknown_network(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    !value.is_empty()
        && !NETWORKS.contains(&&*value)
        && !PLUGINS.split(' ').any(|plugin| value.starts_with(plugin))
}

/// What NCCL makes of a value, in words.
pub(super) fn read_as(entry: Option<&Entry>, value: &str) -> String {
    let default = |entry: &Entry| match entry.default {
        Some(default) => format!("the default, {default}"),
        None => "the default".to_owned(),
    };
    match entry {
        Some(entry) if entry.kind == VariableKind::Number => match number(value) {
            _ if value.is_empty() => default(entry),
            n => match n.value {
                Some(value) => value.to_string(),
                None => default(entry),
            },
        },
        Some(entry) if value.is_empty() && entry.kind == VariableKind::Text => default(entry),
        _ => format!("{value:?}"),
    }
}

/// Whether a number is read that is not what is written.
pub(super) fn misread(entry: Option<&Entry>, value: &str) -> bool {
    let is_number = entry.is_some_and(|entry| entry.kind == VariableKind::Number);
    let n = number(value);
    is_number
        && !value.trim().is_empty()
        && (!n.digits || n.value.is_none() || !n.rest.trim().is_empty())
}

/// Whether the value is no word that the variable can have.
pub(super) fn refused(name: &str, value: &str) -> bool {
    let one_of = |words: &[&str]| words.contains(&value);
    if value.is_empty() {
        return false;
    }
    match name {
        "NCCL_P2P_LEVEL" | "NCCL_NET_GDR_LEVEL" => {
            !one_of(&LEVELS) && !value.starts_with(|c: char| c.is_ascii_digit())
        }
        "NCCL_ALGO" => !words_of(value).all(|word| ALGORITHMS.split(' ').any(|one| one == &*word)),
        "NCCL_PROTO" => !words_of(value).all(|word| PROTOCOLS.contains(&&*word)),
        "NCCL_SOCKET_FAMILY" | "NCCL_IB_ADDR_FAMILY" => !one_of(&["AF_INET", "AF_INET6"]),
        "NCCL_LAUNCH_MODE" => !one_of(&["PARALLEL", "GROUP"]),
        "NCCL_DEBUG" => !DEBUG.iter().any(|word| word.eq_ignore_ascii_case(value)),
        "NCCL_SOCKET_IFNAME" => value.len() == 1,
        "NCCL_COMM_ID" => !has_host_and_port(value),
        _ => false,
    }
}

/// Whether it is `HOST:PORT`, as `ncclSocketGetAddrFromString` wants it (`src/misc/socket.cc`).
fn has_host_and_port(value: &str) -> bool {
    value.rsplit_once(':').is_some_and(|(host, port)| {
        // The last part of an address of IPv6 is no port.
        let is_host = !host.is_empty() && (!host.contains(':') || host.ends_with(']'));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// The words of `func:^ring,tree;func:list`, in lower case.
fn words_of(value: &str) -> impl Iterator<Item = String> {
    value.split(';').flat_map(|part| {
        let list = part.rsplit(':').next().unwrap_or("");
        let list = list.strip_prefix('^').unwrap_or(list);
        list.split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
    })
}

fn level(value: &str) -> Option<usize> {
    if let Some(at) = LEVELS.iter().position(|level| *level == value) {
        return Some(at);
    }
    // The numbers of old: LOC, PIX, PXB, PHB, SYS.
    match number(value) {
        n if n.digits => Some(match n.value? {
            ..=0 => 0,
            1 => 4,
            2 => PXB,
            3 => 8,
            _ => 9,
        }),
        _ => None,
    }
}

/// What a value does to a job.
pub(super) fn effect(name: &str, value: &str, limits: &Limits) -> VariableEffect {
    if value.is_empty() {
        return VariableEffect::None;
    }
    let n = number(value).value;
    let when =
        |holds: bool, effect: VariableEffect| if holds { effect } else { VariableEffect::None };
    // NCCL reads numbers with a sign, none of which a limit has.
    let limit = |limit| i64::try_from(limits.get(limit)).unwrap_or(i64::MAX);
    let outside = |(own, least, most): &(&str, i64, i64)| {
        *own == name && n.is_some_and(|n| !(*least..=*most).contains(&n))
    };
    if RANGES.iter().any(outside) {
        return VariableEffect::OutOfRange;
    }
    match name {
        "NCCL_IB_DISABLE" => when(n.is_some_and(|n| n != 0), VariableEffect::IbDisabled),
        "NCCL_NET" => when(
            value.eq_ignore_ascii_case("socket"),
            VariableEffect::SocketForced,
        ),
        "NCCL_P2P_DISABLE" => when(n == Some(1), VariableEffect::P2pDisabled),
        "NCCL_P2P_LEVEL" => when(level(value) == Some(0), VariableEffect::P2pDisabled),
        "NCCL_SHM_DISABLE" => when(n.is_some_and(|n| n != 0), VariableEffect::ShmDisabled),
        "NCCL_NET_GDR_LEVEL" => match level(value) {
            Some(..PXB) => VariableEffect::GdrLowered,
            Some(8..) => VariableEffect::GdrRaised,
            _ => VariableEffect::None,
        },
        "NCCL_NET_GDR_READ" => when(n == Some(0), VariableEffect::GdrLowered),
        "NCCL_DMABUF_ENABLE" => when(n == Some(0), VariableEffect::DmabufDisabled),
        "NCCL_NVLS_ENABLE" => when(n == Some(0), VariableEffect::NvlsDisabled),
        "NCCL_ALGO" | "NCCL_PROTO" => VariableEffect::AlgorithmForced,
        "NCCL_MAX_NCHANNELS" | "NCCL_MAX_NRINGS" | "NCCL_MAX_CTAS" => when(
            n.is_some_and(|n| (1..=limit(limit::FEW_CHANNELS)).contains(&n)),
            VariableEffect::ChannelsCapped,
        ),
        "NCCL_BUFFSIZE" => when(
            n.is_some_and(|n| (1..limit(limit::SMALL_BUFFER)).contains(&n)),
            VariableEffect::BufferChanged,
        ),
        "NCCL_DEBUG" => when(
            value.eq_ignore_ascii_case("trace"),
            VariableEffect::DebugLeft,
        ),
        "NCCL_CHECK_POINTERS" => when(n.is_some_and(|n| n != 0), VariableEffect::DebugLeft),
        "NCCL_IB_TIMEOUT" => {
            let usual = limit(limit::TIMEOUT_LEAST)..=limit(limit::TIMEOUT_MOST);
            when(
                n.is_some_and(|n| !usual.contains(&n)),
                VariableEffect::RetryOdd,
            )
        }
        "NCCL_IB_RETRY_CNT" => when(
            n.is_some_and(|n| n < limit(limit::RETRIES)),
            VariableEffect::RetryOdd,
        ),
        _ => VariableEffect::None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::dictionary::find;
    use super::*;

    #[test]
    fn true_is_0_and_sizes_lose_their_unit() {
        let read =
            |name: &str, value: &str| (read_as(find(name), value), misread(find(name), value));
        assert_eq!(read("NCCL_IB_DISABLE", "true"), ("0".into(), true));
        assert_eq!(read("NCCL_IB_DISABLE", "0x1"), ("1".into(), false));
        assert_eq!(read("NCCL_BUFFSIZE", "8M"), ("8".into(), true));
        assert_eq!(
            read("NCCL_BUFFSIZE", ""),
            ("the default, 4194304".into(), false)
        );
        assert_eq!(read("NCCL_IB_TC", "106\r"), ("106".into(), false));
        assert_eq!(
            read("NCCL_IB_TC", "99999999999999999999"),
            ("the default, -1".into(), true)
        );
        assert_eq!(
            read("NCCL_IB_HCA", "=mlx5_0"),
            ("\"=mlx5_0\"".into(), false)
        );
        assert_eq!(read("NCCL_OF_NOBODY", "true"), ("\"true\"".into(), false));
    }

    #[test]
    fn effects() {
        for (name, value, expected) in [
            ("NCCL_IB_DISABLE", "1", VariableEffect::IbDisabled),
            ("NCCL_IB_DISABLE", "true", VariableEffect::None),
            ("NCCL_IB_DISABLE", "0", VariableEffect::None),
            ("NCCL_NET", "Socket", VariableEffect::SocketForced),
            ("NCCL_NET", "IB", VariableEffect::None),
            ("NCCL_P2P_LEVEL", "NVL", VariableEffect::None),
            ("NCCL_P2P_LEVEL", "LOC", VariableEffect::P2pDisabled),
            ("NCCL_NET_GDR_LEVEL", "PIX", VariableEffect::GdrLowered),
            ("NCCL_NET_GDR_LEVEL", "PXB", VariableEffect::None),
            ("NCCL_NET_GDR_LEVEL", "SYS", VariableEffect::GdrRaised),
            ("NCCL_NET_GDR_LEVEL", "0", VariableEffect::GdrLowered),
            ("NCCL_MAX_NCHANNELS", "2", VariableEffect::ChannelsCapped),
            ("NCCL_MAX_NCHANNELS", "32", VariableEffect::None),
            ("NCCL_DEBUG", "INFO", VariableEffect::None),
            ("NCCL_DEBUG", "trace", VariableEffect::DebugLeft),
            ("NCCL_IB_TIMEOUT", "22", VariableEffect::None),
            ("NCCL_IB_TIMEOUT", "5", VariableEffect::RetryOdd),
            ("NCCL_ALGO", "", VariableEffect::None),
            ("NCCL_IB_TIMEOUT", "32", VariableEffect::OutOfRange),
            ("NCCL_IB_RETRY_CNT", "8", VariableEffect::OutOfRange),
            ("NCCL_IB_TC", "-1", VariableEffect::None),
            ("NCCL_IB_TC", "416", VariableEffect::OutOfRange),
            (
                "NCCL_IB_QPS_PER_CONNECTION",
                "0",
                VariableEffect::OutOfRange,
            ),
            ("NCCL_SOCKET_NTHREADS", "0", VariableEffect::None),
        ] {
            assert_eq!(
                effect(name, value, &Limits::default()),
                expected,
                "{name}={value}"
            );
        }
    }

    #[test]
    fn networks_and_ranges() {
        for known in [
            "IB",
            "ib",
            "Socket",
            "IBext_v8",
            "AWS Libfabric",
            "UCX",
            "gIB",
            "",
        ] {
            assert!(!is_unknown_network(known), "{known}");
        }
        assert!(is_unknown_network("InfiniBand") && is_unknown_network("rdma"));
        assert_eq!(range("NCCL_IB_SL"), "0 to 15");
        assert_eq!(range("NCCL_DEBUG"), "any");
    }

    #[test]
    fn words_that_no_version_knows() {
        assert!(!refused("NCCL_ALGO", "allreduce:^Ring,tree;broadcast:ring"));
        assert!(refused("NCCL_ALGO", "Rings"));
        assert!(refused("NCCL_PROTO", "SIMPLE,LL256") && !refused("NCCL_PROTO", "SIMPLE"));
        assert!(refused("NCCL_NET_GDR_LEVEL", "sys") && !refused("NCCL_NET_GDR_LEVEL", "5"));
        assert!(refused("NCCL_SOCKET_IFNAME", "e") && !refused("NCCL_SOCKET_IFNAME", "eth0"));
        assert!(refused("NCCL_IB_ADDR_FAMILY", "inet6"));
        assert!(!refused("NCCL_DEBUG", "info"));
    }
}
