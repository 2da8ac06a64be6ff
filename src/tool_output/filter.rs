//! What stands behind the pipes of a command: whether it leaves all lines, and which lines it picks.

/// Programs that pass on each line that they read.
const KEEPING: [&str; 6] = ["cat", "dshbak", "less", "more", "tee", "ts"];

/// Whether all programs behind the pipes of a command leave its lines as they are.
pub(super) fn keeps_all(behind: &str) -> bool {
    let mut programs = behind.trim_start_matches('|').split('|');
    programs.all(|program| {
        let name = program.split_whitespace().next().unwrap_or("");
        KEEPING.contains(&name)
    })
}

/// The words of which a line has one that grep(1) leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PickedWords {
    words: Vec<String>,
    ignores_case: bool,
}

impl PickedWords {
    /// Whether grep leaves this line.
    pub(super) fn pick(&self, line: &str) -> bool {
        if self.ignores_case {
            let lower = line.to_lowercase();
            let mut words = self.words.iter();
            return words.any(|word| lower.contains(&word.to_lowercase()));
        }
        self.words.iter().any(|word| line.contains(word.as_str()))
    }
}

/// What the first grep(1) behind the pipe of a command picks; none where that needs more than
/// plain words, or where lines around them stay too.
pub(super) fn picked(command: &str) -> Option<PickedWords> {
    let (_, behind) = command.split_once('|')?;
    let mut words = behind.split_whitespace();
    let extended = match words.next()? {
        "grep" => false,
        "egrep" => true,
        _ => return None,
    };
    let rest = behind.split_once("grep ")?.1.trim_start();
    let mut picked = PickedWords {
        words: Vec::new(),
        ignores_case: false,
    };
    let mut is_extended = extended;
    let mut pattern = rest;
    while let Some(option) = pattern.strip_prefix('-') {
        let (letters, behind) = option.split_once(' ')?;
        match letters {
            "e" | "w" => {}
            "i" => picked.ignores_case = true,
            "E" => is_extended = true,
            "iE" | "Ei" => (is_extended, picked.ignores_case) = (true, true),
            _ => return None,
        }
        pattern = behind.trim_start();
    }
    let quote = pattern
        .chars()
        .next()
        .filter(|sign| ['\'', '"'].contains(sign));
    let pattern = match quote {
        Some(quote) => pattern.get(1..)?.split(quote).next()?,
        None => pattern.split([' ', '|', ';', '&']).next()?,
    };
    let alternatives = pattern.replace("\\|", "|");
    let is_one = !is_extended && !pattern.contains("\\|");
    picked.words = if is_one {
        vec![pattern.to_owned()]
    } else {
        alternatives.split('|').map(str::to_owned).collect()
    };
    let all_plain = picked.words.iter().all(|word| is_plain(word));
    all_plain.then_some(picked)
}

/// Whether grep takes each letter of a pattern as it stands.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && !word.contains(['*', '[', '^', '$', '(', '\\', '+', '?', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grep_picks_lines_with_plain_words() {
        let picks = |command: &str, line: &str| picked(command).map(|words| words.pick(line));
        assert_eq!(picks("ibstat | grep Rate", "Rate: 400"), Some(true));
        assert_eq!(picks("ibstat | grep Rate", "State: Active"), Some(false));
        let state = "  State: Active";
        assert_eq!(picks("ibstat | egrep 'State|Rate'", state), Some(true));
        assert_eq!(picks("ibstat | grep -iE 'state|rate'", state), Some(true));
        assert_eq!(
            picks(r#"ibstat | grep -e "Rate\|State""#, state),
            Some(true)
        );
        assert_eq!(picks("ibstat | grep 'State|Rate'", state), Some(false));
        assert_eq!(picks("ibstat | grep -v Rate", state), None);
        assert_eq!(picks("ibstat | grep -A2 Rate", state), None);
        assert_eq!(picks("ibstat | grep '^ *Rate'", state), None);
        assert_eq!(picks("ibstat", state), None);
    }

    #[test]
    fn some_programs_keep_all_lines() {
        assert!(keeps_all("| dshbak -c"));
        assert!(keeps_all("| tee /tmp/x | less"));
        assert!(!keeps_all("| head -3"));
        assert!(!keeps_all("| dshbak -c | grep x"));
    }
}
