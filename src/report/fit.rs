//! Sentences fitted to a width: what may be left out goes first, then names become short. The predicate stays.

use crate::sentence::{Sentence, Span};

/// Words after which a reader waits for more.
const EXPECTANT: &[&str] = &[
    "a", "and", "are", "as", "at", "by", "for", "from", "has", "have", "in", "is", "no", "of",
    "on", "or", "reports", "returns", "than", "the", "through", "to", "use", "uses", "with",
];

/// What begins a clause without which the one before it is whole.
const CLAUSES: &[&str] = &[
    ", ",
    "; ",
    " (",
    " although ",
    " because ",
    " despite ",
    " when ",
    " where ",
    " which ",
    " with ",
];

/// So many letters of a clause say more than who speaks.
const TELLING: usize = 20;

/// So many letters say what is wrong.
const SUFFICIENT: usize = 40;

/// A name or a quotation of so many letters tells enough to look it up.
const SHORT: usize = 24;

/// A sentence of at most so many letters, or, if its predicate does not fit, the predicate with short names.
pub(super) fn fit(sentence: &Sentence, most: usize) -> Sentence {
    if sentence.letters() <= most {
        return sentence.clone();
    }
    match longest_end(sentence.spans(), most) {
        Some(ended) if ended.letters() >= most / 5 * 3 => ended,
        Some(_) => cut_behind_predicate(sentence, most),
        None => short_predicate(sentence, most),
    }
}

/// As much of a sentence as has room and ends where it may end, and the rest.
pub(super) fn split(sentence: &Sentence, most: usize) -> (Sentence, Option<Sentence>) {
    let Some(lead) = longest_end(sentence.spans(), most).filter(|_| sentence.letters() > most)
    else {
        return (sentence.clone(), None);
    };
    let mut rest = sentence.spans()[lead.spans().len()..].to_vec();
    if let Some(Span::Text(between)) = rest.iter_mut().find(|span| **span != Span::MayEnd) {
        *between = between
            .trim_start_matches(['.', ';', ',', ' '])
            .to_owned()
            .into();
    }
    (lead, Some(Sentence::new(rest)))
}

/// The predicate with names that are as short as need be.
fn short_predicate(sentence: &Sentence, most: usize) -> Sentence {
    let predicate = without_keys(sentence.predicate());
    if predicate.letters() <= most {
        predicate
    } else {
        with_short_texts(&predicate, most)
    }
}

/// The longest beginning that ends where the sentence may end.
fn longest_end(spans: &[Span], most: usize) -> Option<Sentence> {
    let mut letters = 0;
    let mut end = None;
    for (at, span) in spans.iter().enumerate() {
        if *span == Span::MayEnd {
            end = Some(at);
        }
        letters += span.letters();
        if letters > most {
            break;
        }
    }
    end.map(|end| spans[..end].iter().cloned().collect())
}

/// The predicate and what has room of the words behind it.
fn cut_behind_predicate(sentence: &Sentence, most: usize) -> Sentence {
    let mut kept = sentence.predicate().to_vec();
    let least = kept.len();
    // The ellipsis takes two.
    let taken = kept.iter().map(Span::letters).sum::<usize>() + 2;
    let mut room = most.saturating_sub(taken);
    for span in &sentence.spans()[least..] {
        let letters = span.letters();
        if letters <= room {
            room -= letters;
            kept.push(span.clone());
            continue;
        }
        let words = match span {
            Span::Text(text) => beginning(text, room),
            Span::Quote(text) => beginning(text, room),
            _ => "",
        };
        kept.push(Span::Text(words.to_owned().into()));
        break;
    }
    // What only leads on to the rest is no end.
    while kept.len() > least {
        let text: &str = match kept.last() {
            Some(Span::Text(text)) => text,
            Some(Span::Quote(text)) => text,
            Some(Span::MayEnd) => "",
            _ => break,
        };
        let whole = without_lead(text);
        let end = match clauses(text) {
            Some("") => None,
            Some(clauses) => Some(clauses.to_owned()),
            None if whole.is_empty() => None,
            // A predicate that says much needs no few words of what is behind it.
            None if taken > SUFFICIENT && whole.chars().count() < SUFFICIENT => {
                kept.truncate(least);
                break;
            }
            None => Some(format!("{whole} …")),
        };
        let is_end = end.is_some() || clauses(text) == Some("");
        kept.pop();
        kept.extend(end.map(|end| Span::Text(end.into())));
        if is_end {
            return Sentence::new(kept);
        }
    }
    if kept.len() > least {
        kept.push(Span::Text(" …".into()));
    }
    Sentence::new(kept)
}

/// The clauses with which a text can end that was cut behind them, none where its first word begins
/// another; `None` where it is one clause.
fn clauses(text: &str) -> Option<&str> {
    let ends = CLAUSES.iter().filter_map(|mark| text.rfind(mark));
    let ended = without_lead(&text[..ends.max()?]);
    (ended.is_empty() || ended.chars().count() >= TELLING).then_some(ended)
}

/// The words of a text that have room, or letters of a long one.
fn beginning(text: &str, letters: usize) -> &str {
    let first = |letters| {
        text.char_indices()
            .nth(letters)
            .map_or(text, |(end, _)| &text[..end])
    };
    match first(letters + 1).rsplit_once(' ') {
        Some((words, last)) if last.chars().count() < SHORT => words,
        _ if letters >= SHORT => first(letters),
        _ => "",
    }
}

/// A text without the words and marks at its end that lead on to more.
fn without_lead(mut text: &str) -> &str {
    loop {
        text = text.trim_end_matches([',', ':', ';', ' ', '(', '[']);
        match text.rsplit_once(' ') {
            Some((before, last)) if EXPECTANT.contains(&last) => text = before,
            _ => return text,
        }
    }
}

