use super::*;
use crate::fact::gpu::GpuMode;
use crate::fact::gpu_pair::{self, P2p};
use crate::fact::nvlink;
use crate::probe::testing::{known, run};

const BUS: &str = "0000:1b:00.0";
const OTHER: &str = "0000:43:00.0";

/// Two GPUs with two links to each other: what NVML's reply has of each, shortened.
const LINES: &[&str] = &[
    r#"{"q":{"link":"/proc/self/ns/pid"},"text":"pid:[4026531836]"}"#,
    r#"{"q":{"list":"/dev"},"names":["null","nvidia-uvm","nvidia0","nvidia1","nvidiactl"]}"#,
    r#"{"q":{"list":"/proc/driver/nvidia/gpus"},"names":["0000:1b:00.0","0000:43:00.0"]}"#,
    r#"{"q":{"read":"/proc/driver/nvidia/version"},"text":"NVRM version: …\n"}"#,
    r#"{"q":{"call":"nvml_system"},"value":{"nvmlInitWithFlags":0,"init_us":12000,"nvmlSystemGetNVMLVersion":"12.550.54.15","nvmlSystemGetDriverVersion":"550.54.15","nvmlSystemGetCudaDriverVersion_v2":12040,"nvmlDeviceGetCount_v2":2,"nvmlSystemGetConfComputeState":{"error":"NotSupported"}}}"#,
    r#"{"q":{"call":"job_process"},"value":7}"#,
    r#"{"q":{"call":"nvml_device","index":0},"value":{"nvmlDeviceGetHandleByIndex_v2":0,"nvmlDeviceGetPciInfo_v3":"00000000:1B:00.0","nvmlDeviceGetMinorNumber":0,"nvmlDeviceGetEccMode":{"current":1,"pending":0},"nvmlDeviceGetMigMode":{"error":"NotSupported"},"nvmlDeviceGetMemoryInfo_v2":{"total":85520809984,"reserved":657260544,"used":917504},"nvmlDeviceGetComputeRunningProcesses":[],"nvmlDeviceGetMPSComputeRunningProcesses":[],"nvmlDeviceGetGraphicsRunningProcesses":[],"nvmlDeviceGetMarginTemperature":-2}}"#,
    r#"{"q":{"call":"nvml_device","index":1},"value":{"nvmlDeviceGetHandleByIndex_v2":0,"nvmlDeviceGetPciInfo_v3":"00000000:43:00.0","nvmlDeviceGetMinorNumber":3,"nvmlDeviceGetEccMode":{"error":"NoPermission"},"nvmlDeviceGetArchitecture":77,"nvmlDeviceGetComputeRunningProcesses":[{"pid":70,"memory":null,"process":"python3","ancestors":[7,1]},{"pid":90,"memory":2147483648,"process":"a.out","ancestors":[1]},{"pid":91,"memory":1,"process":"nvidia-cuda-mps","ancestors":[1]}],"nvmlDeviceGetMPSComputeRunningProcesses":[]}}"#,
    r#"{"q":{"call":"nvml_links","index":0},"value":{"links":[{"link":0,"nvmlDeviceGetNvLinkState":1,"nvmlDeviceGetNvLinkRemoteDeviceType":0,"nvmlDeviceGetNvLinkRemotePciInfo_v2":"00000000:43:00.0","fields":{"NVLINK_GET_SPEED":{"error":"NotSupported"},"NVLINK_SPEED_MBPS_COMMON":25781,"NVLINK_COUNT_LINK_RECOVERY_EVENTS":4},"nvmlDeviceGetNvLinkErrorCounter/recovery":{"error":"NotSupported"}},{"link":2,"nvmlDeviceGetNvLinkState":0}]}}"#,
    r#"{"q":{"call":"nvml_links","index":1},"value":{"why":{"error":"GpuIsLost"},"links":[]}}"#,
    r#"{"q":{"call":"nvml_p2p"},"value":{"devices":["00000000:1B:00.0","00000000:43:00.0"],"pairs":[{"first":0,"second":1,"read":0,"write":4,"nvlink":0,"atomics":9,"pci":0,"level":0},{"first":1,"second":0,"read":3,"write":0,"nvlink":0,"atomics":0,"pci":0}]}}"#,
];

