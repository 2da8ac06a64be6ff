//! A document in the making: markup is part of this program, and every other text is escaped.

use std::fmt::Display;
use std::io::{self, Write};

use crate::sentence::{Sentence, Span};
use crate::terminal;

/// HTML or SVG. Markup is always a constant, so text from a recording can be nothing but text.
#[derive(Debug, Default)]
pub struct Markup(String);

impl Markup {
    /// Writes a template, and each value, escaped, in place of a `{}`.
    pub fn put(&mut self, template: &'static str, values: &[&dyn Display]) {
        let mut values = values.iter();
        for (at, part) in template.split("{}").enumerate() {
            if at > 0 {
                let value = values.next().map_or(String::new(), ToString::to_string);
                self.0.push_str(&escape(&value));
            }
            self.0.push_str(part);
        }
    }

    /// Writes another piece.
    pub fn append(&mut self, other: &Markup) {
        self.0.push_str(&other.0);
    }

    /// Writes a sentence, its commands as code.
    pub fn sentence(&mut self, sentence: &Sentence) {
        for span in sentence.spans() {
            match span {
                Span::Command(command) if !command.is_by_hand() => {
                    self.put("<code>{}</code>", &[&command.text()]);
                }
                span => self.put("{}", &[span]),
            }
        }
    }

    /// Writes a text report as it is, without its colours.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn text(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        terminal::set_color(false);
        let mut text = Vec::new();
        write(&mut text)?;
        self.put("<pre>", &[]);
        for line in String::from_utf8_lossy(&text).lines() {
            self.put("{}\n", &[&line]);
        }
        self.put("</pre>\n", &[]);
        Ok(())
    }

    /// The text of the document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text for an element or a quoted attribute. What acts on a terminal also misleads in a browser.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in terminal::one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text() {
        let mut page = Markup::default();
        page.put("<b title=\"{}\">{}</b>", &[&"\"'", &"<i>&\u{202e}\n{}"]);
        let escaped = "<b title=\"&quot;&#39;\">&lt;i&gt;&amp;\\u202e\\n{}</b>";
        assert_eq!(page.as_str(), escaped);
    }
}
