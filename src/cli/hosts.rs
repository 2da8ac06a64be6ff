//! Hosts that are reached over ssh: who they are, and how. For `rdma-doctor check` each records itself, and all are judged here; what measures is started on
//! them ([`super::together::starter`]).

use crate::live::{clock, environment};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::input::{BadInput, BadUsage, bad_usage};
use super::many::ClusterMemory;
use super::{AskArgs, many};
use crate::check::Catalogue;
use crate::cluster::hostfile;
use crate::cluster::ssh::RemoteCommand;
use crate::live::files;
use crate::nodeset;
use crate::report::{Policy, Report};
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

/// The longest recording that is taken of a host, packed.
const MOST: u64 = 64 << 20;

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

/// How a command is run on a host, and how long it may take.
///
/// # Errors
///
/// What reaches a host, or is there, is no command.
pub fn remote(
    args: &HostsArgs,
    command: String,
    deadline: Duration,
) -> anyhow::Result<RemoteCommand> {
    let said = args
        .ssh
        .clone()
        .or_else(|| environment::variable("RDMA_DOCTOR_SSH"));
    let ssh = said.as_deref().unwrap_or("ssh").split_whitespace();
    let ssh: Vec<String> = ssh.map(str::to_owned).collect();
    if ssh.is_empty() || args.remote.trim().is_empty() {
        return Err(bad_usage("--ssh and --remote are commands, and not empty"));
    }
    Ok(RemoteCommand {
        ssh,
        command,
        deadline,
        max_output: MOST,
    })
}

/// Asks all hosts for a recording of themselves, and judges these together.
///
/// # Errors
///
/// Only one host was named, and gave none.
pub fn run(
    args: &HostsArgs,
    hosts: &[String],
    wait: Duration,
    ask: &AskArgs,
    catalogue: &Catalogue,
    (policy, memory): (&Policy, ClusterMemory),
) -> anyhow::Result<Report> {
    let remote = remote(args, command(&args.remote, ask), ask.deadline + wait)?;
    let give = |host: &str| {
        let asked = clock::wall_clock();
        let bytes = remote.run(host).map_err(|error| error.to_string())?;
        let between = (asked, clock::wall_clock());
        Ok(many::Given { bytes, between })
    };
    many::hosts(catalogue, hosts, give, (args.fanout.into(), memory), policy)
}

/// What the shell of a host runs.
fn command(doctor: &str, ask: &AskArgs) -> String {
    let mut text = format!(
        "{doctor} record --no-redact --output=-.zst --deadline {}",
        ask.deadline.as_secs_f64()
    );
    if let Some(pause) = ask.sample {
        text.push_str(&format!(" --sample {}", pause.as_secs_f64()));
    }
    if ask.no_rehearsal {
        text.push_str(" --no-rehearsal");
    }
    if let Some(nccl) = &ask.nccl {
        text.push_str(&format!(" --nccl {}", quoted(nccl)));
    }
    text
}

/// One word to the shell of a host, whatever is in it.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_user_stays_one_word_on_the_other_side() {
        let ask = AskArgs {
            sample: Some(Duration::from_millis(1500)),
            nccl: Some("/opt/it's here/libnccl.so; reboot".into()),
            ..AskArgs::of_this_machine(Duration::from_secs(20))
        };
        assert_eq!(
            command("sudo -n rdma-doctor", &ask),
            r"sudo -n rdma-doctor record --no-redact --output=-.zst --deadline 20 --sample 1.5 --nccl '/opt/it'\''s here/libnccl.so; reboot'"
        );
    }
}
