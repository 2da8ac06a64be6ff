//! Hosts that are reached over ssh: who they are, and how. For `rdma-doctor check` each records itself, and all are judged here; what measures is started on
//! them ([`super::together::starter`]).

use crate::live::{clock, environment};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;

use super::input::{BadInput, BadUsage, bad_usage};
use super::many::{ClusterMemory, Given};
use super::{AskArgs, many, output};
use crate::cluster::hostfile;
use crate::cluster::ssh::{RemoteCommand, RemoteError};
use crate::live::files;
use crate::live::worker::Progress;
use crate::nodeset;
use crate::sentence::shell::quoted;
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

/// Asks all hosts for a recording of themselves: what each gave, or why it gave none. A deadline
/// that is named holds for all of them together.
///
/// # Errors
///
/// What reaches a host, or is there, is no command.
pub fn gather(
    args: &HostsArgs,
    hosts: &[String],
    wait: Duration,
    ask: &AskArgs,
    memory: ClusterMemory,
) -> anyhow::Result<Vec<Result<Given, RemoteError>>> {
    let of_each = ask.deadline() + wait;
    let ends = ask.deadline.map(|_| clock::now() + of_each);
    let mut remote = remote(args, command(&args.remote, ask), of_each)?;
    // All are kept until the last one came.
    remote.max_output = memory.message(hosts.len() as u64);
    let done = AtomicU64::new(0);
    let give = |at: usize| {
        let mut this_host = remote.clone();
        if let Some(ends) = ends {
            this_host.deadline = ends.saturating_duration_since(clock::now());
        }
        let asked = clock::wall_clock();
        let given = this_host.run(&hosts[at]);
        let between = (asked, clock::wall_clock());
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        output::counted(count, hosts.len() as u64, "hosts done");
        Ok(Given {
            bytes: given?,
            between,
        })
    };
    let mut all = Vec::with_capacity(hosts.len());
    many::each_of(hosts.len(), args.fanout.into(), give, |_, given| {
        all.push(given)
    });
    output::progress(Progress::Done);
    Ok(all)
}

/// What the shell of a host runs.
fn command(doctor: &str, ask: &AskArgs) -> String {
    let mut text = format!(
        "{doctor} record --no-redact --output=-.zst --deadline {}",
        ask.deadline().as_secs_f64()
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
