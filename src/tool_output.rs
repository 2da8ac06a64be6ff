//! From a text that people posted to the outputs of tools in it: which tool, on which host, and its lines as they stand.
//!
//! A block begins with a command behind a prompt or as a heading, or with a line that only one tool writes. It ends where the next begins, at the
//! fence of Markdown, or at a heading. What is in no block is prose, and nobody reads it.

mod alike_rows;
mod carrier;
mod command;
mod config_space;
mod counter_row;
mod filter;
mod host;
mod kernel;
mod marks;
mod rows;
mod said_settings;
mod shell_loop;
mod tag;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use self::alike_rows::{ALIKE_ROWS, NamedRow, named_row, odd_row};
use self::carrier::Place;
pub use self::config_space::{config_spaces, function_name};
pub use self::counter_row::{CounterTable, counter_row, counter_table, counts_trouble, number};
pub use self::host::is_name as is_host_name;
pub use self::kernel::{KERNEL_WORDS, kernel_line};
pub use self::marks::{
    STATED_PORTS, carries_log, is_function, is_of_kernel, is_read, is_tool, runs_benchmark,
    stated_hosts, stated_ports,
};
pub use self::said_settings::SAID_SETTINGS;
use self::tag::Tag;
use crate::left_out::{self, LeftOut};
use crate::small_sort;

/// The output of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The host on which it ran, by the prompt, a heading, or what is before each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The command with its arguments. Without the line of the command: the one that writes such lines.
    pub argv: Vec<String>,
    /// Whether a part may be missing: it went through a pipe, or somebody cut it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Whether the text does not show the command: how much of its output this is, nobody knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_mark: bool,
    /// The lines with their numbers in the text, without colours.
    pub lines: Vec<(u64, String)>,
}

impl Block {
    /// The name of the tool; `log` for a benchmark, which its second word names.
    pub fn tool(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Its lines.
    pub fn text(&self) -> String {
        self.texts()
            .fold(String::new(), |all, line| all + line + "\n")
    }

    /// Its lines, one by one.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| &*line.1)
    }

    /// Takes the first line for the name of its host, if it can be one.
    fn take_host(&mut self) {
        let first = self.lines.first().map_or("", |(_, line)| line.trim());
        if host::is_name(first) {
            self.host.get_or_insert_with(|| first.to_owned());
            self.lines.remove(0);
        }
    }

    /// Whether it is of this benchmark.
    pub fn is_benchmark(&self, name: &str) -> bool {
        matches!(self.argv.as_slice(), [log, of] if log == "log" && of == name)
    }
}

/// A line that stands for others that were left out.
pub const CUT: &str = "[...]";

/// Blocks that are kept of one host of a text.
const BLOCKS: usize = 4096;
/// Rows of counters that no command names.
pub const COUNTERS: &str = "counters";
/// What a list was asked for and does not have.
pub const NOT_LISTED: &str = "not-listed";
/// Tools that list what there is.
const LISTS: [&str; 8] = [
    "lsmod",
    "show_gids",
    "ibdev2netdev",
    "ibv_devices",
    "ibv_devinfo",
    "ibstat",
    "lspci",
    "rdma",
];
/// A table with columns of what went wrong, which no command names.
pub const COUNTER_TABLE: &str = "counter-table";
/// Bytes of the lines that are kept once for each of the hosts that printed the same.
const COPIED: usize = 64 << 20;
const OUTPUTS_BOUND: &str = "more than 4096 of one host";
const ALIKE_BOUND: &str = "more than 4096 hosts or 64 MiB that are alike";
/// Hosts whose names are told apart before their lines.
const HOSTS: usize = 4096;
const HOSTS_BOUND: &str = "more than 4096 names before lines";
/// Lines that belong to an output behind the last one that only its tool writes.
const LINES: usize = 8192;

/// A line without what others put before it.
struct Line<'t> {
    number: u64,
    text: Cow<'t, str>,
}

/// The outputs that a text holds.
#[derive(Debug, Default)]
pub struct FoundBlocks {
    /// In the order of their first lines.
    pub blocks: Vec<Block>,
    /// What there was no room for.
    pub left_out: Vec<LeftOut>,
}

