//! The facts of events, and which failure came first.

use std::collections::{BTreeMap, HashMap};

use super::fields::{Fields, is_felt, is_origin, is_relay, is_retry, role};
use super::line::{LAST_ERROR, Line};
use super::outcome::{Failure, LinePosition, OutcomeWithProof, RunCourse, RunEndings};
use super::{INFO, RunView, not_logged};
use crate::fact::event::{self as fact, EventOutcome, LogClass, Phase, Role};
use crate::fact::run::RunOutcome;
use crate::fact::{Fact, Facts, Gap, Origin, Seconds, Subject, run};
use crate::nccl_log::digest::DroppedEvents;
use crate::nccl_log::event::{ClassCache, MessageClass, MessageKind};
use crate::nccl_log::event_table;
use crate::nccl_log::message::{MessageAction, action_for_info};
use crate::nccl_log::prefix::LogLevel;

/// An event, put together with those of its host that say the same.
struct Event<'l, 'd> {
    class: LogClass,
    role: Role,
    fields: Fields<'d>,
    line: &'l Line<'d>,
    host: &'d str,
    rank: Option<u64>,
    phase: Option<Phase>,
    /// Its outcome, if the log shows it.
    shown: OutcomeWithProof,
}

impl Event<'_, '_> {
    /// Whether nothing shows that the run went on after it.
    fn is_open(&self) -> bool {
        self.shown.is_none()
    }

    fn is_open_failure(&self) -> bool {
        self.role == Role::Failure && self.is_open()
    }

    fn is_open_unknown(&self) -> bool {
        self.role == Role::Unknown && self.is_open()
    }
}

