//! The CUDA probe against a stand-in of libcuda.so.1: the real binary loads it and calls it, and no GPU is needed.
//!
//! What the stand-in answers is made up (`tests/standin/machines`); no output of it is a recording of hardware.

#![expect(clippy::unwrap_used, reason = "what fails in a test is to fail loudly")]
#![expect(clippy::disallowed_methods, reason = "tests run the binary")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

#[path = "standin/host.rs"]
mod host;

use std::time::{Duration, Instant};

use rdma_doctor::fact::node::Cuda;
use rdma_doctor::fact::{Facts, Id, Key, Subject, Typed, gpu, gpu_pair, node};
use rdma_doctor::probe::establish;
use rdma_doctor::source::recording::Recording;

const LIBRARY: &str = "standin_cuda";
const NAME: &str = "libcuda.so.1";

/// What the doctor records of a machine, in how long.
fn record(machine: &str, library: &str, env: &[(&str, &str)]) -> (Recording, Duration) {
    let begun = Instant::now();
    let out = host::doctor(machine, library, NAME, &["record", "--no-redact"], env);
    let took = begun.elapsed();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let recording = Recording::read(out.stdout.as_slice(), "standin".as_ref(), 0).unwrap();
    (recording, took)
}

fn facts(recording: &Recording) -> (Facts, Id) {
    let mut facts = Facts::new();
    let node = establish(recording, &mut facts);
    (facts, node)
}

fn of<T: Typed>(facts: &Facts, subject: Subject, name: &str, key: Key<T>) -> Option<T> {
    let id = facts
        .all(subject)
        .find(|id| facts.name(*id) == name)
        .unwrap();
    facts.known(id, key)
}

#[test]
fn eight_gpus() {
    if !host::can_run() {
        return;
    }
    let (recording, _) = record("cuda-h100.toml", LIBRARY, &[]);
    assert!(recording.ended("cuda").is_none());
    let (facts, node) = facts(&recording);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::Works));
    assert_eq!(
        facts.known(node, node::CUDA_DRIVER).as_deref(),
        Some("12.4")
    );
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(8));
    assert_eq!(facts.known(node, node::CUDA_MASKED), Some(false));
    let gpu = "0000:df:00.0";
    assert_eq!(of(&facts, Subject::Gpu, gpu, gpu::CUDA_INDEX), Some(7));
    assert_eq!(
        of(&facts, Subject::Gpu, gpu, gpu::COMPUTE_CAPABILITY),
        Some(90)
    );
    assert_eq!(of(&facts, Subject::Gpu, gpu, gpu::DMA_BUF), Some(true));
    assert_eq!(of(&facts, Subject::Gpu, gpu, gpu::MULTICAST), Some(true));
    assert_eq!(of(&facts, Subject::Gpu, gpu, gpu::COHERENT), Some(false));
    let pairs: Vec<Id> = facts.all(Subject::GpuPair).collect();
    assert_eq!(pairs.len(), 28);
    for pair in pairs {
        assert_eq!(facts.known(pair, gpu_pair::CUDA_ACCESS), Some(true));
        assert_eq!(facts.known(pair, gpu_pair::CUDA_ACCESS_BACK), Some(true));
    }
}

#[test]
fn a_broken_pair_and_a_one_sided_one() {
    if !host::can_run() {
        return;
    }
    let (recording, _) = record("cuda-broken-pair.toml", LIBRARY, &[]);
    let (facts, _) = facts(&recording);
    let access = |pair: &str| {
        (
            of(&facts, Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS),
            of(&facts, Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS_BACK),
        )
    };
    assert_eq!(
        access("0000:43:00.0 - 0000:9d:00.0"),
        (Some(false), Some(false))
    );
    assert_eq!(
        access("0000:52:00.0 - 0000:c3:00.0"),
        (Some(true), Some(false))
    );
    assert_eq!(
        access("0000:1b:00.0 - 0000:43:00.0"),
        (Some(true), Some(true))
    );
}

