//! The first second of a job, tried on this node alone: a queue pair of each port that writes to itself, a connection to each own address,
//! files without a name.
//!
//! What is made here is released before the reply, and by the kernel at the latest when this process ends.

mod connection;
mod echo;
mod file;
mod neighbours;

#[cfg(feature = "verbs")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// How many are tried at once: the ports of a node, and not all virtual functions of a hypervisor.
const AT_ONCE: usize = 8;
/// How long all of them may take. An adapter gives up sending after four seconds, so that its own word is heard, on a busy machine too.
const DEADLINE: Duration = Duration::from_secs(13);

/// Answers `rehearse_port` (device, port, among, the row of the GID table if NCCL is told one), `rehearse_connections`, `rehearse_neighbours`, `rehearse_shared_memory` (directory, bytes) and `rehearse_file` (directory).
pub(super) fn ask(call: &Call) -> Result<Answer, Refusal> {
    let text = |name: &str| call.text(name).ok_or(Refusal::Errno(Errno::EINVAL));
    let value = match &*call.name {
        "rehearse_port" => {
            let number = call.number("port").ok_or(Refusal::Errno(Errno::EINVAL))?;
            let name = format!("{}/{number}", text("device")?);
            port(&name, text("among")?, call.number("gid_index"))?
        }
        "rehearse_connections" => connection::each_address()?,
        "rehearse_neighbours" => neighbours::each_rail()?,
        "rehearse_shared_memory" => {
            let bytes = call.number("bytes").unwrap_or(0);
            said(file::shared(text("directory")?, bytes))?
        }
        "rehearse_file" => said(file::temporary(text("directory")?))?,
        name => return Err(Refusal::unknown_call(name)),
    };
    Ok(Answer::from(value))
}

/// What became of a port. All that it is among are tried together, when the first of them is asked for.
#[cfg(feature = "verbs")]
fn port(name: &str, among: &str, gid_index: Option<u64>) -> Result<Value, Refusal> {
    type OfPort = (Arc<str>, Result<super::verbs::rehearsal::Trial, Late>);
    static TRIED: OnceLock<Vec<OfPort>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let ports: Vec<Arc<str>> = among.split_whitespace().map(Arc::from).collect();
        let each = ports.iter().map(|port| (Arc::clone(port), gid_index));
        let tried = try_each(each.collect(), |(port, gid_index), at| {
            super::verbs::rehearsal::of_port(port, *gid_index, at)
        });
        ports.into_iter().zip(tried).collect()
    });
    let own = tried.iter().find(|(port, _)| **port == *name);
    let (_, own) = own.ok_or(Refusal::Errno(Errno::EINVAL))?;
    let Ok(trial) = own else {
        return Err(Refusal::Timeout);
    };
    let mut value = said(trial.ended.clone())?;
    if let Some(row) = trial.gid_index {
        value["gid_index"] = json!(row);
    }
    Ok(value)
}

#[cfg(not(feature = "verbs"))]
fn port(_name: &str, _among: &str, _gid_index: Option<u64>) -> Result<Value, Refusal> {
    Err(Refusal::not_asked(super::WITHOUT_VERBS))
}

/// A step that failed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) step: &'static str,
    pub(super) why: Why,
}

/// Why it did.
#[derive(Clone, Debug)]
pub(super) enum Why {
    Refused(Refusal),
    /// The name of a completion's status.
    #[cfg_attr(
        not(feature = "verbs"),
        expect(dead_code, reason = "only devices have one")
    )]
    Status(&'static str),
    /// So many bytes that came back are not those that were sent.
    Wrong(usize),
}

impl Failed {
    pub(super) fn refused(step: &'static str) -> impl Fn(Refusal) -> Self {
        move |refusal| Failed {
            step,
            why: Why::Refused(refusal),
        }
    }

