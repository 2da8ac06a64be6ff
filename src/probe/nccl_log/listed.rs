//! What NCCL lists of a host: the ports of its adapters, and its interfaces.

/// An interface and its address: `eth0:10.0.0.1<4711>`.
pub(super) fn interface(text: &str) -> Option<(&str, &str)> {
    let text = text.trim().trim_start_matches("[0]");
    let (name, rest) = text.split_once(':')?;
    let end = rest.find('<').unwrap_or(rest.len());
    Some((name, rest.get(..end)?))
}

/// The interface in `NET : Using interface eth0:10.0.0.1<0>`, of NCCL until 2.3.
pub(super) fn using_old(message: &str) -> Option<(&str, &str)> {
    interface(message.strip_prefix("NET : Using interface ")?)
}

/// The interfaces in `NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:…`.
pub(super) fn using_socket(message: &str) -> Option<Vec<&str>> {
    let rest = ["NET/Socket : Using ", "NET/FastSocket : Using "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    let names = rest.split_whitespace().filter_map(|entry| {
        let (_, entry) = entry.split_once(']')?;
        Some(interface(entry)?.0)
    });
    Some(names.collect())
}

/// A port in `NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed<'m> {
    /// The number of the network's device, which merged ports share.
    pub(super) index: u64,
    pub(super) device: &'m str,
    pub(super) port: Option<u64>,
    pub(super) link_layer: Option<&'m str>,
}

impl<'m> Listed<'m> {
    /// `mlx5_0:1/RoCE`
    fn read(index: u64, port: &'m str) -> Self {
        let (device, rest) = port.split_once(':').unwrap_or((port, ""));
        let (number, layer) = rest.split_once('/').unwrap_or((rest, ""));
        let number = number.split(':').next().and_then(|n| n.parse().ok());
        let layer = layer.split('/').next().filter(|layer| !layer.is_empty());
        Listed {
            index,
            device,
            port: number,
            link_layer: layer,
        }
    }
}

/// The ports that the line lists; `None` if it is no such line.
pub(super) fn using_ib(message: &str) -> Option<Vec<Listed<'_>>> {
    let rest = message.strip_prefix("NET/IB : Using")?;
    if rest.starts_with(" interface") {
        return None;
    }
    let mut list = rest.split(';').next()?;
    let mut listed: Vec<Listed<'_>> = Vec::new();
    while let Some((_, entry)) = list.split_once('[') {
        let Some((index, rest)) = entry.split_once(']') else {
            break;
        };
        // `={mlx5_0:1/IB,mlx5_1:1/IB}`, RCCL's `={[0] a:1/RoCE, [1] b:1/RoCE}`: ports that are merged into one device.
        let (ports, after) = match rest.strip_prefix("={") {
            Some(group) => group.split_once('}').unwrap_or((group, "")),
            None => rest.split_at(rest.find([' ', '[']).unwrap_or(rest.len())),
        };
        list = after;
        let Ok(index) = index.parse() else {
            continue;
        };
        for port in ports.split(',') {
            let port = port.trim();
            let port = port.split_once("] ").map_or(port, |(_, port)| port);
            let port = Listed::read(index, port);
            let same = |other: &&Listed<'_>| (other.device, other.port) == (port.device, port.port);
            if !port.device.is_empty() && listed.iter().find(same).is_none() {
                listed.push(port);
            }
        }
    }
    Some(listed)
}

/// The port in `NET/IB: [0] mlx5_0:1/IB`, of NCCL until 2.3.
pub(super) fn listed_alone(message: &str) -> Option<Listed<'_>> {
    let (index, port) = message.strip_prefix("NET/IB: [")?.split_once("] ")?;
    let plain = !port.contains(' ') && port.contains(':');
    Some(Listed::read(index.parse().ok()?, port)).filter(|_| plain)
}
