//! Storage that can use RDMA. Only files of the kernel's and of the system's are asked: a server that does not answer must not
//! hold up whoever looks at its mount, so the mount itself is never touched.

mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::parse::{Connections, Mount};
use super::{Ask, BUDGET, Probe};
use crate::fact::mount::{self, MountTransport};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, Why};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "storage",
    about: "mounts that can use RDMA",
    budget: BUDGET,
    run,
};

const BEEGFS: &str = "/proc/fs/beegfs";
const NVME: &str = "/sys/class/nvme";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let mut open: Option<Gap> = None;
    match ask.parse("/proc/self/mountinfo", parse::mounts) {
        Fact::Known(mounts, origin) => {
            for mount in &mounts {
                let id = facts.instance(Subject::Mount, node, &mount.point);
                facts.set(
                    id,
                    mount::KIND,
                    Fact::Known(mount.kind.into(), origin.clone()),
                );
                if matches!(mount.kind, "nfs" | "cifs") {
                    let transport = Fact::Known((), origin.clone());
                    let transport = transport.and_then(|()| parse::transport(mount));
                    facts.set(id, mount::TRANSPORT, transport);
                }
            }
            nfs(ask, facts, node, &mounts, &origin);
            beegfs(ask, facts, node, &mounts);
            lustre(ask, facts, node, &mounts, &origin);
        }
        Fact::Unknown(gap) => open = Some(gap),
    }
    nvme(ask, facts, node, &mut open);
    let members = match open {
        None => Membership::Known(Origin::derived("the mounts and the NVMe controllers")),
        Some(gap) => Membership::Unknown(gap),
    };
    facts.set_members(Subject::Mount, node, members);
}

fn at(facts: &mut Facts, node: Id, mount: &Mount) -> Id {
    facts.instance(Subject::Mount, node, &mount.point)
}

fn nfs(ask: &Ask<'_>, facts: &mut Facts, node: Id, mounts: &[Mount], origin: &Origin) {
    let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.kind == "nfs").collect();
    if mounts.is_empty() {
        return;
    }
    let wanted = ask
        .text_if_any("/etc/fstab")
        .or_absent("".into())
        .map(|text| parse::fstab_rdma(&text));
    for mount in mounts {
        let id = at(facts, node, mount);
        let here = wanted.clone();
        let here = here.map(|places| places.iter().any(|place| **place == *mount.point));
        facts.set(id, mount::RDMA_WANTED, here);
        let size = |name: &str| mount.option(name).and_then(|text| text.parse::<u64>().ok());
        let least =
            Fact::Known((), origin.clone()).and_then(|()| match (size("rsize"), size("wsize")) {
                (Some(read), Some(write)) => Ok(Bytes(read.min(write))),
                _ => Err("the mount has no rsize and wsize".to_owned()),
            });
        facts.set(id, mount::IO_SIZE, least);
    }
}

fn beegfs(ask: &Ask<'_>, facts: &mut Facts, node: Id, mounts: &[Mount]) {
    let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.kind == "beegfs").collect();
    if mounts.is_empty() {
        return;
    }
    let clients = ask.names(BEEGFS);
    let clients: Vec<(Fact<Arc<str>>, String)> = match &clients {
        Fact::Known(names, _) => names
            .iter()
            .map(|name| {
                let dir = format!("{BEEGFS}/{name}");
                (ask.text(format!("{dir}/config")), dir)
            })
            .collect(),
        Fact::Unknown(_) => Vec::new(),
    };
    for mount in &mounts {
        let id = at(facts, node, mount);
        // One mount, one client; else the configuration's file tells which is whose.
        let file = mount.option("cfgFile");
        let client = match (&clients[..], &mounts[..]) {
            ([one], [_]) => Some(one),
            _ => clients.iter().find(|(config, _)| {
                let named = config.known().map(|c| parse::beegfs_value(c, "cfgFile"));
                matches!((named, file), (Some(Ok(named)), Some(file)) if named == file)
            }),
        };
        let Some((config, dir)) = client else {
            continue;
        };
        let value = |name: &'static str| {
            let config = config.clone();
            config.and_then(move |text| parse::beegfs_value(&text, name).map(str::to_owned))
        };
        let number = |name| value(name).and_then(|text| super::whole_number(&text));
        let wanted = value("connUseRDMA");
        facts.set(
            id,
            mount::RDMA_WANTED,
            wanted.map(|v| v == "1" || v == "true"),
        );
        let size = number("connRDMABufSize");
        facts.set(id, mount::BUFFER_SIZE, size.clone().map(Bytes));
        let pages = size.map(|size| size > 0 && size.is_multiple_of(4096));
        facts.set(id, mount::BUFFER_OF_PAGES, pages);
        facts.set(id, mount::BUFFERS, number("connRDMABufNum"));
        let both = ["storage_nodes", "meta_nodes"]
            .map(|list| ask.parse(format!("{dir}/{list}"), parse::connections));
        let sum = match both {
            [Fact::Known(a, origin), Fact::Known(b, _)] => Fact::Known(a.add(b), origin),
            [Fact::Unknown(gap), _] | [_, Fact::Unknown(gap)] => Fact::Unknown(gap),
        };
        facts.set(
            id,
            mount::TRANSPORT,
            sum.clone().map(Connections::transport),
        );
        facts.set(id, mount::TCP_CONNECTIONS, sum.clone().map(|c| c.tcp));
        facts.set(id, mount::RDMA_CONNECTIONS, sum.clone().map(|c| c.rdma));
        facts.set(id, mount::FALLBACK_ROUTES, sum.map(|c| c.fallback_routes));
    }
}