/// The class of a line, and the call of libibverbs that its words stand for.
fn class_of(classes: &mut ClassCache, line: &Line<'_>) -> Option<(LogClass, Option<&'static str>)> {
    let message = line.message.as_bytes();
    let is = match line.level {
        Some(LogLevel::Warn) => classes.classify(MessageKind::Warning, message),
        Some(LogLevel::Info) => match action_for_info(message) {
            MessageAction::Unlisted => classes.classify(MessageKind::Info, message),
            _ => return None,
        },
        Some(LogLevel::Version | LogLevel::Other) => return None,
        None => classes.classify(MessageKind::Framework, message),
    };
    match is {
        MessageClass::Event(row) => {
            let row = usize::from(row);
            let class = match LogClass::from_word(event_table::class(row))? {
                // CUDA says the same of any call: if it was made says what for.
                LogClass::Cuda
                    if line.source.is_some_and(|s| s.contains("nvls.cc"))
                        && !line.message.contains("system not yet initialized") =>
                {
                    LogClass::NvlsFailed
                }
                class => class,
            };
            Some((class, event_table::call(row)))
        }
        MessageClass::Unwinding => Some((LogClass::Unwinding, None)),
        MessageClass::Unlisted => Some((LogClass::Uncatalogued, None)),
        MessageClass::Known(_) | MessageClass::Nothing => None,
    }
}

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let log = view.log;
    let mut classes = ClassCache::default();
    let mut completed: HashMap<(&str, u64), (usize, u64)> = HashMap::new();
    for comm in &log.comms.all {
        for member in comm.members.values() {
            if let Some(place) = member.complete {
                let line = &log.lines[place];
                let entry = completed
                    .entry((member.host, member.pid))
                    .or_insert((line.file, line.kept.line));
                if entry.0 == line.file {
                    entry.1 = entry.1.min(line.kept.line);
                }
            }
        }
    }
    let mut events: Vec<Event<'_, '_>> = Vec::new();
    for (line, host) in view.lines() {
        let Some((class, call)) = class_of(&mut classes, line) else {
            continue;
        };
        let mut fields = Fields::of(class, line.message);
        if line.level.is_none() {
            fields.of_program(line.message, call);
        }
        let mut role = role(class, &fields, line.message);
        // NCCL continues without a device; any other writer of this message has nothing else.
        let sole = matches!(class, LogClass::IbNone | LogClass::DeviceOpen);
        if line.level.is_none() && sole {
            role = Role::Failure;
        }
        if line.level == Some(LogLevel::Info) && role == Role::Failure {
            // What ends a run is said as a warning.
            role = Role::Warning;
        }
        let process = RunView::writer_process(line);
        let rank = process
            .and_then(|process| log.comms.largest_of(process))
            .map(|(_, rank)| rank)
            .or(fields.rank)
            .or(line.tagged_rank.filter(|_| line.writer.is_none()));
        let phase = process.and_then(|(host, pid)| match completed.get(&(host, pid)) {
            Some((file, first)) if *file == line.file => Some(if line.kept.line > *first {
                Phase::Running
            } else {
                Phase::Init
            }),
            Some(_) => None,
            None => log.informed.contains(&(host, pid)).then_some(Phase::Init),
        });
        events.push(Event {
            class,
            role,
            fields,
            line,
            host,
            rank,
            phase,
            shown: None,
        });
    }
    // The call that failed names no device: the next line does.
    let opens = |e: &Event<'_, '_>| e.class == LogClass::DeviceOpen;
    let named: Vec<&str> = events
        .iter()
        .filter(|e| opens(e) && e.fields.device.is_some())
        .map(|e| e.host)
        .collect();
    // A provider that is not installed matters where no device is found.
    let is_none = events.iter().any(|e| e.class == LogClass::IbNone);
    for event in &mut events {
        if opens(event) && event.fields.device.is_none() && named.contains(&event.host) {
            event.role = Role::Benign;
        }
        if event.class == LogClass::ProviderMissing && event.line.level.is_none() && is_none {
            event.role = Role::Warning;
        }
    }
    share_reasons(&mut events);
    name_loopback(&mut events);
    share_printed_gids(&mut events);
    let course = RunCourse::of(view);
    date_completions(&course, &mut events);
    let failures = failures(view, &events);
    let others = RunEndings::of(&failures);
    outcomes(&course, &failures, &others, &mut events);
    end_waits(&mut events);
    fail_exhausted_retries(&mut events);
    fail_last_retry(view, &mut events);
    // What PyTorch says NCCL returned follows from what NCCL said itself.
    let repeated = |line: &Line<'_>| line.kept.text.contains(LAST_ERROR);
    let own = events
        .iter()
        .any(|e| e.is_open_failure() && e.line.level.is_some() && !repeated(e.line));
    // Unless NCCL names a failure, the warning before those lines is what is known of it.
    let warned = match own {
        true => None,
        false => warning_before_unwinding(view, &events),
    };
    let any = own
        || warned.is_some()
        || events
            .iter()
            .any(|e| e.is_open_failure() && repeated(e.line))
        // Requests that were flushed follow from an error, and say more than who passes it on.
        || events
            .iter()
            .any(|e| e.is_open() && e.class == LogClass::Completion);
    yield_to_what_is_passed_on(&mut events);
    for event in &mut events {
        if any && matches!(event.class, LogClass::TorchNccl) || own && repeated(event.line) {
            event.role = Role::Consequence;
        }
    }
    let (first, ordered) = first_failure(&events);
    let failed = first.is_some() || events.iter().any(Event::is_open_failure);
    let hidden = hidden(view, &course, &others, first.and_then(|at| events.get(at)));
    let warned = warned.or_else(|| unknown(&events)).filter(|_| !failed);
    let open =
        |e: &Event<'_, '_>| e.is_open() && matches!(e.role, Role::Failure | Role::Consequence);
    let (outcome, at) = course.of_run(events.iter().any(open), &others);
    let seen = at.and_then(|at| course.sign(at));
    facts.set(
        view.id,
        run::OUTCOME,
        match (seen, &hidden) {
            (_, Some(gap)) if outcome != RunOutcome::Failed => Fact::Unknown(gap.clone()),
            (Some(origin), _) => Fact::Known(outcome, origin),
            (None, _) => Fact::derived(outcome, "the lines that follow the log's failures"),
        },
    );
    let how = "the events of the log";
    let origin = first
        .and_then(|at| events.get(at))
        .map(|e| e.line.origin().clone());
    let failed = match (failed, origin) {
        (true, Some(origin)) => Fact::Known(true, origin),
        (true, None) => Fact::derived(true, how),
        (false, _) => view.total(false, how).unless(hidden.clone()),
    };
    facts.set(view.id, run::FAILED, failed);
    let is_excerpt = view.processes.is_empty();
    facts.derive(
        view.id,
        run::EXCERPT,
        is_excerpt,
        "the processes that lines name",
    );
    let start = log_start(&events);
    let mut numbers: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let Some(host) = view.host(event.host) else {
            continue;
        };
        let word = event.class.word();
        let number = numbers.entry((event.host, word)).or_default();
        *number += 1;
        let name = match number {
            1 => word.to_owned(),
            number => format!("{word} {number}"),
        };
        let id = facts.instance(Subject::Event, host, &name);
        let origin = event.line.origin().clone();
        let fields = &event.fields;
        let kept = event.line.kept;
        let place = super::place(&log.files[event.line.file].0, kept.line);
        let text = match event.class {
            LogClass::Uncatalogued => without_frame(event.line.message).to_owned(),
            _ => message_text(event.line),
        };
        let ranks = event.line.writer.map(|_| kept.processes);
        facts.know(id, fact::CLASS, event.class, &origin);
        facts.know(id, fact::ROLE, event.role, &origin);
        facts.know(id, fact::PASSED_ON, is_relay(event.class), &origin);
        for (key, value) in [
            (fact::COUNT, Some(kept.count)),
            (fact::RANKS, ranks),
            (fact::RANK, event.rank),
            (fact::STATUS, fields.status),
            (fact::VENDOR_ERR, fields.vendor_err),
            (fact::SEQUENCE, fields.sequence),
        ] {
            if let Some(value) = value {
                facts.know(id, key, value, &origin);
            }
        }
        for (key, value) in [
            (fact::TEXT, Some(&*text)),
            (fact::PLACE, Some(&*place)),
            (fact::TIME, event.line.clock),
            (fact::FUNCTION, fields.function),
            (fact::ERRNO, fields.errno),
            (fact::DEVICE, fields.device),
            (fact::PEER, fields.peer),
            (fact::LOCAL_GID, fields.local_gid),
            (fact::REMOTE_GID, fields.remote_gid),
            (fact::PEER_DEVICE, fields.peer_device),
            (fact::OPERATION, fields.operation.as_deref()),
            (fact::GROUP, fields.group),
            (fact::DETAIL, fields.detail),
        ] {
            if let Some(value) = value {
                facts.know(id, key, value.into(), &origin);
            }
        }
        if let Some(after) = start
            .zip(event.line.time)
            .and_then(|(start, time)| time.since(start))
        {
            facts.know(id, fact::AFTER, Seconds(after), &origin);
        }
        if let Some(time) = event.line.time.filter(|time| time.year) {
            facts.know(id, fact::AT, Seconds(time.seconds), &origin);
        }
        match event.phase {
            Some(phase) => facts.know(id, fact::PHASE, phase, &origin),
            None => facts.set(id, fact::PHASE, Fact::Unknown(not_logged(INFO))),
        }
        let outcome = match &event.shown {
            None => EventOutcome::Open,
            Some((outcome, by)) => {
                facts.know(id, fact::SHOWN_BY, (&**by).into(), &origin);
                *outcome
            }
        };
        facts.know(id, fact::OUTCOME, outcome, &origin);
        let known = (first.or(warned), ordered, hidden.as_ref());
        order(view, facts, id, at, event, known);
    }
}

