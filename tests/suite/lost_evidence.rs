//! Evidence that is lost never helps: an answer turned into damage gives neither exit status 0 nor 1, and no finding vanishes
//! unless the report names the lost answer; one that is withheld never leaves the word *healthy*, a recording that is cut never
//! gives 0.
//!
//! A sample of all answers runs each time, all of them with `RDMA_DOCTOR_CASES=all` (make exhaustive); `RDMA_DOCTOR_LOSS=Empty` loses
//! them in this way alone.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::{many, recording_text};
use rdma_doctor::exit::Exit;
use rdma_doctor::nodeset;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::ordinary_reply::{is_refused_so, may_be_any_text};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Answer, Errno, Question, Refusal};

use crate::clusters::list;
use crate::fixtures::{fixtures, own_questions};
use crate::sample;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// A refusal that is none of those in the table of ordinary ones.
    Damage,
    /// No text, no bytes, no members.
    Empty,
    /// What no kernel and no library says.
    Garbage,
    Withheld,
    Cut,
}

/// The refusals that are tried, beside the timeout, the crash and the reply that is too large: what a kernel, a driver or the
/// asking process itself runs into.
const ERRNOS: [Errno; 20] = [
    Errno::EINTR,
    Errno::EIO,
    Errno::ENXIO,
    Errno::EBADF,
    Errno::EAGAIN,
    Errno::ENOMEM,
    Errno::EFAULT,
    Errno::EBUSY,
    Errno::ENODEV,
    Errno::EISDIR,
    Errno::EINVAL,
    Errno::ENFILE,
    Errno::EMFILE,
    Errno::ENOSPC,
    Errno::ELOOP,
    Errno::EPROTO,
    Errno::ENOBUFS,
    Errno::ETIMEDOUT,
    Errno::ESTALE,
    Errno::EREMOTEIO,
];

impl Loss {
    /// In how many ways an answer is lost so; a name that is listed and absent is one of damage.
    fn ways(self) -> usize {
        match self {
            Loss::Damage => ERRNOS.len() + 4,
            Loss::Empty | Loss::Garbage | Loss::Withheld | Loss::Cut => 1,
        }
    }

    /// What may stand in the place of this answer, by the way in which it is lost.
    fn replies(self, question: &Question, answer: &Answer) -> Vec<Result<Answer, Refusal>> {
        match self {
            Loss::Damage => {
                let others = [
                    Refusal::Timeout,
                    Refusal::TooLarge,
                    Refusal::Crash("killed by signal 11".into()),
                    Errno::ENOENT.into(),
                ];
                let errnos = ERRNOS.into_iter().map(Refusal::Errno);
                errnos.chain(others).map(Err).collect()
            }
            Loss::Empty => empty(question, answer).map(Ok).into_iter().collect(),
            Loss::Garbage => garbage(question, answer).map(Ok).into_iter().collect(),
            Loss::Withheld => vec![Err(Errno::EACCES.into())],
            Loss::Cut => vec![Err(Refusal::NotRecorded)],
        }
    }
}

/// The answer without its content. An empty list is that of a machine without such things, and leaves no trace.
fn empty(question: &Question, answer: &Answer) -> Option<Answer> {
    let empty = match answer {
        Answer::Text(_) => Answer::Text("".into()),
        Answer::Bytes(_) => Answer::Bytes([].into()),
        Answer::Value(_) => Answer::from(serde_json::json!({})),
        Answer::Names(_) => return None,
    };
    (empty != *answer && !may_be_empty(question)).then_some(empty)
}

/// Content that nobody writes there.
fn garbage(question: &Question, answer: &Answer) -> Option<Answer> {
    let garbage = match answer {
        Answer::Text(_) => Answer::Text("\u{1}\u{7f}?!".into()),
        Answer::Bytes(_) => Answer::Bytes([0xff; 7].into()),
        Answer::Value(_) => Answer::from(serde_json::json!("?!")),
        Answer::Names(_) => Answer::Text("?!".into()),
    };
    (!may_be_anything(question)).then_some(garbage)
}

