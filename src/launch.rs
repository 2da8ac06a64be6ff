//! The launcher of this process and its place among the ranks, read from the environment that the launcher sets.
//!
//! Engines nest: `mpirun` in an allocation of Slurm starts its daemons with `srun`, and `torchrun` runs in a step. The innermost one, which started this
//! process, is the one that counts.

use std::fmt;

use crate::nodeset;

/// What started the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `torchrun`, or another launcher that speaks its variables (PyTorchJob, DeepSpeed, accelerate).
    Torchrun,
    /// Open MPI's `mpirun`, or PRRTE.
    OpenMpi,
    /// MPICH's, Intel's or MVAPICH's `mpiexec` (Hydra).
    Hydra,
    /// HPE Cray's PALS: `aprun`, `mpiexec` on Shasta.
    Pals,
    /// IBM's `jsrun`.
    Jsrun,
    /// A step of Slurm: `srun`.
    Slurm,
    /// An Indexed Job of Kubernetes.
    IndexedJob,
}

impl Engine {
    /// As a person calls it.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Torchrun => "torchrun",
            Engine::OpenMpi => "Open MPI",
            Engine::Hydra => "Hydra (MPICH, Intel MPI)",
            Engine::Pals => "PALS",
            Engine::Jsrun => "jsrun",
            Engine::Slurm => "Slurm",
            Engine::IndexedJob => "Kubernetes Indexed Job",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What started the process.
    pub engine: Engine,
    /// Which of the processes it is.
    pub rank: u64,
    /// How many processes there are; an Indexed Job does not say.
    pub ranks: Option<u64>,
    /// Which of the processes of its node it is.
    pub local_rank: Option<u64>,
    /// How many processes its node has.
    pub local_ranks: Option<u64>,
    /// How many nodes take part.
    pub nodes: Option<u64>,
    /// Which of the nodes it is on.
    pub node: Option<u64>,
    /// The names of the nodes, in the engine's order.
    pub names: Vec<String>,
    /// Where the processes meet: the first one's host, if the engine says it.
    pub master: Option<String>,
    /// The job's own port on that host. The doctor never binds it: the job's store may hold it.
    pub master_port: Option<u16>,
    /// The job, in the engine's words.
    pub job: Option<String>,
    /// The variables that this rests on, with their values.
    pub from: Vec<(&'static str, String)>,
}

impl Launch {
    /// Whether this process acts for its node: the lowest of those on it. `None` if the engine does not tell.
    pub fn acts(&self) -> Option<bool> {
        match (self.local_rank, self.engine) {
            (Some(local), _) => Some(local == 0),
            // A pod is a node of its own.
            (None, Engine::IndexedJob) => Some(true),
            (None, _) if self.ranks.is_some() && self.ranks == self.nodes => Some(true),
            (None, _) => None,
        }
    }

    /// A description: "Slurm: rank 0 of 6, 3 nodes".
    pub fn words(&self) -> String {
        let mut text = format!("{}: rank {}", self.engine, self.rank);
        if let Some(ranks) = self.ranks {
            text.push_str(&format!(" of {ranks}"));
        }
        match self.nodes {
            Some(1) => text.push_str(", 1 node"),
            Some(nodes) => text.push_str(&format!(", {nodes} nodes")),
            None => {}
        }
        text
    }