/// The blocks of lines with their numbers.
pub fn blocks<'t>(lines: impl Iterator<Item = (u64, &'t str)>) -> FoundBlocks {
    let lines: Vec<Line<'_>> = lines.map(line).collect();
    let (tags, left_out) = hosts_before(&lines);
    let mut all: Vec<(Option<Tag<'_>>, Splitter)> = vec![(None, Splitter::default())];
    for (at, one) in lines.iter().enumerate() {
        let mut found = tag::before(&one.text);
        let found = (!tags.is_empty())
            .then(|| found.find(|(tag, _)| tags.contains(tag)))
            .flatten();
        let other = |at: Option<usize>| {
            let line = at.and_then(|at| lines.get(at));
            line.map_or("", |line| &*line.text)
        };
        let (tag, rest, around) = match found {
            Some((tag, rest)) => (Some(tag), rest, ["", ""]),
            None => (
                None,
                &*one.text,
                [other(at.checked_sub(1)), other(at.checked_add(1))],
            ),
        };
        let known = all.iter().position(|(of, _)| *of == tag);
        let place = known.unwrap_or_else(|| {
            let splitter = Splitter {
                host: tag.as_ref().and_then(Tag::host),
                ..Splitter::default()
            };
            all.push((tag, splitter));
            all.len() - 1
        });
        // What a parallel shell ran stands above the lines of its hosts.
        if let Some(([(_, untagged)], tagged)) = all.split_at_mut_checked(1)
            && let Some((_, of_host)) = place.checked_sub(1).and_then(|at| tagged.get_mut(at))
            && of_host.above != untagged.begun
        {
            of_host.above = untagged.begun;
            of_host.each_above.clone_from(&untagged.each);
        }
        if let Some((_, splitter)) = all.get_mut(place) {
            splitter.line(one.number, rest, around);
        }
    }
    let mut found = FoundBlocks {
        left_out,
        ..FoundBlocks::default()
    };
    for (_, mut splitter) in all {
        splitter.close();
        let each_host = splitter.done.into_iter().flat_map(rows::split_by_host);
        found.blocks.extend(each_host);
        for more in [
            LeftOut::counted(splitter.left_out, "output", OUTPUTS_BOUND),
            LeftOut::counted(splitter.alike_left_out, "output", ALIKE_BOUND),
        ] {
            left_out::add(&mut found.left_out, more);
        }
    }
    let texts = lines.iter().map(|line| (line.number, &*line.text));
    let said = said_settings::block(texts, &found.blocks);
    found.blocks.extend(said);
    let texts: Vec<(u64, &str)> = lines
        .iter()
        .map(|line| (line.number, &*line.text))
        .collect();
    let alike = alike_rows::blocks(&texts, &found.blocks);
    found.blocks.extend(alike);
    small_sort::by_key(&mut found.blocks, |block| {
        block.lines.first().map(|(number, _)| *number)
    });
    found
}

/// What stands before lines of tools, each of which is of a host, and the hosts for which there was
/// no room.
fn hosts_before<'l>(lines: &'l [Line<'_>]) -> (BTreeSet<Tag<'l>>, Vec<LeftOut>) {
    let mut all = BTreeSet::new();
    let mut others = BTreeSet::new();
    for tag in lines.iter().filter_map(tagged) {
        if all.len() < HOSTS || all.contains(&tag) {
            all.insert(tag);
        } else {
            others.insert(tag);
        }
    }
    let mut left_out = Vec::new();
    let more = LeftOut::counted(others.len() as u64, "host", HOSTS_BOUND);
    left_out::add(&mut left_out, more);
    (all, left_out)
}

/// Whether a line is one that only a tool writes, whatever stands before it.
pub fn begins(line: &str) -> bool {
    let inner = marks::has_inner_mark(line);
    std::iter::once(line)
        .chain(tag::rests(line))
        .any(|text| marks::tool_of_part(text, inner).is_some())
}

/// Whether somebody typed the command of a tool in this line, behind a prompt.
pub fn is_command(line: &str) -> bool {
    command::prompt(line).is_some_and(|prompt| prompt.command.is_some())
}

/// Whether somebody typed a command in this line that shows what daemons logged.
pub fn shows_journal(line: &str) -> bool {
    let command = command::prompt(line).and_then(|prompt| prompt.command);
    command.is_some_and(|command| marks::carries_log(&command.argv))
}

/// What stands before a tool's line: before other lines it is the same.
fn tagged<'l>(line: &'l Line<'_>) -> Option<Tag<'l>> {
    // What stands before a command is a prompt.
    if command::prompt(&line.text).is_some() {
        return None;
    }
    // The first part of an address is a domain, and a thread may stand behind the kernel's time.
    if marks::is_function(&line.text) || kernel::begins_with_time(&line.text) {
        return None;
    }
    let inner = marks::has_inner_mark(&line.text);
    let is_tools = marks::tool_of_part(&line.text, inner).is_some();
    let mut found = tag::before(&line.text).filter(|(tag, _)| !is_tools || tag.is_host());
    found.find_map(|(tag, rest)| marks::tool_of_part(rest, inner).map(|_| tag))
}

/// A line without colours and without the marks of a quotation; of what a bar of progress wrote over, the last part stands.
fn line((number, text): (u64, &str)) -> Line<'_> {
    let text = text.trim_end_matches('\r');
    let text = text.rsplit('\r').next().unwrap_or(text);
    let mut text = match text.contains('\u{1b}') {
        true => Cow::Owned(without_escapes(text)),
        false => Cow::Borrowed(text),
    };
    if let Some(quoted) = text.strip_prefix("> ") {
        text = quoted.trim_start_matches("> ").to_owned().into();
    }
    Line { number, text }
}

