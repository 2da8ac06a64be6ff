//! From texts in which people kept outputs of tools to recordings, one of each host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{OutputPlace, PROBE, complaint, left_out_question, question, tree_links};
use crate::left_out::{self, LeftOut};
use crate::measure::plan::ablation_table;
use crate::measure::plan::run::Plan;
use crate::nccl_log::digest::KeptLine;
use crate::nccl_log::event::{names_cause, names_listed_cause};
use crate::nccl_log::message::MessageGroup;
use crate::nccl_log::prefix;
use crate::nccl_log::{Digest, Limits, Reader};
use crate::probe::nccl_log;
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line};
use crate::source::{Answer, Errno, Question, Refusal, Reply};
use crate::tool_output::{self, Block};

/// Nodes that one text may hold.
const NODES: usize = 1024;
const NODES_BOUND: &str = "more than 1024 in all";

/// Texts as they are gathered.
#[derive(Default)]
pub struct Evidence {
    /// What stands for the host that nobody names.
    name: String,
    nodes: Vec<Node>,
    logs: Vec<(String, Digest)>,
    unread: Vec<String>,
    left_out: Vec<LeftOut>,
    /// The folder of the member of a bundle that is being added.
    folder: Option<String>,
    /// Whether each text may be of a machine of its own, whatever its file is called.
    is_beside: bool,
    /// Folders that hold what a collector gathered of one machine.
    machines: BTreeSet<String>,
    /// Hosts for which there is no room.
    further: BTreeSet<Option<String>>,
}

/// What is there of one host.
#[derive(Default)]
struct Node {
    host: Option<String>,
    /// What it calls itself, if nobody else names it.
    called: Option<String>,
    /// The folder of the bundle in which its first output stands.
    folder: Option<String>,
    places: Vec<OutputPlace>,
    replies: BTreeMap<Question, Vec<Reply>>,
}

impl Evidence {
    /// Nothing yet, of a machine that is called so unless its texts name it.
    pub fn of(name: &str) -> Self {
        Evidence {
            name: name.to_owned(),
            ..Evidence::default()
        }
    }

    /// What was not read before the texts came here.
    pub fn leave_out(&mut self, all: Vec<LeftOut>) {
        for more in all {
            left_out::add(&mut self.left_out, more);
        }
    }

