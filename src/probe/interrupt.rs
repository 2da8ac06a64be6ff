//! Where the interrupts of RDMA devices go (Documentation/core-api/irq/irq-affinity.rst).

use serde_json::Value;

use super::{Ask, Probe};
use crate::fact::{Facts, Id, Subject, device};
use crate::source::Question;

/// The probe.
pub const PROBE: Probe = Probe::new("interrupt", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let spread = ask.value(Question::call("interrupt_spread", []));
    for id in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        let name = facts.name(id).to_owned();
        let number = |member: &'static str| {
            spread.clone().and_then(|all| {
                let own = all
                    .get(&name)
                    .ok_or("it has no vectors of its own to be looked at")?;
                let number = own.get(member).and_then(Value::as_u64);
                number.ok_or_else(|| format!("it has no {member}"))
            })
        };
        facts.set(id, device::VECTORS, number("vectors"));
        facts.set(id, device::VECTOR_CPUS, number("cpus"));
        facts.set(id, device::VECTORS_LOCAL, number("local"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ask;
    use crate::source::recording::Recording;
    use crate::source::wire::{self, Header};

    fn vectors(line: &str) -> [Option<u64>; 3] {
        let mut recording = Recording::new(Header::default());
        recording.add(wire::parse_line(line).unwrap());
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let id = facts.instance(Subject::Device, node, "mlx5_0");
        run(&Ask::new(&recording.of("interrupt")), &mut facts, node);
        [device::VECTORS, device::VECTOR_CPUS, device::VECTORS_LOCAL].map(|k| facts.known(id, k))
    }

    #[test]
    fn each_device_has_its_numbers() {
        let line = |value: &str| {
            format!(
                r#"{{"probe":"interrupt","q":{{"call":"interrupt_spread"}},"n":0,"t":1,"value":{value}}}"#
            )
        };
        let found = vectors(&line(r#"{"mlx5_0":{"vectors":64,"cpus":1,"local":0}}"#));
        assert_eq!(found, [Some(64), Some(1), Some(0)]);
        let found = vectors(&line(r#"{"mlx5_1":{"vectors":64,"cpus":1,"local":0}}"#));
        assert_eq!(found, [None; 3]);
        let found = vectors(&line(r#"{"mlx5_0":{"vectors":"many"}}"#));
        assert_eq!(found, [None; 3]);
        let refused =
            r#"{"probe":"interrupt","q":{"call":"interrupt_spread"},"n":0,"t":1,"errno":"EACCES"}"#;
        assert_eq!(vectors(refused), [None; 3]);
    }
}
