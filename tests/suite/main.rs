//! The tests of the program as a whole: one binary, so that the library is linked once. Unit tests stand beside the code.
//!
//! Variables of the environment:
//!
//! * `RDMA_DOCTOR_NETNS`, `RDMA_DOCTOR_STAGE`, `RDMA_DOCTOR_VM`: `0` skips the tests that need network namespaces, mount namespaces or the VM,
//!   `require` turns a machine that cannot run them into a failure. By default they are skipped there, and say so.
//! * `RDMA_DOCTOR_BINARY`: the doctor to test, in place of this build.
//! * `RDMA_DOCTOR_CASES`: `quick` or `all`: how many cases a test with many of them tries (`sample.rs`).
//! * `RDMA_DOCTOR_FIXTURES`: tests of all fixtures take only those whose names contain this text, and nothing of them is sampled.
//! * `RDMA_DOCTOR_BLESS=1`: write the generated fixtures and manual pages; snapshots are insta's (`INSTA_UPDATE`).
//! * `RDMA_DOCTOR_STYLE_OF`: count the Rust files of this folder (`style.rs`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests run programs, and read and write their own files"
)]

mod bridged_hosts;
#[path = "../standin/machine.rs"]
mod machine;
mod namespaces;
mod page;
mod peer_route;
mod place;
mod points;
mod process;
mod rail_hosts;
mod sample;
mod stage;

mod ablate;
mod ablate_tables;
mod ablate_worlds;
mod advise;
mod baseline;
mod bench_collective;
mod bench_memory;
mod bench_nccl;
mod bench_p2p;
mod catalogue;
mod ceiling;
mod check_with;
mod cli;
mod clusters;
mod collectives_of_nodes;
mod commands;
mod cuda;
mod deadline;
mod documents;
mod engines;
mod evidence;
mod evidence_live;
mod evidence_texts;
mod fabric;
mod firewall;
mod fixtures;
mod formats;
mod fresh_recordings;
mod fuzzed;
mod ground;
mod html;
mod hung_directory;
mod imports;
mod integrate;
mod inventory;
mod jobs_of_nodes;
mod known_half;
mod left_out;
mod log;
mod lost_evidence;
mod man;
mod many;
mod many_routes;
mod named_files;
mod nccl_of_nodes;
mod nvml;
mod one_door;
mod options;
mod packaging;
mod packet_path;
mod pairs;
mod reach;
mod recorded_nodes;
mod redaction;
mod remedies;
mod rendered;
mod rendezvous;
mod report_length;
mod running_jobs;
mod situations;
mod stalls;
mod strangers;
mod style;
mod texts_beside;
mod thresholds;
mod together;
mod topo;
mod torch_jobs;
mod triage;
mod triage_of_nodes;
mod trust;
mod vendors;
mod vm;
mod voice;
mod waivers;
mod whole;
mod worker;
mod xid;
