//! An InfiniBand fabric, from the outputs of tools that show it: ibnetdiscover(8), iblinkinfo(8),
//! ibqueryerrors(8), sminfo(8), and the files that opensm(8) and ibdiagnet2 write.
//!
//! ```text
//! said       what a line says of a link
//! topology   lines of ibnetdiscover
//! link_line  lines of iblinkinfo
//! dumps      opensm's list of links, and ibdiagnet2's tables
//! errors     lines of ibqueryerrors
//! model      one fabric from all of them: devices, links by GUID, LID and port
//! tiers      leaf, spine, core, and which switches lack links that their equals have
//! equals     how fast the links like a link run
//! plan       a cabling plan, and what the cabling has otherwise
//! hosts      the rails of each host, and on which leaf they are
//! state      from these to facts
//! ```

mod dumps;
mod equals;
mod errors;
mod hosts;
mod link_line;
mod majority;
mod model;
mod plan;
mod said;
mod state;
mod tiers;
mod topology;

use std::collections::BTreeSet;

use self::errors::ErrorList;
use self::model::{Fabric, Reading};
use self::plan::Plan;
use self::said::End;
use self::topology::TopologyReader;
use super::Output;
use crate::fact::{Facts, Id};
use crate::left_out::LeftOut;

/// The tools whose outputs are read together.
const TOOLS: [&str; 7] = [
    "ibnetdiscover",
    "opensm-subnet.lst",
    "ibdiagnet2.db_csv",
    "iblinkinfo",
    "ibqueryerrors",
    "sminfo",
    "cabling-plan",
];

/// What all outputs say, before it is put together.
#[derive(Default)]
struct Readings<'o> {
    lines: Vec<Reading<'o>>,
    errors: ErrorList<'o>,
    plan: Plan<'o>,
    /// Subnet managers that say they are master.
    masters: BTreeSet<String>,
    left_out: Vec<LeftOut>,
    /// Whether a list of errors is among them.
    has_errors: bool,
    /// Whether lines say what the ends of links support.
    tells_possible: bool,
    /// Whether an output lists the devices of the fabric, and not only ports or errors.
    lists_devices: bool,
}

/// States the fabric that these outputs show.
pub(super) fn state_fabric(all: &[Output], facts: &mut Facts, node: Id) {
    let is_read = |output: &&Output| TOOLS.contains(&output.tool());
    let outputs: Vec<&Output> = all.iter().filter(is_read).collect();
    let mut read = Readings::default();
    for output in &outputs {
        read.read_output(output);
    }
    // A manager alone is the node's own, and of a plan alone nothing can be said.
    let is_shown = |output: &&Output| !["sminfo", "cabling-plan"].contains(&output.tool());
    if !outputs.iter().any(is_shown) {
        return;
    }
    let unread = LeftOut::counted(
        read.plan.unread,
        "row",
        "not understood in the cabling plan",
    );
    crate::left_out::add(&mut read.left_out, unread);
    read.lists_devices = outputs.iter().any(|output| LISTS.contains(&output.tool()));
    let lines = std::mem::take(&mut read.lines);
    read.tells_possible = lines.iter().any(|(_, said)| said.tells_possible);
    read.has_errors = outputs
        .iter()
        .any(|output| output.tool() == "ibqueryerrors")
        || !read.errors.is_empty();
    let ends: Vec<&End> = (read.errors.ports.iter()).map(|port| &port.end).collect();
    let fabric = Fabric::build(lines, &ends);
    if !outputs.iter().any(|output| output.is_cut) {
        let why = "others name it as their peer, and its own lines are missing";
        let unlisted = LeftOut::counted(fabric.count_unlisted(), "device", why);
        crate::left_out::add(&mut read.left_out, unlisted);
    }
    state::state(&fabric, &read, &outputs, facts, node);
}

/// The tools whose outputs list the devices of the fabric.
const LISTS: [&str; 4] = [
    "ibnetdiscover",
    "opensm-subnet.lst",
    "ibdiagnet2.db_csv",
    "iblinkinfo",
];

impl<'o> Readings<'o> {
    /// Reads the lines of one output: below a heading they are of one node.
    fn read_output(&mut self, output: &'o Output) {
        match output.tool() {
            "ibnetdiscover" => self.read_topology(output),
            "sminfo" => self.read_managers(output),
            "opensm-subnet.lst" => {
                let said = output
                    .lines()
                    .filter_map(|line| dumps::subnet_line(line.text).map(|said| (line, said)));
                self.lines.extend(said);
            }
            "ibdiagnet2.db_csv" => self.read_tables(output),
            "cabling-plan" => self.plan.read_output(output),
            _ => self.read_links(output),
        }
    }

    fn read_topology(&mut self, output: &'o Output) {
        let mut reader = TopologyReader::default();
        for line in output.lines() {
            if let Some(said) = reader.read_line(line.text) {
                self.lines.push((line, said));
            }
        }
        if reader.is_cut() {
            let why = "the topology ends within a device";
            let rest = LeftOut::one_or_more("device", why);
            crate::left_out::add(&mut self.left_out, rest);
        }
    }

    fn read_tables(&mut self, output: &'o Output) {
        let mut tables = dumps::Tables::default();
        tables.read_output(output);
        tables.add_to(&mut self.lines, &mut self.errors);
        let masters = tables.masters.iter();
        self.masters
            .extend(masters.map(|guid| format!("guid {guid:#x}")));
        if tables.is_cut {
            let rest = LeftOut::one_or_more("row", "the last table has no end");
            crate::left_out::add(&mut self.left_out, rest);
        }
    }

    /// `sminfo: sm lid 1 sm guid 0x100001, activity count 524 priority 0 state 3 SMINFO_MASTER`
    fn read_managers(&mut self, output: &Output) {
        for line in output
            .lines()
            .filter(|line| line.text.contains("SMINFO_MASTER"))
        {
            let place = line.text.split(',').next().unwrap_or("");
            self.masters
                .insert(place.trim_start_matches("sminfo: sm ").replace(" sm ", " "));
        }
    }

    fn read_links(&mut self, output: &'o Output) {
        let mut heading = End::default();
        for line in output.lines() {
            let text = line.text.trim();
            if let Some(end) = link_line::heading(text) {
                heading = end;
            } else if let Some(mut said) = link_line::read(text) {
                // Below the errors of a port stands its link.
                let above = match self.errors.ports.last() {
                    Some(port) if text.starts_with("Link info:") => &port.end,
                    _ => &heading,
                };
                said.near.fill_from(above);
                self.lines.push((line, said));
            } else {
                self.errors.read_line(text, line);
            }
        }
    }
}
