//! Formats of NCCL's messages, and what becomes of each.

use super::fate;
use crate::nccl_log::prefix::LogLevel;

/// Formats that nothing here classifies.
const UNCLASSIFIED: usize = 18;

/// Messages as NCCL, RCCL, plugins and PyTorch write them, with the versions that do, and what becomes of them.
const TABLE: &[(LogLevel, &str, &str)] = &[
    // Until 2.3 and later.
    (LogLevel::Info, "NET/IB : No device found.", "event ib-none"),
    (LogLevel::Info, "Using internal Network IB", "init"),
    (
        LogLevel::Info,
        "Bootstrap : Using [0]eth0:10.0.0.1<0>",
        "init",
    ),
    (LogLevel::Info, "Bootstrap: Using eth0:10.0.0.1<0>", "init"),
    (
        LogLevel::Info,
        "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>",
        "init",
    ),
    (
        LogLevel::Info,
        "NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>",
        "init",
    ),
    (
        LogLevel::Info,
        "NET/Socket : Using [0]eth0:10.0.0.1<0>",
        "init",
    ),
    (
        LogLevel::Info,
        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "event plugin-missing",
    ),
    (
        LogLevel::Info,
        "NET/Plugin: Failed to find ncclNetPlugin_v6 symbol.",
        "event plugin-missing",
    ),
    (
        LogLevel::Info,
        "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "event plugin-missing",
    ),
    (
        LogLevel::Info,
        "NET/Plugin: Loaded net plugin AWS Libfabric (v8)",
        "init",
    ),
    (
        LogLevel::Info,
        "NET/OFI Selected Provider is efa (found 4 nics)",
        "init",
    ),
    (
        LogLevel::Warn,
        "NET/OFI No eligible providers were found",
        "event ofi-failed",
    ),
    (
        LogLevel::Info,
        "Failed to initialize NET plugin IB",
        "event plugin-init",
    ),
    (LogLevel::Info, "Initialized NET plugin Socket", "init"),
    (
        LogLevel::Warn,
        "Failed to initialize any NET plugin",
        "event network-missing",
    ),
    (
        LogLevel::Warn,
        "Error: network IB not found.",
        "event network-missing",
    ),
    (
        LogLevel::Info,
        "Failed to open libibverbs.so[.1]",
        "event verbs-missing",
    ),
    (
        LogLevel::Warn,
        "Failed to open libibverbs.so[.1]",
        "event verbs-missing",
    ),
    (
        LogLevel::Warn,
        "NET/IB : Unable to open device mlx5_3",
        "event device-open",
    ),
    (
        LogLevel::Warn,
        "NET/IB : No IP interface found.",
        "event ib-no-interface",
    ),
    (
        LogLevel::Warn,
        "Bootstrap : no socket interface found",
        "event bootstrap-no-interface",
    ),
    (
        LogLevel::Info,
        "NCCL_IB_DISABLE set by environment to 1.",
        "env",
    ),
    (LogLevel::Info, "NCCL_IB_HCA set to mlx5_0,mlx5_1", "env"),
    (
        LogLevel::Info,
        "NCCL_SOCKET_IFNAME set by environment to eth0",
        "env",
    ),
    (
        LogLevel::Info,
        "Invalid value foo for NCCL_IB_TIMEOUT, using default 20.",
        "env",
    ),
    (
        LogLevel::Info,
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
        "event gdr-missing",
    ),
    (
        LogLevel::Info,
        "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        "net",
    ),
    (
        LogLevel::Info,
        "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)",
        "event gdr-too-far",
    ),
    (
        LogLevel::Info,
        "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x1 pciPath=/x ar=1",
        "net",
    ),
    (
        LogLevel::Info,
        "NET/IB: Dev 0 Port 1 qpn 74 mtu 5 GID 3 (0/8D01A8C0FFFF0000)",
        "net",
    ),
    (
        LogLevel::Info,
        "NET/IB : Made virtual device [0] name=mlx5_0 speed=400000 ndevs=1",
        "net",
    ),
    (
        LogLevel::Info,
        "Setting affinity for GPU 0 to ffff,ffffffff",
        "init",
    ),
    (
        LogLevel::Info,
        "comm 0x55 rank 0 nranks 16 cudaDev 0 busId 1b000 - Init COMPLETE",
        "init",
    ),
    (
        LogLevel::Info,
        "ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START",
        "init",
    ),
    (
        LogLevel::Info,
        "[Rank 0] ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START",
        "init",
    ),
    (
        LogLevel::Info,
        "comm 0x55 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0",
        "init",
    ),
    (
        LogLevel::Info,
        "Init timings - ncclCommInitRank: rank 0 nranks 16 total 1.23 (kernels 0.2, alloc 0.1, bootstrap 0.3, allgathers 0.1)",
        "init",
    ),
    (
        LogLevel::Info,
        "Connected all rings, use ring PXN 0 GDR 1",
        "init",
    ),
    (
        LogLevel::Info,
        "24 coll channels, 16 nvls channels, 32 p2p channels, 4 p2p channels per peer",
        "init",
    ),
    (LogLevel::Info, "Trees [0] 1/-1/-1->0->-1", "init"),
    (
        LogLevel::Info,
        "NVLS multicast support is not available on dev 0",
        "init",
    ),
    (
        LogLevel::Info,
        "P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
        "event p2p-disabled",
    ),
    (
        LogLevel::Warn,
        "P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case",
        "event p2p-nvlink-disabled",
    ),
    (
        LogLevel::Info,
        "Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.000000, type NVL/PXB, sameChannels 1",
        "graph",
    ),
    (
        LogLevel::Info,
        "=== System : maxBw 240.0 totalBw 240.0 ===",
        "graph",
    ),
    (LogLevel::Info, "CPU/0 (1/1/2)", "graph"),
    (
        LogLevel::Info,
        "                         + PCI[24.0] - GPU/1B000 (0)",
        "graph",
    ),
    (
        LogLevel::Info,
        "GPU/1B000 :GPU/1B000 (0/5000.000000/LOC) GPU/43000 (1/240.0/NVL)",
        "graph",
    ),
    (
        LogLevel::Info,
        " 0 : NET/0 GPU/0 GPU/7 GPU/6 NET/0",
        "graph",
    ),
    (
        LogLevel::Info,
        "Topology detection : could not read /sys/devices/x, ignoring",
        "event topology-unread",
    ),
    (
        LogLevel::Info,
        "KV Convert to int : could not find value of '' in dictionary, falling back to 60",
        "event pci-speed-unknown",
    ),
    (
        LogLevel::Info,
        "AllReduce: opCount 3 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x5 [nranks=8] stream 0x6",
        "coll",
    ),
    (
        LogLevel::Info,
        "1048576 Bytes -> Algo 1 proto 2 time 123.4",
        "tuning",
    ),
    (
        LogLevel::Info,
        "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}",
        "tuning",
    ),
    (
        LogLevel::Info,
        "transport/net.cc:304 -> 2",
        "event unwinding",
    ),
    (
        LogLevel::Info,
        "proxy.cc:1495 -> 3 [Proxy Service 7]",
        "event unwinding",
    ),
    (
        LogLevel::Info,
        "[Proxy Service] Device 0 CPU core 12",
        "other",
    ),
    (
        LogLevel::Warn,
        "[Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 3",
        "event proxy-failed",
    ),
    (
        LogLevel::Info,
        "[Service thread] Connection closed by localRank 3",
        "other",
    ),
    (
        LogLevel::Warn,
        "Net : Connection closed by remote peer n2<4711>",
        "event peer-closed",
    ),
    (
        LogLevel::Warn,
        "socketProgress: Connection closed by remote peer 10.0.0.2<4711>",
        "event peer-closed",
    ),
    (
        LogLevel::Info,
        "Call to connect returned Connection refused, retrying",
        "event connect-retry",
    ),
    (
        LogLevel::Info,
        "socketPollConnect: connect to 10.0.0.2<1> returned Connection timed out, retrying (3/34) after sleep for 300 msec",
        "event connect-retry",
    ),
    (
        LogLevel::Warn,
        "socketPollConnect: connect to 10.0.0.2<1> returned Connection timed out, exceeded error retry count after 35 attempts",
        "event connect-failed",
    ),
    (
        LogLevel::Warn,
        "socketStartConnect: Connect to 10.0.0.2<1> failed : No route to host",
        "event connect-failed",
    ),
    (
        LogLevel::Warn,
        "socketProgressOpt: Call to recv from 10.0.0.2<1> failed : Connection reset by peer",
        "event socket-failed",
    ),
    (
        LogLevel::Warn,
        "Call to ibv_modify_qp failed with error Invalid argument errno 22",
        "event verbs-call",
    ),
    (
        LogLevel::Warn,
        "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "event verbs-call",
    ),
    (
        LogLevel::Warn,
        "NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0, vendor err 129",
        "event completion",
    ),
    (
        LogLevel::Warn,
        "NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send hca mlx5_0",
        "event completion",
    ),
    (
        LogLevel::Warn,
        "NET/IB : mlx5_0:1 Got async event : port error",
        "event async",
    ),
    (
        LogLevel::Warn,
        "NET/IB : mlx5_0:1 async fatal event: local catastrophic error",
        "event async-fatal",
    ),
    (
        LogLevel::Warn,
        "NET/IB : mlx5_0:1 GID table changed",
        "event gid-changed",
    ),
    (
        LogLevel::Warn,
        "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
        "event gid-version-unread",
    ),
    (
        LogLevel::Warn,
        "Cuda failure 802 'system not yet initialized'",
        "event cuda",
    ),
    (LogLevel::Warn, "Cuda failure 'out of memory'", "event cuda"),
    (
        LogLevel::Warn,
        "Error: failed to extend /dev/shm/nccl-AbCdEf to 9637892 bytes, error: No space left on device (28)",
        "event shared-memory",
    ),
    (
        LogLevel::Warn,
        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000",
        "event duplicate-gpu",
    ),
    (
        LogLevel::Warn,
        "Mismatched NCCL version detected : rank 0 version 22005 rank 1 version 21903",
        "event version-mismatch",
    ),
    (
        LogLevel::Warn,
        "Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
        "event iommu-not-passthrough",
    ),
    (
        LogLevel::Warn,
        "NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
        "event numa-balancing",
    ),
    (
        LogLevel::Warn,
        "a sentence that no release has",
        "event other-warning",
    ),
    (LogLevel::Info, "a sentence that no release has", "unlisted"),
];