    /// Whether several nodes take part, so that a check joins the others.
    pub fn is_of_several_nodes(&self) -> bool {
        self.nodes.is_some_and(|nodes| nodes > 1)
    }
}

/// Why a launch is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A variable of the engine is missing.
    #[error("{engine} started this process ({by}), but {missing} is not set")]
    Missing {
        /// The engine.
        engine: Engine,
        /// The variable that says so.
        by: &'static str,
        /// The one that is missing.
        missing: &'static str,
    },
    /// A variable is no number.
    #[error("{variable}={value:?} is not a number")]
    NoNumber {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The rank is not among the ranks.
    #[error("rank {rank} of {ranks} ({engine})")]
    Rank {
        /// The engine.
        engine: Engine,
        /// The rank.
        rank: u64,
        /// How many there are.
        ranks: u64,
    },
    /// The list of nodes is not understood.
    #[error("{variable}: {error}")]
    Nodes {
        /// The variable.
        variable: &'static str,
        /// Why it is invalid.
        error: nodeset::NodesetError,
    },
}

type Names = &'static [&'static str];
/// The variable that shows that an engine started the process, those of rank and ranks, and those that may say the local rank, the ranks of the node, the
/// nodes, the node and the job.
type EngineVariables = (
    &'static str,
    &'static str,
    &'static str,
    Names,
    Names,
    Names,
    Names,
    Names,
);

/// The engines, the innermost first.
const ENGINES: [Engine; 6] = [
    Engine::Torchrun,
    Engine::OpenMpi,
    Engine::Jsrun,
    Engine::Pals,
    Engine::Hydra,
    Engine::Slurm,
];
static VARIABLES: &[EngineVariables] =
    include!(concat!(env!("OUT_DIR"), "/launch_variables.engines.rs"));

/// Where launchers say how many ranks a job has, the most telling first.
pub const RANK_COUNTS: [&str; 4] = [
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
];

/// The variables that hold numbers: with them alone a launch is understood but for its hosts' names, which are nobody else's affair.
pub fn numbers() -> impl Iterator<Item = &'static str> {
    let of_engine =
        |&(by, rank, ranks, local_rank, local_ranks, nodes, node, _): &EngineVariables| {
            let lists = [local_rank, local_ranks, nodes, node];
            let said = lists.into_iter().flatten().copied();
            [by, rank, ranks].into_iter().chain(said)
        };
    let mut seen = std::collections::BTreeSet::new();
    VARIABLES
        .iter()
        .flat_map(of_engine)
        .chain(["SLURM_STEP_ID", "SLURM_STEPID", INDEX])
        .filter(move |name| seen.insert(*name))
}

/// The variables that tell jobs of one node apart.
pub fn jobs() -> impl Iterator<Item = &'static str> {
    let of_engine = VARIABLES.iter().flat_map(|&(.., job)| job.iter().copied());
    of_engine.chain(["MASTER_ADDR", "MASTER_PORT"])
}

/// Whether an environment tells which rank a process is.
pub fn tells_rank(get: impl Fn(&str) -> Option<String>) -> bool {
    matches!(read(get), Ok(Some(_)))
}

/// An Indexed Job's only word. Source: Kubernetes, "Indexed Job for Parallel Processing with Static Work Assignment".
const INDEX: &str = "JOB_COMPLETION_INDEX";
/// Ids that Slurm gives to steps that are none of `srun`'s: batch, extern, interactive, pending. Source: Slurm `slurm/slurm.h`, `SLURM_BATCH_SCRIPT`.
const FIRST_SPECIAL_STEP: u64 = 0xffff_fff0;