/// How many lines after it a relay's reason may stand.
const REASON_WITHIN: u64 = 40;

/// Makes consequences of events that pass on what another library said, where that is a failure
/// that stands before, or soon after them.
fn yield_to_what_is_passed_on(events: &mut [Event<'_, '_>]) {
    // The first of each file.
    let mut reasons: BTreeMap<usize, u64> = BTreeMap::new();
    for event in events.iter() {
        if event.is_open_failure() && !is_relay(event.class) {
            let first = reasons.entry(event.line.file).or_insert(u64::MAX);
            *first = event.line.kept.line.min(*first);
        }
    }
    for event in events.iter_mut() {
        let end = event.line.kept.line + REASON_WITHIN;
        let has_reason = reasons.get(&event.line.file).is_some_and(|at| *at <= end);
        if has_reason && is_relay(event.class) && event.is_open_failure() {
            event.role = Role::Consequence;
        }
    }
}

/// If nothing but consequences is left, a retry that names its error, and after which nothing shows
/// that it succeeded, is the failure.
fn fail_exhausted_retries(events: &mut [Event<'_, '_>]) {
    let of_nccl = |e: &Event<'_, '_>| {
        matches!(
            e.class,
            LogClass::TorchNccl | LogClass::TorchTeardown | LogClass::Unwinding
        )
    };
    let is_other = |e: &Event<'_, '_>| e.is_open_failure() && !of_nccl(e);
    let last = events.iter().filter(|e| e.is_open() && of_nccl(e));
    let Some(last) = last.map(|e| (e.line.file, e.line.kept.line)).max() else {
        return;
    };
    if events.iter().any(is_other) {
        return;
    }
    let is_retry = |e: &&mut Event<'_, '_>| {
        let at = (e.line.file, e.line.kept.line);
        e.class == LogClass::ConnectRetry && e.is_open() && e.fields.errno.is_some() && at < last
    };
    for event in events.iter_mut().filter(is_retry) {
        let is_verbs = event
            .fields
            .function
            .is_some_and(|call| call.starts_with("ibv_"));
        event.class = if is_verbs {
            LogClass::VerbsCall
        } else {
            LogClass::ConnectFailed
        };
        event.role = Role::Failure;
    }
}

