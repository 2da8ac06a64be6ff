//! Parses values of the environment and of settings files.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::SettingRole;
use crate::fact::setting::PortHolder;

/// CAP_NET_BIND_SERVICE (`include/uapi/linux/capability.h`).
const NET_BIND_SERVICE: u32 = 10;

/// `NAME = value` on each line, `export` before it or not; comments and empty lines are skipped.
pub(super) fn assignments(text: &str) -> Vec<(String, Arc<str>)> {
    let lines = text.lines().map(str::trim).filter(|l| !l.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            let name = name.trim().trim_start_matches("export ").trim();
            (!name.is_empty() && !name.contains(char::is_whitespace))
                .then(|| (name.to_owned(), unquoted(value).into()))
        })
        .collect()
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    ['"', '\'']
        .iter()
        .find_map(|q| value.strip_prefix(*q)?.strip_suffix(*q))
        .unwrap_or(value)
}

/// The keys of a YAML file whose values are on the same line, of the first two levels; `null` is no value.
pub(super) fn yaml_keys(text: &str) -> Vec<(String, Arc<str>)> {
    let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
    lines
        .filter_map(|line| {
            let (key, value) = line.trim().split_once(':')?;
            let value = unquoted(value.split(" #").next().unwrap_or(""));
            (!value.is_empty() && !matches!(value, "null" | "~"))
                .then(|| (key.trim().to_owned(), value.into()))
        })
        .collect()
}

/// Whether a value switches something on, as PyTorch (`1`, `y`, `yes`, `t`, `true`, `on`) and most others read it.
pub(super) fn is_on(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    match value.parse::<i64>() {
        Ok(number) => number != 0,
        Err(_) => matches!(&*value, "y" | "yes" | "t" | "true" | "on"),
    }
}

/// Whether an address, or `localhost`, is one of this host alone. An unspecified address is none to connect to from elsewhere either.
pub(super) fn is_loopback(value: &str) -> bool {
    let value = value.trim().trim_start_matches('[').trim_end_matches(']');
    match value.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => {
            let name = value.to_ascii_lowercase();
            name == "localhost" || name.starts_with("localhost.")
        }
    }
}

/// Whether a value is a name that has to be looked up.
pub(in crate::probe) fn is_host_name(value: &str) -> bool {
    let value = value.trim();
    value.parse::<IpAddr>().is_err()
        && !is_loopback(value)
        && !value.is_empty()
        && !value.contains(|c: char| c == '$' || c == '/' || c.is_whitespace())
}

/// Who listens at a port, and its name.
pub(super) fn port_holder(value: Arc<Value>) -> Result<(PortHolder, Arc<str>), String> {
    let listens = value.get("listening").and_then(Value::as_bool);
    if !listens.ok_or("the reply does not say whether anybody listens")? {
        return Ok((PortHolder::Nobody, "none".into()));
    }
    let number = |key: &str| value.get(key).and_then(Value::as_u64);
    let name = match (value.get("name").and_then(Value::as_str), number("pid")) {
        (Some(name), Some(pid)) => format!("{name} (pid {pid})"),
        _ => format!("a process of uid {}", number("uid").ok_or("no uid")?),
    };
    let of_job = value.get("of_job").and_then(Value::as_bool) == Some(true);
    let who = if of_job {
        PortHolder::Job
    } else {
        PortHolder::Stranger
    };
    Ok((who, name.into()))
}

/// Whether the addresses that a name has in /etc/hosts are all of this host alone; a name that is not there has none.
pub(super) fn loopback(value: Arc<Value>) -> Result<bool, String> {
    let addresses = value
        .get("addresses")
        .and_then(Value::as_array)
        .ok_or("the reply has no addresses")?;
    let all = addresses
        .iter()
        .all(|address| address.as_str().is_some_and(is_loopback));
    Ok(!addresses.is_empty() && all)
}

/// Whether the effective capabilities of /proc/PID/status allow a process to listen on a privileged port.
pub(super) fn may_bind_low_ports(text: &str) -> Result<bool, String> {
    let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.ok_or("no line CapEff")?.trim();
    let set = u64::from_str_radix(set, 16).map_err(|_| format!("{set:?} is not a set"))?;
    Ok(set >> NET_BIND_SERVICE & 1 == 1)
}

/// The role of a variable.
pub(super) fn role(variable: &str, value: &str) -> SettingRole {
    let names = |role| match value.trim_start().starts_with('^') {
        true => SettingRole::Exclusion,
        false => role,
    };
    match variable {
        "GLOO_SOCKET_IFNAME"
        | "TP_SOCKET_IFNAME"
        | "HOROVOD_GLOO_IFACE"
        | "I_MPI_HYDRA_IFACE"
        | "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"
        | "NCCL_SOCKET_IFNAME"
        | "FI_TCP_IFACE"
        | "FI_SOCKETS_IFACE"
        | "FI_VERBS_IFACE"
        | "btl_tcp_if_include"
        | "oob_tcp_if_include"
        | "PRTE_MCA_prte_if_include" => names(SettingRole::Interfaces),
        "UCX_NET_DEVICES" | "NVSHMEM_HCA_LIST" | "NVSHMEM_HCA_PE_MAPPING" | "NCCL_IB_HCA" => {
            names(SettingRole::Devices)
        }
        "btl_tcp_if_exclude"
        | "oob_tcp_if_exclude"
        | "btl_openib_if_exclude"
        | "PRTE_MCA_prte_if_exclude" => SettingRole::Exclusion,
        "MASTER_ADDR" | "PET_MASTER_ADDR" | "main_process_ip" => SettingRole::RendezvousAddress,
        "MASTER_PORT" | "PET_MASTER_PORT" | "main_process_port" => SettingRole::RendezvousPort,
        "RANK"
        | "LOCAL_RANK"
        | "GROUP_RANK"
        | "NODE_RANK"
        | "PET_NODE_RANK"
        | "OMPI_COMM_WORLD_RANK" => SettingRole::Rank,
        "UCX_TLS"
        | "pml"
        | "btl"
        | "mtl"
        | "osc"
        | "FI_PROVIDER"
        | "I_MPI_FABRICS"
        | "I_MPI_OFI_PROVIDER"
        | "NVSHMEM_REMOTE_TRANSPORT" => SettingRole::Transports,
        "UCX_IB_TRAFFIC_CLASS" | "NVSHMEM_IB_TRAFFIC_CLASS" => SettingRole::TrafficClass,
        "UCX_IB_GID_INDEX" | "NVSHMEM_IB_GID_INDEX" => SettingRole::GidIndex,
        _ => SettingRole::Other,
    }
}

/// The feature that a variable of NCCL disables on every rank when DeepSpeed passes it on; "none" if it disables none.
pub(super) fn disables(variable: &str, value: &str) -> &'static str {
    // NCCL reads a number, and takes what is none as 0.
    let number = value.trim().parse::<i64>().unwrap_or(0);
    match variable {
        "NCCL_IB_DISABLE" if number != 0 => "InfiniBand and RoCE",
        "NCCL_NET" if value.trim().eq_ignore_ascii_case("socket") => "InfiniBand and RoCE",
        "NCCL_P2P_DISABLE" if number != 0 => "direct access between GPUs",
        "NCCL_SHM_DISABLE" if number != 0 => "shared memory between GPUs",
        "NCCL_NET_GDR_LEVEL" if matches!(value.trim(), "LOC" | "0") => "GPUDirect RDMA",
        "NCCL_NVLS_ENABLE" if value.trim() == "0" => "NVLink SHARP",
        _ => "none",
    }
}