    /// Outputs that are known and not read, each with its place.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Whether nothing was found that can be read.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.logs.is_empty()
    }

    /// Adds a text as somebody posted it, or as a tool wrote it to a file.
    pub fn add_text(&mut self, file: &str, text: &str) {
        let mut reader = Reader::new(Limits {
            text: usize::MAX,
            ..Limits::default()
        });
        reader.feed(text.as_bytes());
        let mut digest = reader.finish(None);
        self.leave_out(std::mem::take(&mut digest.not_read));
        let tells_of_run = tells_of_run(&digest);
        let (of_log, outputs): (Vec<Block>, Vec<Block>) =
            (digest.outputs.into_iter()).partition(|block| block.tool() == "log");
        let compared = printed_by_several(&outputs);
        for block in outputs.into_iter().filter(|block| !is_of_benchmark(block)) {
            if compared.contains(&block.argv) {
                self.add_block_of(file, block, true);
            } else if tool_output::is_read(&block.argv) {
                self.add_block(file, block);
            } else if tool_output::is_tool(block.tool()) {
                let line = block.lines.first().map_or(0, |(number, _)| *number);
                self.unread.push(format!("{file}:{line}: {}", block.tool()));
                // Among the lines of a run they are the log's.
                let complaints = (!tells_of_run).then(|| complaint::only(block)).flatten();
                if let Some(complaints) = complaints {
                    self.add_block(file, complaints);
                }
            }
        }
        digest.outputs = of_log;
        // What somebody says of the ports counts beside a benchmark only.
        if digest.outputs.iter().all(is_of_stated_ports) {
            digest.outputs.clear();
        }
        if tells_of_run {
            self.logs.push((file.to_owned(), digest));
        }
    }

    /// Adds the outputs that stood between the lines of a log. What nobody names is of one host of
    /// this file where there are several.
    pub(in crate::probe) fn add_outputs(&mut self, file: &str, blocks: &[Block]) {
        for block in blocks.iter().filter(|block| is_of_node(block)) {
            let host = block.host.clone();
            let host = host.or_else(|| (!file.is_empty()).then(|| file.to_owned()));
            self.add_block(
                file,
                Block {
                    host,
                    ..block.clone()
                },
            );
        }
    }

    /// Adds one of several texts that were given beside each other: of one machine with the others,
    /// unless two of them answer one question.
    pub fn add_text_beside(&mut self, file: &str, called: &str, text: &str) {
        self.folder = Some(called.to_owned());
        self.is_beside = true;
        self.add_text(file, text);
    }

    /// Adds a file of a bundle: a copy of a file of the machine, what a command printed that its
    /// name says, or any text.
    pub fn add_member(&mut self, path: &str, text: &str) {
        let parts: Vec<&str> = path.trim_start_matches("./").split('/').collect();
        self.folder = Some(folder(&parts));
        let place = |name: &str| parts.iter().position(|part| *part == name);
        let last = parts.last().copied().unwrap_or("");
        // sosreport has a folder of each plugin there, Mellanox' snapshot none.
        let of_command = place("sos_commands").or(place("commands_txt_output"));
        if let Some(at) = of_command {
            self.machines
                .insert(folder(parts.get(..=at).unwrap_or_default()));
        }
        if of_command.is_some() {
            let argv: Vec<String> = last
                .trim_end_matches(".txt")
                .split('_')
                .map(str::to_owned)
                .collect();
            // Names of tools may have an underline of their own.
            let argv = match argv.as_slice() {
                [first, second, rest @ ..] if ["ibv", "show", "mlnx"].contains(&&**first) => {
                    [&[format!("{first}_{second}")], rest].concat()
                }
                _ => argv,
            };
            match tool_output::is_read(&argv) {
                true => self.add_output(path, argv, text),
                false => self.add_text(path, text),
            }
        } else if let Some(at) = ["proc", "sys", "etc"]
            .iter()
            .filter_map(|name| place(name))
            .min()
            .filter(|at| *at <= 3)
        {
            let below = parts.get(at..).unwrap_or_default().join("/");
            if below == "etc/hostname"
                && let Some(node) = self.own_node()
            {
                node.called.get_or_insert_with(|| text.trim().to_owned());
            }
            match tree_links::target(text) {
                Some(target) => self.answer_file(Question::link(format!("/{below}")), target),
                None => self.answer_file(Question::read(format!("/{below}")), text),
            }
        } else if let ("Memory", "zone_reclaim_mode") =
            (parts.iter().rev().nth(1).copied().unwrap_or(""), last)
        {
            // As azhpc-diagnostics keeps it.
            let file = Question::read("/proc/sys/vm/zone_reclaim_mode");
            self.answer_file(file, text);
        } else {
            // What no line tells, the name of its file does.
            match last.split('.').next() {
                Some("sysctl") => self.add_output(path, vec!["sysctl".to_owned()], text),
                _ => self.add_text(path, text),
            }
        }
    }

    fn add_output(&mut self, file: &str, argv: Vec<String>, text: &str) {
        let lines = (1..).zip(text.lines().map(str::to_owned)).collect();
        let block = Block {
            host: None,
            argv,
            is_cut: false,
            by_mark: false,
            lines,
        };
        self.add_block(file, block);
    }

    fn add_block(&mut self, file: &str, block: Block) {
        if !block.lines.is_empty() {
            self.add_block_of(file, block, false);
        }
    }

    /// Adds an output, and whether several hosts of its text printed something for this command.
    fn add_block_of(&mut self, file: &str, block: Block, of_several: bool) {
        let run: Vec<Arc<str>> = block.argv.iter().map(|word| word.as_str().into()).collect();
        let asked = Question::Run(run.as_slice().into());
        let called = match block.argv.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["uname", "-a"] => block
                .lines
                .first()
                .and_then(|(_, line)| after_linux(line, 0)),
            ["hostname", ..] | ["uname", "-n"] => one_word(&block),
            _ => None,
        };
        let node = match &block.host {
            Some(host) => self.node(Some(host)),
            None => self.unnamed(&asked),
        };
        let Some(node) = node else {
            return;
        };
        if let Some(name) = called {
            node.called.get_or_insert_with(|| name.to_owned());
        }
        for (question, said) in of_files(&block) {
            node.answer(question, said);
        }
        let first = block.lines.first().map_or(1, |(number, _)| *number);
        let is_run = (first..)
            .zip(&block.lines)
            .all(|(at, (number, _))| at == *number);
        let lines = block.lines.iter().map(|(number, _)| *number);
        node.places.push(OutputPlace {
            run,
            file: file.into(),
            line: first,
            lines: if is_run { Vec::new() } else { lines.collect() },
            cut: block.is_cut,
            by_mark: block.by_mark,
            of_several,
        });
        node.answer(asked, Ok(Answer::Text(block.text().into())));
    }

    fn answer_file(&mut self, file: Question, text: &str) {
        if let Some(node) = self.own_node() {
            node.answer(file, Ok(Answer::Text(text.into())));
        }
    }

    fn node(&mut self, host: Option<&str>) -> Option<&mut Node> {
        let mut nodes = self.nodes.iter();
        let known = nodes.position(|node| node.host.as_deref() == host);
        self.at(known, host)
    }

    /// The node at this place, or one more as long as there is room.
    fn at(&mut self, known: Option<usize>, host: Option<&str>) -> Option<&mut Node> {
        let at = known.unwrap_or(self.nodes.len());
        if at >= NODES {
            self.further.insert(host.map(str::to_owned));
            return None;
        }
        if at == self.nodes.len() {
            let mut node = Node::of(host);
            node.folder.clone_from(&self.folder);
            self.nodes.push(node);
        }
        self.nodes.get_mut(at)
    }

    /// The host that nobody names in the folder of this member.
    fn own_node(&mut self) -> Option<&mut Node> {
        let folder = self.folder.clone();
        let mut nodes = self.nodes.iter();
        let known = nodes.position(|node| node.host.is_none() && node.folder == folder);
        self.at(known, None)
    }

    /// The last host without a name that has not said this yet: a tool that speaks a second time,
    /// speaks of another machine. What stands in one folder of a bundle is of one.
    fn unnamed(&mut self, asked: &Question) -> Option<&mut Node> {
        if self.folder.is_some() {
            return self.own_node();
        }
        let mut nodes = self.nodes.iter();
        let last = nodes.rposition(|node| node.host.is_none());
        // A counter is looked at twice, and those of several ports one after the other.
        let is_repeated = matches!(asked, Question::Run(run) if shows_counters(run));
        let known = last.filter(|at| is_repeated || !self.nodes[*at].replies.contains_key(asked));
        self.at(known, None)
    }

    /// Makes one machine of what a collector gathered of it, whatever hosts its texts name.
    fn merge_collected(&mut self) {
        for machine in std::mem::take(&mut self.machines) {
            let nodes = std::mem::take(&mut self.nodes).into_iter();
            let (own, others): (Vec<Node>, Vec<Node>) =
                nodes.partition(|node| node.is_below(&machine));
            self.nodes = others;
            let called = own.iter().find_map(|node| node.called.clone());
            let mut named = own.iter().filter_map(|node| node.host.clone());
            let name = called.or_else(|| named.next().filter(|_| named.next().is_none()));
            let mut one = Node {
                called: name,
                folder: Some(machine),
                ..Node::default()
            };
            own.into_iter().for_each(|node| one.take(node));
            self.nodes.push(one);
        }
    }

    /// Makes one machine of the folders of a bundle, unless folders that have names of hosts hold
    /// answers to the same question.
    fn merge_folders(&mut self) {
        let of_folder = |node: &Node| node.host.is_none() && node.folder.is_some();
        let (mut unnamed, others): (Vec<Node>, Vec<Node>) = std::mem::take(&mut self.nodes)
            .into_iter()
            .partition(of_folder);
        self.nodes = others;
        let folders: Vec<&str> = unnamed
            .iter()
            .filter_map(|node| node.folder.as_deref())
            .collect();
        let names: Vec<Option<String>> = if self.is_beside {
            folders
                .iter()
                .map(|name| Some((*name).to_owned()))
                .collect()
        } else {
            machine_names(&folders)
        };
        let mut asked: BTreeMap<&Question, &Option<String>> = BTreeMap::new();
        let mut contradict = false;
        for (node, name) in unnamed.iter().zip(&names) {
            for question in node.replies.keys() {
                contradict |= asked
                    .insert(question, name)
                    .is_some_and(|other| other != name);
            }
        }
        let mut merged: Vec<Node> = Vec::new();
        for (node, name) in unnamed.drain(..).zip(names) {
            let host = name.filter(|_| contradict);
            match merged.iter_mut().find(|one| one.host == host) {
                Some(one) => one.take(node),
                None => merged.push(Node { host, ..node }),
            }
        }
        self.nodes.extend(merged);
    }

    /// The recordings: one of each host, and one of the logs among the texts.
    pub fn finish(mut self) -> Vec<Recording> {
        let further = LeftOut::counted(self.further.len() as u64, "host", NODES_BOUND);
        self.leave_out(vec![further]);
        self.merge_collected();
        self.merge_folders();
        // Where one host is named, what nobody names is of it.
        if self.nodes.iter().filter(|node| node.host.is_some()).count() == 1 {
            let is_named = |node: &Node| node.host.is_some();
            let (mut named, others): (Vec<Node>, Vec<Node>) =
                self.nodes.into_iter().partition(is_named);
            if let Some(node) = named.first_mut() {
                others.into_iter().for_each(|other| node.take(other));
            }
            self.nodes = named;
        }
        let mut unnamed = 0;
        let mut recordings = Vec::new();
        for node in self.nodes {
            let name = match node.host.clone().or_else(|| node.called.clone()) {
                Some(host) => host,
                None => {
                    unnamed += 1;
                    match unnamed {
                        1 => self.name.clone(),
                        n => format!("{} ({n})", self.name),
                    }
                }
            };
            recordings.push(node.recording(name, &self.left_out));
        }
        if !self.logs.is_empty() {
            recordings.push(log(&self.logs, &self.left_out));
        }
        recordings
    }
}

