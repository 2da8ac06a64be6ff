//! The doctor never examines a machine. It examines a recording; a live machine is recorded first.
//!
//! ```text
//! fact            the schema: subjects, their facts, types, units, origins; three-valued knowledge
//! source          Question, Answer, Refusal, and what answers: recordings, their format, redaction
//! nccl_log        from the text of logs to recognised lines
//! live            the machine: the only code that asks it, and the child processes that hold it
//! probe           what to ask, and how to read the replies: never disturbs
//! derive          facts from facts
//! check           one TOML file a check: condition language, judge, catalogue
//! measure::plan   what a measurement is: its arms, points, runs, replies
//! measure::run    what carries a measurement out: everything that disturbs
//! cluster         who takes part: meeting, session, remote hosts
//! diagnosis       from verdicts to causes and one headline
//! report          one file a format, all from one Report value
//! cli             one file a subcommand
//! ```
//!
//! Which of them may import which is held by a test (`tests/suite/imports.rs`), and told in ARCHITECTURE.md.
//!
//! Invariants, each held by a test or a lint:
//!
//! * Only `live` asks the machine: clippy's `disallowed-methods` forbids the rest.
//! * Unknown never becomes a pass: a test drops each line of each fixture in turn.
//! * Live and replay agree, because a live check *is* a recording judged.
//! * Every probe ends: each runs in a child process with a budget, killed with its process group.
//! * Counts add up to checks × subjects: nothing is skipped quietly.
//! * The doctor changes nothing on the machine that it examines.

pub mod catch_panic;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod derive;
pub mod diagnosis;
pub mod exit;
pub mod fact;
pub mod launch;
pub mod live;
pub mod measure;
pub mod nccl_log;
mod nccl_rules;
pub mod nodeset;
pub mod probe;
pub mod report;
pub mod small_sort;
pub mod source;
