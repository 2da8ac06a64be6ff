//! The facts of storage that can use RDMA: a mounted file system, an NVMe controller on the network, or an iSCSI session.

use std::sync::Arc;

use super::Bytes;
use super::schema::subject;
use super::value::words;

words! {
    /// How the data of a mount travel.
    pub enum MountTransport {
        /// Over RDMA.
        Rdma = "rdma",
        /// Over TCP.
        Tcp = "tcp",
        /// Over UDP.
        Udp = "udp",
        /// Over RDMA to some servers, over TCP to others.
        Mixed = "mixed",
        /// No connection is open.
        None = "none",
    }
}

subject! {
    /// Storage that can use RDMA: a mounted file system, an NVMe controller on the network, or an iSCSI session.
    Mount = "mount" from "storage";

    /// beegfs, lustre, nfs, cifs, gpfs, wekafs, nvme or iscsi.
    KIND: Arc<str> = "kind" from "storage";
    /// How its data travel. Source: NFS and SMB: the mount's options; BeeGFS: /proc/fs/beegfs/*/storage_nodes, meta_nodes; Lustre: the NIDs
    /// of its connections (osc/*/ost_conn_uuid, mdc/*/mds_conn_uuid); NVMe: sysfs transport; iSCSI: proc_name of its SCSI host.
    TRANSPORT: MountTransport = "transport" from "storage";
    /// Whether something asks for RDMA here. Source: BeeGFS: connUseRDMA; Lustre: an o2ib NID in the mount's source; NFS: /etc/fstab;
    /// NVMe over TCP: the module nvme_rdma is loaded.
    RDMA_WANTED: bool = "rdma_wanted" from "storage";
    /// BeeGFS: connections to servers over TCP. Source: /proc/fs/beegfs/*/storage_nodes, meta_nodes.
    TCP_CONNECTIONS: u64 = "tcp_connections" from "storage";
    /// BeeGFS: of those, the ones to storage servers. Source: /proc/fs/beegfs/*/storage_nodes.
    STORAGE_TCP: u64 = "storage_tcp" from "storage";
    /// BeeGFS: of those, the ones to metadata servers. Source: /proc/fs/beegfs/*/meta_nodes.
    META_TCP: u64 = "meta_tcp" from "storage";
    /// BeeGFS: of those, the ones to addresses that the list connTcpOnlyFilterFile does not keep on TCP.
    TCP_UNASKED: u64 = "tcp_unasked" from "storage";
    /// BeeGFS: connections to servers over RDMA. Source: as tcp_connections.
    RDMA_CONNECTIONS: u64 = "rdma_connections" from "storage";
    /// BeeGFS: servers that are reached by another of their interfaces than the preferred one. Source: `[fallback route]` in the same files.
    FALLBACK_ROUTES: u64 = "fallback_routes" from "storage";
    /// BeeGFS: size of an RDMA buffer. Source: connRDMABufSize in /proc/fs/beegfs/*/config.
    BUFFER_SIZE: Bytes = "buffer_size" from "storage";
    /// BeeGFS: whether the size of an RDMA buffer is a multiple of 4 KiB, as it has to be.
    BUFFER_OF_PAGES: bool = "buffer_of_pages" from "storage";
    /// BeeGFS: number of RDMA buffers of a connection. Source: connRDMABufNum in /proc/fs/beegfs/*/config.
    BUFFERS: u64 = "buffers" from "storage";
    /// BeeGFS: whether all files are there that the client's configuration names: connInterfacesFile, connRDMAInterfacesFile,
    /// connNetFilterFile, connTcpOnlyFilterFile.
    LISTS_THERE: bool = "lists_there" from "storage";
    /// BeeGFS: the files that the client's configuration names and that are not there.
    LISTS_ABSENT: Arc<[Arc<str>]> = "lists_absent" from "storage";
    /// Lustre: whether LNet has an interface over RDMA that is up. Source: /sys/kernel/debug/lnet/nis.
    LNET_RDMA: bool = "lnet_rdma" from "storage";
    /// Lustre: whether one of LNet's interfaces over RDMA is down. Source: /sys/kernel/debug/lnet/nis.
    LNET_DOWN: bool = "lnet_down" from "storage";
    /// Lustre: LNet's interfaces over RDMA that are down, by their NIDs.
    LNETS_DOWN: Arc<[Arc<str>]> = "lnets_down" from "storage";
    /// NVMe: the state of the controller: live, connecting, resetting, deleting. Source: /sys/class/nvme/*/state. iSCSI: the state of the
    /// session: LOGGED_IN, FAILED, FREE. Source: /sys/class/iscsi_session/*/state.
    STATE: Arc<str> = "state" from "storage";
}
