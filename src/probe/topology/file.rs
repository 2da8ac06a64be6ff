//! The file from which NCCL takes the machine's topology.

use std::sync::Arc;

use super::xml::{self, Topology};
use crate::fact::node::{self, TopoFile};
use crate::fact::{Fact, Facts, Id, Origin, Subject, gpu, variable};
use crate::probe::{Ask, joined};
use crate::source::Errno;
use crate::source::named_format::NamedFormat;

/// The variable that names the file.
const TOPO_FILE: &str = "NCCL_TOPO_FILE";
/// Where NCCL looks by itself: NVIDIA's daemon for virtual machines writes it.
const VIRTUAL_TOPOLOGY: &str = "/var/run/nvidia-topologyd/virtualTopology.xml";

type Texts = Arc<[Arc<str>]>;
/// What NCCL finds in a file, and what is wrong with the file.
type Says = (Topology, Option<String>);

/// States which file NCCL takes the topology from, and what it finds there. For the probe that knows the variables in effect, at its end.
pub fn state(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let named = facts.named(node, TOPO_FILE, variable::VALUE);
    let (path, origin, by_itself) = match named {
        Fact::Known(Some(path), origin) => (path, origin, false),
        Fact::Known(None, origin) => (VIRTUAL_TOPOLOGY.into(), origin, true),
        Fact::Unknown(gap) => {
            facts.set(node, node::TOPO_FILE, Fact::Unknown(gap.clone()));
            facts.set(node, node::TOPO_FILE_STATE, Fact::Unknown(gap.clone()));
            state_file(facts, node, Fact::Unknown(gap));
            return;
        }
    };
    let absent = match by_itself {
        true => TopoFile::None,
        false => TopoFile::Absent,
    };
    let nothing = |state| (state, Says::default());
    // NCCL opens the file as this does: what cannot be opened is as good as not there, whatever its folder says.
    let (_, text) = ask.named_file(&path, NamedFormat::Topology);
    let (state, says) = text
        .map(|text| understood(&text))
        .or_refused(Errno::ENOENT, nothing(absent))
        .or_refused(Errno::ENOTDIR, nothing(absent))
        .or_refused(Errno::EACCES, nothing(TopoFile::Denied))
        .unzip();
    let name = match (&state, by_itself) {
        (Fact::Known(TopoFile::None, _), _) => Fact::Known("none".into(), origin),
        // Whether NCCL uses a file is unknown while its existence is.
        (Fact::Unknown(gap), true) => Fact::Unknown(gap.clone()),
        _ => Fact::Known(path, origin),
    };
    facts.set(node, node::TOPO_FILE, name);
    facts.set(node, node::TOPO_FILE_STATE, state);
    state_file(facts, node, says);
}

/// States what NCCL would find in a file whose text somebody kept.
pub(in crate::probe) fn printed(
    facts: &mut Facts,
    id: Id,
    name: &str,
    text: &str,
    origin: &Origin,
) {
    let (state, says) = understood(text);
    for address in &says.0.gpus {
        let gpu = facts.instance(Subject::Gpu, id, address);
        facts.know(gpu, gpu::PCI, address.as_str().into(), origin);
    }
    facts.know(id, node::TOPO_FILE, name.into(), origin);
    facts.know(id, node::TOPO_FILE_STATE, state, origin);
    state_file(facts, id, Fact::Known(says, origin.clone()));
}

/// What NCCL makes of a file with this text.
fn understood(text: &str) -> (TopoFile, Says) {
    match xml::read(text) {
        Ok(topology) => (TopoFile::Read, (topology, None)),
        Err(problem) => (TopoFile::Invalid, (Topology::default(), Some(problem))),
    }
}

/// States the facts of a topology file, or why they are unknown.
fn state_file(facts: &mut Facts, node: Id, says: Fact<Says>) {
    let (topology, problem) = says.unzip();
    let problem = problem.map(|problem| problem.map_or("none".into(), Arc::from));
    let lists = topology.map(|topology| {
        let names: Texts = topology.names.into_iter().map(Arc::from).collect();
        (names, joined(&topology.slow_links, ", "))
    });
    let (names, slow) = lists.unzip();
    facts.set(node, node::TOPO_FILE_PROBLEM, problem);
    facts.set(node, node::TOPO_FILE_NAMES, names);
    facts.set(node, node::TOPO_FILE_SLOW_LINKS, slow);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Gap, Membership};
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
