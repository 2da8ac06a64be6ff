//! Each GPU's nearest adapter, and GPUs that share one.

use std::sync::Arc;

use super::distance::{self, PciLocation};
use super::pairs::place_of_gpu;
use super::{Nic, pairing};
use crate::fact::gpu_nic::Distance;
use crate::fact::{Fact, Facts, Gap, Id, Origin, Subject, bridge, gpu, known, node};

type Texts = Arc<[Arc<str>]>;

/// The shortest distance to what counts: known where nothing that is open could be nearer.
pub(super) fn shortest<'a>(
    pairs: impl Iterator<Item = (&'a Fact<bool>, &'a Fact<Distance>)>,
    mut open: Option<Gap>,
) -> Fact<Distance> {
    let mut best: Option<(Distance, &Origin)> = None;
    let mut undecided: Vec<(Option<Distance>, &Gap)> = Vec::new();
    for pair in pairs {
        match pair {
            (Fact::Known(false, _), _) => {}
            (Fact::Known(true, _), Fact::Known(distance, origin)) => {
                if best.is_none_or(|(best, _)| (*distance as u8) < best as u8) {
                    best = Some((*distance, origin));
                }
            }
            (Fact::Unknown(gap), distance) => undecided.push((distance.known().copied(), gap)),
            (_, Fact::Unknown(gap)) => undecided.push((None, gap)),
        }
    }
    let could_be_nearer = |distance: Option<Distance>| match (distance, best) {
        (Some(distance), Some((best, _))) => (distance as u8) < best as u8,
        (None, Some((best, _))) => best != Distance::Pix,
        (_, None) => true,
    };
    if best.is_some_and(|(best, _)| best == Distance::Pix) {
        open = None;
    }
    for (distance, gap) in undecided {
        if could_be_nearer(distance) {
            open = open.or_else(|| Some(gap.clone()));
        }
    }
    match (open, best) {
        (Some(gap), _) => Fact::Unknown(gap),
        (None, Some((distance, origin))) => Fact::Known(distance, origin.clone()),
        (None, None) => Fact::Unknown(Gap::missing("an adapter that is meant for use")),
    }
}

/// The nearest adapters of a GPU.
pub(super) struct Nearest {
    /// How far the nearest is.
    pub(super) distance: Fact<Distance>,
    /// Places in the list of functions; all of them, or why that is not known.
    pub(super) nics: Fact<Vec<usize>>,
}

impl Nearest {
    /// The nearest of these, to which a GPU has these distances.
    pub(super) fn of(facts: &Facts, node: Id, nics: &[Nic], distances: &[Fact<Distance>]) -> Self {
        let functions = facts.incomplete(node, Subject::Function);
        let pairs = nics.iter().zip(distances).map(|(nic, d)| (&nic.counts, d));
        let distance = shortest(pairs, functions.clone());
        let nearest = match (&distance, &functions) {
            (Fact::Unknown(gap), _) | (_, Some(gap)) => Fact::Unknown(gap.clone()),
            (Fact::Known(nearest, origin), None) => {
                let mut found = Vec::new();
                let mut open = None;
                for (at, (nic, distance)) in nics.iter().zip(distances).enumerate() {
                    match (&nic.counts, distance) {
                        (Fact::Known(true, _), Fact::Known(d, _)) if d == nearest => found.push(at),
                        (Fact::Known(..), Fact::Known(..)) | (Fact::Known(false, _), _) => {}
                        (Fact::Unknown(_), Fact::Known(d, _)) if d != nearest => {}
                        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => {
                            open = Some(gap.clone());
                        }
                    }
                }
                Fact::Known(found, origin.clone()).unless(open)
            }
        };
        Nearest {
            distance,
            nics: nearest,
        }
    }
}

