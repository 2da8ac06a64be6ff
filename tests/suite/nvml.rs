//! NVML asked over a stand-in at its ABI: the real program loads a library of that name, in mount namespaces where NVIDIA's driver seems to be
//! loaded. What is asserted is how it asks, reads, and ends; nothing here is a recording of hardware.

use crate::bench_p2p::GPU as GPUS;
use crate::known_half::{judged, said};
use crate::process::PATIENT;
use crate::stage::{Stage, StageRecording};
use rdma_doctor::fact::gpu::{self, GpuMode, RecoveryAction};
use rdma_doctor::fact::gpu_pair::{self, P2p};
use rdma_doctor::fact::node::{self, Nvml};
use rdma_doctor::fact::nvlink::{self, Remote};
use rdma_doctor::fact::{BitRate, Bytes, Fact, Key, Subject, Typed, Why};
use rdma_doctor::source::{Question, Refusal, Source};

const EXAMPLE: &str = "standin_nvidia_ml";
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A stage for a machine, with the stand-in in place.
fn stage(machine: &str) -> Option<Stage> {
    Some(Stage::new(machine)?.library(EXAMPLE, LIBRARY))
}

impl StageRecording {
    fn gpu<T: Typed>(&self, pci: &str, key: Key<T>) -> Option<T> {
        self.facts.known(self.id(Subject::Gpu, pci), key)
    }

    fn first_gpu(&self) -> &str {
        let first = self.facts.all(Subject::Gpu).next();
        self.facts.name(first.unwrap())
    }

    fn gap<T: Typed>(&self, pci: &str, key: Key<T>) -> Why {
        match self.facts.get(self.id(Subject::Gpu, pci), key) {
            Fact::Unknown(gap) => gap.why,
            Fact::Known(..) => panic!("{} of {pci} is known", key.path()),
        }
    }

    fn pair<T: Typed>(&self, first: &str, second: &str, key: Key<T>) -> Option<T> {
        let name = format!("{first} - {second}");
        self.facts.known(self.id(Subject::GpuPair, &name), key)
    }

    fn count(&self, subject: Subject) -> usize {
        self.facts.all(subject).count()
    }
}

