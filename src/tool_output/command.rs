//! The line of a command above its output: behind a prompt, or as a heading.

use super::carrier::{self, Place};
use super::filter::{self, PickedWords};
use super::{host, marks, shell_loop};

/// A command that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    /// Its output went through others, so that a part of it may be missing.
    pub(super) is_piped: bool,
    /// Where another command ran it.
    pub(super) place: Place,
    /// The hosts of a loop, where the line tells them.
    pub(super) hosts: Vec<String>,
    /// Whether hostname(1) ran before it, which prints a line of its own.
    pub(super) says_host: bool,
    /// Which of its lines the pipe behind it leaves, where that can be told.
    pub(super) picked: Option<PickedWords>,
    /// The commands that follow it in its line.
    pub(super) next: Vec<Command>,
}

/// A line with a prompt.
pub(super) struct Prompt {
    pub(super) host: Option<String>,
    /// `None` for a command that is no tool.
    pub(super) command: Option<Command>,
}

/// Reads `[user@host dir]$ command`, `user@host:dir$ command`, `host# command` and `$ command`.
pub(super) fn prompt(text: &str) -> Option<Prompt> {
    let (head, rest) = split(text)?;
    let head = head.trim();
    // An environment of Python stands in front.
    let head = match head.strip_prefix('(').and_then(|h| h.split_once(')')) {
        Some((_, head)) => head.trim(),
        None => head,
    };
    // So may the time.
    let time = head
        .strip_prefix('[')
        .and_then(|head| head.split_once("] "));
    let head = time
        .filter(|(time, _)| time.matches(':').count() == 2)
        .map_or(head, |(_, head)| head);
    let (host, sure) = if head.is_empty() {
        // A heading of Markdown begins with `# `, and prose may hold `$ 5`.
        let is_shell = text.trim_start().starts_with("$ ");
        (
            None,
            is_shell && text.trim_start().len() > 2 && !starts_with_digit(rest),
        )
    } else if let Some(inside) = head.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        match inside.split_once('@') {
            Some((_, place)) => (place.split([' ', ':']).next(), true),
            // Of a prompt that somebody shortened the command must be known.
            None => (Some(inside).filter(|name| host::is_name(name)), false),
        }
    } else {
        // Gentoo's has a space: `host ~ #`.
        let space = head.find([' ']).filter(|at| {
            let path = head.get(at + 1..);
            path.is_some_and(|path| path.starts_with(['~', '/']))
        });
        let spaced = space.and_then(|at| Some((head.get(..at)?, head.get(at + 1..)?)));
        let (place, path) = head.split_once(':').or(spaced).unwrap_or((head, ""));
        let host = place.split_once('@').map_or(place, |(_, host)| host);
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'@');
        if !place.bytes().all(plain) || path.contains(' ') || head.len() > 120 {
            return None;
        }
        (
            Some(host),
            place.contains('@') || spaced.is_none() && path.starts_with(['~', '/']),
        )
    };
    // What follows a `;` in a comment is no command.
    let parsed = if sure {
        Command::first_of_line(rest)
    } else {
        Some(Command::parse(rest)?)
    };
    // A name that is neither of a host nor before a tool's command is a sentence's.
    let host = host.filter(|h| !h.is_empty() && *h != "localhost");
    Some(Prompt {
        host: host.map(str::to_owned),
        command: parsed,
    })
}

