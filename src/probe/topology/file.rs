//! The file from which NCCL takes the machine's topology.

use std::sync::Arc;

use super::xml::{self, Topology};
use crate::fact::node::{self, TopoFile};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Subject, Why, gpu, variable};
use crate::probe::Ask;
use crate::source::{Errno, Question, Refusal};

/// The variable that names the file.
const TOPO_FILE: &str = "NCCL_TOPO_FILE";
/// Where NCCL looks by itself: NVIDIA's daemon for virtual machines writes it.
const VIRTUAL_TOPOLOGY: &str = "/var/run/nvidia-topologyd/virtualTopology.xml";

type Texts = Arc<[Arc<str>]>;

/// States which file NCCL takes the topology from, and what it finds there. For the probe that knows the variables in effect, at its end.
pub fn state(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let named = facts.named(node, TOPO_FILE, variable::VALUE);
    let (path, origin, by_itself) = match named {
        Fact::Known(Some(path), origin) => (path, origin, false),
        Fact::Known(None, origin) => (VIRTUAL_TOPOLOGY.into(), origin, true),
        Fact::Unknown(gap) => {
            facts.set(node, node::TOPO_FILE, Fact::Unknown(gap.clone()));
            facts.set(node, node::TOPO_FILE_STATE, Fact::Unknown(gap.clone()));
            state_file(facts, node, Err(gap));
            return;
        }
    };
    let question = Question::read(Arc::clone(&path));
    let at = || Origin::Asked(question.clone());
    // NCCL opens the file as this does: what cannot be opened is as good as not there, whatever its folder says.
    let (state, says) = match ask.text(Arc::clone(&path)) {
        Fact::Known(text, _) => match xml::read(&text) {
            Ok(topology) => (Fact::Known(TopoFile::Read, at()), Ok((topology, None))),
            Err(problem) => (
                Fact::Known(TopoFile::Invalid, at()),
                Ok((Topology::default(), Some(problem))),
            ),
        },
        Fact::Unknown(gap) => match &gap.why {
            Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
                let state = if by_itself {
                    TopoFile::None
                } else {
                    TopoFile::Absent
                };
                (Fact::Known(state, at()), Ok(Default::default()))
            }
            Why::Refused(Refusal::Errno(Errno::EACCES)) => {
                (Fact::Known(TopoFile::Denied, at()), Ok(Default::default()))
            }
            _ => (Fact::Unknown(gap.clone()), Err(gap)),
        },
    };
    let name = match &state {
        Fact::Known(TopoFile::None, _) => "none".into(),
        _ => path,
    };
    let name = match (&state, by_itself) {
        // Whether NCCL uses a file is unknown while its existence is.
        (Fact::Unknown(gap), true) => Fact::Unknown(gap.clone()),
        _ => Fact::Known(name, origin),
    };
    facts.set(node, node::TOPO_FILE, name);
    facts.set(node, node::TOPO_FILE_STATE, state);
    state_file(facts, node, says.map(|says| (says, at())));
}

/// States what NCCL would find in a file whose text somebody kept.
pub(in crate::probe) fn printed(
    facts: &mut Facts,
    id: Id,
    name: &str,
    text: &str,
    origin: &Origin,
) {
    let says = match xml::read(text) {
        Ok(topology) => (topology, None),
        Err(problem) => (Topology::default(), Some(problem)),
    };
    let state = if says.1.is_some() {
        TopoFile::Invalid
    } else {
        TopoFile::Read
    };
    for address in &says.0.gpus {
        let gpu = facts.instance(Subject::Gpu, id, address);
        facts.know(gpu, gpu::PCI, address.as_str().into(), origin);
    }
    facts.know(id, node::TOPO_FILE, name.into(), origin);
    facts.know(id, node::TOPO_FILE_STATE, state, origin);
    state_file(facts, id, Ok((says, origin.clone())));
}

/// Several things as one text.
fn list(all: &[String]) -> Arc<str> {
    match all {
        [] => "none".into(),
        all => all.join(", ").into(),
    }
}

