//! Bonds, as sysfs shows them (`Documentation/networking/bonding.rst`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fact::kleene::Several;
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Presence, bond};
use crate::probe::netdev::NET;
use crate::probe::{Ask, whole_number};

/// The bonds of this network namespace; none if the module is not loaded.
pub(super) fn masters(ask: &Ask<'_>) -> Presence<Vec<Arc<str>>> {
    ask.text_if_any(format!("{NET}/bonding_masters"))
        .map(|text| text.split_whitespace().map(Arc::from).collect())
}

/// The members of a bond.
pub(super) fn members(ask: &Ask<'_>, name: &str) -> Fact<Vec<Arc<str>>> {
    ask.text(format!("{NET}/{name}/bonding/slaves"))
        .map(|text| text.split_whitespace().map(Arc::from).collect())
}

/// States what is known of a bond.
pub(super) fn describe(
    ask: &Ask<'_>,
    facts: &mut Facts,
    id: Id,
    name: &str,
    members: Fact<Vec<Arc<str>>>,
) {
    let dir = format!("{NET}/{name}/bonding");
    let mode = ask.parse(format!("{dir}/mode"), first_word);
    let lacp = mode.clone().map(|mode| &*mode == "802.3ad");
    facts.set(id, bond::LACP, lacp.clone());
    facts.set(id, bond::MODE, mode);
    let hash = ask.parse(format!("{dir}/xmit_hash_policy"), first_word);
    facts.set(id, bond::HASH, hash);
    let miimon = ask.parse(format!("{dir}/miimon"), whole_number);
    let arp = ask.parse(format!("{dir}/arp_interval"), whole_number);
    let intervals: Several<u64> = [miimon, arp].into_iter().collect();
    let watches = Fact::of(intervals.any(|n| *n > 0), "miimon and arp_interval");
    facts.set(id, bond::WATCHES, watches);
    let (members, origin) = match members {
        Fact::Known(members, origin) => (members, origin),
        Fact::Unknown(gap) => {
            for key in [bond::DOWN_COUNT, bond::NOT_TAKEN_COUNT, bond::AGGREGATORS] {
                facts.set(id, key, Fact::Unknown(gap.clone()));
            }
            facts.set(id, bond::MEMBERS, Fact::Unknown(gap.clone()));
            facts.set(id, bond::SPEEDS_AGREE, Fact::Unknown(gap));
            return;
        }
    };
    let names: Arc<[Arc<str>]> = members.clone().into();
    facts.set(id, bond::MEMBERS, Fact::Known(names, origin));

    let of_member = |member: &Arc<str>| {
        let status = ask.text(format!("{NET}/{member}/bonding_slave/mii_status"));
        status.map(|status| (Arc::clone(member), &*status == "up"))
    };
    let links: Several<(Arc<str>, bool)> = members.iter().map(of_member).collect();
    let (up, down): (Vec<_>, Vec<_>) = links.answered().iter().cloned().partition(|(_, up)| *up);
    let [up, down]: [Vec<Arc<str>>; 2] =
        [up, down].map(|all| all.into_iter().map(|(name, _)| name).collect());
    let open = links.open().cloned();
    let how = format!("mii_status of {name}'s members");
    let down = Fact::derived(Arc::<[Arc<str>]>::from(down), how).unless(open.clone());
    facts.set(id, bond::DOWN_COUNT, down.clone().map(|d| d.len() as u64));
    facts.set(id, bond::MEMBERS_DOWN, down);
    let failures = members.iter().map(|member| {
        let path = format!("{NET}/{member}/bonding_slave/link_failure_count");
        ask.parse(path, whole_number)
    });
    let failures: Several<u64> = failures.collect();
    let failures = failures.known().map(|all| all.iter().sum());
    let failures = Fact::of(failures, format!("link_failure_count of {name}'s members"));
    facts.set(id, bond::LINK_FAILURES, failures);
    speeds(ask, facts, id, &up, &open);
    match lacp {
        Fact::Known(true, _) => aggregation(ask, facts, id, &dir, &up, open),
        Fact::Known(false, _) => {}
        Fact::Unknown(gap) => {
            facts.set(id, bond::PARTNER, Fact::Unknown(gap.clone()));
            facts.set(id, bond::AGGREGATORS, Fact::Unknown(gap.clone()));
            facts.set(id, bond::NOT_TAKEN_COUNT, Fact::Unknown(gap));
        }
    }
}