#[test]
fn eight_gpus_with_switches() {
    let Some(stage) = stage("hgx-h100.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Works));
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(8));
    assert_eq!(seen.of_node(node::NVIDIA_GPUS), Some(8));
    assert_eq!(
        seen.of_node(node::NVML_VERSION).as_deref(),
        Some("550.90.07")
    );
    assert_eq!(seen.of_node(node::NVML_CUDA).as_deref(), Some("12.4"));
    assert_eq!(seen.of_node(node::NVML_UNANSWERED), Some(0));
    assert_eq!(seen.count(Subject::Gpu), 8, "NVML's are those of the bus");
    for (number, pci) in GPUS.into_iter().enumerate() {
        assert_eq!(seen.gpu(pci, gpu::IN_NVML), Some(true));
        assert_eq!(seen.gpu(pci, gpu::ON_PCI), Some(true));
        assert_eq!(seen.gpu(pci, gpu::GIVEN), Some(true));
        assert_eq!(seen.gpu(pci, gpu::CHAR_DEVICE), Some(true));
        assert_eq!(seen.gpu(pci, gpu::INDEX), Some(number as u64));
        assert_eq!(seen.gpu(pci, gpu::MODULE_ID), Some(number as u64 + 1));
        assert_eq!(seen.gpu(pci, gpu::LOST), Some(false));
        assert_eq!(seen.gpu(pci, gpu::ECC), Some(GpuMode::On));
        assert_eq!(seen.gpu(pci, gpu::MIG), Some(GpuMode::Off));
        assert_eq!(seen.gpu(pci, gpu::PERSISTENCE), Some(GpuMode::On));
        assert_eq!(
            seen.gpu(pci, gpu::RECOVERY_ACTION),
            Some(RecoveryAction::None)
        );
        assert_eq!(seen.gpu(pci, gpu::NVLINKS), Some(18));
        assert_eq!(seen.gpu(pci, gpu::NVLINKS_ACTIVE), Some(18));
        assert_eq!(seen.gpu(pci, gpu::NVLINKS_TO_SWITCH), Some(18));
        assert_eq!(
            seen.gpu(pci, gpu::FABRIC_STATE),
            Some(gpu::FabricState::Completed)
        );
        assert_eq!(
            seen.gpu(pci, gpu::FABRIC_STATUS).as_deref(),
            Some("success")
        );
        assert_eq!(
            seen.gpu(pci, gpu::FABRIC_HEALTH),
            Some(gpu::FabricHealth::Healthy)
        );
        assert_eq!(
            seen.gpu(pci, gpu::FABRIC_PROBLEMS).map(|l| l.len()),
            Some(0)
        );
        assert_eq!(seen.gpu(pci, gpu::THERMAL_MARGIN), Some(54));
        assert_eq!(seen.gpu(pci, gpu::POWER), Some(71));
        assert_eq!(seen.gpu(pci, gpu::REMAPS_ROWS), Some(true));
        assert_eq!(seen.gpu(pci, gpu::RETIRES_PAGES), Some(false));
        assert_eq!(seen.gpu(pci, gpu::FOREIGN_PROCESSES), Some(0));
        assert_eq!(seen.gpu(pci, gpu::ECC_CORRECTED_EVER), Some(3));
    }
    assert_eq!(seen.count(Subject::Nvlink), 8 * 18);
    let link = seen.id(Subject::Nvlink, "0000:61:00.0 link 17");
    assert_eq!(seen.facts.known(link, nvlink::REMOTE), Some(Remote::Switch));
    assert_eq!(seen.facts.known(link, nvlink::VERSION), Some(4));
    assert_eq!(
        seen.facts.known(link, nvlink::SPEED),
        Some(BitRate(212_496_000_000))
    );
    assert_eq!(
        seen.count(Subject::GpuPair),
        28,
        "NVML's are those of the topology"
    );
    assert_eq!(
        seen.pair(GPUS[0], GPUS[7], gpu_pair::P2P_READ),
        Some(P2p::Ok)
    );
    assert_eq!(seen.pair(GPUS[2], GPUS[5], gpu_pair::NVLINKS), Some(0));
    assert!(seen.facts.failures().next().is_none(), "no probe failed");
}

