//! The first second of a job, tried on this node: queue pairs that write to themselves, connections to own addresses, files without a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Ask, Presence, Probe, device, inside, nccl, room};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Subject, interface, node, port};
use crate::left_out::LeftOut;
use crate::source::question::Call;
use crate::source::{Errno, Question};

/// The probe.
// An adapter takes seconds to report that it cannot send, and more of them on a busy machine.
pub const PROBE: Probe = Probe::new("rehearsal", run).within(Duration::from_secs(15));

/// A segment of NCCL's shared memory between two ranks, as its log names it: "failed to extend /dev/shm/nccl-… to 9637888 bytes".
const SEGMENT: u64 = 9_637_888;
/// NCCL's variables.
type Settings = BTreeMap<String, String>;

/// What a fact says of a trial in which all steps were done.
const WORKS: &str = "works";
/// What it says where TMPDIR names a directory that is not there: most programs take /tmp then.
const NO_DIRECTORY: &str = "no directory";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let settings = nccl::settings(ask);
    ports(ask, facts, node, &settings);
    connections(ask, facts, node);
    let directory = "/dev/shm";
    let trial = Question::call(
        "rehearse_shared_memory",
        [("bytes", SEGMENT.into()), ("directory", directory.into())],
    );
    facts.set(node, node::SHM_REHEARSAL, of_file(ask, trial, directory));
    let tmp = room::directory(ask).flat_map(|directory| {
        let trial = Question::call("rehearse_file", [("directory", (&*directory).into())]);
        let tried = ask.value(trial);
        tried.and_then(|said| match text(&said, "errno") {
            Some("ENOENT") if &*directory != "/tmp" => Ok(NO_DIRECTORY.into()),
            _ => outcome(&said, |step| file_words(step, &directory)),
        })
    });
    facts.set(node, node::TMP_REHEARSAL, tmp);
    let log = settings
        .map(|all| log_directory(&all))
        .flat_map(|directory| match directory {
            Some(directory) => {
                let trial = Question::call("rehearse_file", [("directory", (&*directory).into())]);
                of_file(ask, trial, &directory)
            }
            None => Fact::derived(WORKS.into(), "NCCL's variables name no file for its log"),
        });
    facts.set(node, node::LOG_REHEARSAL, log);
}

/// The directory of NCCL's log, which it writes at all levels but VERSION (`ncclDebugInit` of `src/debug.cc`).
fn log_directory(settings: &Settings) -> Option<String> {
    let (directory, _) = settings.get("NCCL_DEBUG_FILE")?.rsplit_once('/')?;
    let level = settings.get("NCCL_DEBUG")?;
    // What is made of the rank's host or process is known to the rank.
    let plain = directory.starts_with('/') && !directory.contains('%');
    (plain && !level.eq_ignore_ascii_case("VERSION")).then(|| directory.to_owned())
}

/// The active ports of channel adapters. iWARP and EFA connect queue pairs by other means; a module of verbs that is not loaded stays so.
fn ports(ask: &Ask<'_>, facts: &mut Facts, node: Id, settings: &Fact<Settings>) {
    let verbs = ask.text_if_any("/sys/class/infiniband_verbs/abi_version");
    if !matches!(verbs, Presence::Present(..)) {
        return;
    }
    let (all, _) = device::ports(ask, facts, node);
    let begins = |path: String, with: &str| {
        let text = ask.text(path);
        text.known().is_some_and(|text| text.starts_with(with))
    };
    let tried = all.into_iter().filter(|port| {
        begins(inside(&port.dir, "state"), "4:")
            && begins(format!("{}/{}/node_type", device::CLASS, port.device), "1:")
    });
    let tried: Vec<_> = tried.collect();
    if tried.is_empty() {
        return;
    }
    let among: Vec<&str> = tried.iter().map(|port| port.name.as_str()).collect();
    let among = among.join(" ");
    let gid_index = settings
        .known()
        .and_then(|all| all.get("NCCL_IB_GID_INDEX"));
    let gid_index: Option<u64> = gid_index.and_then(|text| text.trim().parse().ok());
    for port in &tried {
        let of_port = [
            ("device", (&*port.device).into()),
            ("port", port.number.into()),
            ("among", among.as_str().into()),
        ];
        let row = gid_index.map(|row| ("gid_index", row.into()));
        let trial = Call::new("rehearse_port", of_port.into_iter().chain(row));
        let trial = Question::Call(trial.into());
        let tried = ask.value(trial);
        let outcome = tried.and_then(|said| outcome(&said, |step| port_words(step, &said)));
        facts.set(port.id, port::REHEARSAL, outcome);
    }
}

