//! Limits that bind, as against limits that are merely set.

use super::Derivation;
use crate::fact::{Bytes, Fact, Facts, Id, Subject, device, limit, node, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("host_limits", &[], derive);

/// Whether the limit of locked memory binds this process, and which devices its cgroup forbids it.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let fact = match (
        facts.get(node, node::MEMLOCK),
        facts.get(node, node::IPC_LOCK),
    ) {
        (Fact::Known(Bytes::UNLIMITED, origin), _) => Fact::Known(false, origin),
        (_, Fact::Known(true, origin)) => Fact::Known(false, origin),
        (Fact::Known(limit, _), Fact::Known(false, _)) => Fact::derived(
            true,
            format!("{limit}, and no CAP_IPC_LOCK in the initial user namespace"),
        ),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    };
    facts.set(node, node::MEMLOCK_BINDS, fact);
    let least = facts.limit(limit::FILES_LEAST);
    let too_few = facts
        .known(node, node::NOFILE)
        .is_some_and(|files| files < least);
    let needed = match facts.get(node, node::JOB_RANKS) {
        Fact::Known(ranks, _) => {
            let for_ranks = ranks
                .saturating_mul(facts.limit(limit::FILES_OF_RANK))
                .saturating_add(facts.limit(limit::FILES_BESIDES));
            Fact::derived(for_ranks.max(least), format!("{ranks} ranks"))
        }
        // Whatever the job is, it needs as many as this.
        Fact::Unknown(_) if too_few => Fact::derived(least, "any number of ranks"),
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(node, node::FILES_NEEDED, needed);
    rdma_cgroup(facts, node);
}

/// Whether rdma.max allows no handle or no object of a device, or has less than the first second of
/// a job takes: then ibv_open_device(3) fails in this process, or too little can be made with what
/// it opens.
fn rdma_cgroup(facts: &mut Facts, node: Id) {
    let limits = facts.get(node, node::RDMA_LIMITS);
    for id in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        // `mlx5_0 hca_handle=0 hca_object=max; mlx5_1 …`, those of groups above too: the strictest
        // binds.
        let of_device = limits.clone().map(|text| {
            let lines = text.split("; ");
            let own = |line: &&str| line.split(' ').next() == Some(facts.name(id));
            lines.filter(own).map(str::to_owned).collect::<Vec<_>>()
        });
        let forbids = |line: &String| {
            let mut words = line.split(' ');
            words.any(|word| matches!(word, "hca_handle=0" | "hca_object=0"))
        };
        // The cgroup answers EAGAIN (`rdmacg_try_charge`); what a library makes of it can be
        // ENOMEM, as for locked memory.
        let why: &[&str] = match facts.known(node, node::MEMLOCK_BINDS) {
            Some(false) => &["(EAGAIN)", "(ENOMEM)"],
            _ => &["(EAGAIN)"],
        };
        let meets = |port: Id| {
            let ended = facts.known(port, port::REHEARSAL);
            ended.is_some_and(|ended| why.iter().any(|why| ended.ends_with(why)))
        };
        let exhausted = facts.below(id, Subject::Port).any(meets);
        let forbidden = of_device
            .clone()
            .map(|lines| lines.iter().any(forbids) || (exhausted && !lines.is_empty()));
        // A group that could not be read may forbid what the others allow.
        let forbidden = match (forbidden, facts.get(node, node::RDMA_LIMITS_READ)) {
            (Fact::Known(false, _), Fact::Unknown(gap)) => Fact::Unknown(gap),
            (forbidden, _) => forbidden,
        };
        let limit = of_device.map(|lines| {
            let strictest = lines.iter().find(|line| forbids(line)).or(lines.first());
            strictest.map_or("none".into(), |line| line.as_str().into())
        });
        facts.set(id, device::CGROUP_FORBIDS, forbidden);
        facts.set(id, device::CGROUP_LIMIT, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{port, stated};
    use super::*;
    use crate::fact::port::PortState;

    #[test]
    fn a_limit_of_zero_forbids_the_device() {
        let mut facts = Facts::new();
        let n = super::super::testing::node(&mut facts);
        for name in ["mlx5_0", "mlx5_1", "mlx5_10"] {
            port(&mut facts, n, name, PortState::Active, 400);
        }
        let limits = "mlx5_1 hca_handle=2 hca_object=max; mlx5_10 hca_handle=max hca_object=2000; mlx5_1 hca_handle=0 hca_object=max";
        facts.set(n, node::RDMA_LIMITS, stated(limits.into()));
        facts.set(n, node::RDMA_LIMITS_READ, stated(true));
        derive(&mut facts, n);
        let of = |name: &str| {
            let id = facts.find(Subject::Device, n, name).unwrap();
            let limit = facts.known(id, device::CGROUP_LIMIT).unwrap();
            (facts.known(id, device::CGROUP_FORBIDS), limit.to_string())
        };
        assert_eq!(of("mlx5_0"), (Some(false), "none".into()));
        assert_eq!(
            of("mlx5_1"),
            (Some(true), "mlx5_1 hca_handle=0 hca_object=max".into())
        );
        assert_eq!(of("mlx5_10").0, Some(false));
    }

    #[test]
    fn a_limit_that_the_first_second_of_a_job_meets_forbids_the_device() {
        for (limits, ended, expected) in [
            (
                "mlx5_0 hca_object=2",
                "memory cannot be registered: try again (EAGAIN)",
                true,
            ),
            (
                "mlx5_0 hca_object=2",
                "memory cannot be registered: no memory (ENOMEM)",
                true,
            ),
            (
                "mlx5_0 hca_object=2",
                "the device cannot be opened: no such device (ENODEV)",
                false,
            ),
            (
                "mlx5_1 hca_object=2",
                "memory cannot be registered: try again (EAGAIN)",
                false,
            ),
        ] {
            let mut facts = Facts::new();
            let n = super::super::testing::node(&mut facts);
            let own = port(&mut facts, n, "mlx5_0", PortState::Active, 400);
            facts.set(own, port::REHEARSAL, stated(ended.into()));
            facts.set(n, node::MEMLOCK, stated(Bytes::UNLIMITED));
            facts.set(n, node::RDMA_LIMITS, stated(limits.into()));
            facts.set(n, node::RDMA_LIMITS_READ, stated(true));
            derive(&mut facts, n);
            let id = facts.parent(own).unwrap();
            let found = facts.known(id, device::CGROUP_FORBIDS);
            assert_eq!(found, Some(expected), "{limits}: {ended}");
        }
    }
}
