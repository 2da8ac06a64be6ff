//! Services of the system: what systemd reports about them, its files if it cannot be asked, and the processes.
//!
//! That a service does not run is known only in the kernel's first PID namespace: a container has no services of its own to speak
//! of, and the host's are hidden from it.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use self::parse::Unit;
use super::{Ask, Probe};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, Why, known, node, service};
use crate::source::Question;

/// The probe.
// systemd does not answer while it reads its units again.
pub const PROBE: Probe = Probe::new("service", run).within(Duration::from_secs(6));

/// A service, the name of its process as the kernel has it (cut to 15 bytes; empty if it loads modules and is done), and the units that make it up.
type Service = (&'static str, &'static str, &'static [&'static str]);

/// The services that matter.
const SERVICES: &[Service] = &[
    ("openibd", "", &["openibd.service"]),
    // NVIDIA's package names it opensmd.
    ("opensm", "opensm", &["opensm.service", "opensmd.service"]),
    // The socket alone is enough: the first client starts the service.
    ("ibacm", "ibacm", &["ibacm.service", "ibacm.socket"]),
    ("rdma-ndd", "rdma-ndd", &["rdma-ndd.service"]),
    (
        FABRIC_MANAGER,
        "nv-fabricmanage",
        &["nvidia-fabricmanager.service"],
    ),
    (
        PERSISTENCE,
        "nvidia-persiste",
        &["nvidia-persistenced.service"],
    ),
    ("nvidia-imex", "nvidia-imex", &["nvidia-imex.service"]),
    ("irqbalance", "irqbalance", &["irqbalance.service"]),
    ("numad", "numad", &["numad.service"]),
    ("tuned", "tuned", &["tuned.service"]),
];

/// The service that a unit makes up, if it is one that matters.
pub(super) fn of_unit(unit: &str) -> Option<&'static str> {
    let mut all = SERVICES.iter();
    let service = all.find(|(.., units)| units.contains(&unit));
    service.map(|(name, ..)| *name)
}

/// The service that NVSwitches need.
const FABRIC_MANAGER: &str = "nvidia-fabricmanager";
/// The service that keeps GPUs initialised.
const PERSISTENCE: &str = "nvidia-persistenced";
/// The inode number of the kernel's first PID namespace (`include/linux/proc_ns.h`).
const FIRST_PID: &str = "pid:[4026531836]";
/// Where systemd keeps a link for each unit that is active, since version 237.
const ACTIVE_UNITS: &str = "/run/systemd/units";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let switches = nvswitches(ask);
    facts.set(node, node::NVSWITCHES, switches.clone());
    let outside = first_pid_namespace(ask);
    let systemd = Systemd::ask(ask);
    let driver = ask.answers(Question::stat("/proc/driver/nvidia/version"));
    // NVIDIA's services may run beside systemd, in a container that holds the driver: before one is missed, the processes are
    // looked through. So they are where systemd says nothing.
    let missed = |units: &[Unit]| {
        let inactive = |name: &str| !units.iter().any(|u| u.id.starts_with(name) && u.active);
        (switches.known().is_some_and(|n| *n > 0) && inactive(FABRIC_MANAGER))
            || (driver.known() == Some(&true) && inactive(PERSISTENCE))
    };
    let processes = match &systemd {
        Systemd::Says(units, _) if !missed(units) => None,
        _ => Some(processes(ask)),
    };
    let members = Membership::Known(Origin::derived("the services that matter"));
    facts.set_members(Subject::Service, node, members);
    for service in SERVICES {
        let id = facts.instance(Subject::Service, node, service.0);
        facts.derive(
            id,
            service::NAME,
            service.0.into(),
            "the services that matter",
        );
        let units = systemd.of(ask, service);
        let active = active(service, &units, &processes, &outside);
        facts.set(id, service::STATE, state(service, &units, &active));
        facts.set(id, service::ACTIVE, active);
        let inside = |fact: Fact<bool>| match (fact, &outside) {
            // A container's own manager speaks of the container's services.
            (Fact::Known(false, _), Fact::Known(false, _)) => Fact::Unknown(hidden()),
            (Fact::Known(false, _), Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
            (fact, _) => fact,
        };
        let enabled = match &systemd {
            Systemd::Says(..) => units.clone().map(|u| u.iter().any(|u| u.enabled)),
            Systemd::Files(_) => enabled_by_file(ask, service),
        };
        facts.set(id, service::ENABLED, inside(enabled));
        let failed = units.map(|u| u.iter().any(|u| u.failed));
        facts.set(id, service::FAILED, inside(failed));
    }
}

