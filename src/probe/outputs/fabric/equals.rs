//! How fast the links like a link run.

use std::collections::HashMap;

use super::hosts::AdapterName;
use super::majority::majority;
use super::model::{Fabric, Link};
use super::said::Pace;
use super::tiers::Tiers;

/// Links that are equals of one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Group {
    /// The links of a switch to the tier above.
    Up(usize),
    /// The links of a switch to the tier below.
    Down(usize),
    /// The links of a leaf to adapters of one name and kind in hosts of one name.
    Rail(usize, AdapterName, Option<u64>),
    /// The links of a leaf to adapters of one kind in hosts of one name.
    Hosts(usize, String, Option<u64>),
}

/// What the equals of a link do.
pub(super) struct Usual {
    pub(super) pace: Pace,
    /// `3 of 4 uplinks of leaf1`
    pub(super) who: String,
}

/// How the links of a group run.
struct GroupPaces {
    most: Pace,
    same: usize,
    all: usize,
}

/// The groups of equals in which a majority runs alike.
pub(super) struct Equals(HashMap<Group, GroupPaces>);

impl Equals {
    pub(super) fn gather(fabric: &Fabric<'_>, tiers: &Tiers) -> Self {
        let mut paces: HashMap<Group, Vec<Pace>> = HashMap::new();
        for link in &fabric.links {
            let Some(pace) = link.said.running() else {
                continue;
            };
            for group in groups(fabric, tiers, link) {
                paces.entry(group).or_default().push(pace);
            }
        }
        let mut equals = HashMap::new();
        for (group, paces) in paces {
            if let Some(most) = majority(paces.iter().copied()) {
                let same = paces.iter().filter(|pace| **pace == most).count();
                let all = paces.len();
                equals.insert(group, GroupPaces { most, same, all });
            }
        }
        Equals(equals)
    }

    /// How a link runs beside its equals; `None` where it has none to compare it with.
    pub(super) fn compare(
        &self,
        fabric: &Fabric<'_>,
        tiers: &Tiers,
        link: &Link<'_>,
    ) -> Option<Comparison> {
        let own = link.said.running()?;
        let groups = groups(fabric, tiers, link).into_iter();
        let known = groups.filter_map(|group| Some((self.0.get(&group)?, group)));
        let known: Vec<(&GroupPaces, Group)> = known.collect();
        let (paces, group) = known.first()?;
        // An outlier is slower than most in each of its groups.
        if known.iter().any(|(paces, _)| own.reaches(paces.most)) {
            return Some(Comparison::Equal);
        }
        let GroupPaces { most, same, all } = paces;
        let who = format!("{same} of {all} {}", group.in_words(fabric));
        Some(Comparison::Slower(Usual { pace: *most, who }))
    }
}

/// How a link runs beside its equals.
pub(super) enum Comparison {
    Equal,
    Slower(Usual),
}

impl Group {
    fn in_words(&self, fabric: &Fabric<'_>) -> String {
        let (Group::Up(switch)
        | Group::Down(switch)
        | Group::Rail(switch, ..)
        | Group::Hosts(switch, ..)) = self;
        let what = match self {
            Group::Up(_) => "uplinks",
            Group::Down(_) => "downlinks",
            Group::Rail(..) | Group::Hosts(..) => "links to such hosts",
        };
        let switch = fabric.device(*switch).map_or("", |device| &device.label);
        format!("{what} of {switch}")
    }
}

/// The groups to which a link belongs; none where nothing is like it.
fn groups(fabric: &Fabric<'_>, tiers: &Tiers, link: &Link<'_>) -> Vec<Group> {
    let Some(far) = link.far else {
        return Vec::new();
    };
    let [near, far] = [link.near.device, far.device];
    for (lower, upper) in [(near, far), (far, near)] {
        let (Some(of_lower), Some(of_upper)) = (fabric.device(lower), fabric.device(upper)) else {
            continue;
        };
        if of_lower.is_adapter() && of_upper.is_switch() {
            let Some(name) = of_lower.description.as_deref().and_then(AdapterName::read) else {
                return Vec::new();
            };
            let (stem, id) = (name.host_stem(), of_lower.device_id);
            let rail = AdapterName {
                host: stem.clone(),
                adapter: name.adapter,
            };
            return vec![Group::Rail(upper, rail, id), Group::Hosts(upper, stem, id)];
        }
        let tier = tiers.tier(lower).map(|tier| tier + 1);
        if tier.is_some() && tiers.tier(upper) == tier {
            return vec![Group::Up(lower), Group::Down(upper)];
        }
    }
    Vec::new()
}
