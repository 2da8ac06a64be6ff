//! Hosts that are reached over ssh: each records itself, and all are judged here.

pub mod ways;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::ways::WaysOfHosts;
use super::budget::ClusterMemory;
use super::fresh_recordings::{FreshRecording, FreshRecordings};
use super::given::{HostsRequest, MachineRequest};
use super::many::{self, Cluster, Read};
use super::sink::Sink;
use super::unusable::{BadInput, NoReportInTime};
use crate::check::Catalogue;
use crate::cluster::clock_offset::ClockOffset;
use crate::cluster::ssh::{RemoteCommand, RemoteError};
use crate::live::worker::Progress;
use crate::live::{clock, judging_child, random};
use crate::probe::together;
use crate::report::{Policy, Report};
use crate::sentence::shell::quoted;
use crate::source::recording::{Recording, ZSTD_MAGIC};

/// How much a shell may print before what it was asked for.
const NOISE: usize = 64 << 10;

/// Asks all hosts for a recording of themselves: what each gave, or why it gave none. A deadline
/// that is named holds for all of them together.
pub(super) fn gather(
    request: &HostsRequest,
    memory: ClusterMemory,
    sink: &dyn Sink,
) -> Vec<Result<HostReply, RemoteError>> {
    let HostsRequest { names, machine, .. } = request;
    let of_each = machine.deadline() + request.wait;
    let ends = machine.deadline.map(|_| clock::now() + of_each);
    let of = names.len() as u64;
    let remote = RemoteCommand {
        ssh: request.ssh.clone(),
        command: command(&request.doctor, machine),
        deadline: of_each,
        // All are kept until the last one came.
        max_output: memory.message(of),
    };
    let done = AtomicU64::new(0);
    let give = |at: usize| {
        let mut this_host = remote.clone();
        if let Some(ends) = ends {
            this_host.deadline = ends.saturating_duration_since(clock::now());
        }
        let asked = clock::wall_clock();
        let given = this_host.run(&names[at]);
        let between = (asked, clock::wall_clock());
        let (count, what) = (done.fetch_add(1, Ordering::Relaxed) + 1, "hosts done");
        sink.progress(Progress::Counted { count, of, what });
        Ok(HostReply {
            bytes: given?,
            between,
        })
    };
    let mut all = Vec::with_capacity(names.len());
    many::work_in_order(names.len(), request.fanout, give, |_, given| {
        all.push(given)
    });
    sink.progress(Progress::Done);
    all
}

/// Has the hosts that gave something try the ways between them, unless that is not wished.
pub(super) fn try_ways(
    request: &HostsRequest,
    given: &[Result<HostReply, RemoteError>],
    ends: Instant,
    sink: &dyn Sink,
) -> Option<WaysOfHosts> {
    if request.no_reach || request.names.len() < 2 {
        return None;
    }
    let answered = request.names.iter().zip(given);
    let mut names: Vec<&str> = answered
        .filter(|(_, given)| given.is_ok())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    Some(ways::try_ways(request, &names, ends, sink))
}

/// What the shell of a host runs.
fn command(doctor: &str, request: &MachineRequest) -> String {
    let mut text = format!(
        "{doctor} record --no-redact --output=-.zst --deadline {}",
        request.deadline().as_secs_f64()
    );
    if let Some(pause) = request.sample {
        text.push_str(&format!(" --sample {}", pause.as_secs_f64()));
    }
    if request.no_rehearsal {
        text.push_str(" --no-self-test");
    }
    if let Some(nccl) = &request.nccl {
        text.push_str(&format!(" --nccl {}", quoted(nccl)));
    }
    text
}

/// What a host gave.
pub struct HostReply {
    /// A recording, packed or not.
    pub bytes: Vec<u8>,
    /// When it was asked for and when it was here, in nanoseconds since 1970 by this machine's clock.
    pub between: (i64, i64),
}

impl HostReply {
    /// Adds how far the host's clock is from this machine's: its recording began after it was asked for, and what it took to record was over when it came.
    fn note_clock(&self, recording: &mut Recording, run: u64) {
        let stamp = humantime::parse_rfc3339(&recording.header.utc).ok();
        let since = stamp.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let Some(stamped) = since.and_then(|since| i64::try_from(since.as_nanos()).ok()) else {
            return;
        };
        // What is cut off a stamp is time that had passed.
        let cut = match recording.header.utc.contains('.') {
            true => 1_000_000,
            false => 1_000_000_000,
        };
        let lasted = i64::try_from(recording.duration() * 1000).unwrap_or(i64::MAX);
        let (from, to) = self.between;
        let mut offset =
            ClockOffset::from_timestamp(from, stamped + cut / 2, to.saturating_sub(lasted));
        offset.within_ns = offset.within_ns.saturating_add(cut.unsigned_abs() / 2);
        // A recording that lasted longer than it was waited for: one of both clocks was set meanwhile, or runs at another pace.
        if offset.within_ns < u64::MAX && !recording.header.tree {
            together::note(recording, offset.ns, offset.within_ns, run);
        }
    }
}