/// The text without the escape sequences of a terminal (ECMA-48: CSI to its final byte, OSC to its end).
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(one) = chars.next() {
        if one != '\u{1b}' {
            plain.push(one);
            continue;
        }
        match chars.next() {
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            Some(']') => while chars.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
            _ => {}
        }
    }
    plain
}

/// Finds the blocks of lines that are fed one after the other.
#[derive(Default)]
struct Splitter {
    host: Option<String>,
    open: Option<Block>,
    /// Lines of the open one since the last that only its tool writes.
    since: usize,
    done: Vec<Block>,
    /// Those for which there was no room.
    left_out: u64,
    /// Whether each line of the open output begins with the name of its host.
    is_of_each: bool,
    /// The command that ran on several hosts, whose names stand above what each printed.
    each: Option<EachCommand>,
    /// Of lines that have their host before them: the command above that ran on several, and of
    /// how many it is the last.
    each_above: Option<EachCommand>,
    above: usize,
    /// Whether each host's output begins with its name.
    says_host: bool,
    /// Commands that began or ended.
    begun: usize,
    /// The other hosts that printed the same as [`Splitter::host`].
    alike: Vec<String>,
    /// Bytes of lines that were copied for these.
    copied: usize,
    /// The outputs of these for which there was no room.
    alike_left_out: u64,
    /// What stands before each line below the last heading.
    indent: &'static str,
    /// The line of the last command whose lines somebody picked.
    asked: Option<(u64, String)>,
    /// The command whose output is open, where others follow it in its line, with these.
    shown: Option<Box<command::Command>>,
}

/// A command that ran on several hosts.
#[derive(Clone)]
struct EachCommand {
    argv: Vec<String>,
    is_piped: bool,
    /// Whether a loop ran it: what says the host there is what somebody wrote.
    is_looped: bool,
    /// The hosts of the loop, where its line tells them.
    hosts: Vec<String>,
    /// The host of the last heading.
    last: Option<String>,
}

impl Splitter {
    fn line(&mut self, number: u64, text: &str, around: [&str; 2]) {
        let inner = text.strip_prefix(self.indent).unwrap_or(text);
        self.inner_line(number, inner, around);
    }

