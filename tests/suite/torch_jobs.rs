//! Jobs of PyTorch over gloo on three nodes with two ranks each: what a rank does that keeps the others waiting is named, with its node; a job
//! that works is left alone.
//!
//! Needs what `jobs_of_nodes` needs, and PyTorch for the system's Python (`tests/install-deps torch`); elsewhere the tests are skipped and say so.

use std::io::Write as _;
use std::path::Path;

use crate::jobs_of_nodes::{Nodes, Program};
use crate::namespaces::shell;
use crate::process::wait_for_file;
use crate::running_jobs::py_spy;

const GLOO: Program = Program {
    python: "/usr/bin/python3",
    script: "gloo.py",
};

/// All of its nodes.
const ALL: &str = "n[1-3]";

fn start(deed: &str) -> Option<Nodes> {
    let (can, why) = shell("/usr/bin/python3 -c 'import torch.distributed'");
    if !can {
        let _ = writeln!(std::io::stderr(), "skipped: no PyTorch: {why}");
        return None;
    }
    Nodes::start_program(GLOO, deed)
}

/// Waits until rank 3 did it, and the other ranks wait.
fn reaches(nodes: &Nodes) {
    wait_for_file(&nodes.folder.join("at.3"));
    nodes.wait(&[0, 1, 2, 4, 5]);
}

#[test]
fn jobs_that_work_are_called_working() {
    for deed in ["", "slow", "checkpoint"] {
        let Some(nodes) = start(deed) else {
            return;
        };
        nodes.works();
        let mut late = 0;
        for _ in 0..10 {
            let said = nodes.said(ALL);
            assert_eq!(said.exit, 0, "{deed}: {}", said.all);
            assert!(
                said.headline.contains("working: 6 ranks"),
                "{deed}: {}",
                said.headline
            );
            late += u32::from(said.headline.contains(&format!(
                "; the others wait for rank 3 (n2, pid {})",
                nodes.pid(3)
            )));
        }
        // It is elsewhere in some of the looks: nine of ten parts of a step it sleeps.
        assert_eq!(late > 0, deed == "slow", "{deed}: {late}");
    }
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    let Some(nodes) = start("stop") else {
        return;
    };
    reaches(&nodes);
    let said = nodes.said(ALL);
    let (check, sentence) = &said.causes[0];
    assert_eq!(
        (check.as_str(), said.exit),
        ("ranks/stopped", 2),
        "{}",
        said.all
    );
    let begin = format!("rank 3 (n2, pid {}) is stopped by a signal", nodes.pid(3));
    assert!(sentence.starts_with(&begin), "{sentence}");
}

#[test]
fn a_rank_that_was_killed_is_named() {
    let Some(nodes) = start("") else {
        return;
    };
    nodes.works();
    // Its neighbours end of themselves when its connections break; stopped, they cannot.
    for rank in [0, 1, 2, 4, 5] {
        assert!(nodes.on(rank / 2 + 1, &format!("kill -STOP {}", nodes.pid(rank))));
    }
    assert!(nodes.on(2, &format!("kill -9 {}", nodes.pid(3))));
    for rank in [0, 1, 2, 4, 5] {
        assert!(nodes.on(rank / 2 + 1, &format!("kill -STOP {}", nodes.pid(rank))));
    }
    let said = nodes.said(ALL);
    let missing = said
        .causes
        .iter()
        .find(|(check, _)| check == "ranks/missing");
    let (_, sentence) = missing.unwrap_or_else(|| panic!("{}", said.all));
    assert!(
        sentence.starts_with("without a process: rank 3 (n2)"),
        "{sentence}"
    );
}

#[test]
fn a_rank_that_sleeps_is_named() {
    let Some(nodes) = start("sleep") else {
        return;
    };
    reaches(&nodes);
    let said = nodes.said(ALL);
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/differs", "{}", said.all);
    let begin = format!(
        "rank 3 (n2, pid {}) sleeps (nanosleep); the other 5 wait in ",
        nodes.pid(3)
    );
    assert!(sentence.starts_with(&begin), "{sentence}");
}

#[test]
fn a_rank_whose_loader_brings_nothing_is_named() {
    let Some(nodes) = start("loader") else {
        return;
    };
    reaches(&nodes);
    let said = nodes.said(ALL);
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/differs", "{}", said.all);
    let begin = format!("rank 3 (n2, pid {}) ", nodes.pid(3));
    assert!(sentence.starts_with(&begin), "{sentence}");
    assert!(sentence.contains("; its process "), "{sentence}");
    assert!(sentence.ends_with(" waits to open a FIFO"), "{sentence}");
}

#[test]
fn a_rank_in_another_collective_is_named_by_its_stack() {
    let (Some(nodes), Some(py_spy)) = (start("other"), py_spy()) else {
        return;
    };
    reaches(&nodes);
    let stacks = format!("--stacks={}", py_spy.display());
    let said = nodes.said_with(ALL, &[&stacks]);
    let (check, sentence) = &said.causes[0];
    assert_eq!(check, "ranks/differs", "{}", said.all);
    let begin = format!(
        "rank 3 (n2, pid {}) waits in barrier, called by train (gloo.py:",
        nodes.pid(3)
    );
    assert!(sentence.starts_with(&begin), "{sentence}");
    assert!(
        sentence.contains("the other 5 in all_reduce, called by reduce (gloo.py:"),
        "{sentence}"
    );
}

#[test]
fn ranks_that_end_for_another_size_are_named_gone() {
    let Some(nodes) = start("size") else {
        return;
    };
    wait_for_file(&nodes.folder.join("at.3"));
    let said = nodes.said(ALL);
    assert!(
        said.causes
            .iter()
            .any(|(check, _)| check.starts_with("ranks/")),
        "{}",
        said.all
    );
    assert!(Path::new(&nodes.folder.join("at.3")).exists());
}
