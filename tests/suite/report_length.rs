//! How long and how wide the text reports of all fixtures and clusters are.

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::many;
use rdma_doctor::report::text::{self, Detail};
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::sentence::{Sentence, Span};
use rdma_doctor::source::recording::Recording;

use crate::clusters::{self, list};
use crate::fixtures::fixtures;

/// A report as lines.
fn lines(report: &Report, detail: Detail, width: usize) -> Vec<String> {
    let mut page = Vec::new();
    text::write(&mut page, report, detail, width).unwrap();
    let page = String::from_utf8(page).unwrap();
    page.lines().map(str::to_owned).collect()
}

/// The report of each fixture and cluster, by its name.
fn reports() -> Vec<(String, Report)> {
    let catalogue = Catalogue::embedded().unwrap();
    let fixtures = fixtures().into_iter().map(|path| {
        let recording = Recording::open(&path).unwrap();
        let report = many::judged(&catalogue, &[recording], &Policy::default());
        (path.display().to_string(), report)
    });
    let clusters = list::all().into_iter().map(|path| {
        let report = clusters::judged(&catalogue, &list::open(&path));
        (path.display().to_string(), report)
    });
    let all: Vec<(String, Report)> = fixtures.chain(clusters).collect();
    assert!(all.len() > 150, "{} reports", all.len());
    all
}

/// The lines that are wider than they may be: a command is pasted, and a word is not broken.
fn wide(lines: &[String], width: usize) -> impl Iterator<Item = &String> {
    lines.iter().skip(1).filter(move |line| {
        let is_command = line.starts_with("            ") || line.starts_with("explain ");
        let longest = line.split(' ').map(str::len).max().unwrap_or(0);
        line.chars().count() > width && !is_command && longest < width / 2
    })
}

/// Each page is short, and none is wider than the terminal.
fn is_read_at_once(reports: &[(String, Report)]) {
    let all = reports.iter();
    let mut all: Vec<(&String, Vec<String>)> = all
        .map(|(name, report)| (name, lines(report, Detail::default(), 100)))
        .collect();
    all.sort_by_key(|(_, lines)| lines.len());
    for (name, lines) in &all {
        let length = lines[0].chars().count();
        assert!(length <= 120, "{name}: {length}: {}", lines[0]);
        let wide: Vec<&String> = wide(lines, 100).collect();
        assert!(wide.is_empty(), "{name}: {wide:?}");
    }
    let lines = |at: usize| all[at.min(all.len() - 1)].1.len();
    let (median, most) = (lines(all.len() / 2), lines(all.len() * 9 / 10));
    let (name, longest) = all.last().unwrap();
    // Of logs, with the line that proves whether RDMA was used.
    assert!(
        median <= 26 && most <= 60 && longest.len() <= 120,
        "median {median}, 90th percentile {most}, longest {} ({name})",
        longest.len()
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let catalogue = Catalogue::embedded().unwrap();
    for name in [
        "modelled-gpu-node-faults",
        "modelled-ib-kernel-log",
        "modelled-roce-firewall",
        "modelled-settings-of-another-cluster",
    ] {
        let root = env!("CARGO_MANIFEST_DIR");
        let path = format!("{root}/fixtures/{name}.jsonl");
        let recording = Recording::open(path.as_ref()).unwrap();
        let report = many::judged(&catalogue, &[recording], &Policy::default());
        let rendered = |detail, width| lines(&report, detail, width);
        for width in [60, 80, 120] {
            let lines = rendered(Detail::default(), width);
            let wide: Vec<&String> = wide(&lines, width).collect();
            assert!(wide.is_empty(), "{name} at {width}: {wide:?}");
        }
        let whole = rendered(Detail::default(), 80);
        let height = Some(whole.len() - 1);
        let repeated = rendered(
            Detail {
                height,
                ..Detail::default()
            },
            80,
        );
        assert_eq!(repeated.last(), whole.first(), "what stays on the screen");
        let height = Some(whole.len());
        assert_eq!(
            rendered(
                Detail {
                    height,
                    ..Detail::default()
                },
                80
            ),
            whole
        );
    }
}

/// Our own words of a predicate, which no width takes away; names and quotations between them become short.
fn words_of_predicate(sentence: &Sentence) -> Vec<String> {
    let words = sentence.predicate().iter().filter_map(|span| match span {
        Span::Text(text) => Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        _ => None,
    });
    let is_word = |text: &String| text.contains(char::is_alphabetic);
    words.filter(is_word).collect()
}

/// Whether a page says all of these, one soon after the other.
fn says(page: &str, words: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else {
        return true;
    };
    page.match_indices(first).any(|(at, _)| {
        let mut after = &page[at + first.len()..];
        rest.iter().all(|word| match after.find(word) {
            Some(at) if at < 200 => {
                after = &after[at + word.len()..];
                true
            }
            _ => false,
        })
    })
}

#[test]
fn a_report_is_read_at_once_and_no_width_takes_a_predicate_away() {
    let reports = reports();
    is_read_at_once(&reports);
    keep_their_predicates(&reports);
}

/// The finding of each template that a fixture shows: at 80 columns the page, at 112 letters the headline.
fn keep_their_predicates(reports: &[(String, Report)]) {
    let mut seen = 0;
    for (name, report) in reports {
        let page = lines(report, Detail::default(), 80).join(" ");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let hence = report.causes.iter().take(3).flat_map(|cause| {
            // Further ones than the first few are counted, and what repeats the cause is left out.
            let few = usize::from(cause.consequences.len() == 1);
            let new = |sentence: &&Sentence| sentence.predicate() != cause.sentence.predicate();
            let hence = cause.consequences.iter().map(|one| &one.sentence);
            cause
                .further
                .iter()
                .take(3)
                .chain(hence.filter(new).take(few))
        });
        let causes = report.causes.iter().take(24).map(|cause| &cause.sentence);
        let notes = report.notes.iter().filter(|note| !note.background);
        let notes = notes.take(3).map(|note| &note.sentence);
        for sentence in causes.chain(notes).chain(hence) {
            let words = words_of_predicate(sentence);
            assert!(says(&page, &words), "{name}: {sentence}: {words:?}");
            seen += 1;
        }
        let headline = report.headline.to_string();
        let leads = report.causes.first().filter(|_| report.exit != 3);
        if let Some(first) = leads {
            let words = words_of_predicate(&first.sentence);
            assert!(says(&headline, &words), "{name}: {headline}");
        }
    }
    assert!(seen > 500, "{seen} findings");
}
