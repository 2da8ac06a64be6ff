//! Lines that a mail program or a narrow terminal broke: what begins no line of its tool goes on with the line before.

use crate::tool_output::kernel_line;

/// Words in the middle of the first line of an interface and of its addresses.
const OF_INTERFACES: [&str; 12] = [
    "mtu", "qdisc", "master", "state", "mode", "group", "qlen", "scope", "brd", "UP", "DOWN",
    "UNKNOWN",
];

/// The lines as their tool wrote them, with the number of the first part of each.
pub(super) fn joined(tool: &str, lines: impl Iterator<Item = (u64, String)>) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = Vec::new();
    for (number, text) in lines {
        let is_rest =
            |last: &&mut (u64, String)| !begins(tool, &text) && may_break(tool, &last.1, &text);
        match all.last_mut().filter(is_rest) {
            Some((_, last)) => *last += &format!(" {}", text.trim()),
            None => all.push((number, text)),
        }
    }
    all
}

/// Whether a line may go on below. Daemons write lines of all kinds into a journal: there a mail
/// program must have broken a long one in the middle of a sentence.
fn may_break(tool: &str, line: &str, next: &str) -> bool {
    let goes_on = next.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    tool != "journalctl" || (56..=80).contains(&line.len()) && goes_on
}

/// Whether a text begins a line; of tools that are not named here each does.
fn begins(tool: &str, text: &str) -> bool {
    let is_indented = text.starts_with([' ', '\t']);
    let mut words = text.split_whitespace();
    let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    match tool {
        "rdma" => !second.is_empty(),
        "iptables-save" | "ip6tables-save" => {
            first == "-A" || first.starts_with([':', '*', '#', '[', 'C'])
        }
        "iptables" | "ip6tables" => first.starts_with('-'),
        "show_gids" => second.parse::<u32>().is_ok() || first.starts_with(['D', '-', 'n']),
        "mount" => text.contains(" on ") || first.is_empty(),
        "df" => !is_indented,
        "lspci" => is_indented || text.contains(':'),
        // What follows a line that was broken is kept with it and has no time.
        "dmesg" | "journalctl" => kernel_line(text).is_some() || first.is_empty(),
        "ip" => is_indented || !(OF_INTERFACES.contains(&first) || second == "qlen"),
        _ => true,
    }
}
