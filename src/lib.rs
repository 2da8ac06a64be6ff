//! The doctor never examines a machine. It examines a recording; a live machine is recorded first.
//!
//! ```text
//! fact            the schema: subjects, their facts, types, units, origins; three-valued knowledge
//! source          Question, Answer, Refusal; recordings, their format, redaction
//! trace           reads what ranks recorded of their collectives
//! nccl_log        reads NCCL's logs into recognised lines
//! live            the only code that asks the machine, and the child processes that isolate it
//! probe           asks questions and parses the replies into facts: never disturbs
//! derive          computes facts from facts
//! check           one TOML file a check: condition language, judge, catalogue
//! measure::plan   plans of measurements: arms, points, runs, replies
//! measure::run    carries measurements out: everything that disturbs
//! cluster         the nodes of a run: rendezvous, gather tree, session, remote hosts
//! diagnosis       groups verdicts into causes and one headline
//! sentence        sentences as data, and quoting for a shell
//! report          one file a format, all from one Report value
//! cli             one file a subcommand
//! ```
//!
//! A test (`tests/suite/imports.rs`) checks which module may import which; ARCHITECTURE.md explains it.
//!
//! Invariants, each checked by a test or a lint:
//!
//! * Only `live` asks the machine: clippy's `disallowed-methods` forbids the rest.
//! * Unknown never becomes a pass: a test drops each line of each fixture in turn.
//! * Live and replay agree, because a live check *is* a recording judged.
//! * Every probe ends: each runs in a child process with a budget, killed with its process group.
//! * Counts add up to checks × subjects: nothing is skipped silently.
//! * The doctor changes nothing on the machine that it examines.

pub mod catch_panic;
pub mod check;
pub mod cli;
pub mod cluster;
mod cpu_list;
pub mod derive;
pub mod diagnosis;
pub mod examine;
pub mod exit;
pub mod fact;
pub mod launch;
pub mod left_out;
pub mod live;
pub mod measure;
pub mod nccl_log;
mod nccl_rules;
pub mod network;
pub mod nodeset;
pub mod probe;
pub mod report;
pub mod sentence;
pub mod small_sort;
pub mod source;
pub mod terminal;
pub mod tool_output;
pub mod trace;
pub mod whole;
