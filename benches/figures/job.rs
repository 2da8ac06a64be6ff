//! What looking at a running job costs the job: its steps while `rdma-doctor job` looks at it again and again, beside those while nobody does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::place::Scratch;
use super::{Figure, PROGRAM};

/// Ranks of the job, which go round in a ring.
const RANKS: usize = 2;
/// For how long it is left alone, and looked at: the time between two looks, and what is asked before and after.
const WINDOW: Duration = Duration::from_secs(6);
/// Pairs of windows; what both differ by is the sum over all.
const PAIRS: u32 = 8;

/// A ring of `tests/suite/running_jobs/rank.py`, which ends with the value.
struct Ring {
    folder: Scratch,
    ranks: Vec<Child>,
}

impl Ring {
    fn start() -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/running_jobs/rank.py");
        let mut ring = Ring {
            folder: Scratch::new("job-cost"),
            ranks: Vec::new(),
        };
        for rank in 0..RANKS {
            let started = Command::new("python3")
                .arg(&script)
                .arg(&*ring.folder)
                .args(["", "0"])
                .env("RANK", rank.to_string())
                .env("LOCAL_RANK", rank.to_string())
                .env("WORLD_SIZE", RANKS.to_string())
                .env("LOCAL_WORLD_SIZE", RANKS.to_string())
                .env("MASTER_ADDR", "127.0.0.1")
                .env("MASTER_PORT", "29500")
                .env("STEP", "0.02")
                .stdin(Stdio::null())
                .spawn();
            ring.ranks.push(started.context("python3")?);
        }
        while ring.steps() < 20.0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(ring)
    }

    /// How many steps rank 0 has made.
    fn steps(&self) -> f64 {
        let said = fs::read_to_string(self.folder.join("step.0")).unwrap_or_default();
        said.parse().unwrap_or(0.0)
    }

    /// Steps a second while this is done, and then until the window ends.
    fn rate(&self, does: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let (began, first) = (Instant::now(), self.steps());
        does()?;
        std::thread::sleep(WINDOW.saturating_sub(began.elapsed()));
        Ok((self.steps() - first) / began.elapsed().as_secs_f64())
    }

    /// Looks at it as `rdma-doctor job` does by default.
    fn look(&self) -> anyhow::Result<()> {
        let pids: Vec<String> = self
            .ranks
            .iter()
            .map(|rank| rank.id().to_string())
            .collect();
        let mut doctor = Command::new(PROGRAM);
        let said = doctor
            .arg("job")
            .args(pids)
            .stdout(Stdio::null())
            .status()?;
        anyhow::ensure!(said.code() == Some(0), "job: {said}");
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// How much longer a step takes that is looked at.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let ring = Ring::start()?;
    let (mut alone, mut looked_at) = (0.0, 0.0);
    for _ in 0..PAIRS {
        alone += ring.rate(|| Ok(()))?;
        looked_at += ring.rate(|| ring.look())?;
    }
    let cost = (alone / looked_at - 1.0) * 100.0;
    Ok(vec![Figure {
        name: format!("job: a step of {RANKS} ranks that is looked at"),
        measured: format!("+{cost:.2} %"),
        target: "< 1 %".to_owned(),
        met: Some(cost < 1.0),
        beside: format!("{:.1} steps a second alone", alone / f64::from(PAIRS)),
    }])
}
