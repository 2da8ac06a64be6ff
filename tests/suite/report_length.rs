//! How long reports are: a page that is checked in is the report of a fixture at 100 columns, its last line aside.

use rdma_doctor::check::Catalogue;
use rdma_doctor::cli::many;
use rdma_doctor::report::Policy;
use rdma_doctor::report::text::{self, Detail};
use rdma_doctor::source::recording::Recording;

/// The lines of each fixture's report, by its name; `page.rs` writes them.
fn reports() -> Vec<(String, Vec<String>)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/expected");
    let mut all = Vec::new();
    for file in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
        let page = std::fs::read_to_string(file.path()).unwrap();
        let status = ["OK ", "WARNING ", "ERROR ", "UNKNOWN "];
        let begins = |line: &&str| !status.iter().any(|word| line.starts_with(word));
        let report = page.lines().skip_while(begins);
        let report = report.take_while(|line| !line.starts_with("exit "));
        let mut lines: Vec<String> = report.map(str::to_owned).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        assert!(!lines.is_empty(), "{}", file.path().display());
        lines.push("counts".into());
        all.push((file.file_name().into_string().unwrap(), lines));
    }
    all.sort_by_key(|(_, lines)| lines.len());
    assert!(all.len() > 150, "{} reports", all.len());
    all
}

#[test]
fn a_report_is_read_at_once() {
    let all = reports();
    let lines = |at: usize| all[at.min(all.len() - 1)].1.len();
    let (median, most) = (lines(all.len() / 2), lines(all.len() * 9 / 10));
    let (name, longest) = all.last().unwrap();
    println!(
        "median {median}, 90th percentile {most}, longest {} ({name})",
        longest.len()
    );
    assert!(median <= 25 && most <= 60 && longest.len() <= 120);
}

#[test]
fn a_headline_fits_a_line() {
    for (name, lines) in reports() {
        let length = lines[0].chars().count();
        assert!(length <= 120, "{name}: {length}: {}", lines[0]);
    }
}

/// The lines that are wider than they may be: a command is pasted, and a word is not broken.
fn wide(lines: &[String], width: usize) -> impl Iterator<Item = &String> {
    lines.iter().skip(1).filter(move |line| {
        let is_command = line.starts_with("            ") || line.starts_with("explain ");
        let longest = line.split(' ').map(str::len).max().unwrap_or(0);
        line.chars().count() > width && !is_command && longest < width / 2
    })
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, lines) in reports() {
        let wide: Vec<&String> = wide(&lines, 100).collect();
        assert!(wide.is_empty(), "{name}: {wide:?}");
    }
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
        let report = many::judged(&catalogue, &[recording], &Policy::default(), false);
        let rendered = |detail: Detail, width: usize| {
            let mut page = Vec::new();
            text::write(&mut page, &report, detail, width).unwrap();
            let page = String::from_utf8(page).unwrap();
            page.lines().map(str::to_owned).collect::<Vec<String>>()
        };
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
