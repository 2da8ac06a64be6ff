//! `rdma-doctor reach`: a node's part where `check --hosts` has hosts try the ways between them.

use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::output;
use super::{seconds, together};
use crate::check::Catalogue;
use crate::examine::given::{self, MachineRequest};
use crate::examine::launch::reach;
use crate::examine::sink::Silent;
use crate::examine::ways_message::WaysMessage;
use crate::exit::Exit;

/// Try the ways to the other hosts of a check, as standard input says.
#[derive(Debug, Args)]
pub struct ReachArgs {
    /// How long rank 0 waits for the others, and they try to reach it
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub wait: Duration,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Nobody says this node's part; rank 0 cannot listen, or ended.
pub fn run(args: &ReachArgs) -> anyhow::Result<Exit> {
    let catalogue = Catalogue::embedded().context("the built-in checks")?;
    let request = MachineRequest {
        no_rehearsal: true,
        ..MachineRequest::default()
    };
    // Before this node says that it is ready: all look at the same time.
    let recording = given::record(&request, None, &Silent)?;
    let told = together::assignment()?;
    let place = together::placement(&told)?;
    let limits = &catalogue.limits;
    let message = reach::of_host(&place, &told, &recording, args.wait, limits, &Silent)?;
    print_message(&message)?;
    Ok(Exit::Healthy)
}

fn print_message(message: &WaysMessage) -> anyhow::Result<()> {
    let text = serde_json::to_string(message).context("what came of it")?;
    output::print_raw(text.as_bytes())
}
