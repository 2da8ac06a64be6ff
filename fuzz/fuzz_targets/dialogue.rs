//! `fuzz/run.sh dialogue -max_total_time=600`

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rdma_doctor_fuzz::dialogue::run(bytes));
