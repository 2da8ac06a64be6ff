//! Collectives as the JSON that nccl-tests writes with `-J`: version 1 of its form (nccl-tests 2.17.9, src/util.cu).

use std::collections::BTreeMap;
use std::time::Duration;

use humantime::{format_rfc3339_seconds, parse_rfc3339_weak};
use serde_json::{Value, json};

use super::{Collectives, MeasuredPoint};

/// Version of the form.
const VERSION: u64 = 1;

/// What was measured in the form of nccl-tests. Its times are means, as its own are. What a recording does not hold of it is empty: arguments, environment, process
/// numbers.
pub fn json(measured: &Collectives, utc: &str, micros: u64) -> Value {
    let rows = &measured.rows;
    let sizes = || rows.iter().map(|row| row.size);
    let busbw: Vec<f64> = rows.iter().filter_map(|row| Some(rates(row)?.1)).collect();
    let mean = busbw.iter().sum::<f64>() / busbw.len().max(1) as f64;
    let wrong = rows.iter().filter(|row| row.wrong > 0).count();
    let last = rows.last();
    let troubles = measured.troubles.iter();
    let errors = troubles.map(|one| format!("rank {}: {}: {}", one.rank, one.ended, one.why));
    let errors: Vec<String> = errors.chain(measured.nothing.clone()).collect();
    let mut config = json!({
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": sizes().min(),
        "maximum_bytes": sizes().max(),
        "warmup_iters": rows.iter().map(|row| row.warmups).max(),
        "iterations": last.map(|row| row.trials),
        "aggregated_iterations": last.map(|row| row.iterations),
        "validation": 1,
        "graph": 0,
        "blocking_collectives": "false",
        "parallel_init": "false",
        "devices": devices(measured),
    });
    config["step_factor"] = match rows.as_slice() {
        [first, second, ..] => json!(second.size / first.size.max(1)),
        _ => json!(1),
    };
    json!({
        "version": VERSION,
        "start_time": time(utc, 0),
        "args": [],
        "env": [],
        "nccl_version": measured.version.as_deref().and_then(version_code).unwrap_or(0),
        "config": config,
        "results": rows.iter().map(result).collect::<Vec<_>>(),
        "out_of_bounds": { "count": wrong, "okay": (wrong == 0).to_string() },
        "average_bus_bandwidth": { "bandwidth": mean, "okay": "unchecked" },
        "errors": errors,
        "end_time": time(utc, micros),
    })
}

fn devices(measured: &Collectives) -> Vec<Value> {
    let mut of_host: BTreeMap<&str, u64> = BTreeMap::new();
    let ranks = measured.ranks.iter().enumerate();
    let all = ranks.map(|(number, rank)| {
        let host = rank.host.as_deref().unwrap_or(&measured.node);
        let own = of_host.entry(host).or_default();
        *own += 1;
        let address = rank.gpu.as_deref().unwrap_or_default();
        json!({
            "rank": number,
            "group": 0,
            "pid": 0,
            "hostname": host,
            "device": *own - 1,
            "device_hex": address.split('.').next(),
            "device_info": rank.device,
        })
    });
    all.collect()
}

fn result(row: &MeasuredPoint) -> Value {
    let body = row
        .time_mean
        .zip(rates(row))
        .map(|(seconds, (algbw, busbw))| {
            json!({
                "time": seconds * 1e6,
                "alg_bw": algbw,
                "bus_bw": busbw,
                "nwrong": row.wrong as f64,
            })
        });
    // Operations of a name of their own in nccl-tests, and whether they have a root.
    let (name, has_root) = match row.collective {
        "all-reduce" => ("AllReduce", false),
        "all-gather" => ("AllGather", false),
        "reduce-scatter" => ("ReduceScatter", false),
        "broadcast" => ("Broadcast", true),
        "reduce" => ("Reduce", true),
        "scatter" => ("Scatter", true),
        "gather" => ("Gather", true),
        "all-to-all" => ("AlltoAll", false),
        _ => ("SendRecv", false),
    };
    let (out_of_place, in_place) = match row.in_place {
        true => (None, body),
        false => (body, None),
    };
    json!({
        "size": row.size,
        "count": row.count,
        "type": match row.dtype {
            "float32" => "float",
            "float16" => "half",
            other => other,
        },
        "redop": row.op,
        "root": if has_root { "     0" } else { "    -1" },
        "out_of_place": out_of_place,
        "in_place": in_place,
        "actual_iterations": row.trials * row.iterations,
        "experiment_name": name,
    })
}

/// algbw and busbw of the mean time, in GB/s.
fn rates(row: &MeasuredPoint) -> Option<(f64, f64)> {
    let algbw = row.size as f64 / row.time_mean? / 1e9;
    let factor = row.busbw? as f64 / row.algbw.filter(|rate| *rate > 0)? as f64;
    Some((algbw, algbw * factor))
}

/// `2.21.5` as NCCL_VERSION_CODE.
fn version_code(version: &str) -> Option<u64> {
    let mut parts = version.split(['.', '+', '-']).map(str::parse::<u64>);
    let [major, minor, patch] = [
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ];
    Some(major * 10_000 + minor * 100 + patch)
}

/// `2026-11-24 04:19:40`
fn time(utc: &str, micros: u64) -> Option<String> {
    let end = parse_rfc3339_weak(utc).ok()? + Duration::from_micros(micros);
    let text = format_rfc3339_seconds(end).to_string();
    Some(text.trim_end_matches('Z').replace('T', " "))
}
