//! `rdma-doctor job`: from a job's processes on this node, and what ranks recorded of their collectives, to the rank that a job waits for.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::hosts::{self, HostsArgs};
use super::input::{BadInput, bad_usage};
use super::judging::JudgeArgs;
use super::log::{self, LogArgs};
use super::output::StandardError;
use super::{SelectArgs, output_file, record};
use crate::examine::budget::Foreign;
use crate::examine::job_on_hosts::{self, JobOnHosts};
use crate::examine::live_job::{self, AskRas, LiveJobRequest};
use crate::examine::recording_text::to_text;
use crate::exit::Exit;
use crate::live;
use crate::source::recording::Recording;
use crate::terminal;

/// Say whether a job moves, and which rank it waits for. Nothing is asked of the job: /proc, the counters of RDMA ports and the load of GPUs are read twice, on this node or on all nodes of the job, or files are read.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Processes of the job on this node, or one above them: these are looked at twice. Without any, and without a file, all processes that a launcher made ranks. Or files: dumps of PyTorch's flight recorder (pickle or JSON), outputs of ncclras (text or JSON), and logs of one job; a directory for all in it. Two dumps of a rank, or two outputs of ncclras, show whether the job moves. Or recordings of several nodes of a job, which this subcommand made
    #[arg(value_name = "PID|FILE")]
    pub given: Vec<PathBuf>,
    /// How long to wait between the two looks at processes
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::seconds)]
    pub interval: Duration,
    /// Ask NCCL's RAS for the state of all ranks too, twice, where that is safe: from NCCL 2.29.2 on. Older ones can crash when they are asked; "anyway" asks them all the same
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "safe")]
    pub ras: Option<RasArg>,
    /// Read where the ranks' Python programs stand too, with py-spy, which reads their memory while they go on; a path where it is not found by itself
    #[arg(long, value_name = "PY-SPY", num_args = 0..=1, require_equals = true, default_missing_value = "py-spy")]
    pub stacks: Option<PathBuf>,
    /// Ask the flight recorder of each rank for its dump, by the pipe of TORCH_NCCL_DEBUG_INFO_PIPE_FILE, and judge the dumps: each rank writes a file
    #[arg(long)]
    pub dump: bool,
    /// Look at the ranks on all nodes of this running job of Slurm, over ssh
    #[arg(long, value_name = "JOB", conflicts_with_all = ["given", "hosts", "hostfile", "record"])]
    pub slurm: Option<String>,
    /// Look at the ranks on these hosts, as n[01-16], over ssh
    #[arg(long, value_name = "HOSTS", conflicts_with_all = ["given", "hostfile", "record"])]
    pub hosts: Option<String>,
    /// Look at the ranks on the hosts of this file, one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["given", "record"])]
    pub hostfile: Option<PathBuf>,
    /// The command that reaches a host, as "ssh -F FILE"; else RDMA_DOCTOR_SSH, else ssh
    #[arg(long, value_name = "COMMAND")]
    pub ssh: Option<String>,
    /// The doctor on the other side, as "sudo -n /opt/bin/rdma-doctor"
    #[arg(long, value_name = "COMMAND", default_value = "rdma-doctor")]
    pub remote: String,
    /// Write what each of these nodes gave into this directory, as NODE.jsonl: `rdma-doctor job DIRECTORY` judges them again
    #[arg(long, value_name = "DIRECTORY")]
    pub record_dir: Option<PathBuf>,
    /// Write what was kept of the files as a recording; a name that ends in .zst is compressed, - is standard output
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub record: Option<PathBuf>,
    /// In that recording, leave host names and addresses as they are
    #[arg(long)]
    pub no_redact: bool,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// When NCCL's RAS is asked.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum RasArg {
    /// From NCCL 2.29.2 on
    Safe,
    /// Whatever the version
    Anyway,
}

impl From<RasArg> for AskRas {
    fn from(arg: RasArg) -> Self {
        match arg {
            RasArg::Safe => AskRas::WhereSafe,
            RasArg::Anyway => AskRas::Anyway,
        }
    }
}

