//! An ablation of eight arms on a machine of eight GPUs, by stand-ins: what its processes and its harness take. The operations are so small that the links
//! that the stand-ins model take nothing.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::stage::Stage;
use super::{Figure, PROGRAM, run};

/// The healthy machine.
const MACHINE: &str = "nccl-nvlink.toml";
const TIMES: usize = 3;
const GPUS: u32 = 8;
const TARGET: Duration = Duration::from_secs(2);

/// One start of each arm; nothing where no stage can be made.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let Some(stage) = Stage::new(MACHINE) else {
        return Ok(Vec::new());
    };
    let stage = stage
        .library("standin_cuda", "libcuda.so.1")
        .library("standin_nvidia_ml", "libnvidia-ml.so.1")
        .library("standin_nccl", "libnccl.so.2");
    let mut arms = 0;
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let mut said = None;
        let args = [
            "ablate", "--size", "64K", "--rounds", "1", "--format", "json",
        ];
        times.push(run::time(|| said = Some(stage.run(&args))));
        let said = said.context("no output")?;
        let said: Value = serde_json::from_slice(&said.stdout).context("ablate")?;
        arms = said["measurements"][0]["arms"]
            .as_array()
            .map_or(0, Vec::len);
        if arms != 8 {
            bail!("{arms} arms were measured");
        }
    }
    times.sort_unstable();
    let time = times.get(TIMES / 2).copied().unwrap_or_default();
    let start = run::median(TIMES, PROGRAM, &["--version"])?.wall;
    let starts = start * GPUS * u32::try_from(arms)?;
    let name = format!("ablate, {arms} arms on {GPUS} GPUs by stand-ins, 64 KiB, one round");
    Ok(vec![Figure::time(name, time, TARGET).beside(
        "as many starts of --version",
        time,
        starts,
    )])
}
