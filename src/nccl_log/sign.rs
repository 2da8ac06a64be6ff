//! Progress signs: lines of the program around NCCL, such as a training step, the end of a benchmark, a launcher's summary.
//!
//! Whether a failure counts depends on what follows it. Signs that follow each other without an event between them are one.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::needles::Needles;
use super::text::{contains, number as whole_number, run};

/// What a line shows about the program's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignKind {
    /// The work begins.
    Start,
    /// A step of a training, which needs collectives on all ranks.
    Step,
    /// The work of all ranks ended as it should.
    Done,
    /// One process ended with status 0.
    ProcessExited,
    /// A launcher or a container ended with status 0.
    LauncherExited,
    /// The work ended with a failure.
    Failed,
}

/// Lines of one kind without an event between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sign {
    /// What they show.
    pub kind: SignKind,
    /// The number of the first line.
    pub line: u64,
    /// The number of the last line.
    pub last: u64,
    /// How many lines there are.
    pub count: u64,
    /// How many steps they report; equal steps of several ranks count once.
    pub steps: u64,
    /// The first line.
    pub text: String,
}

/// What a line must hold to be a sign.
pub(super) const NEEDLES: [&str; 21] = [
    "# OSU MPI",
    "# Size  ",
    "Test completed: duration",
    "bounds values",
    ":::MLLOG",
    "loss",
    "successfully finished",
    "Trainer.fit",
    "Training completed. Do",
    "after training is done",
    "State: COMPLETED",
    "State: FAILED",
    "JobState=",
    "' succeeded",
    "exits successfully",
    "exits with return",
    "exited with code 0",
    "xit code 0",
    "xit code: 0",
    "xit status 0",
    "WorkerState.FAILED",
];

/// Some of [`NEEDLES`], as bits.
pub(super) type SignNeedles = u32;

static SIGNS_OF: LazyLock<Needles> = LazyLock::new(|| Needles::for_messages(NEEDLES));

fn needles_of(line: &[u8]) -> SignNeedles {
    let all = SIGNS_OF.all(line);
    all.fold(0, |bits, found| bits | 1 << found.needle)
}

/// The ends of frameworks and launchers, by what their lines hold.
const ENDS: &[(SignKind, &[&str])] = &[
    (SignKind::Done, &["# Out of bounds values", " OK"]),
    (SignKind::Done, &["Test completed: duration", "throughput"]),
    (SignKind::Done, &["worker group successfully finished"]),
    (
        SignKind::Done,
        &["`Trainer.fit` stopped: `max_", "` reached"],
    ),
    (SignKind::Done, &["Training completed. Do not forget"]),
    (SignKind::Done, &["[after training is done]"]),
    (SignKind::Done, &["State: COMPLETED (exit code 0)"]),
    (SignKind::Done, &["JobState=COMPLETED"]),
    (SignKind::Done, &["Job '", "' succeeded"]),
    (SignKind::Failed, &["State: FAILED"]),
    (SignKind::Failed, &["JobState=FAILED"]),
    (SignKind::Failed, &["exits with return code"]),
    (SignKind::Failed, &["WorkerState.FAILED"]),
    (SignKind::ProcessExited, &["Process ", "exits successfully"]),
    (SignKind::LauncherExited, &["exited with code 0"]),
    (SignKind::LauncherExited, &["xit code 0"]),
    (SignKind::LauncherExited, &["xit code: 0"]),
    (SignKind::LauncherExited, &["xit status 0"]),
];

/// Signs that are kept of a file.
const SIGNS: usize = 512;
/// Bytes that are kept of a line.
const TEXT: usize = 400;

/// For each row of [`ENDS`] the needles of which one is in each of its lines; a training has many lines of which none has one.
static OF_ENDS: LazyLock<Vec<SignNeedles>> = LazyLock::new(|| {
    let of_row = |(_, words): &(SignKind, &[&str])| {
        bits(|needle| words.iter().any(|word| word.contains(needle)))
    };
    ENDS.iter().map(of_row).collect()
});

static OF_LOSS: LazyLock<SignNeedles> = LazyLock::new(|| bits(|needle| needle == "loss"));

/// The needles of lines of other kinds.
static OF_BENCHMARK: LazyLock<SignNeedles> = LazyLock::new(|| bits(|needle| needle == ":::MLLOG"));
static OF_STEP: LazyLock<SignNeedles> = LazyLock::new(|| {
    bits(|needle| needle == "loss" || MET.iter().any(|(begin, _)| *begin == needle))
});

fn bits(is: impl Fn(&str) -> bool) -> SignNeedles {
    let needles = NEEDLES.iter().enumerate();
    needles.fold(0, |bits, (at, needle)| {
        bits | SignNeedles::from(is(needle)) << at
    })
}

/// The kind of a line in which these needles were found, and of a step its number.
fn read(line: &[u8], found: SignNeedles) -> Option<(SignKind, &[u8])> {
    if found & *OF_BENCHMARK != 0 {
        return benchmark(line);
    }
    let fits = |needles: &[&str]| needles.iter().all(|needle| contains(line, needle));
    let mut ends = ENDS.iter().zip(&*OF_ENDS);
    if let Some(((kind, _), _)) = ends.find(|((_, words), of)| found & **of != 0 && fits(words)) {
        return Some((*kind, &[]));
    }
    if found & *OF_STEP == 0 {
        return None;
    }
    step(line).map(|number| (SignKind::Step, number))
}

