//! The command that lets a flow through, for the rule or policy that stops it.

use crate::fact::flow::Direction;

/// The command, as the program that made the rule takes it. A rule is deleted; before a policy the interface's own networks are accepted.
pub(super) fn remedy(rule: &str, direction: Direction, interface: &str, network: &str) -> String {
    if let Some(policy) = rule.strip_prefix("policy ")
        && let Some(accepts) = before_policy(policy, direction, interface, network)
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
    if rule.starts_with("ip") && rule.contains("tables") && rule.contains(" -A ") {
        return rule.replacen(" -A ", " -D ", 1);
    }
    "nft list ruleset".into()
}

/// `drop of chain input in table inet filter`
fn before_policy(
    policy: &str,
    direction: Direction,
    interface: &str,
    network: &str,
) -> Option<String> {
    let (_, place) = policy.split_once(" of chain ")?;
    let (chain, table) = place.split_once(" in table ")?;
    let (family, name) = table.split_once(' ')?;
    // What stops a flow can be the chain of its replies.
    let hook = chain.to_ascii_lowercase();
    let direction = match direction {
        _ if hook.contains("input") => Direction::In,
        _ if hook.contains("output") => Direction::Out,
        own => own,
    };
    let (at, side) = match direction {
        Direction::In => ("iifname", "saddr"),
        Direction::Out => ("oifname", "daddr"),
    };
    Some(match family {
        "iptables-legacy" | "ip6tables-legacy" => {
            let (at, side) = match direction {
                Direction::In => ("-i", "-s"),
                Direction::Out => ("-o", "-d"),
            };
            format!("{family} -t {name} -I {chain} {at} {interface} {side} {network} -j ACCEPT")
        }
        _ => {
            let version = if network.contains(':') { "ip6" } else { "ip" };
            format!(
                "nft insert rule {family} {name} {chain} {at} \"{interface}\" {version} {side} {network} accept"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(remedy(rule, Direction::In, "eth0", "10.1.2.0/24"), command);
        }
        let out = remedy(
            "policy drop of chain o in table inet fw",
            Direction::Out,
            "eth0",
            "10.1.2.0/24",
        );
        assert!(out.contains("oifname \"eth0\" ip daddr"), "{out}");
        // The reply to what is sent comes in.
        let reply = "policy drop of chain filter_INPUT in table inet firewalld";
        let reply = remedy(reply, Direction::Out, "eth0", "10.1.2.0/24");
        assert!(reply.contains("iifname \"eth0\" ip saddr"), "{reply}");
    }
}
