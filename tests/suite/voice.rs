//! How findings and remedies speak: plain words, and commands that work.

use clap::error::ErrorKind;
use rdma_doctor::cli;

/// What has a plainer word, and no other meaning that a finding needs.
const BANNED: &[&str] = &[
    "mend",
    "mends",
    "mended",
    "anew",
    "beside",
    "whence",
    "torn",
    "whoever",
    "stands for",
    "stand for",
    "lies apart",
    "lie apart",
    "is to be",
    "are to be",
    "was to be",
    "were to be",
    "has to be",
    "have to be",
    "says of",
    "say of",
    "comes again",
    "come again",
    "for want of",
    "the odd one",
    "is odd",
    "can Gen3",
    "can Gen4",
    "can Gen5",
    "such lines)",
    "(s)",
];

/// Each check's file: its id, and its title, finding, reason and remedy.
fn checks() -> Vec<(String, [String; 4])> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
    let mut all = Vec::new();
    for group in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
        if !group.path().is_dir() {
            continue;
        }
        for file in std::fs::read_dir(group.path()).unwrap().map(Result::unwrap) {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let check: toml::Table = text.parse().unwrap();
            let of = |key: &str| {
                check
                    .get(key)
                    .and_then(toml::Value::as_str)
                    .unwrap_or_default()
            };
            let texts = ["title", "finding", "why", "fix"].map(|key| of(key).to_owned());
            let group = group.file_name().into_string().unwrap();
            let name = file.file_name().into_string().unwrap();
            all.push((format!("{group}/{}", name.trim_end_matches(".toml")), texts));
        }
    }
    assert!(all.len() > 500, "{} checks", all.len());
    all
}

/// The text without what stands between backticks or braces, its blanks single.
fn prose(text: &str) -> String {
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join("x");
    let plain: Vec<&str> = outside
        .split('{')
        .enumerate()
        .map(|(at, part)| match at {
            0 => part,
            _ => part.split_once('}').map_or(part, |(_, after)| after),
        })
        .collect();
    let joined = plain.join("x");
    format!(
        " {} ",
        joined.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// The places at which a phrase stands as words of their own.
fn has(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_word(text[..at].chars().next_back())
            && !is_word(text[at + phrase.len()..].chars().next())
    })
}

#[test]
fn findings_are_in_plain_english() {
    let mut found = Vec::new();
    for (id, texts) in checks() {
        for text in texts {
            let text = prose(&text);
            let banned = BANNED.iter().copied().filter(|phrase| has(&text, phrase));
            let banned = banned.chain(text.contains(". Where ").then_some(". Where"));
            found.extend(banned.map(|phrase| format!("{id}: {phrase}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The help of all subcommands, as it is printed.
fn help(command: &mut clap::Command, all: &mut Vec<(String, String)>) {
    all.push((
        command.get_name().into(),
        command.render_long_help().to_string(),
    ));
    for sub in command.get_subcommands_mut() {
        help(sub, all);
    }
}

#[test]
fn help_is_in_plain_english() {
    let mut all = Vec::new();
    help(&mut cli::definition(), &mut all);
    assert!(all.len() > 20);
    let mut found = Vec::new();
    for (name, text) in all {
        let text = prose(&text);
        let banned = BANNED.iter().filter(|phrase| has(&text, phrase));
        found.extend(banned.map(|phrase| format!("{name} --help: {phrase}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The words of a command line, as a shell splits it at blanks, up to what the shell does with its output.
fn words(command: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ' ') => all.push(String::new()),
            (None, '|' | '>' | ';' | '&' | '#') => break,
            (_, c) => all.last_mut().unwrap().push(c),
        }
    }
    all.retain(|word| !word.is_empty() && word != "…");
    all
}

/// What is wrong with a command of this program; nothing if it is another's.
fn refused(command: &str) -> Option<String> {
    let at = command.find("rdma-doctor ")?;
    let words = words(&command[at..]);
    let of_files = ["check", "facts"].contains(&words.get(1)?.as_str());
    for pair in words.windows(2) {
        if of_files && pair[1].ends_with("/*") && !["--only", "--skip"].contains(&&*pair[0]) {
            return Some(format!("{command}: {} is taken for a file", pair[1]));
        }
    }
    let error = cli::definition().try_get_matches_from(&words).err()?;
    let wrong = matches!(
        error.kind(),
        ErrorKind::UnknownArgument
            | ErrorKind::InvalidSubcommand
            | ErrorKind::ArgumentConflict
            | ErrorKind::TooManyValues
            | ErrorKind::MissingRequiredArgument
    );
    wrong.then(|| format!("{command}: {error}"))
}

#[test]
fn commands_that_remedies_print_are_taken() {
    let mut count = 0;
    let mut found = Vec::new();
    for (id, [_, _, _, fix]) in checks() {
        let quoted = fix.split('`').skip(1).step_by(2);
        for command in quoted.filter(|command| command.starts_with("rdma-doctor ")) {
            count += 1;
            let filled: String = command
                .split('{')
                .map(|part| part.split_once('}').map_or(part, |(_, after)| after))
                .collect::<Vec<_>>()
                .join("1");
            found.extend(refused(&filled).map(|why| format!("{id}: {why}")));
        }
    }
    assert!(count > 100, "{count} commands");
    assert!(found.is_empty(), "{}", found.join("\n"));
    let removed = refused("rdma-doctor check 'pcie/*'");
    assert!(removed.is_some() && refused("rdma-doctor record --skip x").is_some());
}

#[test]
fn examples_of_the_help_are_taken() {
    let definition = cli::definition();
    // What the doctor itself starts has no examples.
    let shown = definition
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set());
    for mut sub in shown.cloned() {
        let help = sub.render_long_help().to_string();
        let (_, end) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{help}"));
        let (examples, statuses) = end.split_once("\n\n").unwrap();
        assert!(statuses.starts_with("Exit status: 0 "), "{help}");
        let found: Vec<String> = examples.lines().filter_map(refused).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn commands_of_the_readme_are_taken() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let lines = readme.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = lines.filter(|line| line.contains("rdma-doctor ") && !line.starts_with('$'));
    let commands =
        commands.filter(|line| line.starts_with("rdma-doctor ") || line.starts_with("srun"));
    let all: Vec<&str> = commands.collect();
    assert!(all.len() > 10, "{all:?}");
    let found: Vec<String> = all.into_iter().filter_map(refused).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
