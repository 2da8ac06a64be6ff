//! Arguments of a subcommand, defined when it is the one that was asked for: to define those of all takes longer than to read most recordings.

use std::ops::{Deref, DerefMut};

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::help_end;

/// Arguments that are defined when they are needed.
#[derive(Clone, Debug)]
pub struct Deferred<T>(T);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Defines the arguments. What a subcommand is about stands with its name, and stays.
fn define<T: Args>(command: Command) -> Command {
    let about = Resettable::from(command.get_about().cloned());
    let long = Resettable::from(command.get_long_about().cloned());
    let end = help_end::of(command.get_name()).unwrap_or_default();
    let defined = T::augment_args(command).after_help(end);
    defined.about(about).long_about(long)
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(define::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Deferred)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