impl Node {
    fn of(host: Option<&str>) -> Self {
        Node {
            host: host.map(str::to_owned),
            ..Node::default()
        }
    }

    /// Whether it is of this folder of a bundle, or of one below it.
    fn is_below(&self, folder: &str) -> bool {
        let own = self.folder.as_deref();
        let rest = own.and_then(|own| own.strip_prefix(folder));
        rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }

    fn answer(&mut self, question: Question, said: Result<Answer, Refusal>) {
        self.replies
            .entry(question)
            .or_default()
            .push(Reply { at: 0, said });
    }

    fn take(&mut self, other: Node) {
        self.called = self.called.take().or(other.called);
        self.places.extend(other.places);
        for (question, replies) in other.replies {
            self.replies.entry(question).or_default().extend(replies);
        }
    }

    /// Answers what is asked through the links of a copied tree.
    fn follow_links(&mut self) {
        let mut files: Vec<String> = Vec::new();
        let mut links: BTreeMap<String, String> = BTreeMap::new();
        for (question, replies) in &self.replies {
            match (question, replies.first().map(|reply| &reply.said)) {
                (Question::Read(path), _) => files.push(path.to_string()),
                (Question::Link(path), Some(Ok(Answer::Text(target)))) => {
                    links.insert(path.to_string(), target.to_string());
                }
                _ => {}
            }
        }
        for (alias, file) in tree_links::aliases(&files, &links) {
            if let Some(replies) = self.replies.get(&Question::read(file)).cloned() {
                self.replies.insert(Question::read(alias), replies);
            }
        }
    }

