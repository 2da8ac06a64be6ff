//! A rank's process: runs the points one after the other, timed, then verified.
//!
//! Messages to the parent go over the original stdout; anything that a library writes to stdout or
//! stderr is the log. When stdin closes, the parent is gone: then this process removes its shared
//! memory and kills its process group.

use std::io;
use std::time::Duration;

use super::backend::Backend;
use super::cpu_wait::CpuTime;
use super::pace::{self, Pace, WARM_UPS};
use super::rank_exchange::RankExchange;
use super::rank_messages::{RankCommand, RankJob, RankMessage};
use super::test_data::TestData;
use super::{nccl, rank_cleanup, tcp, verbs};
use crate::fact::Bytes;
use crate::live::clock;
use crate::live::failure::Failure;
use crate::live::lifeline;
use crate::measure::plan::reply::{Ended, PointReply};
use crate::measure::plan::run;
use crate::measure::plan::run::Point;

/// Which part of a run's time its operations may take.
const SHARE: f64 = 0.6;

/// The argument that makes this program a rank.
pub const ARGUMENT: &str = "__rank";

/// Runs the job that arrives on stdin.
///
/// # Errors
///
/// Standard output cannot be duplicated, or there is no job.
pub fn serve() -> io::Result<()> {
    let (outlet, inbox) = lifeline::open(rank_cleanup::remove_own)?;
    let Ok(RankCommand::Job(job)) = inbox.recv() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut exchange = RankExchange {
        rank: job.rank,
        ranks: job.ranks,
        outlet,
        inbox,
    };
    // Reported before the backend is dropped, because tearing it down may hang after a failure.
    let mut backend = None;
    let ended = match measure(&job, &mut backend, &mut exchange) {
        Ok(()) => Ended::Well,
        Err(failure) => Ended::Failed {
            function: failure.function,
            code: failure.code,
            error: failure.error,
        },
    };
    exchange.send(&RankMessage::Ended(ended));
    Ok(())
}

fn connect(job: &RankJob, exchange: &mut RankExchange) -> Result<Box<dyn Backend>, Failure> {
    match job.backend {
        run::Backend::Tcp => tcp::connect(job, exchange),
        run::Backend::Nccl => nccl::connect(job, exchange),
        run::Backend::Verbs => verbs::connect(job, exchange),
    }
}

fn measure(
    job: &RankJob,
    connected: &mut Option<Box<dyn Backend>>,
    exchange: &mut RankExchange,
) -> Result<(), Failure> {
    exchange.report_step("connecting");
    let backend = connected.insert(connect(job, exchange)?);
    let begun = clock::now();
    for (number, point) in job.points.iter().enumerate() {
        // What connecting and verifying take is left to them; a point that others follow takes half
        // of what there is.
        let left = (job.seconds * SHARE - begun.elapsed().as_secs_f64()).max(0.0);
        let share = if number + 1 == job.points.len() {
            left
        } else {
            left / 2.0
        };
        let reply = at_point(job, (point, share), backend.as_mut(), exchange)?;
        exchange.send(&RankMessage::Point(Box::new(reply)));
    }
    if let Some(carried) = backend.carried() {
        exchange.send(&RankMessage::Carried(carried));
    }
    // A rank that closes early would break another rank's last acknowledgement.
    exchange.report_step("waiting for the others to end");
    exchange.barrier()?;
    exchange.report_step("closing");
    *connected = None;
    Ok(())
}

fn at_point(
    job: &RankJob,
    (point, share): (&Point, f64),
    backend: &mut dyn Backend,
    exchange: &mut RankExchange,
) -> Result<PointReply, Failure> {
    let place = if point.gpu_memory {
        " in GPU memory"
    } else {
        ""
    };
    let point = &pace::settle(job, point, share, backend, exchange)?;
    let size = Bytes(point.bytes);
    let name = format!("{} of {size}{place}", point.collective.word());
    exchange.report_step(&format!("{name}: preparing"));
    backend.prepare(exchange, point)?;
    let data = TestData {
        point,
        rank: job.rank,
        ranks: job.ranks,
        seed: job.seed,
    };
    let fresh = |backend: &mut dyn Backend| {
        backend.poison()?;
        data.fill(|at, piece| backend.fill(at, piece))
    };
    fresh(backend)?;
    let mut pace = Pace::new(share);
    let mut warm_ups = Vec::new();
    let most = point.warmups.unwrap_or(WARM_UPS);
    let of = point
        .warmups
        .map_or(String::new(), |count| format!(" of {count}"));
    for trial in 1..=most {
        exchange.report_step(&format!("{name}: warm-up {trial}{of}"));
        if !pace.go_on(exchange, point.trials)? {
            break;
        }
        let time = backend.run(exchange, point)?;
        pace.took(time);
        warm_ups.push(time);
        if point.warmups.is_none() && pace.is_warm(&warm_ups, exchange)? {
            break;
        }
    }
    let mut ms = Vec::new();
    let (begun, before) = (clock::now(), CpuTime::own());
    for trial in 1..=point.trials {
        exchange.report_step(&format!("{name}: trial {trial} of {}", point.trials));
        // One trial is measured whatever it takes.
        if !pace.go_on(exchange, 0)? && trial > 1 {
            break;
        }
        let time = backend.run(exchange, point)?;
        pace.took(time);
        ms.push(time.as_secs_f64() * 1e3);
    }
    let waited = waited(begun.elapsed(), before, CpuTime::own());
    exchange.report_step(&format!("{name}: verifying"));
    fresh(backend)?;
    exchange.barrier()?;
    let once = Point {
        iterations: 1,
        ..point.clone()
    };
    backend.run(exchange, &once)?;
    let checked = data.check(|from, into| backend.result(from, into))?;
    Ok(PointReply {
        point: Point {
            warmups: Some(warm_ups.len() as u64),
            ..point.clone()
        },
        ms,
        waited,
        checked: checked.elements,
        wrong: checked.wrong,
        first_wrong: checked.first_wrong,
    })
}

/// Which part of this time the thread waited for a CPU, in percent.
fn waited(time: Duration, before: Option<CpuTime>, after: Option<CpuTime>) -> Option<f64> {
    let waited = after?.waited.checked_sub(before?.waited)?;
    let percent = 100.0 * waited.as_secs_f64() / time.as_secs_f64();
    Some((percent.min(100.0) * 10.0).round() / 10.0).filter(|percent| percent.is_finite())
}
