//! How long reports are: a page that is checked in is the report of a fixture at 100 columns, its last line aside.

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

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut wide = Vec::new();
    for (name, lines) in reports() {
        for line in lines.iter().skip(1) {
            // A command is pasted; a word is not broken.
            let is_command = line.starts_with("            ") || line.starts_with("explain ");
            let is_word = line.trim_start().split(' ').filter(|w| w.len() > 3).count() < 3;
            if line.chars().count() > 100 && !is_command && !is_word {
                wide.push(format!("{name}: {line}"));
            }
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
