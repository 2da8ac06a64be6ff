//! The interfaces of netplan's files, by their indentation: what is read of them is names, matches and values of one line.

/// An interface of a file of netplan (netplan-yaml(5)).
#[derive(Debug, Default, PartialEq)]
pub(super) struct NetplanDevice {
    pub id: String,
    pub name: Option<String>,
    pub set_name: Option<String>,
    pub mac: Option<String>,
    pub mtu: Option<String>,
    pub dhcp: bool,
}

/// The interfaces below `ethernets:`, `bonds:`, `vlans:` and `bridges:`.
pub(super) fn devices(lines: &[String]) -> Vec<NetplanDevice> {
    const KINDS: [&str; 5] = ["ethernets:", "bonds:", "vlans:", "bridges:", "infiniband:"];
    let mut all: Vec<NetplanDevice> = Vec::new();
    // The depth of the section, and that of its interfaces.
    let mut section: Option<usize> = None;
    let mut device: Option<usize> = None;
    for line in lines {
        let bare = line.trim_start();
        let depth = line.len() - bare.len();
        if KINDS.contains(&bare) {
            (section, device) = (Some(depth), None);
            continue;
        }
        let Some(outer) = section.filter(|outer| depth > *outer) else {
            section = None;
            continue;
        };
        let own = *device.get_or_insert(depth);
        if depth <= own && depth > outer {
            let id = bare.trim_end_matches(':').trim_matches(['"', '\'']);
            all.push(NetplanDevice {
                id: id.to_owned(),
                ..NetplanDevice::default()
            });
            continue;
        }
        let (Some(one), Some((key, value))) = (all.last_mut(), bare.split_once(':')) else {
            continue;
        };
        let value = value.split(" #").next().unwrap_or(value);
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        match key {
            "name" => one.name = Some(value),
            "set-name" => one.set_name = Some(value),
            "macaddress" => one.mac = Some(value.to_lowercase()),
            "mtu" => one.mtu = Some(value),
            "dhcp4" => one.dhcp |= ["true", "yes", "on"].contains(&&*value.to_lowercase()),
            _ => {}
        }
    }
    all
}