impl JobArgs {
    /// What it judges that others wrote.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        let is_of_files = self.processes().is_none() && !self.names_nodes();
        is_of_files.then(Foreign::default)
    }

    /// The running job that is asked about; `None` where only files are given.
    fn processes(&self) -> Option<LiveJobRequest> {
        let (mut pids, mut files) = (Vec::new(), Vec::new());
        for given in &self.given {
            // A file may have a number for its name.
            let pid = given
                .to_str()
                .filter(|_| !live::files::is_file_or_directory(given));
            match pid
                .and_then(|text| text.parse::<u32>().ok())
                .filter(|pid| *pid > 0)
            {
                Some(pid) => pids.push(pid),
                None => files.push(given.clone()),
            }
        }
        (!pids.is_empty() || files.is_empty()).then_some(LiveJobRequest {
            pids,
            interval: self.interval,
            files,
            ras: self.ras.map(RasArg::into),
            py_spy: self.stacks.clone(),
            dumps: self.dump,
        })
    }

    fn names_nodes(&self) -> bool {
        self.slurm.is_some() || self.hosts.is_some() || self.hostfile.is_some()
    }

    /// The nodes of the job that the arguments name; `None` where they name none.
    fn nodes(&self) -> anyhow::Result<Option<JobOnHosts>> {
        let reached = HostsArgs {
            hosts: self.hosts.clone(),
            hostfile: self.hostfile.clone(),
            ssh: self.ssh.clone(),
            remote: self.remote.clone(),
            fanout: 1,
        };
        let names = match &self.slurm {
            Some(job) => Some(job_on_hosts::nodes_of_slurm_job(job)?),
            None => hosts::named(&reached)?,
        };
        let Some(mut names) = names else {
            return Ok(None);
        };
        // A node that is named twice has its ranks once.
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok(Some(JobOnHosts {
            names,
            ssh: hosts::ssh(&reached)?,
            doctor: self.remote.clone(),
            interval: self.interval,
            ras: self.ras.map(RasArg::into),
            py_spy: self.stacks.clone(),
            dumps: self.dump,
        }))
    }

    /// Writes what each node gave, where that is wished.
    fn keep(&self, given: &[Recording]) -> anyhow::Result<()> {
        let Some(directory) = &self.record_dir else {
            return Ok(());
        };
        let key = record::key(self.no_redact, None)?;
        for one in given {
            let name = one.header.node.replace('/', "_");
            let text = to_text(one, key.clone());
            record::write_out(
                &directory.join(format!("{name}.jsonl")),
                &text,
                self.no_redact,
            )?;
        }
        Ok(())
    }

    /// The same question as that of a log: both read all that a run left.
    fn as_log(&self) -> LogArgs {
        LogArgs {
            files: self.given.clone(),
            with: Vec::new(),
            record: self.record.clone(),
            no_redact: self.no_redact,
            redact_key: None,
            deadline: None,
            claims: Vec::new(),
            select: self.select.clone(),
            judge: self.judge.clone(),
        }
    }
}

/// These files, and in place of a directory that holds recordings alone these.
fn files_of(given: &[PathBuf]) -> Result<Vec<PathBuf>, BadInput> {
    let mut files = Vec::new();
    for path in given {
        let below = match live::files::is_directory(path) {
            true => {
                live::files::list_input(path, "jsonl").map_err(|why| BadInput::of(path, why))?
            }
            false => Vec::new(),
        };
        match below.len() > 1 && below.iter().all(|one| live::log::is_recording(one)) {
            true => files.extend(below),
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

/// Runs the subcommand.
///
/// # Errors
///
/// As that of `log`; nodes that no list names.
pub fn run(args: &JobArgs) -> anyhow::Result<Exit> {
    if let Some(directory) = &args.record_dir {
        if !args.names_nodes() {
            return Err(bad_usage(
                "--record-dir is for several nodes: --hosts, --hostfile or --slurm",
            ));
        }
        if !live::files::is_directory(directory) {
            return Err(bad_usage(format!(
                "--record-dir {}: no such directory",
                terminal::path(directory)
            )));
        }
    }
    if let Some(nodes) = args.nodes()? {
        return log::run_over(&args.as_log(), || {
            let given = job_on_hosts::gather(&nodes, &StandardError);
            args.keep(&given)?;
            Ok(given)
        });
    }
    if let Some(request) = args.processes() {
        return log::run_over(&args.as_log(), || {
            Ok(vec![live_job::record(&request, &StandardError)?])
        });
    }
    log::run(&LogArgs {
        files: files_of(&args.given)?,
        ..args.as_log()
    })
}
