//! The help of a subcommand with many options: those that most people want. `--help-all` lists all.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, Command};

use super::{definition, help_end};

/// The option that asks for all.
const ALL: &str = "--help-all";

/// The help that these arguments ask for, with the common options only; nothing where all are asked for, or all are common.
pub fn of(args: &[OsString]) -> Option<StyledStr> {
    if args.iter().any(|arg| arg == ALL) {
        return None;
    }
    let mut command = definition();
    command.build();
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    // `help check` is `check --help`.
    let mut words = words.filter(|word| *word != "help" && !word.starts_with('-'));
    let first = words.next()?;
    let common = help_end::common_options(first)?;
    let mut asked = command.find_subcommand(first)?;
    if asked.has_subcommands() {
        asked = asked.find_subcommand(words.next()?)?;
    }
    Some(shortened(asked.clone(), &common))
}

/// The help without the options that are not common.
fn shortened(command: Command, common: &[&str]) -> StyledStr {
    let is_common = |arg: &Arg| {
        let is_named = arg.get_long().is_some_and(|long| common.contains(&long));
        is_named || arg.is_positional() || arg.get_id() == "help"
    };
    let others = command.get_arguments().filter(|arg| !is_common(arg));
    let hidden = others.filter(|arg| !arg.is_hide_set()).count();
    let path = command.get_bin_name().unwrap_or("rdma-doctor").to_owned();
    let end = command.get_after_help().map(ToString::to_string);
    let end = format!(
        "{hidden} more options: {path} {ALL}\n\n{}",
        end.unwrap_or_default()
    );
    let shown = command.mut_args(|arg| {
        if arg.get_id() == "help" {
            return arg.help("Print help; --help-all with all options");
        }
        let is_hidden = !is_common(&arg) || arg.is_hide_set();
        arg.hide(is_hidden)
    });
    shown.after_help(end.trim_end().to_owned()).render_help()
}
