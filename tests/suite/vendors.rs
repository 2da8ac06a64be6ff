//! Hardware of other vendors than NVIDIA: each kind is named, judged as far as the kernel shows it, and quiet if nothing is wrong with it. The machines are
//! modelled, on what the drivers of Linux 6.x put into sysfs (Documentation/ABI, drivers/infiniband/hw, drivers/gpu/drm/amd, drivers/accel/habanalabs).

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::place::{Scratch, doctor};

/// A fixture with other replies to some questions.
struct Overlay {
    scratch: Scratch,
    lines: Vec<Value>,
}

impl Overlay {
    /// Over a fixture; its own bases are named too.
    fn of(name: &str, bases: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        for base in bases {
            std::fs::copy(fixtures.join(base), scratch.join(base)).unwrap();
        }
        let header =
            json!({"rdma-doctor-recording": "1.0", "base": bases[0], "altered": "for a test"});
        Overlay {
            scratch,
            lines: vec![header],
        }
    }

    /// The reply to a question, however often a probe asks it.
    fn reply(&mut self, probe: &str, question: Value, reply: &Value) {
        for nth in 0..3 {
            let at = 90_000 + self.lines.len();
            let mut line = json!({"probe": probe, "q": question, "n": nth, "t": at});
            let reply = reply.as_object().unwrap().clone();
            line.as_object_mut().unwrap().extend(reply);
            self.lines.push(line);
        }
    }

    fn text(&mut self, path: &str, text: &str) {
        self.reply("*", json!({"read": path}), &json!({"text": text}));
    }

    fn none(&mut self, path: &str) {
        self.reply("*", json!({"read": path}), &json!({"errno": "ENOENT"}));
    }

    fn names(&mut self, path: &str, names: &[&str]) {
        self.reply("*", json!({"list": path}), &json!({"names": names}));
    }

    fn link(&mut self, path: &str, target: &str) {
        self.reply("*", json!({"link": path}), &json!({"text": target}));
    }

    /// Exit status and report of `check`.
    fn judged(&self, options: &[&str]) -> (i32, Value) {
        let path = self.scratch.join("overlay.jsonl");
        let lines: Vec<String> = self.lines.iter().map(Value::to_string).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let out = Command::new(doctor())
            .args(["check", "--format", "json"])
            .args(options)
            .arg(&path)
            .output()
            .unwrap();
        let report = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)));
        (out.status.code().unwrap(), report)
    }
}

/// Errors and warnings, as check and sentence.
fn troubles(report: &Value) -> Vec<String> {
    let causes = report["causes"].as_array().unwrap().iter();
    causes
        .filter(|cause| cause["severity"] != "note")
        .map(|cause| format!("{}: {}", cause["check"], cause["sentence"]))
        .collect()
}

fn area<'a>(report: &'a Value, name: &str) -> &'a Value {
    let areas = report["areas"].as_array().unwrap();
    areas.iter().find(|area| area["area"] == name).unwrap()
}

/// Two rails of an adapter in place of the fixture's, with the attributes that its driver has: driver of the PCI function, ids, attributes.
fn adapters(driver: &str, ids: [&str; 2], attributes: &[&str]) -> Overlay {
    let bases = ["modelled-roce.jsonl", "vm-without-rdma.jsonl.zst"];
    let mut overlay = Overlay::of(driver, &bases);
    for name in ["mlx5_0", "mlx5_1"] {
        let dir = format!("/sys/class/infiniband/{name}");
        let mut names = vec!["device", "fw_ver", "node_type", "ports"];
        names.extend(attributes);
        names.sort_unstable();
        overlay.names(&dir, &names);
        let target = format!("../../../../bus/pci/drivers/{driver}");
        overlay.link(&format!("{dir}/device/driver"), &target);
        overlay.text(&format!("{dir}/device/vendor"), &format!("{}\n", ids[0]));
        overlay.text(&format!("{dir}/device/device"), &format!("{}\n", ids[1]));
        overlay.none(&format!("{dir}/device/subsystem_vendor"));
        overlay.none(&format!("{dir}/device/subsystem_device"));
        for file in ["board_id", "hca_type"] {
            let path = format!("{dir}/{file}");
            if attributes.contains(&file) {
                overlay.text(&path, "model\n");
            } else {
                overlay.none(&path);
            }
        }
    }
    overlay
}

