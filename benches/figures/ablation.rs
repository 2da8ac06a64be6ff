//! An ablation of eight arms on a machine of eight GPUs, by stand-ins: what its processes and its harness take. The operations are so small that the links
//! that the stand-ins model take nothing, and of a size of which few are timed in a row.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::stage::Stage;
use super::{Figure, PROGRAM, run};

/// The healthy machine.
const MACHINE: &str = "nccl-nvlink.toml";
const TIMES: usize = 3;
const GPUS: u32 = 8;
const ARMS: usize = 8;
/// For one start of each arm.
const TARGET: Duration = Duration::from_secs(1);

/// How often each arm is started where nobody says otherwise.
const ROUNDS: u32 = 3;

/// One start of each arm, and as many as a user has; nothing where no stage can be made.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let Some(stage) = Stage::new(MACHINE) else {
        return Ok(Vec::new());
    };
    let stage = stage
        .library("standin_cuda", "libcuda.so.1")
        .library("standin_nvidia_ml", "libnvidia-ml.so.1")
        .library("standin_nccl", "libnccl.so.2");
    let start = run::median(TIMES, PROGRAM, &["--version"])?.wall;
    let figure = |rounds: u32| -> anyhow::Result<Figure> {
        let (time, arms) = ablated(&stage, rounds)?;
        let starts = start * GPUS * arms * rounds;
        let name =
            format!("ablate, {arms} arms on {GPUS} GPUs by stand-ins, 1 MiB, rounds: {rounds}");
        let figure = Figure::time(name, time, TARGET);
        let figure = if rounds == 1 {
            figure
        } else {
            figure.untargeted()
        };
        Ok(figure.beside("as many starts of --version", time, starts))
    };
    Ok(vec![figure(1)?, figure(ROUNDS)?])
}

/// How long the ablation takes, and how many arms it has.
fn ablated(stage: &Stage, rounds: u32) -> anyhow::Result<(Duration, u32)> {
    let rounds = rounds.to_string();
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let mut said = None;
        let args = [
            "ablate", "--size", "1M", "--rounds", &rounds, "--format", "json",
        ];
        times.push(run::time(|| said = Some(stage.run(&args))));
        let said = said.context("no output")?;
        let said: Value = serde_json::from_slice(&said.stdout).context("ablate")?;
        let arms = said["measurements"][0]["arms"]
            .as_array()
            .map_or(0, Vec::len);
        if arms != ARMS {
            bail!("{arms} arms were measured");
        }
    }
    times.sort_unstable();
    let time = times.get(TIMES / 2).copied().unwrap_or_default();
    Ok((time, u32::try_from(ARMS)?))
}