    /// A line without what stands before each.
    fn inner_line(&mut self, number: u64, text: &str, around: [&str; 2]) {
        let trimmed = text.trim();
        if trimmed.starts_with("*** ls: ") {
            return;
        }
        let is_fence = ["```", "~~~", "________"]
            .iter()
            .any(|fence| trimmed.starts_with(fence));
        if is_fence || trimmed.contains("PuTTY log") {
            self.leave_each();
            return;
        }
        if let Some(prompt) = command::prompt(text) {
            let empty = self.asked_in_vain();
            self.leave_each();
            self.done.extend(empty);
            if prompt.host.is_some() {
                self.host = prompt.host;
            }
            let picks = prompt
                .command
                .as_ref()
                .is_some_and(|command| command.picked.is_some());
            self.asked = picks.then(|| (number, text.to_owned()));
            self.begin(prompt.command);
            return;
        }
        if let Some(argv) = marks::tool_of(text) {
            let goes_on = self.open.as_ref().is_some_and(|open| {
                let is_empty = |(_, line): &(u64, String)| line.trim().is_empty();
                let mut last = open.lines.iter().rev();
                let last = last.find(|line| !is_empty(line));
                let last = last.map_or("", |(_, line)| line.trim());
                // Of a command that the text shows, the mark is one of its lines.
                marks::goes_on(&open.argv, last, argv)
                    || open.is_benchmark("perftest") && marks::is_of_test(&open.lines, trimmed)
                    || open.lines.iter().all(is_empty) && marks::may_write(&open.argv, argv)
            });
            let host = host::of_syslog(text);
            if let Some(host) = host {
                self.host = Some(host.to_owned());
            }
            let elsewhere = host.is_some()
                && (self.open.as_ref()).is_some_and(|open| open.host.as_deref() != host);
            let begins_next = !goes_on && self.begins_next_of_line(argv);
            if begins_next {
                self.since = 0;
            } else if !goes_on || elsewhere {
                self.shown = None;
                self.close();
                self.begin_by_mark(argv);
            }
            self.since = 0;
        } else if let Some(heading) = host::heading(text, around, self.place_of_heading(trimmed)) {
            return self.go_below(heading);
        } else if let Some(command) = command::heading(text) {
            self.leave_each();
            self.begin(Some(command));
            return;
        } else if command::is_of_job(text) {
            return self.close();
        } else if let Some(argv) = self.counts(trimmed) {
            self.begin_by_mark(&[argv]);
        }
        self.go_to_next_of_line(trimmed);
        if let Some(open) = &mut self.open {
            // The rule below a heading.
            if open.lines.is_empty() && host::is_rule(text) {
                return;
            }
            self.since += 1;
            if open.by_mark && self.since > LINES {
                return self.close();
            }
            // Each line of the kernel stands for itself, and a sentence too: what is between belongs to others.
            let is_alone = open.tool() == "dmesg" || open.is_benchmark(STATED_PORTS);
            let goes_on = self.since == 2 && open.tool() == "dmesg" && is_broken(open, text);
            if !open.by_mark || self.since == 1 || !is_alone || goes_on {
                open.is_cut |= is_snip(trimmed);
                open.lines.push((number, text.to_owned()));
            }
        }
    }

    /// What a list was asked for and does not have: its command picked lines, and nothing stands
    /// between it and the next one.
    fn asked_in_vain(&mut self) -> Option<Block> {
        let (number, line) = self.asked.take()?;
        let open = self.open.as_ref().filter(|open| open.lines.is_empty())?;
        let argv = std::iter::once(NOT_LISTED.to_owned()).chain(open.argv.iter().cloned());
        LISTS.contains(&open.tool()).then(|| Block {
            host: open.host.clone().or_else(|| self.host.clone()),
            argv: argv.collect(),
            is_cut: false,
            by_mark: true,
            lines: vec![(number, line)],
        })
    }

