//! The values of options whose types are not of the command line: their names there, and their help.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::check::Severity;
use crate::derive::step_time::Parallel;
use crate::fact::BitRate;
use crate::measure::plan::ablation_arms::ArmFamily;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::pairs::backend_choice::BackendRequest;

macro_rules! values {
    ($type:ident: $($value:ident $name:literal $help:literal $(/ $alias:literal)?)*) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$($type::$value),*]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(match self {
                    $($type::$value => PossibleValue::new($name).help($help)$(.alias($alias))?),*
                })
            }
        }
    };
}

values! { MemoryRequest:
    Host "host" "In the host's memory"
    Gpu "gpu" "In the memory of GPUs: GPUDirect RDMA"
    Both "both" "First in the host's memory, then in that of GPUs, over the same ports"
}

values! { BackendRequest:
    Auto "auto" "RDMA writes where each node has a port that works, else sockets"
    Verbs "verbs" "RDMA writes: a node that cannot is named"
    Tcp "tcp" "Sockets"
}

values! { ArmFamily:
    Algo "algo" "The algorithms: NCCL_ALGO=Ring, Tree, NVLS, CollNetDirect"
    CrossNic "cross-nic" "Rings that stay on one rail, or do not: NCCL_CROSS_NIC=0, 1, 2"
    Gdr "gdr" "GPUDirect RDMA off, and over any distance: NCCL_NET_GDR_LEVEL=LOC, SYS; also with --backend verbs"
    Qps "qps" "Queue pairs for each connection: NCCL_IB_QPS_PER_CONNECTION=2, 4"
    NetSocket "net-socket" "Sockets with more threads: NCCL_NET=Socket, and with it NCCL_SOCKET_NTHREADS=4"
    Nvls "nvls" "NVLink SHARP off: NCCL_NVLS_ENABLE=0"
}

values! { Severity:
    Error "error" "Errors only"
    Warning "warning" "Warnings and errors"
    Note "note" "Any finding"
}

values! { Parallel:
    Ddp "ddp" "Each GPU holds all"
    Zero1 "zero1" "The optimizer's state is divided"
    Zero2 "zero2" "Gradients are divided too"
    Zero3 "zero3" "Parameters are divided too" / "fsdp"
}

/// A link's rate in bits per second, as people write it: `400G`, `2.5G`, `200Gb/s`, `100M`.
pub(super) fn bit_rate(text: &str) -> Result<BitRate, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.trim() {
        "M" | "Mb/s" | "Mbit" | "Mbit/s" => 1e6,
        "G" | "Gb/s" | "Gbit" | "Gbit/s" => 1e9,
        "T" | "Tb/s" | "Tbit" | "Tbit/s" => 1e12,
        _ => return Err("a rate has a unit: 100M, 400G, 1.6T".into()),
    };
    let rate = number.parse().map_or(0.0, |number: f64| number * factor);
    if (1e6..=1e14).contains(&rate) {
        Ok(BitRate(rate as u64))
    } else {
        Err("between 1M and 100T".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_and_bounds() {
        assert_eq!(bit_rate("400G"), Ok(BitRate(400_000_000_000)));
        assert_eq!(bit_rate("2.5 Gb/s"), Ok(BitRate(2_500_000_000)));
        for wrong in ["400", "G", "", "1K", "0.1M", "900T", "1.2.3G"] {
            assert!(bit_rate(wrong).is_err(), "{wrong}");
        }
    }
}
