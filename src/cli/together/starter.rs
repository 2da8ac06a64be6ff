//! What measures between nodes, started on hosts over ssh: one doctor on each, with the arguments that this one was given. This process is none of the nodes:
//! it says who is who, passes on what rank 0 says, and ends all of them where it ends.
//!
//! The key of the run is made here and said over ssh's standard input: no command line and no environment holds it.

use crate::live::{clock, environment, own_process, random};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{ChildStdout, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::{TogetherArgs, left_here};
use crate::cli::hosts;
use crate::cli::input::{BadInput, BadUsage};
use crate::cli::output::{self, say};
use crate::cli::{definition, record, spelling};
use crate::cluster::ssh::assignment::{assign, put_leader_first};
use crate::cluster::ssh::{RemoteCommand, SshDialogue};
use crate::cluster::ssh_child::RunAssignment;
use crate::examine::given::ExitOn;
use crate::examine::many::work_in_order;
use crate::exit::Exit;
use crate::live::files;
use crate::live::worker::Progress;
use crate::sentence::shell;
use crate::source::recording::ZSTD_MAGIC;
use crate::terminal::{self, Colors};

/// How long a node may take to end when rank 0 has ended: one that did not reach rank 0 says why, and looks for the reason first.
const ENDING: Duration = Duration::from_secs(25);
/// How long it may take when it is told to.
const CLOSING: Duration = Duration::from_secs(2);
/// From so many hosts on, more files may have to be open than a process is given at first (1024).
const MANY: usize = 250;
/// The longest recording that is taken of rank 0.
const MOST: u64 = 1 << 30;
/// The longest report of it that is kept for a file.
const MOST_REPORT: u64 = 256 << 20;
/// The options of this process alone.
const OWN: &str = "hosts hostfile ssh remote fanout rendezvous record output color";

/// What the command line says beside what each node is to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandWords {
    /// What each node is to do.
    words: Vec<String>,
    /// Where the recording is to be written.
    record: Option<PathBuf>,
    /// Where the report is to be written.
    output: Option<PathBuf>,
}

/// Starts this command on the hosts that the command line names, and says what comes of it; `None` where it names none.
///
/// # Errors
///
/// The hosts are not understood; too few of them answer; rank 0 is lost; what it says cannot be written.
pub fn over_hosts(args: &TogetherArgs) -> anyhow::Result<Option<Exit>> {
    let Some(names) = hosts::named(&args.hosts)? else {
        return Ok(None);
    };
    let said = said(spelling::current(std::env::args_os())).map_err(BadUsage)?;
    let color = match said.output.is_none() && terminal::is_colored() {
        true => "always",
        false => "never",
    };
    let words = said.words.iter().map(|word| shell::quoted(word));
    let command = format!(
        "{} {} --held --color={color}",
        args.hosts.remote,
        words.collect::<Vec<_>>().join(" ")
    );
    let remote = RemoteCommand {
        ssh: hosts::ssh(&args.hosts)?,
        command,
        deadline: args.wait,
        max_output: MOST,
    };
    if let Some(words) = left_here::said(&environment::variables_of_nccl(), &args.hosts.remote) {
        say(&words);
    }
    // Three pipes each.
    if names.len() > MANY {
        own_process::allow_many_files();
    }
    let (here, absent) = all(&remote, &names, args.hosts.fanout.into());
    output::progress(Progress::Done);
    run(args, &names, here, absent, &said).map(Some)
}

/// What this command line says, which was understood before.
fn said(line: impl IntoIterator<Item = OsString>) -> Result<CommandWords, String> {
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(line);
    let matches = matches.map_err(|error| error.to_string())?;
    let (mut command, mut matches) = (&definition, &matches);
    let mut said = CommandWords::default();
    while let Some((name, below)) = matches.subcommand() {
        said.words.push(name.to_owned());
        command = command.find_subcommand(name).ok_or("no such command")?;
        matches = below;
    }
    let is_said = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    for id in matches.ids().map(clap::Id::as_str).filter(|id| is_said(id)) {
        let mut all = command.get_arguments();
        let arg = all.find(|arg| arg.get_id() == id && !OWN.split(' ').any(|one| one == id));
        // A group of arguments has no name; a recording, which has none either, goes with no host.
        let Some((arg, long)) = arg.and_then(|arg| Some((arg, arg.get_long()?))) else {
            continue;
        };
        if !arg.get_action().takes_values() {
            said.words.push(format!("--{long}"));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let value = value.to_str();
            let value = value.ok_or_else(|| format!("--{long}: this is not text"))?;
            said.words.push(format!("--{long}={value}"));
        }
    }
    said.record = path(command, matches, "record");
    said.output = path(command, matches, "output");
    if said.record.is_some() {
        // Before the report, and told apart from it by how it begins.
        said.words.push("--record=-.zst".to_owned());
    }
    Ok(said)
}