/// The sentence without the keys behind names.
fn without_keys(spans: &[Span]) -> Sentence {
    let short = |span: &Span| match span {
        Span::Name(name) => {
            let mut name = name.clone();
            name.has_key = false;
            Span::Name(name)
        }
        span => span.clone(),
    };
    spans.iter().map(short).collect()
}

/// The sentence with its longest names and quotations shortened, as far as that is needed.
fn with_short_texts(sentence: &Sentence, most: usize) -> Sentence {
    let mut spans = sentence.spans().to_vec();
    let mut over = sentence.letters().saturating_sub(most);
    let mut by_length: Vec<usize> = (0..spans.len()).collect();
    by_length.sort_by_key(|at| std::cmp::Reverse(spans[*at].letters()));
    for at in by_length {
        let letters = spans[at].letters();
        if over == 0 || letters <= SHORT {
            break;
        }
        let kept = letters.saturating_sub(over).max(SHORT);
        match &mut spans[at] {
            // A line begins with who wrote it, and ends with the reason.
            Span::Quote(text) if text.contains(": ") => {
                *text = without_middle(text, kept).into();
            }
            Span::Quote(text) | Span::Path(text) | Span::Node(text) => {
                *text = with_short_end(text, kept).into();
            }
            _ => continue,
        }
        over -= letters - kept;
    }
    Sentence::new(spans)
}

/// A text of so many letters without its end, which keeps the space behind it.
fn with_short_end(text: &str, kept: usize) -> String {
    let gap = if text.ends_with(' ') { " " } else { "" };
    let short: String = text.chars().take(kept - 1 - gap.len()).collect();
    format!("{short}…{gap}")
}

/// A quotation of at most so many letters without its middle.
fn without_middle(text: &str, kept: usize) -> String {
    let (body, gap) = match text.strip_suffix(' ') {
        Some(body) => (body, " "),
        None => (text, ""),
    };
    let room = kept - 1 - gap.len();
    let head: String = body.chars().take(room / 2).collect();
    let behind = body.chars().count().saturating_sub(room - room / 2);
    let tail: String = body.chars().skip(behind).collect();
    // A short word more or less is worth whole words.
    let head = match head.rsplit_once(' ') {
        Some((words, last)) if last.chars().count() < SHORT / 2 => words,
        _ => &head,
    };
    let tail = match tail.split_once(' ') {
        Some((first, words)) if first.chars().count() < SHORT / 2 => words,
        _ => &tail,
    };
    format!("{head}…{tail}{gap}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence::Name;

    fn acs() -> Sentence {
        Sentence::from("ACS on ")
            .then(Span::Name(Name {
                called: Some("GPU 2".into()),
                ..Name::of_key("gpu", "0000:17:00.0")
            }))
            .then(" sends traffic between GPU 0 and mlx5_0 through the CPU")
            .then_optionally(" (SrcValid, ReqRedir: all)")
            .then_optionally("; expected directly")
    }

    #[test]
    fn what_may_be_left_out_goes_first() {
        let fitted = |most: usize| fit(&acs(), most).to_string();
        let whole = "ACS on GPU 2 (0000:17:00.0) sends traffic between GPU 0 and mlx5_0 through the CPU (SrcValid, ReqRedir: all); expected directly";
        let predicate =
            "ACS on GPU 2 (0000:17:00.0) sends traffic between GPU 0 and mlx5_0 through the CPU";
        assert_eq!(fitted(200), whole);
        assert_eq!(
            fitted(120),
            whole.strip_suffix("; expected directly").unwrap()
        );
        assert_eq!(fitted(90), predicate);
        assert_eq!(fitted(82), predicate);
        // Then the key of a name, and never the predicate.
        let short = "ACS on GPU 2 sends traffic between GPU 0 and mlx5_0 through the CPU";
        assert_eq!(fitted(70), short);
        assert_eq!(fitted(20), short);
    }

    #[test]
    fn words_behind_a_short_predicate_have_the_room_that_is_left() {
        let failed = Sentence::from("it failed")
            .then_optionally(": ")
            .then(Span::Quote("no route to the host that it has".into()));
        assert_eq!(fit(&failed, 30).to_string(), "it failed: no route …");
        assert_eq!(fit(&failed, 12).to_string(), "it failed");
        assert_eq!(fit(&failed, 9).to_string(), "it failed");
        // Where a clause ends the sentence can.
        let slow = Sentence::from("it is slow")
            .then_optionally(": ")
            .then(Span::Quote(
                "threads get a small stack, which many ranks over NVLink overflow".into(),
            ));
        let short = "it is slow: threads get a small stack";
        assert_eq!(fit(&slow, 60).to_string(), short);
    }

    #[test]
    fn a_long_quotation_in_a_predicate_is_shortened() {
        let text = "x".repeat(80);
        let said = Sentence::from(Span::Quote(text.into())).then(" is down");
        let fitted = fit(&said, 60).to_string();
        assert_eq!(fitted.chars().count(), 60);
        assert!(fitted.ends_with("x… is down"), "{fitted}");
        assert_eq!(fit(&said, 10).letters(), SHORT + " is down".len());
        let line = "mlx5_core 0000:41:00.0: a long way to say that it did not work: No such device";
        let said = Sentence::from(Span::Quote(line.into())).then(" is new");
        assert_eq!(
            fit(&said, 60).to_string(),
            "mlx5_core 0000:41:00.0: a…not work: No such device is new"
        );
    }
}