fn connections(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let question = Question::call("rehearse_connections", []);
    let Fact::Known(reply, origin) = ask.value(question) else {
        return;
    };
    for said in reply.as_array().into_iter().flatten() {
        if let Some(count) = said.get("left_out").and_then(Value::as_u64) {
            let more = LeftOut::counted(count, "address", "more than 64 of this node");
            super::state_left_out(facts, node, &more, &origin);
        }
        let Some(name) = text(said, "interface") else {
            continue;
        };
        let id = facts.instance(Subject::Interface, node, name);
        let tried = Fact::Known(said, origin.clone());
        let outcome = match text(said, "refused") {
            Some(why) => Fact::Unknown(Gap::not_said(why, origin.clone())),
            None => tried.and_then(|said| {
                outcome(said, |step| {
                    let what = match step {
                        "listen" => "no socket can listen on its address",
                        "connect" => "a TCP connection to its own address fails",
                        _ => "data over a TCP connection to its own address is lost",
                    };
                    format!("{name}: {what}")
                })
            }),
        };
        facts.set(id, interface::REHEARSAL, outcome);
    }
}

fn of_file(ask: &Ask<'_>, trial: Question, directory: &str) -> Fact<Arc<str>> {
    let tried = ask.value(trial);
    tried.and_then(|said| outcome(&said, |step| file_words(step, directory)))
}

fn text<'v>(said: &'v Value, name: &str) -> Option<&'v str> {
    said.get(name).and_then(Value::as_str)
}

/// What became of a trial that was tried to its end.
fn outcome(said: &Value, words: impl Fn(&str) -> String) -> Result<Arc<str>, String> {
    let Some(step) = text(said, "step") else {
        return Ok(WORKS.into());
    };
    let errno = text(said, "errno").and_then(Errno::from_name);
    let wrong = said.get("wrong").and_then(Value::as_u64);
    let why = match (errno, text(said, "status"), wrong) {
        (Some(errno), ..) => errno.meaning(),
        (_, Some(status), _) => status.to_owned(),
        (_, _, Some(wrong)) => format!("{wrong} bytes arrived wrong"),
        _ => return Err(format!("no reason why {step} failed")),
    };
    Ok(format!("{}: {why}", words(step)).into())
}

fn port_words(step: &str, said: &Value) -> String {
    let row = said.get("gid_index").and_then(Value::as_u64);
    let by = row.map_or(String::new(), |row| format!(" with GID index {row}"));
    match step {
        "open" => "the device cannot be opened".into(),
        "domain" => "the device gives no protection domain".into(),
        "completion-queue" => "the device gives no completion queue".into(),
        "register" => "4 MiB of memory cannot be registered".into(),
        "queue-pair" => "the device gives no queue pair".into(),
        "INIT" | "RTR" | "RTS" => format!("a queue pair{by} does not reach {step}"),
        _ => format!("an RDMA write{by} to the port itself fails"),
    }
}

