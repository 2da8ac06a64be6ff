//! The lines that only one tool writes, and the tools of which the output is read: the rows are in
//! `marks.toml`.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::kernel;

/// A line that begins the output of a tool: the command that writes it, its beginning, and what
/// else it holds.
type Mark = (
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const MARKS: &[Mark] = include!(concat!(env!("OUT_DIR"), "/marks.marks.rs"));

/// The rows by their first bytes: each line is asked many times, with less and less of what may
/// stand before it.
static BY_BEGIN: LazyLock<Vec<Vec<&Mark>>> = LazyLock::new(|| {
    let begins = |byte: u8| {
        let first = |mark: &&Mark| mark.1.bytes().next().is_none_or(|first| first == byte);
        MARKS.iter().filter(first).collect()
    };
    (0..=u8::MAX).map(begins).collect()
});

/// One of the words of each mark that can stand anywhere in a line.
static INNER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let inner = MARKS.iter().filter(|(_, first, _)| first.is_empty());
    let words = inner.filter_map(|(_, _, more)| more.iter().max_by_key(|part| part.len()));
    AhoCorasick::new(words).ok()
});

/// Tools that are known by the line of their command alone.
const COMMANDS: &[&str] = include!(concat!(env!("OUT_DIR"), "/marks.commands.rs"));

/// Words that stand behind a tool's name in a heading.
const ARGUMENTS: &[&str] = include!(concat!(env!("OUT_DIR"), "/marks.arguments.rs"));

/// What of a tool with many subjects is read: words of its command, and nothing at all for what it
/// prints without options.
const SUBJECTS: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/marks.subjects.rs"));

/// Tools whose output is read, whatever their arguments.
const READ: &[&str] = include!(concat!(env!("OUT_DIR"), "/marks.read.rs"));

/// Commands that print the log of a program.
const PRINTS_LOG: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/marks.prints_log.rs"));

/// Tools whose output holds lines of the logs of others.
const CARRIES_LOG: &[&str] = include!(concat!(env!("OUT_DIR"), "/marks.carries_log.rs"));

/// Whether what a command prints is the log of a program, and no output of its own.
pub(super) fn prints_log(argv: &[String]) -> bool {
    let Some((tool, rest)) = argv.split_first() else {
        return false;
    };
    let has_verb = |verbs: &[&str]| rest.iter().any(|word| verbs.contains(&word.as_str()));
    PRINTS_LOG
        .iter()
        .any(|(name, verbs)| tool == name && has_verb(verbs))
}

/// Whether the output of a command holds lines of the logs of others, beside what is its own.
pub fn carries_log(argv: &[impl AsRef<str>]) -> bool {
    let tool = argv.first().map(AsRef::as_ref);
    tool.is_some_and(|tool| CARRIES_LOG.contains(&tool))
}

/// Whether a command shows lines of the kernel's log.
pub fn is_of_kernel(argv: &[impl AsRef<str>]) -> bool {
    let tool = argv.first().map(AsRef::as_ref);
    matches!(tool, Some("dmesg" | "journalctl"))
}

/// Whether this is the name of a tool that is known.
pub fn is_tool(name: &str) -> bool {
    COMMANDS.contains(&name)
        || MARKS
            .iter()
            .any(|(argv, ..)| argv[0] == name && name != "log")
}

/// Whether this word belongs to a command and not to a sentence.
pub(super) fn is_argument(word: &str) -> bool {
    ARGUMENTS.contains(&word)
        || word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a mark that can stand anywhere in a line may be in this one.
pub(super) fn has_inner_mark(text: &str) -> bool {
    if INNER.as_ref().is_some_and(|words| !words.is_match(text)) {
        return false;
    }
    let mut inner = MARKS.iter().filter(|(_, first, _)| first.is_empty());
    inner.any(|(_, _, more)| more.iter().all(|part| text.contains(part)))
}

/// The command that writes a line like this, if only one does.
pub(super) fn tool_of(text: &str) -> Option<&'static [&'static str]> {
    tool_of_part(text, true)
}

