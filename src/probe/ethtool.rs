//! What network devices of RDMA ports, and the cables in them, can do: link modes and module memory; and what they and those of a default route do for TCP.

mod modes;
mod module;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::device::{self, PortEntry};
use super::netdev::{Texts, default_routes, netdev_of};
use super::{Ask, Probe};
use crate::fact::port::{CABLE_RATE, MAX_RATE};
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Origin, Subject, Why, netdev};
use crate::source::Question;
use crate::source::wire::from_hex;

/// The probe. Reading a module's memory takes its two-wire bus tens of milliseconds.
pub const PROBE: Probe = Probe::new("ethtool", run).within(Duration::from_secs(5));

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, _) = device::ports(ask, facts, node);
    let mut texts = Texts::new(ask);
    let mut carried: Vec<(&PortEntry, Result<Arc<str>, Gap>)> = Vec::new();
    for port in &ports {
        let layer = texts.text(format!("{}/link_layer", port.dir));
        if layer.known().is_some_and(|layer| **layer == *"Ethernet") {
            let none = Why::NotUnderstood("no network device".into());
            let netdev = netdev_of(&mut texts, port).or_gap(none);
            carried.push((port, netdev.into_result()));
        }
    }
    for (port, netdev) in &carried {
        let alone = match netdev {
            Ok(netdev) => shared(netdev, &carried).map_or(Ok(netdev), Err),
            Err(gap) => Err(gap.clone()),
        };
        let (max, cable) = match alone {
            Ok(netdev) => (
                ask.value(link_settings(netdev))
                    .and_then(|reply| supported(&reply)),
                ask.value(module_eeprom(netdev))
                    .and_then(|reply| cable(&reply)),
            ),
            Err(gap) => (Fact::Unknown(gap.clone()), Fact::Unknown(gap)),
        };
        facts.set(port.id, MAX_RATE, max);
        facts.set(port.id, CABLE_RATE, cable);
    }
    let mut names: BTreeSet<&Arc<str>> = carried.iter().flat_map(|(_, of)| of).collect();
    let routes = default_routes(ask);
    names.extend(routes.known().into_iter().flat_map(|names| names.iter()));
    for name in names {
        let id = facts.instance(Subject::Netdev, node, name);
        let question = Question::call("ethtool_offloads", [("netdev", (&**name).into())]);
        let offloads = ask.value(question);
        for (key, member) in [(netdev::TSO, "tso"), (netdev::GRO, "gro")] {
            let is_on = |reply: Arc<Value>| {
                let value = reply.get(member).and_then(Value::as_bool);
                value.ok_or_else(|| format!("no {member} in it"))
            };
            facts.set(id, key, offloads.clone().and_then(is_on));
        }
    }
}

fn link_settings(netdev: &str) -> Question {
    Question::call("ethtool_link_settings", [("netdev", netdev.into())])
}

fn module_eeprom(netdev: &str) -> Question {
    Question::call("ethtool_module_eeprom", [("netdev", netdev.into())])
}

/// A gap where a network device carries several ports: what it can do does not tell what each of them can.
fn shared(netdev: &str, carried: &[(&PortEntry, Result<Arc<str>, Gap>)]) -> Option<Gap> {
    let ports: Vec<String> = carried
        .iter()
        .filter(|(_, other)| other.as_ref().is_ok_and(|other| **other == *netdev))
        .map(|(port, _)| port.name.clone())
        .collect();
    (ports.len() > 1).then(|| {
        Gap::misread(
            format!("{netdev} carries {}", ports.join(" and ")),
            Origin::Asked(link_settings(netdev)),
        )
    })
}

/// The highest supported speed in a reply to `ethtool_link_settings`.
fn supported(reply: &Value) -> Result<BitRate, String> {
    let bitmap = hex_field(reply, "supported")?;
    modes::highest(&bitmap).map(|mbps| BitRate(mbps * 1_000_000))
}

/// The rate in a reply to `ethtool_module_eeprom`.
fn cable(reply: &Value) -> Result<BitRate, String> {
    let memory = hex_field(reply, "hex")?;
    module::highest(&memory).map(|mbps| BitRate(mbps * 1_000_000))
}

