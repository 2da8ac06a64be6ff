//! The facts of storage that can use RDMA: a mounted file system, or an NVMe controller on the network.

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
    /// Storage that can use RDMA: a mounted file system, or an NVMe controller on the network.
    Mount = "mount" from "storage";

    /// beegfs, lustre, nfs, cifs, gpfs, wekafs or nvme.
    KIND: Arc<str> = "kind" from "storage";
    /// How its data travel. Source: NFS and SMB: the mount's options; BeeGFS: /proc/fs/beegfs/*/storage_nodes, meta_nodes; Lustre: the NIDs
    /// of its connections (osc/*/ost_conn_uuid, mdc/*/mds_conn_uuid); NVMe: sysfs transport.
    TRANSPORT: MountTransport = "transport" from "storage";
    /// Whether something asks for RDMA here. Source: BeeGFS: connUseRDMA; Lustre: an o2ib NID in the mount's source; NFS: /etc/fstab.
    RDMA_WANTED: bool = "rdma_wanted" from "storage";
    /// BeeGFS: connections to servers over TCP. Source: /proc/fs/beegfs/*/storage_nodes, meta_nodes.
    TCP_CONNECTIONS: u64 = "tcp_connections" from "storage";
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
    /// NFS: the smaller of the sizes of a read and of a write. Source: rsize, wsize of the mount.
    IO_SIZE: Bytes = "io_size" from "storage";
    /// NVMe: the state of the controller: live, connecting, resetting, deleting. Source: /sys/class/nvme/*/state.
    STATE: Arc<str> = "state" from "storage";
}