/// Whether an answer without content is one that a sound machine may give: nothing is set, nothing is listed, nothing went wrong.
fn may_be_empty(question: &Question) -> bool {
    let dumps = [
        "addr", "neigh", "qdisc", "route", "rule", "tclass", "tfilter",
    ];
    match question {
        Question::Env(_) => true,
        Question::Call(call) => {
            let may = ["ethtool_statistics", "interrupt_spread", "process_env"];
            call.name.starts_with("rehearse_") || may.contains(&&*call.name)
        }
        Question::Netlink(call) => {
            let of = call.name.strip_prefix("route/get").unwrap_or("");
            &*call.name == "rdma/dev-get" || dumps.iter().any(|dump| of.starts_with(dump))
        }
        // No controller is delegated, or no hierarchy is mounted.
        Question::Read(path) if path.contains("/cgroup") => true,
        // A kernel without modules, as virtual machines have it; a port for which nobody set a class.
        Question::Read(path) if **path == *"/proc/modules" => true,
        Question::Read(path) if path.ends_with("/traffic_class") => true,
        // Nothing is reserved; a node of memory alone.
        Question::Read(path) if path.ends_with("/ip_local_reserved_ports") => true,
        // No CPU is kept apart; no bond, or one without members.
        Question::Read(path) if path.ends_with("/cpu/isolated") => true,
        Question::Read(path) if path.ends_with("/bonding_masters") => true,
        Question::Read(path) if path.ends_with("/bonding/slaves") => true,
        Question::Read(path) if path.contains("/node/node") && path.ends_with("/cpulist") => true,
        _ => may_be_any_text(question),
    }
}

/// Whether people, programs or firmware write what stands there: any text is one.
fn may_be_anything(question: &Question) -> bool {
    matches!(question, Question::Read(_)) && may_be_any_text(question)
}

/// Whether a directory of the kernel's is listed with what the question is put to.
fn is_listed(lines: &[Line], question: &Question) -> bool {
    let path = question.path().unwrap_or_default();
    let is_kernels = ["/sys/", "/proc/", "/dev/"]
        .iter()
        .any(|root| path.starts_with(root));
    let (dir, name) = path.rsplit_once('/').unwrap_or_default();
    let listing = Question::list(dir);
    let lists = |line: &Line| match line {
        Line::Reply {
            question, reply, ..
        } if *question == listing => {
            matches!(&reply.said, Ok(Answer::Names(names)) if names.iter().any(|n| **n == *name))
        }
        _ => false,
    };
    is_kernels && !["/proc", "/dev"].contains(&dir) && lines.iter().any(lists)
}

/// The recording without its base: what it says with this reply in the place of the answer at `at`; cut off there, if none is given.
fn without(
    recording: &Recording,
    lines: &[Line],
    at: usize,
    instead: Option<Result<Answer, Refusal>>,
) -> Recording {
    let mut less = Recording::new(recording.header.clone());
    less.header.base = None;
    for (number, line) in lines.iter().enumerate() {
        let mut line = line.clone();
        if number == at {
            let Some(said) = &instead else { return less };
            if let Line::Reply { reply, .. } = &mut line {
                reply.said = said.clone();
            }
        }
        less.add(line);
    }
    less.end();
    less
}

/// The checks that a report finds failed, with their severity.
fn found(report: &Report) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for cause in report.causes.iter().chain(&report.notes) {
        found.insert(cause.check.as_str(), cause.severity);
        found.extend(
            cause
                .consequences
                .iter()
                .map(|c| (c.check.as_str(), c.severity)),
        );
    }
    found
}

/// Whether a report names the question whose reply it lacks.
fn names(report: &Report, question: &Question) -> bool {
    let text = serde_json::to_string(report).unwrap();
    let quoted = serde_json::to_string(&question.to_string()).unwrap();
    text.contains(quoted.trim_matches('"'))
}

/// What is wrong with the report of a recording that lost something, and had this report before.
fn wrong(
    report: &Report,
    whole: &Report,
    loss: Loss,
    question: &Question,
    is_absent: bool,
) -> Option<String> {
    // Copies of files may be empty where the kernel's are not, and lack what a list names: of a
    // tree only errors are damage.
    let is_copy = report.nodes.iter().any(|node| node.tree);
    let is_green = match loss {
        Loss::Empty | Loss::Garbage if is_copy => report.exit() == Exit::Healthy,
        Loss::Damage if is_copy && is_absent => report.exit() == Exit::Healthy,
        Loss::Damage | Loss::Empty | Loss::Garbage => {
            matches!(report.exit(), Exit::Healthy | Exit::Warnings)
        }
        Loss::Cut => report.exit() == Exit::Healthy,
        Loss::Withheld => report.status == "healthy",
    };
    if is_green {
        let Report {
            status,
            exit,
            headline,
            ..
        } = report;
        return Some(format!("{status} ({exit}): {headline}"));
    }
    if loss != Loss::Damage {
        return None;
    }
    let left = found(report);
    let mut gone = found(whole)
        .into_iter()
        .filter(|(check, _)| !left.contains_key(check));
    let (check, severity) = gone.find(|(_, severity)| *severity != "note")?;
    (!names(report, question)).then(|| format!("the {severity} {check} is gone without a word"))
}

