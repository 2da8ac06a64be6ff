//! Commands for a person's shell. A name in a command is one word to the shell, whatever is in it:
//! this file alone quotes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::terminal;

/// A command line as a POSIX shell takes it, its words quoted where they need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Command(Arc<str>);

impl Command {
    /// A command of these words.
    pub fn of_words<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let quoted: Vec<Cow<'_, str>> = words.into_iter().map(quoted).collect();
        Command(quoted.join(" ").into())
    }

    /// A command of this syntax, with a word in the place of each `{}`.
    pub fn filled(syntax: &str, words: &[&str]) -> Self {
        let mut line = CommandLine::new();
        let mut rest = words.iter();
        for (at, part) in syntax.split("{}").enumerate() {
            if at > 0 {
                line.word(rest.next().copied().unwrap_or_default());
            }
            line.syntax(part);
        }
        line.end()
    }

    /// A text that is a command already: a fact that was made as one.
    pub fn of_text(text: &str) -> Self {
        Command(text.into())
    }

    /// The command line.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The command line, shared.
    pub fn into_text(self) -> Arc<str> {
        self.0
    }

    /// Whether it cannot be pasted, because a terminal would act on a character in it.
    pub fn is_by_hand(&self) -> bool {
        self.0.contains('\t') || matches!(terminal::one_line(&self.0), Cow::Owned(_))
    }

    /// One command for several that set one variable to leave something out: it takes a list.
    pub fn leaving_all_out(all: &[Command]) -> Option<Self> {
        let (variable, _) = all.first()?.0.split_once("=^")?;
        let name = |command: &'_ Command| Some(command.0.split_once("=^")?.1.to_owned());
        let names: Vec<String> = all.iter().map(name).collect::<Option<_>>()?;
        let list = format!("{variable}=^{}", names.join(","));
        is_variable(variable).then(|| Command(list.into()))
    }
}

impl fmt::Display for Command {
    /// Between backquotes, or what is in the way of pasting it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_by_hand() {
            write!(f, "(by hand: control characters) {}", self.0)
        } else {
            write!(f, "`{}`", self.0)
        }
    }
}

/// What the quotation marks around a place in a command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Nothing,
    Single,
    Double,
}

/// A command line that is being written: text of ours, and words from elsewhere.
#[derive(Debug)]
pub struct CommandLine {
    text: String,
    within: Within,
}

impl CommandLine {
    /// An empty one.
    pub fn new() -> Self {
        CommandLine {
            text: String::new(),
            within: Within::Nothing,
        }
    }

    /// Adds text of ours, in the shell's own syntax.
    pub fn syntax(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(c) = letters.next() {
            self.text.push(c);
            self.within = match (self.within, c) {
                (Within::Nothing, '\'') => Within::Single,
                (Within::Nothing, '"') => Within::Double,
                (Within::Single, '\'') | (Within::Double, '"') => Within::Nothing,
                (Within::Nothing | Within::Double, '\\') => {
                    self.text.extend(letters.next());
                    self.within
                }
                (within, _) => within,
            };
        }
    }

    /// Adds a text that stays one word, or part of the word in which it stands.
    pub fn word(&mut self, word: &str) {
        let (mark, is_plain) = match self.within {
            Within::Nothing => ("", true),
            Within::Single => ("'", !word.contains('\'')),
            Within::Double => ("\"", !word.contains(['"', '\\', '$', '`', '!'])),
        };
        match (mark, is_plain) {
            ("", _) => self.text.push_str(&quoted(word)),
            (_, true) => self.text.push_str(word),
            // The quotation ends before the word and begins again behind it.
            (mark, false) => self.text.extend([mark, &quoted(word), mark]),
        }
    }

    /// Adds a command.
    pub fn command(&mut self, command: &Command) {
        self.text.push_str(&command.0);
    }

    /// The command.
    pub fn end(self) -> Command {
        Command(self.text.into())
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        CommandLine::new()
    }
}

/// A word as the shell takes it for itself: as it is, or in single quotes.
pub fn quoted(word: &str) -> Cow<'_, str> {
    // A lone `!` negates in rules of iptables, and is nothing to a shell.
    if word == "!" || !word.is_empty() && word.bytes().all(is_plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

/// Whether the byte means itself wherever it stands in a word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-=^.,:/@%+".contains(&byte)
}

/// The assignment of a variable.
pub fn assignment(name: &str, value: &str) -> String {
    if is_variable(name) {
        format!("{name}={}", quoted(value))
    } else {
        // To a shell it is no assignment, and must not become a command either.
        quoted(&format!("{name}={value}")).into_owned()
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_the_place_in_which_it_stands() {
        let line = |before: &str, word: &str, after: &str| {
            let mut line = CommandLine::new();
            line.syntax(before);
            line.word(word);
            line.syntax(after);
            line.end().text().to_owned()
        };
        for (before, word, after, expected) in [
            ("mlxlink -d ", "mlx5_0", " -m", "mlxlink -d mlx5_0 -m"),
            ("a ", "x;touch y", "", "a 'x;touch y'"),
            ("a ", "it's", "", r"a 'it'\''s'"),
            ("a /sys/", "$(b)", "/*", "a /sys/'$(b)'/*"),
            ("grep 'x|", "$(b)", "'", "grep 'x|$(b)'"),
            ("grep 'x|", "b'", "'", r"grep 'x|''b'\'''''"),
            ("echo \"", "$(b)", " c\"", "echo \"\"'$(b)'\" c\""),
            ("echo \"", "b", " c\"", "echo \"b c\""),
            (r"echo \' ", "$b", "", r"echo \' '$b'"),
            ("a ", "", "", "a ''"),
        ] {
            assert_eq!(line(before, word, after), expected);
        }
        assert_eq!(assignment("NCCL_ALGO", "a b"), "NCCL_ALGO='a b'");
        assert_eq!(assignment("A;b", "c"), "'A;b=c'");
    }

    #[test]
    fn a_command_with_control_characters_is_for_the_hand() {
        let command = Command::of_words(["ip", "link", "set", "a\u{1b}[2J", "up"]);
        assert!(command.is_by_hand());
        assert!(!command.to_string().contains('`'));
        let plain = Command::of_words(["ip", "link", "set", "a b", "up"]);
        assert_eq!(plain.to_string(), "`ip link set 'a b' up`");
    }

    #[test]
    fn a_variable_that_leaves_out_takes_a_list() {
        let of = |texts: &[&str]| {
            let all: Vec<Command> = texts.iter().map(|text| Command::of_text(text)).collect();
            Command::leaving_all_out(&all).map(|one| one.text().to_owned())
        };
        let both = of(&["NCCL_IB_HCA=^a", "NCCL_IB_HCA=^'b;c'"]);
        assert_eq!(both.as_deref(), Some("NCCL_IB_HCA=^a,'b;c'"));
        assert_eq!(of(&["ip link show 'a=^b'", "ip link show 'c=^d'"]), None);
        assert_eq!(of(&["NCCL_IB_HCA=^a", "b"]), None);
    }
}
