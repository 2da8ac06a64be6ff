//! `fuzz/run.sh pci -max_total_time=180`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rdma_doctor_fuzz::{families, reply};

fuzz_target!(|bytes: &[u8]| reply::run(&families::PCI, bytes));
