//! Communicators and their ranks, and which processes make a run.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::line::{Line, Writer};

/// Made once: each line is searched for it.
static COMM: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" comm "));

/// A map of what lines say: their own hashes suffice.
type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// A line's mention of a communicator and its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mention<'d> {
    /// The communicator's address in its process.
    pub(super) comm: &'d str,
    pub(super) rank: u64,
    pub(super) ranks: u64,
    pub(super) device: Option<u64>,
    pub(super) id: Option<&'d str>,
    pub(super) nodes: Option<u64>,
    pub(super) step: Option<CommunicatorStep>,
}

/// A process's step with a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommunicatorStep {
    Started,
    Complete,
    Destroyed,
    Aborted,
}

impl<'d> Mention<'d> {
    /// `ncclCommInitRank comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 9a000 commId 0x1f - Init COMPLETE`
    pub(super) fn read(message: &'d str) -> Option<Self> {
        let rest = match message.strip_prefix("comm ") {
            Some(rest) => rest,
            None => {
                let at = COMM.find(message.as_bytes())?;
                message.get(at + " comm ".len()..)?
            }
        };
        let mut words = rest.split([' ', ',']).filter(|word| !word.is_empty());
        let comm = words.next()?;
        let (mut rank, mut ranks, mut device, mut id) = (None, None, None, None);
        let (mut nodes, mut local): (Option<u64>, Option<u64>) = (None, None);
        while let Some(word) = words.next() {
            match word {
                "rank" => rank = rank.or(words.next()?.parse().ok()),
                "nranks" | "nRanks" => ranks = words.next()?.parse().ok(),
                "cudaDev" => device = words.next()?.parse().ok(),
                "commId" => id = words.next(),
                "nNodes" => nodes = words.next()?.parse().ok(),
                "localRanks" => local = words.next()?.parse().ok(),
                // The ranks of a parent follow none of these.
                _ => {}
            }
        }
        let ends = |words: &str| rest.ends_with(words);
        let step = if ends("Init START") {
            Some(CommunicatorStep::Started)
        } else if ends("COMPLETE") && rest.contains("Init ") || ends("- COMPLETE") {
            Some(CommunicatorStep::Complete)
        } else if rest.contains("Abort COMPLETE") || rest.contains("Abort START") {
            Some(CommunicatorStep::Aborted)
        } else {
            let destroyed = rest.contains("COMPLETE") || message.starts_with("Destroyed");
            destroyed.then_some(CommunicatorStep::Destroyed)
        };
        Some(Mention {
            comm,
            rank: rank?,
            ranks: ranks?,
            device,
            id,
            nodes: nodes.or(local
                .filter(|local| *local > 0)
                .and_then(|local| Some(ranks?.div_ceil(local)))),
            step,
        })
    }
}

/// A process, whatever thread of it wrote.
pub(super) type ProcessKey<'d> = (&'d str, u64);

/// A communicator.
#[derive(Default)]
pub(super) struct Communicator<'d> {
    pub(super) ranks: u64,
    pub(super) id: Option<&'d str>,
    /// The writer of each rank.
    pub(super) members: Map<u64, Member<'d>>,
    pub(super) nodes: Option<(u64, usize)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'d> {
    pub(super) host: &'d str,
    pub(super) pid: u64,
    pub(super) device: Option<u64>,
    /// The places of the lines that say so, among all lines.
    pub(super) started: Option<usize>,
    pub(super) complete: Option<usize>,
    pub(super) said: usize,
}

