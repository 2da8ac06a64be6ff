//! The commands that let a flow through, for the rule or policy that stops it.

use crate::fact::flow::{Direction, Purpose};
use crate::sentence::shell::{Command, quoted};

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
pub(super) fn remedy(rule: &str, packets: Packets<'_>) -> Command {
    if rule.starts_with("policy ")
        && let Some(accepts) = accepting(rule, packets)
    {
        return accepts;
    }
    if let Some((filter, _)) = rule
        .strip_prefix("tc filter ")
        .and_then(|r| r.split_once(':'))
    {
        return Command::of_words(["tc", "filter", "del"].into_iter().chain(filter.split(' ')));
    }
    if let Some((place, _)) = rule.split_once(':')
        && let [family, table, chain, "handle", handle] = place.split(' ').collect::<Vec<_>>()[..]
    {
        return of_nft(&[
            "nft", "delete", "rule", family, table, chain, "handle", handle,
        ]);
    }
    if is_of_iptables(rule) {
        return Command::of_text(&rule.replacen(" -A ", " -D ", 1));
    }
    shows_all()
}

fn shows_all() -> Command {
    Command::of_text("nft list ruleset")
}

/// A command of these words. To nft(8) a letter that no name has may end the statement: such a name
/// is for a person.
fn of_nft(words: &[&str]) -> Command {
    if words.iter().all(|word| is_of_nft(word)) {
        Command::of_words(words.iter().copied())
    } else {
        shows_all()
    }
}

/// Whether nft(8) takes the word for one name, number or address, or for one text that is quoted for
/// it.
fn is_of_nft(word: &str) -> bool {
    match word
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        Some(text) => !text.contains(['"', '\\']),
        None => word
            .chars()
            .all(|c| c.is_alphanumeric() || "_-./:".contains(c)),
    }
}

/// Its text is a command already. The first word of any other rule is a family of nft(8), or `tc`.
fn is_of_iptables(rule: &str) -> bool {
    let program = rule.split(' ').next();
    matches!(program, Some("iptables" | "ip6tables")) && rule.contains(" -A ")
}

/// The command that accepts them in the chain of the rule or policy, before all its rules.
pub(super) fn accepting(rule: &str, packets: Packets<'_>) -> Option<Command> {
    if let Some(policy) = rule.strip_prefix("policy ") {
        let (_, place) = policy.split_once(" of chain ")?;
        let (chain, table) = place.split_once(" in table ")?;
        let (family, name) = table.split_once(' ')?;
        return Some(match family {
            "iptables-legacy" | "ip6tables-legacy" => {
                let program = Command::filled("{} -t {}", &[family, name]);
                packets.by_iptables(program.text(), &quoted(chain))
            }
            _ => packets.by_nft(family, name, chain),
        });
    }
    if is_of_iptables(rule) {
        let (program, rest) = rule.split_once(" -A ")?;
        let chain = rest.split(' ').next()?;
        // A quoted name may go on behind the blank.
        return (!chain.contains('\'')).then(|| packets.by_iptables(program, chain));
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

    /// The program with its table, and the chain, are words of a shell already.
    fn by_iptables(&self, program: &str, chain: &str) -> Command {
        let (interface, network) = (quoted(self.interface), quoted(self.network));
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
        Command::of_text(&format!("{program} -I {chain} {what} -j ACCEPT"))
    }

    fn by_nft(&self, family: &str, table: &str, chain: &str) -> Command {
        let (interface, network) = (format!("\"{}\"", self.interface), self.network);
        let (at, side) = match self.direction(chain) {
            Direction::In => ("iifname", "saddr"),
            Direction::Out => ("oifname", "daddr"),
        };
        let version = if network.contains(':') { "ip6" } else { "ip" };
        let what = match self.purpose {
            Purpose::Local => vec![at, &interface],
            Purpose::PathMtu if family == "ip6" => vec!["icmpv6", "type", "packet-too-big"],
            Purpose::PathMtu => vec!["icmp", "type", "destination-unreachable"],
            _ => vec![at, &interface, version, side, network],
        };
        let place = ["nft", "insert", "rule", family, table, chain];
        of_nft(&[&place[..], &what, &["accept"]].concat())
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
                "nft insert rule inet fw in iifname '\"eth0\"' ip saddr 10.1.2.0/24 accept",
            ),
            (
                "iptables -A INPUT -p tcp -m limit --limit 10/s -j ACCEPT",
                Purpose::Bootstrap,
                "iptables -I INPUT -i eth0 -s 10.1.2.0/24 -j ACCEPT",
            ),
            (
                "inet fw in handle 3: drop",
                Purpose::Local,
                "nft insert rule inet fw in iifname '\"eth0\"' accept",
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
            let accepting = accepting.as_ref().map(Command::text);
            assert_eq!(accepting, Some(command));
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
                "nft insert rule inet fw input iifname '\"eth0\"' ip saddr 10.1.2.0/24 accept",
            ),
            (
                "policy drop of chain INPUT in table iptables-legacy filter",
                "iptables-legacy -t filter -I INPUT -i eth0 -s 10.1.2.0/24 -j ACCEPT",
            ),
            ("none", "nft list ruleset"),
            ("ip tables -A $(id) handle 3: drop", "nft list ruleset"),
            ("ip fw in;flush handle 3: drop", "nft list ruleset"),
        ] {
            let remedy = remedy(rule, packets(Purpose::Bootstrap, Direction::In));
            assert_eq!(remedy.text(), command);
        }
        let out = remedy(
            "policy drop of chain o in table inet fw",
            packets(Purpose::Bootstrap, Direction::Out),
        );
        assert!(out.text().contains("oifname '\"eth0\"' ip daddr"), "{out}");
        // The reply to what is sent comes in.
        let reply = "policy drop of chain filter_INPUT in table inet firewalld";
        let reply = remedy(reply, packets(Purpose::Bootstrap, Direction::Out));
        assert!(
            reply.text().contains("iifname '\"eth0\"' ip saddr"),
            "{reply}"
        );
    }
}
