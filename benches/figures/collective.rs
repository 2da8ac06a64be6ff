//! The backend over sockets against iperf3, between two processes over the loopback interface, by turns.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Figure, PROGRAM};

/// Turns that each has, of some two seconds each; the median of their ratios counts.
const TURNS: usize = 7;
/// Where iperf3 listens.
const PORT: &str = "45201";
/// What it is to reach of what iperf3 does, in percent.
const TARGET: f64 = 95.0;

/// What an all-reduce and a send-receive between two ranks carry in each direction, of what iperf3 does in both at once.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    if Command::new("iperf3")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return Ok(Vec::new());
    }
    let (mut reduced, mut sent, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let before = iperf()?;
        let all_reduce = carried("all-reduce")?;
        let between = iperf()?;
        let send_receive = carried("send-recv")?;
        let after = iperf()?;
        reduced.push(100.0 * all_reduce / ((before + between) / 2.0));
        sent.push(100.0 * send_receive / ((between + after) / 2.0));
        beside.extend([before, between, after]);
    }
    let iperf = median(&mut beside);
    let figure = |name: &str, ratios: &mut Vec<f64>| {
        let ratio = median(ratios);
        let least = ratios.first().copied().unwrap_or_default();
        let most = ratios.last().copied().unwrap_or_default();
        Figure {
            name: format!("{name} over sockets, two ranks, each direction"),
            measured: format!("{ratio:.0} %"),
            target: format!("> {TARGET} %"),
            met: Some(ratio >= TARGET),
            beside: format!(
                "of iperf3 --bidir ({:.1} Gb/s); {least:.0} to {most:.0} % in {TURNS} turns",
                iperf / 1e9
            ),
        }
    };
    Ok(vec![
        figure("all-reduce", &mut reduced),
        figure("send-recv", &mut sent),
    ])
}

/// The middle one; they are in order afterwards.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Bits per second that each of two ranks sends, and receives at the same time: busbw counts them.
fn carried(collective: &str) -> anyhow::Result<f64> {
    let output = Command::new(PROGRAM)
        .args(["bench", collective, "--backend", "tcp", "--ranks", "2"])
        .args(["-b", "256M", "--trials", "15", "--format", "json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("bench")?;
    let row = &report["rows"][0];
    if row["wrong"] != 0 {
        bail!("bench {collective}: wrong values");
    }
    row["busbw"].as_f64().context("no busbw")
}

/// A server that serves once.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bits per second that iperf3 carries in each of two directions at the same time.
fn iperf() -> anyhow::Result<f64> {
    let server = Command::new("iperf3")
        .args([
            "--server",
            "--one-off",
            "--bind",
            "127.0.0.1",
            "--port",
            PORT,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let _server = Server(server);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let client = Command::new("iperf3")
            .args(["--client", "127.0.0.1", "--port", PORT])
            .args(["--bidir", "--time", "2", "--json"])
            .stdin(Stdio::null())
            .output()?;
        let said: Value = serde_json::from_slice(&client.stdout).context("iperf3")?;
        let rate = |of: &str| said["end"][of]["bits_per_second"].as_f64();
        if let (Some(there), Some(back)) =
            (rate("sum_received"), rate("sum_received_bidir_reverse"))
        {
            return Ok((there + back) / 2.0);
        }
    }
    bail!("iperf3 does not run")
}
