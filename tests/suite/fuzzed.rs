//! Inputs that the fuzzer chose, because each takes a way through the code that no other takes: they are tried again with each change.
//!
//! `fuzz/keep.sh TARGET` writes `fuzz/seeds/TARGET.zst` from what `fuzz/run.sh TARGET` found: an input a line, in hexadecimal digits.

use std::fs;
use std::path::Path;

use inputs::{evidence, families, reply};

#[expect(unreachable_pub, reason = "a crate of its own for the fuzzer")]
#[path = "../../fuzz/src/lib.rs"]
mod inputs;

fn each(target: &str, run: impl Fn(&[u8])) {
    let path = format!("fuzz/seeds/{target}.zst");
    let packed = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let lines = zstd::decode_all(&*packed).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let mut tried = 0;
    for line in lines.lines() {
        let digits = line.as_bytes().chunks(2);
        let bytes = digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap());
        run(&bytes.collect::<Vec<u8>>());
        tried += 1;
    }
    assert!(tried >= 40, "{target}: {tried} inputs");
}

macro_rules! targets {
    ($($name:ident: $run:expr),* $(,)?) => { $(
        #[test]
        fn $name() {
            each(stringify!($name), $run);
        }
    )* };
}

targets! {
    recording: inputs::recording::run,
    log: inputs::log::run,
    frames: inputs::frames::run,
    handshake: inputs::handshake::run,
    dialogue: inputs::dialogue::run,
    compressed: inputs::compressed::run,
    site: inputs::site::run,
    evidence: evidence::run,
    adapters: |bytes| evidence::run_of(&evidence::ADAPTERS, bytes),
    fabric: |bytes| evidence::run_of(&evidence::FABRIC, bytes),
    network: |bytes| evidence::run_of(&evidence::NETWORK, bytes),
    filter: |bytes| evidence::run_of(&evidence::FILTER, bytes),
    gpus: |bytes| evidence::run_of(&evidence::GPUS, bytes),
    host: |bytes| evidence::run_of(&evidence::HOST, bytes),
    nft: |bytes| reply::run(&families::NFT, bytes),
    iptables: |bytes| reply::run(&families::IPTABLES, bytes),
    rdma: |bytes| reply::run(&families::RDMA, bytes),
    route: |bytes| reply::run(&families::ROUTE, bytes),
    pci: |bytes| reply::run(&families::PCI, bytes),
    topology: |bytes| reply::run(&families::TOPOLOGY, bytes),
    machines: inputs::machines::run,
    texts: inputs::texts::run,
    traces: inputs::traces::run,
    tables: inputs::tables::run,
    verdicts: inputs::verdicts::run,
}
