//! Fabrics in the form of ibsim(8), and what can be wrong in their cabling.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A port: the device's name in the file, and the port's number.
type Port = (String, u32);

/// Switches, adapters, and the cables between them.
pub(super) struct Net {
    /// The number of ports of each switch.
    switches: BTreeMap<String, u32>,
    cables: BTreeMap<Port, (Port, &'static str)>,
}

impl Net {
    fn of(switches: &[(&str, u32, u32)]) -> Self {
        let mut net = Net {
            switches: BTreeMap::new(),
            cables: BTreeMap::new(),
        };
        for (name, count, ports) in switches {
            for number in 0..*count {
                net.switches.insert(format!("{name}{number}"), *ports);
            }
        }
        net
    }

    /// Four leaves of eight hosts, two spines, two links between each.
    pub(super) fn tree() -> Self {
        let mut net = Net::of(&[("leaf", 4, 16), ("spine", 2, 12)]);
        for leaf in 0..4 {
            net.host_ports(&format!("leaf{leaf}"), 8, leaf * 8, "mlx5_0");
            for spine in 0..2 {
                for link in 0..2 {
                    let upper = (format!("spine{spine}"), leaf * 2 + link + 1);
                    net.cable((format!("leaf{leaf}"), 9 + spine * 2 + link), upper);
                }
            }
        }
        net
    }

    /// The same with leaves of 8, 3, 1 and 6 hosts.
    pub(super) fn uneven_tree() -> Self {
        let mut net = Net::tree();
        for (leaf, hosts) in [(1, 3), (2, 1), (3, 6)] {
            for port in hosts + 1..=8 {
                net.unplug(&format!("leaf{leaf}"), port);
            }
        }
        net
    }

    /// Two switches of one rail each, eight hosts at both.
    pub(super) fn rails() -> Self {
        let mut net = Net::of(&[("rail", 2, 12), ("spine", 1, 8)]);
        for rail in 0..2 {
            let adapter = ["mlx5_0", "mlx5_1"][rail as usize];
            net.host_ports(&format!("rail{rail}"), 8, 0, adapter);
            for link in 0..2 {
                let upper = ("spine0".to_owned(), rail * 2 + link + 1);
                net.cable((format!("rail{rail}"), 9 + link), upper);
            }
        }
        net
    }

    /// Two pods of three leaves and two spines each, and two cores.
    pub(super) fn three_tiers() -> Self {
        let mut net = Net::of(&[("leaf", 6, 8), ("spine", 4, 8), ("core", 2, 8)]);
        for leaf in 0..6 {
            net.host_ports(&format!("leaf{leaf}"), 4, leaf * 4, "mlx5_0");
            for spine in 0..2 {
                let upper = (format!("spine{}", leaf / 3 * 2 + spine), leaf % 3 + 1);
                net.cable((format!("leaf{leaf}"), 5 + spine), upper);
            }
        }
        for spine in 0..4 {
            for core in 0..2 {
                net.cable(
                    (format!("spine{spine}"), 5 + core),
                    (format!("core{core}"), spine + 1),
                );
            }
        }
        net
    }

    /// Four switches in a ring, two hosts at each.
    pub(super) fn ring() -> Self {
        let mut net = Net::of(&[("sw", 4, 8)]);
        for switch in 0..4 {
            net.host_ports(&format!("sw{switch}"), 2, switch * 2, "mlx5_0");
            net.cable(
                (format!("sw{switch}"), 7),
                (format!("sw{}", (switch + 1) % 4), 8),
            );
        }
        net
    }

    fn host_ports(&mut self, switch: &str, count: u32, first: u32, adapter: &str) {
        for host in 0..count {
            let end = (format!("n{}-{adapter}", first + host), 1);
            self.cable((switch.to_owned(), host + 1), end);
        }
    }

    fn cable(&mut self, one: Port, other: Port) {
        self.cables.insert(one.clone(), (other.clone(), "4xHDR"));
        self.cables.insert(other, (one, "4xHDR"));
    }

    /// Takes the cable of a port away.
    pub(super) fn unplug(&mut self, switch: &str, port: u32) {
        let (peer, _) = self.cables.remove(&(switch.to_owned(), port)).unwrap();
        self.cables.remove(&peer);
    }

    /// Plugs the other end of a cable in elsewhere.
    pub(super) fn replug(&mut self, switch: &str, port: u32, to: &str, to_port: u32) {
        self.unplug(switch, port);
        self.cable((switch.to_owned(), port), (to.to_owned(), to_port));
    }

    /// Plugs in one more cable.
    pub(super) fn plug(&mut self, one: (&str, u32), other: (&str, u32)) {
        let [one, other] = [one, other].map(|(switch, port)| (switch.to_owned(), port));
        self.cable(one, other);
    }

