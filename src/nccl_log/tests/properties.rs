//! Any bytes, in any pieces.

use proptest::prelude::*;

use crate::nccl_log::{Digest, Limits, Reader};

fn read(bytes: &[u8], cuts: &[usize]) -> Digest {
    let mut reader = Reader::new(Limits::default());
    let mut rest = bytes;
    for cut in cuts {
        let (now, later) = rest.split_at((*cut).min(rest.len()));
        reader.feed(now);
        rest = later;
    }
    reader.feed(rest);
    reader.finish(None)
}

/// Pieces of which logs are made.
const PIECES: &[&str] = &[
    "n1:12:13 [0] NCCL INFO ",
    "[2025-01-02 03:04:05] n2:7:8 [1] misc/socket.cc:12 NCCL WARN ",
    "\n",
    "\r\n",
    "\r",
    " ",
    "3: ",
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
    "/GDRDMA",
    "/Shared",
    " comm 0x55 nRanks 16",
    "Using network ",
    "IB",
    "Socket",
    "NCCL version 2.20.5+cuda12.4",
    "comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START",
    "Got completion from peer 10.0.0.2<4711> with status=12 opcode=0 len=0 vendor err 129 (Send)",
    "\x1b[31m",
    "\x1b[0m",
    "NCCL ",
    "[rank3]:[E104 00:00:02.25 ProcessGroupNCCL.cpp:1] ",
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE",
    "RuntimeError: NCCL error in: x",
    "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "transport/net.cc:1 -> 3",
    "ä",
    "0x",
];

fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (1usize..90_000).prop_map(|length| vec![b'x'; length]),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn where_the_input_is_cut_does_not_matter(bytes in noise(), cuts in proptest::collection::vec(1usize..70_000, 0..20)) {
        prop_assert_eq!(read(&bytes, &cuts), read(&bytes, &[]));
    }

    #[test]
    fn one_byte_at_a_time_gives_the_same(bytes in proptest::collection::vec(proptest::sample::select(PIECES), 0..30)) {
        let bytes = bytes.concat().into_bytes();
        prop_assert_eq!(read(&bytes, &vec![1; bytes.len()]), read(&bytes, &[]));
    }

    #[test]
    fn no_bytes_panic_and_lines_are_counted(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let digest = read(&bytes, &[]);
        let ends = bytes.iter().filter(|b| **b == b'\n').count();
        let unfinished = bytes.last().is_some_and(|b| *b != b'\n');
        prop_assert_eq!(digest.lines as usize, ends + usize::from(unfinished));
        prop_assert_eq!(digest.bytes as usize, bytes.len());
    }
}