/// The same of a part of a line; `inner` is whether the line has an inner mark.
pub(super) fn tool_of_part(text: &str, inner: bool) -> Option<&'static [&'static str]> {
    let line = text.trim();
    let fits = |(_, first, more): &&&Mark| {
        (inner || !first.is_empty())
            && line.starts_with(first)
            && more.iter().all(|part| line.contains(part))
    };
    let begin = usize::from(line.bytes().next().unwrap_or(0));
    let marks = BY_BEGIN.get(begin).map_or(&[][..], Vec::as_slice);
    if let Some((argv, ..)) = marks.iter().find(fits) {
        // Sentences hold the words of these.
        let is_sentence = match *argv {
            ["env"] => !is_variable(line),
            ["nft", "list", ..] => !line.ends_with('{'),
            ["ibstat"] => !line.ends_with('\''),
            ["opensm.log"] => !is_of_opensm(line),
            ["log", "perftest"] if line.starts_with("Couldn't") => !ends_with_port(line),
            _ => false,
        };
        return (!is_sentence).then_some(*argv);
    }
    if kernel::is_kernel(text) {
        return Some(&["dmesg"]);
    }
    // perftest's title stands above what it reports about its connection.
    if (line.ends_with(" BW Test") || line.ends_with(" Latency Test"))
        && line.split_whitespace().count() < 8
    {
        return Some(&["log", "perftest"]);
    }
    if is_link(text) {
        return Some(&["ip", "addr"]);
    }
    if is_function(text) {
        return Some(&["lspci", "-vvv"]);
    }
    if is_package(line) {
        return Some(&["rpm", "-qa"]);
    }
    if is_gpu_heading(text) {
        return Some(&["nvidia-smi", "-q"]);
    }
    if is_port_heading(line) {
        return Some(&["ibstat"]);
    }
    if stated_ports(line).is_some() {
        return Some(&["log", STATED_PORTS]);
    }
    let gpus = line.split_whitespace().take_while(|word| {
        ["GPU", "NIC", "mlx5_"].iter().any(|name| {
            word.strip_prefix(name)
                .is_some_and(|n| n.parse::<u8>().is_ok())
        })
    });
    (line.starts_with("GPU0") && (gpus.count() > 1 || line.contains("CPU Affinity"))).then_some(&[
        "nvidia-smi",
        "topo",
        "-m",
    ])
}

/// Whether a line belongs to the test of perftest of which these lines are: what ends it, or the
/// head of its only table.
pub(super) fn is_of_test(lines: &[(u64, String)], line: &str) -> bool {
    let is_head = |line: &str| line.trim_start().starts_with("#bytes");
    let ends = ["Completion with error at ", "Failed status "];
    // The addresses of the ends stand above the table.
    let is_above = is_head(line) || line.starts_with("local address: LID ");
    ends.iter().any(|words| line.starts_with(words))
        || is_above && !lines.iter().any(|(_, line)| is_head(line))
}

/// The second word of a line in which somebody says what ports a host has.
pub const STATED_PORTS: &str = "stated-ports";

/// `4 × 400 Gb/s`, `8x200G`: how many ports of how many Gb/s. The lanes of a port (`4X 106.25
/// Gbps`) and memory (`8 x 80GB`) are none.
pub fn stated_ports(line: &str) -> Option<(u64, u64)> {
    // Most lines have no unit.
    memchr::memchr(b'G', line.as_bytes())?;
    let times = line.match_indices(['x', 'X', '×']);
    times.into_iter().find_map(|(at, times)| {
        let before = line.get(..at)?.trim_end_matches(' ');
        let head = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let count = before.get(head.len()..)?.parse().ok()?;
        let after = line.get(at + times.len()..)?.trim_start_matches(' ');
        let digits = after.find(|c: char| !c.is_ascii_digit())?;
        let (rate, unit) = after.split_at_checked(digits)?;
        let rate = rate.parse().ok()?;
        let unit = unit.trim_start_matches(' ').strip_prefix('G')?;
        let is_rate = match unit.chars().next() {
            Some('b' | 'E') => true,
            // A bare G may be memory.
            end => rate >= 100 && !end.is_some_and(char::is_alphanumeric),
        };
        let is_count = (1..=32).contains(&count) && !head.ends_with(['.', ',']);
        let is_rate = is_rate && [25, 40, 50, 100, 200, 400, 800].contains(&rate);
        (is_count && is_rate).then_some((count, rate))
    })
}