#[test]
fn replies_are_read() {
    let (facts, node) = run(&PROBE, LINES);
    assert_eq!(facts.known(node, node::NVML), Some(Nvml::Works));
    assert_eq!(
        facts.known(node, node::NVML_VERSION).as_deref(),
        Some("550.54.15")
    );
    assert_eq!(facts.known(node, node::NVML_CUDA).as_deref(), Some("12.4"));
    assert_eq!(facts.known(node, node::CONFIDENTIAL), Some(false));
    let gpu = |key| known(&facts, Subject::Gpu, BUS, key);
    assert_eq!(gpu(gpu::ECC), Some(GpuMode::On));
    assert_eq!(gpu(gpu::ECC_PENDING), Some(GpuMode::Off));
    assert_eq!(gpu(gpu::MIG), Some(GpuMode::Unsupported));
    let gpu = |key| known(&facts, Subject::Gpu, BUS, key);
    assert_eq!(gpu(gpu::THERMAL_MARGIN), Some(0), "past its threshold");
    assert_eq!(gpu(gpu::NVLINKS), Some(2));
    assert_eq!(gpu(gpu::NVLINKS_ACTIVE), Some(1));
    assert_eq!(gpu(gpu::NVLINKS_TO_SWITCH), Some(0));
    assert_eq!(
        known(&facts, Subject::Gpu, BUS, gpu::MEMORY_LEAKED),
        Some(crate::fact::Bytes(917_504))
    );
    assert_eq!(
        known(&facts, Subject::Gpu, BUS, gpu::CHAR_DEVICE),
        Some(true)
    );
    // /dev/nvidia3 is not there.
    assert_eq!(
        known(&facts, Subject::Gpu, OTHER, gpu::CHAR_DEVICE),
        Some(false)
    );
    let link = |key| known(&facts, Subject::Nvlink, "0000:1b:00.0 link 0", key);
    assert_eq!(link(nvlink::RECOVERIES), Some(4), "by the newer field");
    assert_eq!(link(nvlink::REPLAYS), None);
    let speed = known(
        &facts,
        Subject::Nvlink,
        "0000:1b:00.0 link 0",
        nvlink::SPEED,
    );
    assert_eq!(speed, Some(crate::fact::BitRate(206_248_000_000)));
    let pair = |key| known(&facts, Subject::GpuPair, "0000:1b:00.0 - 0000:43:00.0", key);
    assert_eq!(pair(gpu_pair::P2P_READ), Some(P2p::Ok));
    assert_eq!(
        pair(gpu_pair::P2P_READ_BACK),
        Some(P2p::TopologyNotSupported)
    );
    assert_eq!(pair(gpu_pair::P2P_WRITE), Some(P2p::DisabledByRegkey));
    assert_eq!(
        known(
            &facts,
            Subject::GpuPair,
            "0000:1b:00.0 - 0000:43:00.0",
            gpu_pair::NVLINKS
        ),
        Some(1)
    );
}

#[test]
fn what_was_not_answered_is_open_and_says_why() {
    let (facts, _) = run(&PROBE, LINES);
    let other = facts
        .all(Subject::Gpu)
        .find(|id| facts.name(*id) == OTHER)
        .unwrap();
    let why = |key| match facts.get(other, key) {
        Fact::Unknown(gap) => gap.why,
        Fact::Known(..) => panic!("known"),
    };
    assert_eq!(why(gpu::ECC).remedy(), Some("run as root"));
    assert!(facts.members(Subject::Nvlink, other).is_err());
    assert_eq!(facts.known(other, gpu::NVLINKS), None);
    // Nothing in the reply came from the GPU itself.
    assert_eq!(facts.known(other, gpu::LOST), None);
    let first = |key| known(&facts, Subject::Gpu, BUS, key);
    assert_eq!(first(gpu::LOST), Some(false));
    assert_eq!(first(gpu::RESET_REQUIRED), Some(false));
    assert_eq!(facts.known(other, gpu::SERIAL), None);
    assert_eq!(facts.known(other, gpu::MEMORY_LEAKED), None);
    // One is a child of the named job, one NVIDIA's own.
    let foreign = facts.known(other, gpu::FOREIGN_PROCESS_LIST).unwrap();
    assert_eq!(foreign.join(" "), "90 a.out (2 GiB)");
}

#[test]
fn every_missing_reply_leaves_gaps_only() {
    let (whole, _) = run(&PROBE, LINES);
    for (dropped, line) in LINES.iter().enumerate() {
        let mut lines = LINES.to_vec();
        lines.remove(dropped);
        let (facts, node) = run(&PROBE, &lines);
        for subject in [
            Subject::Gpu,
            Subject::GpuPair,
            Subject::Nvlink,
            Subject::Node,
        ] {
            for id in facts.all(subject) {
                let before = whole
                    .all(subject)
                    .find(|other| whole.name(*other) == facts.name(id));
                let before = before.unwrap_or_else(|| panic!("{} without {line}", facts.name(id)));
                for (index, fact) in subject.schema().facts.iter().enumerate() {
                    let value = |fact: Option<&Fact<crate::fact::Value>>| {
                        fact.and_then(|fact| fact.known().cloned())
                    };
                    let now = value(facts.look(id, index));
                    let then = value(whole.look(before, index));
                    assert!(
                        now.is_none() || now == then,
                        "{}.{} without {line}",
                        subject.name(),
                        fact.name
                    );
                }
            }
        }
        assert_ne!(facts.known(node, node::NVML), Some(Nvml::Fails));
    }
}

