//! Facts from facts: what takes more than a comparison. Unknown inputs give unknown outputs.
//!
//! No function here asks the machine. One that could be decided by a fact that is missing says which.

pub mod ablation;
pub mod agreement;
pub mod arms;
pub mod bandwidth_model;
pub mod ceiling;
pub mod comparison;
pub mod counter_rate;
pub mod cuda_release;
pub mod driver_stack;
pub mod fabric;
pub mod firewall;
pub mod gid_choice;
mod gpu_ends;
pub mod gpu_equals;
pub mod gpu_peer;
pub mod gpu_purpose;
pub mod gpu_share;
pub mod gpudirect;
pub mod group;
pub mod host_limits;
pub mod intended;
pub mod interrupts;
pub mod job_place;
pub mod kernel_event;
pub mod log;
pub mod majority;
pub mod module_wanted;
pub mod mtu;
pub mod nccl;
pub mod netdev_of_port;
pub mod nvlink_equals;
pub mod p2p;
pub mod pcie_hop;
pub mod pcie_need;
pub mod pcie_peers;
pub mod pcie_slot;
pub mod port_state;
pub mod rail;
pub mod relations;
pub mod setting;
pub mod step_time;
pub mod storage;
pub mod tally;
pub mod topology;
pub mod traffic;

use crate::fact::{Facts, Subject};

/// Works out all derived facts, in the order in which they build on each other.
pub fn derive(facts: &mut Facts) {
    let nodes = facts.all(Subject::Node).count() as u64;
    of_nodes(facts, nodes);
    log::derive(facts);
    comparison::derive(facts);
}

/// What is derived of all nodes together, where their facts are not here but the samples that were taken of them.
pub fn of_cluster(
    facts: &mut Facts,
    nodes: u64,
    samples: comparison::Table,
) -> comparison::Concerns {
    tally::cluster(facts, nodes);
    log::derive(facts);
    samples.state(facts)
}

/// Derives what is derived of each node by itself, `among` so many that are judged together.
pub fn of_nodes(facts: &mut Facts, among: u64) {
    tally::cluster(facts, among);
    let nodes: Vec<_> = facts.all(Subject::Node).collect();
    for &node in &nodes {
        if facts.known(node, crate::fact::node::PASTED) == Some(true) {
            // Of the machine itself nothing was asked: what tools printed of its ports is all there is.
            gid_choice::derive(facts, node);
            intended::derive(facts, node);
            agreement::derive(facts, node);
            port_state::derive(facts, node);
            kernel_event::derive(facts, node);
            tally::node(facts, node);
            continue;
        }
        netdev_of_port::derive(facts, node);
        gid_choice::derive(facts, node);
        nccl::derive(facts, node);
        intended::derive(facts, node);
        agreement::derive(facts, node);
        mtu::derive(facts, node);
        port_state::derive(facts, node);
        counter_rate::derive(facts, node);
        host_limits::derive(facts, node);
        interrupts::derive(facts, node);
        module_wanted::derive(facts, node);
        traffic::derive(facts, node);
        rail::derive(facts, node);
        driver_stack::derive(facts, node);
        gpudirect::derive(facts, node);
        cuda_release::derive(facts, node);
        firewall::derive(facts, node);
        setting::derive(facts, node);
        storage::derive(facts, node);
        relations::derive(facts, node);
        kernel_event::derive(facts, node);
        tally::node(facts, node);
        topology::derive(facts, node);
        pcie_need::derive(facts, node);
        pcie_hop::derive(facts, node);
        pcie_slot::derive(facts, node);
        pcie_peers::derive(facts, node);
        p2p::derive(facts, node);
        job_place::derive(facts, node);
        gpu_purpose::derive(facts, node);
        gpu_equals::derive(facts, node);
        gpu_share::derive(facts, node);
        nvlink_equals::derive(facts, node);
        gpu_peer::derive(facts, node);
        fabric::derive(facts, node);
        ceiling::derive(facts, node);
        arms::derive(facts, node);
        ablation::derive(facts, node);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A node built by hand, for the tests of derived facts.

    use crate::fact::port::{LinkLayer, PhysState, PortState};
    use crate::fact::*;

    /// A node with its memberships known.
    pub(crate) fn node(facts: &mut Facts) -> Id {
        let node = facts.new_node("n");
        for subject in [
            Subject::Device,
            Subject::Function,
            Subject::Netdev,
            Subject::Module,
        ] {
            facts.set_members(subject, node, Membership::Known(Origin::Stated));
        }
        facts.set(node, node::DEFAULT_ROUTE, stated([].into()));
        node
    }

    /// A known value.
    pub(crate) fn stated<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
    }

    /// A device of a common board with one port.
    pub(crate) fn port(facts: &mut Facts, node: Id, name: &str, state: PortState, rate: u64) -> Id {
        let device = facts.instance(Subject::Device, node, name);
        facts.set(device, device::DRIVER, stated("mlx5_core".into()));
        facts.set(device, device::MODEL, stated("MT4129".into()));
        facts.set(device, device::BOARD, stated("MT_0000000838".into()));
        facts.set(device, device::VIRTUAL_FUNCTION, stated(false));
        facts.set(device, device::FIRMWARE, stated("28.39.1002".into()));
        facts.set_members(Subject::Port, device, Membership::Known(Origin::Stated));
        let port = facts.instance(Subject::Port, device, &format!("{name}/1"));
        facts.set(port, port::STATE, stated(state));
        let phys = if state == PortState::Down {
            PhysState::Polling
        } else {
            PhysState::LinkUp
        };
        facts.set(port, port::PHYS_STATE, stated(phys));
        facts.set(port, port::LINK_LAYER, stated(LinkLayer::InfiniBand));
        facts.set(port, port::RATE, stated(BitRate(rate * 1_000_000_000)));
        facts.set(port, port::HAS_NETDEV, stated(false));
        facts.set_members(Subject::Gid, port, Membership::Known(Origin::Stated));
        facts.set_members(Subject::Counter, port, Membership::Known(Origin::Stated));
        port
    }
}