fn hidden() -> Gap {
    Gap::missing("which services the host runs: this is a container")
}

/// NVSwitches that are bound to their driver.
fn nvswitches(ask: &Ask<'_>) -> Fact<u64> {
    let names = ask.names_if_any("/sys/bus/pci/drivers/nvidia-nvswitch");
    // Beside the functions there are `bind`, `module`, `new_id`, …
    let functions = names.map(|names| names.iter().filter(|name| name.contains(':')).count());
    functions.map(|count| count as u64).or_absent(0)
}

/// Whether all processes of the machine can be seen from here.
pub(super) fn first_pid_namespace(ask: &Ask<'_>) -> Fact<bool> {
    let namespace = ask.link_name("/proc/self/ns/pid");
    let namespace = namespace.or_gap(Why::NotSaid("the kernel has no such namespaces".into()));
    namespace.map(|name| &*name == FIRST_PID)
}

/// systemd's reply.
enum Systemd {
    /// The units, in the order in which they are listed here.
    Says(Vec<Unit>, Origin),
    /// It cannot be asked, and keeps its files in this way.
    Files(Fact<bool>),
}

impl Systemd {
    fn ask(ask: &Ask<'_>) -> Self {
        let units: Vec<&str> = SERVICES.iter().flat_map(|s| s.2).copied().collect();
        let mut argv = vec![
            "systemctl",
            "show",
            "--no-pager",
            "--property=Id,LoadState,ActiveState,SubState,UnitFileState",
        ];
        argv.extend(&units);
        match ask.command(&argv, |text| parse::units(text, units.len())) {
            Fact::Known(units, origin) => Systemd::Says(units, origin),
            Fact::Unknown(_) => Systemd::Files(ask.answers(Question::stat(ACTIVE_UNITS))),
        }
    }

