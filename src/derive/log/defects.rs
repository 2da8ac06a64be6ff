//! Known defects of NCCL that a run hits, and whether it shows what they make of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::known_defects::{self, Condition, KnownDefect};
use crate::fact::defect::{self, DefectSeen, Symptom};
use crate::fact::event::{self, EventOutcome, LogClass};
use crate::fact::kernel_event::{self, EventClass};
use crate::fact::kleene::Several;
use crate::fact::node::CpuVendor;
use crate::fact::run::{self, Library};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Key, Membership, Origin, Subject, Typed};
use crate::fact::{benchmark, env, host, node};

/// States the defects that a run hits.
pub(super) fn state_defects(facts: &mut Facts, run: Id, hosts: &[Id], events: &[Id]) {
    let (version, origin) = match facts.get(run, run::VERSION) {
        Fact::Known(version, origin) => (version, origin),
        Fact::Unknown(gap) => {
            return facts.set_members(Subject::Defect, run, Membership::Unknown(gap));
        }
    };
    facts.set_members(Subject::Defect, run, Membership::Known(origin));
    if facts.known(run, run::LIBRARY) != Some(Library::Nccl) {
        return;
    }
    let view = RunView {
        facts,
        run,
        hosts,
        events,
    };
    let hits = known_defects::hit(&version, &|condition| view.holds(condition));
    let hits = hits.into_iter().filter_map(|defect| {
        let symptom = Symptom::from_word(defect.symptom)?;
        let is_other = symptom == Symptom::Hang && view.has_other_cause();
        Some(HitDefect {
            is_proven: defect.is_proven && !is_other,
            seen: view.symptom_seen(symptom),
            symptom,
            defect,
        })
    });
    for hit in hits.collect::<Vec<_>>() {
        state_defect(facts, run, &version, &hit);
    }
}

/// A defect that a run hits.
struct HitDefect {
    defect: KnownDefect,
    symptom: Symptom,
    seen: Seen,
    /// Whether what is known of the run is all that it takes, and nothing else explains the symptom.
    is_proven: bool,
}

/// Whether a run shows a symptom.
enum Seen {
    /// By an event or a benchmark.
    Shown(Id),
    Suspected,
    No,
}

fn state_defect(facts: &mut Facts, run: Id, version: &Arc<str>, hit: &HitDefect) {
    let defect = &hit.defect;
    let id = facts.instance(Subject::Defect, run, defect.name);
    let how = "the version, and what the log shows of the run";
    let texts = [
        (defect::VERSION, &**version),
        (defect::WHAT, defect.what),
        (defect::FIXED, &defect.fixed_in_words()),
        (defect::REMEDY, defect.remedy),
        (defect::SOURCE, defect.source),
    ];
    for (key, text) in texts {
        facts.derive(id, key, text.into(), how);
    }
    facts.derive(id, defect::PROVEN, hit.is_proven, how);
    facts.derive(id, defect::SYMPTOM, hit.symptom, how);
    let seen = match hit.seen {
        Seen::Shown(by) => {
            let place = facts.known(by, event::PLACE);
            if let Some(place) = place.filter(|_| facts.subject(by) == Subject::Event) {
                facts.derive(id, defect::PLACE, place, how);
            }
            facts.relate(id, by);
            DefectSeen::Shown
        }
        Seen::Suspected => DefectSeen::Suspected,
        Seen::No => DefectSeen::No,
    };
    facts.derive(id, defect::SEEN, seen, how);
    facts.relate(id, run);
}

/// What is known of a run.
struct RunView<'f> {
    facts: &'f Facts,
    run: Id,
    hosts: &'f [Id],
    events: &'f [Id],
}

