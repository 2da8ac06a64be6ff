//! The CUDA probe against a stand-in of libcuda.so.1: the real binary loads it and calls it, and no GPU is needed.
//!
//! What the stand-in answers is made up (`tests/standin/machines`); no output of it is a recording of hardware.

use std::time::Instant;

use crate::process::PATIENT;
use crate::stage::{Stage, StageRecording};
use rdma_doctor::fact::node::Cuda;
use rdma_doctor::fact::{Id, Key, Subject, Typed, gpu, gpu_pair, node};

const EXAMPLE: &str = "standin_cuda";
const LIBRARY: &str = "libcuda.so.1";

/// A stage for a machine, with the stand-in in place.
fn stage(machine: &str) -> Option<Stage> {
    Some(Stage::new(machine)?.library(EXAMPLE, LIBRARY))
}

impl StageRecording {
    fn of<T: Typed>(&self, subject: Subject, name: &str, key: Key<T>) -> Option<T> {
        self.facts.known(self.id(subject, name), key)
    }

    /// What CUDA says of a pair, forth and back.
    fn access(&self, pair: &str) -> (Option<bool>, Option<bool>) {
        (
            self.of(Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS),
            self.of(Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS_BACK),
        )
    }
}

#[test]
fn eight_gpus() {
    let Some(stage) = stage("cuda-h100.toml") else {
        return;
    };
    let seen = stage.record();
    assert!(seen.recording.ended("cuda").is_none());
    assert_eq!(seen.of_node(node::CUDA), Some(Cuda::Works));
    assert_eq!(seen.of_node(node::CUDA_DRIVER).as_deref(), Some("12.4"));
    assert_eq!(seen.of_node(node::CUDA_DEVICES), Some(8));
    assert_eq!(seen.of_node(node::CUDA_MASKED), Some(false));
    let pci = "0000:df:00.0";
    assert_eq!(seen.of(Subject::Gpu, pci, gpu::CUDA_INDEX), Some(7));
    assert_eq!(
        seen.of(Subject::Gpu, pci, gpu::COMPUTE_CAPABILITY),
        Some(90)
    );
    assert_eq!(seen.of(Subject::Gpu, pci, gpu::DMA_BUF), Some(true));
    assert_eq!(seen.of(Subject::Gpu, pci, gpu::MULTICAST), Some(true));
    assert_eq!(seen.of(Subject::Gpu, pci, gpu::COHERENT), Some(false));
    let facts = &seen.facts;
    assert_eq!(
        facts.all(Subject::Gpu).count(),
        8,
        "CUDA's are those of the bus"
    );
    assert_eq!(facts.all(Subject::GpuPair).count(), 28);
    for pair in facts.all(Subject::GpuPair) {
        assert_eq!(facts.known(pair, gpu_pair::CUDA_ACCESS), Some(true));
        assert_eq!(facts.known(pair, gpu_pair::CUDA_ACCESS_BACK), Some(true));
    }
}

#[test]
fn a_broken_pair_and_a_one_sided_one() {
    let Some(stage) = stage("cuda-broken-pair.toml") else {
        return;
    };
    let seen = stage.record();
    for (pair, access) in [
        ("0000:43:00.0 - 0000:9d:00.0", (Some(false), Some(false))),
        ("0000:52:00.0 - 0000:c3:00.0", (Some(true), Some(false))),
        ("0000:1b:00.0 - 0000:43:00.0", (Some(true), Some(true))),
    ] {
        assert_eq!(seen.access(pair), access, "{pair}");
    }
}

#[test]
fn the_mask_of_a_job_hides_gpus() {
    let Some(stage) = stage("cuda-h100.toml") else {
        return;
    };
    let seen = stage.variable("CUDA_VISIBLE_DEVICES", "3,1").record();
    assert_eq!(seen.of_node(node::CUDA_DEVICES), Some(2));
    assert_eq!(seen.of_node(node::CUDA_MASKED), Some(true));
    // The order is that of the mask; the addresses are what joins them to GPUs.
    let index = |pci| seen.of(Subject::Gpu, pci, gpu::CUDA_INDEX);
    assert_eq!(index("0000:61:00.0"), Some(0));
    assert_eq!(index("0000:43:00.0"), Some(1));
    assert_eq!(index("0000:1b:00.0"), None);
    let asked = |pair: &Id| seen.facts.known(*pair, gpu_pair::CUDA_ACCESS).is_some();
    assert_eq!(seen.facts.all(Subject::GpuPair).filter(asked).count(), 1);
}

#[test]
fn what_cuda_says_when_it_does_not_start() {
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
        let Some(stage) = stage(machine) else {
            return;
        };
        let seen = stage.record();
        assert_eq!(seen.of_node(node::CUDA), Some(state), "{machine}");
        assert_eq!(seen.of_node(node::CUDA_ERROR).as_deref(), Some(error));
        // The version is told all the same.
        assert_eq!(seen.of_node(node::CUDA_DRIVER).as_deref(), Some("12.4"));
    }
}

#[test]
fn no_library_and_an_old_one() {
    // Under another name the loader does not find it. Where the machine has a real one, that is found.
    let Some(stage) = Stage::new("cuda-h100.toml") else {
        return;
    };
    let seen = stage.library(EXAMPLE, "libother.so.1").record();
    let state = seen.of_node(node::CUDA);
    assert_ne!(state, Some(Cuda::Works));
    assert_ne!(state, Some(Cuda::NoDriver));

    let Some(stage) = Stage::new("cuda-h100.toml") else {
        return;
    };
    let seen = stage.library("standin_cuda_old", LIBRARY).record();
    assert!(
        seen.recording.ended("cuda").is_none(),
        "a missing symbol ends no probe"
    );
    assert_eq!(seen.of_node(node::CUDA), Some(Cuda::Works));
    assert_eq!(seen.of_node(node::CUDA_DRIVER).as_deref(), Some("9.0"));
    assert_eq!(seen.of_node(node::CUDA_DEVICES), Some(2));
    // Which GPUs these are, it cannot say.
    let told = |gpu: &Id| seen.facts.known(*gpu, gpu::IN_CUDA).is_some();
    assert_eq!(seen.facts.all(Subject::Gpu).filter(told).count(), 0);
}

#[test]
fn without_the_node_that_cuda_would_make_it_is_not_asked() {
    let Some(stage) = stage("cuda-h100.toml") else {
        return;
    };
    let seen = stage.without("dev/nvidia-uvm").record();
    assert_eq!(seen.of_node(node::CUDA), Some(Cuda::NoControlDevice));
    assert_eq!(seen.of_node(node::CUDA_DRIVER), None);
}

#[test]
fn a_call_that_aborts_and_one_that_never_returns() {
    let Some(stage) = stage("cuda-aborts.toml") else {
        return;
    };
    let seen = stage.record();
    let how = &seen.recording.ended("cuda").unwrap().how;
    assert!(
        how.contains("signal 6") && how.contains("cuDeviceCanAccessPeer"),
        "{how}"
    );
    assert_eq!(seen.of_node(node::CUDA), Some(Cuda::Works));
    assert_eq!(seen.of_node(node::CUDA_DEVICES), Some(8));

    let Some(stage) = self::stage("cuda-init-hangs.toml") else {
        return;
    };
    let begun = Instant::now();
    let out = stage.run(&["check", "--deadline", "3", "--format", "json"]);
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(
        said.contains("killed after") && said.contains("at cuInit"),
        "{said}"
    );
}
