//! `fuzz/run.sh fabric -max_total_time=180`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rdma_doctor_fuzz::evidence;

fuzz_target!(|bytes: &[u8]| evidence::run_of(&evidence::FABRIC, bytes));
