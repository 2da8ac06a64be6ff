//! Arguments in, exit status out.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rdma_doctor::cli::input::{BadInput, BadUsage};
use rdma_doctor::cli::record::{self, ProbeArgs};
use rdma_doctor::cli::{self, Cli};
use rdma_doctor::exit::Exit;
use rdma_doctor::live::library_process;
use rdma_doctor::live::worker::measure;
use rdma_doctor::measure::run::collective::rank;
use rdma_doctor::measure::run::job;
use rdma_doctor::measure::run::pairs::rdma;

/// A replayed recording is made of many small texts: a third of its time is the system's allocator, a tenth this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    if first
        .as_ref()
        .is_some_and(|first| first == library_process::ARGUMENT)
    {
        let name = args.next().and_then(|name| name.into_string().ok());
        return match library_process::serve(name.as_deref().unwrap_or("")) {
            Ok(()) => Exit::Healthy.into(),
            Err(_) => Exit::Internal.into(),
        };
    }
    if first.as_ref().is_some_and(|first| first == rank::ARGUMENT) {
        return match rank::serve() {
            Ok(()) => Exit::Healthy.into(),
            Err(_) => Exit::Internal.into(),
        };
    }
    if first.as_ref().is_some_and(|first| first == rdma::ARGUMENT) {
        return match rdma::serve() {
            Ok(()) => Exit::Healthy.into(),
            Err(_) => Exit::Internal.into(),
        };
    }
    if first.as_ref().is_some_and(|first| first == job::ARGUMENT) {
        // Its exit status is that of the job.
        let status = job::serve(args).unwrap_or(i32::from(Exit::Internal.code()));
        return ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX));
    }
    if first.as_ref().is_some_and(|first| first == "__measure") {
        let mut text = || args.next().and_then(|arg| arg.into_string().ok());
        let (probe, started, questions) = (text(), text(), text());
        let started = started.and_then(|started| started.parse().ok());
        return match (probe, started, questions) {
            (Some(probe), Some(started), Some(questions)) => {
                match measure::child(&probe, started, &questions) {
                    Ok(()) => Exit::Healthy.into(),
                    Err(_) => Exit::Internal.into(),
                }
            }
            _ => Exit::Usage.into(),
        };
    }
    if first.as_ref().is_some_and(|first| first == "__probe") {
        return match ProbeArgs::parse(args).map(|probe| record::probe(&probe)) {
            Some(Ok(exit)) => exit.into(),
            Some(Err(_)) => Exit::Internal.into(),
            None => Exit::Usage.into(),
        };
    }
    if first.is_some_and(|first| first == "--version" || first == "-V") && args.next().is_none() {
        // Fleets ask it of each node, and all of the command line's description is not needed to answer.
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(std::io::stdout(), "rdma-doctor {version}");
        return Exit::Healthy.into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where the terminal is gone there is nobody to tell.
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Healthy
            };
            return exit.into();
        }
    };
    match cli::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "rdma-doctor: {error:#}");
            let exit = if error.is::<BadInput>() {
                Exit::Input
            } else if error.is::<BadUsage>() {
                Exit::Usage
            } else {
                Exit::Internal
            };
            exit.into()
        }
    }
}
