//! RDMA netlink: how devices are shared between network namespaces, and the state of ports.

use std::collections::HashMap;
use std::sync::Arc;

use super::verbs::port_state;
use super::{Ask, Probe, device};
use crate::fact::node::{RDMA_NETNS, RdmaNetns};
use crate::fact::port::NETLINK_STATE;
use crate::fact::{Fact, Facts, Gap, Id, Origin, known};
use crate::source::Question;
use crate::source::netlink::{messages, text};

/// The attributes that are read: `enum rdma_nldev_attr` (include/uapi/rdma/rdma_netlink.h, which is ABI).
const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;
const RDMA_NLDEV_ATTR_DEV_NAME: u16 = 2;
const RDMA_NLDEV_ATTR_PORT_INDEX: u16 = 3;
const RDMA_NLDEV_ATTR_PORT_STATE: u16 = 12;
const RDMA_NLDEV_SYS_ATTR_NETNS_MODE: u16 = 66;

/// The probe.
pub const PROBE: Probe = Probe::new("nldev", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    if let Err(gap) = core_is_loaded(ask) {
        facts.set(node, RDMA_NETNS, Fact::Unknown(gap));
        return;
    }
    let system = ask.bytes(Question::netlink("rdma/sys-get", []));
    facts.set(node, RDMA_NETNS, system.and_then(|bytes| netns(&bytes)));

    let indexes = ask
        .bytes(Question::netlink("rdma/dev-get", []))
        .and_then(|bytes| device_indexes(&bytes));
    // One reply covers all ports of a device.
    let mut replies: HashMap<Arc<str>, Fact<HashMap<u32, u8>>> = HashMap::new();
    for port in device::ports(ask, facts, node).0 {
        let states = replies
            .entry(Arc::clone(&port.device))
            .or_insert_with(|| states(ask, &indexes, &port.device));
        let state = states.clone().and_then(|states| {
            match u32::try_from(port.number).ok().and_then(|n| states.get(&n)) {
                Some(state) => port_state(u64::from(*state)),
                None => Err(format!("port {} is not in it", port.number)),
            }
        });
        facts.set(port.id, NETLINK_STATE, state);
    }
}

/// Making an RDMA netlink socket loads `ib_core` if it is not, so nothing is asked without it. The class is `ib_core`'s own.
fn core_is_loaded(ask: &Ask<'_>) -> Result<(), Gap> {
    match ask.exists("/sys/class/infiniband") {
        Fact::Known(true, _) => Ok(()),
        Fact::Known(false, origin) => Err(Gap::not_asked("ib_core is not loaded", origin)),
        Fact::Unknown(gap) => Err(gap),
    }
}

fn states(
    ask: &Ask<'_>,
    indexes: &Fact<HashMap<Arc<str>, u32>>,
    device: &str,
) -> Fact<HashMap<u32, u8>> {
    let (indexes, origin) = known!(indexes, with origin);
    let Some(index) = indexes.get(device) else {
        return Fact::Unknown(Gap::misread(
            format!("{device} is not listed"),
            Origin::clone(origin),
        ));
    };
    let question = Question::netlink("rdma/port-get", [("device", u64::from(*index).into())]);
    ask.bytes(question).and_then(|bytes| port_states(&bytes))
}

/// `rdma_ns_mode`: the kernel puts its `ib_devices_shared_netns` here, so 1 is shared (`rdma system` of iproute2 reads it so).
fn netns(bytes: &[u8]) -> Result<RdmaNetns, String> {
    for message in messages::<0>(bytes) {
        if let Some(mode) = message?.attributes.number(RDMA_NLDEV_SYS_ATTR_NETNS_MODE)? {
            return match mode {
                0 => Ok(RdmaNetns::Exclusive),
                1 => Ok(RdmaNetns::Shared),
                _ => Err(format!("{mode} is not a network namespace mode")),
            };
        }
    }
    // Kernels before 5.2 know one mode only and do not say it.
    Err("no mode of network namespaces in it".to_owned())
}

/// The numbers by which netlink knows devices.
pub(super) fn device_indexes(bytes: &[u8]) -> Result<HashMap<Arc<str>, u32>, String> {
    messages::<0>(bytes)
        .map(|message| {
            let attributes = message?.attributes;
            let name = attributes.find(RDMA_NLDEV_ATTR_DEV_NAME)?;
            let index = attributes.number(RDMA_NLDEV_ATTR_DEV_INDEX)?;
            match (name, index) {
                (Some(name), Some(index)) => Ok((text(name)?, index)),
                _ => Err("a device without name or index".to_owned()),
            }
        })
        .collect()
}

