//! Disks that are reached over the network: NVMe over fabrics, iSCSI.

use crate::fact::mount::{self, MountTransport};
use crate::fact::{Fact, Facts, Gap, Id, Subject};
use crate::probe::{Ask, is_numbered};

const NVME: &str = "/sys/class/nvme";
const ISCSI_HOSTS: &str = "/sys/class/iscsi_host";

/// NVMe controllers that are reached over the network; those on PCIe are no matter of RDMA.
pub(super) fn nvme(ask: &Ask<'_>, facts: &mut Facts, node: Id, open: &mut Option<Gap>) {
    let Some(names) = ask.names_if_any(NVME).if_any().or_open(open).flatten() else {
        return;
    };
    for name in names.iter() {
        let transport = match ask.text(format!("{NVME}/{name}/transport")) {
            Fact::Known(text, origin) => match &*text {
                "rdma" => Fact::Known(MountTransport::Rdma, origin),
                "tcp" => Fact::Known(MountTransport::Tcp, origin),
                "pcie" | "fc" | "loop" | "apple-nvme" => continue,
                other => Fact::Unknown(Gap::misread(format!("transport {other:?}"), origin)),
            },
            Fact::Unknown(gap) => {
                open.get_or_insert(gap);
                continue;
            }
        };
        let id = facts.instance(Subject::Mount, node, name);
        facts.derive(id, mount::KIND, "nvme".into(), NVME);
        if transport.known() == Some(&MountTransport::Tcp) {
            // Whoever loaded it meant to reach disks over RDMA.
            let module = ask.exists("/sys/module/nvme_rdma");
            facts.set(id, mount::RDMA_WANTED, module);
        }
        facts.set(id, mount::TRANSPORT, transport);
        facts.set(id, mount::STATE, ask.text(format!("{NVME}/{name}/state")));
    }
}

/// iSCSI sessions. Only the session's state and the kind of its host are asked: its target has the name of a machine.
pub(super) fn iscsi(ask: &Ask<'_>, facts: &mut Facts, node: Id, open: &mut Option<Gap>) {
    let Some(hosts) = ask
        .names_if_any(ISCSI_HOSTS)
        .if_any()
        .or_open(open)
        .flatten()
    else {
        return;
    };
    for host in hosts.iter() {
        let sessions = ask.names(format!("{ISCSI_HOSTS}/{host}/device"));
        let Some(sessions) = sessions.or_open(open) else {
            continue;
        };
        let sessions = sessions.iter().filter(|name| is_numbered(name, "session"));
        let mut sessions = sessions.peekable();
        if sessions.peek().is_none() {
            continue;
        }
        let transport =
            ask.parse(
                format!("/sys/class/scsi_host/{host}/proc_name"),
                |name| match name {
                    "iscsi_iser" | "ib_iser" => Ok(MountTransport::Rdma),
                    "iscsi_tcp" => Ok(MountTransport::Tcp),
                    other => Err(format!("a host of kind {other:?}")),
                },
            );
        for session in sessions {
            let id = facts.instance(Subject::Mount, node, session);
            facts.derive(id, mount::KIND, "iscsi".into(), ISCSI_HOSTS);
            facts.set(id, mount::TRANSPORT, transport.clone());
            let state = ask.text(format!("/sys/class/iscsi_session/{session}/state"));
            facts.set(id, mount::STATE, state);
        }
    }
}
