//! Output of tools that is recognised, and that nothing reads.

use super::text::contains;

/// What only this tool writes.
#[rustfmt::skip]
const TOOLS: [(&str, &str); 26] = [
    ("ibqueryerrors", "Errors for \""),
    ("ibqueryerrors", "ports have errors beyond threshold"),
    ("iblinkinfo", "==( "),
    ("ibnetdiscover", "# Topology file: generated on"),
    ("perfquery", "# Port counters: Lid"),
    ("perfquery", "# Port extended counters: Lid"),
    ("sminfo", "sminfo: sm lid"),
    ("ibdiagnet", "Load Plugins from:"),
    ("mlxlink", "Operational Info"),
    ("nvidia-smi", "| NVIDIA-SMI "),
    ("nvidia-smi -q", "==============NVSMI LOG"),
    ("rocm-smi", "ROCm System Management Interface"),
    ("dcgmi diag", "Successfully ran diagnostic"),
    ("rdma link", " physical_state LINK_UP"),
    ("ip address", " qdisc "),
    ("ethtool", "Supported link modes:"),
    ("ethtool -S", "NIC statistics:"),
    ("ibv_devices", "    device          \t   node GUID"),
    ("fi_info", "    protocol: FI_PROTO_"),
    ("ucx_info", "#      Transport: "),
    ("lspci -vv", "\tLnkSta:"),
    ("lspci", "Infiniband controller: "),
    ("lscpu", "NUMA node0 CPU(s):"),
    ("numactl", "node distances:"),
    ("torch's collect_env", "GPU models and configuration:"),
    ("ompi_info", "Open MPI repo revision:"),
];

/// What a line holds that names a tool.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(_, mark)| *mark)
}

/// The tool that writes such a line.
pub(super) fn tool(line: &[u8]) -> Option<&'static str> {
    let found = TOOLS.iter().find(|(_, mark)| contains(line, mark));
    found.map(|(tool, _)| *tool)
}
