//! Choices among transports: which of them leave RDMA out.

use super::is_set;
use crate::fact::{Fact, Facts, Id, Subject, setting};

/// UCX's transports over RDMA devices, and the names that stand for several of them (`ucx_info -d`,
/// ucp_tl_aliases).
const UCX_RDMA: &[&str] = &[
    "all", "ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x", "dc_mlx5", "ud",
    "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "srd", "gga_mlx5", "rc_gda",
];

/// Whether a setting leaves out every transport that RDMA devices have.
pub(super) fn without_rdma(facts: &Facts, node: Id, name: &str, value: &str) -> Fact<bool> {
    let entries: Vec<&str> = value.trim().split(',').map(str::trim).collect();
    match name {
        "UCX_TLS" => Fact::derived(ucx(value), "the transports that UCX_TLS names"),
        // ob1 sends by the BTLs: what is not named in a positive list is left out, and of those
        // none but openib, uct and ofi knows RDMA.
        "pml" if entries == ["ob1"] => btl(facts, node).map(|btl| {
            btl.is_some_and(|list| match list.trim().strip_prefix('^') {
                Some(excluded) => has(excluded, "openib"),
                None => !["openib", "uct", "ofi"].iter().any(|b| has(&list, b)),
            })
        }),
        "FI_PROVIDER" | "I_MPI_OFI_PROVIDER" => {
            let slow = |entry: &&str| {
                let provider = entry.split(';').next().unwrap_or("");
                matches!(provider, "tcp" | "sockets" | "udp" | "net")
            };
            let all = !value.trim().starts_with('^') && entries.iter().all(slow);
            Fact::derived(all, "the providers that the setting names")
        }
        "NVSHMEM_REMOTE_TRANSPORT" => {
            let none = value.trim().eq_ignore_ascii_case("none");
            Fact::derived(none, "the setting's value")
        }
        _ => Fact::derived(false, "the setting chooses no transport"),
    }
}

fn ucx(value: &str) -> bool {
    let value = value.trim();
    match value.strip_prefix('^') {
        // Leaving out `ib` leaves out all of them; leaving out one leaves the others.
        Some(excluded) => {
            has(excluded, "ib")
                || (has(excluded, "rc") && has(excluded, "dc") && has(excluded, "ud"))
        }
        None => !value.split(',').map(str::trim).any(|one| {
            // `\rc` names the transport itself where an alias has the same name; `cuda_copy` and
            // the like are beside the point.
            let one = one.trim_start_matches('\\');
            UCX_RDMA.contains(&one.split(':').next().unwrap_or(one))
        }),
    }
}

fn has(list: &str, one: &str) -> bool {
    list.split(',').any(|entry| entry.trim() == one)
}

/// The list of BTLs, where one is set.
fn btl(facts: &Facts, node: Id) -> Fact<Option<std::sync::Arc<str>>> {
    match facts.find(Subject::Setting, node, "btl") {
        Some(id) => facts.get(id, setting::VALUE).map(Some),
        None => is_set(facts, node, "btl").map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_of_ucx() {
        for (value, without) in [
            ("all", false),
            ("tcp", true),
            ("tcp,self,sm,cuda_copy,cuda_ipc", true),
            ("rc,sm,self", false),
            ("rc_x,self", false),
            ("\\rc,tcp", false),
            ("ud:aux,tcp", false),
            ("^tcp", false),
            ("^ib", true),
            ("^rc", false),
            ("^rc,dc,ud", true),
            ("", true),
        ] {
            assert_eq!(ucx(value), without, "{value}");
        }
    }
}