    /// Answers what the directories hold whose files are answered: of a copy of a machine's files,
    /// and of nothing else.
    fn list_directories(&mut self) {
        let mut names: BTreeMap<String, BTreeSet<Arc<str>>> = BTreeMap::new();
        for question in self.replies.keys() {
            let (Question::Read(path) | Question::Link(path)) = question else {
                continue;
            };
            let mut rest: &str = path;
            while let Some((above, name)) =
                rest.rsplit_once('/').filter(|(above, _)| !above.is_empty())
            {
                names
                    .entry(above.to_owned())
                    .or_default()
                    .insert(name.into());
                rest = above;
            }
        }
        for (directory, names) in names {
            let names: Arc<[Arc<str>]> = names.into_iter().collect();
            self.answer(Question::list(directory), Ok(Answer::Names(names)));
        }
    }

    fn recording(mut self, name: String, left_out: &[LeftOut]) -> Recording {
        if self.places.is_empty() {
            self.follow_links();
            self.list_directories();
        }
        // What the doctor measures, no tool prints.
        for question in [Plan::question(), ablation_table::question()] {
            self.answer(question, Err(Refusal::not_asked("outputs of tools")));
        }
        let mut recording = Recording::new(Header {
            version: wire::VERSION.into(),
            node: name,
            doctor: env!("CARGO_PKG_VERSION").into(),
            tree: true,
            ..Header::default()
        });
        recording.add(Line::of(PROBE.name, question(), &self.places, 0));
        if !left_out.is_empty() {
            recording.add(Line::of(PROBE.name, left_out_question(), &left_out, 0));
        }
        for (question, replies) in self.replies {
            for (repeat, reply) in (0..).zip(replies) {
                recording.add(Line::Reply {
                    probe: PROBE.name.into(),
                    question: question.clone(),
                    repeat,
                    reply,
                });
            }
        }
        recording.end();
        recording
    }
}