#[test]
fn healthy_adapters_of_each_vendor_are_quiet() {
    for (driver, ids, attributes) in [
        ("bnxt_en", ["0x14e4", "0x1760"], &["hca_type", "hw_rev"][..]),
        ("ice", ["0x8086", "0x1592"], &["hca_type", "hw_rev"]),
        ("erdma", ["0x1ded", "0x107f"], &[]),
        ("mana", ["0x1414", "0x00ba"], &[]),
        ("ionic", ["0x1dd8", "0x1002"], &["hca_type", "hw_rev"]),
        ("hns3", ["0x19e5", "0xa222"], &[]),
        ("efa", ["0x1d0f", "0xefa2"], &[]),
    ] {
        let mut overlay = adapters(driver, ids, attributes);
        let (status, report) = overlay.judged(&[]);
        assert_eq!(status, 0, "{driver}: {}", report["headline"]);
        assert_eq!(troubles(&report), Vec::<String>::new(), "{driver}");
        for name in ["devices", "verbs", "ports", "roce"] {
            let area = area(&report, name);
            assert_eq!(area["state"], "examined", "{driver}: {area}");
        }
        // What NCCL does with them is said.
        let whole = report.to_string();
        assert!(
            whole.contains("NCCL considers mlx5_0:1, mlx5_1:1"),
            "{driver}: {whole}"
        );
        // One of two equal ports is down.
        let port = "/sys/class/infiniband/mlx5_1/ports/1";
        overlay.text(&format!("{port}/state"), "1: DOWN\n");
        overlay.text(&format!("{port}/phys_state"), "3: Disabled\n");
        let (status, report) = overlay.judged(&[]);
        assert!(matches!(status, 1 | 2), "{driver}: {}", report["headline"]);
        assert!(
            troubles(&report)
                .iter()
                .any(|said| said.contains("mlx5_1/1")),
            "{driver}: {:?}",
            troubles(&report)
        );
    }
}

/// Slingshot has no verbs: only its links are examined, and that is said.
#[test]
fn slingshot_links_are_examined() {
    let bases = ["modelled-slingshot.jsonl", "host-without-rdma.jsonl.zst"];
    let mut overlay = Overlay::of("cxi", &bases);
    let (_, report) = overlay.judged(&["--require", "host"]);
    assert_eq!(troubles(&report), Vec::<String>::new());
    let whole = report.to_string();
    assert!(whole.contains("only their links are examined"), "{whole}");
    // The second generation has its ports by number.
    let port = "/sys/class/cxi/cxi2/device/port";
    overlay.none(&format!("{port}/link"));
    overlay.text(&format!("{port}/0/link/state"), "down\n");
    let (status, report) = overlay.judged(&["--require", "host"]);
    assert_eq!(status, 1, "{}", report["headline"]);
    let [trouble] = &troubles(&report)[..] else {
        panic!("{:?}", troubles(&report));
    };
    assert!(trouble.contains("device/slingshot-link-down"), "{trouble}");
    assert!(trouble.contains("cxi2 (down)"), "{trouble}");
}

const AMD: [&str; 3] = [
    "modelled-amd-gpus.jsonl",
    "modelled-ib.jsonl",
    "vm-without-rdma.jsonl.zst",
];

