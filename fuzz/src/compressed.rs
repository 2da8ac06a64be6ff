//! A compressed log or recording: whatever the bytes are, a reason or what could be read of them, within the budget.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;

use rdma_doctor::live::log;
use rdma_doctor::nccl_log::Limits;
use rdma_doctor::source::recording::{Recording, RecordingBudget};

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP: [u8; 4] = [0x1f, 0x8b, 8, 0];

/// Tries one input.
pub fn run(bytes: &[u8]) {
    for magic in [&[][..], &ZSTD, &GZIP] {
        let whole = [magic, bytes].concat();
        let budget = RecordingBudget::of(8 << 20);
        if let Err(refused) = Recording::read_within(whole.as_slice(), Path::new("fuzzed"), budget)
        {
            assert!(!refused.to_string().is_empty());
        }
        let path: PathBuf =
            std::env::temp_dir().join(format!("rdma-doctor-fuzz-{}", process::id()));
        let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&whole));
        written.expect("the temporary folder can be written");
        let _ = log::read(&path, Limits::default(), None);
    }
}
