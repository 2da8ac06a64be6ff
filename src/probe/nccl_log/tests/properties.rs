//! Any log, in any order of its lines.

use proptest::prelude::*;

use super::{HEALTHY, facts, known, recording, without_names};
use crate::fact::run::Carrier;
use crate::fact::{Facts, Subject, run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lines_of_processes_may_interleave_in_any_way(seed in any::<u64>()) {
        let text: String = (0..2).map(|host| HEALTHY.of_host(host, 4000)).collect();
        // Each process keeps its own order; which one is next is drawn.
        let mut of: Vec<(String, Vec<&str>)> = Vec::new();
        for line in text.lines() {
            let process = line.split(' ').next().unwrap_or("").to_owned();
            match of.iter_mut().find(|(name, _)| *name == process) {
                Some((_, lines)) => lines.push(line),
                None => of.push((process, vec![line])),
            }
        }
        let (mut mixed, mut state) = (String::new(), seed | 1);
        while !of.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % of.len();
            mixed.push_str(of[at].1.remove(0));
            mixed.push('\n');
            if of[at].1.is_empty() {
                of.remove(at);
            }
        }
        prop_assert_eq!(without_names(&facts(&mixed)), without_names(&facts(&text)));
    }

    #[test]
    fn a_torn_log_panics_nowhere_and_invents_no_carrier(cuts in proptest::collection::vec((0usize..9000, 0usize..200), 0..12)) {
        let mut bytes = HEALTHY.text().into_bytes();
        for (at, length) in cuts {
            let at = at.min(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.drain(at..end);
        }
        let facts = facts(&String::from_utf8_lossy(&bytes));
        for run in facts.all(Subject::Run) {
            prop_assert!(matches!(facts.known(run, run::CARRIER), None | Some(Carrier::Rdma)));
        }
    }

    #[test]
    fn any_words_of_the_grammar_are_read(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..80)) {
        let log = recording(&[("x", &words.join(" "))]);
        let mut facts = Facts::new();
        super::establish(&log, &mut facts);
        let members = facts.members(Subject::Run, Facts::CLUSTER);
        prop_assert!(members.is_ok(), "{:?}", members.err());
    }
}

#[test]
fn the_words_make_a_run() {
    let text = WORDS
        .iter()
        .map(|word| format!("n1:1:1 [0] NCCL INFO {word}\n"))
        .collect::<String>();
    assert_eq!(
        known(&facts(&text), Subject::Run, "run", run::INFO),
        Some(true)
    );
}

const WORDS: &[&str] = &[
    "n1:1:1 [0] NCCL INFO",
    "\n",
    "n2:2:2 [1] x.cc:1 NCCL WARN",
    "NET/IB : Using",
    "[0]mlx5_0:1/IB",
    "[1]={mlx5_0:1/IB,mlx5_1:1/IB}",
    "[RO]",
    "; OOB",
    "eth0:fe80::1%eth0<0>",
    "Channel 00/0 :",
    "0[0] -> 1[1]",
    "[send] via NET/IB/0/GDRDMA",
    "via P2P/IPC",
    "comm 0x1 rank 0 nranks 2",
    "comm 0x1 rank 18446744073709551615 nranks 18446744073709551615 - Init START",
    "nranks 0",
    "- Init COMPLETE",
    "Pattern 4,",
    "bw 1e309/-1, type NVL/PHB",
    "PCI[inf]",
    "+ PCI[99999999999999999999.0] - GPU/1",
    "Init timings - total nan (bootstrap 1e999",
    "Setting affinity for GPU 0 to ,,f-3",
    "Call to ibv_modify_qp failed with error",
    "Got completion from peer < with status=( vendor err",
    "NCCL_X set by environment to",
    "Invalid value for",
    "Cuda failure",
    "'",
    "on dev",
    "local GID",
    "remote GID",
    "Using network",
    "Bootstrap : Using",
    "RCCL version",
    "NCCL version 2.+cuda",
    "1 Bytes -> Algo 9 proto 9 time 1",
    "WorkNCCL(SeqNum=1, OpType=, Timeout(ms)=1)",
    "ProcessGroupNCCL",
    "[rank99999999999999999999]:",
    "NET/IB: [0] a:b:1/IB provider= speed=18446744073709551615 ar=1",
    "->",
    ":",
    "/",
    "[",
    "]",
    "<",
    ">",
];