    /// The kind of counts of which a line is the first, where no command says whose they are.
    fn counts(&mut self, line: &str) -> Option<&'static str> {
        let is_row = counter_row(line).is_some();
        if let Some(open) = &self.open {
            let goes_on = match open.tool() {
                COUNTERS => is_row,
                COUNTER_TABLE => !line.is_empty(),
                _ if !marks::is_read(&open.argv) => {
                    let is_trouble = counter_row(line).is_some_and(|row| counts_trouble(row.name));
                    !is_trouble && counter_table(line).is_none()
                }
                _ => true,
            };
            if goes_on {
                return None;
            }
            self.close();
        }
        if counter_row(line).is_some_and(|row| counts_trouble(row.name)) {
            return Some(COUNTERS);
        }
        counter_table(line).map(|_| COUNTER_TABLE)
    }

    /// Whether a line with this mark can be of a later command of the line whose output is open: it
    /// begins.
    fn begins_next_of_line(&mut self, argv: &[&str]) -> bool {
        let Some(shown) = &mut self.shown else {
            return false;
        };
        let writes = |next: &command::Command| marks::may_write(&next.argv, argv);
        let Some(at) = shown.next.iter().position(writes) else {
            return false;
        };
        let mut following = shown.next.split_off(at);
        let mut next = following.remove(0);
        next.next = following;
        self.close();
        self.push(next.argv.clone(), next.is_piped);
        self.shown = Some(Box::new(next));
        true
    }

    /// Of several commands in a line the next one begins where a line can not be of the one before.
    fn go_to_next_of_line(&mut self, line: &str) {
        while let (Some(shown), Some(open)) = (&mut self.shown, &self.open)
            && let Some(next) = shown.next.first()
        {
            let is_full = shown.prints_a_line() && !open.lines.is_empty();
            let is_left_out = shown.picked.as_ref().is_some_and(|words| !words.pick(line));
            let fits_next = next.picked.as_ref().is_none_or(|words| words.pick(line));
            if line.is_empty() || !(is_full || is_left_out) || !(is_full || fits_next) {
                return;
            }
            let mut following = std::mem::take(&mut shown.next);
            let mut next = following.remove(0);
            next.next = following;
            self.close();
            self.push(next.argv.clone(), next.is_piped);
            self.shown = Some(Box::new(next));
        }
    }

    /// What follows is no more of a command that ran on several hosts.
    fn leave_each(&mut self) {
        self.close();
        self.begun += 1;
        if self.each.take().is_some() {
            self.host = None;
        }
        self.alike.clear();
        self.indent = "";
    }

    /// What follows is of the hosts that this heading names.
    fn go_below(&mut self, heading: host::Heading) {
        // The rule above it.
        let lines = self.open.as_mut().map(|open| &mut open.lines);
        if let Some(lines) = lines
            && lines.last().is_some_and(|last| host::is_rule(&last.1))
        {
            lines.pop();
        }
        self.close();
        let mut hosts = heading.hosts.into_iter();
        self.host = hosts.next();
        self.alike = hosts.collect();
        self.indent = heading.indent;
        let Some(each) = &mut self.each else {
            return;
        };
        each.last.clone_from(&self.host);
        if heading.ran {
            let (argv, is_piped) = (each.argv.clone(), each.is_piped);
            self.push(argv, is_piped);
        }
    }

    /// Below which command this line stands.
    fn place_of_heading(&self, line: &str) -> host::Below {
        let looped = self.each.as_ref().filter(|each| each.is_looped);
        let is_first = self.open.as_ref().is_some_and(|open| open.lines.is_empty());
        host::Below {
            is_each: self.each.is_some(),
            may_be_bare: looped.is_some_and(|each| match &each.last {
                Some(last) => host::are_of_one_row(last, line),
                None => is_first,
            }),
        }
    }

    /// An output of which the command is not shown. Lines of the kernel that others interrupted go on.
    fn begin_by_mark(&mut self, argv: &[&str]) {
        let is_same = |block: &Block| block.argv == argv && block.host == self.host;
        let before = match argv {
            ["dmesg"] if self.alike.is_empty() => self.done.iter().rposition(is_same),
            _ => None,
        };
        match before {
            Some(at) => self.open = Some(self.done.remove(at)),
            None => self.push(argv.iter().map(|&word| word.to_owned()).collect(), false),
        }
        if let (Some(open), Some(each)) = (&mut self.open, &self.each_above)
            && marks::may_write(&each.argv, argv)
        {
            (open.argv, open.is_cut) = (each.argv.clone(), each.is_piped);
            return;
        }
        if let Some(open) = &mut self.open {
            open.by_mark = true;
        }
    }

    /// A command whose output follows; `None` is one that is no tool.
    fn begin(&mut self, command: Option<command::Command>) {
        self.shown = None;
        let Some(command) = command else {
            return;
        };
        self.begun += 1;
        if marks::prints_log(&command.argv) {
            return;
        }
        self.says_host = command.says_host;
        if command.place.is_several() {
            self.each = Some(EachCommand {
                argv: command.argv.clone(),
                is_piped: command.is_piped,
                is_looped: matches!(command.place, Place::Looped(_)),
                hosts: command.hosts.clone(),
                last: None,
            });
        }
        self.push(command.argv.clone(), command.is_piped);
        self.is_of_each = command.place == Place::OnEach;
        if let Some(open) = &mut self.open {
            match command.place.clone() {
                Place::Here => {}
                Place::On(host) => open.host = Some(host),
                Place::Elsewhere | Place::OnEach | Place::Looped(_) => open.host = None,
            }
        }
        let has_next = !command.next.is_empty();
        self.shown = has_next.then(|| Box::new(command));
    }

    fn push(&mut self, argv: Vec<String>, is_cut: bool) {
        self.since = 0;
        self.is_of_each = false;
        self.open = Some(Block {
            host: self.host.clone(),
            argv,
            is_cut,
            by_mark: false,
            lines: Vec::new(),
        });
    }

    fn close(&mut self) {
        let Some(mut block) = self.open.take() else {
            return;
        };
        let is_empty = |(_, line): &(u64, String)| line.trim().is_empty();
        while block.lines.last().is_some_and(is_empty) {
            block.lines.pop();
        }
        // What has no line may have printed none, or its text was left out. Below the heading of a
        // host beside others it printed none.
        let is_below_heading = self.each.is_some() && !self.is_of_each && block.host.is_some();
        if block.lines.is_empty() && !is_below_heading {
            return;
        }
        let of_hosts = if self.is_of_each {
            rows::by_name(block)
        } else {
            match self.each.as_ref().filter(|each| each.last.is_none()) {
                Some(each) => rows::by_turn(block, &each.hosts),
                None => vec![block],
            }
        };
        for mut block in of_hosts {
            if self.says_host {
                block.take_host();
            }
            self.keep(block);
        }
    }

    /// Keeps an output, once for each of the hosts that printed it.
    fn keep(&mut self, block: Block) {
        let size: usize = block.texts().map(str::len).sum();
        let of_first = block.clone();
        if self.done.len() < BLOCKS {
            self.done.push(of_first);
        } else {
            self.left_out += 1;
        }
        for host in &self.alike {
            self.copied = self.copied.saturating_add(size);
            if self.done.len() < BLOCKS && self.copied <= COPIED {
                self.done.push(Block {
                    host: Some(host.clone()),
                    ..block.clone()
                });
            } else {
                self.alike_left_out += 1;
            }
        }
    }
}

