//! In what a GPU differs from most GPUs of its model: settings, firmware, the number of its
//! NVLinks.

use super::Derivation;
use std::sync::Arc;

use super::majority;
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, Typed, gpu, known, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gpu_equals", &[], derive);

const CLOCK: Key<u64> = gpu::APPLICATION_CLOCK;
const HIGHEST: Key<u64> = gpu::MAX_SM_CLOCK;

/// Compares each GPU with those of its model.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    for id in gpus {
        let equals = equals(facts, node, id);
        let nvlinks = most(facts, id, &equals, gpu::NVLINKS_ACTIVE);
        facts.set(id, gpu::SIBLINGS_NVLINKS_ACTIVE, nvlinks);
        let fabric = most(facts, id, &equals, gpu::FABRIC_STATE);
        facts.set(id, gpu::SIBLINGS_FABRIC_STATE, fabric);

        let settings = [
            odd(facts, id, &equals, "ECC", gpu::ECC, ""),
            odd(facts, id, &equals, "MIG", gpu::MIG, ""),
            odd(facts, id, &equals, "persistence", gpu::PERSISTENCE, ""),
            odd(facts, id, &equals, "compute mode", gpu::COMPUTE_MODE, ""),
            odd_if_any(facts, id, &equals, "power limit", gpu::POWER_LIMIT, " W"),
            odd_if_any(facts, id, &equals, "application clock", CLOCK, " MHz"),
            odd_if_any(facts, id, &equals, "highest clock", HIGHEST, " MHz"),
        ];
        let (differ, which) = together(&settings);
        facts.set(id, gpu::SETTINGS_DIFFER, differ);
        facts.set(id, gpu::ODD_SETTINGS, which);

        let firmware = [
            odd(facts, id, &equals, "VBIOS", gpu::VBIOS, ""),
            odd_if_any(facts, id, &equals, "GSP", gpu::GSP_FIRMWARE, ""),
        ];
        let (differ, which) = together(&firmware);
        facts.set(id, gpu::FIRMWARE_DIFFERS, differ);
        facts.set(id, gpu::ODD_FIRMWARE, which);
    }
}

/// The GPUs of the node that are of this one's model or may be, this one counted. All of them are
/// known if those of the PCI bus are, or as many as NVML counts.
pub(super) fn equals(facts: &Facts, node: Id, id: Id) -> Result<Vec<Id>, Gap> {
    if let Err(gap) = facts.members(Subject::Gpu, node) {
        let in_nvml = |id: &Id| facts.known(*id, gpu::IN_NVML) == Some(true);
        let listed = facts.below(node, Subject::Gpu).filter(in_nvml).count() as u64;
        if facts.known(node, node::NVML_GPUS) != Some(listed) || !in_nvml(&id) {
            return Err(gap);
        }
    }
    let kinds = |id: Id| [gpu::MODEL, gpu::ID].map(|key| facts.known(id, key));
    let own = kinds(id);
    if own.iter().all(Option::is_none) {
        return facts.value(id, gpu::MODEL).map(|_| Vec::new());
    }
    // Where one of the two has no name, the ids of the PCI bus tell.
    let may_be = |other: &Id| {
        let both = own.iter().zip(kinds(*other));
        let mut both = both.filter_map(|(own, other)| Some(*own.as_ref()? == other?));
        both.next()
            .unwrap_or_else(|| facts.known(*other, gpu::IN_NVML) != Some(false))
    };
    Ok(facts.below(node, Subject::Gpu).filter(may_be).collect())
}

/// What most of the equals have.
pub(super) fn most<T: Typed + Clone + PartialEq>(
    facts: &Facts,
    id: Id,
    equals: &Result<Vec<Id>, Gap>,
    key: Key<T>,
) -> Fact<T> {
    let equals = known!(ok equals).iter();
    let all: Vec<Fact<T>> = equals.map(|other| facts.get(*other, key)).collect();
    majority::of(&facts.get(id, key), &all, "GPUs of its model")
}

