//! Every text whose cause is held, in each form in which people and collectors hand it on: the check that leads may not change.
//!
//! `forms/missed.txt` names what is not held yet, as `form: text`: a line of it that is held fails the test, so that the list only gets
//! shorter. `RDMA_DOCTOR_LOG_FORM=words` runs only the forms whose names begin so, over all texts.

mod rewritten;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rdma_doctor::examine::log;
use rdma_doctor::report::Policy;
use rdma_doctor::source::recording::Recording;

use self::rewritten::{FORMS, Form};
use super::cases::Case;
use super::symptoms::{self, Truth, leader};
use crate::sample;

/// What became of the texts in one form.
#[derive(Clone, Copy, Default)]
struct Score {
    same: usize,
    lost: usize,
    other: usize,
}

/// The check that leads in a recording of a log.
fn lead(recording: Recording) -> String {
    let log = log::judged(symptoms::catalogue(), &[recording], &Policy::default());
    leader(&log).to_owned()
}

fn recording(files: &[(String, String)]) -> Recording {
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    super::recording(&files)
}

/// The files of a text in this form; `None` where the form leaves one of them as it is.
fn rewritten(case: &Case, form: &Form) -> Option<Vec<(String, String)>> {
    let files: Vec<(String, String)> = case
        .files
        .iter()
        .map(|(name, text)| (name.clone(), (form.write)(text)))
        .collect();
    (files != case.files).then_some(files)
}

#[test]
fn no_form_of_a_text_changes_its_cause_properties() {
    let missed = include_str!("forms/missed.txt");
    let missed: BTreeSet<&str> = missed.lines().filter(|line| !line.is_empty()).collect();
    let wanted = std::env::var("RDMA_DOCTOR_LOG_FORM").ok();
    let cases: Vec<(Case, Truth)> = symptoms::all()
        .into_iter()
        .map(|case| {
            let truth = Truth::of(&case);
            (case, truth)
        })
        .filter(|(case, truth)| {
            !truth.first.is_empty() && truth.first.contains(&lead(recording(&case.files)))
        })
        .collect();
    let step = match wanted {
        Some(_) => 1,
        None => sample::one_in(23),
    };
    let (mut scores, mut wrong) = (BTreeMap::<&str, Score>::new(), String::new());
    for (number, form) in FORMS.iter().enumerate() {
        if wanted
            .as_ref()
            .is_some_and(|wanted| !form.name.starts_with(wanted))
        {
            continue;
        }
        let score = scores.entry(form.name).or_default();
        let chosen = cases.iter().enumerate();
        for (_, (case, truth)) in chosen.filter(|(at, _)| (at + number) % step == 0) {
            let Some(files) = rewritten(case, form) else {
                continue;
            };
            let name = format!("{}: {}: {}", form.name, case.rule, case.title);
            let lead = lead(recording(&files));
            let is_same = truth.first.contains(&lead);
            if is_same {
                score.same += 1;
            } else if lead == "none" {
                score.lost += 1;
            } else {
                score.other += 1;
            }
            match (is_same, missed.contains(name.as_str())) {
                (true, false) => {}
                (false, true) => println!("{name}\n  {lead}, not {:?}", truth.first),
                (true, true) => {
                    let _ = writeln!(wrong, "{name}\n  is held, and stands in missed.txt");
                }
                (false, false) => {
                    let _ = writeln!(wrong, "{name}\n  {lead}, not {:?}", truth.first);
                }
            }
        }
    }
    let all = scores.iter().fold(Score::default(), |all, (name, score)| {
        println!(
            "{name}: {} same, {} lost, {} other",
            score.same, score.lost, score.other
        );
        Score {
            same: all.same + score.same,
            lost: all.lost + score.lost,
            other: all.other + score.other,
        }
    });
    println!(
        "{} texts: {} same, {} lost, {} other",
        cases.len(),
        all.same,
        all.lost,
        all.other
    );
    assert!(all.same > 0, "no form has such a name");
    assert!(wrong.is_empty(), "{wrong}");
}
