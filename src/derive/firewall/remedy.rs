//! The commands that let a flow through, for the rule or policy that stops it.

use crate::fact::flow::{Direction, Purpose};

/// The packets that are to get through.
#[derive(Clone, Copy)]
pub(super) struct Packets<'a> {
    pub(super) purpose: Purpose,
    pub(super) direction: Direction,
    pub(super) interface: &'a str,
    /// The interface's first network.
    pub(super) network: &'a str,
}

/// The command that lets them through, as the program that made the rule takes it. A rule is
/// deleted; before a policy they are accepted.
pub(super) fn remedy(rule: &str, packets: Packets<'_>) -> String {
    if rule.starts_with("policy ")
        && let Some(accepts) = accepting(rule, packets)
    {
        return accepts;
    }
    if let Some((filter, _)) = rule
        .strip_prefix("tc filter ")
        .and_then(|r| r.split_once(':'))
    {
        return format!("tc filter del {filter}");
    }
    if let Some((place, _)) = rule.split_once(':')
        && let [family, table, chain, "handle", handle] = place.split(' ').collect::<Vec<_>>()[..]
    {
        return format!("nft delete rule {family} {table} {chain} handle {handle}");
    }
    if is_of_iptables(rule) {
        return rule.replacen(" -A ", " -D ", 1);
    }
    "nft list ruleset".into()
}

fn is_of_iptables(rule: &str) -> bool {
    rule.starts_with("ip") && rule.contains("tables") && rule.contains(" -A ")
}

/// The command that accepts them in the chain of the rule or policy, before all its rules.
pub(super) fn accepting(rule: &str, packets: Packets<'_>) -> Option<String> {
    if let Some(policy) = rule.strip_prefix("policy ") {
        let (_, place) = policy.split_once(" of chain ")?;
        let (chain, table) = place.split_once(" in table ")?;
        let (family, name) = table.split_once(' ')?;
        return Some(match family {
            "iptables-legacy" | "ip6tables-legacy" => {
                packets.by_iptables(&format!("{family} -t {name}"), chain)
            }
            _ => packets.by_nft(family, name, chain),
        });
    }
    if is_of_iptables(rule) {
        let (program, rest) = rule.split_once(" -A ")?;
        return Some(packets.by_iptables(program, rest.split(' ').next()?));
    }
    let (place, _) = rule.split_once(':')?;
    match place.split(' ').collect::<Vec<_>>()[..] {
        [family, table, chain, "handle", _] => Some(packets.by_nft(family, table, chain)),
        _ => None,
    }
}

impl Packets<'_> {
    /// What stops a flow can be the chain of its replies.
    fn direction(&self, chain: &str) -> Direction {
        let hook = chain.to_ascii_lowercase();
        match self.direction {
            _ if hook.contains("input") => Direction::In,
            _ if hook.contains("output") => Direction::Out,
            own => own,
        }
    }

    fn by_iptables(&self, program: &str, chain: &str) -> String {
        let (interface, network) = (self.interface, self.network);
        let (at, side) = match self.direction(chain) {
            Direction::In => ("-i", "-s"),
            Direction::Out => ("-o", "-d"),
        };
        let what = match self.purpose {
            // The address is any of the node's own.
            Purpose::Local => format!("{at} {interface}"),
            Purpose::PathMtu if program.starts_with("ip6") => {
                "-p icmpv6 --icmpv6-type packet-too-big".into()
            }
            Purpose::PathMtu => "-p icmp --icmp-type fragmentation-needed".into(),
            _ => format!("{at} {interface} {side} {network}"),
        };
        format!("{program} -I {chain} {what} -j ACCEPT")
    }

    fn by_nft(&self, family: &str, table: &str, chain: &str) -> String {
        let (interface, network) = (self.interface, self.network);
        let (at, side) = match self.direction(chain) {
            Direction::In => ("iifname", "saddr"),
            Direction::Out => ("oifname", "daddr"),
        };
        let version = if network.contains(':') { "ip6" } else { "ip" };
        let what = match self.purpose {
            Purpose::Local => format!("{at} \"{interface}\""),
            Purpose::PathMtu if family == "ip6" => "icmpv6 type packet-too-big".into(),
            Purpose::PathMtu => "icmp type destination-unreachable".into(),
            _ => format!("{at} \"{interface}\" {version} {side} {network}"),
        };
        format!("nft insert rule {family} {table} {chain} {what} accept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(purpose: Purpose, direction: Direction) -> Packets<'static> {
        Packets {
            purpose,
            direction,
            interface: "eth0",
            network: "10.1.2.0/24",
        }
    }

    #[test]
    fn what_a_rule_stops_is_accepted_before_it() {
        for (rule, purpose, command) in [
            (
                "inet fw in handle 3: tcp dport 1024-65535 limit rate 10/second accept",
                Purpose::Bootstrap,
                "nft insert rule inet fw in iifname \"eth0\" ip saddr 10.1.2.0/24 accept",
            ),
            (
                "iptables -A INPUT -p tcp -m limit --limit 10/s -j ACCEPT",
                Purpose::Bootstrap,
                "iptables -I INPUT -i eth0 -s 10.1.2.0/24 -j ACCEPT",
            ),
            (
                "inet fw in handle 3: drop",
                Purpose::Local,
                "nft insert rule inet fw in iifname \"eth0\" accept",
            ),
            (
                "policy drop of chain INPUT in table ip6tables-legacy filter",
                Purpose::PathMtu,
                "ip6tables-legacy -t filter -I INPUT -p icmpv6 --icmpv6-type packet-too-big -j ACCEPT",
            ),
            (
                "ip fw in handle 7: icmp type != echo-request drop",
                Purpose::PathMtu,
                "nft insert rule ip fw in icmp type destination-unreachable accept",
            ),
        ] {
            let accepting = accepting(rule, packets(purpose, Direction::In));
            assert_eq!(accepting.as_deref(), Some(command));
        }
        assert_eq!(
            accepting("none", packets(Purpose::Local, Direction::In)),
            None
        );
    }

    #[test]
    fn each_program_has_its_command() {
        for (rule, command) in [
            (
                "inet fw in handle 3: udp dport 4791 drop",
                "nft delete rule inet fw in handle 3",
            ),
            (
                "tc filter dev eth0 ingress pref 49152: u32 action drop",
                "tc filter del dev eth0 ingress pref 49152",
            ),
            (
                "iptables -A INPUT -p tcp -j DROP",
                "iptables -D INPUT -p tcp -j DROP",
            ),
            (
                "policy drop of chain input in table inet fw",
                "nft insert rule inet fw input iifname \"eth0\" ip saddr 10.1.2.0/24 accept",
            ),
            (
                "policy drop of chain INPUT in table iptables-legacy filter",
                "iptables-legacy -t filter -I INPUT -i eth0 -s 10.1.2.0/24 -j ACCEPT",
            ),
            ("none", "nft list ruleset"),
        ] {
            assert_eq!(
                remedy(rule, packets(Purpose::Bootstrap, Direction::In)),
                command
            );
        }
        let out = remedy(
            "policy drop of chain o in table inet fw",
            packets(Purpose::Bootstrap, Direction::Out),
        );
        assert!(out.contains("oifname \"eth0\" ip daddr"), "{out}");
        // The reply to what is sent comes in.
        let reply = "policy drop of chain filter_INPUT in table inet firewalld";
        let reply = remedy(reply, packets(Purpose::Bootstrap, Direction::Out));
        assert!(reply.contains("iifname \"eth0\" ip saddr"), "{reply}");
    }
}