/// A line of MLPerf's logging.
fn benchmark(line: &[u8]) -> Option<(SignKind, &[u8])> {
    let value = |key: &str| {
        let at = memchr::memmem::find(line, key.as_bytes())?;
        let rest = line.get(at + key.len()..)?.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        Some(run(rest, |b| b.is_ascii_alphanumeric() || b == b'_').0)
    };
    match value("\"key\":")? {
        b"run_stop" => match value("\"status\":")? {
            b"success" => Some((SignKind::Done, &[])),
            _ => Some((SignKind::Failed, &[])),
        },
        b"init_start" | b"run_start" => Some((SignKind::Start, &[])),
        b"tracked_stats" | b"train_loss" | b"eval_accuracy" | b"epoch_stop" | b"block_stop"
        | b"eval_stop" => Some((SignKind::Step, value("\"time_ms\":")?)),
        _ => None,
    }
}

/// Made once: each step of a training is searched for them.
static LOSS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("loss"));
static STEPS: LazyLock<[Finder<'static>; 4]> =
    LazyLock::new(|| ["teration", "tep", "iter", "poch"].map(Finder::new));

/// What a benchmark of MPI writes when its ranks have met: of two steps the second shows that it went on.
const MET: [(&str, &[u8]); 2] = [("# OSU MPI", b"1"), ("# Size  ", b"2")];

/// The number of a step whose line has a loss.
fn step(line: &[u8]) -> Option<&[u8]> {
    if let Some((_, number)) = MET
        .iter()
        .find(|(begin, _)| line.starts_with(begin.as_bytes()))
    {
        return Some(number);
    }
    let loss = LOSS.find(line)?;
    let between = |b: u8| matches!(b, b' ' | b':' | b'=' | b'\'' | b'"' | b'|');
    let (gap, value) = run(line.get(loss + 4..)?, between);
    let value = value.strip_prefix(b"-").unwrap_or(value);
    if gap.is_empty() || !value.first()?.is_ascii_digit() {
        return None;
    }
    STEPS.iter().find_map(|word| {
        let at = word.find(line)?;
        let skip = |b: u8| between(b) || matches!(b, b's' | b'[' | b'#' | b'\t');
        let (_, rest) = run(line.get(at + word.needle().len()..)?, skip);
        let (number, _) = run(rest, |b| b.is_ascii_digit() || b == b'.');
        (!number.is_empty()).then_some(number)
    })
}

/// The signs of a log.
pub(super) struct Signs {
    all: Vec<Sign>,
    /// How many there were, kept or not.
    count: u64,
    /// Whether an event or a new process followed the last sign.
    cut: bool,
    /// The highest number of a step since the last process began: ranks that are late tell of earlier ones.
    step: f64,
}

impl Default for Signs {
    fn default() -> Self {
        Signs {
            all: Vec::new(),
            count: 0,
            cut: false,
            step: f64::MIN,
        }
    }
}

/// This many steps without an event between them show that the work goes on, whatever the numbers of those behind them.
const ENOUGH: u64 = 64;

impl Signs {
    /// Whether the line, of which these are the only needles, is one more of many steps; then it is counted, and its number is not read.
    pub(super) fn one_more(&mut self, number: u64, found: SignNeedles) -> bool {
        let last = self.all.last_mut().filter(|sign| {
            found == *OF_LOSS && sign.kind == SignKind::Step && sign.steps >= ENOUGH && !self.cut
        });
        let Some(sign) = last else {
            return false;
        };
        sign.last = number;
        sign.count += 1;
        true
    }

    /// Whether the line is a sign; then it is counted. `found` are its needles, where somebody looked for them.
    pub(super) fn line(&mut self, number: u64, line: &[u8], found: Option<SignNeedles>) -> bool {
        let found = found.unwrap_or_else(|| needles_of(line));
        if found == 0 {
            return false;
        }
        let Some((kind, step)) = read(line, found) else {
            return false;
        };
        let step = match whole_number(step) {
            // As exact as a fraction for all that a training counts.
            Some((whole, [])) => Some(whole as f64),
            _ => std::str::from_utf8(step).ok().and_then(|s| s.parse().ok()),
        };
        let newer = step.is_some_and(|step: f64| step > self.step);
        self.step = self.step.max(step.unwrap_or(f64::MIN));
        match self.all.last_mut().filter(|sign| sign.kind == kind) {
            Some(sign) if !self.cut => {
                sign.last = number;
                sign.count += 1;
                sign.steps += u64::from(newer);
            }
            _ => {
                // How the work ended shows last: a new one takes the place of the last one like it.
                if self.all.len() >= SIGNS {
                    let like = self.all.iter().rposition(|sign| sign.kind == kind);
                    self.all.remove(like.unwrap_or(SIGNS - 1));
                }
                self.count += 1;
                let text = line.get(..line.len().min(TEXT)).unwrap_or(line);
                self.all.push(Sign {
                    kind,
                    line: number,
                    last: number,
                    count: 1,
                    steps: u64::from(newer),
                    text: String::from_utf8_lossy(text).trim().to_owned(),
                });
                self.cut = false;
            }
        }
        true
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// What follows is not of the same time.
    pub(super) fn cut(&mut self) {
        self.cut = true;
    }

    /// A process begins, and with it another count of steps.
    pub(super) fn begin(&mut self) {
        self.cut = true;
        self.step = f64::MIN;
    }

    /// All of them, in their order.
    pub(super) fn finish(self) -> Vec<Sign> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_of_many_steps_is_counted_without_its_number() {
        let mut signs = Signs::default();
        let line = |number: u64| format!("iteration {number}: loss 2.{number}");
        assert!(!signs.one_more(1, *OF_LOSS), "no step was read");
        for number in 1..=ENOUGH {
            assert!(signs.line(number, line(number).as_bytes(), None));
        }
        assert!(signs.one_more(ENOUGH + 1, *OF_LOSS));
        assert!(!signs.one_more(ENOUGH + 2, *OF_LOSS | *OF_BENCHMARK));
        // What follows an event is read again.
        signs.cut();
        assert!(!signs.one_more(ENOUGH + 3, *OF_LOSS));
        assert!(signs.line(ENOUGH + 3, line(ENOUGH + 3).as_bytes(), None));
        let all = signs.finish();
        let told = all
            .iter()
            .map(|sign| (sign.line, sign.last, sign.count, sign.steps));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (1, ENOUGH + 1, ENOUGH + 1, ENOUGH),
                (ENOUGH + 3, ENOUGH + 3, 1, 1)
            ]
        );
    }

    #[test]
    fn lines_of_programs_and_what_they_show() {
        let mllog = |key: &str, more: &str| {
            format!(":::MLLOG {{\"time_ms\": 1760058945213, \"key\": \"{key}\"{more}}}")
        };
        let done = mllog("run_stop", ", \"metadata\": {\"status\": \"success\"}");
        let aborted = mllog("run_stop", ", \"metadata\": {\"status\": \"aborted\"}");
        let untold = mllog("run_stop", "");
        let stats = mllog("tracked_stats", "");
        for (line, shown) in [
            (done.as_str(), Some(SignKind::Done)),
            (&aborted, Some(SignKind::Failed)),
            (&untold, None),
            (&stats, Some(SignKind::Step)),
            ("# Out of bounds values : 0 OK", Some(SignKind::Done)),
            ("# Out of bounds values : 3 FAILED", None),
            ("step: 12  loss:  8.1", Some(SignKind::Step)),
            ("{'loss': 2.1, 'epoch': 0.04}", Some(SignKind::Step)),
            ("iter 4: loss 4.2, time 131ms", Some(SignKind::Step)),
            ("packet loss on step 3", None),
            ("the loss is nan at step 3", None),
            (
                "Process 12 exits successfully.",
                Some(SignKind::ProcessExited),
            ),
            ("main exits with return code = 1", Some(SignKind::Failed)),
            (
                "worker-0 exited with code 0",
                Some(SignKind::LauncherExited),
            ),
            ("srun: error: n1: Exited with exit code 1", None),
        ] {
            let line = line.as_bytes();
            let found = needles_of(line);
            assert_eq!(read(line, found).map(|(kind, _)| kind), shown);
        }
    }

    #[test]
    fn the_end_is_kept_however_many_signs_stand_before_it() {
        let mut signs = Signs::default();
        for number in 0..2000 {
            let line = format!("step {number} loss 9.0");
            assert!(signs.line(2 * number, line.as_bytes(), None));
            signs.cut();
        }
        assert!(signs.line(5000, b"State: COMPLETED (exit code 0)", None));
        let all = signs.finish();
        assert_eq!(all.len(), SIGNS);
        let ends: Vec<_> = all.iter().rev().take(2).map(|s| (s.kind, s.line)).collect();
        assert_eq!(ends[0], (SignKind::Done, 5000));
        assert!(all.windows(2).all(|pair| pair[0].last < pair[1].line));
    }

    #[test]
    fn each_end_has_a_needle() {
        for ((_, words), needles) in ENDS.iter().zip(&*OF_ENDS) {
            assert_ne!(*needles, 0, "{words:?}");
        }
        assert!(*OF_BENCHMARK != 0 && *OF_STEP != 0);
    }

    #[test]
    fn a_step_that_ranks_tell_together_is_one() {
        let mut signs = Signs::default();
        for (number, line) in ["step 1 loss 9.0", "step 2 loss 9.1", "step 1 loss 8.9"]
            .iter()
            .enumerate()
        {
            assert!(signs.line(number as u64 + 1, line.as_bytes(), None));
        }
        signs.cut();
        assert!(signs.line(7, b"step 2 loss 9.0", None));
        assert!(signs.line(8, b"step 3 loss 8.0", None));
        let steps: Vec<_> = signs.finish().iter().map(|s| (s.line, s.steps)).collect();
        assert_eq!(steps, [(1, 2), (7, 1)]);
    }
}