/// Hosts that can be compared.
const SEVERAL: usize = 2;
/// What tells of events, and of no state in which hosts could be alike.
const EVENTS: [&str; 3] = ["dmesg", "journalctl", "log"];

/// The commands for which several hosts of a text printed something.
fn printed_by_several(outputs: &[Block]) -> BTreeSet<Vec<String>> {
    let mut hosts: BTreeMap<&[String], BTreeSet<&str>> = BTreeMap::new();
    for block in outputs {
        if !EVENTS.contains(&block.tool()) {
            let of_command = hosts.entry(&block.argv).or_default();
            of_command.extend(block.host.as_deref());
        }
    }
    hosts.retain(|_, names| names.len() >= SEVERAL);
    hosts.into_keys().map(<[String]>::to_vec).collect()
}

/// Whether a text holds a cabling plan.
pub fn is_cabling_plan(text: &str) -> bool {
    let mut evidence = Evidence::default();
    evidence.add_text("", text);
    let mut asked = evidence.nodes.iter().flat_map(|node| node.replies.keys());
    asked.any(|one| matches!(one, Question::Run(run) if run.first().is_some_and(|tool| &**tool == "cabling-plan")))
}

/// The folder of a member, not deeper than what tells machines apart.
fn folder(parts: &[&str]) -> String {
    let above = parts.len().saturating_sub(1).min(3);
    parts.get(..above).unwrap_or_default().join("/")
}

/// The first part in which these folders differ, where it is the name of a host.
fn machine_names(folders: &[&str]) -> Vec<Option<String>> {
    let split: Vec<Vec<&str>> = folders
        .iter()
        .map(|folder| folder.split('/').collect())
        .collect();
    let mut depth = 0;
    while let Some(first) = split.first().and_then(|parts| parts.get(depth))
        && split.iter().all(|parts| parts.get(depth) == Some(first))
    {
        depth += 1;
    }
    let parts = split.iter().map(|parts| parts.get(depth));
    let names = parts.map(|part| part.filter(|name| tool_output::is_host_name(name)));
    names
        .map(|name| name.map(|name| (*name).to_owned()))
        .collect()
}

/// The word that a block consists of.
fn one_word(block: &Block) -> Option<&str> {
    let [(_, line)] = block.lines.as_slice() else {
        return None;
    };
    let word = line.trim();
    (!word.is_empty() && !word.contains(' ')).then_some(word)
}

