//! The facts of an entry of NCCL_IB_HCA or NCCL_SOCKET_IFNAME.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// An entry of NCCL_IB_HCA or NCCL_SOCKET_IFNAME.
    Selector = "selector" from "derive nccl";

    /// The variable that it is in.
    VARIABLE: Arc<str> = "variable" from "derive nccl";
    /// What it says: a name, or the beginning of names, with the port where one is named.
    TOKEN: Arc<str> = "token" from "derive nccl";
    /// Whether it leaves out what it names: the list begins with ^.
    EXCLUDES: bool = "excludes" from "derive nccl";
    /// How many RDMA ports, or interfaces, it names, whatever their state.
    MATCHES: u64 = "matches" from "derive nccl";
    /// The RDMA ports or interfaces that it names by their whole name: mlx5_1 names mlx5_1, and not mlx5_10.
    NAMED: Arc<[Arc<str>]> = "named" from "derive nccl";
    /// The RDMA ports or interfaces that it names.
    MATCHED: Arc<[Arc<str>]> = "matched" from "derive nccl";
    /// The name of this node that is nearest to it; "none" if none is near.
    NEAREST: Arc<str> = "nearest" from "derive nccl";
    /// Whether it is a whole name, and the beginning of longer ones too: mlx5_1 also names mlx5_10.
    ALSO_LONGER: bool = "also_longer" from "derive nccl";
    /// The longer names.
    LONGER: Arc<[Arc<str>]> = "longer" from "derive nccl";
    /// Whether ports that it names by their whole name are not active. NCCL leaves them out in silence.
    NAMES_INACTIVE: bool = "names_inactive" from "derive nccl";
    /// The ports that it names and that are not active.
    INACTIVE: Arc<[Arc<str>]> = "inactive" from "derive nccl";
}
