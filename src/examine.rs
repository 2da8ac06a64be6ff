//! From what was given to reports: this machine, recordings, texts, archives, trees, hosts, a launch.
//!
//! The modules are layers (`tests/suite/imports.rs`): what was given and how it is read; one node;
//! the limits of what others wrote; many nodes; and above them the ways in which nodes come here.
//! All that is told beside a report passes through a [`sink::Sink`].

mod baseline;
pub mod budget;
pub mod examination;
mod found_files;
mod fresh_recordings;
pub mod given;
pub mod hosts;
mod inputs;
pub mod job_on_hosts;
pub mod launch;
pub mod live_job;
pub mod log;
pub mod many;
pub mod one;
pub mod plan;
pub mod recorded_input;
pub mod recording_text;
pub mod sink;
pub mod unusable;
pub mod ways_message;

use crate::exit::Exit;
use crate::live::{clock, deadline, judging_child};
use budget::REPORTING;
use examination::{Examination, Show};
use given::{Given, HostsRequest, LaunchRequest};
use launch::Outcome;

/// Examines what was given and has the reports shown; where others wrote it, in a child.
///
/// # Errors
///
/// What cannot be expressed as a report: unreadable input, a contradiction, and those of `show`.
pub fn examine(examination: &Examination<'_>, show: Show<'_>) -> anyhow::Result<Exit> {
    match examination.given.as_slice() {
        [Given::Hosts(request)] => of_hosts(examination, request, show),
        [Given::Launch(request)] => of_launch(examination, request, show),
        _ => inputs::examine(examination, show),
    }
}

fn of_hosts(
    examination: &Examination<'_>,
    request: &HostsRequest,
    show: Show<'_>,
) -> anyhow::Result<Exit> {
    let (memory, sink) = (examination.memory, examination.sink);
    let catalogue = (examination.checks.read)()?;
    if let Some(deadline) = examination.deadline {
        deadline::end_after(deadline + request.wait + REPORTING);
    }
    let most = request.machine.deadline() + request.wait;
    let begun = clock::now();
    let given = hosts::gather(request, memory, sink);
    // A deadline that was named holds for both together.
    let from = match examination.deadline {
        Some(_) => begun,
        None => clock::now(),
    };
    let ways = hosts::try_ways(request, &given, from + most, sink);
    budget::bounded(Some(memory), sink, || {
        let (names, policy) = (&request.names, examination.policy);
        let report = hosts::of_hosts(&catalogue, names, &given, ways.as_ref(), memory, policy)?;
        show(&[report])
    })
}

/// Takes part in a launch; rank 0 judges all, and tells the others.
fn of_launch(
    examination: &Examination<'_>,
    request: &LaunchRequest,
    show: Show<'_>,
) -> anyhow::Result<Exit> {
    let (memory, sink) = (examination.memory, examination.sink);
    let catalogue = (examination.checks.read)()?;
    if let Some(deadline) = examination.deadline {
        let answering = deadline + request.wait;
        let of_all = answering + REPORTING;
        // A node of another rank may wait as long for rank 0 to begin.
        deadline::end_after(if request.place.own.rank > 0 {
            answering + of_all
        } else {
            of_all
        });
    }
    let nodes = match launch::run(request, memory, &catalogue.limits, sink)? {
        Outcome::VerdictOfRank0(exit) => return Ok(exit),
        Outcome::Gathered(nodes) => nodes,
    };
    let exit = budget::bounded(Some(memory), sink, || {
        let report = nodes.judged(&catalogue, memory, examination.policy);
        let headline = report.headline.to_string();
        let exit = show(&[report])?;
        judging_child::note(&headline);
        Ok(exit)
    })?;
    let headline = judging_child::noted();
    if !headline.is_empty() {
        nodes.send_verdict(headline, exit, sink);
    }
    Ok(exit)
}
