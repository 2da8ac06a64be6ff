//! The CPU's frequency: its governor and bounds (Documentation/admin-guide/pm/cpufreq.rst).

use std::sync::Arc;

use super::{CPU, all, distinct, number_if_any};
use crate::fact::node::Turbo;
use crate::fact::{Fact, Facts, Id, Origin, Percent, Presence, known, node};
use crate::probe::{Ask, whole_number};
use crate::small_sort;

/// How many policies are asked for their governor: a large machine has one a CPU, hundreds of them.
const SAMPLE: usize = 16;

/// States the facts of the frequency.
pub(super) fn establish(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let listed = ask.names_if_any(format!("{CPU}/cpufreq"));
    let (names, origin) = match listed {
        Presence::Present(names, origin) => (names, origin),
        Presence::Absent(origin) => (Arc::default(), origin),
        Presence::Unknown(gap) => {
            facts.set(node, node::FREQUENCY_DRIVER, Fact::Unknown(gap.clone()));
            facts.set(node, node::GOVERNORS, Fact::Unknown(gap.clone()));
            facts.set(node, node::ENERGY_PREFERENCES, Fact::Unknown(gap.clone()));
            facts.set(node, node::FREQUENCY_CEILING, Fact::Unknown(gap.clone()));
            facts.set(node, node::TURBO, Fact::Unknown(gap));
            return;
        }
    };
    let policies = sample(&names);
    let Some(first) = policies.first() else {
        // A virtual machine, or firmware that keeps the frequency to itself.
        let none = || Fact::Known(Arc::default(), origin.clone());
        facts.know(node, node::FREQUENCY_DRIVER, "none".into(), &origin);
        facts.set(node, node::GOVERNORS, none());
        facts.set(node, node::ENERGY_PREFERENCES, none());
        facts.know(node, node::FREQUENCY_CEILING, Percent(100.0), &origin);
        facts.set(node, node::TURBO, Fact::Known(Turbo::NotSteered, origin));
        return;
    };
    let file = |policy: &str, name: &str| format!("{CPU}/cpufreq/{policy}/{name}");
    let driver = ask.text(file(first, "scaling_driver"));
    facts.set(node, node::FREQUENCY_DRIVER, driver);
    let governors = all(policies
        .iter()
        .map(|p| ask.text(file(p, "scaling_governor"))));
    let governors = governors.map(distinct);
    facts.set(node, node::GOVERNORS, governors);

    // Bounds and preferences are set for all CPUs alike: the ends of the sample stand for it.
    let mut ends = vec![*first];
    ends.extend(policies.last().filter(|last| *last != first));
    let preferences = all(ends.iter().map(|policy| {
        let name = file(policy, "energy_performance_preference");
        ask.text_if_any(name).if_any()
    }));
    let preferences = preferences.map(|texts| distinct(texts.into_iter().flatten().collect()));
    facts.set(node, node::ENERGY_PREFERENCES, preferences);
    let ceilings = all(ends.iter().map(|policy| {
        let allowed = ask.parse(file(policy, "scaling_max_freq"), whole_number);
        let possible = ask.parse(file(policy, "cpuinfo_max_freq"), whole_number);
        allowed.zip(possible).and_then(|both| match both {
            (_, 0) => Err("the highest frequency is 0".to_owned()),
            (allowed, possible) => Ok(allowed as f64 * 100.0 / possible as f64),
        })
    }));
    let ceiling = ceilings.map(|found| Percent(found.into_iter().fold(100.0, f64::min)));
    facts.set(node, node::FREQUENCY_CEILING, ceiling);
    facts.set(node, node::TURBO, turbo(ask, &names, origin));
}

/// Policies spread evenly over all of them, the first and the last among them.
fn sample(names: &[Arc<str>]) -> Vec<&Arc<str>> {
    let number = |name: &Arc<str>| -> Option<u64> { name.strip_prefix("policy")?.parse().ok() };
    let mut policies: Vec<&Arc<str>> = names.iter().filter(|n| number(n).is_some()).collect();
    small_sort::by_key(&mut policies, |name| number(name));
    let last = policies.len().saturating_sub(1);
    if policies.len() <= SAMPLE {
        return policies;
    }
    let places = (0..SAMPLE).map(|i| i * last / (SAMPLE - 1));
    places.filter_map(|at| policies.get(at).copied()).collect()
}

/// `intel_pstate` has a switch of its own, others have `boost`.
fn turbo(ask: &Ask<'_>, names: &[Arc<str>], origin: Origin) -> Fact<Turbo> {
    let word = |on: bool| if on { Turbo::On } else { Turbo::Off };
    let own = ask.text_if_any(format!("{CPU}/intel_pstate/no_turbo"));
    if let (Some(text), origin) = known!(own.if_any(), with origin) {
        return Fact::Known(text, origin).and_then(|text| Ok(word(whole_number(&text)? == 0)));
    }
    match names.iter().any(|name| &**name == "boost") {
        true => number_if_any(ask, &format!("{CPU}/cpufreq/boost")).map(|boost| word(boost == 1)),
        false => Fact::Known(Turbo::NotSteered, origin),
    }
}
