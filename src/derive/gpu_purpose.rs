//! Which GPUs are NVIDIA's, what they were made for, and whether they are of one model.

use super::Derivation;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fact::gpu::{GpuMode, GpuSegment};
use crate::fact::kleene::Several;
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, Typed, gpu, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("gpu_purpose", &[], derive);

/// Says of each GPU whose it is and for what; counts the models of the node.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    for &id in &gpus {
        // What NVML lists and the bus does not show is NVIDIA's; what it does not list may be.
        let by_id = facts
            .get(id, gpu::ID)
            .map(|vendor| vendor.starts_with("10de:"));
        let nvidia = by_id.or_else(|| match facts.get(id, gpu::IN_NVML) {
            Fact::Known(false, _) => Fact::Unknown(Gap::missing("gpu.id")),
            listed => listed,
        });
        facts.set(id, gpu::NVIDIA, nvidia);
        let purpose = facts.get(id, gpu::MODEL).and_then(|model| purpose(&model));
        facts.set(id, gpu::PURPOSE, purpose);
    }
    let listed = listed(facts, node);
    let (count, mix) = models(facts, &listed);
    facts.set(node, node::GPU_MODELS, count);
    facts.set(node, node::GPU_MODEL_MIX, mix);
    facts.set(node, node::GPUS_PERSISTENT, persistent(facts, &listed));
}

/// What a model was made for, by its name.
fn purpose(model: &str) -> Result<GpuSegment, String> {
    let has = |word: &str| model.split([' ', '-']).any(|part| part == word);
    if has("GeForce") || has("TITAN") || has("Titan") {
        Ok(GpuSegment::Consumer)
    } else if has("Graphics") {
        // The driver does not know the GPU's name.
        Err(format!("{model:?} tells nothing"))
    } else if has("Quadro") || has("RTX") {
        Ok(GpuSegment::Workstation)
    } else {
        Ok(GpuSegment::Compute)
    }
}

/// The GPUs that NVML lists; why it is not known which.
pub(super) fn listed(facts: &Facts, node: Id) -> Result<Vec<Id>, Gap> {
    facts.members(Subject::Gpu, node)?;
    let listed = Several::of(facts, node, gpu::IN_NVML);
    let listed = listed.known()?.iter().filter(|(_, is)| *is);
    Ok(listed.map(|(id, _)| *id).collect())
}

/// A fact of each of them; why it is not known which they are.
fn each<T: Typed>(facts: &Facts, listed: &Result<Vec<Id>, Gap>, key: Key<T>) -> Several<T> {
    let ids = listed.as_ref().map_or(&[][..], Vec::as_slice);
    let each: Several<T> = ids.iter().map(|id| facts.get(*id, key)).collect();
    each.or_others(listed.as_ref().err().cloned())
}

fn models(facts: &Facts, listed: &Result<Vec<Id>, Gap>) -> (Fact<u64>, Fact<Arc<str>>) {
    let each = each(facts, listed, gpu::MODEL);
    let mut models: BTreeMap<&str, u64> = BTreeMap::new();
    for model in each.answered() {
        *models.entry(model).or_default() += 1;
    }
    let mix: Vec<String> = models.iter().map(|(m, n)| format!("{n} x {m}")).collect();
    let mix = match models.len() {
        0 | 1 => "none".to_owned(),
        _ => mix.join(", "),
    };
    let how = "the model of each GPU that NVML lists";
    let open = each.open().cloned();
    (
        Fact::derived(models.len() as u64, how).unless(open.clone()),
        Fact::derived(mix.into(), how).unless(open),
    )
}