fn path(command: &clap::Command, matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    let is_there = command.get_arguments().any(|arg| arg.get_id() == id);
    let path = is_there.then(|| matches.get_one::<PathBuf>(id))?;
    path.cloned()
}

/// Starts the doctor on all hosts, so many at once: those that are there, in order, and why the others are not.
fn all(
    remote: &RemoteCommand,
    names: &[String],
    at_once: usize,
) -> (Vec<SshDialogue>, Vec<(String, String)>) {
    let done = AtomicUsize::new(0);
    let start = |at: usize| {
        let one = remote.start_own_version(&names[at]);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        output::progress(Progress::Counted {
            count: done as u64,
            of: names.len() as u64,
            what: "hosts answered",
        });
        one
    };
    let (mut here, mut absent) = (Vec::new(), Vec::new());
    work_in_order(names.len(), at_once, start, |at, one| match one {
        Ok(spoken) => here.push(spoken),
        Err(why) => absent.push((names[at].clone(), why)),
    });
    (here, absent)
}

/// Says who is who, and passes on what comes of it.
fn run(
    args: &TogetherArgs,
    names: &[String],
    here: Vec<SshDialogue>,
    absent: Vec<(String, String)>,
    said: &CommandWords,
) -> anyhow::Result<Exit> {
    let bad = |text: String| anyhow::Error::from(BadInput(text));
    let reasons = |absent: &[(String, String)]| {
        let all = absent.iter().map(|(host, why)| format!("{host}: {why}"));
        all.collect::<Vec<_>>().join("; ")
    };
    if here.len() < names.len().min(2) {
        let why = reasons(&absent);
        return Err(bad(match names {
            [_] => why,
            _ => format!(
                "nothing was measured: {} of {} hosts answered, and it takes two: {why}",
                here.len(),
                names.len()
            ),
        }));
    }
    let mut nodes = here;
    if args.rendezvous.is_none() {
        put_leader_first(&mut nodes);
    }
    let first = nodes[0].host.clone();
    let (host, port) = match &args.rendezvous {
        None => (first, 0),
        Some(at) if names.first() == Some(&first) => at.clone(),
        Some((at, _)) => {
            return Err(bad(format!(
                "--rendezvous {at} is at the first host, which takes no part: {}",
                reasons(&absent)
            )));
        }
    };
    let told = RunAssignment {
        key: random::hex_key().context("no random key")?,
        rank: 0,
        nodes: nodes.len() as u64,
        names: nodes.iter().map(|node| node.host.clone()).collect(),
        host,
        port,
        absent,
    };
    let leader = nodes.remove(0);
    follow(args, leader, nodes, told, said)
}

/// Begins with rank 0, at whose port the others come, and ends with it.
fn follow(
    args: &TogetherArgs,
    mut leader: SshDialogue,
    mut others: Vec<SshDialogue>,
    told: RunAssignment,
    said: &CommandWords,
) -> anyhow::Result<Exit> {
    let name = leader.host.clone();
    let lost =
        |why: String| anyhow::Error::from(BadInput(format!("{name}, which is rank 0: {why}")));
    leader.show_errors();
    assign(&mut leader, &mut others, &told, args.wait).map_err(|why| lost(why.to_string()))?;
    others.iter_mut().for_each(SshDialogue::discard_output);
    let answer = leader.output().context("rank 0 has no output")?;
    let has_report = pass_on(answer, said)?;
    let status = leader.wait_for_exit(ENDING);
    let well = end(others, args.exit_on);
    let status = status.ok_or_else(|| lost("it closed its output, and goes on".into()))?;
    let exit = match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) if Exit::ALL.iter().any(|exit| exit.code() == code) => {
            Exit::from_code(code.into())
        }
        _ => return Err(lost(leader.exit_error(status).to_string())),
    };
    // What says nothing is no verdict.
    if !has_report && exit <= Exit::Undecided {
        return Err(lost("it ended without a report".into()));
    }
    Ok(match (exit, args.exit_on, well) {
        (Exit::Healthy, ExitOn::All, false) => Exit::Internal,
        _ => exit,
    })
}