    pub(super) fn by_errno<E: Into<std::io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |error| {
            let errno = Errno::from(&error.into());
            Failed::refused(step)(Refusal::Errno(errno))
        }
    }

    pub(super) fn wrong(bytes: usize) -> Self {
        let why = Why::Wrong(bytes);
        Failed {
            step: "compare",
            why,
        }
    }
}

/// What became of a trial: an empty object if all steps were done, else the step and why it failed.
///
/// # Errors
///
/// It was not tried to its end: permission is missing, the machine does not offer it, or nothing came in time.
fn said(ended: Result<(), Failed>) -> Result<Value, Refusal> {
    let Err(Failed { step, why }) = ended else {
        return Ok(json!({}));
    };
    match why {
        Why::Refused(Refusal::Errno(errno)) => {
            let refusal = Refusal::Errno(errno);
            match refusal.is_permission() || errno == Errno::EOPNOTSUPP {
                true => Err(refusal),
                false => Ok(json!({ "step": step, "errno": errno.to_string() })),
            }
        }
        Why::Refused(other) => Err(other),
        Why::Status(name) => Ok(json!({ "step": step, "status": name })),
        Why::Wrong(bytes) => Ok(json!({ "step": step, "wrong": bytes })),
    }
}

/// A trial that did not end in time, at this step.
#[derive(Debug)]
struct Late(&'static str);

/// What is tried, and how far each has come.
struct Trials<T> {
    of: Vec<T>,
    steps: Vec<Mutex<&'static str>>,
    next: AtomicUsize,
}

/// Tries each in a thread. One that does not end in time is left to the end of the process, and its step is told.
#[expect(
    clippy::disallowed_methods,
    reason = "the child times its own questions"
)]
fn try_each<T: Send + Sync + 'static, R: Send + 'static>(
    of: Vec<T>,
    one: fn(&T, &dyn Fn(&'static str)) -> R,
) -> Vec<Result<R, Late>> {
    let until = Instant::now() + DEADLINE;
    let mut ended: Vec<Option<R>> = of.iter().map(|_| None).collect();
    let trials = Arc::new(Trials {
        steps: of.iter().map(|_| Mutex::new("open")).collect(),
        next: AtomicUsize::new(0),
        of,
    });
    let (results, inbox) = mpsc::channel();
    for _ in 0..AT_ONCE.min(ended.len()) {
        let (trials, results) = (Arc::clone(&trials), results.clone());
        let run = move || {
            loop {
                let at = trials.next.fetch_add(1, Ordering::Relaxed);
                let (Some(of), Some(step)) = (trials.of.get(at), trials.steps.get(at)) else {
                    return;
                };
                let reached = |name| *step.lock().unwrap_or_else(PoisonError::into_inner) = name;
                let _ = results.send((at, one(of, &reached)));
            }
        };
        // Fewer threads do for all.
        let _ = Builder::new().spawn(run);
    }
    drop(results);
    while let Ok((at, result)) = inbox.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        ended[at] = Some(result);
    }
    let late = |at: usize| {
        let step = trials.steps[at].lock();
        Late(*step.unwrap_or_else(PoisonError::into_inner))
    };
    let each = ended.into_iter().enumerate();
    each.map(|(at, ended)| ended.ok_or_else(|| late(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trial_has_its_own_result() {
        let tried = try_each((0..20).collect(), |n: &usize, at| {
            at("write");
            2 * n
        });
        let tried: Vec<usize> = tried.into_iter().map(Result::unwrap).collect();
        assert_eq!(tried, (0..20).map(|n| 2 * n).collect::<Vec<_>>());
    }

    #[test]
    fn what_permission_keeps_from_being_tried_is_refused() {
        let failed = |errno| said(Err(Failed::refused("RTR")(Refusal::Errno(errno))));
        assert_eq!(failed(Errno::EPERM), Err(Refusal::Errno(Errno::EPERM)));
        let expected = json!({ "step": "RTR", "errno": "EHOSTUNREACH" });
        assert_eq!(failed(Errno::EHOSTUNREACH), Ok(expected));
        assert_eq!(said(Ok(())), Ok(json!({})));
    }
}