#[test]
fn one_gpu() {
    let Some(stage) = stage("one-h100.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(1));
    assert_eq!(seen.gpu(GPUS[0], gpu::NVLINKS_ACTIVE), Some(0));
    assert_eq!(
        seen.gpu(GPUS[0], gpu::FABRIC_STATE),
        Some(gpu::FabricState::Unsupported)
    );
    let link = seen.id(Subject::Nvlink, "0000:1b:00.0 link 0");
    assert_eq!(seen.facts.known(link, nvlink::ACTIVE), Some(false));
    assert_eq!(seen.facts.known(link, nvlink::SPEED), None);
    assert_eq!(seen.count(Subject::GpuPair), 0);
}

#[test]
fn a_driver_without_devices() {
    let Some(stage) = stage("no-devices.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Works));
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(0));
    assert_eq!(seen.of_node(node::NVIDIA_GPUS), Some(0));
    assert_eq!(seen.count(Subject::Gpu), 0);
}

#[test]
fn gpus_on_pcie_only() {
    let Some(stage) = stage("pcie-l40s.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(4));
    assert_eq!(seen.gpu(GPUS[1], gpu::NVLINKS), Some(0));
    assert_eq!(seen.gpu(GPUS[1], gpu::MIG), Some(GpuMode::Unsupported));
    assert_eq!(seen.gpu(GPUS[1], gpu::MODULE_ID), Some(0));
    let id = seen.id(Subject::Gpu, GPUS[1]);
    assert!(seen.facts.members(Subject::Nvlink, id).is_ok());
    let pair = |key| seen.pair(GPUS[0], GPUS[1], key);
    assert_eq!(pair(gpu_pair::P2P_NVLINK), Some(P2p::NotSupported));
    assert_eq!(pair(gpu_pair::P2P_READ), Some(P2p::Ok));
}

#[test]
fn divided_gpus() {
    let Some(stage) = stage("mig.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.gpu(GPUS[2], gpu::MIG), Some(GpuMode::On));
    assert_eq!(seen.gpu(GPUS[2], gpu::MIG_DEVICES), Some(2));
    assert_eq!(seen.gpu(GPUS[2], gpu::MEMORY_LEAKED), None);
    assert_eq!(
        seen.gap(GPUS[2], gpu::FOREIGN_PROCESSES).remedy(),
        Some("run as root")
    );
    assert_eq!(seen.gpu(GPUS[3], gpu::MIG), Some(GpuMode::Off));
    assert_eq!(seen.gpu(GPUS[3], gpu::MIG_PENDING), Some(GpuMode::On));
    assert_eq!(seen.gpu(GPUS[3], gpu::MIG_DEVICES), Some(0));
}

#[test]
fn consumer_cards_lack_much_and_that_is_known() {
    let Some(stage) = stage("geforce.toml") else {
        return;
    };
    let seen = stage.record();
    let card = "0000:41:00.0";
    assert_eq!(seen.gpu(card, gpu::ECC), Some(GpuMode::Unsupported));
    assert_eq!(seen.gpu(card, gpu::PERSISTENCE), Some(GpuMode::Off));
    assert_eq!(seen.gpu(card, gpu::REMAPS_ROWS), Some(false));
    assert_eq!(seen.gpu(card, gpu::NVLINKS), Some(0));
    assert_eq!(
        seen.gpu(card, gpu::RECOVERY_ACTION),
        Some(RecoveryAction::Unsupported)
    );
    assert_eq!(
        seen.gpu(card, gpu::FABRIC_STATE),
        Some(gpu::FabricState::Unsupported)
    );
    assert_eq!(seen.gpu(card, gpu::THERMAL_MARGIN), Some(90 - 38));
    assert_eq!(
        seen.gap(card, gpu::ECC_UNCORRECTED).to_string(),
        "operation not supported (EOPNOTSUPP)"
    );
    assert_eq!(
        seen.pair("0000:01:00.0", card, gpu_pair::P2P_READ),
        Some(P2p::ChipsetNotSupported)
    );
}

#[test]
fn a_broken_pair() {
    let Some(stage) = stage("broken-pair.toml") else {
        return;
    };
    let seen = stage.record();
    let pair = |key| seen.pair(GPUS[1], GPUS[4], key);
    assert_eq!(pair(gpu_pair::P2P_READ), Some(P2p::Ok));
    assert_eq!(
        pair(gpu_pair::P2P_READ_BACK),
        Some(P2p::TopologyNotSupported)
    );
    assert_eq!(pair(gpu_pair::P2P_WRITE), Some(P2p::TopologyNotSupported));
    assert_eq!(
        pair(gpu_pair::P2P_WRITE_BACK),
        Some(P2p::TopologyNotSupported)
    );
    assert_eq!(
        seen.pair(GPUS[1], GPUS[5], gpu_pair::P2P_WRITE),
        Some(P2p::Ok)
    );
}

#[test]
fn what_users_and_trouble_leave() {
    let Some(stage) = stage("busy.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.gpu(GPUS[0], gpu::FOREIGN_PROCESSES), Some(1));
    let users = seen.gpu(GPUS[0], gpu::FOREIGN_PROCESS_LIST).unwrap();
    assert!(
        users[0].starts_with("1 ") && users[0].ends_with("(70.3 GiB)"),
        "{users:?}"
    );
    assert_eq!(seen.gpu(GPUS[0], gpu::MEMORY_LEAKED), Some(Bytes(0)));
    // In a container other processes may use it unseen.
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let leaked = (own.as_os_str() == "pid:[4026531836]").then_some(Bytes(40 << 30));
    assert_eq!(seen.gpu(GPUS[1], gpu::MEMORY_LEAKED), leaked);
    assert_eq!(seen.gpu(GPUS[2], gpu::POWER_BRAKE), Some(true));
    assert_eq!(seen.gpu(GPUS[2], gpu::HW_SLOWDOWN), Some(true));
    assert_eq!(seen.gpu(GPUS[2], gpu::HW_THERMAL), Some(false));
    assert_eq!(
        seen.gpu(GPUS[2], gpu::POWER_BRAKE_TIME).map(|s| s.0),
        Some(86400.0)
    );
    assert_eq!(seen.gpu(GPUS[3], gpu::REMAP_PENDING), Some(true));
    assert_eq!(
        seen.gpu(GPUS[3], gpu::RECOVERY_ACTION),
        Some(RecoveryAction::Reset)
    );
    assert_eq!(seen.gpu(GPUS[4], gpu::INFOROM_VALID), Some(true));
    assert_eq!(seen.gpu(GPUS[4], gpu::C2C_LINKS), Some(0));
    assert_eq!(seen.gpu(GPUS[5], gpu::INFOROM_VALID), Some(false));
    assert_eq!(seen.gpu(GPUS[5], gpu::C2C_LINKS), Some(10));
    assert_eq!(seen.gpu(GPUS[5], gpu::C2C_LINKS_ACTIVE), Some(9));
    assert_eq!(seen.gpu(GPUS[4], gpu::NVLINKS_ACTIVE), Some(17));
    let link = seen.id(Subject::Nvlink, "0000:9d:00.0 link 7");
    assert_eq!(seen.facts.known(link, nvlink::ACTIVE), Some(false));

    // The job that was named is not foreign, nor are its children: all are process 1's.
    let seen = stage.record_with(&["--no-redact", "--as", "1"]);
    assert_eq!(seen.gpu(GPUS[0], gpu::FOREIGN_PROCESSES), Some(0));
}

/// A call that does not come back costs the answer that it was for, in time; the report names it.
#[test]
fn a_call_that_never_returns() {
    let Some(stage) = stage("hangs.toml") else {
        return;
    };
    let seen = stage.record();
    assert!(seen.took < PATIENT, "{:?}", seen.took);
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Works));
    let said = seen
        .recording
        .of("nvml")
        .ask(&Question::call("nvml_device", [("index", 3.into())]))
        .said;
    assert_eq!(said, Err(Refusal::Timeout));
    let unanswered = seen.of_node(node::NVML_UNANSWERED_LIST).unwrap();
    assert_eq!(
        unanswered.join("; "),
        "nvml_device(3): no reply within the budget"
    );
    // Which GPU that was, the reply about pairs tells; and all else of it and of the others is there.
    assert_eq!(seen.gpu(GPUS[3], gpu::IN_NVML), Some(true));
    assert_eq!(seen.gap(GPUS[3], gpu::ECC), Why::Refused(Refusal::Timeout));
    assert_eq!(seen.gpu(GPUS[3], gpu::NVLINKS_ACTIVE), Some(18));
    for pci in GPUS.into_iter().filter(|pci| *pci != GPUS[3]) {
        assert_eq!(seen.gpu(pci, gpu::ECC), Some(GpuMode::On));
    }
    assert_eq!(
        seen.pair(GPUS[3], GPUS[4], gpu_pair::P2P_READ),
        Some(P2p::Ok)
    );
    for gpu in GPUS {
        assert_eq!(seen.gpu(gpu, gpu::IN_NVML), Some(true));
    }

    let report = stage.run(&["check", "--only", "host/*"]);
    assert!(
        report.status.code().is_some_and(|code| code < 64),
        "{report:?}"
    );
    let facts = stage.run(&["facts"]);
    let text = String::from_utf8_lossy(&facts.stdout).into_owned();
    assert!(
        text.contains("nvml_device(3): no reply within the budget"),
        "{text}"
    );
}

/// A driver that is stuck: NVML does not even begin.
#[test]
fn a_library_that_never_begins() {
    let Some(stage) = stage("init-hangs.toml") else {
        return;
    };
    let seen = stage.record();
    assert!(seen.took < PATIENT, "{:?}", seen.took);
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Hangs));
    assert_eq!(
        seen.gap(GPUS[0], gpu::ECC).to_string(),
        "not asked: no reply within the budget"
    );
    assert!(seen.recording.is_complete());
}