#[test]
fn what_nvml_says_when_it_does_not_begin() {
    for (reply, wanted) in [
        (
            r#""value":{"nvmlInitWithFlags":{"error":"LibRmVersionMismatch"},"init_us":9,"nvmlSystemGetNVMLVersion":"12.550.54.15"}"#,
            Nvml::Mismatch,
        ),
        (
            r#""value":{"nvmlInitWithFlags":{"error":"NoPermission"},"init_us":9}"#,
            Nvml::NoPermission,
        ),
        (
            r#""value":{"nvmlInitWithFlags":{"error":"1234"},"init_us":9}"#,
            Nvml::Fails,
        ),
        (
            r#""refused":"library-missing: libnvidia-ml.so.1: cannot open shared object file""#,
            Nvml::NoLibrary,
        ),
        (r#""refused":"timeout""#, Nvml::Hangs),
        (r#""refused":"crash: killed by signal 11""#, Nvml::Crashes),
    ] {
        let mut lines = LINES[..6].to_vec();
        let system = format!(r#"{{"q":{{"call":"nvml_system"}},{reply}}}"#);
        lines[4] = &system;
        let (facts, node) = run(&PROBE, &lines);
        assert_eq!(facts.known(node, node::NVML), Some(wanted), "{reply}");
        let error = facts.known(node, node::NVML_ERROR).unwrap();
        assert!(&*error != "none" && !error.is_empty(), "{reply}: {error}");
        assert_eq!(facts.known(node, node::NVML_GPUS), None);
        assert_eq!(facts.known(node, node::NVML_UNANSWERED), None);
    }
    // The kernel refused seccomp, or something else kept the doctor from asking: nothing is known of NVML.
    let mut lines = LINES[..6].to_vec();
    lines[4] = r#"{"q":{"call":"nvml_system"},"refused":"not-asked: the kernel cannot keep NVML from changing the machine"}"#;
    let (facts, node) = run(&PROBE, &lines);
    assert_eq!(facts.known(node, node::NVML), None);
}

#[test]
fn no_driver_is_known_where_its_directory_is_seen_not_to_be_there() {
    let absent = [
        r#"{"q":{"read":"/proc/driver/nvidia/version"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/proc/driver/nvidia"},"errno":"ENOENT"}"#,
        r#"{"q":{"list":"/proc/driver"},"names":["rtc"]}"#,
    ];
    let (facts, node) = run(&PROBE, &absent);
    assert_eq!(facts.known(node, node::NVML), Some(Nvml::NoDriver));
    let (facts, node) = run(&PROBE, &absent[..2]);
    assert_eq!(facts.known(node, node::NVML), None);
    // The driver is there, the control device is not.
    let lines = [
        r#"{"q":{"list":"/dev"},"names":["null","nvidia0"]}"#,
        LINES[3],
    ];
    let (facts, node) = run(&PROBE, &lines);
    assert_eq!(facts.known(node, node::NVML), Some(Nvml::NoControlDevice));
}

#[test]
fn addresses_are_those_of_sysfs() {
    for (nvml, sysfs) in [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("00010000:C3:00.0", "10000:c3:00.0"),
        ("00000009:01:00.0", "0009:01:00.0"),
        ("", ""),
    ] {
        assert_eq!(&*address(nvml), sysfs);
    }
}

proptest::proptest! {
    /// Whatever a reply holds, it is read or left open.
    #[test]
    fn no_reply_panics(text in r#"[\[\]{}:,"a-z0-9 ]{0,40}"#, index in 0u64..3) {
        let device = format!(r#"{{"q":{{"call":"nvml_device","index":{index}}},"value":{{"nvmlDeviceGetPciInfo_v3":"00000000:1B:00.0","nvmlDeviceGetComputeRunningProcesses":{0},"fields":{0},"nvmlDeviceGetMigMode":{0},"nvmlDeviceGetGpuFabricInfo":{0}}}}}"#, serde_json::to_string(&text).unwrap());
        let links = format!(r#"{{"q":{{"call":"nvml_links","index":{index}}},"value":{{"links":[{{"link":{0}}},{0},{{"link":1,"nvmlDeviceGetNvLinkState":{0}}}]}}}}"#, serde_json::to_string(&text).unwrap());
        let mut lines = LINES.to_vec();
        lines.insert(0, &device);
        lines.insert(0, &links);
        run(&PROBE, &lines);
    }
}