fn file_words(step: &str, directory: &str) -> String {
    match step {
        "open" => format!("no file can be created in {directory}"),
        "allocate" => format!("no {} can be allocated in {directory}", Bytes(SEGMENT)),
        "map" => format!("a file in {directory} cannot be mapped"),
        _ => format!("a file in {directory} cannot be written and read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Why;
    use crate::probe::testing::{known, run};

    const PORT: &[&str] = &[
        r#"{"q":{"read":"/sys/class/infiniband_verbs/abi_version"},"text":"6\n"}"#,
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0","siw0"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1","2"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband/siw0/ports"},"names":["1"]}"#,
        r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/state"},"text":"4: ACTIVE\n"}"#,
        r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/2/state"},"text":"1: DOWN\n"}"#,
        r#"{"q":{"read":"/sys/class/infiniband/siw0/ports/1/state"},"text":"4: ACTIVE\n"}"#,
        r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/node_type"},"text":"1: CA\n"}"#,
        r#"{"q":{"read":"/sys/class/infiniband/siw0/node_type"},"text":"4: RNIC\n"}"#,
    ];

    /// What the fact of the port says if this came back.
    fn said(reply: &str) -> Result<String, Why> {
        let question = r#"{"call":"rehearse_port","device":"mlx5_0","port":1,"among":"mlx5_0/1"}"#;
        let line = format!(r#"{{"q":{question},{reply}}}"#);
        let lines: Vec<&str> = PORT.iter().copied().chain([&*line]).collect();
        let (facts, _) = run(&PROBE, &lines);
        let port = facts
            .all(Subject::Port)
            .find(|id| facts.name(*id) == "mlx5_0/1");
        match facts.get(port.unwrap(), port::REHEARSAL) {
            Fact::Known(text, _) => Ok(text.to_string()),
            Fact::Unknown(gap) => Err(gap.why),
        }
    }

    #[test]
    fn a_step_that_failed_is_named_with_its_error() {
        for (value, words) in [
            (r#"{"gid_index":3}"#, "works"),
            (
                r#"{"gid_index":3,"step":"RTR","errno":"EHOSTUNREACH"}"#,
                "a queue pair with GID index 3 does not reach RTR: no route to host (EHOSTUNREACH)",
            ),
            (
                r#"{"step":"write","status":"IBV_WC_RETRY_EXC_ERR"}"#,
                "an RDMA write to the port itself fails: IBV_WC_RETRY_EXC_ERR",
            ),
            (
                r#"{"step":"compare","wrong":17}"#,
                "an RDMA write to the port itself fails: 17 bytes arrived wrong",
            ),
        ] {
            let said = said(&format!(r#""value":{value}"#));
            assert_eq!(said.as_deref(), Ok(words), "{value}");
        }
    }

    #[test]
    fn what_was_not_tried_to_its_end_is_no_failure() {
        use crate::source::Refusal;
        for (reply, refusal) in [
            (r#""errno":"EACCES""#, Refusal::Errno(Errno::EACCES)),
            (r#""refused":"timeout""#, Refusal::Timeout),
            (
                r#""refused":"not-asked: GID 7 is not in use""#,
                Refusal::not_asked("GID 7 is not in use"),
            ),
        ] {
            assert_eq!(said(reply), Err(Why::Refused(refusal)), "{reply}");
        }
        let odd = said(r#""value":{"step":"open"}"#);
        assert!(matches!(odd, Err(Why::NotUnderstood(_))));
    }

    #[test]
    fn a_file_system_without_nameless_files_is_no_failure() {
        let shm = |reply: &str| {
            let question =
                r#"{"call":"rehearse_shared_memory","bytes":9637888,"directory":"/dev/shm"}"#;
            let line = format!(r#"{{"q":{question},{reply}}}"#);
            let (facts, node) = run(&PROBE, &[&line]);
            facts.known(node, node::SHM_REHEARSAL)
        };
        assert_eq!(shm(r#""value":{}"#).as_deref(), Some("works"));
        assert_eq!(shm(r#""errno":"EOPNOTSUPP""#), None);
        assert_eq!(
            shm(r#""value":{"step":"open","errno":"EROFS"}"#).as_deref(),
            Some("no file can be created in /dev/shm: read-only file system (EROFS)")
        );
    }

    #[test]
    fn the_directory_of_nccls_log_is_tried_if_there_is_to_be_one() {
        let said = |variables: &str| {
            let environment = format!(r#"{{"q":{{"env":["NCCL_"]}},"value":{{{variables}}}}}"#);
            let trial = r#"{"q":{"call":"rehearse_file","directory":"/scratch/logs"},"value":{"step":"open","errno":"ENOENT"}}"#;
            let (facts, node) = run(&PROBE, &[&environment, trial]);
            facts
                .known(node, node::LOG_REHEARSAL)
                .map(|text| text.to_string())
        };
        let file = r#""NCCL_DEBUG_FILE":"/scratch/logs/nccl.%h.log""#;
        let failed = "no file can be created in /scratch/logs: no such file or directory (ENOENT)";
        let works = Some(WORKS.to_owned());
        assert_eq!(
            said(&format!(r#"{file},"NCCL_DEBUG":"INFO""#)).as_deref(),
            Some(failed)
        );
        assert_eq!(said(&format!(r#"{file},"NCCL_DEBUG":"version""#)), works);
        assert_eq!(said(file), works);
        assert_eq!(
            said(r#""NCCL_DEBUG_FILE":"%h.log","NCCL_DEBUG":"INFO""#),
            works
        );
    }

    #[test]
    fn addresses_that_were_not_tried_are_said() {
        let line =
            r#"{"q":{"call":"rehearse_connections"},"value":[{"interface":"lo"},{"left_out":3}]}"#;
        let (facts, node) = run(&PROBE, &[line]);
        let said: Vec<Arc<str>> = facts.texts(node, node::LEFT_OUT).collect();
        assert_eq!(
            said,
            ["3 addresses were not read (more than 64 of this node)".into()]
        );
    }

    #[test]
    fn an_interface_that_cannot_be_connected_to_is_named() {
        let line = r#"{"q":{"call":"rehearse_connections"},"value":[{"interface":"lo"},{"interface":"eth0","step":"connect","errno":"ETIMEDOUT"}]}"#;
        let (facts, _) = run(&PROBE, &[line]);
        let of = |name| known(&facts, Subject::Interface, name, interface::REHEARSAL);
        assert_eq!(of("lo").as_deref(), Some("works"));
        assert_eq!(
            of("eth0").as_deref(),
            Some("eth0: a TCP connection to its own address fails: timed out (ETIMEDOUT)")
        );
    }

    #[test]
    fn a_directory_that_tmpdir_names_and_is_not_there_is_told_apart() {
        let of = |directory: &str| {
            let env = format!(r#"{{"q":{{"env":["TMPDIR"]}},"value":{{"TMPDIR":"{directory}"}}}}"#);
            let trial = format!(
                r#"{{"q":{{"call":"rehearse_file","directory":"{directory}"}},"value":{{"step":"open","errno":"ENOENT"}}}}"#
            );
            let (facts, node) = run(&PROBE, &[&env, &trial]);
            facts.known(node, node::TMP_REHEARSAL)
        };
        assert_eq!(of("/scratch/4711").as_deref(), Some("no directory"));
        assert_eq!(
            of("/tmp").as_deref(),
            Some("no file can be created in /tmp: no such file or directory (ENOENT)")
        );
    }
}