/// `on 2 nodes`, `16 servers`: how many hosts of a job somebody names, from two on.
pub fn stated_hosts(line: &str) -> Option<u64> {
    const HOSTS: [&str; 8] = [
        "node", "nodes", "hosts", "servers", "machines", "workers", "sparks", "boxes",
    ];
    let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
    let mut pairs = words().zip(words().skip(1));
    pairs.find_map(|(count, of)| {
        let count: u64 = count.parse().ok().filter(|count| *count > 1)?;
        HOSTS
            .iter()
            .any(|host| of.eq_ignore_ascii_case(host))
            .then_some(count)
    })
}

/// `Nov 30 07:15:51 238205 [152A16C0] 0x02 -> …`: a record of opensm, whatever stands before it.
fn is_of_opensm(line: &str) -> bool {
    let before = line.split_once(" -> ").map_or("", |(before, _)| before);
    let is_thread = |text: &str| text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let thread = before
        .rsplit_once("] 0x")
        .and_then(|(head, _)| head.rsplit_once('['));
    thread.is_some_and(|(_, thread)| is_thread(thread))
}

/// `Couldn't connect to HOST:PORT` is perftest's; others say the same words of other things.
fn ends_with_port(line: &str) -> bool {
    let port = line.rsplit_once(':').map_or("", |(_, port)| port);
    !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// `NCCL_DEBUG=INFO`.
fn is_variable(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| {
        name.bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// `rdma-core-46.0-1.el9.x86_64`, as `rpm -qa` lists a package.
fn is_package(line: &str) -> bool {
    let architectures = [".x86_64", ".aarch64", ".noarch"];
    let name = architectures.iter().find_map(|end| line.strip_suffix(end));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._+~".contains(&b);
    name.is_some_and(|name| name.matches('-').count() >= 2 && name.bytes().all(plain))
}

/// `GPU 00000000:C7:00.0`, above what `nvidia-smi -q` says of it.
fn is_gpu_heading(text: &str) -> bool {
    let address = text.trim_end().strip_prefix("GPU ");
    address.is_some_and(|address| {
        let places = address.split([':', '.']).map(str::len);
        places.eq([8, 2, 2, 1])
            && address
                .bytes()
                .all(|b| b.is_ascii_hexdigit() || b":.".contains(&b))
    })
}

/// `Port 1:`, below a device that somebody may have cut off.
fn is_port_heading(line: &str) -> bool {
    let number = line
        .strip_prefix("Port ")
        .and_then(|rest| rest.strip_suffix(':'));
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// `3: ens1f0: <BROADCAST,UP> mtu 1500 …`.
fn is_link(text: &str) -> bool {
    let Some((number, rest)) = text.split_once(": ") else {
        return false;
    };
    !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
        && rest.contains(": <")
        && rest.contains("> mtu ")
}

/// `0000:1a:00.0 Infiniband controller: …`.
pub fn is_function(text: &str) -> bool {
    let Some((address, rest)) = text.split_once(' ') else {
        return false;
    };
    if !address
        .bytes()
        .all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
    {
        return false;
    }
    let parts: Vec<&str> = address.split([':', '.']).collect();
    let [domain @ .., bus, device, function] = parts.as_slice() else {
        return false;
    };
    let fits = bus.len() == 2 && device.len() == 2 && function.len() == 1 && address.contains('.');
    // A time of day with tenths of a second has two digits before the first colon.
    let is_domain = domain.iter().all(|part| part.len() >= 4);
    let class = rest.split_once(": ").map(|(class, _)| class);
    fits && is_domain
        && parts.len() <= 4
        && !parts.contains(&"")
        && class.is_some_and(is_class_of_function)
}

/// Whether it is the name of a class of PCI functions or its number: `Infiniband controller [0207]`.
fn is_class_of_function(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " -/[]()".contains(c);
    let opened = text.matches('[').count();
    text.chars().all(is_plain) && opened == text.matches(']').count()
}

/// Whether a command that the text shows writes lines with this mark.
pub(super) fn may_write(shown: &[String], mark: &[&str]) -> bool {
    let shown = shown.first().map_or("", String::as_str);
    shown == mark[0]
        || matches!(
            (shown, mark[0]),
            ("printenv" | "cat", "env") | ("journalctl" | "cat", "dmesg") | ("findmnt", "mount")
        )
}

/// Whether a line with this mark belongs to the output that is open, of which this is the last
/// line.
pub(super) fn goes_on(open: &[String], last: &str, mark: &[&str]) -> bool {
    let has = |word: &str| open.iter().any(|arg| arg == word);
    // The lines of a file that the text shows.
    if ["limits.conf", "prlimit"].contains(&mark[0]) && has("cat") {
        return true;
    }
    if open.first().map(String::as_str) != Some(mark[0]) {
        return false;
    }
    // Each table is one of its own, and each failure to connect; a title belongs to what follows
    // it.
    if mark[0] == "log" {
        let continues = ["- hardware: ", "The average ", "algbw:"];
        let is_within = last.starts_with(['[', '-']) && !last.ends_with("receiver");
        let is_of_iperf = mark[1] == "iperf3" && (is_within || last.starts_with("Connecting"));
        return has(mark[1])
            && (is_of_iperf
                || last.ends_with(" Test")
                || continues.iter().any(|head| last.starts_with(head)));
    }
    match mark {
        ["ip", "addr"] => !["route", "r", "rule", "neigh"].iter().any(|word| has(word)),
        ["nvidia-smi"] => open.len() == 1,
        ["nvidia-smi", "-q"] => has("-q") || has("--query"),
        // The line that names a GPU stands above its links and in a list.
        ["nvidia-smi", "nvlink", ..] => {
            ["nvlink", "-L", "--list-gpus"].iter().any(|word| has(word))
        }
        ["lspci", "-t"] => has("-t"),
        ["lspci", ..] => true,
        [_, arg, ..] => has(arg),
        _ => true,
    }
}

/// Whether the output of this command is read.
pub fn is_read(argv: &[impl AsRef<str>]) -> bool {
    let mut words = argv.iter().map(AsRef::as_ref);
    let Some(tool) = words.next() else {
        return false;
    };
    if let Some((_, subjects)) = SUBJECTS.iter().find(|(of, _)| *of == tool) {
        let is_plain = !words.clone().any(|argument| argument.starts_with('-'));
        let mut words = words.filter_map(|argument| argument.split('=').next());
        return subjects.contains(&"") && is_plain || words.any(|word| subjects.contains(&word));
    }
    READ.contains(&tool) || runs_benchmark(argv)
}

/// Whether the command runs a benchmark, of which the marks of its tables are read.
pub fn runs_benchmark(argv: &[impl AsRef<str>]) -> bool {
    let tool = argv.first().map_or("", AsRef::as_ref);
    let names = ["ib_write", "ib_read", "ib_send"];
    tool.ends_with("_perf") || names.iter().any(|name| tool.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::stated_ports;

    #[test]
    fn ports_as_people_state_them() {
        for (text, ports) in [
            ("each node: 4 x 400 Gb/s InfiniBand", Some((4, 400))),
            ("4×400G", Some((4, 400))),
            ("8x200Gbps HDR, 2 nodes x 8 GPUs", Some((8, 200))),
            ("2 nodes x 8 GPUs with 8x 200Gb NICs", Some((8, 200))),
            ("2 X 100GbE", Some((2, 100))),
            ("1x25GE", Some((1, 25))),
            ("8 x 80GB, 8x40G of memory", None),
            ("8x200GB, 4x400GiB", None),
            ("400 Gb/sec (4X NDR)", None),
            ("( 4X 106.25 Gbps Active/  LinkUp)", None),
            ("4X 25.78125 Gbps, 4x 25.0 Gb/s", None),
            ("1.4 x 100G, 64 x 100G, 0x100G", None),
            ("x", None),
            ("9x", None),
        ] {
            assert_eq!(stated_ports(text), ports, "{text}");
        }
    }
}