/// NCCL's connect exchanges addresses over TCP and posts nothing over RDMA (net_ib/connect.cc of
/// 2.30.7), so that `Init COMPLETE` does not show that a request ever got through: a collective that
/// finished does.
fn date_completions<'d>(course: &RunCourse<'_, 'd>, events: &mut [Event<'_, 'd>]) {
    for event in events
        .iter_mut()
        .filter(|e| e.class == LogClass::Completion)
    {
        let process = RunView::writer_process(event.line);
        // It began and did not end: steps that stand before are not its own.
        let is_within = event.phase == Some(Phase::Init)
            && process.is_some_and(|process| course.has_begun(process));
        let worked = course.had_worked(LinePosition::of(event.line));
        event.phase = match (worked, event.phase) {
            (Some(true), _) if !is_within => Some(Phase::Running),
            (Some(false), _) => Some(Phase::Init),
            (None, Some(Phase::Running)) => None,
            (_, phase) => phase,
        };
    }
}

/// Gloo says in one line that it announces the loopback address, and in another that nobody reached
/// it there.
fn name_loopback(events: &mut [Event<'_, '_>]) {
    let falls_back = |e: &Event<'_, '_>| {
        e.line
            .message
            .contains("Using the loopback address as fallback")
    };
    if !events.iter().any(falls_back) {
        return;
    }
    for event in events
        .iter_mut()
        .filter(|e| e.class == LogClass::ConnectFailed)
    {
        if event.fields.peer.is_none() && event.line.message.contains("loo") {
            event.fields.peer = Some("127.0.0.1");
        }
    }
}

/// A test prints the GIDs of both ends, and below them that its queue was refused.
fn share_printed_gids(events: &mut [Event<'_, '_>]) {
    let mut printed = Vec::new();
    for event in events {
        if event.class == LogClass::GidPrinted {
            printed.extend(event.fields.local_gid);
        } else if event.class == LogClass::VerbsCall
            && event.fields.function == Some("ibv_modify_qp")
            && let [.., local, remote] = printed.as_slice()
        {
            event.fields.local_gid = event.fields.local_gid.or(Some(local));
            event.fields.remote_gid = event.fields.remote_gid.or(Some(remote));
        }
    }
}

