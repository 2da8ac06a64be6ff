//! Rows that a command printed on several hosts: those of each host are an output.

use std::collections::HashSet;

use super::{Block, host};

const QUERY: &str = "--query-gpu";
/// Hosts of a parallel shell that are told apart.
const HOSTS: usize = 4096;
/// What people call the column of a host.
const HOST_COLUMNS: [&str; 4] = ["hostname", "host", "node", "server"];
const ADDRESS_COLUMNS: [&str; 2] = ["pci.bus_id", "gpu_bus_id"];

/// The output of each host.
pub(super) fn split_by_host(block: Block) -> Vec<Block> {
    let Some(query) = block.argv.iter().find(|word| word.starts_with(QUERY)) else {
        return vec![block];
    };
    let is_sampled = |word: &String| word.starts_with("-l") || word.starts_with("--loop");
    let mut rows = Rows {
        columns: columns(query.split_once('=').map_or("", |(_, asked)| asked)),
        is_sampled: block.argv.iter().any(is_sampled),
        ..Rows::default()
    };
    for (number, text) in &block.lines {
        rows.add(*number, text);
    }
    if let [] | [HostRows { host: None, .. }] = rows.hosts.as_slice() {
        return vec![block];
    }
    let mut blocks = Vec::new();
    for (at, of_host) in rows.hosts.into_iter().enumerate() {
        // Of a host that the text names, those behind the first are of others.
        let host = of_host.host.or_else(|| match (&block.host, at) {
            (Some(name), 1..) => Some(format!("{name} ({})", at + 1)),
            (name, _) => name.clone(),
        });
        blocks.push(Block {
            host,
            argv: block.argv.clone(),
            is_cut: block.is_cut,
            by_mark: block.by_mark,
            lines: of_host.lines,
        });
    }
    blocks
}

/// The output of each host of a parallel shell, which puts its name before each line.
pub(super) fn by_name(block: Block) -> Vec<Block> {
    let mut of_hosts: Vec<Block> = Vec::new();
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    for (number, text) in &block.lines {
        let Some((name, rest)) = text.split_once(':') else {
            continue;
        };
        if name.is_empty() || !name.bytes().all(plain) {
            continue;
        }
        let line = (*number, rest.strip_prefix(' ').unwrap_or(rest).to_owned());
        let known = of_hosts
            .iter_mut()
            .find(|of| of.host.as_deref() == Some(name));
        if let Some(of_host) = known {
            of_host.lines.push(line);
        } else if of_hosts.len() < HOSTS {
            of_hosts.push(Block {
                host: Some(name.to_owned()),
                argv: block.argv.clone(),
                is_cut: block.is_cut,
                by_mark: block.by_mark,
                lines: vec![line],
            });
        }
    }
    if of_hosts.is_empty() {
        return vec![block];
    }
    of_hosts
}

/// The output of each host that a loop went through, where each printed one line and no name.
pub(super) fn by_turn(block: Block, hosts: &[String]) -> Vec<Block> {
    if hosts.len() < 2 || block.lines.len() != hosts.len() {
        return vec![block];
    }
    let mut of_hosts = Vec::with_capacity(hosts.len());
    for (host, line) in hosts.iter().zip(block.lines) {
        of_hosts.push(Block {
            host: Some(host.clone()),
            argv: block.argv.clone(),
            is_cut: block.is_cut,
            by_mark: block.by_mark,
            lines: vec![line],
        });
    }
    of_hosts
}

/// Rows as they are divided among hosts.
#[derive(Default)]
struct Rows {
    columns: Vec<String>,
    /// The line that names them.
    header: Option<(u64, String)>,
    /// Whether each GPU has many rows.
    is_sampled: bool,
    /// Whether the columns were just named: what follows is of another machine.
    is_after_header: bool,
    hosts: Vec<HostRows>,
}

/// The rows of one host.
struct HostRows {
    host: Option<String>,
    lines: Vec<(u64, String)>,
    /// The addresses of its GPUs.
    addresses: HashSet<String>,
}

impl Rows {
    fn add(&mut self, number: u64, text: &str) {
        let (mut name, row) = match text.split_once(": ") {
            Some((name, row)) if host::is_name(name) => (Some(name), row),
            _ => (None, text),
        };
        if is_header(row) {
            self.columns = columns(row);
            self.is_sampled |= self.position(&["timestamp"]).is_some();
            self.header = Some((number, row.to_owned()));
            self.is_after_header = true;
            return;
        }
        let mut values: Vec<&str> = row.split(',').map(str::trim).collect();
        let mut row = row.to_owned();
        if let Some(at) = self.position(&HOST_COLUMNS) {
            name = name.or(values.get(at).copied());
        } else if values.len() == self.columns.len() + 1 && host::is_name(values[0]) {
            // Somebody put it before what the command printed.
            name = name.or(Some(values.remove(0)));
            row = values.join(", ");
        }
        let address = self
            .position(&ADDRESS_COLUMNS)
            .and_then(|at| values.get(at));
        let at = self.place(name, address.copied());
        if let Some(host) = self.hosts.get_mut(at) {
            host.lines.push((number, row));
            host.addresses
                .extend(address.map(|address| (*address).to_owned()));
        }
    }