    /// Swaps the cables of two ports at this end.
    pub(super) fn swap(&mut self, one: (&str, u32), other: (&str, u32)) {
        let [one, other] = [one, other].map(|(switch, port)| (switch.to_owned(), port));
        let [peer, other_peer] = [&one, &other].map(|port| self.cables[port].0.clone());
        self.cable(one, other_peer);
        self.cable(other, peer);
    }

    /// How a link runs.
    pub(super) fn rate(&mut self, switch: &str, port: u32, rate: &'static str) {
        let own = (switch.to_owned(), port);
        let peer = self.cables[&own].0.clone();
        for port in [own, peer] {
            self.cables.get_mut(&port).unwrap().1 = rate;
        }
    }

    /// The adapters, by their names in the file.
    pub(super) fn adapters(&self) -> Vec<&str> {
        let names = self.cables.keys().map(|(name, _)| name.as_str());
        names
            .filter(|name| !self.switches.contains_key(*name))
            .collect()
    }

    /// The file for ibsim.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, ports) in &self.switches {
            writeln!(
                text,
                "Switch\t{ports} \"{name}\"\t\t# \"{name}\" base port 0 lid 0 lmc 0"
            )
            .unwrap();
            self.write_cables(&mut text, name, "");
        }
        for name in self.adapters() {
            writeln!(
                text,
                "Hca\t1 \"{name}\"\t\t# \"{}\"",
                name.replace('-', " ")
            )
            .unwrap();
            self.write_cables(&mut text, name, "lid 0 lmc 0 ");
        }
        text
    }

    fn write_cables(&self, text: &mut String, name: &str, own: &str) {
        for ((_, port), ((peer, peer_port), rate)) in
            self.cables.iter().filter(|((own, _), _)| own == name)
        {
            let described = peer.replace('-', " ");
            writeln!(
                text,
                "[{port}]\t\"{peer}\"[{peer_port}]\t\t# {own}\"{described}\" lid 0 {rate}"
            )
            .unwrap();
        }
        text.push('\n');
    }

    /// The cabling plan, as UFM's NDT plugin takes it.
    pub(super) fn to_plan(&self) -> String {
        let mut text = "#StartDevice,StartPort,EndDevice,EndPort,LinkType\n".to_owned();
        for ((name, port), ((peer, peer_port), _)) in &self.cables {
            let is_host = !self.switches.contains_key(name);
            if is_host {
                let host = name.split('-').next().unwrap();
                let adapter = name.replace('-', " ");
                writeln!(text, "{host},{adapter},{peer},Port {peer_port},Data").unwrap();
            } else if self.switches.contains_key(peer) && name < peer {
                writeln!(text, "{name},Port {port},{peer},Port {peer_port},Data").unwrap();
            }
        }
        text
    }

    /// Tables in the form of ibdiagnet2.db_csv, with errors at port 9 of leaf3.
    pub(super) fn to_tables(&self) -> String {
        let mut nodes = "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID,DeviceID\n".to_owned();
        let mut ports = "START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkWidthSup,LinkSpeedActv,LinkSpeedSup,PortPhyState,PortState\n".to_owned();
        let mut links = "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n".to_owned();
        let mut counters =
            "START_PM_INFO\nNodeGUID,PortNumber,LinkDownedCounter,SymbolErrorCounter\n".to_owned();
        let mut names: Vec<&str> = self.cables.keys().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        let guid = |name: &str| {
            let at = names.iter().position(|one| *one == name).unwrap();
            format!("0x{:x}", 0xa00 + at)
        };
        for (at, name) in names.iter().enumerate() {
            let kind = if self.switches.contains_key(*name) {
                2
            } else {
                1
            };
            let described = name.replace('-', " ");
            writeln!(nodes, "\"{described}\",8,{kind},{},4129", guid(name)).unwrap();
            if kind == 2 {
                writeln!(
                    ports,
                    "{0},{0},0,{1},N/A,N/A,N/A,N/A,5,4",
                    guid(name),
                    at + 1
                )
                .unwrap();
            }
        }
        for ((name, port), ((peer, peer_port), rate)) in &self.cables {
            let at = names.iter().position(|one| one == name).unwrap();
            let width = if rate.starts_with('1') { 1 } else { 2 };
            writeln!(
                ports,
                "{0},{0},{port},{1},{width},3,1024,0x707,5,4",
                guid(name),
                at + 1
            )
            .unwrap();
            let errors = if (name.as_str(), *port) == ("leaf3", 9) {
                500
            } else {
                0
            };
            writeln!(counters, "{},{port},0,{errors}", guid(name)).unwrap();
            if (name, port) < (peer, peer_port) {
                writeln!(links, "{},{port},{},{peer_port}", guid(name), guid(peer)).unwrap();
            }
        }
        format!(
            "{nodes}END_NODES\n\n{ports}END_PORTS\n\n{links}END_LINKS\n\n{counters}END_PM_INFO\n"
        )
    }
}
