//! Which lines of the kernel's log a recording keeps.

/// What a line has to contain to be answered. A class of lines that is distinguished later contains one of these.
pub const MARKERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/kernel_log_markers.markers.rs"));

/// Lines of one kind that a recording keeps at most; of more it has the first and the last.
pub const MOST_OF_KIND: usize = 120;