/// Writes what rank 0 does: its recording to the file that was named for it, the rest here, or to the file that was named for the report.
/// Whether there was a report.
fn pass_on(mut answer: BufReader<ChildStdout>, said: &CommandWords) -> anyhow::Result<bool> {
    if let Some(path) = &said.record
        && begins_packed(&mut answer)
    {
        let mut packed = zstd::Decoder::with_buffer(&mut answer)
            .context("the recording")?
            .single_frame();
        let mut text = String::new();
        (&mut packed)
            .take(MOST)
            .read_to_string(&mut text)
            .context("rank 0's recording")?;
        if text.len() as u64 == MOST {
            return Err(BadInput(format!("rank 0's recording has more than {MOST} bytes")).into());
        }
        let private = said.words.iter().any(|word| word == "--no-redact");
        record::write_out(path, &text, private)?;
    }
    let has_report = answer.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
    let Some(path) = &said.output else {
        output::print_with(Colors::OfAnotherDoctor, |out| {
            io::copy(&mut answer, out).map(|_| ())
        })?;
        return Ok(has_report);
    };
    let mut report = Vec::new();
    answer
        .take(MOST_REPORT)
        .read_to_end(&mut report)
        .context("rank 0's report")?;
    if report.len() as u64 == MOST_REPORT {
        let why = format!("rank 0's report has more than {MOST_REPORT} bytes");
        return Err(BadInput(why).into());
    }
    // Without one rank 0 says why on standard error; what the file has stays.
    if has_report {
        files::replace_output(path, &report, false).with_context(|| terminal::path(path))?;
    }
    Ok(has_report)
}

/// Whether what comes next is packed.
fn begins_packed(answer: &mut impl BufRead) -> bool {
    answer
        .fill_buf()
        .is_ok_and(|bytes| bytes.starts_with(&ZSTD_MAGIC))
}

/// Waits until all other nodes ended, and says of those that ended badly what they said; whether all ended well.
fn end(mut others: Vec<SshDialogue>, exit_on: ExitOn) -> bool {
    let mut left = ENDING;
    let mut all_well = true;
    let mut ended: Vec<Option<ExitStatus>> = Vec::with_capacity(others.len());
    for other in &mut others {
        let begun = clock::boottime_ns();
        ended.push(other.wait_for_exit(left));
        left = left.saturating_sub(Duration::from_nanos(
            clock::boottime_ns().saturating_sub(begun),
        ));
    }
    for (other, _) in others
        .iter_mut()
        .zip(&ended)
        .filter(|(_, ended)| ended.is_none())
    {
        other.close_stdin();
    }
    for (other, ended) in others.iter_mut().zip(ended) {
        let host = other.host.clone();
        if ended.is_some_and(|status| is_well(status, exit_on)) {
            continue;
        }
        let mut lines = other.last_lines();
        match ended {
            // It says itself why it ended, or ssh does.
            Some(status) if !lines.is_empty() && status.code().is_some() => {}
            Some(status) => lines.push(other.exit_error(status).to_string()),
            None => {
                let seconds = ENDING.as_secs();
                lines.push(format!(
                    "it did not end in {seconds} s after rank 0, and was ended"
                ));
                other.wait_for_exit(CLOSING);
            }
        }
        all_well = false;
        for line in lines {
            // A terminal that is gone misses nothing of the report.
            terminal::say(&format!("{host}: {line}"));
        }
    }
    all_well
}

/// Whether a node that is not rank 0 ended as it does where it did its part.
fn is_well(status: ExitStatus, exit_on: ExitOn) -> bool {
    match exit_on {
        ExitOn::Rank0 => status.success(),
        // A verdict, and not a failure.
        ExitOn::All => (status.code()).is_some_and(|code| code < i32::from(Exit::Usage.code())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(line: &str) -> CommandWords {
        said(line.split(' ').map(OsString::from)).unwrap()
    }

    #[test]
    fn each_node_gets_the_words_that_are_not_of_the_starter() {
        let triage = of(
            "rdma-doctor --color never triage --hosts n[1-4] --ssh ssh --remote x --fanout 2 --quick --skip a/* --skip b/c --gpus 0,1 --wait 5 --exit-on all --format json --record out.jsonl --no-redact --output report",
        );
        assert_eq!(triage.words[0], "triage");
        let mut words = triage.words[1..].to_vec();
        words.sort();
        assert_eq!(
            words,
            [
                "--exit-on=all",
                "--format=json",
                "--gpus=0",
                "--gpus=1",
                "--no-redact",
                "--quick",
                "--record=-.zst",
                "--skip=a/*",
                "--skip=b/c",
                "--wait=5",
            ]
        );
        assert_eq!(triage.record.as_deref(), Some(Path::new("out.jsonl")));
        assert_eq!(triage.output.as_deref(), Some(Path::new("report")));
        let pairs =
            of("rdma-doctor bench pairs --hostfile hosts --rendezvous n1:20600 --device rail0");
        assert_eq!(pairs.words, ["bench", "pairs", "--device=rail0"]);
        assert_eq!((pairs.record, pairs.output), (None, None));
    }

    #[test]
    fn a_recording_is_told_apart_from_a_report() {
        let packed = zstd::encode_all(&b"{}"[..], 3).unwrap();
        assert!(begins_packed(&mut packed.as_slice()));
        assert!(!begins_packed(&mut &b"{\"schema\":1}"[..]));
        assert!(!begins_packed(&mut &b""[..]));
    }
}
