//! `rdma-doctor completions`: what a shell needs to complete this program's commands and options.

use clap::{Args, ValueEnum};
use clap_complete::{Generator, shells};

use super::{definition, output};
use crate::exit::Exit;

/// Print the script.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell that completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash: source it, or write it to /usr/share/bash-completion/completions/rdma-doctor.
    Bash,
    /// zsh: write it to a file _rdma-doctor in a folder of $fpath.
    Zsh,
    /// fish: write it to ~/.config/fish/completions/rdma-doctor.fish.
    Fish,
}

/// Runs the subcommand.
///
/// # Errors
///
/// An output that cannot be written.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut definition = definition();
    definition.set_bin_name("rdma-doctor");
    definition.build();
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => shells::Bash.generate(&definition, &mut script),
        Shell::Zsh => shells::Zsh.generate(&definition, &mut script),
        Shell::Fish => shells::Fish.generate(&definition, &mut script),
    }
    // clap_complete spells a program's name with a hyphen in two ways (clap-rs/clap#6421), so that no subcommand's options were found.
    let script = String::from_utf8_lossy(&script).replace("rdma__subcmd__doctor", "rdma__doctor");
    output::print(|out| out.write_all(script.as_bytes()))?;
    Ok(Exit::Healthy)
}
