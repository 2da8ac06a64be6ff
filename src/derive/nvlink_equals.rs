//! What an NVLink is at most GPUs of the same model, and how often it has errors.

use super::Derivation;
use std::collections::{BTreeMap, HashMap};

use super::{gpu_equals, gpu_share, majority};
use crate::fact::kleene::Several;
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Key, Subject, Typed, known, node, nvlink};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("nvlink_equals", &[], derive);

/// Compares each NVLink with that of its number at the GPU's equals, and its speed with all of
/// theirs.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let uptime = facts.get(node, node::UPTIME);
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let numbered = by_number(facts, &gpus);
    let mut speeds: BTreeMap<Vec<Id>, Vec<Fact<BitRate>>> = BTreeMap::new();
    for &id in &gpus {
        let links: Vec<Id> = facts.below(id, Subject::Nvlink).collect();
        if links.is_empty() {
            continue;
        }
        let equals = gpu_equals::equals(facts, node, id);
        let all = match &equals {
            Ok(equals) => speeds
                .entry(equals.clone())
                .or_insert_with(|| speeds_of(facts, equals)),
            Err(_) => &mut Vec::new(),
        };
        for link in links {
            let speed = match &equals {
                Ok(_) => majority::of(&facts.get(link, nvlink::SPEED), all, "links"),
                Err(gap) => Fact::Unknown(gap.clone()),
            };
            facts.set(link, nvlink::SIBLINGS_SPEED, speed);
            let up = of_number(facts, &numbered, link, &equals, nvlink::ACTIVE);
            facts.set(link, nvlink::SIBLINGS_ACTIVE, siblings_up(up));
            let remote = of_number(facts, &numbered, link, &equals, nvlink::REMOTE);
            let own = facts.get(link, nvlink::REMOTE);
            let remote = remote.map_or_else(Fact::Unknown, |all| {
                majority::of(&own, &all, "links of its number")
            });
            facts.set(link, nvlink::SIBLINGS_REMOTE, remote);
            let replays = gpu_share::rate(facts.get(link, nvlink::REPLAYS), &uptime);
            facts.set(link, nvlink::REPLAY_RATE, replays);
            let broken = gpu_share::rate(facts.get(link, nvlink::CRC_ERRORS), &uptime);
            facts.set(link, nvlink::CRC_RATE, broken);
        }
    }
}

/// The speeds of all links that are up, of these GPUs.
fn speeds_of(facts: &Facts, gpus: &[Id]) -> Vec<Fact<BitRate>> {
    gpus.iter()
        .flat_map(|id| facts.below(*id, Subject::Nvlink))
        .filter(|link| facts.known(*link, nvlink::ACTIVE) != Some(false))
        .map(|link| facts.get(link, nvlink::SPEED))
        .collect()
}

/// Each link by its GPU and its number; the first where two have one.
type Numbered = HashMap<(Id, u64), Id>;

fn by_number(facts: &Facts, gpus: &[Id]) -> Numbered {
    let mut found = Numbered::new();
    for gpu in gpus {
        for link in facts.below(*gpu, Subject::Nvlink) {
            if let Some(number) = facts.known(link, nvlink::LINK) {
                found.entry((*gpu, number)).or_insert(link);
            }
        }
    }
    found
}

/// A fact of the links of this number, of all equals; a gap for a GPU whose links are not known. A
/// GPU that has no such link has no part.
fn of_number<T: Typed>(
    facts: &Facts,
    numbered: &Numbered,
    link: Id,
    equals: &Result<Vec<Id>, Gap>,
    key: Key<T>,
) -> Result<Vec<Fact<T>>, Gap> {
    let equals = equals.as_ref().map_err(Gap::clone)?.iter();
    let number = facts.value(link, nvlink::LINK)?;
    let of = |id: &Id| match numbered.get(&(*id, number)) {
        Some(other) => Some(facts.get(*other, key)),
        None => (facts.members(Subject::Nvlink, *id).err()).map(Fact::Unknown),
    };
    Ok(equals.filter_map(of).collect())
}

