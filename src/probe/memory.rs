//! Memory errors, as the memory controllers count them (`Documentation/admin-guide/RAS/main.rst`, EDAC).

use std::sync::Arc;

use super::{Ask, Probe, is_numbered, whole_number};
use crate::fact::kleene::Several;
use crate::fact::{Fact, Facts, Gap, Id, Origin, PerSecond, node};

/// The probe.
pub const PROBE: Probe = Probe::new("memory", run);

const CLASS: &str = "/sys/devices/system/edac/mc";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    // Without a driver of a memory controller nothing counts errors.
    let (names, origin) = match ask.names_if_any(CLASS).or_absent(Arc::default()) {
        Fact::Known(names, origin) => (names, origin),
        Fact::Unknown(gap) => {
            facts.set(node, node::MEMORY_CONTROLLERS, Fact::Unknown(gap));
            return;
        }
    };
    let controllers = names.iter().filter(|name| is_numbered(name, "mc"));
    let controllers: Vec<&Arc<str>> = controllers.collect();
    let count = controllers.len() as u64;
    facts.know(node, node::MEMORY_CONTROLLERS, count, &origin);
    if controllers.is_empty() {
        return;
    }
    let number = |path: &str, file| ask.parse(format!("{path}/{file}"), whole_number);
    let (mut corrected, mut uncorrected) = (Vec::new(), Vec::new());
    let mut shortest: Option<Fact<u64>> = None;
    let mut places = Vec::new();
    for controller in controllers {
        let path = format!("{CLASS}/{controller}");
        let (ce, ue) = (number(&path, "ce_count"), number(&path, "ue_count"));
        if [&ce, &ue].iter().any(|n| n.known().is_some_and(|n| *n > 0)) {
            places.extend(modules(ask, controller, &path));
        }
        corrected.push(ce);
        uncorrected.push(ue);
        let since = number(&path, "seconds_since_reset");
        shortest = Some(match (shortest, since) {
            (Some(Fact::Known(a, o)), Fact::Known(b, _)) if a <= b => Fact::Known(a, o),
            (Some(Fact::Unknown(gap)), _) => Fact::Unknown(gap),
            (_, since) => since,
        });
    }
    let corrected = sum(corrected, &origin);
    let rate = match (&corrected, &shortest) {
        (Fact::Known(count, origin), Some(Fact::Known(seconds, _))) if *seconds > 0 => {
            Fact::Known(PerSecond(*count as f64 / *seconds as f64), origin.clone())
        }
        (Fact::Unknown(gap), _) | (_, Some(Fact::Unknown(gap))) => Fact::Unknown(gap.clone()),
        _ => Fact::Unknown(Gap::not_said("counted for no second yet", origin.clone())),
    };
    facts.set(node, node::MEMORY_CORRECTED, corrected);
    facts.set(node, node::MEMORY_CORRECTED_RATE, rate);
    facts.set(node, node::MEMORY_UNCORRECTED, sum(uncorrected, &origin));
    let places: Arc<str> = match places.is_empty() {
        true => "no module named".into(),
        false => places.join(", ").into(),
    };
    facts.set(node, node::MEMORY_MODULES, Fact::Known(places, origin));
}

/// Which modules of a controller had errors: their labels.
fn modules(ask: &Ask<'_>, controller: &str, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Fact::Known(names, _) = ask.names(path.to_owned()) else {
        return found;
    };
    let is_module = |name: &&Arc<str>| is_numbered(name, "dimm") || is_numbered(name, "rank");
    for name in names.iter().filter(is_module) {
        let path = format!("{path}/{name}");
        let count = |kind: &str| {
            let count = ask.parse(format!("{path}/dimm_{kind}_count"), whole_number);
            count.known().copied().unwrap_or(0)
        };
        let (ce, ue) = (count("ce"), count("ue"));
        if ce + ue > 0 {
            let label = ask.text(format!("{path}/dimm_label"));
            let label = label.known().filter(|label| !label.is_empty()).cloned();
            let label = label.unwrap_or_else(|| format!("{controller} {name}").into());
            found.push(format!("{label} ({ce} corrected, {ue} uncorrected)"));
        }
    }
    found
}

