//! Letters and markup that web pages, terminals and editors put in place of what a program wrote.

use crate::nccl_log::text::without_colours;

/// Ends of elements by which a text shows that it was cut out of a page.
const MARKUP: [&str; 6] = ["<br", "</p>", "</code>", "</pre>", "</span>", "</div>"];

/// Elements that a page has around lines.
const ELEMENTS: [&str; 6] = ["p", "code", "pre", "span", "div", "br"];

const ENTITIES: [(&str, &str); 8] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    // Behind all others: `&amp;lt;` is `&lt;`.
    ("&amp;", "&"),
];

/// A line of words between which tabs stand has so many.
const TABS: usize = 3;

/// The lines in plain letters.
pub(super) fn plain(text: &str) -> Vec<String> {
    let has_markup = MARKUP.iter().any(|end| text.contains(end));
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| plain_line(line, has_markup))
        .collect();
    // Rows of a table and lines with few words show it only together.
    let has_spaces = lines.iter().any(|line| line.contains(' '));
    let has_columns = lines
        .iter()
        .any(|line| indentation(line).1.contains("\t\t"));
    let is_all_tabbed = !has_spaces && (!has_columns || lines.iter().any(|line| is_tabbed(line)));
    for line in &mut lines {
        if is_all_tabbed || is_tabbed(line) {
            let (indent, words) = indentation(line);
            *line = format!("{indent}{}", words.replace('\t', " "));
        }
    }
    lines
}

fn plain_line(line: &str, has_markup: bool) -> String {
    let mut line = line.strip_suffix('\r').unwrap_or(line).to_owned();
    if line.contains('\u{1b}') {
        let mut stripped = Vec::new();
        without_colours(line.as_bytes(), &mut stripped);
        line = String::from_utf8_lossy(&stripped).into_owned();
    }
    if !line.is_ascii() {
        line = line.chars().filter_map(plain_letter).collect();
    }
    if has_markup {
        line = without_elements(&line);
    }
    if line.contains('&') {
        for (entity, letter) in ENTITIES {
            line = line.replace(entity, letter);
        }
    }
    if line.contains('[') {
        line = without_lost_colours(&line);
    }
    line
}

/// A letter of a web page or a word processor as a terminal has it; `None` where nothing is seen.
fn plain_letter(letter: char) -> Option<char> {
    Some(match letter {
        '\u{a0}' | '\u{202f}' | '\u{2007}' | '\u{3000}' => ' ',
        '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => return None,
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        '\u{ff08}' => '(',
        '\u{ff09}' => ')',
        '\u{ff1a}' => ':',
        '\u{ff0c}' => ',',
        other => other,
    })
}

/// The tabs at a line's beginning, and the rest.
fn indentation(line: &str) -> (&str, &str) {
    let words = line.trim_start_matches('\t');
    line.split_at(line.len() - words.len())
}

/// Whether tabs stand where a program writes a space: between all words, one at a time.
fn is_tabbed(line: &str) -> bool {
    let tabs = memchr::memchr_iter(b'\t', line.as_bytes()).count();
    if tabs < TABS {
        return false;
    }
    let words = line
        .split('\t')
        .filter(|word| word.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_row = words.count() * 2 > tabs;
    !is_row && !line.contains(' ') && !line.starts_with('\t') && !line.contains("\t\t")
}

/// The text without the elements that a page has around lines.
fn without_elements(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, element) = rest.split_at(at);
        plain.push_str(before);
        match element_length(element) {
            Some(length) => {
                let (element, behind) = element.split_at(length);
                if element.starts_with("<br") && !behind.is_empty() {
                    plain.push('\n');
                }
                rest = behind;
            }
            None => {
                plain.push('<');
                rest = element.get(1..).unwrap_or("");
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The length of the element that begins here, if it is one of a page.
fn element_length(text: &str) -> Option<usize> {
    let end = text.find('>')?;
    let inner = text.get(1..end)?;
    let name = inner.trim_start_matches('/').split([' ', '/']).next()?;
    ELEMENTS.contains(&name).then_some(end + 1)
}

/// The text without sequences of colours of which the escape character was lost: `[31m`, `^[[0m`.
fn without_lost_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        let (before, bracket) = rest.split_at(at);
        match colour_length(bracket) {
            Some(length) => {
                plain.push_str(before.strip_suffix("^[").unwrap_or(before));
                rest = bracket.get(length..).unwrap_or("");
            }
            // The caret's own bracket is followed by that of the sequence.
            None => {
                plain.push_str(before);
                plain.push('[');
                rest = bracket.get(1..).unwrap_or("");
                if plain.ends_with("^[")
                    && let Some(length) = colour_length(rest)
                {
                    plain.truncate(plain.len() - 2);
                    rest = rest.get(length..).unwrap_or("");
                }
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The length of `[31m`, `[1;32m`, `[0m` at the start of a text; `[5m]` is a range of Prometheus.
fn colour_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let length = inner
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b';')
        .count();
    let behind = inner.get(length..)?.strip_prefix('m')?;
    ((1..=8).contains(&length) && !behind.starts_with(']')).then_some(length + 2)
}
