//! Settings beside NCCL's that decide where traffic goes: variables of Gloo, UCX, Open MPI, libfabric, NVSHMEM and PyTorch, and the
//! files of UCX, Open MPI, DeepSpeed and Accelerate.

mod hostfile;
pub(super) mod launch;
pub(super) mod parse;
mod ranks;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Ask, Probe};
use crate::fact::setting::{self, SettingRole};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, node};
use crate::source::Question;

/// The probe.
pub const PROBE: Probe = Probe::new("setting", run);

/// Variables that are settings, by their beginnings.
const SETTINGS: &[&str] = &[
    "GLOO_",
    "TP_SOCKET_IFNAME",
    "UCX_",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "OMPI_MCA_oob_tcp_if_",
    "OMPI_MCA_osc",
    "OMPI_MCA_pml",
    "PRTE_MCA_prte_if_",
    "I_MPI_FABRICS",
    "I_MPI_HYDRA_IFACE",
    "I_MPI_OFI_PROVIDER",
    "FI_",
    "NVSHMEM_",
    "HOROVOD_GLOO_IFACE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_NCCL_",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "IBV_FORK_SAFE",
    "MLX5_",
    "RDMAV_",
];

/// The file of variables that DeepSpeed passes on to every rank.
const DEEPSPEED_ENV: &str = "~/.deepspeed_env";
/// DeepSpeed's default hostfile.
const HOSTFILE: &str = "/job/hostfile";
const ENVIRONMENT: &str = "environment";

/// The environment's variables.
pub(in crate::probe) type Variables = BTreeMap<Arc<str>, Arc<str>>;

/// A setting on its way to a fact.
struct FoundSetting {
    /// The instance's name.
    name: String,
    variable: String,
    value: Fact<Arc<str>>,
    source: Arc<str>,
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let prefixes: Vec<&str> = SETTINGS.iter().chain(launch::VARIABLES).copied().collect();
    let environment = ask.read::<Variables>(Question::env(&prefixes));
    let job_nodes = match &environment {
        Fact::Known(vars, _) => {
            let how = "environment WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_NNODES and the like";
            Fact::derived(launch::job_nodes(vars), how)
        }
        Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
    };
    facts.set(node, node::JOB_NODES, job_nodes.clone());
    let ranks = environment.clone().map(|vars| launch::job_ranks(&vars));
    facts.set(node, node::JOB_RANKS, ranks);
    let own = ask.value(Question::call("hosts_lookup", [("of", "hostname".into())]));
    facts.set(node, node::NAME_LOOPBACK, own.and_then(parse::loopback));

    // What keeps the list of settings from being whole.
    let mut open: Option<Gap> = None;
    let mut found: Vec<FoundSetting> = Vec::new();
    match &environment {
        Fact::Known(vars, _) => {
            let settings = vars
                .iter()
                .filter(|(name, _)| SETTINGS.iter().any(|p| name.starts_with(p)));
            found.extend(settings.map(|(name, value)| {
                let name = name.strip_prefix("OMPI_MCA_").unwrap_or(name);
                FoundSetting {
                    name: name.to_owned(),
                    variable: name.to_owned(),
                    // The question names every prefix there is; the evidence is this one variable.
                    value: Fact::derived(Arc::clone(value), format!("environment {name}")),
                    source: ENVIRONMENT.into(),
                }
            }));
        }
        Fact::Unknown(gap) => open = Some(gap.clone()),
    }
    let ucx = SettingFile::of(
        ask.text_if_any("/etc/ucx/ucx.conf"),
        "/etc/ucx/ucx.conf",
        &mut open,
    );
    let mpi_system = mpi_files(ask, &mut open);
    let hostfile = hostfile::at(ask, HOSTFILE);
    // A home may be on a file system that hangs, which is then the end of the probe: it comes last.
    let mpi_user = SettingFile::of(
        home_file(ask, ".openmpi/mca-params.conf"),
        "~/.openmpi/mca-params.conf",
        &mut open,
    );
    let deepspeed = home_file(ask, ".deepspeed_env");
    let accelerate = home_file(ask, "accelerate/default_config.yaml");

    let above_user = environment.as_result().err().cloned();
    add_layer(&mut found, &mpi_user, above_user.as_ref());
    let above_system = above_user.clone().or_else(|| mpi_user.gap.clone());
    for layer in &mpi_system {
        add_layer(&mut found, layer, above_system.as_ref());
    }
    add_layer(&mut found, &ucx, above_user.as_ref());

