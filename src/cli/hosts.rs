//! Hosts that are reached over ssh: who they are, and how. For `rdma-doctor check` each records itself ([`crate::examine::hosts`]); what measures is started
//! on them ([`super::together::starter`]).

use std::path::PathBuf;

use clap::Args;

use super::AskArgs;
use super::input::{BadInput, BadUsage, bad_usage};
use super::together::TogetherArgs;
use crate::cluster::hostfile;
use crate::examine::given::HostsRequest;
use crate::live::{environment, files};
use crate::nodeset;
use crate::terminal;

/// How hosts are reached over ssh.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several nodes")]
pub struct HostsArgs {
    /// Start the doctor on these hosts, as n[01-16], over ssh by the name, key and way that the user's ssh configuration has; what it finds is said here
    #[arg(
        long,
        value_name = "HOSTS",
        conflicts_with_all = ["cluster", "alone", "rank", "nodes", "key_file"]
    )]
    pub hosts: Option<String>,
    /// Start the doctor on the hosts of this file, one a line; what follows a name (slots=8) is left out
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["hosts", "cluster", "alone", "rank", "nodes", "key_file"]
    )]
    pub hostfile: Option<PathBuf>,
    /// The command that reaches a host, as "ssh -F FILE"; else RDMA_DOCTOR_SSH, else ssh
    #[arg(long, value_name = "COMMAND")]
    pub ssh: Option<String>,
    /// The doctor on the other side, as "sudo -n /opt/bin/rdma-doctor"
    #[arg(long, value_name = "COMMAND", default_value = "rdma-doctor")]
    pub remote: String,
    /// How many hosts are logged in to at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub fanout: u16,
}

/// The hosts that the arguments name; `None` where they name none.
///
/// # Errors
///
/// The list is not understood, or empty; the file cannot be read.
pub fn named(args: &HostsArgs) -> anyhow::Result<Option<Vec<String>>> {
    let (hosts, of) = match (&args.hosts, &args.hostfile) {
        (None, None) => return Ok(None),
        (Some(list), _) => (
            nodeset::expand(list).map_err(|e| BadUsage(format!("--hosts: {e}")))?,
            "--hosts".to_owned(),
        ),
        (None, Some(path)) => {
            let text = files::read_input(path).map_err(|e| BadInput::of(path, e))?;
            let hosts = hostfile::read(&text).map_err(|e| BadInput::of(path, e))?;
            (hosts, terminal::path(path))
        }
    };
    if hosts.is_empty() {
        return Err(bad_usage(format!("{of} names no host")));
    }
    // ssh takes such a word for an option of its own.
    if let Some(bad) = hosts.iter().find(|name| name.starts_with('-')) {
        return Err(bad_usage(format!("{of}: {bad:?} is not a host name")));
    }
    Ok(Some(hosts))
}

/// The words of the command that reaches a host.
///
/// # Errors
///
/// What reaches a host, or is there, is no command.
pub fn ssh(args: &HostsArgs) -> anyhow::Result<Vec<String>> {
    let said = args
        .ssh
        .clone()
        .or_else(|| environment::variable("RDMA_DOCTOR_SSH"));
    let ssh = said.as_deref().unwrap_or("ssh").split_whitespace();
    let ssh: Vec<String> = ssh.map(str::to_owned).collect();
    if ssh.is_empty() || args.remote.trim().is_empty() {
        return Err(bad_usage("--ssh and --remote are commands, and not empty"));
    }
    Ok(ssh)
}

/// The hosts that the arguments name, and how each is asked for a recording of itself; `None` where they name none.
///
/// # Errors
///
/// Those of [`named`] and [`ssh`].
pub fn request(
    together: &TogetherArgs,
    ask: &AskArgs,
    no_reach: bool,
) -> anyhow::Result<Option<HostsRequest>> {
    let args = &together.hosts;
    let Some(names) = named(args)? else {
        return Ok(None);
    };
    Ok(Some(HostsRequest {
        names,
        ssh: ssh(args)?,
        doctor: args.remote.clone(),
        fanout: args.fanout.into(),
        wait: together.wait,
        machine: ask.request(),
        no_reach,
    }))
}
