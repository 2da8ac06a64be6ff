//! `log --assert`: the exit status of the command, and its sentence.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::place;

const RDMA: &str = "\
n1:100:110 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
n1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
";
const STAGED: &str = "\
n1:100:110 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0
n1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
";
const SOCKET: &str = "\
n1:100:110 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
n1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
";
const EFA: &str = "\
n1:100:110 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)
n1:100:110 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
n1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA
";
const CHOSEN: &str = "\
n1:100:110 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
n1:100:110 [0] NCCL INFO Using network IB
";
const NOTHING: &str = "step 1 loss 2.0\n";

/// The exit status and what is printed.
fn asserted(text: &str, claims: &str) -> (Option<i32>, String) {
    let mut child = Command::new(place::doctor())
        .args(["log", "--assert", claims, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_claim_is_proven_disproved_or_cannot_be_told() {
    for (text, claims, status, words) in [
        (RDMA, "rdma", 0, "rdma: proven: RDMA: used. 2 of 2 channels"),
        (RDMA, "rdma,gdr", 0, "gdr: proven"),
        (RDMA, "socket", 1, "socket: disproved"),
        (RDMA, "nvlink", 1, "nvlink: disproved"),
        (STAGED, "rdma", 0, "rdma: proven"),
        (STAGED, "rdma,gdr", 1, "gdr: disproved"),
        (SOCKET, "rdma", 1, "rdma: disproved: RDMA: not used"),
        (SOCKET, "socket", 0, "socket: proven"),
        (EFA, "efa", 0, "efa: proven"),
        (RDMA, "efa", 3, "efa: cannot be told"),
        (CHOSEN, "rdma", 3, "rdma: cannot be told"),
        (
            NOTHING,
            "rdma",
            3,
            "rdma: cannot be told: no line of this log is of a run of NCCL",
        ),
    ] {
        let (code, said) = asserted(text, claims);
        assert_eq!(code, Some(status), "{claims}: {said}\n{text}");
        assert!(said.contains(words), "{claims}: {said:?}\n{text}");
    }
    let (code, _) = asserted(RDMA, "infiniband");
    assert_eq!(code, Some(64));
}