#[test]
fn a_call_that_aborts() {
    let Some(stage) = stage("aborts.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(
        seen.of_node(node::NVML_UNANSWERED_LIST)
            .map(|l| l.join("; "))
            .as_deref(),
        Some("nvml_p2p: the asking process died: killed by signal 6")
    );
    assert_eq!(seen.gpu(GPUS[7], gpu::ECC), Some(GpuMode::On));
    assert_eq!(seen.pair(GPUS[0], GPUS[1], gpu_pair::P2P_READ), None);
    let pair = seen.id(Subject::GpuPair, "0000:1b:00.0 - 0000:43:00.0");
    let Fact::Unknown(gap) = seen.facts.get(pair, gpu_pair::P2P_READ) else {
        panic!("known")
    };
    assert!(matches!(gap.why, Why::Refused(Refusal::Crash(_))), "{gap}");
}

#[test]
fn an_old_library() {
    let Some(stage) = Stage::new("hgx-h100.toml") else {
        return;
    };
    let stage = stage.older_library(
        EXAMPLE,
        LIBRARY,
        &[
            "nvmlInitWithFlags",
            "nvmlDeviceGetGpuFabricInfoV",
            "nvmlDeviceGetGpuFabricInfo",
            "nvmlDeviceGetMarginTemperature",
            "nvmlDeviceGetSramEccErrorStatus",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            "nvmlDeviceGetGspFirmwareVersion",
        ],
    );
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Works));
    assert_eq!(seen.of_node(node::NVML_UNANSWERED), Some(0));
    let gpu = GPUS[6];
    assert_eq!(
        seen.gpu(gpu, gpu::FABRIC_STATE),
        Some(gpu::FabricState::Unsupported)
    );
    assert_eq!(seen.gpu(gpu, gpu::GSP_FIRMWARE).as_deref(), Some("none"));
    assert_eq!(seen.gpu(gpu, gpu::THERMAL_MARGIN), Some(89 - 31));
    assert_eq!(seen.gpu(gpu, gpu::SRAM_THRESHOLD_EXCEEDED), None);
    assert_eq!(seen.gpu(gpu, gpu::SRAM_UNCORRECTED_EVER), Some(0));
    assert_eq!(seen.gpu(gpu, gpu::MEMORY_USED), None);
    assert_eq!(
        seen.gpu(gpu, gpu::FOREIGN_PROCESSES),
        Some(0),
        "by its older function"
    );
}