#[test]
fn each_format_has_its_fate() {
    for (level, message, expected) in TABLE {
        assert_eq!(fate(*level, message), *expected, "{message}");
    }
}

/// What NCCL 2.3 to 2.30 say at the levels WARN and INFO, as far as it takes to know them: made by [`formats_of_a_table_that_the_caller_names`].
const FORMATS: &str = include_str!("formats.txt");

/// What nobody has classified.
fn is_unclassified(fate: &str) -> bool {
    matches!(fate, "unlisted" | "event other-warning" | "torn")
}

#[test]
fn every_format_is_an_event_or_known_or_listed_as_unclassified() {
    let mut section = None;
    let mut counts = std::collections::BTreeMap::<(&str, &str), u64>::new();
    let mut unclassified = Vec::new();
    for line in FORMATS.lines() {
        if let Some(heading) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = heading.split_once(' ');
            continue;
        }
        let (level, expected) = section.unwrap();
        let is = fate(
            if level == "WARN" {
                LogLevel::Warn
            } else {
                LogLevel::Info
            },
            line.trim_start_matches('|'),
        );
        assert_eq!(is, expected, "{level}: {line}");
        *counts.entry((level, expected)).or_default() += 1;
        if is_unclassified(&is) {
            unclassified.push(format!("{level} {line}"));
        }
    }
    println!("{counts:#?}");
    println!(
        "{} of {} formats are unclassified: {unclassified:#?}",
        unclassified.len(),
        counts.values().sum::<u64>()
    );
    assert!(counts.values().sum::<u64>() > 1_500);
    assert_eq!(unclassified.len(), UNCLASSIFIED, "{unclassified:#?}");
}

