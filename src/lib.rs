//! The doctor never examines a machine. It examines a recording; a live machine is recorded first.
//!
//! ```text
//! source     asking a machine: live, a recording, a recorder around either        knows nobody
//! probe      what to ask, and how to read the replies; one file a subject         knows source, fact
//! fact       the schema: subjects, their facts, types, units, origins             knows source's questions
//! bench      what is measured on request, and what its numbers are worth          knows source, fact, probe
//! derive     facts from facts                                                     knows fact
//! check      one TOML file a check: condition language, judge, catalogue          knows fact
//! diagnosis  from verdicts to causes and one headline                             knows check
//! report     one file a format, all from one Report value                         knows diagnosis
//! cli        one file a subcommand                                                knows all
//! ```
//!
//! Invariants, each held by a test or a lint:
//!
//! * Only `source::live` (and the worker that runs it) asks the machine: clippy's `disallowed-methods` forbids the rest.
//! * Unknown never becomes a pass: a test drops each line of each fixture in turn.
//! * Live and replay agree, because a live check *is* a recording judged.
//! * Every probe ends: each runs in a child process with a budget, killed with its process group.
//! * Counts add up to checks × subjects: nothing is skipped quietly.
//! * The doctor changes nothing on the machine that it examines.

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
pub mod nodeset;
pub mod order;
pub mod probe;
pub mod quiet;
pub mod report;
pub mod source;
