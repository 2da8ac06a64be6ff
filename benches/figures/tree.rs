//! A synthesised machine: a directory as `--root` examines it, laid out as Linux lays out sysfs for eight ConnectX-7 of one
//! port each. No machine ever had these values; the layout and the names of the files are those of mlx5 on Linux 6.8.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// How the machine is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// RDMA devices, each with one port and one network device.
    pub(crate) devices: u32,
    /// Entries of each GID table; mlx5 has 256 for RoCE.
    pub(crate) gids: u32,
    /// GPUs.
    pub(crate) gpus: u32,
    /// PCI functions in all: what is left are bridges and NVMe drives.
    pub(crate) functions: u32,
}

/// Eight devices as a GPU node has them: with eight GPUs, or as many as `BENCH_GPUS` says.
pub(crate) fn eight() -> Shape {
    let gpus = std::env::var("BENCH_GPUS").ok();
    Shape {
        devices: 8,
        gids: 256,
        gpus: gpus.and_then(|n| n.parse().ok()).unwrap_or(8),
        functions: 60,
    }
}

const COUNTERS: &[&str] = &[
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
    "VL15_dropped",
    "port_rcv_data_64",
    "port_xmit_data_64",
    "port_rcv_packets_64",
    "port_xmit_packets_64",
];
const HW_COUNTERS: &[&str] = &[
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
    "vport_rdma_rx_packets",
    "vport_rdma_tx_packets",
    "page_faults",
];
const MODULES: &[&str] = &[
    "ib_core",
    "ib_uverbs",
    "ib_umad",
    "ib_cm",
    "rdma_cm",
    "rdma_ucm",
    "ib_ipoib",
    "mlx5_core",
    "mlx5_ib",
    "nvidia",
    "nvidia_peermem",
];