#[test]
fn a_library_of_another_version_than_the_driver() {
    let Some(stage) = stage("mismatch.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Mismatch));
    assert_eq!(
        seen.of_node(node::NVML_ERROR).as_deref(),
        Some("Driver/library version mismatch")
    );
    assert_eq!(
        seen.of_node(node::NVML_VERSION).as_deref(),
        Some("550.127.05")
    );
    assert_eq!(seen.gpu(GPUS[0], gpu::IN_NVML), None);
    assert_eq!(seen.of_node(node::NVIDIA_GPUS), Some(8));
}

#[test]
fn no_driver_is_not_asked() {
    let Some(stage) = stage("hgx-h100.toml") else {
        return;
    };
    let seen = stage.without_driver().record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::NoDriver));
    let asked = seen
        .recording
        .of("nvml")
        .ask(&Question::call("nvml_system", []));
    assert_eq!(asked.said, Err(Refusal::NotRecorded));
    assert_eq!(seen.gpu(GPUS[0], gpu::IN_NVML), None);
}

#[test]
fn no_library_and_no_control_device() {
    let Some(stage) = Stage::new("hgx-h100.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::NoLibrary));
    let Some(stage) = self::stage("hgx-h100.toml") else {
        return;
    };
    let seen = stage.without("dev/nvidiactl").record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::NoControlDevice));
}