/// What of this GPU differs, `ECC off (most: on)`; empty where it does not.
fn odd<T: Typed + Clone + PartialEq>(
    facts: &Facts,
    id: Id,
    equals: &Result<Vec<Id>, Gap>,
    what: &str,
    key: Key<T>,
    unit: &str,
) -> Fact<String> {
    let both = facts.get(id, key).zip(most(facts, id, equals, key));
    both.flat_map(|(own, most)| {
        if own == most {
            return Fact::derived(String::new(), key.path());
        }
        let (own, most) = (own.into_value(), most.into_value());
        let text = format!("{what} {own}{unit} (most: {most}{unit})");
        Fact::derived(text, key.path())
    })
}

/// Of what not every GPU has, nothing is compared where this one does not have it.
fn odd_if_any<T: Typed + Clone + PartialEq>(
    facts: &Facts,
    id: Id,
    equals: &Result<Vec<Id>, Gap>,
    what: &str,
    key: Key<T>,
    unit: &str,
) -> Fact<String> {
    match facts.get(id, key) {
        Fact::Known(..) => odd(facts, id, equals, what, key, unit),
        Fact::Unknown(_) => Fact::derived(String::new(), "this GPU does not have it"),
    }
}

/// Whether one of them differs, and which do: known as soon as one does.
fn together(parts: &[Fact<String>]) -> (Fact<bool>, Fact<Arc<str>>) {
    let odd = parts.iter().filter_map(Fact::known);
    let odd: Vec<&str> = odd
        .map(String::as_str)
        .filter(|odd| !odd.is_empty())
        .collect();
    let how = "each setting of the GPUs of its model";
    if !odd.is_empty() {
        let which = odd.join(", ");
        return (
            Fact::derived(true, &which),
            Fact::derived(which.into(), how),
        );
    }
    let open = parts.iter().find_map(|part| part.as_result().err());
    (
        Fact::derived(false, how).unless(open.cloned()),
        Fact::derived("none".into(), how).unless(open.cloned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node as bare_node, stated};
    use crate::fact::gpu::{ComputeMode, GpuMode};
    use crate::fact::{Membership, Origin};

    fn gpus(count: usize) -> (Facts, Id, Vec<Id>) {
        let mut facts = Facts::new();
        let n = bare_node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        let ids = (0..count)
            .map(|at| facts.instance(Subject::Gpu, n, &format!("0000:0{at}:00.0")))
            .collect();
        (facts, n, ids)
    }

    fn plain(facts: &mut Facts, id: Id) {
        facts.set(id, gpu::MODEL, stated("NVIDIA H100 80GB HBM3".into()));
        facts.set(id, gpu::IN_NVML, stated(true));
        facts.set(id, gpu::ECC, stated(GpuMode::On));
        facts.set(id, gpu::MIG, stated(GpuMode::Off));
        facts.set(id, gpu::PERSISTENCE, stated(GpuMode::On));
        facts.set(id, gpu::COMPUTE_MODE, stated(ComputeMode::Default));
        facts.set(id, gpu::POWER_LIMIT, stated(700));
        facts.set(id, gpu::VBIOS, stated("96.00.74.00.01".into()));
        facts.set(id, gpu::NVLINKS_ACTIVE, stated(18));
    }

    #[test]
    fn the_odd_one_says_in_what() {
        let (mut facts, n, ids) = gpus(4);
        facts.set(ids[2], gpu::ECC, stated(GpuMode::Off));
        facts.set(ids[2], gpu::POWER_LIMIT, stated(500));
        facts.set(ids[3], gpu::VBIOS, stated("96.00.61.00.01".into()));
        facts.set(ids[3], gpu::NVLINKS_ACTIVE, stated(17));
        ids.iter().for_each(|id| plain(&mut facts, *id));
        derive(&mut facts, n);
        assert_eq!(facts.known(ids[0], gpu::SETTINGS_DIFFER), Some(false));
        assert_eq!(
            facts.known(ids[2], gpu::ODD_SETTINGS).as_deref(),
            Some("ECC off (most: on), power limit 500 W (most: 700 W)")
        );
        assert_eq!(facts.known(ids[3], gpu::SETTINGS_DIFFER), Some(false));
        assert_eq!(
            facts.known(ids[3], gpu::ODD_FIRMWARE).as_deref(),
            Some("VBIOS 96.00.61.00.01 (most: 96.00.74.00.01)")
        );
        assert_eq!(facts.known(ids[3], gpu::SIBLINGS_NVLINKS_ACTIVE), Some(18));
    }

    #[test]
    fn other_models_are_no_equals_and_a_silent_gpu_may_be_one() {
        let (mut facts, n, ids) = gpus(3);
        facts.set(ids[0], gpu::MODEL, stated("NVIDIA L4".into()));
        facts.set(ids[0], gpu::POWER_LIMIT, stated(72));
        facts.set(ids[0], gpu::NVLINKS_ACTIVE, stated(0));
        plain(&mut facts, ids[0]);
        plain(&mut facts, ids[1]);
        facts.set(ids[2], gpu::IN_NVML, stated(true));
        derive(&mut facts, n);
        // One that has fallen off the bus may be of either model: nobody has a majority of two.
        assert_eq!(facts.known(ids[0], gpu::SETTINGS_DIFFER), None);
        assert_eq!(facts.known(ids[1], gpu::SETTINGS_DIFFER), None);
        assert_eq!(facts.known(ids[2], gpu::SETTINGS_DIFFER), None);
    }

    #[test]
    fn a_gpu_without_a_name_is_equal_by_its_id() {
        let (mut facts, n, ids) = gpus(3);
        let none = || Fact::Unknown(Gap::missing("no reply"));
        facts.set(ids[2], gpu::MODEL, none());
        facts.set(ids[2], gpu::NVLINKS_ACTIVE, stated(17));
        for (at, id) in ids.iter().enumerate() {
            facts.set(*id, gpu::ID, stated("10de:2330".into()));
            if at < 2 {
                plain(&mut facts, *id);
            }
        }
        derive(&mut facts, n);
        assert_eq!(facts.known(ids[2], gpu::SIBLINGS_NVLINKS_ACTIVE), Some(18));
        assert_eq!(equals(&facts, n, ids[0]).map(|all| all.len()), Ok(3));
    }

    #[test]
    fn those_that_nvml_counts_are_all_whatever_else_the_bus_has() {
        for (counted, expected) in [(3, None), (2, Some(2))] {
            let mut facts = Facts::new();
            let n = bare_node(&mut facts);
            let hidden = Gap::missing("the class of a function");
            facts.set_members(Subject::Gpu, n, Membership::Unknown(hidden));
            let ids = ["a", "b"].map(|name| facts.instance(Subject::Gpu, n, name));
            ids.iter().for_each(|id| plain(&mut facts, *id));
            facts.set(n, node::NVML_GPUS, stated(counted));
            let all = equals(&facts, n, ids[0]);
            assert_eq!(all.ok().map(|all| all.len()), expected);
        }
    }

    #[test]
    fn a_gap_is_no_agreement_and_a_card_without_power_limit_is_compared() {
        let (mut facts, n, ids) = gpus(2);
        facts.set(
            ids[0],
            gpu::POWER_LIMIT,
            Fact::Unknown(Gap::missing("not supported")),
        );
        for id in &ids {
            plain(&mut facts, *id);
        }
        derive(&mut facts, n);
        assert_eq!(facts.known(ids[0], gpu::SETTINGS_DIFFER), Some(false));
        let (mut facts, n, ids) = gpus(1);
        facts.set(ids[0], gpu::MODEL, stated("NVIDIA L4".into()));
        facts.set(ids[0], gpu::MIG, stated(GpuMode::Unsupported));
        derive(&mut facts, n);
        assert_eq!(facts.known(ids[0], gpu::SETTINGS_DIFFER), None);
    }
}
