//! Marks that Markdown, mail, editors and `grep` put before lines or around them.

/// Marks of items of a list.
const BULLETS: [&str; 3] = ["- ", "* ", "\u{2022} "];

/// Takes marks off: quotes from each line, others where all lines of the text or of a paragraph
/// have them.
pub(super) fn strip(lines: &mut [String]) {
    strip_block(lines);
    for line in lines.iter_mut() {
        strip_quotes(line);
        strip_enclosing(line);
    }
    if strip_numbers(lines) {
        return;
    }
    let mut from = 0;
    while from < lines.len() {
        let length = lines[from..]
            .iter()
            .take_while(|line| !line.trim().is_empty())
            .count();
        strip_bullets(&mut lines[from..from + length]);
        from += length + 1;
    }
}

/// The four spaces by which Markdown knows a block of code, where all lines have them and one has no
/// more.
fn strip_block(lines: &mut [String]) {
    const INDENT: &str = "    ";
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let least = filled.map(|line| spaces(line)).min();
    if least == Some(INDENT.len()) {
        for line in lines.iter_mut().filter(|line| line.starts_with(INDENT)) {
            line.drain(..INDENT.len());
        }
    }
}

fn spaces(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// `> `, `> > `.
fn strip_quotes(line: &mut String) {
    let mut rest = line.as_str();
    while let Some(inner) = rest.trim_start_matches(' ').strip_prefix('>') {
        // `>>>` is Python's prompt, `->` an arrow.
        if !inner.is_empty() && !inner.starts_with([' ', '>']) || inner.starts_with(">>") {
            break;
        }
        rest = inner.strip_prefix(' ').unwrap_or(inner);
    }
    if rest.len() < line.len() {
        *line = rest.to_owned();
    }
}

/// `` `line` ``, `**line**`, also as an item of a list or in a cell.
pub(super) fn strip_enclosing(line: &mut String) {
    if !line.trim_end().ends_with(['*', '`', '|']) {
        return;
    }
    for mark in ["**", "`"] {
        let item = item(line.trim_end());
        let inner = item.strip_prefix(mark);
        let inner = inner.and_then(|inner| inner.strip_suffix(mark));
        if let Some(inner) = inner.filter(|inner| !inner.is_empty() && !inner.contains(mark)) {
            *line = inner.to_owned();
        }
    }
}

/// The text behind bullets, numbers and the bars of a cell.
fn item(line: &str) -> &str {
    let bullet = BULLETS
        .iter()
        .find_map(|mark| line.trim_start().strip_prefix(mark));
    match bullet
        .or_else(|| behind_number(line))
        .or_else(|| cell(line))
    {
        Some(inner) => item(inner),
        None => line.trim(),
    }
}

/// The text behind a line's number.
fn behind_number(line: &str) -> Option<&str> {
    let kinds = [grep_number, list_number, editor_number];
    let found = kinds.into_iter().find_map(|number_of| number_of(line))?;
    line.get(found.1..)
}

/// Numbers of lines, as `grep -n`, `grep -r`, an editor and a numbered list put before all of them.
fn strip_numbers(lines: &mut [String]) -> bool {
    // A rank's label has one space behind it.
    let mut all = lines.iter().filter(|line| !line.trim().is_empty());
    let is_labelled =
        all.clone().all(|line| has_label(line)) && all.any(|line| !line.contains(":  "));
    [grep_number, list_number, editor_number]
        .into_iter()
        .skip(usize::from(is_labelled))
        .any(|number_of| {
            let filled = lines.iter().filter(|line| !line.trim().is_empty());
            let numbers: Option<Vec<(u64, usize)>> = filled.map(|line| number_of(line)).collect();
            let is_counting = numbers.as_ref().is_some_and(|numbers| {
                numbers.len() > 1 && numbers.is_sorted_by(|(one, _), (next, _)| one < next)
            });
            if !is_counting {
                return false;
            }
            for line in lines.iter_mut().filter(|line| !line.trim().is_empty()) {
                let length = number_of(line).map_or(0, |(_, length)| length);
                line.drain(..length);
            }
            true
        })
}

/// `3: `, as srun labels a line with its rank.
fn has_label(line: &str) -> bool {
    let digits = digits(line);
    let behind = line.get(digits..).unwrap_or("");
    digits > 0 && behind.starts_with(": ")
}

/// `512:`, `logs/rank3.log:512:`, and its length.
fn grep_number(line: &str) -> Option<(u64, usize)> {
    let file = match line.split_once(':') {
        Some((file, _)) if is_log_file(file) => file.len() + 1,
        _ => 0,
    };
    let rest = line.get(file..)?;
    let digits = digits(rest);
    let behind = rest.get(digits..)?.strip_prefix(':')?;
    let number = rest.get(..digits)?.parse().ok()?;
    // Hours are followed by minutes.
    let is_hour = behind.get(2..).is_some_and(|rest| rest.starts_with(':'))
        && behind.starts_with(|c: char| c.is_ascii_digit());
    (!is_hour).then_some((number, file + digits + 1))
}

/// Whether a name is that of a file of output, and no place in a program's source.
fn is_log_file(name: &str) -> bool {
    let endings = [".log", ".txt", ".out", ".err"];
    endings.iter().any(|ending| name.ends_with(ending)) && !name.contains([' ', '[', '<'])
}

/// `2. `, and its length.
fn list_number(line: &str) -> Option<(u64, usize)> {
    let digits = digits(line);
    let behind = line.get(digits..)?;
    behind.strip_prefix(". ").or(behind.strip_prefix(") "))?;
    Some((line.get(..digits)?.parse().ok()?, digits + 2))
}

/// `   512 `, and its length; of a table whose first column counts a letter does not follow.
fn editor_number(line: &str) -> Option<(u64, usize)> {
    let spaces = spaces(line);
    let rest = line.get(spaces..)?;
    let digits = digits(rest);
    let behind = rest.get(digits..)?;
    behind.strip_prefix([' ', '\t'])?;
    let number = rest.get(..digits)?.parse().ok()?;
    (spaces > 0).then_some((number, spaces + digits + 1))
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Bullets, and the bars of a table of one column.
fn strip_bullets(lines: &mut [String]) {
    for mark in BULLETS {
        if lines.iter().all(|line| has_bullet(line, mark)) {
            for line in lines.iter_mut() {
                *line = line.trim_start().get(mark.len()..).unwrap_or("").to_owned();
                strip_enclosing(line);
            }
        }
    }
    if lines.iter().all(|line| cell(line).is_some()) {
        for line in lines {
            *line = cell(line).unwrap_or("").to_owned();
        }
    }
}

/// Whether a line begins so. In a file of limits a star is everybody.
fn has_bullet(line: &str, mark: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix(mark) else {
        return false;
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_limit = matches!(words[..], ["soft" | "hard" | "-", item, _] if !item.ends_with(':'));
    // A guide's list explains messages that it quotes; what is a quote as a whole was copied.
    let is_quote = rest.starts_with(['"', '`']);
    let is_whole = rest.trim_end().ends_with('`') && rest.matches('`').count() == 2;
    !is_limit && (!is_quote || is_whole)
}

/// The content of a row of one cell.
fn cell(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    (!inner.contains('|')).then_some(inner.trim())
}
