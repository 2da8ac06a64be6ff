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
        match all.last_mut().filter(|_| !begins(tool, &text)) {
            Some((_, last)) => *last += &format!(" {}", text.trim()),
            None => all.push((number, text)),
        }
    }
    all
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