fn starts_with_digit(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Whether only a program of a job writes a line so, which then is no output of the tool above it:
/// the label of a rank, an exception of Python, a launcher.
pub(super) fn is_of_job(text: &str) -> bool {
    const BEGINS: [&str; 6] = [
        "[rank",
        "Traceback (most recent call last):",
        "slurmstepd: error: ",
        "srun: error: ",
        "UCX  ERROR",
        "terminate called after throwing",
    ];
    BEGINS.iter().any(|begin| text.starts_with(begin)) || is_exception(text)
}

/// `torch.AcceleratorError: CUDA error`, `RuntimeError: …`.
fn is_exception(text: &str) -> bool {
    let Some((name, _)) = text.split_once(": ") else {
        return false;
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_')
        && last.starts_with(|c: char| c.is_ascii_uppercase())
        && ["Error", "Exception"]
            .iter()
            .any(|end| last.len() > end.len() && last.ends_with(end))
}

/// The letters of a longer prompt are not counted.
const LONGEST: usize = 160;

/// The text before and after the first `$` or `#` that ends a prompt.
fn split(text: &str) -> Option<(&str, &str)> {
    let is_end = |at: &usize| matches!(text.as_bytes().get(at + 1), None | Some(b' '));
    let at = memchr::memchr3_iter(b'$', b'#', b'%', text.as_bytes()).find(is_end)?;
    let head = text
        .get(..at)
        .filter(|head| head.chars().count() < LONGEST)?;
    Some((head, text.get(at + 1..)?.trim()))
}

/// Reads a heading that names a command: `### ibstat`, `**ulimit -a**`, `Output of nvidia-smi topo -m:`, `==> lsmod <==`, or the command alone.
pub(super) fn heading(text: &str) -> Option<Command> {
    if text.starts_with([' ', '\t']) || text.len() > 240 {
        return None;
    }
    // nvidia-bug-report.sh writes this above the text of a file, and head(1) and tail(1) where they show several.
    let of_head = text
        .strip_prefix("==> /")
        .and_then(|t| t.trim_end().strip_suffix(" <=="));
    if let Some(path) = text
        .strip_prefix("*** /")
        .or(of_head)
        .filter(|path| !path.contains(' '))
    {
        let argv = vec!["cat".to_owned(), format!("/{}", path.replace("/./", "/"))];
        return Some(Command::here(argv));
    }
    let bare = text.trim_matches(|c: char| {
        matches!(c, '=' | '#' | '*' | '-' | ' ' | '<' | '>' | '`' | ':' | '+')
    });
    let lower = bare.to_lowercase();
    let of = ["output of ", "output from ", "result of ", "running "];
    let named = of.iter().find_map(|of| {
        lower
            .starts_with(of)
            .then(|| bare.get(of.len()..))
            .flatten()
    });
    let command = named.unwrap_or(bare).trim_matches(['`', '"', '\'']);
    let command = Command::parse(command)?;
    // A sentence may begin with the name of a tool.
    let mut rest = command.argv.iter().skip(1);
    let is_argument = |word: &String| word.starts_with(['-', '/']) || marks::is_argument(word);
    let is_known = marks::is_tool(command.argv.first()?);
    (is_known && rest.all(is_argument) && command.argv.len() <= 6).then_some(command)
}

/// Words of a shell before the command of a loop or a condition.
const SHELL_WORDS: [&str; 5] = ["do", "then", "if", "while", "{"];

/// The variable that a word stands for: `$NAME`, `"${NAME}"`.
fn variable(word: &str) -> Option<&str> {
    let bare = word.trim_matches(['"', '\'']).strip_prefix('$')?;
    let name = bare
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let name = name.unwrap_or(bare);
    let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (!name.is_empty() && name.bytes().all(fits)).then_some(name)
}

/// The name of a command without its path, the quotes around it, and the ending of a script.
pub(super) fn tool_name(word: &str) -> &str {
    let bare = word.trim_matches(['"', '\'']);
    let name = bare.rsplit('/').next().unwrap_or(bare);
    name.strip_suffix(".sh").unwrap_or(name)
}

impl Command {
    /// Reads the first command of a tool in what somebody typed: in a loop, or behind others. Where
    /// more follow, a part of what is printed is theirs.
    fn first_of_line(text: &str) -> Option<Command> {
        let mut parts = Command::parts(text).filter_map(Command::parse).peekable();
        let first = parts.next()?;
        let names_host = first.argv.first().is_some_and(|tool| tool == "hostname");
        let behind_name = parts.next_if(|_| names_host);
        let says_host = behind_name.is_some();
        let command = behind_name.unwrap_or_else(|| first.clone());
        let place = match command.place {
            Place::Here => first.place,
            place => place,
        };
        let hosts = match &place {
            Place::Looped(target) => shell_loop::hosts(text, target),
            _ => Vec::new(),
        };
        let mut argv = command.argv;
        // The files that a loop shows one after the other.
        if let [tool, words @ ..] = argv.as_slice()
            && tool == "cat"
            && place == Place::Here
            && let Some(files) = shell_loop::rounds(text, words)
        {
            argv = [&["cat".to_owned()], files.as_slice()].concat();
        }
        let next: Vec<Command> = parts.collect();
        let are_here = place == Place::Here && next.iter().all(|one| one.place == Place::Here);
        Some(Command {
            argv,
            is_piped: command.is_piped || !next.is_empty(),
            place,
            hosts,
            says_host,
            picked: command.picked,
            next: if are_here { next } else { Vec::new() },
        })
    }

    /// The commands of a line, each with what follows it. What reads what another one printed has no
    /// output of its own.
    fn parts(text: &str) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(text), |rest| {
            let mut signs = rest.match_indices([';', '&', '|']);
            let end = signs.find_map(|found| {
                let (before, behind) = rest.split_at(found.0);
                let is_end = found.1 == ";" || behind.starts_with("&&") || behind.starts_with("||");
                (is_end && !before.ends_with(found.1)).then_some(found.0)
            })?;
            Some(rest.get(end..)?.trim_start_matches([';', '&', '|', ' ']))
        })
    }

    /// Reads a command of a tool that is known, or of any that ran on several hosts: without `sudo`, variables, a path, what carries it to
    /// another place, and what follows a pipe.
    fn parse(text: &str) -> Option<Command> {
        let end = text.find(['|', ';', '&', '>', '<']);
        let behind = end.and_then(|at| text.get(at..)).unwrap_or("");
        let is_piped =
            behind.starts_with('|') && !behind.starts_with("||") && !filter::keeps_all(behind);
        let picked = filter::picked(text);
        let text = text.get(..end.unwrap_or(text.len()))?;
        // `2>&1` leaves its number behind.
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if end.is_some() && words.last() == Some(&"2") {
            words.pop();
        }
        let leads = |word: &&str| {
            let is_variable = word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
            });
            is_variable
                || matches!(*word, "sudo" | "time" | "-E" | "-n")
                || SHELL_WORDS.contains(word)
        };
        let skipped = words.iter().take_while(|word| leads(word)).count();
        let words = words.get(skipped..)?;
        let (words, place) = carrier::carried(words).unwrap_or((words, Place::Here));
        if let ["echo", operand] = words
            && let Some(variable) = variable(operand)
        {
            let argv = vec!["printenv".to_owned(), variable.to_owned()];
            return Some(Command {
                is_piped,
                place,
                picked,
                ..Command::here(argv)
            });
        }
        let (first, rest) = words.split_first()?;
        let tool = tool_name(first);
        if !marks::is_tool(tool) && !place.is_several() {
            return None;
        }
        let argv = std::iter::once(&tool)
            .chain(rest)
            .map(|word| word.trim_matches(['"', '\'']).to_owned())
            .collect();
        Some(Command {
            is_piped,
            place,
            picked,
            ..Command::here(argv)
        })
    }

    /// A command alone, with all that it prints.
    fn here(argv: Vec<String>) -> Self {
        Command {
            argv,
            is_piped: false,
            place: Place::Here,
            hosts: Vec::new(),
            says_host: false,
            picked: None,
            next: Vec::new(),
        }
    }

    /// Whether it prints one line and no more.
    pub(super) fn prints_a_line(&self) -> bool {
        match self.argv.first().map(String::as_str) {
            Some("ulimit") => self.argv.len() == 2 && self.argv[1] != "-a",
            Some("hostname" | "uname" | "uptime" | "nproc") => true,
            // An attribute of the kernel is a line.
            Some("cat") => matches!(&self.argv[..], [_, path] if path.starts_with("/sys/")),
            _ => false,
        }
    }
}