/// States the facts of a topology file, or why they are unknown.
fn state_file(
    facts: &mut Facts,
    node: Id,
    says: Result<((Topology, Option<String>), Origin), Gap>,
) {
    let texts = |names: Vec<String>| -> Texts { names.into_iter().map(Arc::from).collect() };
    let (problem, names, slow) = match says {
        Ok(((topology, problem), origin)) => {
            let problem: Arc<str> = problem.map_or("none".into(), Arc::from);
            (
                Fact::Known(problem, origin.clone()),
                Fact::Known(texts(topology.names.into_iter().collect()), origin.clone()),
                Fact::Known(list(&topology.slow_links), origin),
            )
        }
        Err(gap) => (
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap),
        ),
    };
    facts.set(node, node::TOPO_FILE_PROBLEM, problem);
    facts.set(node, node::TOPO_FILE_NAMES, names);
    facts.set(node, node::TOPO_FILE_SLOW_LINKS, slow);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Membership;
    use crate::source::recording::Recording;
    use crate::source::wire::{self, Header};

    /// What is stated if the variable has this value, and the file this answer.
    fn stated(named: Fact<Option<&str>>, answer: Option<(&str, &str)>) -> (Facts, Id) {
        let mut recording = Recording::new(Header::default());
        if let Some((path, answer)) = answer {
            let line = format!(r#"{{"probe":"p","q":{{"read":"{path}"}},{answer}}}"#);
            recording.add(wire::parse_line(&line).unwrap());
        }
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        match named {
            Fact::Known(Some(path), origin) => {
                let id = facts.instance(Subject::Variable, node, TOPO_FILE);
                facts.set(id, variable::VALUE, Fact::Known(path.into(), origin));
            }
            Fact::Known(None, origin) => {
                facts.set_members(Subject::Variable, node, Membership::Known(origin));
            }
            Fact::Unknown(gap) => {
                facts.set_members(Subject::Variable, node, Membership::Unknown(gap));
            }
        }
        state(&Ask::new(&recording.of("p")), &mut facts, node);
        (facts, node)
    }

    const GOOD: &str = r#""text":"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:19:00.0\" class=\"0x030200\"/></cpu></system>\n""#;
    const MISSING: &str = r#""errno":"ENOENT""#;

    #[test]
    fn what_becomes_of_the_file() {
        let named = || Fact::Known(Some("/a.xml"), Origin::Stated);
        let unset = || Fact::Known(None, Origin::Stated);
        for (named, path, answer, name, expected) in [
            (named(), "/a.xml", GOOD, "/a.xml", TopoFile::Read),
            (named(), "/a.xml", MISSING, "/a.xml", TopoFile::Absent),
            (
                named(),
                "/a.xml",
                r#""errno":"EACCES""#,
                "/a.xml",
                TopoFile::Denied,
            ),
            (
                named(),
                "/a.xml",
                r#""text":"<system>""#,
                "/a.xml",
                TopoFile::Invalid,
            ),
            (
                unset(),
                VIRTUAL_TOPOLOGY,
                GOOD,
                VIRTUAL_TOPOLOGY,
                TopoFile::Read,
            ),
            (unset(), VIRTUAL_TOPOLOGY, MISSING, "none", TopoFile::None),
        ] {
            let (facts, node) = stated(named, Some((path, answer)));
            assert_eq!(facts.known(node, node::TOPO_FILE).as_deref(), Some(name));
            assert_eq!(
                facts.known(node, node::TOPO_FILE_STATE),
                Some(expected),
                "{answer}"
            );
            let names = facts.known(node, node::TOPO_FILE_NAMES).unwrap();
            assert_eq!(names.len(), usize::from(expected == TopoFile::Read));
            let problem = facts.known(node, node::TOPO_FILE_PROBLEM).unwrap();
            assert_eq!(&*problem != "none", expected == TopoFile::Invalid);
        }
    }

    #[test]
    fn an_unknown_file_stays_open() {
        let gap = || Fact::Unknown(Gap::missing("the environment"));
        for (named, answer) in [
            // The variable; whether the daemon's file is there; a file that hangs.
            (gap(), None),
            (Fact::Known(None, Origin::Stated), None),
            (
                Fact::Known(Some("/a.xml"), Origin::Stated),
                Some(("/a.xml", r#""refused":"timeout""#)),
            ),
        ] {
            let (facts, node) = stated(named, answer);
            assert_eq!(facts.known(node, node::TOPO_FILE_STATE), None);
            assert_eq!(facts.known(node, node::TOPO_FILE_NAMES), None);
        }
    }
}
