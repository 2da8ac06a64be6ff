//! How ranks find each other over TCP.

use super::causes;
use super::job::{Job, Phase, Version};

fn everywhere(job: &mut Job, interface: &str, address: &str) {
    for (i, host) in job.hosts.iter_mut().enumerate() {
        host.interface = interface.into();
        host.address = address.replace('#', &(i + 1).to_string());
    }
}

fn connect(job: &mut Job, rank: usize, error: &str) {
    let peer = job.hosts[0].address.clone();
    let (file, text) = match job.version {
        v if v >= Version(24, 0) => (
            "misc/socket.cc:544",
            format!("socketPollConnect: connect returned {error}, exceeded error retry count (34)"),
        ),
        v if v >= Version(16, 0) => (
            "misc/socket.cc:485",
            format!("socketStartConnect: Connect to {peer}<41235> failed : {error}"),
        ),
        _ => (
            "misc/socket.cc:456",
            format!("Net : Connect to {peer}<41235> failed : {error}"),
        ),
    };
    job.warn(Phase::Init, rank, file, text);
    job.dies_in(Phase::Init);
}

causes! {
    "log/interface-missing" => |job| {
        job.env("NCCL_SOCKET_IFNAME", "ens99");
        job.info_all(Phase::Start, "NCCL_SOCKET_IFNAME set by environment to ens99");
        job.warn(Phase::Start, 0, "bootstrap.cc:126", "Bootstrap : no socket interface found");
        job.dies_in(Phase::Start);
    };
    "log/bootstrap-on-loopback" => |job| {
        everywhere(job, "lo", "127.0.0.1");
        job.env("NCCL_SOCKET_IFNAME", "^docker0");
        job.dies_in(Phase::Network);
    };
    "log/bootstrap-on-virtual" => |job| {
        everywhere(job, "virbr0", "192.168.122.1");
        job.dies_in(Phase::Network);
    };
    "log/bootstrap-on-container-address" => |job| {
        everywhere(job, "eth0", "172.17.0.#");
        job.dies_in(Phase::Network);
    };
    "log/bootstrap-on-link-local" => |job| {
        everywhere(job, "eth0", "fe80::e42:a1ff:fe0c:#%eth0");
        job.dies_in(Phase::Network);
    };
    "log/connect-refused" => |job| { let r = job.ranks() - 1; connect(job, r, "Connection refused"); };
    "log/connect-timed-out" => |job| { let r = job.ranks() - 1; connect(job, r, "Connection timed out"); };
    "log/connect-unreachable" => |job| { let r = job.ranks() - 1; connect(job, r, "No route to host"); };
    "log/foreign-connection" => |job| {
        job.warn(Phase::Init, 0, "misc/socket.cc:484", "socketFinalizeAccept: wrong magic 47455420 != 840f1304d3f4d41a");
        job.dies_in(Phase::Init);
    };
    "log/port-in-use" => |job| {
        job.warn(Phase::Init, 0, "misc/socket.cc:410", "Call to bind failed : Address already in use");
        job.dies_in(Phase::Init);
    };
    "log/name-not-resolved" => |job| {
        job.warn(Phase::Bootstrap, 0, "bootstrap.cc:443", "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>");
        job.dies_in(Phase::Bootstrap);
    };
    "log/rank-twice" => |job| {
        let ranks = job.ranks();
        job.warn(Phase::Init, 0, "bootstrap.cc:348", format!("Bootstrap Root : rank 3 of {ranks} ranks has already checked in"));
        job.dies_in(Phase::Init);
    };
    "log/files-exhausted" => |job| {
        job.warn(Phase::Channels, 5, "misc/socket.cc:728", "ncclSocketInit: Socket creation failed : Too many open files");
        job.dies_in(Phase::Channels);
    };
    "log/ranks-silent" => |job| {
        if job.version < Version(18, 3) {
            job.version = Version(20, 5);
            for host in &mut job.hosts { host.version = Version(20, 5); }
        }
        job.silent = vec![job.ranks() - 1];
        job.dies_in(Phase::Init);
    };
    "log/bootstrap-slow" => |job| {
        job.version = Version(24, 3);
        for host in &mut job.hosts { host.version = Version(24, 3); }
        let ranks = job.ranks();
        job.info(Phase::Complete, 0, format!("Init timings - ncclCommInitRank: rank 0 nranks {ranks} total 97.10 (kernels 0.21, alloc 0.80, bootstrap 95.12, allgathers 0.01, topo 0.45, graphs 0.01, connections 0.32, rest 0.00)"));
    };
    "log/tcp-broke" => |job| {
        let peer = job.hosts[0].address.clone();
        let rank = job.ranks() - 1;
        job.warn(Phase::Failure, rank, "misc/socket.cc:46", format!("socketProgressOpt: Call to recv from {peer}<48211> failed : Connection timed out"));
        job.collapse(rank);
    };
    "log/peer-gone" => |job| {
        let peer = job.hosts[0].address.clone();
        let rank = job.ranks() - 1;
        job.warn(Phase::Failure, rank, "misc/socket.cc:58", format!("socketProgress: Connection closed by remote peer {peer}<48211>"));
    };
    "log/connect-failed" => |job| { let r = job.ranks() - 1; connect(job, r, "Protocol not available"); };
    "log/initialisation-stuck" => |job| {
        job.version = Version(22, 3);
        for host in &mut job.hosts { host.version = Version(22, 3); }
        job.dies_in(Phase::Graph);
    };
}
