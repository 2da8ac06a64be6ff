//! The parameters of NVIDIA's driver, the installed fabric manager, and the channels of IMEX.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Id, Origin, node};
use crate::probe::Ask;

/// The driver's parameters, one a line, as `NvLinkDisable: 0` and `RegistryDwords: ""`.
pub(in crate::probe) const PARAMETERS: &str = "/proc/driver/nvidia/params";
/// A device node for each channel, as channel0.
const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";

pub(super) fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id, driver: &Fact<Arc<str>>) {
    if matches!(driver, Fact::Known(version, _) if &**version == "none") {
        // Without the driver nothing of it is there, and nothing is asked.
        let origin = || Origin::derived("NVIDIA's driver is not loaded");
        let none = || Fact::Known(Arc::from("none"), origin());
        facts.set(node, node::NVLINK_DISABLED, Fact::Known(false, origin()));
        facts.set(node, node::DRIVER_REGISTRY, none());
        facts.set(node, node::EXCLUDED_GPUS, none());
        facts.set(node, node::FABRIC_MANAGER, none());
        facts.set(node, node::IMEX_CHANNELS, Fact::Known(0, origin()));
        return;
    }
    let told = ask.text(PARAMETERS);
    let disabled = told.clone().and_then(|text| match disables_nvlink(&text) {
        // Older drivers have no such parameter.
        None => Ok(false),
        Some(said) => said,
    });
    facts.set(node, node::NVLINK_DISABLED, disabled);
    let named = |names: &[&str]| {
        told.clone().map(|text| {
            let mut values = names.iter().filter_map(|name| parameter(&text, name));
            Arc::from(values.find(|value| !value.is_empty()).unwrap_or("none"))
        })
    };
    let registry = named(&["RegistryDwords", "RegistryDwordsPerDevice"]);
    facts.set(node, node::DRIVER_REGISTRY, registry);
    let excluded = named(&["ExcludedGpus", "GpuBlacklist"]);
    facts.set(node, node::EXCLUDED_GPUS, excluded);
    facts.set(node, node::FABRIC_MANAGER, manager(ask));
    let channels = ask.names_if_any(CHANNELS).map(|names| {
        let channels = names.iter().filter(|name| name.starts_with("channel"));
        channels.count() as u64
    });
    facts.set(node, node::IMEX_CHANNELS, channels.or_absent(0));
}

/// Whether the driver is told to use no NVLink, if these lines say so.
pub(in crate::probe) fn disables_nvlink(text: &str) -> Option<Result<bool, String>> {
    Some(match parameter(text, "NvLinkDisable")? {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("NvLinkDisable: {other}")),
    })
}

/// The value of a parameter, without its quotes.
fn parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"'))
}

fn manager(ask: &Ask<'_>) -> Fact<Arc<str>> {
    ask.command_if_any(&["nv-fabricmanager", "--version"], manager_version)
}

/// `Fabric Manager version is : 550.54.15`
fn manager_version(text: &str) -> Result<Arc<str>, String> {
    text.split_whitespace()
        .find(|word| super::parse::is_version(word))
        .map(Arc::from)
        .ok_or_else(|| format!("{:?} has no version", text.lines().next().unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::driver::PROBE;
    use crate::probe::testing::run;

    const LOADED: &str = r#"{"q":{"read":"/proc/driver/nvidia/version"},"text":"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"}"#;

    fn facts_of(lines: &[&str]) -> (Facts, Id) {
        let lines: Vec<&str> = [LOADED].iter().chain(lines).copied().collect();
        run(&PROBE, &lines)
    }

    #[test]
    fn what_the_driver_was_told() {
        let plain = r#"{"q":{"read":"/proc/driver/nvidia/params"},"text":"ResmanDebugLevel: 4294967295\nNvLinkDisable: 0\nRegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\nGpuBlacklist: \"\"\nExcludedGpus: \"\"\n"}"#;
        let (facts, node) = facts_of(&[plain]);
        assert_eq!(facts.known(node, node::NVLINK_DISABLED), Some(false));
        assert_eq!(
            facts.known(node, node::DRIVER_REGISTRY).as_deref(),
            Some("none")
        );
        assert_eq!(
            facts.known(node, node::EXCLUDED_GPUS).as_deref(),
            Some("none")
        );
        let told = r#"{"q":{"read":"/proc/driver/nvidia/params"},"text":"NvLinkDisable: 1\nRegistryDwords: \"RMDisableP2P=0x1\"\nRegistryDwordsPerDevice: \"\"\nExcludedGpus: \"GPU-1a2b\"\n"}"#;
        let (facts, node) = facts_of(&[told]);
        assert_eq!(facts.known(node, node::NVLINK_DISABLED), Some(true));
        let registry = facts.known(node, node::DRIVER_REGISTRY);
        assert_eq!(registry.as_deref(), Some("RMDisableP2P=0x1"));
        assert_eq!(
            facts.known(node, node::EXCLUDED_GPUS).as_deref(),
            Some("GPU-1a2b")
        );
        let odd = r#"{"q":{"read":"/proc/driver/nvidia/params"},"text":"NvLinkDisable: maybe\n"}"#;
        let (facts, node) = facts_of(&[odd]);
        assert_eq!(facts.known(node, node::NVLINK_DISABLED), None);
        let (facts, node) = facts_of(&[]);
        assert_eq!(facts.known(node, node::NVLINK_DISABLED), None);
        assert_eq!(facts.known(node, node::DRIVER_REGISTRY), None);
    }

    #[test]
    fn the_managers_version_and_its_absence() {
        let says = |reply: &str| {
            let line = format!(r#"{{"q":{{"run":["nv-fabricmanager","--version"]}},{reply}}}"#);
            let (facts, node) = facts_of(&[&line]);
            facts.known(node, node::FABRIC_MANAGER)
        };
        let found = says(r#""text":"Fabric Manager version is : 550.54.15\n""#);
        assert_eq!(found.as_deref(), Some("550.54.15"));
        assert_eq!(
            says(r#""refused":"command-missing""#).as_deref(),
            Some("none")
        );
        assert_eq!(says(r#""text":"usage: é\n""#), None);
        assert_eq!(says(r#""refused":"command-failed 1: no""#), None);
    }

    #[test]
    fn channels_are_counted_where_the_driver_made_them() {
        let (facts, node) = facts_of(&[
            r#"{"q":{"list":"/dev/nvidia-caps-imex-channels"},"names":["channel0","channel1"]}"#,
        ]);
        assert_eq!(facts.known(node, node::IMEX_CHANNELS), Some(2));
        let (facts, node) = facts_of(&[
            r#"{"q":{"list":"/dev/nvidia-caps-imex-channels"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/dev"},"names":["null"]}"#,
        ]);
        assert_eq!(facts.known(node, node::IMEX_CHANNELS), Some(0));
    }

    #[test]
    fn without_the_driver_nothing_is_asked() {
        let (facts, node) = run(
            &PROBE,
            &[
                r#"{"q":{"read":"/proc/driver/nvidia/version"},"errno":"ENOENT"}"#,
                r#"{"q":{"list":"/proc/driver/nvidia"},"errno":"ENOENT"}"#,
                r#"{"q":{"list":"/proc/driver"},"names":["rtc"]}"#,
            ],
        );
        assert_eq!(facts.known(node, node::NVLINK_DISABLED), Some(false));
        assert_eq!(
            facts.known(node, node::FABRIC_MANAGER).as_deref(),
            Some("none")
        );
        assert_eq!(facts.known(node, node::IMEX_CHANNELS), Some(0));
    }
}