fn hex_field(reply: &Value, name: &str) -> Result<Vec<u8>, String> {
    let field = reply.get(name).and_then(Value::as_str);
    field
        .and_then(from_hex)
        .ok_or_else(|| format!("no {name} in it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    /// A ConnectX-6 Dx, one port, supported link modes as mlx5 gives them up to 100 Gb/s; a DAC of 100GBASE-CR4.
    fn mlx5() -> Vec<String> {
        let mut memory = [0u8; 256];
        (memory[0], memory[131], memory[192]) = (0x11, 0x80, 0x0b);
        let memory = crate::source::wire::to_hex(&memory);
        [
            r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0"]}"#,
            r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1"]}"#,
            r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/device/net"},"names":["ens1f0np0"]}"#,
            r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"Ethernet\n"}"#,
            r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"text":"ens1f0np0\n"}"#,
            // Autoneg, Pause, Asym_Pause, Backplane; bits 23 to 26, 36 to 39.
            r#"{"q":{"call":"ethtool_link_settings","netdev":"ens1f0np0"},"value":{"autoneg":1,"duplex":1,"port":5,"speed_mbps":100000,"supported":"40608107f0000000","advertising":"","lp_advertising":""}}"#,
            &format!(r#"{{"q":{{"call":"ethtool_module_eeprom","netdev":"ens1f0np0"}},"value":{{"hex":"{memory}"}}}}"#),
            r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs"},"names":["0"]}"#,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn over(lines: &[String]) -> Facts {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        run(&PROBE, &lines).0
    }

    #[test]
    fn a_port_its_netdev_and_its_cable() {
        let facts = over(&mlx5());
        let hundred = Some(BitRate(100_000_000_000));
        assert_eq!(known(&facts, Subject::Port, "mlx5_0/1", MAX_RATE), hundred);
        assert_eq!(
            known(&facts, Subject::Port, "mlx5_0/1", CABLE_RATE),
            hundred
        );
    }

    #[test]
    fn an_empty_gid_leaves_the_devices_only_netdev() {
        let mut lines = mlx5();
        lines[4] = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"errno":"EINVAL"}"#.into();
        let facts = over(&lines);
        assert!(known(&facts, Subject::Port, "mlx5_0/1", MAX_RATE).is_some());
        lines[2] =
            r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/device/net"},"names":["eth1","eth2"]}"#
                .into();
        let facts = over(&lines);
        assert_eq!(known(&facts, Subject::Port, "mlx5_0/1", MAX_RATE), None);
    }

    #[test]
    fn module_memory_needs_root_and_says_so() {
        let mut lines = mlx5();
        lines[6] =
            r#"{"q":{"call":"ethtool_module_eeprom","netdev":"ens1f0np0"},"errno":"EPERM"}"#.into();
        let facts = over(&lines);
        let port = facts.all(Subject::Port).next().unwrap();
        let Fact::Unknown(gap) = facts.get(port, CABLE_RATE) else {
            panic!()
        };
        assert_eq!(gap.why.remedy(), Some("run as root"));
        assert!(facts.known(port, MAX_RATE).is_some());
    }

    #[test]
    fn software_devices_have_no_rate_of_their_own() {
        // soft-RoCE on virtio-net: no link modes, no module.
        let lines = [
            r#"{"q":{"list":"/sys/class/infiniband"},"names":["rxe0"]}"#,
            r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports"},"names":["1"]}"#,
            r#"{"q":{"list":"/sys/class/infiniband/rxe0/device/net"},"errno":"ENOENT"}"#,
            r#"{"q":{"read":"/sys/class/infiniband/rxe0/ports/1/link_layer"},"text":"Ethernet\n"}"#,
            r#"{"q":{"read":"/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0"},"text":"eth0\n"}"#,
            r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs"},"names":["0"]}"#,
            r#"{"q":{"call":"ethtool_link_settings","netdev":"eth0"},"value":{"advertising":"000000000000000000000000","autoneg":0,"duplex":255,"lp_advertising":"000000000000000000000000","port":255,"supported":"000000000000000000000000"}}"#,
            r#"{"q":{"call":"ethtool_module_eeprom","netdev":"eth0"},"errno":"EOPNOTSUPP"}"#,
        ];
        let (facts, _) = run(&PROBE, &lines);
        let port = facts.all(Subject::Port).next().unwrap();
        let Fact::Unknown(gap) = facts.get(port, MAX_RATE) else {
            panic!()
        };
        assert!(gap.why.to_string().contains("no speed among"), "{gap}");
        assert_eq!(facts.known(port, CABLE_RATE), None);
    }

    #[test]
    fn a_netdev_of_two_ports_tells_of_neither() {
        let mut lines = mlx5();
        lines[0] = r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0","rxe0"]}"#.into();
        lines.extend(
            [
                r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports"},"names":["1"]}"#,
                r#"{"q":{"read":"/sys/class/infiniband/rxe0/ports/1/link_layer"},"text":"Ethernet\n"}"#,
                r#"{"q":{"read":"/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0"},"text":"ens1f0np0\n"}"#,
                r#"{"q":{"list":"/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs"},"names":["0"]}"#,
            ]
            .map(str::to_owned),
        );
        let facts = over(&lines);
        assert_eq!(known(&facts, Subject::Port, "mlx5_0/1", MAX_RATE), None);
    }

    #[test]
    fn ports_of_infiniband_are_left_to_portinfo() {
        let mut lines = mlx5();
        lines[3] = r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/link_layer"},"text":"InfiniBand\n"}"#.into();
        let facts = over(&lines);
        let port = facts.all(Subject::Port).next().unwrap();
        assert!(facts.look(port, MAX_RATE.index).is_none());
    }
}
