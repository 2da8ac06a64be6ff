//! What strangers send: recordings, logs, names of files, an environment, messages of other nodes. None of it may act on the terminal, on memory, or on
//! files of the examining machine.

mod bombs;
mod call_filter;
mod denied;
mod dialogue;
mod escapes;
mod judging;
mod knocking;
mod libraries;
mod limits;
mod machine;
mod outputs;
mod privileges;
mod trees;
