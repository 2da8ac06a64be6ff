//! Tests of the language, its errors and the judge.

mod cases;
mod catalogue;
mod errors;
mod files;
mod judging;
mod language;
mod properties;
mod strict;

use super::{Check, CheckError, file};

/// The example of the design.
pub(super) const RATE_DEGRADED: &str = r#"title    = "A port runs below the rate that it and its cable can do"
severity = "error"
area     = "ports"
subject  = "port"
applies  = 'port.intended and port.state == "active"'
fails    = 'port.rate < port.max_rate and port.rate < port.cable_rate'
finding  = "{port} trained at {port.rate}; port and cable allow {port.max_rate}"
explains = ["bench/below-ceiling", "cluster/slow-rail"]
see      = ["https://docs.kernel.org/infiniband/sysfs.html"]
why = """A link that trains low keeps working, so nothing logs an error; every collective that crosses it runs at the lower rate."""
fix = """
1. (operator) Reseat the cable at both ends, then replace it.
2. (operator) Compare `mlxlink -d {device.pci} -m` on both ends: a raised BER points at the cable.
3. (site) Where the speed was forced on purpose, name it in the profile.
"""

[[example]]
fails = { "port.intended" = true, "port.state" = "active", "port.rate" = "200 Gb/s", "port.max_rate" = "400 Gb/s", "port.cable_rate" = "400 Gb/s" }
[[example]]
passes = { "port.intended" = true, "port.state" = "active", "port.rate" = "400 Gb/s", "port.max_rate" = "400 Gb/s", "port.cable_rate" = "800 Gb/s" }
[[example]]
about = "The cable did not answer, and it decides."
unknown = { "port.intended" = true, "port.state" = "active", "port.rate" = "200 Gb/s", "port.max_rate" = "400 Gb/s", "port.cable_rate" = { unknown = "permission denied" } }
"#;

/// A second whole check, with a limit and of a subject far below the node.
pub(super) const LOSES_PACKETS: &str = r#"title = "A port loses packets and sends them again"
severity = "warning"
subject = "counter"
applies = 'counter.sampled and counter.class == "loss"'
fails = 'counter.rate > limit.rate'
finding = "{port} counts {counter} at {counter.rate}, above {limit.rate}"
explains = ["bench/*"]
see = ["https://docs.kernel.org/infiniband/sysfs.html"]
why = '''
Each lost packet costs a timeout on reliable connections, so few of them cost much.'''
fix = "1. (operator) Look at the switch's port counters."
[limits]
rate = "1 /s"
[[example]]
fails = { counter.sampled = true, counter.class = "loss", counter.rate = "2 /s" }
[[example]]
[example.passes]
"counter.sampled" = true
"counter.class" = "loss"
"counter.rate" = "30 /min"
[[example]]
unknown = { "counter.class" = "loss", "counter.rate" = "2 /s" }
[[example]]
does-not-apply = { "counter.sampled" = false }
"#;

/// A check from its text.
pub(super) fn load(text: &str) -> Result<Check, CheckError> {
    Ok(load_cases(text)?.remove(0))
}

/// The cases of a check from its text.
pub(super) fn load_cases(text: &str) -> Result<Vec<Check>, CheckError> {
    let path = "checks/link/x.toml".into();
    file::parse("link/x", path, text.to_owned().into())
}

/// A check of this id.
pub(super) fn named(id: &str) -> Check {
    let (path, text) = ("x.toml".into(), RATE_DEGRADED.into());
    file::parse(id, path, text).unwrap().remove(0)
}

/// A check of these conditions.
pub(super) fn check(subject: &str, applies: &str, fails: &str) -> Result<Check, CheckError> {
    let applies = match applies {
        "" => String::new(),
        applies => format!("applies = '''{applies}'''\n"),
    };
    load(&format!(
        "title = 't'\nseverity = 'note'\nsubject = '{subject}'\n{applies}fails = '''{fails}'''\nfinding = 'f'\nwhy = 'w'\nfix = 'x'\n[limits]\nrate = '1 /s'\nspeed = '100 Gb/s'\nleast = 3\n"
    ))
}