/// A directory that is removed at the end.
pub(crate) struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Tree {
    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An empty directory in memory where there is such a file system.
    pub(crate) fn empty(name: &str) -> io::Result<Self> {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = base.join(format!("rdma-doctor-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Tree(path))
    }

    /// A machine.
    pub(crate) fn machine(name: &str, shape: Shape) -> io::Result<Self> {
        let tree = Tree::empty(name)?;
        tree.host()?;
        for at in 0..shape.devices {
            tree.device(at, shape)?;
        }
        for at in shape.devices..shape.functions {
            let (class, vendor, device) = match at {
                _ if at < shape.devices + shape.gpus => ("0x030200", "0x10de", "0x2330"),
                _ if at % 2 == 0 => ("0x060400", "0x1000", "0xc030"),
                _ => ("0x010802", "0x144d", "0xa80a"),
            };
            tree.function(&format!("0000:{at:02x}:00.0"), class, vendor, device)?;
        }
        Ok(tree)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.0.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)
    }

    fn files<'a>(
        &self,
        dir: &str,
        files: impl IntoIterator<Item = (&'a str, String)>,
    ) -> io::Result<()> {
        files
            .into_iter()
            .try_for_each(|(name, content)| self.write(&format!("{dir}/{name}"), content))
    }

    /// A link of sysfs: a path below the tree, seen from where the link lies.
    fn link(&self, path: &str, target: &str) -> io::Result<()> {
        let up = "../".repeat(path.matches('/').count());
        let path = self.0.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        symlink(format!("{up}{target}"), path)
    }

    fn host(&self) -> io::Result<()> {
        let modules: String = MODULES
            .iter()
            .map(|m| format!("{m} 999424 2 - Live 0x0000000000000000\n"))
            .collect();
        let mut limits = format!(
            "{:<26}{:<21}{:<21}{:<10}\n",
            "Limit", "Soft Limit", "Hard Limit", "Units"
        );
        for (name, value, unit) in [
            ("Max open files", "1048576", "files"),
            ("Max locked memory", "unlimited", "bytes"),
        ] {
            limits += &format!("{name:<26}{value:<21}{value:<21}{unit:<10}\n");
        }
        self.files("proc", [
            ("modules", modules),
            ("uptime", "1234567.89 98765432.10\n".to_owned()),
            ("meminfo", "MemTotal:       2113400216 kB\nMemFree:        1900000000 kB\n".to_owned()),
            ("cpuinfo", "processor\t: 0\nflags\t\t: fpu vme de pse\n\n".repeat(224)),
            ("sys/kernel/osrelease", "6.8.0-synthesised\n".to_owned()),
            ("sys/kernel/hostname", "synthesised-8-nic\n".to_owned()),
            ("self/limits", limits),
            ("self/status", "Name:\trdma-doctor\nCapEff:\t000001ffffffffff\n".to_owned()),
            ("self/cgroup", "0::/user.slice\n".to_owned()),
            ("net/route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                eno1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n".to_owned()),
        ])?;
        for namespace in ["ipc:[4026531839]", "user:[4026531837]", "pid:[4026531836]"] {
            let name = namespace.split(':').next().unwrap_or("");
            fs::create_dir_all(self.0.join("proc/self/ns"))?;
            symlink(namespace, self.0.join("proc/self/ns").join(name))?;
        }
        self.write(
            "etc/os-release",
            "ID=synthesised\nPRETTY_NAME=\"Synthesised 1.0\"\n",
        )?;
        self.write(
            "lib/modules/6.8.0-synthesised/modules.builtin",
            "kernel/fs/ext4/ext4.ko\n".repeat(300),
        )?;
        self.write("sys/devices/system/node/online", "0-1\n")?;
        self.write(
            "sys/fs/cgroup/cgroup.controllers",
            "cpuset cpu io memory rdma\n",
        )?;
        self.write("sys/class/misc/rdma_cm/dev", "10:58\n")?;
        for module in MODULES {
            self.write(&format!("sys/module/{module}/version"), "24.10-0.7.0\n")?;
        }
        fs::create_dir_all(self.0.join("dev/infiniband"))
    }

    fn function(
        &self,
        address: &str,
        class: &str,
        vendor: &str,
        device: &str,
    ) -> io::Result<String> {
        let dir = format!("sys/devices/pci0000:00/{address}");
        let mut config = vec![0u8; 4096];
        config[..4].copy_from_slice(&[0xb3, 0x15, 0x21, 0x10]);
        self.write(&format!("{dir}/config"), config)?;
        self.files(
            &dir,
            [
                ("class", format!("{class}\n")),
                ("vendor", format!("{vendor}\n")),
                ("device", format!("{device}\n")),
                ("numa_node", "0\n".to_owned()),
                ("current_link_speed", "32.0 GT/s PCIe\n".to_owned()),
                ("current_link_width", "16\n".to_owned()),
            ],
        )?;
        self.link(&format!("sys/bus/pci/devices/{address}"), &dir)?;
        Ok(dir)
    }

    fn device(&self, at: u32, shape: Shape) -> io::Result<()> {
        let pci = self.function(
            &format!("0000:{at:02x}:00.0"),
            "0x020000",
            "0x15b3",
            "0x1021",
        )?;
        self.link(&format!("{pci}/driver"), "sys/bus/pci/drivers/mlx5_core")?;
        fs::create_dir_all(self.0.join("sys/bus/pci/drivers/mlx5_core"))?;
        let (name, netdev) = (format!("mlx5_{at}"), format!("eth{at}"));
        let dir = format!("{pci}/infiniband/{name}");
        let guid = format!("b83f:d203:00c0:{:04x}\n", 0xff00 + at);
        self.files(
            &dir,
            [
                ("fw_ver", "28.39.1002\n".to_owned()),
                ("hca_type", "MT4129\n".to_owned()),
                ("board_id", "MT_0000000838\n".to_owned()),
                ("hw_rev", "0\n".to_owned()),
                ("node_type", "1: CA\n".to_owned()),
                ("node_desc", format!("synthesised-8-nic {name}\n")),
                ("node_guid", guid.clone()),
                ("sys_image_guid", guid),
            ],
        )?;
        self.link(&format!("{dir}/device"), &pci)?;
        self.link(&format!("sys/class/infiniband/{name}"), &dir)?;
        self.port(&format!("{dir}/ports/1"), &netdev, at, shape)?;
        self.netdev(&pci, &netdev, at)?;
        for (class, other) in [
            ("infiniband_verbs", format!("uverbs{at}")),
            ("infiniband_mad", format!("umad{at}")),
        ] {
            let other_dir = format!("{pci}/{class}/{other}");
            self.files(
                &other_dir,
                [
                    ("ibdev", format!("{name}\n")),
                    ("dev", format!("231:{at}\n")),
                    ("abi_version", "1\n".to_owned()),
                ],
            )?;
            self.link(&format!("sys/class/{class}/{other}"), &other_dir)?;
        }
        Ok(())
    }

    fn port(&self, dir: &str, netdev: &str, at: u32, shape: Shape) -> io::Result<()> {
        self.files(
            dir,
            [
                ("state", "4: ACTIVE\n".to_owned()),
                ("phys_state", "5: LinkUp\n".to_owned()),
                ("rate", "400 Gb/sec (4X NDR)\n".to_owned()),
                ("link_layer", "Ethernet\n".to_owned()),
                ("lid", "0x0\n".to_owned()),
                ("lid_mask_count", "0\n".to_owned()),
                ("sm_lid", "0x0\n".to_owned()),
                ("sm_sl", "0\n".to_owned()),
                ("cap_mask", "0x00010000\n".to_owned()),
                ("pkeys/0", "0xffff\n".to_owned()),
            ],
        )?;
        for counter in COUNTERS {
            self.write(&format!("{dir}/counters/{counter}"), "0\n")?;
        }
        for counter in HW_COUNTERS {
            self.write(&format!("{dir}/hw_counters/{counter}"), "0\n")?;
        }
        let link_local = format!("fe80:0000:0000:0000:ba3f:d2ff:fec0:{:04x}\n", 0xff00 + at);
        let mapped = format!("0000:0000:0000:0000:0000:ffff:0a00:{:04x}\n", 0x100 + at);
        let none = "0000:0000:0000:0000:0000:0000:0000:0000\n";
        for index in 0..shape.gids {
            let gid = match index {
                0 | 1 => link_local.as_str(),
                2 | 3 => mapped.as_str(),
                _ => none,
            };
            self.write(&format!("{dir}/gids/{index}"), gid)?;
            // Reading the type of an entry that is not in use fails; a copied tree lacks the file.
            if index < 4 {
                let kind = if index % 2 == 0 {
                    "IB/RoCE v1\n"
                } else {
                    "RoCE v2\n"
                };
                self.write(&format!("{dir}/gid_attrs/types/{index}"), kind)?;
                self.write(
                    &format!("{dir}/gid_attrs/ndevs/{index}"),
                    format!("{netdev}\n"),
                )?;
            }
        }
        Ok(())
    }

    fn netdev(&self, pci: &str, name: &str, at: u32) -> io::Result<()> {
        let dir = format!("{pci}/net/{name}");
        self.files(
            &dir,
            [
                ("address", format!("b8:3f:d2:c0:ff:{at:02x}\n")),
                ("operstate", "up\n".to_owned()),
                ("carrier", "1\n".to_owned()),
                ("carrier_changes", "2\n".to_owned()),
                ("flags", "0x1003\n".to_owned()),
                ("mtu", "9000\n".to_owned()),
                ("speed", "400000\n".to_owned()),
                ("dev_port", "0\n".to_owned()),
                ("dev_id", "0x0\n".to_owned()),
            ],
        )?;
        self.link(&format!("sys/class/net/{name}"), &dir)
    }
}