fn lustre(ask: &Ask<'_>, facts: &mut Facts, node: Id, mounts: &[Mount], origin: &Origin) {
    let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.kind == "lustre").collect();
    if mounts.is_empty() {
        return;
    }
    // The connections of each file system, by the beginning of their names: scratch-OST0000-osc-ffff8881.
    let mut connections: Vec<(String, Fact<bool>)> = Vec::new();
    let mut gap = None;
    for (class, file) in [("osc", "ost_conn_uuid"), ("mdc", "mds_conn_uuid")] {
        let dir = format!("/sys/fs/lustre/{class}");
        match ask.names(dir.as_str()) {
            Fact::Known(names, _) => {
                for name in names.iter().filter(|name| name.contains('-')) {
                    let nid = ask.parse(format!("{dir}/{name}/{file}"), parse::is_tcp_nid);
                    connections.push((name.to_string(), nid));
                }
            }
            Fact::Unknown(missing) => gap = Some(missing),
        }
    }
    for mount in mounts {
        let id = at(facts, node, mount);
        let wanted = parse::has_o2ib(&mount.source);
        facts.set(id, mount::RDMA_WANTED, Fact::Known(wanted, origin.clone()));
        let name = mount.source.rsplit(":/").next().unwrap_or("");
        let name = name.split('/').next().unwrap_or("");
        let mine = connections
            .iter()
            .filter(|(of, _)| of.strip_prefix(name).is_some_and(|r| r.starts_with('-')));
        let (mut tcp, mut rdma, mut open) = (0u64, 0u64, gap.clone());
        for (_, nid) in mine {
            match nid {
                Fact::Known(true, _) => tcp += 1,
                Fact::Known(false, _) => rdma += 1,
                Fact::Unknown(missing) => open = open.or_else(|| Some(missing.clone())),
            }
        }
        let transport = match open {
            Some(gap) => Fact::Unknown(gap),
            None => {
                let sum = Connections {
                    tcp,
                    rdma,
                    fallback_routes: 0,
                };
                Fact::derived(sum.transport(), "the NIDs of the mount's connections")
            }
        };
        facts.set(id, mount::TRANSPORT, transport);
    }
}

/// NVMe controllers that are reached over the network; those on PCIe are no matter of RDMA.
fn nvme(ask: &Ask<'_>, facts: &mut Facts, node: Id, open: &mut Option<Gap>) {
    let names = match ask.names_if_any(NVME) {
        Presence::Present(names, _) => names,
        Presence::Absent(_) => return,
        Presence::Unknown(gap) => {
            open.get_or_insert(gap);
            return;
        }
    };
    for name in names.iter() {
        let transport = match ask.text(format!("{NVME}/{name}/transport")) {
            Fact::Known(text, origin) => match &*text {
                "rdma" => Fact::Known(MountTransport::Rdma, origin),
                "tcp" => Fact::Known(MountTransport::Tcp, origin),
                "pcie" | "fc" | "loop" | "apple-nvme" => continue,
                other => Fact::Unknown(Gap {
                    why: Why::NotUnderstood(format!("transport {other:?}").into()),
                    origin,
                }),
            },
            Fact::Unknown(gap) => {
                open.get_or_insert(gap);
                continue;
            }
        };
        let id = facts.instance(Subject::Mount, node, name);
        facts.set(id, mount::KIND, Fact::derived("nvme".into(), NVME));
        facts.set(id, mount::TRANSPORT, transport);
        facts.set(id, mount::STATE, ask.text(format!("{NVME}/{name}/state")));
    }
}
