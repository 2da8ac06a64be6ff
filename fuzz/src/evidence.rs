//! A text of outputs of tools: any bytes become recordings and facts, without a panic.

use rdma_doctor::fact::Facts;
use rdma_doctor::probe;
use rdma_doctor::probe::outputs::recorded::Evidence;

/// Outputs of tools that are about one thing.
pub struct Outputs {
    /// The commands; the first byte of an input chooses one.
    pub commands: &'static [&'static str],
    /// What the same machine prints besides, as others look it up.
    pub beside: &'static str,
}

/// Ports and adapters.
pub static ADAPTERS: Outputs = Outputs {
    commands: &[
        "ibstat",
        "ibstatus",
        "ibv_devinfo -v",
        "ibv_devices",
        "show_gids",
        "ibdev2netdev",
        "rdma link",
        "rdma -j link",
        "rdma statistic",
        "rdma dev",
        "perfquery",
        "ethtool ens1",
        "ethtool -i ens1",
        "ethtool -S ens1",
        "ethtool -a ens1",
        "ethtool -m ens1",
        "mlnx_qos -i ens1",
        "dcb pfc show dev ens1",
        "dcb ets show dev ens1",
        "ethtool --show-fec ens1",
        "ethtool -k ens1",
    ],
    beside: "$ ibdev2netdev\nmlx5_0 port 1 ==> ens1 (Up)\n",
};

/// The fabric, and links as the firmware sees them.
pub static FABRIC: Outputs = Outputs {
    commands: &[
        "iblinkinfo",
        "ibqueryerrors -r",
        "mlxlink -d mlx5_0 -m -c",
        "mlxconfig -d mlx5_0 -e query",
        "sminfo",
        "ibswinfo -d lid-12",
        "lldpctl -f json",
        "lldpctl",
        "networkctl lldp",
        "perfquery -l 12",
        "ibnetdiscover",
        "ibnetdiscover -p",
        "opensm-subnet.lst",
        "ibdiagnet2.db_csv",
        "cabling-plan",
    ],
    beside: "$ ibqueryerrors\nErrors for 0xa01 \"s1\"\n   GUID 0xa01 port 2: [LinkDownedCounter == 3]\n\
        ## Summary: 9 nodes checked, 1 bad nodes found\n##          40 ports checked, 1 ports have errors\n",
};

/// Interfaces, routes, rules and neighbours.
pub static NETWORK: Outputs = Outputs {
    commands: &[
        "ip -d link",
        "ip addr",
        "ip -j addr",
        "ip route",
        "ip route show table all",
        "ip -j route",
        "ip rule",
        "ip -j rule",
        "ip neigh",
        "ip -j neigh",
        "ip -6 route",
        "ip -6 rule",
        "tc -s qdisc",
    ],
    beside: "$ rdma link\nlink mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth1\nlink mlx5_1/1 state ACTIVE physical_state \
        LINK_UP netdev eth2\n$ ip addr\n2: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000\n    \
        inet 10.1.0.1/24 scope global eth1\n",
};

/// Packet filters.
pub static FILTER: Outputs = Outputs {
    commands: &[
        "nft list ruleset",
        "nft -a list ruleset",
        "nft -j list ruleset",
        "iptables-save",
        "ip6tables-save",
        "ufw status verbose",
    ],
    beside: "$ ip -d addr\n2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000\n    inet \
        10.0.0.7/24 scope global eth0\n$ sysctl net.ipv4.ip_local_port_range\nnet.ipv4.ip_local_port_range = 32768\t60999\n",
};

/// PCI functions and GPUs.
pub static GPUS: Outputs = Outputs {
    commands: &[
        "lspci -vvv",
        "lspci -xxx",
        "lspci -nn",
        "nvidia-smi",
        "nvidia-smi -q",
        "nvidia-smi -q -x",
        "nvidia-smi topo -m",
        "nvidia-smi topo -p2p r",
        "nvidia-smi nvlink -s",
        "nvidia-smi nvlink -e",
        "nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv",
        "amd-smi metric",
        "rocm-smi --showall",
        "nccl-topology",
        "lspci -tv",
        "rocm-smi",
        "gpud events",
    ],
    beside: "",
};

/// The host, its containers and its kernel's log.
pub static HOST: Outputs = Outputs {
    commands: &[
        "ulimit -a",
        "lsmod",
        "df -h",
        "env",
        "mount",
        "findmnt",
        "beegfs-net",
        "lscpu",
        "numactl -H",
        "systemctl status openibd",
        "docker inspect x",
        "kubectl describe pod x",
        "dmesg",
        "journalctl -k",
        "sysctl -a",
        "uname -a",
        "cat /etc/nccl.conf",
        "ls /sys",
        "cat /etc/security/limits.conf",
    ],
    beside: "",
};

/// Tries one input: what a command of these printed.
pub fn run_of(outputs: &Outputs, bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else {
        return;
    };
    let command = outputs.commands[usize::from(*first) % outputs.commands.len()];
    let text = String::from_utf8_lossy(text);
    let mut post = Evidence::of("fuzzed");
    post.add_text(
        "post.txt",
        &format!("{}$ {command}\n{text}", outputs.beside),
    );
    judge(post);
}

/// Tries one input: as a post, as a member of a bundle of which the first line is the path, and as an archive.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, rest) = text
        .split_once('\n')
        .unwrap_or(("sos_commands/a/ip_addr", &text));
    let mut post = Evidence::of("fuzzed");
    post.add_text("post.txt", &text);
    let mut bundle = Evidence::of("fuzzed");
    bundle.add_member(path, rest);
    // An archive, of which each member is a file of a bundle.
    let mut archive = Evidence::of("fuzzed");
    for text in rdma_doctor::live::evidence::texts(bytes, "fuzzed")
        .unwrap_or_default()
        .texts
    {
        if text.is_member {
            archive.add_member(&text.path, &text.text);
        }
    }
    [post, bundle, archive].into_iter().for_each(judge);
}

fn judge(evidence: Evidence) {
    for recording in evidence.finish() {
        if recording.header.log {
            continue;
        }
        let mut facts = Facts::new();
        probe::establish(&recording, &mut facts);
        super::without_a_bug(&facts);
    }
}