#[test]
fn gpus_that_fell_off_the_bus() {
    let Some(stage) = stage("lost.toml") else {
        return;
    };
    let seen = stage.record();
    let (before, since) = (GPUS[5], GPUS[6]);
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(8));
    assert_eq!(seen.gpu(before, gpu::IN_NVML), Some(false));
    assert_eq!(seen.gpu(before, gpu::LOST), Some(true));
    assert_eq!(
        seen.gpu(before, gpu::NVML_ERROR).as_deref(),
        Some("GPU is lost")
    );
    assert_eq!(seen.gpu(since, gpu::IN_NVML), Some(true));
    assert_eq!(seen.gpu(since, gpu::LOST), Some(true));
    assert_eq!(
        seen.gap(since, gpu::FOREIGN_PROCESSES).to_string(),
        "no such device (ENODEV)"
    );
    assert_eq!(seen.gpu(GPUS[0], gpu::LOST), Some(false));
    assert_eq!(
        seen.pair(GPUS[0], GPUS[1], gpu_pair::P2P_READ),
        Some(P2p::Ok)
    );
    assert_eq!(seen.pair(GPUS[0], before, gpu_pair::P2P_READ), None);
}

/// The real library makes device files, and runs nvidia-modprobe, where something is missing. From the doctor's process it cannot.
#[test]
fn a_library_that_meddles() {
    let Some(stage) = stage("meddles.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVML), Some(Nvml::Works));
    assert_eq!(stage.beside_library(), [LIBRARY]);
}

/// The findings about GPUs that are more than notes; the area was examined.
fn troubles_of_gpus(seen: &StageRecording, machine: &str) -> Vec<String> {
    let report = judged(&seen.recording);
    let gpus = report.areas.iter().find(|area| area.area == "gpus");
    let gpus = gpus.unwrap();
    assert_eq!(gpus.state, "examined", "{machine}: {gpus:?}");
    let groups = ["gpu/", "nvlink/", "fabric/", "driver/", "p2p/"];
    let of_gpus = |check: &str| groups.iter().any(|group| check.starts_with(group));
    let causes = report.causes.iter();
    let causes = causes.filter(|cause| of_gpus(&cause.check));
    let sentences = causes.map(|cause| cause.sentence.to_string());
    // The stage has no CUDA.
    sentences
        .filter(|said| !said.contains("libcuda.so.1"))
        .collect()
}

/// A container has the GPUs that it asked for; the bus shows all of them.
#[test]
fn a_container_with_some_of_the_gpus() {
    let Some(stage) = stage("one-h100.toml") else {
        return;
    };
    let seen = stage.with_ungiven("0000:43:00.0").record();
    assert_eq!(seen.of_node(node::NVIDIA_GPUS), Some(2));
    assert_eq!(seen.of_node(node::NVML_GPUS), Some(1));
    assert_eq!(seen.gpu(GPUS[1], gpu::IN_NVML), Some(false));
    assert_eq!(seen.gpu(GPUS[1], gpu::GIVEN), Some(false));
    assert_eq!(seen.gpu(GPUS[0], gpu::GIVEN), Some(true));
    assert_eq!(troubles_of_gpus(&seen, "a part"), Vec::<String>::new());
}

/// What a machine lacks by design, or was not given, is no fault of it.
#[test]
fn healthy_gpus_of_each_kind_are_quiet() {
    for machine in [
        "hgx-h100.toml",
        "one-h100.toml",
        "pcie-l40s.toml",
        "vgpu.toml",
        "mig-given.toml",
        "confidential.toml",
        "grace.toml",
    ] {
        let Some(stage) = stage(machine) else {
            return;
        };
        let seen = stage.record();
        let causes = troubles_of_gpus(&seen, machine);
        assert_eq!(causes, Vec::<String>::new(), "{machine}");
        let confidential = seen.of_node(node::CONFIDENTIAL);
        assert_eq!(confidential, Some(machine == "confidential.toml"));
        let links = seen.gpu(seen.first_gpu(), gpu::C2C_LINKS_ACTIVE);
        assert_eq!(links, (machine == "grace.toml").then_some(10), "{machine}");
    }
}

#[test]
fn gpus_that_the_bus_does_not_show() {
    let Some(stage) = stage("geforce.toml") else {
        return;
    };
    let stage = stage
        .without("bus/devices/0000:01:00.0")
        .without("bus/devices/0000:41:00.0");
    let seen = stage.record();
    assert_eq!(seen.of_node(node::NVIDIA_GPUS), Some(0));
    assert_eq!(seen.gpu("0000:41:00.0", gpu::ON_PCI), Some(false));
    assert_eq!(
        seen.gpu("0000:41:00.0", gpu::PCI).as_deref(),
        Some("0000:41:00.0")
    );
    assert_eq!(seen.gpu("0000:41:00.0", gpu::LINK_WIDTH), Some(16));
}

#[test]
fn a_gpu_that_is_ahead_of_its_equals_in_errors_is_noted() {
    let Some(stage) = stage("ahead-of-equals.toml") else {
        return;
    };
    let seen = stage.record();
    assert_eq!(seen.gpu(GPUS[2], gpu::PAGES_RETIRED), Some(22));
    let report = judged(&seen.recording);
    let (severity, sentence) = said(&report, "gpu/memory-wears").unwrap();
    assert_eq!(severity, "note", "{sentence}");
    assert!(sentence.contains(GPUS[2]), "{sentence}");
    // Soon after a boot so many replays are a finding of their own, under which the comparison is folded.
    assert_eq!(seen.gpu(GPUS[6], gpu::PCIE_REPLAYS_ABOVE), Some(40_000));
    let own = said(&report, "gpu/pcie-replays");
    let own = own.or_else(|| said(&report, "gpu/pcie-replays"));
    assert!(own.unwrap().1.contains(GPUS[6]));
}

/// What tells one machine from another is not in a redacted recording; what judgement reads is.
#[test]
fn redacted() {
    let Some(stage) = stage("busy.toml") else {
        return;
    };
    let seen = stage.record_with(&[]);
    let serial = seen.gpu(GPUS[0], gpu::SERIAL).unwrap();
    let uuid = seen.gpu(GPUS[0], gpu::UUID).unwrap();
    assert_ne!(&*serial, "1650000000000");
    assert!(
        uuid.starts_with("GPU-") && !uuid.contains("1111-2222"),
        "{uuid}"
    );
    assert_eq!(uuid.len(), "GPU-00000000-1111-2222-3333-000000000000".len());
    let (raw, hidden) = (stage.record(), seen);
    for pci in GPUS {
        let own = |seen: &StageRecording| {
            (
                seen.gpu(pci, gpu::MODEL),
                seen.gpu(pci, gpu::VBIOS),
                seen.gpu(pci, gpu::FOREIGN_PROCESSES),
                seen.gpu(pci, gpu::FABRIC_CLUSTER),
                seen.gpu(pci, gpu::GSP_FIRMWARE),
                seen.gpu(pci, gpu::NVLINKS_TO_SWITCH),
            )
        };
        assert_eq!(own(&raw), own(&hidden), "{pci}");
    }
    assert_eq!(
        raw.of_node(node::NVML_VERSION),
        hidden.of_node(node::NVML_VERSION)
    );
}