/// All communicators of a log.
#[derive(Default)]
pub(super) struct Communicators<'d> {
    pub(super) all: Vec<Communicator<'d>>,
    by_id: Map<(&'d str, u64), usize>,
    /// Those without a name in which ranks are free, by their size, and by a host of theirs and their size.
    free: Map<u64, BTreeSet<usize>>,
    free_on: Map<(&'d str, u64), BTreeSet<usize>>,
    /// By process and address; the last one if an address is used again.
    by_address: Map<(ProcessKey<'d>, u64), usize>,
    /// The communicators of each process and the rank that it has there.
    pub(super) of_process: Map<ProcessKey<'d>, Vec<(usize, u64)>>,
}

impl<'d> Communicators<'d> {
    pub(super) fn of(lines: &[Line<'d>]) -> Self {
        let mut all = Communicators::default();
        for (place, line) in lines.iter().enumerate() {
            if let (Some(writer), Some(mention)) = (line.writer, Mention::read(line.message)) {
                all.add(place, writer, mention);
            }
        }
        all
    }

    fn add(&mut self, place: usize, writer: Writer<'d>, mention: Mention<'d>) {
        let process = (writer.host, writer.pid);
        let address = address(mention.comm);
        let known = self.by_address.get(&(process, address)).copied();
        // An address may be used again by a later communicator, which then has another size, another rank or another name.
        let fits = |at: &usize| {
            let comm = &self.all[*at];
            comm.ranks == mention.ranks
                && (mention.id.is_none() || comm.id.is_none() || comm.id == mention.id)
                && comm
                    .members
                    .get(&mention.rank)
                    .is_some_and(|m| (m.host, m.pid) == process)
        };
        let at = match known.filter(fits) {
            Some(at) => at,
            None => match mention.id {
                Some(id) => match self.by_id.get(&(id, mention.ranks)) {
                    Some(at) => *at,
                    None => self.push(mention.ranks, Some(id)),
                },
                // Without a name: one of this size where this rank is still free, one of the same host first.
                None => {
                    let (all, rank) = (&self.all, mention.rank);
                    let near = self.free_on.get_mut(&(writer.host, mention.ranks));
                    let any = self.free.get_mut(&mention.ranks);
                    match last_free(all, near, rank).or_else(|| last_free(all, any, rank)) {
                        Some(at) => at,
                        None => self.push(mention.ranks, None),
                    }
                }
            },
        };
        self.by_address.insert((process, address), at);
        let of_process = self.of_process.entry(process).or_default();
        if !of_process.contains(&(at, mention.rank)) {
            of_process.push((at, mention.rank));
        }
        let Some(comm) = self.all.get_mut(at) else {
            return;
        };
        if comm.id.is_none() {
            let on = self.free_on.entry((writer.host, mention.ranks));
            on.or_default().insert(at);
        }
        if let Some(nodes) = mention.nodes {
            comm.nodes.get_or_insert((nodes, place));
        }
        let member = comm.members.entry(mention.rank).or_insert(Member {
            host: writer.host,
            pid: writer.pid,
            device: None,
            started: None,
            complete: None,
            said: place,
        });
        member.device = member.device.or(mention.device);
        match mention.step {
            Some(CommunicatorStep::Started) => member.started = member.started.or(Some(place)),
            Some(CommunicatorStep::Complete) => member.complete = member.complete.or(Some(place)),
            _ => {}
        }
    }

    fn push(&mut self, ranks: u64, id: Option<&'d str>) -> usize {
        let at = self.all.len();
        self.all.push(Communicator {
            ranks,
            id,
            ..Communicator::default()
        });
        match id {
            Some(id) => {
                self.by_id.insert((id, ranks), at);
            }
            None => {
                self.free.entry(ranks).or_default().insert(at);
            }
        }
        at
    }

    /// The communicator of a channel's line: by its address, else the only one, or the largest, in which the writer has this rank.
    pub(super) fn of_channel(
        &self,
        writer: Writer<'d>,
        comm: u64,
        own: u64,
        highest: u64,
    ) -> Option<usize> {
        let process = (writer.host, writer.pid);
        if comm != 0
            && let Some(at) = self.by_address.get(&(process, comm))
        {
            return Some(*at);
        }
        let fits = |(at, rank): &&(usize, u64)| *rank == own && self.all[*at].ranks > highest;
        let of_process = self.of_process.get(&process)?;
        of_process
            .iter()
            .filter(fits)
            .max_by_key(|(at, _)| self.all[*at].ranks)
            .map(|(at, _)| *at)
    }

    /// The communicator of a process with the most ranks, and its rank there.
    pub(super) fn largest_of(&self, process: ProcessKey<'d>) -> Option<(usize, u64)> {
        let of_process = self.of_process.get(&process)?;
        // Of several of one size the first: it is the one that the others were split from.
        of_process
            .iter()
            .copied()
            .rev()
            .max_by_key(|(at, _)| self.all[*at].ranks)
    }
}

/// The last of these communicators in which the rank is free. Those that are full leave the list.
fn last_free(
    all: &[Communicator<'_>],
    list: Option<&mut BTreeSet<usize>>,
    rank: u64,
) -> Option<usize> {
    let list = list?;
    let mut full = Vec::new();
    let found = list.iter().rev().copied().find(|at| {
        let Communicator { members, ranks, .. } = &all[*at];
        if members.len() as u64 >= *ranks {
            full.push(*at);
            return false;
        }
        !members.contains_key(&rank)
    });
    for at in &full {
        list.remove(at);
    }
    found
}

fn address(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// Processes that belong together.
pub(super) struct Runs<'d> {
    /// The run of each process; runs are numbered in the order of their first lines.
    pub(super) of_process: Map<ProcessKey<'d>, usize>,
    pub(super) count: usize,
}

/// When a process wrote: its file, and its first and last line there.
pub(super) struct Span<'d> {
    pub(super) process: ProcessKey<'d>,
    pub(super) file: usize,
    pub(super) first: u64,
}

impl<'d> Runs<'d> {
    /// Processes that share a communicator are of one run, and so are those that do with others. A process that names none is of
    /// the run that began last before it in its file.
    pub(super) fn of(comms: &Communicators<'d>, spans: &[Span<'d>]) -> Self {
        let mut group: Map<ProcessKey<'d>, usize> = Map::default();
        let mut parents: Vec<usize> = Vec::new();
        fn root(parents: &mut [usize], mut at: usize) -> usize {
            while parents[at] != at {
                parents[at] = parents[parents[at]];
                at = parents[at];
            }
            at
        }
        for comm in &comms.all {
            let mut first = None;
            let mut members: Vec<_> = comm.members.values().map(|m| (m.host, m.pid)).collect();
            members.sort_unstable();
            for process in members {
                let at = *group.entry(process).or_insert_with(|| {
                    parents.push(parents.len());
                    parents.len() - 1
                });
                let at = root(&mut parents, at);
                match first {
                    None => first = Some(at),
                    Some(first) => {
                        let first = root(&mut parents, first);
                        parents[at] = first;
                    }
                }
            }
        }
        let mut numbers: Map<usize, usize> = Map::default();
        let mut of_process = Map::default();
        // The run of the last process before that has one, in each file, and in any.
        let mut recent: Map<usize, usize> = Map::default();
        let mut lonely = Vec::new();
        for span in spans {
            match group.get(&span.process) {
                Some(at) => {
                    let at = root(&mut parents, *at);
                    let next = numbers.len();
                    let run = *numbers.entry(at).or_insert(next);
                    of_process.insert(span.process, run);
                    recent.insert(span.file, run);
                }
                None => lonely.push((span.process, recent.get(&span.file).copied())),
            }
        }
        let count = numbers.len().max(usize::from(!spans.is_empty()));
        for (process, run) in lonely {
            of_process.entry(process).or_insert(run.unwrap_or(0));
        }
        Runs { of_process, count }
    }
}