/// Whether a mail program broke the last line of the kernel before this one: it is long, and what
/// follows begins in the middle of a sentence.
fn is_broken(open: &Block, text: &str) -> bool {
    let last = open.lines.last().map_or("", |(_, line)| line.as_str());
    let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    (56..=80).contains(&last.len()) && begins && text.len() < 80
}

/// Whether a line says that something was left out here.
fn is_snip(text: &str) -> bool {
    let word = text.trim_matches(|c: char| !c.is_alphanumeric());
    let dots = !text.is_empty() && text.chars().all(|c| matches!(c, '.' | '…' | '[' | ']'));
    dots && text.len() >= 3
        || text.len() < 24 && ["snip", "truncated", "skipped"].contains(&&*word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let show = |block: Block| {
            let host = block.host.unwrap_or_else(|| "-".to_owned());
            let first = block.lines.first().map_or(0, |(number, _)| *number);
            let cut = if block.is_cut { " cut" } else { "" };
            format!("{host} {}:{first}{cut}", block.argv.join(" "))
        };
        let all = blocks((1..).zip(text.lines())).blocks;
        all.into_iter().map(show).collect()
    }

    #[test]
    fn prompts_of_many_shells() {
        for (prompt, host) in [
            ("$ ", "-"),
            ("[ops@n1 ~]$ ", "n1"),
            ("[root@n1.site.org /]# ", "n1.site.org"),
            ("root@n1:~# ", "n1"),
            ("(base) ops@n1:/data/x$ ", "n1"),
            ("n1:~ # ", "n1"),
            ("n1$ ", "n1"),
            ("root@n1:~# sudo LC_ALL=C ", "n1"),
        ] {
            let text = format!("{prompt}/usr/sbin/ibstat -v\nanything\n");
            assert_eq!(said(&text), [format!("{host} ibstat -v:2")], "{prompt}");
        }
    }

    #[test]
    fn prose_is_no_block_and_other_commands_end_one() {
        assert!(said("# My cluster\nI ran ibstat. It cost $ 5.\n").is_empty());
        assert_eq!(
            said("$ ibstat\na\n$ vi x\nb\n```\nCA 'x'\n"),
            ["- ibstat:2", "- ibstat:6"]
        );
        assert_eq!(said("$ ibstat | head\nCA 'x'\n[...]\n"), ["- ibstat:2 cut"]);
    }

    #[test]
    fn headings_name_commands_and_hosts() {
        assert_eq!(
            said("=== n7 ===\n**ibstat**\nCA 'x'\n### ulimit -a\nopen files (-n) 1024\n"),
            ["n7 ibstat:3", "n7 ulimit -a:5"]
        );
        assert_eq!(said("> > CA 'mlx5_0'\r\n> >  Port 1:\r\n"), ["- ibstat:1"]);
    }

    #[test]
    fn escapes_end() {
        assert_eq!(
            without_escapes("a\u{1b}[1;31mb\u{1b}]0;t\u{7}c\u{1b}"),
            "abc"
        );
    }
}
