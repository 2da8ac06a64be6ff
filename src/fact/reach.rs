//! The facts of ways between nodes that were tried.

use std::sync::Arc;

use super::schema::subject;
use super::suspect::SuspectProblem;
use crate::sentence::Sentence;
use crate::sentence::shell::Command;

subject! {
    /// What is accused by ways between nodes that were tried: the fewest nodes, adapters or pairs that explain all that failed.
    Reach = "reach" from "derive reach";

    /// What is wrong with it.
    PROBLEM: SuspectProblem = "problem" from "derive reach";
    /// What is accused: a node, its adapter as `n2/mlx5_1/1`, or two ends.
    NAME: Arc<str> = "name" from "derive reach";
    /// The observation, in a sentence that names the observers.
    WHAT: Sentence = "what" from "derive reach";
    /// The nodes at both ends of the ways that failed.
    HOSTS: Arc<[Arc<str>]> = "hosts" from "derive reach";
    /// Of packets that are too large: the commands that set the receiver's MTU where its own is too small, else those that show the hop that takes less.
    MTU_COMMANDS: Arc<[Command]> = "mtu_commands" from "derive reach";
    /// Of packets that are too large: whether connections open over these ways and stall at their first large message.
    STALLS: bool = "stalls" from "derive reach";
}