/// The store says at the end that it gave up, and before, with each attempt, why.
fn share_reasons(events: &mut [Event<'_, '_>]) {
    let of_store = |event: &&Event<'_, '_>| event.class == LogClass::TorchStore;
    let mut reasons = events.iter().filter(of_store).map(|e| e.fields.errno);
    let Some(reason) = reasons.find(|errno| errno.is_some_and(|e| e != "ETIMEDOUT")) else {
        return;
    };
    for event in events
        .iter_mut()
        .filter(|e| e.class == LogClass::TorchStore)
    {
        if event.fields.errno.is_none_or(|e| e == "ETIMEDOUT") {
            event.fields.errno = reason;
        }
    }
}

/// The message, or of a framework's line what is behind its place in the source.
/// A line without what stands before its words: times, and what is in brackets.
fn without_frame(message: &str) -> &str {
    let mut rest = message.trim();
    loop {
        let behind = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']'),
            None => rest.split_once(' '),
        };
        match behind {
            Some((word, behind))
                if behind.len() > SHORTEST && (rest.starts_with('[') || is_time(word)) =>
            {
                rest = behind.trim_start();
            }
            _ => return rest.trim_start_matches(':').trim_start(),
        }
    }
}

/// What is left of a line tells something with so many bytes.
const SHORTEST: usize = 24;

/// Whether a word is a date or a time of day.
fn is_time(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits >= 4
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || b"-:.,/TZ+".contains(&b))
}

fn message_text(line: &Line<'_>) -> String {
    match line.source {
        Some(source) => format!("{source} {}", line.message),
        None => line.message.to_owned(),
    }
}

fn order(
    view: &RunView<'_, '_>,
    facts: &mut Facts,
    id: crate::fact::Id,
    at: usize,
    event: &Event<'_, '_>,
    (first, ordered, hidden): (Option<usize>, bool, Option<&Gap>),
) {
    let origin = event.line.origin().clone();
    let ordered = ordered && hidden.is_none();
    facts.set(id, fact::ORDERED, Fact::Known(ordered, origin.clone()));
    let counts = event.is_open_failure() || event.role != Role::Failure && first == Some(at);
    if !counts {
        facts.set(id, fact::FIRST, Fact::Known(false, origin));
    } else if let Some(gap) = hidden {
        facts.set(id, fact::FIRST, Fact::Unknown(gap.clone()));
    } else if ordered {
        let first = view.whole(Fact::Known(first == Some(at), origin));
        facts.set(id, fact::FIRST, first);
    } else {
        facts.set(id, fact::FIRST, Fact::Unknown(not_logged("log with NCCL_DEBUG_TIMESTAMP_LEVELS=all, or give one file with the lines of all ranks")));
    }
}

/// Why the first failure may be one that found no place among the lines that are kept, if it may.
fn hidden(
    view: &RunView<'_, '_>,
    course: &RunCourse<'_, '_>,
    others: &RunEndings<'_>,
    first: Option<&Event<'_, '_>>,
) -> Option<Gap> {
    let may_be_first = |(file, of): &(usize, &DroppedEvents)| {
        let Some(class) = LogClass::from_word(&of.class) else {
            return false;
        };
        let fields = Fields {
            status: of.status,
            ..Fields::default()
        };
        let at = LinePosition::new(*file, of.line, of.last);
        // Their writers are unknown.
        let failure = Failure {
            at,
            class,
            thread: None,
            processes: u64::MAX,
        };
        let before = first.is_none_or(|e| e.line.file != *file || at.first < e.line.kept.line);
        role(class, &fields, "") == Role::Failure
            && before
            && course.outcome(&failure, others).is_none()
    };
    view.uncounted().find(may_be_first).map(|_| {
        Gap::not_said(
            "the log has more failures than are kept",
            Origin::derived("the log"),
        )
    })
}