#[test]
fn the_mask_of_a_job_hides_gpus() {
    if !host::can_run() {
        return;
    }
    let (recording, _) = record(
        "cuda-h100.toml",
        LIBRARY,
        &[("CUDA_VISIBLE_DEVICES", "3,1")],
    );
    let (facts, node) = facts(&recording);
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(2));
    assert_eq!(facts.known(node, node::CUDA_MASKED), Some(true));
    // The order is that of the mask; the addresses are what joins them to GPUs.
    assert_eq!(
        of(&facts, Subject::Gpu, "0000:61:00.0", gpu::CUDA_INDEX),
        Some(0)
    );
    assert_eq!(
        of(&facts, Subject::Gpu, "0000:43:00.0", gpu::CUDA_INDEX),
        Some(1)
    );
    assert_eq!(facts.all(Subject::GpuPair).count(), 1);
}

#[test]
fn what_cuda_says_when_it_does_not_start() {
    if !host::can_run() {
        return;
    }
    for (machine, state, error) in [
        (
            "cuda-error-34.toml",
            Cuda::Stub,
            "CUDA_ERROR_STUB_LIBRARY (34)",
        ),
        (
            "cuda-error-100.toml",
            Cuda::NoDevice,
            "CUDA_ERROR_NO_DEVICE (100)",
        ),
        (
            "cuda-error-802.toml",
            Cuda::NotReady,
            "CUDA_ERROR_SYSTEM_NOT_READY (802)",
        ),
        (
            "cuda-error-803.toml",
            Cuda::Mismatch,
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
        ),
        (
            "cuda-error-804.toml",
            Cuda::CompatUnsupported,
            "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)",
        ),
        (
            "cuda-error-999.toml",
            Cuda::Fails,
            "CUDA_ERROR_UNKNOWN (999)",
        ),
    ] {
        let (recording, _) = record(machine, LIBRARY, &[]);
        let (facts, node) = facts(&recording);
        assert_eq!(facts.known(node, node::CUDA), Some(state), "{machine}");
        assert_eq!(facts.known(node, node::CUDA_ERROR).as_deref(), Some(error));
        // The version is told all the same.
        assert_eq!(
            facts.known(node, node::CUDA_DRIVER).as_deref(),
            Some("12.4")
        );
    }
}

#[test]
fn no_library_and_an_old_one() {
    if !host::can_run() {
        return;
    }
    // Under another name the loader does not find it. Where the machine has a real one, that is found.
    let out = host::doctor(
        "cuda-h100.toml",
        LIBRARY,
        "libother.so.1",
        &["record", "--no-redact"],
        &[("LD_LIBRARY_PATH", "/nonexistent")],
    );
    let recording = Recording::read(out.stdout.as_slice(), "standin".as_ref(), 0).unwrap();
    let (facts_without, node_without) = facts(&recording);
    let state = facts_without.known(node_without, node::CUDA);
    assert_ne!(state, Some(Cuda::Works));
    assert_ne!(state, Some(Cuda::NoDriver));

    let (recording, _) = record("cuda-h100.toml", "standin_cuda_old", &[]);
    assert!(
        recording.ended("cuda").is_none(),
        "a missing symbol ends no probe"
    );
    let (facts, node) = facts(&recording);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::Works));
    assert_eq!(facts.known(node, node::CUDA_DRIVER).as_deref(), Some("9.0"));
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(2));
    // Which GPUs these are, it cannot say.
    assert_eq!(
        facts
            .all(Subject::Gpu)
            .filter(|gpu| facts.known(*gpu, gpu::IN_CUDA).is_some())
            .count(),
        0
    );
}

#[test]
fn a_call_that_aborts_and_one_that_never_returns() {
    if !host::can_run() {
        return;
    }
    let (recording, _) = record("cuda-aborts.toml", LIBRARY, &[]);
    let how = &recording.ended("cuda").unwrap().how;
    assert!(
        how.contains("signal 6") && how.contains("cuDeviceCanAccessPeer"),
        "{how}"
    );
    let (aborted, node) = facts(&recording);
    assert_eq!(aborted.known(node, node::CUDA), Some(Cuda::Works));
    assert_eq!(aborted.known(node, node::CUDA_DEVICES), Some(8));

    let begun = Instant::now();
    let args = ["check", "--deadline", "3", "--format", "json"];
    let out = host::doctor("cuda-init-hangs.toml", LIBRARY, NAME, &args, &[]);
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(
        said.contains("killed after") && said.contains("at cuInit"),
        "{said}"
    );
}
