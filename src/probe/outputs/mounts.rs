//! Storage, as mount(8) and beegfs-net print it.

use super::Output;
use crate::fact::{Fact, Facts, Gap, Id, Subject, mount, node as of_node};
use crate::probe::storage;

/// States the mounts, and how the servers of BeeGFS are reached.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut clients = Vec::new();
    for output in outputs.iter().filter(|output| output.tool() == "mount") {
        for line in output.lines() {
            // `SOURCE on POINT type KIND (OPTIONS)`
            let parts = line.text.split_once(" on ").and_then(|(source, rest)| {
                let (point, rest) = rest.rsplit_once(" type ")?;
                let (kind, options) = rest.split_once(' ')?;
                Some((source, point, kind, options.trim_matches(['(', ')'])))
            });
            if let Some((source, point, kind, options)) = parts {
                if point == "/dev/shm" && kind != "tmpfs" {
                    let shm = line.known(of_node::SharedMemory::NotTmpfs);
                    facts.set(node, of_node::SHM, shm);
                }
                let escaped = |text: &str| text.replace(' ', "\\040");
                let (source, point) = (escaped(source), escaped(point));
                let line_of_kernel =
                    format!("0 0 0:0 / {point} {options} - {kind} {source} {options}");
                clients.extend(storage::printed(
                    facts,
                    node,
                    &line_of_kernel,
                    &line.origin(),
                ));
            }
        }
    }
    for output in outputs
        .iter()
        .filter(|output| output.tool() == "beegfs-net" && !output.is_cut)
    {
        let id = match clients.as_slice() {
            [one] => *one,
            // Where nobody says which mount they are of.
            [] => facts.instance(Subject::Mount, node, "BeeGFS"),
            _ => continue,
        };
        facts.set(id, mount::KIND, output.known("beegfs".into()));
        let text = output.text();
        let of = |heading: &'static str| {
            let below = text
                .split_once(heading)
                .map(|(_, below)| below.trim_start_matches(['=', '\n']));
            let below = below.map(|below| below.split("_nodes").next().unwrap_or(below));
            let below = below.map(|below| below.rsplit_once('\n').map_or(below, |(all, _)| all));
            below.map_or_else(
                || Fact::Unknown(Gap::missing(heading)),
                |below| output.known(below),
            )
        };
        storage::printed_connections(facts, id, of("storage_nodes"), of("meta_nodes"));
    }
}