    let ports = OnceCell::new();
    for one in &found {
        let id = state(facts, node, one);
        facts.set(id, setting::JOB_NODES, job_nodes.clone());
        match one.variable.as_str() {
            "MASTER_ADDR" | "PET_MASTER_ADDR" => address(ask, facts, id, one),
            "MASTER_PORT" | "PET_MASTER_PORT" => {
                let ports = ports.get_or_init(|| Ports::of(ask));
                ports.judge(facts, id, &one.value);
                port_holder(ask, facts, id, one);
            }
            _ => {}
        }
    }
    open = open.or(ranks::numbers(ask, facts, node, &environment));
    deepspeed_variables(facts, node, deepspeed, &job_nodes, &mut open);
    let named = accelerate_settings(ask, facts, node, accelerate, &ports, &mut open);
    hostfile::state(facts, node, HOSTFILE, hostfile, &mut open);
    if let Some(path) = named.filter(|path| path != HOSTFILE && hostfile::may_be_read(path)) {
        let list = hostfile::at(ask, &path);
        hostfile::state(facts, node, &path, list, &mut open);
    }
    let members = Membership::known_unless(
        open,
        Origin::derived("the environment and the settings' files"),
    );
    facts.set_members(Subject::Setting, node, members);
}

/// A file of settings: what it says, and why that may not be all.
struct SettingFile {
    source: Arc<str>,
    assignments: Vec<(String, Arc<str>)>,
    origin: Origin,
    gap: Option<Gap>,
}

impl SettingFile {
    /// Reads a file; one that cannot be read leaves the list of settings open.
    fn of(file: Presence<Arc<str>>, source: &str, open: &mut Option<Gap>) -> Self {
        let (assignments, origin, gap) = match file {
            Presence::Present(text, origin) => (parse::assignments(&text), origin, None),
            Presence::Absent(origin) => (Vec::new(), origin, None),
            Presence::Unknown(gap) => (Vec::new(), gap.origin.clone(), Some(gap)),
        };
        if let Some(gap) = &gap {
            open.get_or_insert(gap.clone());
        }
        SettingFile {
            source: source.into(),
            assignments,
            origin,
            gap,
        }
    }
}

/// The system's files of Open MPI's parameters: Debian's place, and those of Red Hat's packages.
fn mpi_files(ask: &Ask<'_>, open: &mut Option<Gap>) -> Vec<SettingFile> {
    let Some(listed) = ask.names("/etc").or_open(open) else {
        return Vec::new();
    };
    let dirs = listed.iter().filter(|name| name.starts_with("openmpi"));
    dirs.map(|dir| {
        let path = format!("/etc/{dir}/openmpi-mca-params.conf");
        SettingFile::of(ask.text_if_any(path.as_str()), &path, open)
    })
    .collect()
}

/// Adds a file's settings below those that are there. Where one above could not be read, what is in effect is unknown.
fn add_layer(found: &mut Vec<FoundSetting>, layer: &SettingFile, above: Option<&Gap>) {
    let before: Vec<String> = found.iter().map(|one| one.name.clone()).collect();
    for (variable, value) in &layer.assignments {
        if before.contains(variable) {
            continue;
        }
        let value = Fact::Known(Arc::clone(value), layer.origin.clone()).unless(above.cloned());
        // The last assignment of a file counts.
        found.retain(|one| one.name != *variable || before.contains(variable));
        found.push(FoundSetting {
            name: variable.clone(),
            variable: variable.clone(),
            value,
            source: Arc::clone(&layer.source),
        });
    }
}

/// States what a setting is.
fn state(facts: &mut Facts, node: Id, one: &FoundSetting) -> Id {
    let id = facts.instance(Subject::Setting, node, &one.name);
    let stated = |text: &str| Fact::derived(Arc::from(text), "the setting's name");
    facts.set(id, setting::VARIABLE, stated(&one.variable));
    facts.set(id, setting::VALUE, one.value.clone());
    facts.set(id, setting::SOURCE, stated(&one.source));
    let role = one
        .value
        .clone()
        .map(|value| parse::role(&one.variable, &value));
    facts.set(id, setting::ROLE, role);
    facts.set(id, setting::ON, one.value.clone().map(|v| parse::is_on(&v)));
    id
}

/// Whether the address at which a job meets is one that no other host reaches.
fn address(ask: &Ask<'_>, facts: &mut Facts, id: Id, one: &FoundSetting) {
    let loopback = one.value.clone().map(|v| parse::is_loopback(&v));
    facts.set(id, setting::LOOPBACK, loopback);
    // Only the environment's names are looked up: the question names the variable, not the host.
    if &*one.source != ENVIRONMENT {
        return;
    }
    let by_hosts = match one.value.known() {
        Some(value) if parse::is_host_name(value) => {
            let of = one.variable.as_str().into();
            ask.value(Question::call("hosts_lookup", [("of", of)]))
                .and_then(parse::loopback)
        }
        _ => one.value.clone().map(|_| false),
    };
    facts.set(id, setting::NAME_LOOPBACK, by_hosts);
}

