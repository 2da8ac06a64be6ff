//! The facts of a variable that NCCL's log shows in effect.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// How the line names the variable.
    pub enum VariableMention {
        /// It is set to this value.
        Set = "set",
        /// Its value could not be read, and the default is used.
        Invalid = "invalid",
        /// It is known and has no effect any more.
        Unused = "unused",
        /// It is going away.
        Deprecated = "deprecated",
    }
}

subject! {
    /// A variable that the log of a host shows in effect. NCCL logs one when it reads it: others may be set too.
    Env = "env" from "nccl_log";

    /// The name of the variable.
    NAME: Arc<str> = "name" from "nccl_log";
    /// Its value, as printed.
    VALUE: Arc<str> = "value" from "nccl_log";
    /// Its value as a number, if it is one.
    NUMBER: u64 = "number" from "nccl_log";
    /// How the line names it.
    MENTION: VariableMention = "mention" from "nccl_log";
    /// Devices that an entry of NCCL_IB_HCA matches besides the one that it names: mlx5_10 by `mlx5_1`.
    ALSO_MATCHES: Arc<[Arc<str>]> = "also_matches" from "derive log";
    /// How many these are.
    ALSO_MATCHES_COUNT: u64 = "also_matches_count" from "derive log";
    /// Other hosts of the run that log their variables, and not this one.
    MISSING_ON: Arc<str> = "missing_on" from "derive log";
    /// How many these are.
    MISSING_ON_COUNT: u64 = "missing_on_count" from "derive log";
    /// Whether the GID table that the text shows of this host has an entry at the index that NCCL_IB_GID_INDEX chooses.
    GID_LISTED: bool = "gid_listed" from "derive log";
    /// Whether the plugin that NCCL_NET_PLUGIN names is among the files that this host looked for and did not find.
    PLUGIN_MISSING: bool = "plugin_missing" from "derive log";
}