/// Whether a text tells of a run of NCCL, of a benchmark, or of what failed: not of what tools
/// print of a machine alone.
pub fn tells_of_run(digest: &Digest) -> bool {
    let (of_log, outputs): (Vec<&Block>, Vec<&Block>) =
        (digest.outputs.iter()).partition(|block| block.tool() == "log");
    let has_run = outputs.iter().any(|block| is_of_benchmark(block));
    // A line that says what failed is evidence, whoever wrote it; within an output that is read the
    // output is, and of another one, and of the logs that a tool shows, only what a table has.
    let (mut read, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for block in &outputs {
        let of = if !tool_output::is_read(&block.argv) || tool_output::carries_log(&block.argv) {
            &mut listed
        } else {
            &mut read
        };
        of.extend(block.lines.iter().map(|(line, _)| *line));
    }
    let is_evidence = |kept: &KeptLine| {
        let text = kept.text.as_bytes();
        outputs.is_empty()
            || if listed.contains(&kept.line) {
                names_listed_cause(text) && tool_output::kernel_line(&kept.text).is_none()
            } else {
                // NCCL's own lines may stand without what is before them.
                !read.contains(&kept.line) && (names_cause(text) || prefix::bare(text).is_some())
            }
    };
    // Lines that only NCCL writes are a log, without a process before them too.
    let own = [MessageGroup::Channel, MessageGroup::Init, MessageGroup::Net];
    let is_of_nccl =
        outputs.is_empty() && (own.iter()).any(|group| digest.sorts.contains_key(group.word()));
    let is_event = digest.sorts.contains_key(MessageGroup::Event.word())
        && digest.kept.iter().any(is_evidence);
    let is_benchmark = |block: &&Block| !is_of_stated_ports(block);
    has_run
        || digest.trace.is_some()
        || is_event
        || is_of_nccl
        || !digest.processes.is_empty()
        || of_log.iter().any(is_benchmark)
}

/// Whether a command shows counters: of one machine people look at them twice.
fn shows_counters(argv: &[Arc<str>]) -> bool {
    let has = |words: &[&str]| argv.iter().any(|arg| words.contains(&&**arg));
    match argv.first().map(|tool| &**tool) {
        Some("perfquery" | "nstat" | "uptime" | "ping") => true,
        Some("ethtool") => has(&["-S", "--statistics"]),
        Some("rdma") => has(&["statistic", "stat"]),
        Some("cat") => argv
            .iter()
            .any(|path| path.contains("counters/") || path.contains("/statistics/")),
        _ => false,
    }
}

fn is_of_stated_ports(block: &Block) -> bool {
    block.is_benchmark(tool_output::STATED_PORTS)
}

/// The recording of logs that stood among other outputs.
fn log(logs: &[(String, Digest)], left_out: &[LeftOut]) -> Recording {
    let mut recording = Recording::new(Header {
        version: wire::VERSION.into(),
        doctor: env!("CARGO_PKG_VERSION").into(),
        log: true,
        ..Header::default()
    });
    let names: Vec<&String> = logs.iter().map(|(name, _)| name).collect();
    let said = serde_json::json!({ "files": names, "left_out": left_out });
    recording.add(Line::of(nccl_log::NAME, nccl_log::files(), &said, 0));
    for (name, digest) in logs {
        recording.add(Line::of(nccl_log::NAME, nccl_log::file(name), digest, 0));
    }
    recording.end();
    recording
}

/// Whether this is of a benchmark: its table, or what stands before that.
fn is_of_benchmark(block: &Block) -> bool {
    let tool = block.tool();
    tool == "log"
        || ["_perf", "_pingpong"].iter().any(|end| tool.ends_with(end))
        || tool.starts_with("ib_")
}

/// Whether an output that stood in a log is judged as one of a node. The variables of the run stand
/// there too, and are the log's.
pub(in crate::probe) fn is_of_node(block: &Block) -> bool {
    tool_output::is_read(&block.argv)
        && !is_of_benchmark(block)
        && !["env", "printenv"].contains(&block.tool())
}

/// The questions about files that an output answers byte for byte.
fn of_files(block: &Block) -> Vec<(Question, Result<Answer, Refusal>)> {
    let operands: Vec<&str> = block.argv.iter().skip(1).map(String::as_str).collect();
    let first = block.lines.first().map_or("", |(_, line)| line.as_str());
    let answered = |text: String| Ok(Answer::Text(text.into()));
    match (block.tool(), operands.as_slice()) {
        _ if block.is_cut && block.tool() != "sysctl" => Vec::new(),
        ("sysctl", _) => block
            .lines
            .iter()
            .filter_map(|(_, line)| parameter(line))
            .collect(),
        ("lspci", _) => {
            let spaces = tool_output::config_spaces(block.lines.iter().map(|(_, line)| &**line));
            let file = |(name, _, bytes): (String, usize, Vec<u8>)| {
                let question = Question::read(format!("/sys/bus/pci/devices/{name}/config"));
                (question, Ok(Answer::Bytes(bytes.into())))
            };
            spaces.into_iter().map(file).collect()
        }
        ("uname", ["-r"]) if !first.contains(' ') => {
            vec![(Question::read(RELEASE), answered(format!("{first}\n")))]
        }
        ("uname", ["-a"]) => {
            let release = after_linux(first, 1).into_iter();
            let file = |release| (Question::read(RELEASE), answered(format!("{release}\n")));
            release.map(file).collect()
        }
        ("limits.conf", _) => vec![(
            Question::read("/etc/security/limits.conf"),
            answered(block.text()),
        )],
        ("cat", [path]) if is_path(path) => {
            let said = refusal(first, "cat").map_or_else(|| answered(block.text()), Err);
            vec![(Question::read(*path), said)]
        }
        // Files of one line each.
        ("cat", paths) if paths.len() == block.lines.len() => {
            let texts = block.texts();
            paths
                .iter()
                .zip(texts)
                .filter_map(|pair| file_of_a_line(pair.0, pair.1))
                .collect()
        }
        ("sysfs", _) => {
            let pairs = block.texts().filter_map(|line| line.trim().split_once(':'));
            pairs
                .filter_map(|pair| file_of_a_line(pair.0, pair.1))
                .collect()
        }
        ("ls", [.., path])
            if path.starts_with('/') && operands.iter().all(|o| *o == *path || *o == "-1") =>
        {
            let mut names: Vec<Arc<str>> = block
                .lines
                .iter()
                .flat_map(|(_, l)| l.split_whitespace())
                .map(Arc::from)
                .collect();
            names.sort();
            let said = refusal(first, "ls").map_or_else(|| Ok(Answer::Names(names.into())), Err);
            vec![(Question::list(*path), said)]
        }
        ("readlink", [path]) if path.starts_with('/') => {
            vec![(Question::link(*path), answered(first.to_owned()))]
        }
        _ => Vec::new(),
    }
}

/// The reply of a file of which this is the only line.
fn file_of_a_line(path: &str, line: &str) -> Option<(Question, Result<Answer, Refusal>)> {
    let text = || Ok(Answer::Text(format!("{line}\n").into()));
    let said = refusal(line, "cat").map_or_else(text, Err);
    is_path(path).then(|| (Question::read(path), said))
}

/// Whether these are the letters of one file's path, and no pattern.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['*', '?', '[', '{', '$', ' '])
}

