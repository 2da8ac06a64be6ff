//! Sentences cut to a length: at the end of a clause where one fits, else between words.

use super::some;

/// The longest headline. With the status before it, a line has 120 letters at most.
pub(super) const HEADLINE: usize = 112;

/// Words after which a reader waits for more.
const EXPECTANT: &[&str] = &[
    "a", "and", "are", "as", "at", "by", "for", "from", "has", "have", "in", "is", "of", "on",
    "or", "reports", "returns", "than", "the", "through", "to", "use", "uses", "with",
];
/// What ends a clause.
const ENDS: &[&str] = &["; ", ": ", " (", ", and ", ", so "];

/// The longest parenthesis that belongs to a name, as `GPU 2 (0000:29:00.0)`.
const NAME: usize = 22;

/// A headline: what leads, the further subjects of which that holds, and what else there is.
pub(super) fn headline(lead: &str, further: &[String], tail: &str) -> String {
    let mut more = vec![String::new()];
    if !further.is_empty() {
        more.insert(0, format!(" (and {} more)", further.len()));
        more.insert(0, format!(" (and {})", some(further)));
    }
    let room = |more: &String| {
        let taken = more.chars().count() + tail.chars().count();
        HEADLINE
            .checked_sub(taken)
            .filter(|left| *left >= HEADLINE / 3)
    };
    let fits = |more: &&String| room(more).is_some_and(|left| lead.chars().count() <= left);
    if let Some(more) = more.iter().find(fits) {
        return format!("{lead}{more}{tail}");
    }
    let clause = |more: &String| Some((clause(lead, room(more)?, HEADLINE / 3)?, more.clone()));
    match more.iter().skip(1).chain(more.last()).find_map(clause) {
        Some((clause, more)) => format!("{clause}{more}{tail}"),
        None => match room(&String::new()) {
            Some(left) => format!("{}{tail}", cut(lead, left)),
            // A tail that leaves no place is cut itself.
            None => cut(&format!("{lead}{tail}"), HEADLINE),
        },
    }
}

/// The first letters of a text, at most so many; what is cut ends in `mark`.
pub(super) fn shortened(text: &str, letters: usize, mark: &str) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept = letters.saturating_sub(mark.chars().count());
    let kept: String = text.chars().take(kept).collect();
    format!("{}{mark}", kept.trim_end())
}

/// A sentence of at most so many letters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    if let Some(clause) = clause(text, most, most / 4 * 3) {
        return clause.to_owned();
    }
    // The ellipsis takes two.
    let short: String = text.chars().take(most.saturating_sub(1)).collect();
    let Some((mut words, _)) = short.rsplit_once(' ') else {
        return format!("{short}…");
    };
    while let Some((before, last)) = words.rsplit_once(' ')
        && EXPECTANT.contains(&last)
    {
        words = before;
    }
    format!("{} …", words.trim_end_matches([',', ':', ';', ' ', '(']))
}

/// The longest part of a sentence that ends where a clause ends, and has so many letters.
fn clause(text: &str, most: usize, least: usize) -> Option<&str> {
    let (mut depth, mut quoted) = (0usize, false);
    let mut clause = None;
    for (at, (byte, c)) in text.char_indices().enumerate() {
        if at > most {
            break;
        }
        let (before, rest) = text.split_at(byte);
        // A short parenthesis is part of a name.
        let is_name = rest.starts_with(" (") && rest.find(')').is_some_and(|end| end < NAME);
        let ends = depth == 0 && !quoted && ENDS.iter().any(|end| rest.starts_with(end));
        let last = before.rsplit(' ').next().unwrap_or_default();
        if ends && !is_name && at >= least && !EXPECTANT.contains(&last) {
            clause = Some(before);
        }
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '`' => quoted = !quoted,
            _ => {}
        }
    }
    clause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_cut_where_a_clause_ends() {
        let acs = "ACS on 0000:17:00.0 sends traffic between GPU 0 and mlx5_0 through the CPU (SrcValid, ReqRedir: all)";
        assert_eq!(cut(acs, 90), acs.split(" (").next().unwrap());
        assert_eq!(cut(acs, 46), "ACS on 0000:17:00.0 sends traffic between …");
        assert_eq!(cut(acs, 200), acs);
        let rule =
            "bootstrap TCP in on eno1, ports 32768-60999, is dropped by: policy drop of chain in";
        assert_eq!(
            cut(rule, 70),
            "bootstrap TCP in on eno1, ports 32768-60999, is dropped by: policy …"
        );
        assert_eq!(cut("ääääää", 4), "äää…");
    }

    #[test]
    fn a_headline_names_further_subjects_where_there_is_room() {
        let further = ["mlx5_1/1".to_owned(), "mlx5_2/1".to_owned()];
        let tail = "; 3 other causes";
        assert_eq!(
            headline("mlx5_0/1 is down", &further, tail),
            "mlx5_0/1 is down (and mlx5_1/1, mlx5_2/1); 3 other causes"
        );
        let long = format!(
            "mlx5_0/1 has link but stays in state init; {}",
            "x ".repeat(60)
        );
        assert_eq!(
            headline(&long, &further, tail),
            "mlx5_0/1 has link but stays in state init (and 2 more); 3 other causes"
        );
        assert!(headline(&long, &[], &"y ".repeat(60)).chars().count() <= HEADLINE);
    }
}