fn persistent(facts: &Facts, listed: &Result<Vec<Id>, Gap>) -> Fact<bool> {
    if listed.as_ref().is_ok_and(Vec::is_empty) {
        return Fact::Unknown(Gap::missing("a GPU in NVML"));
    }
    let modes = each(facts, listed, gpu::PERSISTENCE);
    let is_kept = modes.all(|mode| *mode != GpuMode::Off);
    Fact::of(is_kept, "persistence mode of each GPU that NVML lists")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::{Membership, Origin};

    fn gpus(models: &[Option<&str>]) -> (Facts, Id, Vec<Id>) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        let ids = models
            .iter()
            .enumerate()
            .map(|(at, model)| {
                let id = facts.instance(Subject::Gpu, n, &format!("0000:0{at}:00.0"));
                facts.set(id, gpu::ID, stated("10de:2330".into()));
                facts.set(id, gpu::IN_NVML, stated(true));
                facts.set(id, gpu::PERSISTENCE, stated(GpuMode::On));
                if let Some(model) = model {
                    facts.set(id, gpu::MODEL, stated((*model).into()));
                }
                id
            })
            .collect();
        (facts, n, ids)
    }

    #[test]
    fn names_of_models_say_what_they_are_for() {
        for (model, expected) in [
            ("NVIDIA H100 80GB HBM3", Some(GpuSegment::Compute)),
            ("NVIDIA A100-SXM4-80GB", Some(GpuSegment::Compute)),
            ("NVIDIA L40S", Some(GpuSegment::Compute)),
            ("Tesla V100-SXM2-32GB", Some(GpuSegment::Compute)),
            ("NVIDIA GH200 480GB", Some(GpuSegment::Compute)),
            ("NVIDIA RTX A6000", Some(GpuSegment::Workstation)),
            (
                "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                Some(GpuSegment::Workstation),
            ),
            ("Quadro RTX 8000", Some(GpuSegment::Workstation)),
            ("NVIDIA GeForce RTX 4090", Some(GpuSegment::Consumer)),
            ("NVIDIA TITAN RTX", Some(GpuSegment::Consumer)),
            ("NVIDIA Graphics Device", None),
        ] {
            assert_eq!(purpose(model).ok(), expected, "{model}");
        }
    }

    #[test]
    fn one_model_two_models_and_a_silent_one() {
        let h100 = Some("NVIDIA H100 80GB HBM3");
        let (mut facts, n, ids) = gpus(&[h100, h100]);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPU_MODELS), Some(1));
        assert_eq!(facts.known(n, node::GPU_MODEL_MIX).as_deref(), Some("none"));
        assert_eq!(facts.known(n, node::GPUS_PERSISTENT), Some(true));
        assert_eq!(facts.known(ids[0], gpu::NVIDIA), Some(true));
        let (mut facts, n, _) = gpus(&[h100, Some("NVIDIA L4"), h100]);
        derive(&mut facts, n);
        let mix = facts.known(n, node::GPU_MODEL_MIX);
        assert_eq!(
            mix.as_deref(),
            Some("2 x NVIDIA H100 80GB HBM3, 1 x NVIDIA L4")
        );
        let (mut facts, n, _) = gpus(&[h100, None]);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPU_MODELS), None);
    }

    #[test]
    fn what_nvml_does_not_list_counts_for_nothing() {
        let (mut facts, n, _) = gpus(&[Some("NVIDIA L4")]);
        let amd = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(amd, gpu::ID, stated("1002:74a1".into()));
        facts.set(amd, gpu::IN_NVML, stated(false));
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPU_MODELS), Some(1));
        assert_eq!(facts.known(amd, gpu::NVIDIA), Some(false));
        let (mut facts, n, _) = gpus(&[]);
        derive(&mut facts, n);
        assert_eq!(
            facts.known(n, node::GPUS_PERSISTENT),
            None,
            "none is not all"
        );
    }

    #[test]
    fn one_that_forgets_is_enough() {
        let (mut facts, n, _) = gpus(&[Some("NVIDIA L4")]);
        let other = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(other, gpu::IN_NVML, stated(true));
        facts.set(other, gpu::PERSISTENCE, stated(GpuMode::Off));
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::GPUS_PERSISTENT), Some(false));
    }
}
