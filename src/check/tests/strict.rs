//! Rules that built-in checks must satisfy beyond being valid.

use crate::check::example::{Expected, try_example};
use crate::check::{Catalogue, Check, Example, Severity, Variant, glob};
use crate::fact::limit;

/// The words of a predicate have room in 80 columns behind the severity; names become short.
const LONGEST_PREDICATE: usize = 80 - 9;

/// Letters that an explanation has at least.
const SHORTEST_WHY: usize = 40;

/// Words that no finding and no remedy has: a report states, it does not beg.
const UNWANTED: [&str; 3] = ["should", "please", "!"];

/// The roles that can act.
const ACTORS: [&str; 3] = ["(operator)", "(user)", "(site)"];

/// All that is wrong with the catalogue, one line each.
pub(super) fn complaints(catalogue: &Catalogue) -> Vec<String> {
    let mut found = Vec::new();
    for check in &catalogue.checks {
        let mut complain = |what: String| found.push(format!("{}: {what}", check.path));
        words(check, &mut complain);
        remedy(check, &mut complain);
        relations(check, catalogue, &mut complain);
        match check.examples() {
            Ok(examples) => shown(check, &examples, &mut complain),
            Err(error) => complain(error.to_string()),
        }
    }
    found
}

fn words(check: &Check, complain: &mut impl FnMut(String)) {
    if check.id.split('/').count() != 2 {
        complain("the file stands in no directory of its own kind".into());
    }
    if check.title.trim().len() < 10 || check.title.ends_with('.') {
        complain("`title` names the problem, without a full stop".into());
    }
    if (check.severity == Severity::Note) != check.impact.is_none() {
        complain("an error and a warning have an `impact`, a note has none".into());
    }
    if check.advice().why.letters() < SHORTEST_WHY {
        complain(format!("`why` has fewer than {SHORTEST_WHY} letters"));
    }
    if check.advice().why.to_string().contains('{') {
        complain("`why` is printed as it stands: a fact belongs to `finding` or `fix`".into());
    }
    if check.finding().source().contains('\n') || check.finding().source().trim().is_empty() {
        complain("`finding` is one sentence".into());
    }
    if check.finding().predicate_letters() > LONGEST_PREDICATE {
        complain(format!(
            "`finding` has more than {LONGEST_PREDICATE} letters before its first `|`"
        ));
    }
    if !check.advice().see.iter().any(|url| url.starts_with("http")) {
        complain("`see` names no page".into());
    }
    for (key, text) in [
        ("title", &*check.title),
        ("finding", check.finding().source()),
        ("fix", check.advice().fix.source()),
    ] {
        // `!=` in a command is no exclamation.
        let text = text.replace("!=", "").to_lowercase();
        let mut found = UNWANTED.iter().filter(|word| has_word(&text, word));
        if let Some(word) = found.next() {
            complain(format!("`{key}` says `{word}`"));
        }
    }
}

/// Whether a text has a word, and not only as part of another.
fn has_word(text: &str, word: &str) -> bool {
    let letters = word.chars().all(char::is_alphabetic);
    let inner = |c: Option<char>| letters && c.is_some_and(char::is_alphabetic);
    text.match_indices(word).any(|(at, _)| {
        !inner(text[..at].chars().next_back()) && !inner(text[at + word.len()..].chars().next())
    })
}

/// Remedy steps are numbered from 1, and each names the role that acts.
fn remedy(check: &Check, complain: &mut impl FnMut(String)) {
    let mut steps = 0;
    for line in check.advice().fix.source().lines() {
        let Some((number, rest)) = line.split_once(". ") else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else {
            continue;
        };
        steps += 1;
        if number != steps {
            complain(format!("step {number} of `fix` is number {steps}"));
        }
        if !ACTORS.iter().any(|actor| rest.starts_with(actor)) {
            complain(format!(
                "step {number} of `fix` names none of {}",
                ACTORS.join(", ")
            ));
        }
    }
    if steps == 0 {
        complain("`fix` has no numbered step".into());
    }
}

fn relations(check: &Check, catalogue: &Catalogue, complain: &mut impl FnMut(String)) {
    for pattern in &check.explains {
        let mut others = catalogue.checks.iter().filter(|c| c.case != check.case);
        if !others.any(|other| other.is_named(pattern)) {
            complain(format!(
                "`explains` names `{pattern}`, which no other check has"
            ));
        }
        if !glob::is_pattern(pattern) && catalogue.get(pattern).is_some_and(|c| c.explains(check)) {
            complain(format!("it and `{pattern}` explain each other"));
        }
    }
    for (name, _) in &check.limits {
        let is_named = check.source.contains(&format!("limit.{name}"));
        if !is_named && !limit::READ.contains(&(&*check.case, &**name)) {
            complain(format!("nothing reads its limit `{name}`"));
        }
    }
    let mut facts = check.conditions().flat_map(|c| c.facts());
    if !facts.any(|(subject, _)| subject == check.subject) {
        complain(format!(
            "no condition names a fact of subject {}",
            check.subject.name()
        ));
    }
}

/// Each example holds, and none turns into its opposite if a fact is missing. The examples and what follows from them show each verdict, and
/// that each fact of a condition decides somewhere: one that decides nothing may be wrong unseen.
fn shown(check: &Check, examples: &[Example], complain: &mut impl FnMut(String)) {
    let mut shown: Vec<Expected> = Vec::new();
    let mut decides: Vec<String> = Vec::new();
    for example in examples {
        if let Err(problem) = try_example(check, example) {
            complain(problem);
        }
        shown.push(example.verdict);
        for Variant {
            fact,
            value,
            verdict,
        } in check.variants(example)
        {
            let is_open = matches!(verdict, Expected::Unknown | Expected::FailsIf);
            if value.is_none() && verdict != example.verdict && !is_open {
                let (line, says) = (example.line, verdict.word());
                complain(format!("without `{fact}`, line {line} says {says}"));
            }
            if value.is_some() && verdict != example.verdict {
                decides.push(fact);
            }
            if example.verdict.is_failure() {
                shown.push(verdict);
            }
        }
    }
    let premise = check.premises.iter().map(|_| Expected::FailsIf);
    let always = [Expected::Fails, Expected::Passes, Expected::Unknown];
    for wanted in always.into_iter().chain(premise) {
        if !shown.contains(&wanted) {
            complain(format!("no example shows `{}`", wanted.word()));
        }
    }
    for (subject, index) in check.conditions().flat_map(|c| c.facts()) {
        let schema = subject.schema();
        let fact = format!("{}.{}", schema.name, schema.facts[index].name);
        if !decides.contains(&fact) {
            complain(format!("no example shows that `{fact}` decides"));
        }
    }
}