/// Reads the launch from the environment; `None` if no engine started this process, or one that starts a single one.
///
/// # Errors
///
/// The engine says less than it does by its documentation, or what is no number.
pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Option<Launch>, LaunchError> {
    let mut from: Vec<(&'static str, String)> = Vec::new();
    for (engine, names) in ENGINES.into_iter().zip(VARIABLES) {
        // RANK alone is set by many a script; with the number of ranks it is torchrun's way to say it.
        if get(names.0).is_none()
            || (engine == Engine::Torchrun && get(names.2).is_none())
            || (engine == Engine::Slurm && is_special_step(&get))
        {
            continue;
        }
        return one(engine, names, &get, &mut from).map(Some);
    }
    let Some(value) = get(INDEX) else {
        return Ok(None);
    };
    let rank = number(INDEX, value.clone())?;
    Ok(Some(Launch {
        engine: Engine::IndexedJob,
        rank,
        ranks: None,
        local_rank: None,
        local_ranks: None,
        nodes: None,
        node: Some(rank),
        names: Vec::new(),
        master: get("MASTER_ADDR"),
        master_port: get("MASTER_PORT").and_then(|port| port.parse().ok()),
        job: None,
        from: vec![(INDEX, value)],
    }))
}

fn is_special_step(get: &impl Fn(&str) -> Option<String>) -> bool {
    let step = get("SLURM_STEP_ID").or_else(|| get("SLURM_STEPID"));
    step.and_then(|step| step.parse::<u64>().ok())
        .is_some_and(|step| step >= FIRST_SPECIAL_STEP)
}

fn number(variable: &'static str, value: String) -> Result<u64, LaunchError> {
    let number = value.trim().parse();
    number.map_err(|_| LaunchError::NoNumber { variable, value })
}

fn one(
    engine: Engine,
    &(by, rank, ranks, local_rank, local_ranks, nodes, node, job): &EngineVariables,
    get: &impl Fn(&str) -> Option<String>,
    from: &mut Vec<(&'static str, String)>,
) -> Result<Launch, LaunchError> {
    let mut said = |variable: &'static str| -> Result<Option<u64>, LaunchError> {
        let Some(value) = get(variable) else {
            return Ok(None);
        };
        from.push((variable, value.clone()));
        number(variable, value).map(Some)
    };
    let mut first = |variables: &[&'static str]| -> Result<Option<u64>, LaunchError> {
        for variable in variables {
            if let Some(number) = said(variable)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    };
    let missing = |missing| LaunchError::Missing {
        engine,
        by,
        missing,
    };
    let rank = first(&[rank])?.ok_or_else(|| missing(rank))?;
    let ranks = first(&[ranks])?.ok_or_else(|| missing(ranks))?;
    if rank >= ranks {
        return Err(LaunchError::Rank {
            engine,
            rank,
            ranks,
        });
    }
    let local_rank = first(local_rank)?;
    let local_ranks = first(local_ranks)?;
    let mut nodes = first(nodes)?;
    let mut node = first(node)?;
    // As many on each node, which is how these launchers place them.
    if let Some(local) = local_ranks.filter(|local| *local > 0 && ranks % local == 0) {
        nodes = nodes.or(Some(ranks / local));
        if engine == Engine::Torchrun {
            node = node.or(Some(rank / local));
        }
    }
    let list = "SLURM_STEP_NODELIST";
    let mut listed = Vec::new();
    if engine == Engine::Slurm
        && let Some(value) = get(list)
    {
        listed = nodeset::expand(&value).map_err(|error| LaunchError::Nodes {
            variable: list,
            error,
        })?;
        from.push((list, value));
    }
    let mut text = |variable: &'static str| {
        let value = get(variable).filter(|value| !value.is_empty())?;
        from.push((variable, value.clone()));
        Some(value)
    };
    let job = job.iter().find_map(|variable| text(variable));
    let master = text("MASTER_ADDR").or_else(|| listed.first().cloned());
    let master_port = text("MASTER_PORT").and_then(|port| port.parse().ok());
    Ok(Launch {
        engine,
        rank,
        ranks: Some(ranks),
        local_rank,
        local_ranks,
        nodes,
        node,
        names: listed,
        master,
        master_port,
        job,
        from: std::mem::take(from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(vars: &[(&str, &str)]) -> Result<Option<Launch>, LaunchError> {
        read(|name| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const STEP: [(&str, &str); 9] = [
        ("SLURM_JOB_ID", "77"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "5"),
        ("SLURM_STEP_NUM_TASKS", "8"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_NUM_NODES", "4"),
        ("SLURM_STEP_NODELIST", "c[0-3]"),
        ("SLURM_NODEID", "2"),
        ("SLURM_NTASKS", "8"),
    ];

    #[test]
    fn a_step_of_slurm() {
        let launch = launch(&STEP).unwrap().unwrap();
        assert_eq!(launch.engine, Engine::Slurm);
        assert_eq!((launch.rank, launch.ranks), (5, Some(8)));
        assert_eq!((launch.nodes, launch.node), (Some(4), Some(2)));
        assert_eq!(launch.names, ["c0", "c1", "c2", "c3"]);
        assert_eq!(launch.master.as_deref(), Some("c0"));
        assert_eq!(launch.job.as_deref(), Some("77"));
        assert_eq!(launch.acts(), Some(false));
        assert!(launch.is_of_several_nodes());
        assert!(launch.from.contains(&("SLURM_PROCID", "5".to_owned())));
        assert_eq!(launch.words(), "Slurm: rank 5 of 8, 4 nodes");
    }

    #[test]
    fn a_batch_script_has_no_others_to_wait_for() {
        let batch = [
            ("SLURM_JOB_ID", "77"),
            ("SLURM_JOB_NUM_NODES", "4"),
            ("SLURM_NNODES", "4"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_PROCID", "0"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_NODEID", "0"),
        ];
        assert_eq!(launch(&batch), Ok(None));
        let mut special = STEP.to_vec();
        special[1].1 = "4294967291";
        assert_eq!(launch(&special), Ok(None));
        assert_eq!(launch(&[]), Ok(None));
    }

    #[test]
    fn what_is_inside_counts() {
        let mut mpi = STEP.to_vec();
        mpi.extend([
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "prterun-1"),
        ]);
        let open_mpi = launch(&mpi).unwrap().unwrap();
        assert_eq!(open_mpi.engine, Engine::OpenMpi);
        assert_eq!((open_mpi.rank, open_mpi.nodes), (3, Some(2)));
        mpi.extend([
            ("RANK", "9"),
            ("WORLD_SIZE", "16"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "8"),
            ("GROUP_RANK", "1"),
            ("GROUP_WORLD_SIZE", "2"),
            ("MASTER_ADDR", "c0"),
            ("MASTER_PORT", "29500"),
        ]);
        let torchrun = launch(&mpi).unwrap().unwrap();
        assert_eq!(torchrun.engine, Engine::Torchrun);
        assert_eq!((torchrun.nodes, torchrun.node), (Some(2), Some(1)));
        assert_eq!(torchrun.master_port, Some(29500));
    }

    #[test]
    fn other_engines() {
        let hydra = launch(&[
            ("PMI_RANK", "2"),
            ("PMI_SIZE", "4"),
            ("MPI_LOCALRANKID", "0"),
            ("MPI_LOCALNRANKS", "2"),
        ]);
        let hydra = hydra.unwrap().unwrap();
        assert_eq!((hydra.engine, hydra.nodes), (Engine::Hydra, Some(2)));
        assert_eq!(hydra.acts(), Some(true));
        let pod = launch(&[("JOB_COMPLETION_INDEX", "3")]).unwrap().unwrap();
        assert_eq!((pod.rank, pod.acts(), pod.nodes), (3, Some(true), None));
        assert_eq!(pod.words(), "Kubernetes Indexed Job: rank 3");
        // A script's own RANK is no launch.
        assert_eq!(launch(&[("RANK", "3")]), Ok(None));
    }

    #[test]
    fn half_a_launch_is_an_error_that_names_what_is_missing() {
        let said = |vars: &[(&str, &str)]| launch(vars).unwrap_err().to_string();
        assert_eq!(
            said(&[("OMPI_COMM_WORLD_RANK", "0")]),
            "Open MPI started this process (OMPI_COMM_WORLD_RANK), but OMPI_COMM_WORLD_SIZE is not set"
        );
        assert_eq!(
            said(&[("RANK", "x"), ("WORLD_SIZE", "2")]),
            "RANK=\"x\" is not a number"
        );
        assert_eq!(
            said(&[("RANK", "2"), ("WORLD_SIZE", "2")]),
            "rank 2 of 2 (torchrun)"
        );
        let mut step = STEP.to_vec();
        step[6].1 = "c[0-";
        assert!(said(&step).starts_with("SLURM_STEP_NODELIST: "));
    }
}