/// States each GPU's nearest adapter, how its equals fare, and whether it shares one while an equal
/// one is idle.
pub(super) fn state(facts: &mut Facts, node: Id, gpus: &[Id], nics: &[Nic], nearest: &[Nearest]) {
    for (gpu, near) in gpus.iter().zip(nearest) {
        facts.set(*gpu, gpu::NEAR_DISTANCE, near.distance.clone());
        let names = near
            .nics
            .clone()
            .map(|found| -> Texts { found.iter().map(|at| Arc::clone(&nics[*at].name)).collect() });
        facts.set(*gpu, gpu::NEAR_NICS, names);
        // What befalls the one befalls the other.
        let known = near.nics.known().into_iter().flatten();
        for device in known.flat_map(|at| &nics[*at].devices) {
            facts.relate(*gpu, *device);
        }
        let siblings = siblings_near(facts, node, gpus, nearest, *gpu);
        facts.set(*gpu, gpu::SIBLINGS_NEAR, siblings);
    }
    let pairing = match paired(facts, node, gpus, nics, nearest) {
        Ok(pairing) => pairing,
        Err(gap) => {
            for gpu in gpus {
                facts.leave_open(*gpu, &[gpu::NEAR_NIC.index, gpu::IDLE_NIC.index], &gap);
            }
            return;
        }
    };
    for (gpu, (own, idle)) in gpus.iter().zip(pairing) {
        let own = own.ok_or_else(|| Gap::missing("an adapter that is meant for use"));
        let own = Fact::of(own, "the nearest, one for each GPU where it can be");
        facts.set(*gpu, gpu::NEAR_NIC, own);
        facts.set(*gpu, gpu::IDLE_NIC, idle);
    }
}

/// Whether most GPUs of the same model have an adapter on their own switches.
fn siblings_near(facts: &Facts, node: Id, gpus: &[Id], nearest: &[Nearest], gpu: Id) -> Fact<bool> {
    let model = known!(facts.get(gpu, gpu::ID));
    let (mut near, mut all, mut undecided) = (0usize, 0usize, 0usize);
    let mut open = facts.incomplete(node, Subject::Gpu);
    let more = open.is_some();
    for (other, found) in gpus.iter().zip(nearest) {
        match (&facts.get(*other, gpu::ID), &found.distance) {
            (Fact::Known(other, _), _) if *other != model => continue,
            (Fact::Known(..), Fact::Known(distance, _)) => near += usize::from(distance.is_near()),
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => {
                undecided += 1;
                open = Some(gap.clone());
            }
        }
        all += 1;
    }
    let how = format!("{near} of {all} GPUs of the model");
    match open {
        // GPUs that nobody knows of can lower the share of those that are near, and raise it.
        Some(gap) if more => Fact::Unknown(gap),
        _ if 2 * near > all => Fact::derived(true, how),
        _ if 2 * (near + undecided) <= all => Fact::derived(false, how),
        Some(gap) => Fact::Unknown(gap),
        None => Fact::derived(false, how),
    }
}

/// For each GPU its adapter, and the equal adapter that is idle while the GPU has to share.
type Paired = Vec<(Option<Arc<str>>, Fact<Arc<str>>)>;

fn paired(
    facts: &Facts,
    node: Id,
    gpus: &[Id],
    nics: &[Nic],
    nearest: &[Nearest],
) -> Result<Paired, Gap> {
    facts.incomplete(node, Subject::Gpu).map_or(Ok(()), Err)?;
    // Ports and functions of one card are one adapter.
    let mut cards: Vec<&Nic> = Vec::new();
    let mut card_of: Vec<Option<usize>> = Vec::with_capacity(nics.len());
    for nic in nics {
        if !*nic.counts.as_result().map_err(Gap::clone)? {
            card_of.push(None);
            continue;
        }
        let at = cards.iter().position(|other| other.card == nic.card);
        card_of.push(Some(at.unwrap_or_else(|| {
            cards.push(nic);
            cards.len() - 1
        })));
    }
    // A console's or a test's GPU beside those that compute claims no adapter.
    let models = gpus.iter().map(|gpu| facts.value(*gpu, gpu::ID));
    let models: Vec<Arc<str>> = models.collect::<Result<_, _>>()?;
    let like = |model: &Arc<str>| models.iter().filter(|other| *other == model).count();
    let most = models.iter().map(like).max().unwrap_or(0);
    let mut near: Vec<Vec<usize>> = Vec::with_capacity(gpus.len());
    for (model, found) in models.iter().zip(nearest) {
        let found = found.nics.as_result().map_err(Gap::clone)?;
        let mut own: Vec<usize> = found.iter().filter_map(|at| card_of[*at]).collect();
        own.dedup();
        own.sort_unstable();
        own.dedup();
        near.push(if like(model) == most { own } else { Vec::new() });
    }
    let computing = near.iter().filter(|own| !own.is_empty()).count();
    let pairing = pairing::pair(&near, cards.len());
    let switched = switched(nearest_cards(facts, gpus, &cards, node));
    let paired = gpus.iter().enumerate().map(|(at, _)| {
        let own = match pairing.of_gpu[at] {
            Some(card) => Some(Arc::clone(&cards[card].name)),
            // One that claims none still has one that is near.
            None => {
                let first = nearest[at].nics.known().and_then(|found| found.first());
                first.map(|nic| Arc::clone(&nics[*nic].name))
            }
        };
        let none = |how: &'static str| Fact::derived(Arc::from("none"), how);
        let idle = match (pairing.crowded[at], pairing.of_gpu[at]) {
            (true, Some(card)) => {
                let idle = idle_equal(&pairing, &cards, card, computing, &switched);
                not_near_to_nccl(facts, node, gpus, &pairing, &cards, idle)
            }
            _ => none("it shares none, or all adapters have GPUs"),
        };
        (own, idle)
    });
    Ok(paired.collect())
}

