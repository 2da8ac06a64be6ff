//! What NVML says: a GPU's serial number and UUID, the UUID of a fabric, and the names of programs that use GPUs tell whose machine it is.

use super::key::Key;
use super::{Names, kept};
use crate::source::wire;

/// Members whose texts the driver makes and that are alike on every machine: models, versions, PCI addresses, names of errors.
const PLAIN: &str = "\
    nvmlDeviceGetName nvmlDeviceGetVbiosVersion nvmlDeviceGetGspFirmwareVersion \
    nvmlDeviceGetPciInfo_v3 nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlSystemGetDriverVersion \
    nvmlSystemGetNVMLVersion devices error";

/// A text of a reply, in the member of this name.
pub(super) fn text(names: &Names, member: &str, text: &str) -> String {
    match member {
        member if PLAIN.split(' ').any(|one| one == member) => text.to_owned(),
        "nvmlDeviceGetSerial" => names.key.serial(text),
        "clusterUuid" => cluster(names, text),
        "process" => program(&names.key, text),
        _ => names.free(text),
    }
}

/// The name of a program, unless it runs everywhere.
pub(super) fn program(key: &Key, name: &str) -> String {
    // `<unknown>`
    let is_known = name.is_empty() || name.starts_with('<') || kept::is_known_program(name);
    match is_known {
        true => name.to_owned(),
        false => key.program(name),
    }
}

/// A UUID without its dashes. Zeros, which stand for a fabric within one node, stay.
fn cluster(names: &Names, text: &str) -> String {
    let bytes = match wire::from_hex(text) {
        Some(bytes) if bytes.len() == 16 => bytes,
        _ => return String::new(),
    };
    if bytes.iter().all(|byte| *byte == 0) {
        return text.to_owned();
    }
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or("");
    let dashed = format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    );
    names.free(&dashed).replace('-', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn reply(names: &Names, value: &Value) -> Value {
        let text = |member: &str, one: &str| text(names, member, one);
        crate::source::redact::value::with_texts(value, &text)
    }

    #[test]
    fn what_names_a_machine_goes_and_what_judgement_reads_stays() {
        let names = Names::new(Key::from_text("k"), "node1720", &["alice"]);
        let uuid = "GPU-5e2d1a3c-7b0f-4f2a-9c1d-0123456789ab";
        let raw = json!({
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3", "nvmlDeviceGetSerial": "1652823055123", "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetVbiosVersion": "96.00.89.00.01", "nvmlDeviceGetPciInfo_v3": "00000000:1B:00.0",
            "nvmlDeviceGetModuleId": { "error": "NotSupported" },
            "nvmlDeviceGetGpuFabricInfo": { "clusterUuid": "5e2d1a3c7b0f4f2a9c1d0123456789ab", "state": 3 },
            "nvmlDeviceGetComputeRunningProcesses": [
                { "pid": 4711, "memory": 75_484_889_088_u64, "process": "secret_llm", "ancestors": [4000, 1] },
                { "pid": 4712, "memory": null, "process": "python3.11", "ancestors": [] },
                { "pid": 4713, "memory": 1, "process": "nvidia-cuda-mps", "ancestors": [] },
            ],
        });
        let hidden = reply(&names, &raw);
        for stays in [
            "nvmlDeviceGetName",
            "nvmlDeviceGetVbiosVersion",
            "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetModuleId",
        ] {
            assert_eq!(hidden[stays], raw[stays]);
        }
        let processes = &hidden["nvmlDeviceGetComputeRunningProcesses"];
        assert_eq!(processes[0]["ancestors"], json!([4000, 1]));
        assert!(
            processes[0]["process"]
                .as_str()
                .unwrap()
                .starts_with("program-")
        );
        assert_eq!(processes[1]["process"], "python3.11");
        assert_eq!(processes[2]["process"], "nvidia-cuda-mps");
        let all = hidden.to_string();
        for secret in ["1652823055123", "5e2d1a3c", "secret_llm"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        let own = hidden["nvmlDeviceGetUUID"].as_str().unwrap();
        assert!(own.starts_with("GPU-") && own.len() == uuid.len(), "{own}");
        let cluster = &hidden["nvmlDeviceGetGpuFabricInfo"]["clusterUuid"];
        // The same thing has the same pseudonym.
        assert_eq!(
            cluster.as_str().unwrap(),
            own.trim_start_matches("GPU-").replace('-', "")
        );
        let zeros = json!({ "clusterUuid": "00000000000000000000000000000000" });
        assert_eq!(reply(&names, &zeros), zeros);
    }
}
