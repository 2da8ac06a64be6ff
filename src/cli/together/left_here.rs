//! Variables of NCCL's that are set where nodes are started over ssh: they do not travel, and who has set them expects that they count.

use crate::sentence::shell::{assignment, quoted};

/// What the doctor sets itself where it measures.
const OWN: [&str; 3] = ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"];

/// Says which of these variables the hosts do not have, and how they get them; `None` where `remote`, the doctor there, names each.
pub(super) fn said(set: &[(String, String)], remote: &str) -> Option<String> {
    let is_given = |name: &str| {
        let mut words = remote.split([' ', '\'', '"']);
        words.any(|word| word.split_once('=').is_some_and(|(given, _)| given == name))
    };
    let left: Vec<&(String, String)> = set
        .iter()
        .filter(|(name, _)| !OWN.contains(&&**name) && !is_given(name))
        .collect();
    let names: Vec<&str> = left.iter().map(|(name, _)| &**name).collect();
    let (are, them) = match names.len() {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    let pairs = left.iter().map(|(name, value)| assignment(name, value));
    let remote = format!("env {} {remote}", pairs.collect::<Vec<_>>().join(" "));
    Some(format!(
        "{} {are} set here and not on the hosts, whose environment is that of a login; this sets {them} there: --remote {}",
        names.join(", "),
        quoted(&remote)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)], remote: &str) -> Option<String> {
        let set: Vec<(String, String)> = set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        said(&set, remote)
    }

    #[test]
    fn what_does_not_travel_is_said_with_what_sets_it() {
        let one = of(&[("NCCL_IB_HCA", "mlx5_0")], "rdma-doctor").unwrap();
        assert!(
            one.starts_with("NCCL_IB_HCA is set here and not on the hosts"),
            "{one}"
        );
        assert!(
            one.ends_with("sets it there: --remote 'env NCCL_IB_HCA=mlx5_0 rdma-doctor'"),
            "{one}"
        );
        let two = [("NCCL_IB_TC", "106"), ("NCCL_SOCKET_IFNAME", "^lo,docker0")];
        let two = of(&two, "sudo -n rdma-doctor").unwrap();
        assert!(
            two.starts_with("NCCL_IB_TC, NCCL_SOCKET_IFNAME are set"),
            "{two}"
        );
        assert!(
            two.ends_with(
                "--remote 'env NCCL_IB_TC=106 NCCL_SOCKET_IFNAME=^lo,docker0 sudo -n rdma-doctor'"
            ),
            "{two}"
        );
        let blank = of(&[("NCCL_TOPO_FILE", "/a b")], "d").unwrap();
        assert!(
            blank.ends_with(r"'env NCCL_TOPO_FILE='\''/a b'\'' d'"),
            "{blank}"
        );
    }

    #[test]
    fn nothing_is_said_of_what_is_there_or_of_what_the_doctor_sets() {
        let remote = "env NCCL_IB_HCA=mlx5_1 rdma-doctor";
        assert_eq!(of(&[("NCCL_IB_HCA", "mlx5_0")], remote), None);
        assert_eq!(of(&[("NCCL_DEBUG", "INFO")], "rdma-doctor"), None);
        assert_eq!(of(&[], "rdma-doctor"), None);
        // A name that only ends so is another one.
        assert!(of(&[("NCCL_IB_HCA", "x")], "env OLD_NCCL_IB_HCA=y d").is_some());
    }
}
