//! How an operator finds a port: the description of its node, and its number there.

use std::collections::{BTreeMap, BTreeSet};

use super::End;

/// What the ends of links are called.
pub(super) struct Names {
    by_lid: BTreeMap<u64, String>,
    /// LIDs of nodes by their GUIDs.
    lids: BTreeMap<u64, u64>,
    /// Descriptions that several nodes have.
    ambiguous: BTreeSet<String>,
}

impl Names {
    pub(super) fn gather<'e>(ends: impl Iterator<Item = &'e End>) -> Self {
        let mut by_lid = BTreeMap::new();
        let mut lid_of: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        let (mut lids, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
        for end in ends {
            if let (Some(guid), Some(lid)) = (end.guid, end.lid) {
                lids.entry(guid).or_insert(lid);
            }
            let Some(node) = &end.node else {
                continue;
            };
            let Some(lid) = end.lid else {
                continue;
            };
            by_lid.entry(lid).or_insert_with(|| node.clone());
            // One port has one LID.
            if *lid_of.entry((node, end.port)).or_insert(lid) != lid {
                ambiguous.insert(node.clone());
            }
        }
        Names {
            by_lid,
            lids,
            ambiguous,
        }
    }

    /// `leaf01 port 5`; a node of which only the LID is known, or whose description others have
    /// too, is named by its LID.
    pub(super) fn name(&self, end: &End) -> String {
        let of_guid = end.guid.and_then(|guid| self.lids.get(&guid)).copied();
        let lid = end.lid.or(of_guid);
        let known = lid.and_then(|lid| self.by_lid.get(&lid));
        let node = end.node.as_ref().or(known);
        let number = match (lid, end.guid) {
            (Some(lid), _) => format!("LID {lid}"),
            (None, Some(guid)) => format!("GUID {guid:#x}"),
            (None, None) => "unnamed".to_owned(),
        };
        match node {
            Some(node) if self.ambiguous.contains(node) => {
                format!("{node} ({number}) port {}", end.port)
            }
            Some(node) => format!("{node} port {}", end.port),
            None => format!("{number} port {}", end.port),
        }
    }
}
