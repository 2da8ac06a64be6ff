//! The kinds of replies that are fuzzed, each in place of those of a recorded machine.

use std::sync::OnceLock;

use rdma_doctor::source::Question;

use super::reply::Family;

/// The packet filter as nft(8) lists it: JSON, and its own language.
pub static NFT: Family = Family {
    base: "modelled-rxe-firewall.jsonl",
    probes: &["firewall", "interface", "netdev"],
    is_of: |question| matches!(question, Question::Run(argv) if &*argv[0] == "nft"),
    more: || vec![Question::run(&["nft", "-t", "list", "ruleset"])],
    text: true,
    kept: OnceLock::new(),
};

/// The packet filter as iptables-save(8) prints it.
pub static IPTABLES: Family = Family {
    base: "modelled-roce-firewall.jsonl",
    probes: &["firewall", "interface", "netdev"],
    is_of: |question| matches!(question, Question::Run(argv) if argv[0].contains("tables")),
    more: || vec![Question::run(&["iptables-nft-save"])],
    text: true,
    kept: OnceLock::new(),
};

/// What the kernel says of RDMA devices and ports by netlink.
pub static RDMA: Family = Family {
    base: "rxe-healthy.jsonl.zst",
    probes: &["nldev", "device", "netdev"],
    is_of: |question| matches!(question, Question::Netlink(call) if call.name.starts_with("rdma/")),
    more: Vec::new,
    text: false,
    kept: OnceLock::new(),
};

/// What the kernel says of interfaces, addresses, routes, rules, neighbours, traffic control and DCB by netlink.
pub static ROUTE: Family = Family {
    base: "rxe-tc-drops-roce.jsonl",
    probes: &[
        "interface",
        "netdev",
        "gid",
        "rail",
        "obstacle",
        "firewall",
        "qos",
    ],
    is_of: |question| matches!(question, Question::Netlink(call) if call.name.starts_with("route/")),
    more: Vec::new,
    text: false,
    kept: OnceLock::new(),
};

/// The configuration space of a PCI function.
pub static PCI: Family = Family {
    base: "modelled-gpu-node-acs.jsonl",
    probes: &["pcie", "pci"],
    is_of: |question| matches!(question, Question::Read(path) if path.ends_with("/config")),
    more: Vec::new,
    text: false,
    kept: OnceLock::new(),
};

/// A file of topology that NCCL reads.
pub static TOPOLOGY: Family = Family {
    base: "modelled-topology-file.jsonl",
    probes: &["nccl", "setting", "topology", "gpu", "pci"],
    is_of: |question| matches!(question, Question::Read(path) if path.ends_with(".xml")),
    more: Vec::new,
    text: true,
    kept: OnceLock::new(),
};