/// What is judged together: a fixture's recording, or those of a cluster's nodes.
struct Evidence {
    name: String,
    recordings: Vec<Recording>,
    /// The nodes that a cluster expects.
    expected: Option<Vec<String>>,
    /// What a fixture says itself, where it has a base.
    own: Option<HashSet<Question>>,
}

impl Evidence {
    fn of_fixture(path: &Path) -> Self {
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            recordings: vec![Recording::open(path).unwrap()],
            expected: None,
            own: own_questions(path),
        }
    }

    fn of_cluster(path: &Path) -> Self {
        let cluster = list::open(path);
        let expected = cluster.head.expect.as_ref();
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            expected: expected.map(|nodes| nodeset::expand(nodes).unwrap()),
            recordings: cluster.recordings,
            own: None,
        }
    }

    fn judged(&self, catalogue: &Catalogue, recordings: &[Recording]) -> Report {
        let policy = Policy::default();
        match &self.expected {
            None => many::judged(catalogue, recordings, &policy),
            Some(_) => many::recordings(catalogue, recordings, self.expected.clone(), &policy),
        }
    }

    /// Of which answers one in how many is tried: what the base of a fixture says is tried with the base too.
    fn share(&self, question: &Question, share: usize) -> usize {
        match &self.own {
            Some(own) if !own.contains(question) => share * 16,
            _ => share,
        }
    }
}

/// What is tried, and what came of it.
struct Trial<'a> {
    catalogue: &'a Catalogue,
    loss: Loss,
    share: usize,
    cases: AtomicUsize,
    /// What was wrong: the outcome, with the cases that had it.
    failed: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Trial<'_> {
    /// Loses each answer of the evidence in each way, one in `share`. Of nodes that were asked the same the question is tried on
    /// one.
    fn each_answer(&self, evidence: &Evidence, lines: &[Vec<Line>], whole: &Whole<'_>) {
        let mut tried: HashSet<(Question, usize)> = HashSet::new();
        for (member, recording) in evidence.recordings.iter().enumerate() {
            let lines = &lines[member];
            for (at, line) in lines.iter().enumerate() {
                let Line::Reply {
                    question, reply, ..
                } = line
                else {
                    continue;
                };
                // An absence is no evidence.
                let Ok(answer) = &reply.said else { continue };
                let mut ways = 0..self.loss.ways();
                let is_drawn = |way| self.is_drawn(evidence, member, question, way);
                if !ways.any(is_drawn) {
                    continue;
                }
                let replies = self.loss.replies(question, answer);
                for (way, instead) in replies.into_iter().enumerate() {
                    if !self.is_drawn(evidence, member, question, way)
                        || !is_loss(self.loss, question, &instead, lines)
                        || !tried.insert((question.clone(), way))
                    {
                        continue;
                    }
                    let how = format!("{instead:.60?}");
                    let is_absent = instead == Err(Refusal::Errno(Errno::ENOENT));
                    let instead = (self.loss != Loss::Cut).then_some(instead);
                    let mut recordings = evidence.recordings.clone();
                    recordings[member] = without(recording, lines, at, instead);
                    let report = evidence.judged(self.catalogue, &recordings);
                    self.cases.fetch_add(1, Ordering::Relaxed);
                    if let Some(wrong) = wrong(&report, whole, self.loss, question, is_absent) {
                        let case = format!("{} of {}", recording.header.node, evidence.name);
                        let case = format!("{question} as {how} of {case}");
                        self.note(wrong, case, &recordings[member]);
                    }
                }
            }
        }
    }

    /// Whether a case is of the sample; the node is drawn beside the case.
    fn is_drawn(&self, of: &Evidence, member: usize, question: &Question, way: usize) -> bool {
        let mut hash = DefaultHasher::new();
        (&of.name, question, self.loss as u8, way).hash(&mut hash);
        let hash = hash.finish();
        let share = of.share(question, self.share) as u64;
        let nodes = of.recordings.len() as u64;
        hash.is_multiple_of(share) && (hash / share) % nodes <= member as u64
    }

    /// What was wrong, by outcome.
    fn end(self) -> Option<String> {
        let (loss, cases) = (self.loss, self.cases.into_inner());
        // Around libtest's capture: the figure is to be seen in a passing run too.
        let _ = writeln!(std::io::stdout().lock(), "{loss:?}: {cases} cases");
        assert!(cases > 0, "no case of {loss:?} was tried");
        let failed = self.failed.into_inner().unwrap();
        let said = failed.iter().map(|(how, cases)| {
            let count = cases.len();
            format!("{loss:?}: {how}: {count}, the first {}", cases[0])
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("\n"))
    }

    fn note(&self, how: String, case: String, recording: &Recording) {
        let mut failed = self.failed.lock().unwrap();
        if failed.is_empty() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lost-evidence.jsonl");
            std::fs::write(&kept, recording_text::to_text(recording, None)).unwrap();
        }
        failed.entry(how).or_default().push(case);
    }
}