/// Who listens at the port of a variable.
fn port_holder(ask: &Ask<'_>, facts: &mut Facts, id: Id, one: &FoundSetting) {
    let is_port = |value: &Arc<str>| value.trim().parse::<u16>().is_ok();
    if &*one.source != ENVIRONMENT || !one.value.known().is_some_and(is_port) {
        return;
    }
    let of = one.variable.as_str().into();
    let reply = ask.value(Question::call("port_holder", [("of", of)]));
    let said = reply.and_then(parse::port_holder);
    facts.set(id, setting::PORT_HOLDER, said.clone().map(|(who, _)| who));
    facts.set(id, setting::PORT_HOLDER_NAME, said.map(|(_, name)| name));
}

/// The facts that decide a port number's suitability, asked once.
struct Ports {
    first: Fact<u64>,
    privileged: Fact<bool>,
}

impl Ports {
    fn of(ask: &Ask<'_>) -> Self {
        let dir = "/proc/sys/net/ipv4";
        Ports {
            // Older kernels have neither, and then nothing is reserved, and 1024 is the first port that is for all.
            first: ask
                .text_if_any(format!("{dir}/ip_unprivileged_port_start"))
                .or_absent("1024".into())
                .and_then(|text| super::whole_number(&text)),
            privileged: ask.parse("/proc/self/status", parse::may_bind_low_ports),
        }
    }

    /// States what the port is good for.
    fn judge(&self, facts: &mut Facts, id: Id, value: &Fact<Arc<str>>) {
        let fitness = match value {
            Fact::Known(value, origin) => launch::port_fitness(value, self, origin),
            Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
        };
        facts.set(id, setting::PORT, fitness);
    }
}

/// The content of a user's file that a launcher reads.
fn home_file(ask: &Ask<'_>, name: &str) -> Presence<Arc<str>> {
    match ask.value(Question::call("home_file", [("name", name.into())])) {
        Fact::Known(value, origin) => match value.get("text").and_then(serde_json::Value::as_str) {
            Some(text) => Presence::Present(text.into(), origin),
            None if value.get("absent") == Some(&true.into()) => Presence::Absent(origin),
            None => Presence::Unknown(Gap::misread("neither text nor absent", origin)),
        },
        Fact::Unknown(gap) => Presence::Unknown(gap),
    }
}

/// DeepSpeed's variables: they reach every rank, whatever the shell of the user has.
fn deepspeed_variables(
    facts: &mut Facts,
    node: Id,
    file: Presence<Arc<str>>,
    job_nodes: &Fact<u64>,
    open: &mut Option<Gap>,
) {
    let layer = SettingFile::of(file, DEEPSPEED_ENV, open);
    for (variable, value) in layer.assignments {
        let disables = parse::disables(&variable, &value);
        let one = FoundSetting {
            name: format!("{variable} in {DEEPSPEED_ENV}"),
            variable,
            value: Fact::Known(value, layer.origin.clone()),
            source: DEEPSPEED_ENV.into(),
        };
        let id = state(facts, node, &one);
        facts.set(id, setting::JOB_NODES, job_nodes.clone());
        facts.know(id, setting::DISABLES, disables.into(), &layer.origin);
    }
}

/// Accelerate's configuration; gives the hostfile that it names.
fn accelerate_settings(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    file: Presence<Arc<str>>,
    ports: &OnceCell<Ports>,
    open: &mut Option<Gap>,
) -> Option<String> {
    let (text, origin) = match file {
        Presence::Present(text, origin) => (text, origin),
        Presence::Absent(_) => return None,
        Presence::Unknown(gap) => {
            open.get_or_insert(gap);
            return None;
        }
    };
    let keys = parse::yaml_keys(&text);
    let value = |key: &str| keys.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    // Accelerate takes one machine where the key is missing.
    let machines = match value("num_machines").map(|text| super::whole_number(&text)) {
        None => Fact::Known(1, origin.clone()),
        Some(number) => Fact::Known((), origin.clone()).and_then(|()| number),
    };
    for key in [
        "main_process_ip",
        "main_process_port",
        "num_machines",
        "num_processes",
    ] {
        let Some(text) = value(key) else { continue };
        let one = FoundSetting {
            name: format!("{key} of Accelerate"),
            variable: key.to_owned(),
            value: Fact::Known(text, origin.clone()),
            source: "accelerate/default_config.yaml".into(),
        };
        let id = state(facts, node, &one);
        facts.set(id, setting::JOB_NODES, machines.clone());
        match key {
            "main_process_ip" => address(ask, facts, id, &one),
            "main_process_port" => {
                let ports = ports.get_or_init(|| Ports::of(ask));
                ports.judge(facts, id, &one.value);
            }
            _ => {}
        }
    }
    value("deepspeed_hostfile").map(|path| path.to_string())
}