impl RunView<'_> {
    fn holds(&self, condition: Condition) -> Fact<bool> {
        let (facts, run) = (self.facts, self.run);
        match condition {
            Condition::Arm => self.is_arm(),
            Condition::Mnnvl => facts.get(run, run::MNNVL),
            Condition::Ranks(least) => facts.get(run, run::RANKS).map(|ranks| ranks >= least),
            Condition::UnequalRanks => self.has_unequal_ranks(),
            Condition::Variable(name, value) => self.is_set(name, value),
            Condition::NoVariable(name, value) => self.is_set(name, value).map(|is| !is),
            Condition::Differs(name) => self.differs(name),
            Condition::GpuDirect => facts.get(run, run::INTER_GDR).map(|lines| lines > 0),
            Condition::AdapterPerGpu => self.has_adapter_per_gpu(),
            Condition::StackUnlimited => self
                .of_node(node::STACK)
                .map(|size| size == Bytes::UNLIMITED),
            Condition::Initialising => facts.get(run, run::INITIALISED).map(|done| !done),
            Condition::Says(words) => self.says(words),
        }
    }

    /// Whether the CPUs are of ARM's architecture: that of a machine whose outputs stand in the text,
    /// else what lines of NCCL show.
    fn is_arm(&self) -> Fact<bool> {
        let by_lines = self.facts.get(self.run, run::ARM);
        let by_outputs = self.of_node(node::CPU_VENDOR);
        (by_outputs.map(|vendor| vendor == CpuVendor::Arm)).or_else(|| by_lines)
    }

    /// A fact of the machines whose outputs stand in the text, where one tells it.
    fn of_node<T: Typed>(&self, key: Key<T>) -> Fact<T> {
        let nodes = self.facts.all(Subject::Node);
        let mut said = nodes.map(|node| self.facts.get(node, key));
        said.find(|fact| fact.known().is_some())
            .unwrap_or_else(|| Fact::Unknown(Gap::missing(key.path())))
    }

    fn has_unequal_ranks(&self) -> Fact<bool> {
        let (facts, run) = (self.facts, self.run);
        let nodes = facts.get(run, run::NODES).zip(facts.get(run, run::RANKS));
        nodes.flat_map(|(nodes, ranks)| {
            if nodes > 0 && ranks % nodes != 0 {
                return Fact::derived(true, "ranks and nodes of the largest communicator");
            }
            let of_hosts = self.hosts.iter().map(|host| facts.get(*host, host::RANKS));
            let of_hosts: Several<u64> = of_hosts.collect();
            let counted = of_hosts.known().map(|counts| {
                let different: BTreeSet<&u64> = counts.iter().collect();
                (counts.iter().sum::<u64>(), different.len() > 1)
            });
            match counted {
                Ok((seen, differ)) if seen == ranks => {
                    Fact::derived(differ, "the ranks that each host logged")
                }
                Ok(_) => Fact::Unknown(Gap::missing("the ranks of each host")),
                Err(gap) => Fact::Unknown(gap),
            }
        })
    }

    /// The values of a variable on the hosts that log it.
    fn values(&self, name: &str) -> Vec<Arc<str>> {
        let logged = self.facts.below(self.run, Subject::Env);
        let of_name = logged.filter(|id| self.facts.known(*id, env::NAME).as_deref() == Some(name));
        of_name
            .filter_map(|id| self.facts.known(id, env::VALUE))
            .collect()
    }

    /// Whether a variable has this value: a log that tells of variables tells of this one.
    fn is_set(&self, name: &str, value: &str) -> Fact<bool> {
        let values = self.values(name);
        if values.iter().any(|said| **said == *value) {
            return Fact::derived(true, "the variables that the log shows");
        }
        // NCCL says at level INFO which variables are set, and then others are not.
        let is_told = self.facts.get(self.run, run::INFO);
        is_told.flat_map(|is_told| match is_told {
            true => Fact::derived(false, "the variables that the log shows"),
            false => Fact::Unknown(Gap::missing("the variables of the run")),
        })
    }

    fn differs(&self, name: &str) -> Fact<bool> {
        let values: BTreeSet<Arc<str>> = self.values(name).into_iter().collect();
        Fact::derived(values.len() > 1, "the variables that the log shows")
    }

    fn has_adapter_per_gpu(&self) -> Fact<bool> {
        let of_hosts = self.hosts.iter().map(|host| {
            let ports = self.facts.get(*host, host::IB_PORTS);
            ports.zip(self.facts.get(*host, host::RANKS))
        });
        let of_hosts: Several<(u64, u64)> = of_hosts.collect();
        let all = of_hosts.all(|(ports, ranks)| *ports > 0 && ports >= ranks);
        Fact::from_result(all, &Origin::derived("adapters and ranks of each host"))
    }

    fn says(&self, words: &str) -> Fact<bool> {
        let said = self.events.iter().any(|id| self.event_says(*id, words));
        Fact::derived(said, "the events of the log")
    }

    fn event_says(&self, id: Id, words: &str) -> bool {
        (self.facts.known(id, event::TEXT)).is_some_and(|text| text.contains(words))
    }

    fn symptom_seen(&self, symptom: Symptom) -> Seen {
        let shown = match symptom {
            Symptom::Hang => self.hang(),
            Symptom::Crash => self.leading(|view, id| {
                view.is_of(id, LogClass::ProcessEnded) && view.event_says(id, "egmentation fault")
            }),
            Symptom::WrongData => self.wrong_results(),
            Symptom::InitFails => {
                self.leading(|view, id| view.is_of(id, LogClass::TopologyOverflow))
            }
            Symptom::Slow => None,
        };
        let is_stuck = self
            .facts
            .known(self.run, run::STUCK)
            .is_some_and(|n| n > 0);
        match shown {
            Some(by) => Seen::Shown(by),
            None if symptom == Symptom::Hang && is_stuck && self.leading(|_, _| true).is_none() => {
                Seen::Suspected
            }
            None => Seen::No,
        }
    }

    /// Whether the kernel says in the same text what makes a rank wait or end: then nobody knows that it
    /// was the library.
    fn has_other_cause(&self) -> bool {
        let stops_a_rank = |id: &Id| {
            let class = self.facts.known(*id, kernel_event::CLASS);
            self.facts.known(*id, kernel_event::SEEN) == Some(true)
                && self.facts.touches(*id, self.run)
                && class.is_some_and(may_stop_rank)
        };
        let mut events = self.facts.all(Subject::KernelEvent);
        events.any(|id| stops_a_rank(&id))
    }

    fn is_of(&self, id: Id, class: LogClass) -> bool {
        self.facts.known(id, event::CLASS) == Some(class)
    }

    /// The first event that leads and fits.
    fn leading(&self, fits: impl Fn(&Self, Id) -> bool) -> Option<Id> {
        let leads = |id: &Id| self.facts.known(*id, event::LEADS) == Some(true);
        let mut events = self.events.iter().copied();
        events.find(|id| leads(id) && fits(self, *id))
    }

    /// What shows a hang: a collective that timed out, if all ranks called the same; the end of the
    /// job's time while ranks initialise.
    fn hang(&self) -> Option<Id> {
        let facts = self.facts;
        let is_timeout = |view: &Self, id: Id| {
            view.is_of(id, LogClass::TorchTimeout) || view.is_of(id, LogClass::TorchHeartbeat)
        };
        if facts.known(self.run, run::CALLS_DIFFER) != Some(true)
            && let Some(timeout) = self.leading(is_timeout)
        {
            return Some(timeout);
        }
        if facts.known(self.run, run::INITIALISED) == Some(false) {
            let mut events = self.events.iter().copied();
            return events.find(|id| {
                self.is_of(*id, LogClass::JobCancelled)
                    && facts.known(*id, event::OUTCOME) == Some(EventOutcome::Open)
                    && (self.event_says(*id, "TIME LIMIT") || self.event_says(*id, "RUNLIMIT"))
            });
        }
        None
    }

    fn wrong_results(&self) -> Option<Id> {
        let is_wrong = |id: &Id| {
            let wrong = self.facts.known(*id, benchmark::WRONG);
            self.facts.touches(*id, self.run) && wrong.is_some_and(|wrong| wrong > 0)
        };
        let wrong = self.facts.all(Subject::Benchmark).find(is_wrong);
        wrong.or_else(|| self.leading(|view, id| view.is_of(id, LogClass::ResultWrong)))
    }
}

/// Whether what the kernel says may stop a rank, or its traffic.
fn may_stop_rank(class: EventClass) -> bool {
    matches!(
        class,
        EventClass::Mlx5Fatal
            | EventClass::Mlx5CommandTimeout
            | EventClass::LinkDown
            | EventClass::AdapterReset
            | EventClass::AdapterStalled
            | EventClass::DeviceGone
            | EventClass::Xid
            | EventClass::SXid
            | EventClass::AmdFailed
            | EventClass::IommuFault
            | EventClass::MachineCheck
            | EventClass::OutOfMemory
            | EventClass::HungTask
            | EventClass::CpuStuck
            | EventClass::ServerSilent
            | EventClass::LustreLost
            | EventClass::DiskFailed
    )
}