    /// systemd's reply about a service's units.
    fn of(&self, ask: &Ask<'_>, service: &Service) -> Fact<Vec<Unit>> {
        let before = SERVICES.iter().take_while(|s| s.0 != service.0);
        let first: usize = before.map(|s| s.2.len()).sum();
        match self {
            Systemd::Says(units, origin) => {
                let own = units.iter().skip(first).take(service.2.len());
                Fact::Known(own.cloned().collect(), origin.clone())
            }
            Systemd::Files(Fact::Known(true, _)) => by_files(ask, service),
            Systemd::Files(Fact::Known(false, origin)) => {
                Fact::Unknown(Gap::not_said("systemd does not run here", origin.clone()))
            }
            Systemd::Files(Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        }
    }
}

/// The links that systemd keeps for its active units. Whether one failed they do not tell: that stays open.
fn by_files(ask: &Ask<'_>, service: &Service) -> Fact<Vec<Unit>> {
    let mut missing = None;
    for unit in service.2 {
        let link = Question::link(format!("{ACTIVE_UNITS}/invocation:{unit}"));
        match ask.answers(link) {
            Fact::Known(true, origin) => return Fact::Known(vec![Unit::active(unit)], origin),
            Fact::Known(false, origin) => {
                missing.get_or_insert(Gap::not_said(
                    "systemd keeps no link for an active unit",
                    origin,
                ));
            }
            Fact::Unknown(gap) => missing = Some(gap),
        }
    }
    Fact::Unknown(Gap::missing("its units")).unless(missing)
}

/// Whether the unit is among those that the usual target starts. Asked of services without a process only: for the others nothing
/// depends on it.
fn enabled_by_file(ask: &Ask<'_>, service: &Service) -> Fact<bool> {
    let Some(unit) = service.2.first().filter(|_| service.1.is_empty()) else {
        return Fact::Unknown(Gap::missing("whether it is started at boot"));
    };
    let link = Question::link(format!(
        "/etc/systemd/system/multi-user.target.wants/{unit}"
    ));
    match ask.answers(link) {
        // It may be wanted by another target.
        Fact::Known(false, origin) => {
            Fact::Unknown(Gap::not_said("the usual target does not start it", origin))
        }
        fact => fact,
    }
}

/// The processes of the services that run, and whether all processes could be seen.
type Running = (HashSet<Arc<str>>, bool);

fn processes(ask: &Ask<'_>) -> Fact<Running> {
    let names: Vec<&str> = SERVICES
        .iter()
        .map(|s| s.1)
        .filter(|name| !name.is_empty())
        .collect();
    let names = names.join(" ");
    let question = Question::call("running_commands", [("names", names.as_str().into())]);
    ask.value(question).and_then(|value| {
        Ok((
            super::member(&value, "running")?,
            super::member(&value, "all")?,
        ))
    })
}

fn active(
    service: &Service,
    units: &Fact<Vec<Unit>>,
    processes: &Option<Fact<Running>>,
    outside: &Fact<bool>,
) -> Fact<bool> {
    if let Fact::Known(units, origin) = units
        && units.iter().any(|unit| unit.active)
    {
        return Fact::Known(true, origin.clone());
    }
    if let Some(Fact::Known((running, _), origin)) = processes
        && running.contains(service.1)
    {
        return Fact::Known(true, origin.clone());
    }
    if !*known!(outside) {
        return Fact::Unknown(hidden());
    }
    let may_run_beside = matches!(service.0, FABRIC_MANAGER | PERSISTENCE);
    match (units, processes) {
        // If the processes were looked through, they have to be known too.
        (Fact::Known(_, origin), None | Some(Fact::Known((_, true), _))) => {
            Fact::Known(false, origin.clone())
        }
        (Fact::Known(_, origin), Some(_)) if !may_run_beside => Fact::Known(false, origin.clone()),
        (Fact::Unknown(_), Some(Fact::Known((_, true), origin))) if !service.1.is_empty() => {
            Fact::Known(false, origin.clone())
        }
        (_, Some(Fact::Known((_, false), origin))) => Fact::Unknown(Gap::not_said(
            "not all processes can be seen",
            origin.clone(),
        )),
        (_, Some(Fact::Unknown(gap))) | (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
    }
}

/// The units' states in words; of a service that only its process betrays, that.
fn state(service: &Service, units: &Fact<Vec<Unit>>, active: &Fact<bool>) -> Fact<Arc<str>> {
    let Fact::Known(units, origin) = units else {
        let process = if service.1.is_empty() {
            service.0
        } else {
            service.1
        };
        return active.clone().map(|active| match active {
            true => format!("process {process} runs").into(),
            false => "no process of it runs".into(),
        });
    };
    let telling: Vec<&Unit> = match units.iter().filter(|u| u.active || u.failed).collect() {
        found if Vec::is_empty(&found) => units.iter().take(1).collect(),
        found => found,
    };
    let beside = match active {
        Fact::Known(true, _) if !telling.iter().any(|u| u.active) => {
            ", its process runs beside systemd"
        }
        _ => "",
    };
    let states: Vec<String> = telling.iter().map(|u| u.to_string()).collect();
    let state = format!("{}{beside}", states.join(", "));
    Fact::Known(state.into(), origin.clone())
}