    fn position(&self, names: &[&str]) -> Option<usize> {
        let mut columns = self.columns.iter();
        columns.position(|column| names.contains(&&**column))
    }

    /// Where a row belongs: to its host, else to the last one, unless that has the GPU already.
    fn place(&mut self, name: Option<&str>, address: Option<&str>) -> usize {
        let known = match name {
            Some(name) => self
                .hosts
                .iter()
                .position(|host| host.host.as_deref() == Some(name)),
            None => self.hosts.iter().rposition(|host| host.host.is_none()),
        };
        let is_after_header = std::mem::take(&mut self.is_after_header);
        let is_another = |host: &HostRows| {
            let is_known = address.is_some_and(|address| host.addresses.contains(address));
            name.is_none() && (is_after_header || is_known && !self.is_sampled)
        };
        if let Some(at) = known
            && !is_another(&self.hosts[at])
        {
            return at;
        }
        self.hosts.push(HostRows {
            host: name.map(str::to_owned),
            lines: self.header.clone().into_iter().collect(),
            addresses: HashSet::new(),
        });
        self.hosts.len() - 1
    }
}

/// The names of columns without their units: `memory.total [MiB]`.
fn columns(text: &str) -> Vec<String> {
    let names = text
        .split(',')
        .map(|name| name.split('[').next().unwrap_or(name));
    names.map(|name| name.trim().to_lowercase()).collect()
}

/// Whether a line names columns.
fn is_header(row: &str) -> bool {
    let columns = columns(row);
    columns.len() > 1
        && columns
            .iter()
            .any(|column| column == "index" || ADDRESS_COLUMNS.contains(&&**column))
        && columns
            .iter()
            .all(|column| !column.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use crate::tool_output::blocks;

    /// Whose rows a text holds, and how many each has.
    fn hosts(text: &str) -> Vec<(String, usize)> {
        let found = blocks((1..).zip(text.lines())).blocks.into_iter();
        let named = |host: Option<String>| host.unwrap_or_else(|| "-".to_owned());
        let rows = found.map(|block| {
            let is_row = |(_, line): &&(u64, String)| line.contains("0000:");
            (named(block.host), block.lines.iter().filter(is_row).count())
        });
        rows.collect()
    }

    fn said(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
        let all = expected
            .iter()
            .map(|(host, rows)| ((*host).to_owned(), *rows));
        all.collect()
    }

    const ROWS: &str = "0, 00000000:19:00.0, H100\n1, 00000000:3B:00.0, H100\n";

    fn tagged(host: &str, between: &str) -> String {
        ROWS.lines()
            .fold(String::new(), |all, row| all + host + between + row + "\n")
    }

    #[test]
    fn a_parallel_shell_names_the_host_of_each_row() {
        let both = [tagged("n1", ": "), tagged("n2", ": ")].concat();
        let command = "nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv,noheader";
        for line in [
            format!("$ pdsh -w n[1-2] {command}\n{both}"),
            format!("[root@head ~]# clush -w n1,n2 '{command}'\n{both}"),
            format!("$ {command}\n{both}"),
        ] {
            assert_eq!(hosts(&line), said(&[("n1", 2), ("n2", 2)]), "{line}");
        }
        let header = "n1: index, pci.bus_id, name\n";
        let other = header.replace("n1", "n2");
        let text = [header, &tagged("n1", ": "), &other, &tagged("n2", ": ")].concat();
        assert_eq!(hosts(&text), said(&[("n1", 2), ("n2", 2)]));
    }

    #[test]
    fn a_column_names_the_host_of_each_row() {
        let both = [tagged("n1", ", "), tagged("gpu-a", ", ")].concat();
        for name in ["hostname", "host", "node"] {
            let text = format!("{name}, index, pci.bus_id, name\n{both}");
            assert_eq!(hosts(&text), said(&[("n1", 2), ("gpu-a", 2)]), "{name}");
        }
        let command = "$ nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv,noheader\n";
        let both = [command, &tagged("n1", ", "), &tagged("n2", ", ")].concat();
        assert_eq!(hosts(&both), said(&[("n1", 2), ("n2", 2)]));
    }

    #[test]
    fn an_address_that_comes_again_is_of_another_machine_unless_it_is_sampled() {
        let header = "index, pci.bus_id, name\n";
        let twice = [header, ROWS, ROWS].concat();
        assert_eq!(hosts(&twice), said(&[("-", 2), ("-", 2)]));
        let again = [header, ROWS, header, ROWS].concat();
        assert_eq!(hosts(&again), said(&[("-", 2), ("-", 2)]));
        let command = "$ nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv -l 1\n";
        let sampled = [command, header, ROWS, ROWS].concat();
        assert_eq!(hosts(&sampled), said(&[("-", 4)]));
        assert_eq!(hosts(&[header, ROWS].concat()), said(&[("-", 2)]));
    }
}
