//! The GID tables.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{Ask, Probe, device, inside};
use crate::fact::gid::{self, GidKind, GidType};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Subject};
use crate::source::Question;

/// The probe.
// Thousands of entries, each a question: 1.7 s were measured for one soft-RoCE device on an emulated CPU.
pub const PROBE: Probe = Probe::new("gid", run).within(Duration::from_secs(5));

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, _) = device::ports(ask, facts, node);
    for port in ports {
        let membership = table(ask, facts, &port);
        facts.set_members(Subject::Gid, port.id, membership);
    }
}

/// Makes an instance of each GID in use. The table is read whole, 1024 entries with soft-RoCE: it has holes.
fn table(ask: &Ask<'_>, facts: &mut Facts, port: &device::PortEntry) -> Membership {
    let dir = format!("{}/gids", port.dir);
    let (names, origin) = match ask.names_if_any(&*dir).members() {
        (names, Membership::Known(origin)) => (names, origin),
        (_, unknown) => return unknown,
    };
    let (numbers, odd) = device::numbers(&names);
    let mut missing = odd.map(|what| Gap::not_understood(&Question::list(&*dir), what));
    for index in numbers {
        match ask.parse(inside(&dir, &index.to_string()), address) {
            Fact::Known(address, _) if address.is_unspecified() => {}
            address => {
                let attributes = format!("{}/gid_attrs", port.dir);
                let gid_type = ask.parse(format!("{attributes}/types/{index}"), gid_type);
                // A row of which neither says anything may be empty, as most are.
                if let (Fact::Unknown(gap), Fact::Unknown(_)) = (&address, &gid_type) {
                    missing.get_or_insert_with(|| gap.clone());
                    continue;
                }
                let name = format!("{} gid {index}", port.name);
                let id = facts.instance(Subject::Gid, port.id, &name);
                let listed = || Fact::Known(index, origin.clone());
                let index_of_row = address.clone().map(|_| index).or_else(listed);
                facts.set(id, gid::INDEX, index_of_row);
                facts.set(id, gid::KIND, address.clone().map(kind));
                facts.set(id, gid::ADDRESS, address.map(|a| a.to_string().into()));
                facts.set(id, gid::TYPE, gid_type);
                let netdev = ask.text(format!("{attributes}/ndevs/{index}"));
                facts.set(id, gid::NETDEV, netdev.and_then(super::filled));
            }
        }
    }
    Membership::known_unless(missing, origin)
}

/// An entry that is not in use.
const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

/// A GID is written like an IPv6 address, in full.
fn address(text: &str) -> Result<Ipv6Addr, String> {
    // A port has 256 entries with mlx5, 1024 with soft-RoCE, and few are in use.
    if text == NONE {
        return Ok(Ipv6Addr::UNSPECIFIED);
    }
    text.parse().map_err(|_| super::is_not(text, "a GID"))
}

/// The kind of a GID.
pub(super) fn kind(address: Ipv6Addr) -> GidKind {
    if address.to_ipv4_mapped().is_some() {
        GidKind::Ipv4
    } else if address.is_unicast_link_local() {
        GidKind::LinkLocal
    } else {
        GidKind::Ipv6
    }
}

fn gid_type(text: &str) -> Result<GidType, String> {
    match text {
        "IB/RoCE v1" => Ok(GidType::V1),
        "RoCE v2" => Ok(GidType::V2),
        _ => Err(super::is_not(text, "a GID type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{known, run};

    const CLASS: &str = r#"{"q":{"list":"/sys/class/infiniband"},"names":["mlx5_0"]}"#;
    const PORTS: &str = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports"},"names":["1"]}"#;
    const TABLE: &str =
        r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports/1/gids"},"names":["0","1","10","3"]}"#;

    fn gid_line(index: u64, gid: &str) -> String {
        format!(
            r#"{{"q":{{"read":"/sys/class/infiniband/mlx5_0/ports/1/gids/{index}"}},"text":"{gid}\n"}}"#
        )
    }

    fn attribute(what: &str, index: u64, text: &str) -> String {
        format!(
            r#"{{"q":{{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/{what}/{index}"}},"text":"{text}\n"}}"#
        )
    }

    fn port_of(facts: &Facts) -> Id {
        facts.all(Subject::Port).next().unwrap()
    }

    #[test]
    fn a_table_with_holes() {
        let lines = [
            CLASS.to_owned(),
            PORTS.to_owned(),
            TABLE.to_owned(),
            gid_line(0, "fe80:0000:0000:0000:0ac0:ebff:fe6d:3de2"),
            gid_line(1, "0000:0000:0000:0000:0000:0000:0000:0000"),
            gid_line(3, "0000:0000:0000:0000:0000:ffff:0a01:0203"),
            gid_line(10, "fd00:0000:0000:0000:0000:0000:0000:0001"),
            attribute("types", 0, "IB/RoCE v1"),
            attribute("types", 3, "RoCE v2"),
            attribute("ndevs", 3, "eth2"),
            r#"{"q":{"read":"/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"},"errno":"EINVAL"}"#.to_owned(),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (facts, _) = run(&PROBE, &lines);
        assert!(facts.members(Subject::Gid, port_of(&facts)).is_ok());
        assert_eq!(facts.all(Subject::Gid).count(), 3);
        let name = "mlx5_0/1 gid 3";
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::TYPE),
            Some(GidType::V2)
        );
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::KIND),
            Some(GidKind::Ipv4)
        );
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::ADDRESS).as_deref(),
            Some("::ffff:10.1.2.3")
        );
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::NETDEV).as_deref(),
            Some("eth2")
        );
        let name = "mlx5_0/1 gid 0";
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::KIND),
            Some(GidKind::LinkLocal)
        );
        assert_eq!(known(&facts, Subject::Gid, name, gid::NETDEV), None);
        let name = "mlx5_0/1 gid 10";
        assert_eq!(
            known(&facts, Subject::Gid, name, gid::KIND),
            Some(GidKind::Ipv6)
        );
        assert_eq!(known(&facts, Subject::Gid, name, gid::TYPE), None);
    }

    #[test]
    fn an_entry_that_does_not_answer_leaves_the_table_open() {
        let zero = gid_line(0, "gid");
        let (facts, _) = run(&PROBE, &[CLASS, PORTS, TABLE, &zero]);
        let gap = facts.members(Subject::Gid, port_of(&facts)).unwrap_err();
        assert!(gap.to_string().contains("not a GID"), "{gap}");
        assert_eq!(facts.all(Subject::Gid).count(), 0);
    }

    #[test]
    fn no_table_is_known_only_by_the_ports_listing() {
        let gone = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports/1/gids"},"errno":"ENOENT"}"#;
        let listing = r#"{"q":{"list":"/sys/class/infiniband/mlx5_0/ports/1"},"names":["state"]}"#;
        let (facts, _) = run(&PROBE, &[CLASS, PORTS, gone, listing]);
        assert!(facts.members(Subject::Gid, port_of(&facts)).is_ok());
        let (facts, _) = run(&PROBE, &[CLASS, PORTS, gone]);
        assert!(facts.members(Subject::Gid, port_of(&facts)).is_err());
    }
}
