//! The host of which a text says what follows is.

use super::kernel;

/// Beginnings of names that devices have, and hosts have not.
const DEVICES: [&str; 17] = [
    "mlx5_", "mlx4_", "bnxt", "rocep", "ibp", "ib0", "ib1", "eth", "ens", "enp", "eno", "bond",
    "port", "nic", "fan", "step", "rank",
];

/// Whether this can be the name of a host: of the characters that names have, with a digit, as the nodes of a cluster have.
pub fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    name.len() >= 2
        && name.len() <= 64
        && name.bytes().all(fits)
        && name.bytes().any(|b| b.is_ascii_digit())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !DEVICES.iter().any(|device| name.starts_with(device))
        && !name.starts_with("GPU")
        && !name.starts_with("NIC")
        && !name.starts_with("Fan")
}

/// Words before the name of a host in a heading.
const LEADS: [&str; 7] = [
    "host", "node", "server", "machine", "on", "from", "hostname",
];

/// The host that a heading names: `=== n01 ===`, `## Node n01`, `On n01:`, and between two rules as
/// dshbak(1) and clush(1) print it. `around` are the lines before and after.
pub(super) fn heading<'t>(text: &'t str, around: [&str; 2]) -> Option<&'t str> {
    if text.starts_with([' ', '\t']) || text.len() > 100 {
        return None;
    }
    let marks = |c: char| matches!(c, '=' | '#' | '*' | '-' | ' ' | '<' | '>' | '|' | '`' | ':');
    let bare = text.trim_matches(marks);
    let mut words = bare.split_whitespace();
    match (words.next()?, words.next(), words.next()) {
        (lead, Some(name), None) => {
            let name = name.trim_matches(marks);
            let lead = lead.trim_matches(marks).to_lowercase();
            (LEADS.contains(&&*lead) && is_name(name)).then_some(name)
        }
        // A bare name needs something that makes a heading of it: a colon behind it is what a
        // package, a version and a device have, too.
        (name, None, _) => {
            let without_colon = text.trim_end().trim_end_matches(':');
            let is_heading = bare.len() < without_colon.len() || around.iter().all(|l| is_rule(l));
            (is_heading && is_name(name)).then_some(name)
        }
        _ => None,
    }
}

fn is_rule(line: &str) -> bool {
    line.len() >= 5 && line.bytes().all(|b| matches!(b, b'-' | b'='))
}

/// The host in a line that a logging daemon wrote: `Jun  3 10:00:01 node17 kernel: text`, `2024-06-03T10:00:01+00:00 node17 kernel: text`,
/// and without a time.
pub(super) fn of_syslog(text: &str) -> Option<&str> {
    let before = match text.split_once(" kernel: ") {
        Some((before, _)) => before,
        None => kernel::of_networkd(text)?.0,
    };
    let mut words = before.split_whitespace().rev();
    let name = words.next()?;
    let is_time = match words.next() {
        Some(time) => time.matches(':').count() >= 2,
        None => is_name(name),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    (is_time && before.len() < 100 && name.bytes().all(fits)).then_some(name)
}
