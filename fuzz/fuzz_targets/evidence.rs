//! `fuzz/run.sh evidence -max_total_time=180`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rdma_doctor_fuzz::evidence::run(bytes));
