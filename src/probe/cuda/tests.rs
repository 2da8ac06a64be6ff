use super::*;
use crate::fact::Membership;
use crate::probe::testing::{known, run};

const VERSION: &str = r#"{"q":{"read":"/proc/driver/nvidia/version"},"text":"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15\n"}"#;
const DEV: &str = r#"{"q":{"list":"/dev"},"names":["null","nvidia-uvm","nvidia0","nvidiactl"]}"#;
const ENV: &str = r#"{"q":{"env":["CUDA_VISIBLE_DEVICES"]},"value":{}}"#;
const INIT: &str = r#"{"q":{"call":"cuInit"},"value":{"ms":412}}"#;
const DRIVER: &str = r#"{"q":{"call":"cuDriverGetVersion"},"value":{"version":12080}}"#;

/// A device of an H100, at a bus.
fn device(number: u64, bus: u64) -> String {
    format!(
        r#"{{"q":{{"call":"cuDeviceGetAttribute","device":{number}}},"value":{{"model":"NVIDIA H100 80GB HBM3","pci_domain":0,"pci_bus":{bus},"pci_device":0,"major":9,"minor":0,"compute_mode":0,"integrated":0,"copy_engines":3,"unified_addressing":1,"page_tables":0,"virtual_memory":1,"gpudirect_rdma":1,"gpudirect_rdma_vmm":1,"flush_writes":1,"writes_ordering":200,"dma_buf":1,"fabric_handles":0,"multicast":null}}}}"#
    )
}

fn access(number: u64, peers: &str) -> String {
    format!(
        r#"{{"q":{{"call":"cuDeviceCanAccessPeer","device":{number}}},"value":{{"peers":{peers}}}}}"#
    )
}

#[test]
fn devices_are_the_gpus_of_the_bus_and_pairs_have_two_directions() {
    let count = r#"{"q":{"call":"cuDeviceGetCount"},"value":{"count":2}}"#;
    // CUDA counts by speed: its first device has the higher address.
    let lines = [
        device(0, 0x43),
        device(1, 0x1b),
        access(0, "[null,0]"),
        access(1, "[1,null]"),
    ];
    let mut all = vec![VERSION, DEV, ENV, DRIVER, INIT, count];
    all.extend(lines.iter().map(String::as_str));
    let (facts, node) = run(&PROBE, &all);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::Works));
    assert_eq!(
        facts.known(node, node::CUDA_DRIVER).as_deref(),
        Some("12.8")
    );
    assert_eq!(facts.known(node, node::CUDA_ERROR).as_deref(), Some("none"));
    assert_eq!(
        facts.known(node, node::CUDA_INIT_TIME),
        Some(Seconds(0.412))
    );
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(2));
    assert_eq!(facts.known(node, node::CUDA_MASKED), Some(false));
    let gpu = "0000:43:00.0";
    assert_eq!(known(&facts, Subject::Gpu, gpu, gpu::CUDA_INDEX), Some(0));
    assert_eq!(
        known(&facts, Subject::Gpu, gpu, gpu::COMPUTE_CAPABILITY),
        Some(90)
    );
    assert_eq!(known(&facts, Subject::Gpu, gpu, gpu::DMA_BUF), Some(true));
    // An attribute that the driver does not know is one that it does not have.
    assert_eq!(
        known(&facts, Subject::Gpu, gpu, gpu::MULTICAST),
        Some(false)
    );
    let pair = "0000:1b:00.0 - 0000:43:00.0";
    assert_eq!(
        known(&facts, Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::GpuPair, pair, gpu_pair::CUDA_ACCESS_BACK),
        Some(false)
    );
}

