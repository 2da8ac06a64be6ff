//! The job that the environment describes: how many nodes it has, and whether its port is one to meet at.

use super::{Ports, Variables};
use crate::fact::setting::PortFitness;
use crate::fact::{Fact, Origin};

/// Variables that describe a job, and are no settings.
pub(in crate::probe) const VARIABLES: &[&str] = &[
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "SLURM_STEP_NUM_NODES",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "PET_NNODES",
    "NNODES",
];

/// How many nodes the job has; 0 if the variables describe none. What describes the process comes before what describes
/// the allocation around it: a step on one node of four is a job of one.
pub(in crate::probe) fn job_nodes(variables: &Variables) -> u64 {
    let number = |name: &str| positive(variables, name);
    let ratio = |all: &str, here: &str| Some(number(all)?.div_ceil(number(here)?));
    ratio("WORLD_SIZE", "LOCAL_WORLD_SIZE")
        .or_else(|| number("GROUP_WORLD_SIZE"))
        .or_else(|| ratio("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"))
        .or_else(|| number("SLURM_STEP_NUM_NODES"))
        .or_else(|| number("SLURM_JOB_NUM_NODES"))
        .or_else(|| number("SLURM_NNODES"))
        .or_else(|| least_of_range(variables.get("PET_NNODES")?))
        .or_else(|| number("NNODES"))
        .unwrap_or(0)
}

/// How many ranks the job has; 0 if the variables describe none.
pub(in crate::probe) fn job_ranks(variables: &Variables) -> u64 {
    let number = |name: &str| positive(variables, name);
    let ranks = number("WORLD_SIZE").or_else(|| number("OMPI_COMM_WORLD_SIZE"));
    ranks.unwrap_or(0)
}

fn positive(variables: &Variables, name: &str) -> Option<u64> {
    let value: u64 = variables.get(name)?.trim().parse().ok()?;
    Some(value).filter(|value| *value > 0)
}

/// torchrun's `--nnodes`: `4`, or `2:4` for an elastic job.
fn least_of_range(text: &str) -> Option<u64> {
    text.split(':').next()?.trim().parse().ok()
}

/// The suitability of a port number. An unknown bound counts only if it decides.
pub(super) fn port_fitness(value: &str, ports: &Ports, origin: &Origin) -> Fact<PortFitness> {
    let Some(port) = value
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|port| (1..=65535).contains(port))
    else {
        return Fact::Known(PortFitness::NoPort, origin.clone());
    };
    let first = match &ports.first {
        Fact::Known(first, _) => *first,
        Fact::Unknown(gap) if port < 1024 => return Fact::Unknown(gap.clone()),
        // No kernel's default is higher.
        Fact::Unknown(_) => 1024,
    };
    if port < first {
        match &ports.privileged {
            Fact::Known(true, _) => {}
            Fact::Known(false, origin) => {
                return Fact::Known(PortFitness::Privileged, origin.clone());
            }
            Fact::Unknown(gap) => return Fact::Unknown(gap.clone()),
        }
    }
    Fact::Known(PortFitness::Fit, origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(variables: &[(&str, &str)]) -> u64 {
        let variables = variables.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        job_nodes(&variables.collect())
    }

    #[test]
    fn the_process_comes_before_the_allocation() {
        assert_eq!(nodes(&[]), 0);
        assert_eq!(
            nodes(&[
                ("WORLD_SIZE", "8"),
                ("LOCAL_WORLD_SIZE", "8"),
                ("SLURM_JOB_NUM_NODES", "4")
            ]),
            1
        );
        assert_eq!(nodes(&[("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")]), 2);
        assert_eq!(
            nodes(&[("SLURM_STEP_NUM_NODES", "1"), ("SLURM_NNODES", "4")]),
            1
        );
        assert_eq!(nodes(&[("SLURM_NNODES", "4")]), 4);
        assert_eq!(nodes(&[("PET_NNODES", "2:4")]), 2);
        // How many processes there are does not say on how many nodes.
        assert_eq!(nodes(&[("WORLD_SIZE", "8")]), 0);
        assert_eq!(nodes(&[("WORLD_SIZE", "x"), ("LOCAL_WORLD_SIZE", "0")]), 0);
    }

    #[test]
    fn ports() {
        let fit = |value: &str, privileged: bool| {
            let ports = Ports {
                first: Fact::Known(1024, Origin::Stated),
                privileged: Fact::Known(privileged, Origin::Stated),
            };
            *port_fitness(value, &ports, &Origin::Stated)
                .known()
                .unwrap()
        };
        assert_eq!(fit("29500", false), PortFitness::Fit);
        assert_eq!(fit(" 29500\n", false), PortFitness::Fit);
        for bad in ["", "0", "65536", "29500a", "-1", "$PORT"] {
            assert_eq!(fit(bad, false), PortFitness::NoPort, "{bad}");
        }
        assert_eq!(fit("512", false), PortFitness::Privileged);
        assert_eq!(fit("512", true), PortFitness::Fit);
    }
}
