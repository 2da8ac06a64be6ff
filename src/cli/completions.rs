//! `rdma-doctor completions`: what a shell needs to complete this program's commands and options.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use clap_complete::{Generator, shells};

use super::{definition, input, output};
use crate::check::Catalogue;
use crate::exit::Exit;

/// Print the script.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell; or names that its script asks for
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
    /// The ids of checks, and a pattern for each folder of them.
    #[value(hide = true)]
    Checks,
    /// The names of areas.
    #[value(hide = true)]
    Areas,
}

/// What completes names, which clap's scripts do not know.
const BASH_NAMES: &str = include_str!("completions/names.bash");
const FISH_NAMES: &str = include_str!("completions/names.fish");
const ZSH_NAMES: &str = include_str!("completions/names.zsh");

/// By which function zsh completes the value of an option or an argument, in the words of clap's script.
const ZSH_VALUES: [(&str, &str); 2] = [
    (":ID,...:_default", ":ID,...:_rdma-doctor_checks"),
    (":AREAS:_default", ":AREAS:_rdma-doctor_areas"),
];

/// Runs the subcommand.
///
/// # Errors
///
/// A site's check file that is invalid, an output that cannot be written.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    match args.shell {
        Shell::Bash => print_script(&(script(shells::Bash) + BASH_NAMES)),
        Shell::Fish => print_script(&(script(shells::Fish) + FISH_NAMES)),
        Shell::Zsh => {
            let mut script = script(shells::Zsh);
            for (from, to) in ZSH_VALUES {
                script = script.replace(from, to);
            }
            // It ends by calling its function, which needs the others by then.
            let (head, rest) = script.split_once('\n').unwrap_or((&script, ""));
            print_script(&format!("{head}\n{ZSH_NAMES}{rest}"))
        }
        Shell::Checks => print_names(&check_names(&input::site_catalogue()?)),
        Shell::Areas => {
            let catalogue = input::site_catalogue()?;
            let areas = catalogue.areas.iter().map(|area| area.name.to_string());
            print_names(&areas.collect())
        }
    }
}

/// What clap writes for a shell.
fn script(shell: impl Generator) -> String {
    let mut definition = definition();
    definition.set_bin_name("rdma-doctor");
    definition.build();
    let mut script = Vec::new();
    shell.generate(&definition, &mut script);
    // clap_complete spells a program's name with a hyphen in two ways (clap-rs/clap#6421), so that no subcommand's options were found.
    String::from_utf8_lossy(&script).replace("rdma__subcmd__doctor", "rdma__doctor")
}

fn print_script(script: &str) -> anyhow::Result<Exit> {
    output::print(|out| out.write_all(script.as_bytes()))?;
    Ok(Exit::Healthy)
}

/// The ids of checks and of their cases, and a pattern for each folder of checks.
fn check_names(catalogue: &Catalogue) -> BTreeSet<String> {
    let names = catalogue.checks.iter().flat_map(|check| {
        let folder = check.id.split('/').next().unwrap_or(&check.id);
        [
            format!("{folder}/*"),
            check.id.to_string(),
            check.case.to_string(),
        ]
    });
    names.collect()
}

fn print_names(names: &BTreeSet<String>) -> anyhow::Result<Exit> {
    output::print(|out| names.iter().try_for_each(|name| writeln!(out, "{name}")))?;
    Ok(Exit::Healthy)
}
