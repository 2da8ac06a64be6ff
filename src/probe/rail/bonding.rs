//! Bonds, as sysfs shows them (`Documentation/networking/bonding.rst`).

use std::collections::BTreeSet;
use std::sync::Arc;

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
    let watches = match (&miimon, &arp) {
        (Fact::Known(n, origin), _) | (_, Fact::Known(n, origin)) if *n > 0 => {
            Fact::Known(true, origin.clone())
        }
        (Fact::Known(_, origin), Fact::Known(..)) => Fact::Known(false, origin.clone()),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
    };
    facts.set(id, bond::WATCHES, watches);
    let (members, origin) = match members {
        Fact::Known(members, origin) => (members, origin),
        Fact::Unknown(gap) => {
            facts.set(id, bond::MEMBERS, Fact::Unknown(gap.clone()));
            facts.set(id, bond::DOWN_COUNT, Fact::Unknown(gap.clone()));
            facts.set(id, bond::NOT_TAKEN_COUNT, Fact::Unknown(gap.clone()));
            facts.set(id, bond::AGGREGATORS, Fact::Unknown(gap.clone()));
            facts.set(id, bond::SPEEDS_AGREE, Fact::Unknown(gap));
            return;
        }
    };
    let names: Arc<[Arc<str>]> = members.clone().into();
    facts.set(id, bond::MEMBERS, Fact::Known(names, origin));

    let (mut down, mut up, mut failures, mut open) = (Vec::new(), Vec::new(), Ok(0u64), None);
    for member in &members {
        let dir = format!("{NET}/{member}/bonding_slave");
        match ask.text(format!("{dir}/mii_status")) {
            Fact::Known(status, _) if &*status == "up" => up.push(Arc::clone(member)),
            Fact::Known(..) => down.push(Arc::clone(member)),
            Fact::Unknown(gap) => open = Some(gap),
        }
        match (
            &mut failures,
            ask.parse(format!("{dir}/link_failure_count"), whole_number),
        ) {
            (Ok(total), Fact::Known(n, _)) => *total += n,
            (Ok(_), Fact::Unknown(gap)) => failures = Err(gap),
            (Err(_), _) => {}
        }
    }
    let known = |list: Vec<Arc<str>>, open: &Option<Gap>| {
        Fact::derived(
            Arc::<[Arc<str>]>::from(list),
            format!("mii_status of {name}'s members"),
        )
        .unless(open.clone())
    };
    let down = known(down, &open);
    facts.set(id, bond::DOWN_COUNT, down.clone().map(|d| d.len() as u64));
    facts.set(id, bond::MEMBERS_DOWN, down);
    let failures = Fact::of(failures, format!("link_failure_count of {name}'s members"));
    facts.set(id, bond::LINK_FAILURES, failures);
    speeds(ask, facts, id, &up, &open);
    match lacp {
        Fact::Known(true, _) => aggregation(ask, facts, id, &dir, &up, &open),
        Fact::Known(false, _) => {}
        Fact::Unknown(gap) => {
            facts.set(id, bond::PARTNER, Fact::Unknown(gap.clone()));
            facts.set(id, bond::AGGREGATORS, Fact::Unknown(gap.clone()));
            facts.set(id, bond::NOT_TAKEN_COUNT, Fact::Unknown(gap));
        }
    }
}

fn speeds(ask: &Ask<'_>, facts: &mut Facts, id: Id, up: &[Arc<str>], open: &Option<Gap>) {
    let mut open = open.clone();
    let mut each: Vec<(Arc<str>, u64)> = Vec::new();
    for member in up {
        // -1 if the driver does not know.
        let speed = ask.parse(format!("{NET}/{member}/speed"), whole_number);
        match speed.and_then(|mbps| match mbps {
            0 | 0xffff_ffff => Err("the driver does not know".to_owned()),
            mbps => Ok(mbps),
        }) {
            Fact::Known(mbps, _) => each.push((Arc::clone(member), mbps)),
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    let how = "speed of each member with link";
    let differ = each.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let agree = match (differ, &open) {
        (true, _) => Fact::derived(false, how),
        (false, Some(gap)) => Fact::Unknown(gap.clone()),
        (false, None) => Fact::derived(true, how),
    };
    facts.set(id, bond::SPEEDS_AGREE, agree);
    let said = each
        .iter()
        .map(|(member, mbps)| {
            let rate = BitRate(mbps.saturating_mul(1_000_000));
            Arc::from(format!("{member} {rate}"))
        })
        .collect::<Arc<[Arc<str>]>>();
    facts.set(id, bond::SPEEDS, Fact::derived(said, how));
}

/// LACP: whether the switch answers, and which members it takes.
fn aggregation(
    ask: &Ask<'_>,
    facts: &mut Facts,
    id: Id,
    dir: &str,
    up: &[Arc<str>],
    open: &Option<Gap>,
) {
    let partner = ask.parse(format!("{dir}/ad_partner_mac"), |text| match text {
        "" => Err("only root can read it".to_owned()),
        mac => Ok(mac.bytes().any(|b| b.is_ascii_hexdigit() && b != b'0')),
    });
    facts.set(id, bond::PARTNER, partner);
    let mut open = open.clone();
    let mut ids: BTreeSet<u64> = BTreeSet::new();
    let mut not_taken: Vec<Arc<str>> = Vec::new();
    for member in up {
        let dir = format!("{NET}/{member}/bonding_slave");
        match ask.parse(format!("{dir}/ad_aggregator_id"), whole_number) {
            Fact::Known(n, _) => {
                ids.insert(n);
            }
            Fact::Unknown(gap) => open = Some(gap),
        }
        /// Synchronization, Collecting, Distributing (IEEE 802.1AX, 6.4.2.3).
        const TAKEN: u64 = 0x08 | 0x10 | 0x20;
        match ask.parse(format!("{dir}/ad_partner_oper_port_state"), whole_number) {
            Fact::Known(state, _) if state & TAKEN == TAKEN => {}
            Fact::Known(..) => not_taken.push(Arc::clone(member)),
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    let how = "bonding_slave of each member with link";
    let (aggregators, list) = match &open {
        Some(gap) => (Fact::Unknown(gap.clone()), Fact::Unknown(gap.clone())),
        None => (
            Fact::derived(ids.len() as u64, how),
            Fact::derived(Arc::<[Arc<str>]>::from(not_taken), how),
        ),
    };
    facts.set(id, bond::AGGREGATORS, aggregators);
    let not_taken_count = list.clone().map(|l| l.len() as u64);
    facts.set(id, bond::NOT_TAKEN_COUNT, not_taken_count);
    facts.set(id, bond::MEMBERS_NOT_TAKEN, list);
}

/// `802.3ad 4`: the name, then its number.
fn first_word(text: &str) -> Result<Arc<str>, String> {
    match text.split_whitespace().next() {
        Some(word) => Ok(word.into()),
        None => Err("it is empty".to_owned()),
    }
}
