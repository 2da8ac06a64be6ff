//! A sentence is data until a format writes it: nothing in `src/report` and `src/cli` reads one that was written.

use crate::imports::files;

/// What reads a text. A sentence has none of these itself, so who reads one writes it first.
const READERS: [&str; 17] = [
    "contains(",
    "ends_with(",
    "find(",
    "match_indices(",
    "matches(",
    "replacen(",
    "rfind(",
    "rsplit(",
    "rsplit_once(",
    "split(",
    "split_once(",
    "split_whitespace(",
    "starts_with(",
    "strip_prefix(",
    "strip_suffix(",
    "trim_end_matches(",
    "trim_start_matches(",
];

/// The readers of what was just written in a file's code, and searches for backquotes.
fn readers(code: &str) -> Vec<String> {
    let code: String = code.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, written) in code.match_indices(".to_string().") {
        let after = &code[at + written.len()..];
        if let Some(reader) = READERS.iter().find(|reader| after.starts_with(**reader)) {
            let begin = code[..at]
                .rfind([';', '{', '}'])
                .map_or(0, |begin| begin + 1);
            found.push(format!("{}.to_string().{reader}", &code[begin..at]));
        }
    }
    let backquotes = ["split('`')", "matches('`')", "find('`')", "split(\"`\")"];
    found.extend(
        backquotes
            .iter()
            .filter(|search| code.contains(**search))
            .map(|search| (*search).to_owned()),
    );
    found
}

#[test]
fn no_format_reads_a_sentence_that_was_written() {
    let mut read = 0;
    for (module, path) in files() {
        if !matches!(module.first().map(String::as_str), Some("report" | "cli")) {
            continue;
        }
        read += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests look at what is written.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert_eq!(readers(code), [""; 0], "{}", path.display());
    }
    assert!(read > 80, "{read} files");
}

#[test]
fn a_reader_is_found_wherever_its_line_breaks() {
    let parses = "let said = cause\n    .sentence\n    .to_string()\n    .split_once(\": \");";
    assert_eq!(
        readers(parses),
        ["letsaid=cause.sentence.to_string().split_once("]
    );
    assert_eq!(readers("text.split('`')"), ["split('`')"]);
    assert_eq!(
        readers("writeln!(out, \"{}\", cause.sentence.to_string())"),
        [""; 0]
    );
}