/// The first failure, and whether it is known to be the first.
fn first_failure(events: &[Event<'_, '_>]) -> (Option<usize>, bool) {
    let failures: Vec<(usize, &Event<'_, '_>)> = events
        .iter()
        .enumerate()
        .filter(|(_, e)| e.is_open_failure())
        .collect();
    let Some((_, earliest)) = failures.first() else {
        return (None, true);
    };
    let timed = failures.iter().all(|(_, e)| {
        let pair = e.line.time.zip(earliest.line.time);
        pair.is_some_and(|(time, first)| time.since(first).is_some())
    });
    if timed {
        let key = |e: &Event<'_, '_>| {
            (
                e.line.time.map_or(0.0, |time| time.seconds),
                e.line.file,
                e.line.kept.line,
            )
        };
        let first = failures.iter().min_by(|(_, a), (_, b)| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        });
        return (first.map(|(at, _)| *at), true);
    }
    let one_file = failures
        .iter()
        .all(|(_, e)| e.line.file == earliest.line.file);
    let place = |e: &Event<'_, '_>| (e.line.file, e.line.kept.line);
    let by_line = failures.iter().min_by_key(|(_, e)| place(e));
    let origins = failures.iter().filter(|(_, e)| is_origin(e.class));
    let origin = origins.min_by_key(|(_, e)| place(e));
    if let Some((at, _)) = origin
        && by_line.is_some_and(|(_, first)| is_felt(first.class))
    {
        return (Some(*at), true);
    }
    match one_file {
        true => (by_line.map(|(at, _)| *at), true),
        false => (None, false),
    }
}

/// The events, as far as their outcomes depend on them.
fn failures<'d>(view: &RunView<'_, 'd>, events: &[Event<'_, 'd>]) -> Vec<Failure<'d>> {
    // A framework names the rank alone.
    let members = view.largest().map(|at| &view.log.comms.all[at].members);
    let of_rank = |rank: u64| {
        let member = members?.get(&rank)?;
        Some((member.host, member.pid, None))
    };
    let all = events.iter().map(|event| Failure {
        at: LinePosition::of(event.line),
        class: event.class,
        thread: event
            .line
            .writer
            .map(|writer| (event.host, writer.pid, writer.device))
            .or_else(|| of_rank(event.rank?)),
        processes: event.line.kept.processes,
    });
    all.collect()
}

/// Finds what came of each event.
fn outcomes<'d>(
    course: &RunCourse<'_, 'd>,
    failures: &[Failure<'d>],
    others: &RunEndings<'d>,
    events: &mut [Event<'_, 'd>],
) {
    for (event, failure) in events.iter_mut().zip(failures) {
        event.shown = course.outcome(failure, others);
    }
    // Connections over an adapter that reported an event are retried for a while: a later failure may result from it.
    let fails = events
        .iter()
        .any(|e| e.is_open() && matches!(e.role, Role::Failure | Role::Consequence));
    let of_adapter = |class| matches!(class, LogClass::Async | LogClass::AsyncFatal);
    for event in events.iter_mut().filter(|e| fails && of_adapter(e.class)) {
        let recovered = |shown: &(EventOutcome, String)| shown.0 == EventOutcome::Recovered;
        if event.shown.as_ref().is_some_and(recovered) {
            event.shown = None;
        }
    }
}

/// How a connection that was never made fails. One that breaks at the end of a run says other words.
const NOT_CONNECTED: [&str; 5] = [
    "ECONNREFUSED",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENETDOWN",
    "ETIMEDOUT",
];

/// A connection that a program tries again in the last line of a file is what failed, where nothing
/// else did and nothing shows that the run began: as far as is known it still tries.
fn fail_last_retry(view: &RunView<'_, '_>, events: &mut [Event<'_, '_>]) {
    let mut files = view.log.files.iter();
    let has_begun = !view.processes.is_empty() || files.any(|(_, file)| !file.signs.is_empty());
    if has_begun || events.iter().any(Event::is_open_failure) {
        return;
    }
    let ends_file = |event: &&mut Event<'_, '_>| {
        let (_, digest) = &view.log.files[event.line.file];
        event.line.kept.last + 1 >= digest.lines
    };
    let tries = |event: &&mut Event<'_, '_>| {
        let errno = event.fields.errno.unwrap_or_default();
        event.is_open() && NOT_CONNECTED.contains(&errno) && is_retry(event.line.message)
    };
    let last = events
        .iter_mut()
        .rev()
        .find(|event| tries(event) && ends_file(event));
    if let Some(event) = last {
        event.role = Role::Failure;
    }
}