/// Whether more than half of them are up; not so where that cannot be any more.
fn siblings_up(all: Result<Vec<Fact<bool>>, Gap>) -> Fact<bool> {
    let all: Several<bool> = known!(ok all).into_iter().collect();
    let members = all.members();
    let up = all.answered().iter().filter(|up| **up).count();
    let how = format!("up at {up} of {members} GPUs of its model");
    Fact::of(all.at_least(members / 2 + 1, |up| *up), how)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::nvlink::Remote;
    use crate::fact::{Membership, Origin, PerSecond, Seconds, gpu};

    /// GPUs of one model; of each, for each link whether it is up and its speed in Gb/s.
    fn machine(gpus: &[&[(bool, u64)]]) -> (Facts, Id, Vec<Vec<Id>>) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set(n, node::UPTIME, stated(Seconds(100.0)));
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        let mut all = Vec::new();
        for (at, links) in gpus.iter().enumerate() {
            let id = facts.instance(Subject::Gpu, n, &format!("0000:0{at}:00.0"));
            facts.set(id, gpu::MODEL, stated("NVIDIA H100".into()));
            facts.set_members(Subject::Nvlink, id, Membership::Known(Origin::Stated));
            let mut own = Vec::new();
            for (number, (active, speed)) in links.iter().enumerate() {
                let link = facts.instance(Subject::Nvlink, id, &format!("{at} link {number}"));
                facts.set(link, nvlink::LINK, stated(number as u64));
                facts.set(link, nvlink::ACTIVE, stated(*active));
                if *active {
                    facts.set(link, nvlink::SPEED, stated(BitRate(speed * 1_000_000_000)));
                    facts.set(link, nvlink::REMOTE, stated(Remote::Switch));
                }
                own.push(link);
            }
            all.push(own);
        }
        (facts, n, all)
    }

    #[test]
    fn a_link_that_is_down_at_one_gpu_only() {
        let up = [(true, 200), (true, 200)];
        let (mut facts, n, links) = machine(&[&up, &up, &[(true, 100), (false, 0)]]);
        derive(&mut facts, n);
        assert_eq!(
            facts.known(links[2][1], nvlink::SIBLINGS_ACTIVE),
            Some(true)
        );
        assert_eq!(
            facts.known(links[2][0], nvlink::SIBLINGS_SPEED),
            Some(BitRate(200_000_000_000))
        );
        assert_eq!(
            facts.known(links[2][1], nvlink::SIBLINGS_REMOTE),
            Some(Remote::Switch)
        );
    }

    #[test]
    fn links_that_no_equal_has_up_are_so_by_design() {
        let nvl = [(true, 200), (false, 0)];
        let (mut facts, n, links) = machine(&[&nvl, &nvl, &nvl]);
        derive(&mut facts, n);
        assert_eq!(
            facts.known(links[0][1], nvlink::SIBLINGS_ACTIVE),
            Some(false)
        );
        let (mut facts, n, links) = machine(&[&nvl, &[(true, 200), (true, 200)]]);
        derive(&mut facts, n);
        assert_eq!(
            facts.known(links[0][1], nvlink::SIBLINGS_ACTIVE),
            Some(false),
            "two have no majority"
        );
    }

    #[test]
    fn a_gpu_whose_links_are_not_known_can_be_either() {
        let up = [(true, 200)];
        let (mut facts, n, links) = machine(&[&up, &[(false, 0)]]);
        let third = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(third, gpu::IN_NVML, stated(true));
        derive(&mut facts, n);
        assert_eq!(facts.known(links[1][0], nvlink::SIBLINGS_ACTIVE), None);
        let (mut facts, n, links) = machine(&[&up, &up, &up, &[(false, 0)]]);
        let fifth = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(fifth, gpu::IN_NVML, stated(true));
        derive(&mut facts, n);
        assert_eq!(
            facts.known(links[3][0], nvlink::SIBLINGS_ACTIVE),
            Some(true)
        );
    }

    #[test]
    fn errors_over_the_time_since_boot() {
        let (mut facts, n, links) = machine(&[&[(true, 200)]]);
        facts.set(links[0][0], nvlink::REPLAYS, stated(50));
        facts.set(links[0][0], nvlink::CRC_ERRORS, stated(0));
        derive(&mut facts, n);
        assert_eq!(
            facts.known(links[0][0], nvlink::REPLAY_RATE),
            Some(PerSecond(0.5))
        );
        assert_eq!(
            facts.known(links[0][0], nvlink::CRC_RATE),
            Some(PerSecond(0.0))
        );
    }
}
