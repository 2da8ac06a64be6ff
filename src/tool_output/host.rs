//! The host of which a text says what follows is.

use super::kernel;
use crate::nodeset;

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

/// A line that says whose the lines below it are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// The hosts that printed these lines; more than one where they printed the same.
    pub(super) hosts: Vec<String>,
    /// Whether the command ran there.
    pub(super) ran: bool,
    /// What stands before each line below it.
    pub(super) indent: &'static str,
}

impl Heading {
    fn naming(host: &str) -> Self {
        Heading {
            hosts: vec![host.to_owned()],
            ran: true,
            indent: "",
        }
    }
}

/// Below which command a line stands that may be a heading.
#[derive(Clone, Copy)]
pub(super) struct Below {
    /// One that ran on several hosts, of which the lines are.
    pub(super) is_each: bool,
    /// One of a loop, which may print the host's name and nothing else.
    pub(super) may_be_bare: bool,
}

/// The heading that a line is: `=== n01 ===`, `## Node n01`, `On n01:`; `n[01-03] (3)` between two rules as dshbak(1), clush(1) and xcoll(1)
/// print it; and the lines of parallel-ssh(1), Ansible and Salt. `around` are the lines before and after.
pub(super) fn heading(text: &str, around: [&str; 2], below: Below) -> Option<Heading> {
    if text.starts_with([' ', '\t']) || text.len() > 2000 {
        return None;
    }
    let is_ruled = around.iter().all(|line| is_rule(line));
    let found = of_ansible(text)
        .or_else(|| of_parallel_ssh(text))
        .or_else(|| of_salt(text, around[1]).filter(|_| below.is_each))
        .or_else(|| alike(text).filter(|_| is_ruled));
    found.or_else(|| decorated(text, is_ruled || below.may_be_bare).map(Heading::naming))
}

/// Whether two names differ in their numbers only.
pub(super) fn are_of_one_row(name: &str, other: &str) -> bool {
    let digits = |c: char| c.is_ascii_digit();
    name.trim_end_matches(digits) == other.trim_end_matches(digits)
}

/// The host between marks, or behind a word for one. A bare name needs something that makes a heading of it: a colon behind it is what a package, a
/// version and a device have, too.
fn decorated(text: &str, may_be_bare: bool) -> Option<&str> {
    if text.len() > 100 {
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
        (name, None, _) => {
            let trimmed = text.trim_end();
            let is_marked = bare.len() < trimmed.trim_end_matches(':').len();
            let is_bare = may_be_bare && bare.len() == trimmed.len();
            ((is_marked || is_bare) && is_name(name)).then_some(name)
        }
        _ => None,
    }
}

/// Hosts that one heading may name.
const ALIKE: usize = 4096;

/// `node[01-03] (3)`, `n1,n4`: the hosts that printed the same.
fn alike(text: &str) -> Option<Heading> {
    let bare = text.trim_end();
    let list = match bare.strip_suffix(')').map(|open| open.rsplit_once(" (")) {
        Some(counted) => counted.filter(|(_, count)| count.parse::<u32>().is_ok())?.0,
        None => bare,
    };
    let hosts = nodeset::expand_at_most(list, ALIKE).ok()?;
    let are_hosts = !list.contains(' ') && hosts.iter().all(|name| is_host(name));
    (are_hosts && !hosts.is_empty()).then_some(Heading {
        hosts,
        ran: true,
        indent: "",
    })
}

/// `n1 | CHANGED | rc=0 >>`, `n3 | UNREACHABLE! => {`: what Ansible's command line says above what a host printed.
fn of_ansible(text: &str) -> Option<Heading> {
    let (name, told) = text.split_once(" | ")?;
    let (status, more) = told.split_once(' ')?;
    let is_status = ["CHANGED", "SUCCESS", "FAILED", "FAILED!", "UNREACHABLE!"].contains(&status);
    let is_its = more.starts_with("| rc=") || more.starts_with("=> {");
    (is_status && is_its && is_host(name)).then(|| Heading {
        ran: status != "UNREACHABLE!",
        ..Heading::naming(name)
    })
}

/// `[2] 14:02:11 [SUCCESS] root@n2:22`, as parallel-ssh(1) has it above what a host printed.
fn of_parallel_ssh(text: &str) -> Option<Heading> {
    let mut words = text.splitn(5, ' ');
    let number = words.next()?.strip_prefix('[')?.strip_suffix(']')?;
    let is_time = words.next()?.matches(':').count() == 2;
    let is_status = ["[SUCCESS]", "[FAILURE]"].contains(&words.next()?);
    let name = words.next()?.rsplit('@').next()?.split(':').next()?;
    let is_its = number.parse::<u32>().is_ok() && is_time && is_status && is_host(name);
    is_its.then(|| Heading {
        // ssh(1) ends so where it reaches nobody.
        ran: words.next() != Some("Exited with error code 255"),
        ..Heading::naming(name)
    })
}

/// `n1:` above indented lines, as Salt prints it.
fn of_salt(text: &str, below: &str) -> Option<Heading> {
    let name = text.trim_end().strip_suffix(':')?;
    let indent = "    ";
    (is_host(name) && below.starts_with(indent)).then(|| Heading {
        indent,
        ..Heading::naming(name)
    })
}

/// Whether this is a host's name, or the address by which somebody called it.
fn is_host(name: &str) -> bool {
    is_name(name) || name.parse::<std::net::IpAddr>().is_ok()
}

/// Whether a line is a rule above or below a heading.
pub(super) fn is_rule(line: &str) -> bool {
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