/// The warning right after which a process says that a failure passed: it names what failed, though it is no failure by itself.
fn warning_before_unwinding(view: &RunView<'_, '_>, events: &[Event<'_, '_>]) -> Option<usize> {
    let unwinding = events
        .iter()
        .find(|e| e.class == LogClass::Unwinding && e.is_open())?;
    let process = RunView::writer_process(unwinding.line)?;
    let of_process = |line: &Line<'_>| {
        line.file == unwinding.line.file && RunView::writer_process(line) == Some(process)
    };
    let end = unwinding.line.kept.line;
    let (at, warning) = events
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, e)| of_process(e.line) && e.line.kept.line < end)
        .max_by_key(|(_, e)| e.line.kept.line)?;
    let between = warning.line.kept.line + 1..end;
    let goes_on = view
        .lines()
        .any(|(line, _)| of_process(line) && between.contains(&line.kept.line));
    (warning.line.level == Some(LogLevel::Warn)
        && matches!(warning.role, Role::Warning | Role::Benign)
        && warning.is_open()
        && !goes_on)
        .then_some(at)
}

/// The first line that no table has, where nothing else in the log is wrong.
fn unknown(events: &[Event<'_, '_>]) -> Option<usize> {
    let mut open = events.iter().filter(|event| event.is_open());
    if open.any(|event| !matches!(event.role, Role::Unknown | Role::Benign)) {
        return None;
    }
    let at = events.iter().position(Event::is_open_unknown)?;
    let (first, next) = (events.get(at)?, events.get(at + 1));
    let says_why = next.is_some_and(|next| next.is_open_unknown() && is_right_behind(next, first));
    Some(if says_why && is_bare(first.line.message) {
        at + 1
    } else {
        at
    })
}

/// Lines between two that belong together.
const TOGETHER: u64 = 3;

/// Whether an event stands right behind another one.
fn is_right_behind(event: &Event<'_, '_>, other: &Event<'_, '_>) -> bool {
    let at = other.line.kept.line;
    event.line.file == other.line.file && (at..=at + TOGETHER).contains(&event.line.kept.line)
}

/// Whether a line says that something failed, and nothing of why.
fn is_bare(message: &str) -> bool {
    let text = message.trim_end().trim_end_matches(['.', '!', ']']);
    ["FAILED", "failed", "Failed", "FAIL"]
        .iter()
        .any(|end| text.ends_with(end))
}

/// What a container waits for is there where it says so later.
fn end_waits(events: &mut [Event<'_, '_>]) {
    const LOADED: &str = "successfully loaded nvidia-peermem";
    // The last of each file.
    let mut ends: BTreeMap<usize, u64> = BTreeMap::new();
    for event in events.iter() {
        if event.line.message.contains(LOADED) {
            ends.insert(event.line.file, event.line.kept.line);
        }
    }
    for event in events.iter_mut() {
        let end = ends.get(&event.line.file);
        let end = end.filter(|at| **at > event.line.kept.line);
        if let Some(at) = end
            && event.class == LogClass::PeerMemoryMissing
        {
            let proof = format!("line {at}: {LOADED}");
            event.shown = Some((EventOutcome::Recovered, proof));
        }
    }
}

/// The first time of the events.
fn log_start(events: &[Event<'_, '_>]) -> Option<crate::nccl_log::clock::Time> {
    let times = events.iter().filter_map(|e| e.line.time);
    times.min_by(|a, b| {
        (a.year, a.zone)
            .cmp(&(b.year, b.zone))
            .then(a.seconds.total_cmp(&b.seconds))
    })
}