/// The logical states of a device's ports.
fn port_states(bytes: &[u8]) -> Result<HashMap<u32, u8>, String> {
    messages::<0>(bytes)
        .map(|message| {
            let attributes = message?.attributes;
            let port = attributes.number(RDMA_NLDEV_ATTR_PORT_INDEX)?;
            let state = attributes.number(RDMA_NLDEV_ATTR_PORT_STATE)?;
            match (port, state.map(u8::try_from)) {
                (Some(port), Some(Ok(state))) => Ok((port, state)),
                _ => Err("a port without index or state".to_owned()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Subject;
    use crate::fact::port::PortState;
    use crate::probe::testing::{known, run};
    use crate::source::wire::from_hex;

    /// soft-RoCE on Debian 12, Linux 6.1.
    const SYS: &str =
        "280000000614000001000000990000000500420001000000050060000000000005005d0001000000";
    const DEV: &str = "6c000000011402000100000099000000080001000000000009000200727865300000000008000300010000000c000400763c2201000000000c000600010077feff0054500c000700010077feff00545005000e0001000000050054000000000009004300726f636500000000";
    const PORT: &str = "500000000514020001000000990000000800010000000000090002007278653000000000080003000100000005000c000400000005000d00050000000800320002000000090033006574683000000000";

    const SYSFS: [&str; 3] = [
        r#"{"q":{"list":"/sys/class"},"names":["infiniband","net"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["rxe0"]}"#,
        r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports"},"names":["1"]}"#,
    ];

    fn rxe() -> Vec<String> {
        let mut lines = SYSFS.map(str::to_owned).to_vec();
        for (question, hex) in [
            (r#""rdma/sys-get""#, SYS),
            (r#""rdma/dev-get""#, DEV),
            (r#""rdma/port-get","device":0"#, PORT),
        ] {
            lines.push(format!(r#"{{"q":{{"netlink":{question}}},"hex":"{hex}"}}"#));
        }
        lines
    }

    fn over(lines: &[String]) -> (Facts, Id) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        run(&PROBE, &lines)
    }

    #[test]
    fn replies_of_soft_roce() {
        let (facts, node) = over(&rxe());
        assert_eq!(facts.known(node, RDMA_NETNS), Some(RdmaNetns::Shared));
        assert_eq!(
            known(&facts, Subject::Port, "rxe0/1", NETLINK_STATE),
            Some(PortState::Active)
        );
    }

    #[test]
    fn without_the_core_nothing_is_asked() {
        let (facts, node) = run(&PROBE, &[r#"{"q":{"list":"/sys/class"},"names":["net"]}"#]);
        let Fact::Unknown(gap) = facts.get(node, RDMA_NETNS) else {
            panic!()
        };
        assert_eq!(gap.why.to_string(), "not asked: ib_core is not loaded");
    }

    #[test]
    fn a_device_or_port_that_is_not_in_the_reply_is_a_gap() {
        let mut lines = rxe();
        lines[1] = r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0"]}"#.into();
        lines[2] = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1"]}"#.into();
        let (facts, _) = over(&lines);
        assert_eq!(
            known(&facts, Subject::Port, "mlx5_0/1", NETLINK_STATE),
            None
        );
        let mut lines = rxe();
        lines[2] = r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports"},"names":["1","2"]}"#.into();
        let (facts, _) = over(&lines);
        assert_eq!(known(&facts, Subject::Port, "rxe0/2", NETLINK_STATE), None);
        assert!(known(&facts, Subject::Port, "rxe0/1", NETLINK_STATE).is_some());
    }

    #[test]
    fn cut_replies_are_errors() {
        for hex in [SYS, DEV, PORT] {
            let bytes = from_hex(hex).unwrap();
            for cut in 1..bytes.len() {
                let cut = &bytes[..cut];
                assert!(
                    netns(cut).is_err()
                        && device_indexes(cut).is_err()
                        && port_states(cut).is_err()
                );
            }
        }
        // A device that netlink lists nothing of is no error: an empty dump.
        assert_eq!(device_indexes(&[]), Ok(HashMap::new()));
        assert!(netns(&[]).is_err());
    }

    #[test]
    fn an_exclusive_system_and_one_that_does_not_say() {
        let exclusive = SYS.replace("0500420001", "0500420000");
        let bytes = from_hex(&exclusive).unwrap();
        assert_eq!(netns(&bytes), Ok(RdmaNetns::Exclusive));
        let silent = SYS.replace("0500420001", "0500410001");
        assert!(netns(&from_hex(&silent).unwrap()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes: Vec<u8>, at in 0usize..108, byte: u8) {
            let _ = (netns(&bytes), device_indexes(&bytes), port_states(&bytes));
            let mut bytes = from_hex(DEV).unwrap();
            bytes[at] = byte;
            let _ = (netns(&bytes), device_indexes(&bytes), port_states(&bytes));
        }
    }
}
