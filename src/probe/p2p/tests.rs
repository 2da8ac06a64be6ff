use super::*;
use crate::fact::BitRate;
use crate::probe::testing::{known, run};

const A: &str = "0000:1b:00.0";
const B: &str = "0000:43:00.0";
const PAIR: &str = "0000:1b:00.0 - 0000:43:00.0";

/// A reply to a measurement.
fn cell(from: &str, to: &str, both: bool, reply: &str) -> String {
    let both = if both { r#""both":1,"# } else { "" };
    format!(
        r#"{{"q":{{"bench":"p2p",{both}"from":"{from}","size":1048576,"to":"{to}","trials":3}},{reply}}}"#
    )
}

/// Numbers of copies that took so long.
fn numbers(ms: &str) -> String {
    format!(
        r#""value":{{"bytes":1000000000,"copies":4,"ms":{ms},"verified":4,"access":1,"direct":true,"small":{{"bytes":16,"copies":100,"ms":[0.2,0.2,0.2]}}}}"#
    )
}

/// All nine measurements of two GPUs, each with this reply unless said otherwise.
fn lines(others: &[(&str, &str, bool, &str)]) -> Vec<String> {
    let gpus = if others.iter().any(|(from, ..)| *from == "turned") {
        [B, A]
    } else {
        [A, B]
    };
    let mut lines = vec![format!(
        r#"{{"q":{{"bench":"p2p"}},"value":{{"size":1048576,"trials":3,"gpus":["{}","{}"]}}}}"#,
        gpus[0], gpus[1]
    )];
    let fine = numbers("[10.0,10.0,10.0]");
    for (a, b) in [("host", A), ("host", B), (gpus[0], gpus[1])] {
        for (from, to, both) in [(a, b, false), (b, a, false), (a, b, true)] {
            let other = others
                .iter()
                .find(|(f, t, w, _)| (*f, *t, *w) == (from, to, both));
            lines.push(cell(
                from,
                to,
                both,
                other.map_or(fine.as_str(), |(.., reply)| *reply),
            ));
        }
    }
    lines
}

fn facts(lines: &[String]) -> (Facts, Id) {
    run(
        &PROBE,
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

#[test]
fn numbers_of_verified_copies_are_facts() {
    let slow = numbers("[20.0,20.0,20.0]");
    let (facts, node) = facts(&lines(&[(B, A, false, &slow)]));
    assert_eq!(facts.known(node, node::P2P_MEASURED), Some(true));
    let pair = |key| known(&facts, Subject::GpuPair, PAIR, key);
    assert_eq!(pair(gpu_pair::COPY_MEASURED), Some(true));
    assert_eq!(pair(gpu_pair::COPY_VERIFIED), Some(true));
    assert_eq!(pair(gpu_pair::COPY_DIRECT), Some(true));
    assert_eq!(pair(gpu_pair::COPY_CORRUPT), Some(false));
    assert_eq!(pair(gpu_pair::COPY_HUNG), Some(false));
    let rate = |key| known(&facts, Subject::GpuPair, PAIR, key);
    assert_eq!(
        rate(gpu_pair::COPY_BANDWIDTH),
        Some(BitRate(1_600_000_000_000))
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_BALANCE),
        Some(Percent(50.0))
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_LATENCY),
        Some(Seconds(2e-6))
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_PROBLEM).as_deref(),
        Some("none")
    );
    assert_eq!(
        known(&facts, Subject::Gpu, A, gpu::H2D_BANDWIDTH),
        Some(BitRate(3_200_000_000_000))
    );
}

#[test]
fn a_corrupt_copy_has_no_number_and_is_told() {
    let wrong = r#""value":{"bytes":1048576,"copies":4,"ms":[1.0],"verified":2,"wrong":{"trial":2,"bytes":3,"first":1024}}"#;
    let (facts, _) = facts(&lines(&[(B, A, false, wrong)]));
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_CORRUPT),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_VERIFIED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_FAILED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_BANDWIDTH),
        None
    );
    let problem = known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_PROBLEM).unwrap();
    assert_eq!(
        &*problem,
        "0000:43:00.0 to 0000:1b:00.0 corrupt (3 of 1048576 bytes are wrong, from byte 1024 on, in trial 2)"
    );
}

#[test]
fn what_hung_what_failed_and_what_was_therefore_not_tried() {
    let skipped = r#""refused":"not-asked: 0000:1b:00.0 to 0000:43:00.0 hung""#;
    let failed =
        r#""value":{"failed":"cuCtxEnablePeerAccess","code":205,"error":"CUDA_ERROR_MAP_FAILED"}"#;
    let (facts, _) = facts(&lines(&[
        (A, B, false, r#""refused":"timeout""#),
        (B, A, false, failed),
        (A, B, true, skipped),
    ]));
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_HUNG),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_FAILED),
        Some(true)
    );
    // The third measurement could have been corrupt.
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_CORRUPT),
        None
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_VERIFIED),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_SPREAD),
        None
    );
}

#[test]
fn trials_that_do_not_agree_give_no_number() {
    let unsteady = numbers("[10.0,20.0,30.0]");
    let (facts, _) = facts(&lines(&[(A, B, false, &unsteady)]));
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_BANDWIDTH),
        None
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_SPREAD),
        Some(Percent(50.0))
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_VERIFIED),
        Some(true)
    );
}

#[test]
fn nothing_measured_and_nothing_recorded_are_told_apart() {
    let refused =
        r#"{"q":{"bench":"p2p"},"refused":"not-asked: it is measured by rdma-doctor bench only"}"#;
    let (facts, node) = run(&PROBE, &[refused]);
    assert_eq!(facts.known(node, node::P2P_MEASURED), Some(false));
    let (facts, node) = run(&PROBE, &[]);
    assert_eq!(facts.known(node, node::P2P_MEASURED), None);
}

#[test]
fn cudas_order_is_not_that_of_the_bus() {
    let mut all = lines(&[("turned", "", false, "")]);
    all.retain(|line| !line.contains(r#""both":1,"from":"0000"#));
    let (facts, _) = facts(&all);
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_BANDWIDTH),
        Some(BitRate(3_200_000_000_000))
    );
    // The line of both directions is lost, and nothing else with it.
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_CORRUPT),
        None
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, PAIR, gpu_pair::COPY_MEASURED),
        Some(true)
    );
}