/// Walks a table of NCCL's formats, one a line: level, …, format in the last column. `NCCL_FORMATS=FILE` names it; it is no part of
/// the project. With `RDMA_DOCTOR_BLESS=1` writes what is left of it here.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a table that the caller names, and a list for the caller"
)]
fn formats_of_a_table_that_the_caller_names() {
    let Some(path) = std::env::var_os("NCCL_FORMATS") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let (mut all, mut unlisted) = (0, Vec::new());
    let mut known = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
    for row in text.lines() {
        let mut columns = row.split('\t');
        let (word, level) = match columns.next() {
            Some("INFO") => ("INFO", LogLevel::Info),
            Some("WARN") => ("WARN", LogLevel::Warn),
            _ => continue,
        };
        let Some(format) = columns.next_back() else {
            continue;
        };
        let message = printed(format);
        all += 1;
        let is = fate(level, &message);
        if is_unclassified(&is) {
            unlisted.push(format!("{is}: {word} {format}"));
        }
        known
            .entry(format!("[{word} {is}]"))
            .or_default()
            .insert(shortened(level, &message, &is));
    }
    for line in &unlisted {
        println!("{line}");
    }
    println!("{} of {all} formats are unclassified", unlisted.len());
    assert!(all > 0);
    if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
        let mut out = String::new();
        for (heading, messages) in known {
            out.push_str(&heading);
            out.push('\n');
            for message in messages {
                // White space at its ends is part of a message.
                out.push('|');
                out.push_str(&message);
                out.push('\n');
            }
        }
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/nccl_log/tests/formats.txt"
        );
        std::fs::write(path, out).unwrap();
    }
}