/// Judges what these hosts gave as one cluster. A host that gave no recording is silent.
///
/// # Errors
///
/// [`BadInput`] where none gave one, and only one was asked; [`NoReportInTime`] where that one did
/// not answer by the deadline.
pub fn of_hosts(
    catalogue: &Catalogue,
    names: &[String],
    given: &[Result<HostReply, RemoteError>],
    ways: Option<&WaysOfHosts>,
    memory: ClusterMemory,
    policy: &Policy,
) -> anyhow::Result<Report> {
    let budget = memory.of_each();
    let run = random::number_of_run();
    let recording = |at: usize| {
        let given = given[at].as_ref().map_err(ToString::to_string)?;
        let packed = packed_part(&given.bytes);
        let mut recording = Recording::read_within(packed, Path::new(&names[at]), budget)
            .map_err(|error| format!("its output is not a recording: {error}"))?;
        given.note_clock(&mut recording, run);
        Ok::<_, String>(recording)
    };
    let fresh = FreshRecordings::default();
    let came = |at: usize| {
        let nanoseconds = given[at].as_ref().map_or(0, |given| given.between.1);
        let since = Duration::from_nanos(nanoseconds.try_into().unwrap_or(0));
        FreshRecording {
            all: &fresh,
            host: &names[at],
            now: humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string(),
        }
    };
    if let [one] = names {
        if let [Err(late)] = given
            && late.is_late()
        {
            return Err(NoReportInTime(format!("{one}: {late}")).into());
        }
        let judge = || {
            let recording = recording(0)?;
            let mut report = many::judged(catalogue, std::slice::from_ref(&recording), policy);
            if let Some(why) = came(0).doubt_time(&recording, &catalogue.limits) {
                report.doubt(why);
            }
            Ok(report)
        };
        let report = judging_child::input(one, judge).flatten();
        return Ok(report.map_err(|why| BadInput(format!("{one}: {why}")))?);
    }
    let judge = |at: usize| match recording(at) {
        Ok(one) => many::judged_alone(catalogue, &one, names.len(), policy, Some(came(at))),
        Err(why) if given[at].is_ok() => Read::Unjudged(why),
        Err(why) => Read::Not(why),
    };
    let read = |at: usize| many::within_limits(&format!("{} {}", at + 1, names[at]), || judge(at));
    let mut cluster = Cluster::new(catalogue, Some(clock::utc_now()));
    cluster.has_tried(ways.map(WaysOfHosts::tried));
    many::judge_in_order(names.len(), memory, read, |at, read| {
        cluster.add_named(&names[at], read);
    });
    Ok(cluster.report(policy))
}

/// Without what a shell's start-up files printed in front.
pub(super) fn packed_part(bytes: &[u8]) -> &[u8] {
    let head = &bytes[..bytes.len().min(NOISE)];
    match memchr::memmem::find(head, &ZSTD_MAGIC) {
        Some(at) => &bytes[at..],
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_user_stays_one_word_on_the_other_side() {
        let request = MachineRequest {
            sample: Some(Duration::from_millis(1500)),
            nccl: Some("/opt/it's here/libnccl.so; reboot".into()),
            ..MachineRequest::default()
        };
        assert_eq!(
            command("sudo -n rdma-doctor", &request),
            r"sudo -n rdma-doctor record --no-redact --output=-.zst --deadline 20 --sample 1.5 --nccl '/opt/it'\''s here/libnccl.so; reboot'"
        );
    }

    /// The offset of a host whose recording began at this stamp, asked for and here at these seconds of this clock, after it had lasted so long.
    fn offset(utc: &str, between: (f64, f64), lasted: f64) -> Option<(f64, f64)> {
        let mut recording = Recording::new(crate::source::wire::Header {
            utc: utc.into(),
            ..Default::default()
        });
        let question = crate::source::Question::read("/proc/uptime");
        recording.add(crate::source::wire::Line::Reply {
            probe: "host".into(),
            question,
            repeat: 0,
            reply: crate::source::Reply {
                at: (lasted * 1e6) as u64,
                said: Ok(crate::source::Answer::Text("1".into())),
            },
        });
        let nanoseconds = |seconds: f64| (seconds * 1e9) as i64;
        let given = HostReply {
            bytes: Vec::new(),
            between: (nanoseconds(between.0), nanoseconds(between.1)),
        };
        given.note_clock(&mut recording, 7);
        let mut facts = crate::fact::Facts::new();
        let node = crate::probe::establish(&recording, &mut facts);
        let known = |key| {
            facts
                .known(node, key)
                .map(|seconds: crate::fact::Seconds| seconds.0)
        };
        use crate::fact::node;
        Some((
            known(node::CLOCK_OFFSET)?,
            known(node::CLOCK_OFFSET_WITHIN)?,
        ))
    }

    #[test]
    fn a_recording_that_was_asked_for_tells_how_far_the_clock_is() {
        // 1970-01-01T00:16:40 is second 1000. Asked for at 1000, here at 1003, of which it recorded for 2: it began within the first second.
        let near = |found: Option<(f64, f64)>, expected: (f64, f64)| {
            let (offset, within) = found.unwrap();
            let is_near =
                (offset - expected.0).abs() < 0.002 && (within - expected.1).abs() < 0.002;
            assert!(is_near, "{offset} {within}");
        };
        let asked = (1000.0, 1003.0);
        near(offset("1970-01-01T00:16:40.500Z", asked, 2.0), (0.0, 0.5));
        near(offset("1970-01-01T00:17:40.500Z", asked, 2.0), (60.0, 0.5));
        near(offset("1970-01-01T00:16:30.500Z", asked, 2.0), (-10.0, 0.5));
        // A stamp of whole seconds is half a second less exact.
        near(offset("1970-01-01T00:16:40Z", asked, 2.0), (0.0, 1.0));
        // It says that it lasted longer than it was waited for.
        assert_eq!(offset("1970-01-01T00:16:40.500Z", asked, 4.0), None);
        assert_eq!(offset("", asked, 2.0), None);
    }
}
