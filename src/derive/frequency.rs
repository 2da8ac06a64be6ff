//! What a cpufreq governor means: the same word means another thing with another driver.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Id, node};

/// Drivers that choose the frequency themselves, by the energy preference: their `powersave` is adaptive
/// (Documentation/admin-guide/pm/intel_pstate.rst, amd-pstate.rst).
const ADAPTIVE: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// Works out what the governors and preferences amount to.
pub fn derive(facts: &mut Facts, node: Id) {
    let governors = facts.get(node, node::GOVERNORS);
    let any = |words: &'static [&'static str]| {
        move |found: Arc<[Arc<str>]>| found.iter().any(|word| words.contains(&&**word))
    };
    facts.set(
        node,
        node::GOVERNORS_AGREE,
        governors.clone().map(|found| found.len() < 2),
    );
    let follows = any(&["ondemand", "conservative", "schedutil"]);
    facts.set(
        node,
        node::FREQUENCY_FOLLOWS_LOAD,
        governors.clone().map(follows),
    );
    let powersave = governors.map(any(&["powersave"]));
    let held = match (powersave, facts.get(node, node::FREQUENCY_DRIVER)) {
        (Fact::Known(false, origin), _) => Fact::Known(false, origin),
        (Fact::Known(true, origin), Fact::Known(driver, _)) => {
            Fact::Known(!ADAPTIVE.contains(&&*driver), origin)
        }
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    };
    facts.set(node, node::FREQUENCY_HELD_LOW, held);
    let preferences = facts.get(node, node::ENERGY_PREFERENCES);
    let saves = any(&["power", "balance_power"]);
    facts.set(node, node::PREFERS_ENERGY, preferences.map(saves));
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn powersave_holds_the_frequency_low_with_some_drivers_only() {
        for (driver, governor, expected) in [
            ("acpi-cpufreq", "powersave", true),
            ("intel_cpufreq", "powersave", true),
            ("intel_pstate", "powersave", false),
            ("amd-pstate-epp", "powersave", false),
            ("acpi-cpufreq", "performance", false),
        ] {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            facts.set(n, node::GOVERNORS, stated([governor.into()].into()));
            facts.set(n, node::FREQUENCY_DRIVER, stated(driver.into()));
            facts.set(
                n,
                node::ENERGY_PREFERENCES,
                stated(["balance_performance".into()].into()),
            );
            derive(&mut facts, n);
            assert_eq!(
                facts.known(n, node::FREQUENCY_HELD_LOW),
                Some(expected),
                "{driver} {governor}"
            );
            assert_eq!(facts.known(n, node::GOVERNORS_AGREE), Some(true));
            assert_eq!(facts.known(n, node::PREFERS_ENERGY), Some(false));
        }
    }
}