fn speeds(ask: &Ask<'_>, facts: &mut Facts, id: Id, up: &[Arc<str>], open: &Option<Gap>) {
    let speed = |member: &Arc<str>| {
        // -1 if the driver does not know.
        let speed = ask.parse(format!("{NET}/{member}/speed"), whole_number);
        let known = speed.and_then(|mbps| match mbps {
            0 | 0xffff_ffff => Err("the driver does not know".to_owned()),
            mbps => Ok(mbps),
        });
        known.map(|mbps| (Arc::clone(member), mbps))
    };
    let each: Several<(Arc<str>, u64)> = up.iter().map(speed).collect();
    let each = each.or_others(open.clone());
    let first = each.answered().first().map(|(_, mbps)| *mbps);
    let how = "speed of each member with link";
    let agree = each.all(|(_, mbps)| Some(*mbps) == first);
    facts.set(id, bond::SPEEDS_AGREE, Fact::of(agree, how));
    let said = each.answered().iter().map(|(member, mbps)| {
        let rate = BitRate(mbps.saturating_mul(1_000_000));
        format!("{member} {rate}").into()
    });
    facts.set(id, bond::SPEEDS, Fact::derived(said.collect(), how));
}

/// LACP: whether the switch answers, and which members it takes.
fn aggregation(
    ask: &Ask<'_>,
    facts: &mut Facts,
    id: Id,
    dir: &str,
    up: &[Arc<str>],
    mut open: Option<Gap>,
) {
    let partner = ask.parse(format!("{dir}/ad_partner_mac"), |text| match text {
        "" => Err("only root can read it".to_owned()),
        mac => Ok(mac.bytes().any(|b| b.is_ascii_hexdigit() && b != b'0')),
    });
    facts.set(id, bond::PARTNER, partner);
    let mut ids: BTreeSet<u64> = BTreeSet::new();
    let mut not_taken: Vec<Arc<str>> = Vec::new();
    for member in up {
        let dir = format!("{NET}/{member}/bonding_slave");
        let aggregator = ask.parse(format!("{dir}/ad_aggregator_id"), whole_number);
        ids.extend(aggregator.or_open(&mut open));
        /// Synchronization, Collecting, Distributing (IEEE 802.1AX, 6.4.2.3).
        const TAKEN: u64 = 0x08 | 0x10 | 0x20;
        let state = ask.parse(format!("{dir}/ad_partner_oper_port_state"), whole_number);
        if state
            .or_open(&mut open)
            .is_some_and(|state| state & TAKEN != TAKEN)
        {
            not_taken.push(Arc::clone(member));
        }
    }
    let how = "bonding_slave of each member with link";
    let aggregators = Fact::derived(ids.len() as u64, how).unless(open.clone());
    facts.set(id, bond::AGGREGATORS, aggregators);
    let count = Fact::derived(not_taken.len() as u64, how).unless(open.clone());
    facts.set(id, bond::NOT_TAKEN_COUNT, count);
    let list = Fact::derived(not_taken.into(), how).unless(open);
    facts.set(id, bond::MEMBERS_NOT_TAKEN, list);
}

/// `802.3ad 4`: the name, then its number.
fn first_word(text: &str) -> Result<Arc<str>, String> {
    match text.split_whitespace().next() {
        Some(word) => Ok(word.into()),
        None => Err("it is empty".to_owned()),
    }
}