/// The first words of a message that have the same fate as all of it.
fn shortened(level: LogLevel, message: &str, whole: &str) -> String {
    let ends = message
        .match_indices(' ')
        .map(|(at, _)| at)
        .filter(|at| *at >= 20);
    for end in ends {
        let head = &message[..end];
        if fate(level, head) == whole && !is_unclassified(whole) {
            return head.to_owned();
        }
    }
    message.to_owned()
}

/// A message as the format would print it.
fn printed(format: &str) -> String {
    let mut out = String::new();
    let format = format.trim_end_matches("\\n").replace("{name}", "poll");
    let channel = ["Ch", "Coll", "Ring"].iter().any(|s| format.starts_with(s));
    let mut rest = format.as_str();
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'l' | 'z' | 'h'))
            .unwrap_or(after.len().saturating_sub(1));
        match after.as_bytes().get(end) {
            // What is behind an adapter or a transport may be nothing.
            Some(b's') if channel => {
                out.push_str(match (before.ends_with("NET/"), before.ends_with("P2P/")) {
                    (true, _) => "IB",
                    (_, true) => "IPC",
                    _ => "",
                })
            }
            Some(b's') if out.is_empty() && after.starts_with("s:%d") => out.push_str("file.cc"),
            Some(b's') if out.is_empty() && after.starts_with("s comm") => {
                out.push_str("ncclCommInitRank")
            }
            Some(b's') if out.is_empty() && after.starts_with("s set by") => out.push_str("NCCL_X"),
            Some(b's')
                if out.is_empty() && (after.starts_with("s [") || after.starts_with("s: %ld")) =>
            {
                out.push_str("AllReduce")
            }
            Some(b's') if out.is_empty() && after.starts_with("s/Plugin") => out.push_str("NET"),
            Some(b's') => out.push_str("word"),
            Some(b'f') => out.push_str("1.5"),
            Some(b'p') => out.push_str("0x55d3"),
            Some(b'x' | b'X') => out.push_str("1b000"),
            Some(_) => out.push('3'),
            None => {}
        }
        rest = after.get(end + 1..).unwrap_or("");
    }
    out + rest
}
