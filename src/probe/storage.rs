//! Storage that can use RDMA. Only files of the kernel's and of the system's are asked: a server that does not answer must not
//! hold up whoever looks at its mount, so the mount itself is never touched.

mod beegfs;
mod fabric;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::parse::Mount;
use super::{Ask, Probe};
use crate::fact::mount;
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject};

/// The probe.
pub const PROBE: Probe = Probe::new("storage", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let mut open: Option<Gap> = None;
    match ask.parse("/proc/self/mountinfo", parse::mounts) {
        Fact::Known(mounts, origin) => {
            for mount in &mounts {
                describe(facts, node, mount, &origin);
            }
            nfs(ask, facts, node, &mounts);
            beegfs::establish(ask, facts, node, &mounts);
            lustre(ask, facts, node, &mounts, &origin);
        }
        Fact::Unknown(gap) => open = Some(gap),
    }
    fabric::nvme(ask, facts, node, &mut open);
    fabric::iscsi(ask, facts, node, &mut open);
    let members = Membership::known_unless(
        open,
        Origin::derived("the mounts, the NVMe controllers and the iSCSI sessions"),
    );
    facts.set_members(Subject::Mount, node, members);
}

fn describe(facts: &mut Facts, node: Id, mount: &Mount, origin: &Origin) {
    let id = at(facts, node, mount);
    facts.know(id, mount::KIND, mount.kind.into(), origin);
    if matches!(mount.kind, "nfs" | "cifs") {
        let transport = Fact::Known((), origin.clone());
        let transport = transport.and_then(|()| parse::transport(mount));
        facts.set(id, mount::TRANSPORT, transport);
    }
}

/// States a mount by its line of mount(8), written as the kernel writes it; gives the place of one of BeeGFS.
pub(super) fn printed(facts: &mut Facts, node: Id, line: &str, origin: &Origin) -> Option<Id> {
    let mounts = parse::mounts(line).ok()?;
    let mount = mounts.first()?;
    describe(facts, node, mount, origin);
    (mount.kind == "beegfs").then(|| at(facts, node, mount))
}

/// States the connections of a client of BeeGFS by its lists of servers.
pub(super) fn printed_connections(
    facts: &mut Facts,
    id: Id,
    storage: Fact<&str>,
    meta: Fact<&str>,
) {
    let [storage, meta] = [storage, meta].map(|list| list.and_then(parse::connections));
    beegfs::state_connections(facts, id, storage, meta);
}

fn at(facts: &mut Facts, node: Id, mount: &Mount) -> Id {
    facts.instance(Subject::Mount, node, &mount.point)
}

fn nfs(ask: &Ask<'_>, facts: &mut Facts, node: Id, mounts: &[Mount]) {
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
    let interfaces = lnet(ask);
    for mount in mounts {
        let id = at(facts, node, mount);
        let down = interfaces.clone().map(|all| {
            let down = all.iter().filter(|(_, up)| !up);
            down.map(|(nid, _)| Arc::clone(nid)).collect::<Arc<[_]>>()
        });
        let any_down = down.clone().map(|down| !down.is_empty());
        facts.set(id, mount::LNET_DOWN, any_down);
        facts.set(id, mount::LNETS_DOWN, down);
        let up = interfaces.clone().map(|all| all.iter().any(|(_, up)| *up));
        facts.set(id, mount::LNET_RDMA, up);
        let wanted = parse::has_o2ib(&mount.source);
        facts.know(id, mount::RDMA_WANTED, wanted, origin);
        let name = mount.source.rsplit(":/").next().unwrap_or("");
        let name = name.split('/').next().unwrap_or("");
        let mine = connections
            .iter()
            .filter(|(of, _)| of.strip_prefix(name).is_some_and(|r| r.starts_with('-')));
        let (mut tcp, mut rdma, mut open) = (0u64, 0u64, gap.clone());
        for (_, nid) in mine {
            match nid.clone().or_open(&mut open) {
                Some(true) => tcp += 1,
                Some(false) => rdma += 1,
                None => {}
            }
        }
        let transport = parse::transport_of(tcp, rdma);
        let transport = Fact::derived(transport, "the NIDs of the mount's connections");
        facts.set(id, mount::TRANSPORT, transport.unless(open));
    }
}

/// LNet's interfaces over RDMA, and whether each is up. Before version 2.8 the list was a sysctl.
fn lnet(ask: &Ask<'_>) -> Fact<Vec<(Arc<str>, bool)>> {
    let text = match ask.text_if_any("/sys/kernel/debug/lnet/nis") {
        Presence::Present(text, origin) => Fact::Known(text, origin),
        Presence::Absent(_) => ask.text("/proc/sys/lnet/nis"),
        Presence::Unknown(gap) => Fact::Unknown(gap),
    };
    text.and_then(|text| parse::rdma_interfaces(&text))
}