/// For each card its distance to each GPU.
fn nearest_cards(facts: &Facts, gpus: &[Id], cards: &[&Nic], node: Id) -> Vec<Vec<Fact<Distance>>> {
    let numa_nodes = facts.get(node, node::NUMA_NODES);
    let places: Vec<PciLocation> = gpus.iter().map(|gpu| place_of_gpu(facts, *gpu)).collect();
    cards
        .iter()
        .map(|card| {
            let to = |place: &PciLocation| distance::distance(place, &card.place, &numa_nodes);
            places.iter().map(to).collect()
        })
        .collect()
}

/// Whether each card is on PCIe switches with a GPU.
fn switched(distances: Vec<Vec<Fact<Distance>>>) -> Vec<bool> {
    let near = |d: &Fact<Distance>| d.known().is_some_and(|d| d.is_near());
    distances.iter().map(|row| row.iter().any(near)).collect()
}

/// An adapter equal to a shared one, the nearest of no GPU. One for each GPU must be there, or
/// sharing is the machine's design; and where it is not on the GPUs' switches it may serve storage,
/// unless most GPUs have an adapter to themselves.
fn idle_equal(
    pairing: &pairing::Pairing,
    cards: &[&Nic],
    card: usize,
    computing: usize,
    switched: &[bool],
) -> Fact<Arc<str>> {
    let model = known!(&cards[card].model);
    let mut equals = 0;
    let mut idle = None;
    let crowded = pairing.crowded.iter().filter(|crowded| **crowded).count();
    for (at, other) in cards.iter().enumerate() {
        if known!(&other.model) != model {
            continue;
        }
        equals += 1;
        if pairing.idle[at] && (switched[at] || 2 * crowded < computing) {
            idle = idle.or(Some(at));
        }
    }
    let idle = idle.filter(|_| equals >= computing);
    let name = idle.map_or("none".into(), |at: usize| Arc::clone(&cards[at].name));
    Fact::derived(name, format!("{equals} equal adapters, {computing} GPUs"))
}

/// An idle adapter is none where NCCL takes its switch and that of a crowded GPU for one: it gives
/// the GPU either.
fn not_near_to_nccl(
    facts: &Facts,
    node: Id,
    gpus: &[Id],
    pairing: &pairing::Pairing,
    cards: &[&Nic],
    idle: Fact<Arc<str>>,
) -> Fact<Arc<str>> {
    let Fact::Known(name, _) = &idle else {
        return idle;
    };
    let Some(card) = cards.iter().find(|card| card.name == *name) else {
        return idle;
    };
    let id = |port: &str| match facts.find(Subject::Bridge, node, port) {
        Some(bridge) => facts.get(bridge, bridge::ID),
        None => Fact::Unknown(Gap::missing("bridge.id")),
    };
    for (gpu, _) in gpus.iter().zip(&pairing.crowded).filter(|(_, c)| **c) {
        if let (Fact::Known(there, _), Fact::Known(here, _)) =
            (&card.place.path, facts.get(*gpu, gpu::PATH))
        {
            let on_one = distance::on_one_broadcom_switch(&here, there, id);
            if let (true, origin) = known!(on_one, with origin) {
                return Fact::Known(Arc::from("none"), origin);
            }
        }
    }
    idle
}