/// The three accelerators of the fixture as those of another vendor, with its driver.
fn accelerators(driver: &str, class: &str, ids: [&str; 2]) -> Overlay {
    let mut overlay = Overlay::of(driver, &AMD);
    for function in ["0000:1c:00.0", "0000:2c:00.0", "0000:3c:00.0"] {
        let dir = format!("/sys/bus/pci/devices/{function}");
        overlay.text(&format!("{dir}/class"), &format!("{class}\n"));
        overlay.text(&format!("{dir}/vendor"), &format!("{}\n", ids[0]));
        overlay.text(&format!("{dir}/device"), &format!("{}\n", ids[1]));
        let target = format!("../../../../bus/pci/drivers/{driver}");
        overlay.link(&format!("{dir}/driver"), &target);
        let names = ["class", "config", "device", "driver", "numa_node", "vendor"];
        overlay.names(&dir, &names);
    }
    overlay.reply(
        "amd_gpu",
        json!({"list": "/sys/bus/pci/drivers/amdgpu"}),
        &json!({"errno": "ENOENT"}),
    );
    overlay
}

/// Each is counted and named; nobody says that they were examined; the rest of the node is judged.
fn named_and_not_examined(overlay: &Overlay, vendor: &str) {
    let (status, report) = overlay.judged(&[]);
    assert_eq!(status, 3, "{vendor}: {}", report["headline"]);
    assert_eq!(troubles(&report), Vec::<String>::new(), "{vendor}");
    let gpus = area(&report, "gpus");
    assert_ne!(gpus["state"], "examined", "{gpus}");
    assert!(gpus.to_string().contains("3 GPUs"), "{gpus}");
    assert!(
        gpus.to_string().contains("not an NVIDIA GPU"),
        "{vendor}: {gpus}"
    );
    // A site that knows it accepts the node.
    let accepted = ["--require", "devices,verbs,ports,host"];
    let (status, report) = overlay.judged(&accepted);
    assert_eq!(status, 0, "{vendor}: {}", report["headline"]);
}

#[test]
fn healthy_accelerators_of_other_vendors_are_named_and_not_called_examined() {
    let intel = accelerators("xe", "0x038000", ["0x8086", "0x0bda"]);
    named_and_not_examined(&intel, "Intel");
    let gaudi = accelerators("habanalabs", "0x120000", ["0x1da3", "0x1020"]);
    named_and_not_examined(&gaudi, "Gaudi");
}

#[test]
fn healthy_amd_gpus_are_quiet() {
    let mut overlay = Overlay::of("amdgpu", &AMD);
    let errors = "/sys/bus/pci/devices/0000:2c:00.0/ras/umc_err_count";
    overlay.reply(
        "amd_gpu",
        json!({"read": errors}),
        &json!({"text": "ue: 0\nce: 4\n"}),
    );
    let nodes = "/sys/class/kfd/kfd/topology/nodes";
    let list = json!({"list": nodes});
    overlay.reply("amd_gpu", list, &json!({"names": ["0", "1", "2", "3"]}));
    for (node, place) in [("1", 0x1c00), ("2", 0x2c00), ("3", 0x3c00)] {
        let dir = format!("{nodes}/{node}");
        let properties = format!(
            "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\ndevice_id 29857\nlocation_id {place}\ndomain 0\n"
        );
        let read = json!({"read": format!("{dir}/properties")});
        overlay.reply("amd_gpu", read, &json!({"text": properties}));
        let peers: Vec<&str> = ["1", "2", "3"]
            .into_iter()
            .filter(|peer| *peer != node)
            .collect();
        let list = json!({"list": format!("{dir}/io_links")});
        overlay.reply("amd_gpu", list, &json!({"names": ["0", "1"]}));
        for (link, peer) in peers.iter().enumerate() {
            // Type 11 is xGMI (CRAT_IOLINK_TYPE_XGMI, drivers/gpu/drm/amd/amdkfd/kfd_crat.h).
            let text = format!("type 11\nnode_from {node}\nnode_to {peer}\nweight 15\n");
            let read = json!({"read": format!("{dir}/io_links/{link}/properties")});
            overlay.reply("amd_gpu", read, &json!({"text": text}));
        }
    }
    named_and_not_examined(&overlay, "AMD");
}