/// The sum of counts. An error that was counted is one, whatever another controller says.
fn sum(counts: Vec<Fact<u64>>, origin: &Origin) -> Fact<u64> {
    let counts: Several<u64> = counts.into_iter().collect();
    let total = counts
        .answered()
        .iter()
        .fold(0, |sum: u64, n| sum.saturating_add(*n));
    let open = counts.open().filter(|_| total == 0).cloned();
    Fact::Known(total, origin.clone()).unless(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::run;

    const TWO: &str =
        r#"{"q":{"list":"/sys/devices/system/edac/mc"},"names":["mc0","mc1","power","uevent"]}"#;

    fn count(controller: u32, kind: &str, n: u64) -> String {
        format!(r#"{{"q":{{"read":"{CLASS}/mc{controller}/{kind}"}},"text":"{n}\n"}}"#)
    }

    #[test]
    fn errors_add_up_and_name_their_module() {
        let lines = [
            TWO.to_owned(),
            count(0, "ce_count", 0),
            count(0, "ue_count", 0),
            count(0, "seconds_since_reset", 7200),
            count(1, "ce_count", 7200),
            count(1, "ue_count", 1),
            count(1, "seconds_since_reset", 3600),
            r#"{"q":{"list":"/sys/devices/system/edac/mc/mc1"},"names":["ce_count","dimm0","dimm1"]}"#.into(),
            count(1, "dimm0/dimm_ce_count", 0),
            count(1, "dimm0/dimm_ue_count", 0),
            count(1, "dimm1/dimm_ce_count", 7200),
            count(1, "dimm1/dimm_ue_count", 1),
            r#"{"q":{"read":"/sys/devices/system/edac/mc/mc1/dimm1/dimm_label"},"text":"CPU1_DIMM_B2\n"}"#.into(),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (facts, node) = run(&PROBE, &lines);
        assert_eq!(facts.known(node, node::MEMORY_CONTROLLERS), Some(2));
        assert_eq!(facts.known(node, node::MEMORY_CORRECTED), Some(7200));
        assert_eq!(facts.known(node, node::MEMORY_UNCORRECTED), Some(1));
        assert_eq!(
            facts.known(node, node::MEMORY_CORRECTED_RATE),
            Some(PerSecond(2.0))
        );
        let modules = facts.known(node, node::MEMORY_MODULES);
        assert_eq!(
            modules.as_deref(),
            Some("CPU1_DIMM_B2 (7200 corrected, 1 uncorrected)")
        );
    }

    #[test]
    fn without_controllers_nobody_counts() {
        let absent = [
            r#"{"q":{"list":"/sys/devices/system/edac/mc"},"errno":"ENOENT"}"#,
            r#"{"q":{"list":"/sys/devices/system/edac"},"names":["power"]}"#,
        ];
        let (facts, node) = run(&PROBE, &absent);
        assert_eq!(facts.known(node, node::MEMORY_CONTROLLERS), Some(0));
        assert_eq!(facts.known(node, node::MEMORY_UNCORRECTED), None);
        let (facts, node) = run(&PROBE, &absent[..1]);
        assert_eq!(facts.known(node, node::MEMORY_CONTROLLERS), None);
    }

    #[test]
    fn a_controller_that_does_not_answer_is_no_zero() {
        let ue = count(1, "ue_count", 0);
        let (facts, node) = run(&PROBE, &[TWO, &ue]);
        assert_eq!(facts.known(node, node::MEMORY_UNCORRECTED), None);
        let ue = count(1, "ue_count", 3);
        let (facts, node) = run(&PROBE, &[TWO, &ue]);
        assert_eq!(facts.known(node, node::MEMORY_UNCORRECTED), Some(3));
    }
}
