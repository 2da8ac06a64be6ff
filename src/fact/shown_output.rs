//! The facts of an output that several hosts of a text printed.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// What a command printed that several hosts of a text ran, in a few lines.
    ShownOutput = "shown_output" from "outputs";

    /// The command with its arguments, as the text shows it.
    COMMAND: Arc<str> = "command" from "outputs";
    /// The lines that the node printed.
    LINES: Arc<[Arc<str>]> = "lines" from "outputs";
}
