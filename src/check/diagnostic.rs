//! Errors in a check file: the message, the place, the line itself and a suggestion.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// An error at a place of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Complaint {
    /// The place, in bytes of the text.
    pub(crate) span: Range<usize>,
    /// The message.
    pub(crate) message: String,
    /// The label next to the caret.
    pub(crate) label: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
}

impl Complaint {
    /// A complaint about a place.
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Complaint {
            span,
            message: message.into(),
            label: String::new(),
            help: None,
        }
    }

    /// The same with a label next to the caret.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The same with a suggestion, if there is one.
    pub(crate) fn help(mut self, help: impl Into<Option<String>>) -> Self {
        self.help = help.into().or(self.help);
        self
    }

    /// The same complaint in the terms of the file in which the text stands.
    pub(crate) fn within(mut self, place: &SourceString) -> Self {
        self.span = place.map(&self.span);
        self
    }
}

/// Where a TOML string is in its file.
#[derive(Debug, Clone)]
pub(crate) struct SourceString {
    whole: Range<usize>,
    /// Where the text itself begins; `None` where escapes make its places differ from the file's.
    content: Option<usize>,
}

impl SourceString {
    /// The place of a string of this value at this span of the source.
    pub(crate) fn of(source: &str, span: Range<usize>, value: &str) -> Self {
        let raw = source.get(span.clone()).unwrap_or_default();
        let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") {
            3
        } else {
            1
        };
        let inside = raw.get(quotes..).unwrap_or_default();
        // A line break right behind three quotes is not part of the string.
        let skipped = match quotes {
            3 if inside.starts_with("\r\n") => 2,
            3 if inside.starts_with('\n') => 1,
            _ => 0,
        };
        let content = inside
            .get(skipped..)
            .is_some_and(|text| text.starts_with(value))
            .then_some(span.start + quotes + skipped);
        SourceString {
            whole: span,
            content,
        }
    }

    fn map(&self, span: &Range<usize>) -> Range<usize> {
        match self.content {
            Some(start) => start + span.start..start + span.end,
            None => self.whole.start..self.whole.start + 1,
        }
    }
}

/// Why a check cannot be used, rendered so that its author can fix the file.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{rendered}")]
pub struct CheckError {
    rendered: String,
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl CheckError {
    /// An error at a place of a file.
    pub(crate) fn at(path: &str, source: &str, complaint: &Complaint) -> Self {
        let start = source.floor_char_boundary(complaint.span.start);
        let end = source.floor_char_boundary(complaint.span.end).max(start);
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let snippet = Snippet::source(source).path(path).annotation(
            AnnotationKind::Primary
                .span(start..end)
                .label(&*complaint.label),
        );
        let mut report = vec![
            Level::ERROR
                .primary_title(&*complaint.message)
                .element(snippet),
        ];
        if let Some(help) = &complaint.help {
            report.push(Group::with_title(Level::HELP.secondary_title(&**help)));
        }
        CheckError {
            rendered: Renderer::plain().render(&report),
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
        }
    }

    /// An error about a file as a whole.
    pub(crate) fn whole(path: &str, message: impl std::fmt::Display) -> Self {
        CheckError {
            rendered: format!("error: {path}: {message}"),
            path: path.to_owned(),
            line: 1,
            column: 1,
        }
    }
}

/// The candidate that is most like what was written, if one is near.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (written.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(written, c), c))
        .filter(|(distance, c)| *distance <= most && *distance < c.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_inside_strings_are_places_of_the_file() {
        for (source, value, expected) in [
            ("a = 'port.x'", "port.x", 5..9),
            ("a = \"port.x\"", "port.x", 5..9),
            ("a = '''\nport.x'''", "port.x", 8..12),
            ("a = \"\"\"port.x\"\"\"", "port.x", 7..11),
            // Escapes: the start of the string.
            (r#"a = "port\u002Ex""#, "port.x", 4..5),
        ] {
            let place = SourceString::of(source, 4..source.len(), value);
            assert_eq!(place.map(&(0..4)), expected, "{source}");
        }
    }

    #[test]
    fn hostile_places_do_not_panic() {
        for (source, span) in [("", 3..9), ("ä", 1..1), ("äö\n\u{202e}x", 3..400)] {
            let error = CheckError::at("f", source, &Complaint::new(span, "m"));
            assert!(error.to_string().starts_with("error: m"));
        }
    }

    #[test]
    fn far_names_are_not_suggested() {
        assert_eq!(nearest("activ", ["active", "down"]), Some("active"));
        assert_eq!(nearest("zzz", ["active", "down"]), None);
    }
}