#[test]
fn what_cuda_says_instead_of_working() {
    for (reply, state, error) in [
        (
            r#""value":{"failed":"cuInit","code":802,"error":"CUDA_ERROR_SYSTEM_NOT_READY"}"#,
            Some(Cuda::NotReady),
            Some("CUDA_ERROR_SYSTEM_NOT_READY (802)"),
        ),
        (
            r#""value":{"failed":"cuInit","code":803,"error":"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}"#,
            Some(Cuda::Mismatch),
            Some("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        ),
        (
            r#""value":{"failed":"cuInit","code":804,"error":""}"#,
            Some(Cuda::CompatUnsupported),
            Some("error 804"),
        ),
        (
            r#""value":{"failed":"cuInit","code":34,"error":"CUDA_ERROR_STUB_LIBRARY"}"#,
            Some(Cuda::Stub),
            Some("CUDA_ERROR_STUB_LIBRARY (34)"),
        ),
        (
            r#""value":{"failed":"cuInit","code":999,"error":"CUDA_ERROR_UNKNOWN"}"#,
            Some(Cuda::Fails),
            Some("CUDA_ERROR_UNKNOWN (999)"),
        ),
        (
            r#""refused":"library-missing: libcuda.so.1: cannot open shared object file""#,
            Some(Cuda::NoLibrary),
            Some("libcuda.so.1: cannot open shared object file"),
        ),
        (
            r#""refused":"symbol-missing: cuInit""#,
            Some(Cuda::Fails),
            Some("the library lacks cuInit"),
        ),
        (r#""refused":"timeout""#, None, None),
        (
            r#""refused":"crash: its process was killed by signal 6""#,
            None,
            None,
        ),
    ] {
        let init = format!(r#"{{"q":{{"call":"cuInit"}},{reply}}}"#);
        let (mut facts, node) = run(&PROBE, &[VERSION, DEV, ENV, DRIVER, &init]);
        assert_eq!(facts.known(node, node::CUDA), state, "{reply}");
        assert_eq!(
            facts.known(node, node::CUDA_ERROR).as_deref(),
            error,
            "{reply}"
        );
        assert_eq!(facts.known(node, node::CUDA_DEVICES), None, "{reply}");
        let gpu = facts.instance(Subject::Gpu, node, "0000:1b:00.0");
        assert_eq!(facts.known(gpu, gpu::IN_CUDA), None);
    }
    let init = r#"{"q":{"call":"cuInit"},"value":{"failed":"cuInit","code":100,"error":"CUDA_ERROR_NO_DEVICE"}}"#;
    let mask = r#"{"q":{"env":["CUDA_VISIBLE_DEVICES"]},"value":{"CUDA_VISIBLE_DEVICES":""}}"#;
    let (facts, node) = run(&PROBE, &[VERSION, DEV, mask, DRIVER, init]);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::NoDevice));
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(0));
    assert_eq!(facts.known(node, node::CUDA_MASKED), Some(true));
}

#[test]
fn nothing_is_asked_where_asking_would_change_the_machine() {
    let parent = r#"{"q":{"list":"/proc/driver"},"names":["rtc"]}"#;
    let grand = r#"{"q":{"list":"/proc/driver/nvidia"},"errno":"ENOENT"}"#;
    let absent = r#"{"q":{"read":"/proc/driver/nvidia/version"},"errno":"ENOENT"}"#;
    let (facts, node) = run(&PROBE, &[absent, grand, parent, INIT]);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::NoDriver));
    assert_eq!(facts.known(node, node::CUDA_DEVICES), Some(0));
    let dev = r#"{"q":{"list":"/dev"},"names":["null","nvidia0","nvidiactl"]}"#;
    let (facts, node) = run(&PROBE, &[VERSION, dev, INIT]);
    assert_eq!(facts.known(node, node::CUDA), Some(Cuda::NoControlDevice));
    assert_eq!(facts.known(node, node::CUDA_DEVICES), None);
}

#[test]
fn a_device_that_does_not_answer_leaves_open_which_gpus_are_shown() {
    let count = r#"{"q":{"call":"cuDeviceGetCount"},"value":{"count":2}}"#;
    let lost = r#"{"q":{"call":"cuDeviceGetAttribute","device":1},"value":{"failed":"cuDeviceGetName","code":999,"error":"CUDA_ERROR_UNKNOWN"}}"#;
    let one = device(0, 0x1b);
    let lines: Vec<String> = [VERSION, DEV, ENV, DRIVER, INIT, count, lost, &one]
        .map(|line| line.replacen('{', r#"{"probe":"cuda","#, 1))
        .into();
    let mut recording = crate::source::recording::Recording::new(Default::default());
    for line in &lines {
        recording.add(crate::source::wire::parse_line(line).unwrap());
    }
    let mut facts = Facts::new();
    let node = facts.new_node("n");
    for pci in ["0000:1b:00.0", "0000:43:00.0"] {
        facts.instance(Subject::Gpu, node, pci);
    }
    facts.set_members(
        Subject::Gpu,
        node,
        Membership::Known(crate::fact::Origin::Stated),
    );
    (PROBE.run)(&Ask::new(&recording.of("cuda")), &mut facts, node);
    assert_eq!(
        known(&facts, Subject::Gpu, "0000:1b:00.0", gpu::IN_CUDA),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Gpu, "0000:43:00.0", gpu::IN_CUDA),
        None
    );
}
