//! Who is who among doctors that were started on hosts.

use std::net::IpAddr;
use std::time::Duration;

use super::{RemoteCommand, RemoteError, SshDialogue};
use crate::cluster::ssh_child::RunAssignment;

/// Why a run of doctors on hosts did not begin.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    /// Rank 0 ended.
    #[error(transparent)]
    Ended(#[from] RemoteError),
    /// Rank 0 does not listen.
    #[error("it said no port in {:.0} s", .0.as_secs_f64())]
    NoPort(Duration),
}

impl RemoteCommand {
    /// Starts a doctor of this version on a host.
    ///
    /// # Errors
    ///
    /// Why none of this version is there.
    pub fn start_own_version(&self, host: &str) -> Result<SshDialogue, String> {
        let started = self
            .open_dialogue(host)
            .map_err(|error| error.to_string())?;
        let own = env!("CARGO_PKG_VERSION");
        if started.version == own {
            return Ok(started);
        }
        Err(format!(
            "the doctor there is version {}, and this one {own}",
            started.version
        ))
    }
}

/// Whether each host takes this name for itself.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Puts the first host that others find by its name before all others: they would look for
/// `localhost` on themselves.
pub fn put_leader_first(nodes: &mut [SshDialogue]) {
    let leader = nodes.iter().position(|node| !is_loopback(&node.host));
    if let Some(to_leader) = nodes.get_mut(..=leader.unwrap_or(0)) {
        to_leader.rotate_right(1);
    }
}

/// Tells rank 0 its part, waits so long until it listens, and tells the others theirs.
///
/// # Errors
///
/// Rank 0 does not listen.
pub fn assign(
    leader: &mut SshDialogue,
    others: &mut [SshDialogue],
    told: &RunAssignment,
    within: Duration,
) -> Result<(), NotBegun> {
    leader.send(told);
    if others.is_empty() {
        return Ok(());
    }
    let port = leader
        .wait_for_port(within)?
        .ok_or(NotBegun::NoPort(within))?;
    for (rank, other) in (1..).zip(others) {
        other.send(&RunAssignment {
            rank,
            port,
            key: told.key.clone(),
            host: told.host.clone(),
            nodes: told.nodes,
            names: Vec::new(),
            absent: Vec::new(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn names_that_each_host_takes_for_itself() {
        for own in ["localhost", "127.0.0.2", "::1"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["n1", "10.0.0.1", "localhost.example.org"] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
