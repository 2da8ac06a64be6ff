//! Arguments in, exit status out.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use rdma_doctor::cli::record::{self, ProbeArgs};
use rdma_doctor::cli::{self, Cli, output, short_help, spelling, version};
use rdma_doctor::exit::Exit;
use rdma_doctor::live::worker::{self, measure};
use rdma_doctor::live::{library_process, start};
use rdma_doctor::measure::run::collective::rank;
use rdma_doctor::measure::run::job;
use rdma_doctor::measure::run::pairs::rdma;
use rdma_doctor::terminal;

/// A replayed recording is made of many small texts: a third of its time is the system's allocator, a tenth this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The arguments of a child behind the one that names its mode.
type ChildArgs<'a> = &'a mut dyn Iterator<Item = OsString>;

/// Serves the parent, and gives the child's exit status.
type ChildMode = fn(ChildArgs<'_>) -> ExitCode;

/// What this program does as its own child, by its first argument. A child answers for a library, a rank or a probe, so it does not pay for the
/// description of the whole command line.
const CHILD_MODES: &[(&str, ChildMode)] = &[
    (library_process::ARGUMENT, serve_library),
    (rank::ARGUMENT, |_| served(rank::serve())),
    (rdma::ARGUMENT, |_| served(rdma::serve())),
    (job::ARGUMENT, serve_job),
    (measure::ARGUMENT, serve_measurement),
    (worker::ARGUMENT, serve_probe),
];

fn served<E>(result: Result<(), E>) -> ExitCode {
    result.map_or(Exit::Internal, |()| Exit::Healthy).into()
}

fn text(args: ChildArgs<'_>) -> Option<String> {
    args.next().and_then(|arg| arg.into_string().ok())
}

fn serve_library(args: ChildArgs<'_>) -> ExitCode {
    served(library_process::serve(&text(args).unwrap_or_default()))
}

/// Ends with the job's exit status.
fn serve_job(args: ChildArgs<'_>) -> ExitCode {
    let status = job::serve(args).unwrap_or(i32::from(Exit::Internal.code()));
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}

fn serve_measurement(args: ChildArgs<'_>) -> ExitCode {
    let (probe, started, questions) = (text(args), text(args), text(args));
    let started = started.and_then(|started| started.parse().ok());
    match (probe, started, questions) {
        (Some(probe), Some(started), Some(questions)) => {
            served(measure::child(&probe, started, &questions))
        }
        _ => Exit::Usage.into(),
    }
}

fn serve_probe(args: ChildArgs<'_>) -> ExitCode {
    match ProbeArgs::parse(args).map(|probe| record::probe(&probe)) {
        Some(Ok(exit)) => exit.into(),
        Some(Err(_)) => Exit::Internal.into(),
        None => Exit::Usage.into(),
    }
}

/// A panic ends the program as its own failure, in one line.
#[expect(
    clippy::disallowed_methods,
    reason = "RUST_BACKTRACE asks for more than a line"
)]
fn main() -> ExitCode {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|bug| {
            let text = bug.to_string().replace('\n', " ");
            terminal::say(&format!("rdma-doctor: internal failure: {text}"));
        }));
    }
    std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Internal.into())
}

fn run() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    let mode = CHILD_MODES
        .iter()
        .find(|(name, _)| first.as_ref().is_some_and(|first| first == name));
    if let Some((_, serve)) = mode {
        return serve(&mut args);
    }
    if first.is_some_and(|first| first == "--version" || first == "-V") {
        // Fleets ask it of each node, and all of the command line's description is not needed to answer.
        let text = match (args.next(), args.next()) {
            (None, _) => Some(version::LINE.to_owned()),
            (Some(more), None) if more == "--verbose" || more == "-v" => {
                let commit = option_env!("RDMA_DOCTOR_COMMIT");
                Some(version::verbose(commit, option_env!("RDMA_DOCTOR_GLIBC")))
            }
            _ => None,
        };
        if let Some(text) = text {
            let printed = output::print(|out| out.write_all(text.as_bytes()));
            return cli::ended(printed.map(|()| Exit::Healthy)).into();
        }
    }
    let args = spelling::current(std::env::args_os());
    output::set_ascii(&args);
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = error.kind() == ErrorKind::DisplayHelp;
            if let Some(help) = short_help::of(&args).filter(|_| is_help) {
                let printed = output::print(|out| write!(out, "{help}"));
                return cli::ended(printed.map(|()| Exit::Healthy)).into();
            }
            // Where the terminal is gone there is nobody to tell.
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else if start::stdout_was_closed() {
                Exit::Internal
            } else {
                Exit::Healthy
            };
            return exit.into();
        }
    };
    cli::ended(cli::run(cli)).into()
}