/// The report of evidence of which nothing is lost, made when it is first asked for.
type Whole<'a> = LazyCell<Report, Box<dyn FnOnce() -> Report + 'a>>;

/// Whether such a reply loses something.
fn is_loss(
    loss: Loss,
    question: &Question,
    instead: &Result<Answer, Refusal>,
    lines: &[Line],
) -> bool {
    match instead {
        Err(Refusal::Errno(Errno::ENOENT)) => is_listed(lines, question),
        // Not as the program decides it: by the table of ordinary ones alone.
        Err(refusal) if loss == Loss::Damage => !is_refused_so(question, refusal),
        _ => true,
    }
}

/// Tries of each loss one answer in its share of what is opened of these files, on all processors.
fn try_all(losses: &[(Loss, usize)], paths: &[PathBuf], open: fn(&Path) -> Evidence) {
    let catalogue = Catalogue::embedded().unwrap();
    let wanted = std::env::var("RDMA_DOCTOR_LOSS").ok();
    let is_wanted = |loss: &Loss| {
        wanted
            .as_ref()
            .is_none_or(|name| *name == format!("{loss:?}"))
    };
    let losses = losses.iter().filter(|(loss, _)| is_wanted(loss));
    let trials = losses.map(|(loss, share)| Trial {
        catalogue: &catalogue,
        loss: *loss,
        share: *share,
        cases: AtomicUsize::new(0),
        failed: Mutex::default(),
    });
    let trials: Vec<Trial<'_>> = trials.collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !sample::is_of_part(path) {
                        continue;
                    }
                    let evidence = open(path);
                    let lines: Vec<_> = evidence
                        .recordings
                        .iter()
                        .map(Recording::to_lines)
                        .collect();
                    let judge = || evidence.judged(&catalogue, &evidence.recordings);
                    let whole = Whole::new(Box::new(judge));
                    for trial in &trials {
                        trial.each_answer(&evidence, &lines, &whole);
                    }
                }
            });
        }
    });
    let wrong: Vec<String> = trials.into_iter().filter_map(Trial::end).collect();
    assert!(
        wrong.is_empty(),
        "by outcome (the first case is kept as target/tmp/lost-evidence.jsonl):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn lost_evidence_never_helps() {
    let losses = [
        (Loss::Damage, sample::one_in(2048)),
        (Loss::Empty, sample::one_in(128)),
        (Loss::Garbage, sample::one_in(128)),
        (Loss::Withheld, sample::one_in(128)),
        (Loss::Cut, sample::one_in(256)),
    ];
    try_all(&losses, &fixtures(), Evidence::of_fixture);
}

#[test]
fn lost_evidence_of_one_node_never_helps_its_cluster() {
    let losses = [
        (Loss::Damage, sample::one_in(8192)),
        (Loss::Withheld, sample::one_in(1024)),
        (Loss::Cut, sample::one_in(1024)),
    ];
    try_all(&losses, &list::all(), Evidence::of_cluster);
}