/// A word of `uname -a` behind the kernel's name: the host's name, the release.
fn after_linux(line: &str, place: usize) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "Linux");
    words.nth(place + 1)
}

const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// `cat: /x: No such file or directory`
fn refusal(line: &str, tool: &str) -> Option<Refusal> {
    let rest = line.strip_prefix(tool)?.strip_prefix(": ")?;
    let (_, words) = rest.rsplit_once(": ")?;
    Some(Refusal::Errno(match words {
        "No such file or directory" => Errno::ENOENT,
        "Permission denied" => Errno::EACCES,
        "Operation not permitted" => Errno::EPERM,
        "Invalid argument" => Errno::EINVAL,
        "Operation not supported" => Errno::EOPNOTSUPP,
        "Input/output error" => Errno::EIO,
        "No such device" => Errno::ENODEV,
        _ => return None,
    }))
}

/// `vm.max_map_count = 65530`; in the name of an interface a dot is written as a slash.
fn parameter(line: &str) -> Option<(Question, Result<Answer, Refusal>)> {
    let (name, value) = line.split_once(" = ").or_else(|| line.split_once(" ="))?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':');
    if name.is_empty() || !name.contains('.') || !name.chars().all(fits) {
        return None;
    }
    let swapped: String = name
        .chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        })
        .collect();
    Some((
        Question::read(format!("/proc/sys/{swapped}")),
        Ok(Answer::Text(format!("{value}\n").into())),
    ))
}
