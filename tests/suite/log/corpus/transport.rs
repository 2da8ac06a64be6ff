//! Which network is taken, and why.

use super::causes;
use super::job::{Job, Phase, Version};

fn at_least(job: &mut Job, minor: u32) {
    if job.version < Version(minor, 0) {
        let later: Vec<Version> = super::job::VERSIONS
            .into_iter()
            .filter(|v| *v >= Version(minor, 0))
            .collect();
        let chosen = *job.rng.pick(&later);
        set_version(job, chosen);
    }
}

fn set_version(job: &mut Job, version: Version) {
    job.version = version;
    for host in &mut job.hosts {
        host.version = version;
    }
}

causes! {
    "log/ib-disabled" => |job| {
        job.over_tcp();
        job.env("NCCL_IB_DISABLE", "1");
    };
    "log/socket-forced" => |job| {
        job.over_tcp();
        job.env("NCCL_NET", "Socket");
    };
    "log/network-forced-missing" => |job| {
        at_least(job, 27);
        job.env("NCCL_NET", "IB");
        for host in &mut job.hosts {
            host.hcas = None;
        }
        job.warn(Phase::Network, 1, "plugin/net.cc:412", "Failed to initialize any NET plugin");
        job.dies_in(Phase::Network);
    };
    "log/libibverbs-missing" => |job| {
        job.over_tcp();
        job.info_all(Phase::Network, "Failed to open libibverbs.so[.1]");
    };
    "log/provider-missing" => |job| {
        job.over_tcp();
        for host in 0..job.hosts.len() {
            let rank = job.first_of(host);
            job.raw(Phase::Network, rank, "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0");
            job.info(Phase::Network, rank, "NET/IB : No device found.");
        }
    };
    "log/no-device" => |job| {
        job.over_tcp();
        job.info_all(Phase::Network, "NET/IB : No device found.");
    };
    "log/hca-filter-excludes-all" => |job| {
        job.over_tcp();
        job.env("NCCL_IB_HCA", "ib0,ib1");
        job.info_all(Phase::Network, "NET/IB : No device found.");
    };
    "log/device-not-openable" => |job| {
        job.over_tcp();
        let host = job.rng.below(job.hosts.len());
        let rank = job.first_of(host);
        job.warn(Phase::Network, rank, "transport/net_ib.cc:334", "NET/IB : Unable to open device mlx5_0");
        job.info(Phase::Network, rank, "NET/IB : No device found.");
    };
    "log/no-ip-interface" => |job| {
        job.over_tcp();
        let rank = job.first_of(job.hosts.len() - 1);
        job.warn(Phase::Network, rank, "transport/net_ib.cc:307", "NET/IB : No IP interface found.");
    };
    "log/networks-differ" => |job| {
        job.host_over_tcp(0);
        job.warn(Phase::Channels, 1, "misc/socket.cc:484", "socketFinalizeAccept: wrong type 3 != 4");
        job.dies_in(Phase::Channels);
    };
    "log/networks-differ-on-host" => |job| {
        // Two machines of one name.
        job.hosts.truncate(2);
        job.hosts[1].name = job.hosts[0].name.clone();
        job.host_over_tcp(1);
        job.warn(Phase::Channels, 1, "misc/socket.cc:484", "socketFinalizeAccept: wrong type 3 != 4");
        job.dies_in(Phase::Network);
    };
    "log/plugin-differs" => |job| {
        at_least(job, 18);
        job.hosts[1].network = "IBext_v8".into();
        job.dies_in(Phase::Network);
    };
    "log/ofi-no-provider" => |job| {
        job.over_tcp();
        job.info_all(Phase::Network, "NET/OFI No eligible providers were found");
    };
    "log/ofi-call-failed" => |job| {
        for host in &mut job.hosts {
            host.hcas = None;
            host.network = "AWS Libfabric".into();
        }
        job.info_all(Phase::Network, "NET/OFI Initializing aws-ofi-nccl 1.9.1");
        job.info_all(Phase::Network, "NET/OFI Selected Provider is efa");
        let rank = job.ranks() - 1;
        job.warn(Phase::Channels, rank, "register_mr_buffers:465", "NET/OFI Unable to register memory (type = 1) for device 0. RC: -12, Error: Cannot allocate memory");
        job.dies_in(Phase::Channels);
    };
    "log/socket-on-virtual + log/inter-node-over-tcp" => |job| {
        job.over_tcp();
        job.info_all(Phase::Network, "NET/Socket : Using [0]eth0:10.1.0.1<0> [1]veth1a2b3c:fe80::a86b:69ff:fe67:e3fe%veth1a2b3c<0>");
        let rank = job.ranks() - 1;
        let text = match job.version {
            v if v >= Version(16, 0) => "socketStartConnect: Connect to fe80::a86b:69ff:fe67:e3fe%veth1a2b3c<40311> failed : Connection timed out",
            _ => "Net : Connect to fe80::a86b:69ff:fe67:e3fe%veth1a2b3c<40311> failed : Connection timed out",
        };
        job.warn(Phase::Channels, rank, "misc/socket.cc:485", text);
        job.dies_in(Phase::Channels);
    };
    "log/ofi-provider-not-rdma" => |job| {
        for host in &mut job.hosts {
            host.hcas = None;
            host.network = "AWS Libfabric".into();
            host.gdr_send = false;
            host.gdr_receive = false;
        }
        job.info_all(Phase::Network, "NET/OFI Initializing aws-ofi-nccl 1.9.1");
        job.info_all(Phase::Network, "NET/OFI Selected Provider is tcp;ofi_rxm");
    };
    "log/plugin-not-found" => |job| {
        at_least(job, 24);
        job.over_tcp();
        job.env("NCCL_NET_PLUGIN", "ofi");
        job.info_all(Phase::Network, "NET/Plugin: Could not find: ofi libnccl-net-ofi.so. Using internal network plugin.");
    };
    "log/layers-mixed" => |job| {
        for host in &mut job.hosts {
            host.hcas = Some(vec!["mlx5_0:1/IB".into(), "mlx5_1:1/IB".into(), "mlx5_bond_0:1/RoCE".into()]);
        }
    };
    "log/devices-incompatible" => |job| {
        at_least(job, 26);
        job.warn(Phase::Channels, 2, "transport/net_ib.cc:1522", "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [4]mlx5_4:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA");
        job.dies_in(Phase::Channels);
    };
    "log/hca-counts-differ" => |job| {
        let last = job.hosts.len() - 1;
        if let Some(hcas) = &mut job.hosts[last].hcas {
            hcas.truncate(2);
        }
    };
    "log/device-counts-refused" => |job| {
        at_least(job, 30);
        job.warn(Phase::Init, 3, "init.cc:1339", "Detected mixed local Net device counts across ranks (min 7, max 8). Set NCCL_IGNORE_NET_MISMATCH=1 to continue.");
        job.dies_in(Phase::Init);
    };
    "log/hca-prefix-matches-more" => |job| {
        job.env("NCCL_IB_HCA", "mlx5_1");
        for host in &mut job.hosts {
            host.hcas = Some(["mlx5_1", "mlx5_10", "mlx5_11"].map(|n| format!("{n}:1/{}", job.layer)).into());
        }
    };
    "log/nccl-versions-mismatch" => |job| {
        at_least(job, 23);
        job.warn(Phase::Init, 0, "init.cc:1043", "Mismatched NCCL version detected : rank 0 version 22602 rank 8 version 22403");
        job.dies_in(Phase::Init);
    };
    "log/nccl-versions-differ" => |job| {
        set_version(job, Version(18, 5));
        let last = job.hosts.len() - 1;
        job.hosts[last].version = Version(20, 5);
        for host in 0..job.hosts.len() {
            let version = job.hosts[host].version;
            let rank = job.first_of(host);
            job.info(Phase::Bootstrap, rank, format!("NCCL version 2.{}.{}+cuda12.4", version.0, version.1));
        }
        job.dies_in(Phase::Init);
    };
    "log/inter-node-over-tcp" => |job| job.over_tcp();
    "log/plugin-failed" => |job| {
        job.over_tcp();
        job.warn(Phase::Network, 1, "net_tcpx.cc:101", "NET/GPUDirectTCPX failed to connect to the receive datapath manager");
        job.dies_in(Phase::Network);
    };
    "log/plugin-not-loadable" => |job| {
        at_least(job, 24);
        job.over_tcp();
        job.info_all(Phase::Network, "NET/Plugin: dlopen(libnccl-net.so) load returned 0 : libcudart.so.11.0: cannot open shared object file");
    };
    "log/device-not-queried" => |job| {
        job.warn(Phase::Network, 1, "transport/net_ib.cc:350", "NET/IB : Unable to query device mlx5_3");
    };
}
