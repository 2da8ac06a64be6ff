//! Lines that a terminal or a mail program broke are whole again.
//!
//! A terminal breaks at its edge, in the middle of words; a mail program between words, where the
//! next one would pass the edge. What begins as lines of programs begin is never a continuation,
//! and a line that is far from the edge has none, so that two short errors stay two.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::record_start::{self, RecordStart, is_typed};
use crate::nccl_log::{event_table, prefix};

/// Edges of terminals.
const EDGES: [usize; 4] = [80, 100, 120, 132];

/// Between these lie the edges of mail programs.
const NARROWEST: usize = 56;
const MAIL_EDGE: usize = 100;

/// Words of messages: a token that a break cut is one of them again.
static WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let words = event_table::texts().flat_map(|text| text.split(' '));
    words.filter(|word| word.len() > 1).collect()
});

/// How a line goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    /// In the middle of a word, or at a space that is still there.
    InWord,
    /// Between words.
    AtSpace,
}

/// The edge at which a text may be broken.
#[derive(Clone, Copy)]
struct Edge {
    /// The width of the widest line.
    width: usize,
    /// Whether a terminal broke there: it is a terminal's, or all lines that reach it go on.
    is_hard: bool,
    /// Whether several lines reach it.
    is_repeated: bool,
}

/// Joins what belongs together; an empty line takes the place of each later piece. Where all lines
/// have a prefix, those were broken before it was written; elsewhere it was broken with them.
pub(super) fn join(lines: &mut [String], prefixes: &[String]) {
    let mut places = 0..lines.len().min(prefixes.len());
    if places.all(|at| lines[at].trim().is_empty() || !prefixes[at].is_empty()) {
        return join_lines(lines, |one, other| prefixes.get(one) == prefixes.get(other));
    }
    for (line, prefix) in lines.iter_mut().zip(prefixes) {
        line.insert_str(0, prefix);
    }
    join_lines(lines, |_, _| true);
    for (line, prefix) in lines.iter_mut().zip(prefixes) {
        line.drain(..prefix.len().min(line.len()));
    }
}

fn join_lines(lines: &mut [String], may_join: impl Fn(usize, usize) -> bool) {
    let Some(edge) = Edge::of(lines) else {
        return;
    };
    let mut from = 0;
    while from < lines.len() {
        let start = RecordStart::of(&lines[from]);
        let mut whole = lines[from].clone();
        let mut next = from + 1;
        while let Some(piece) = lines.get(next)
            && may_join(from, next)
        {
            let Some(broken) = edge.break_before(start, &whole, &lines[next - 1], piece) else {
                break;
            };
            if broken == Break::AtSpace {
                whole.push(' ');
            }
            whole.push_str(piece);
            next += 1;
        }
        if next > from + 1 {
            lines[from] = whole;
            lines[from + 1..next].iter_mut().for_each(String::clear);
        }
        from = next;
    }
}

impl Edge {
    /// The edge of a text that is wide enough to have one.
    fn of(lines: &[String]) -> Option<Self> {
        let width = lines.iter().map(|line| width(line)).max()?;
        if width < NARROWEST {
            return None;
        }
        let at_edge = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| self::width(line) == width);
        let followers: Vec<Option<&String>> = at_edge
            .map(|(at, line)| lines.get(at + 1).filter(|next| !begin_alike(line, next)))
            .collect();
        let going_on = followers
            .iter()
            .filter(|next| next.is_some_and(|next| may_continue(next)));
        let going_on = going_on.count();
        let is_repeated = going_on > 1 && going_on == followers.len();
        let is_hard = is_repeated || going_on > 0 && EDGES.contains(&width);
        Some(Edge {
            width,
            is_hard,
            is_repeated,
        })
    }

    /// How `whole`, whose last piece is `last`, goes on in `next`, if it does.
    fn break_before(
        self,
        start: RecordStart,
        whole: &str,
        last: &str,
        next: &str,
    ) -> Option<Break> {
        // Slurm writes a time in the middle of its sentence.
        let is_continued_time = whole.ends_with(" AT") && record_start::is_time(first_token(next));
        if !may_continue(next) && !is_continued_time
            || is_typed(whole)
            || is_table(whole)
            || begin_alike(whole, next)
        {
            return None;
        }
        let is_message = start != RecordStart::None || prefix::bare(whole.as_bytes()).is_some();
        if is_message && is_cut_token(whole, next) {
            return Some(Break::InWord);
        }
        let begins_sentence = begins_sentence(next) && !asks_for_more(whole);
        let may_break = self.is_repeated && is_message || !begins_sentence || whole.ends_with(' ');
        if self.is_hard && width(last) == self.width && may_break {
            return Some(if is_gap(whole, next) {
                Break::AtSpace
            } else {
                Break::InWord
            });
        }
        let word = next.split(' ').next().unwrap_or("");
        let is_full = self.width <= MAIL_EDGE && width(last) + 1 + width(word) > self.width;
        let is_strong = start != RecordStart::None || prefix::bare(whole.as_bytes()).is_some();
        let goes_on =
            is_strong && !begins_sentence || next.starts_with('(') || asks_for_more(whole);
        (is_full && goes_on && !next.starts_with(' ')).then_some(Break::AtSpace)
    }
}

fn width(line: &str) -> usize {
    line.chars().count()
}

/// Whether a line can be the rest of the one before it.
fn may_continue(line: &str) -> bool {
    !line.trim().is_empty()
        && !line.starts_with("  ")
        && !line.starts_with(['\t', '`', '|', '+'])
        && !line.starts_with("--")
        && !line.starts_with("==")
        && RecordStart::of(line) == RecordStart::None
        && !is_typed(line)
}

/// Whether a line is of a table or a frame.
fn is_table(line: &str) -> bool {
    line.starts_with([' ', '\t', '|', '+', '-', '='])
        || line.contains('\t')
        || line.matches("    ").count() > 2
}

/// Whether a token of a known shape was cut between two lines: an address, or a word of a message.
fn is_cut_token(whole: &str, next: &str) -> bool {
    let (head, tail) = (last_token(whole), first_token(next));
    if head.is_empty() || tail.is_empty() || whole.len() < NARROWEST {
        return false;
    }
    let is_number = head.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let behind = tail.strip_prefix('.').unwrap_or("");
    let is_address = is_number && behind.starts_with(|c: char| c.is_ascii_digit());
    let joined = format!("{head}{tail}");
    let is_two = WORDS.contains(head) && WORDS.contains(tail);
    is_address || joined.len() > 4 && WORDS.contains(joined.as_str()) && !is_two
}

fn last_token(line: &str) -> &str {
    line.rsplit([' ', ':', '[']).next().unwrap_or("")
}

fn first_token(line: &str) -> &str {
    line.split([' ', ',', ':', ']']).next().unwrap_or("")
}

/// Whether a mail program took a space away between what stands before the edge and behind it. A
/// terminal would have left it.
fn is_gap(whole: &str, next: &str) -> bool {
    if whole.ends_with(' ') || next.starts_with(' ') {
        return false;
    }
    let (head, tail) = (last_token(whole), first_token(next));
    let is_number = !head.is_empty() && head.bytes().all(|b| b.is_ascii_digit());
    let is_letters = head.len() > 1 && head.bytes().all(|b| b.is_ascii_alphabetic());
    let is_one = WORDS.contains(format!("{head}{tail}").as_str());
    whole.ends_with([',', ';', ')', ']'])
        || !is_one && ends_in_preposition(whole)
        || next.starts_with("0x")
        || is_number && tail.starts_with(|c: char| c.is_ascii_lowercase())
        || is_letters && !is_one && WORDS.contains(tail)
}

/// Whether a line begins with a capital and small letters, as a sentence of its own does.
fn begins_sentence(line: &str) -> bool {
    let mut letters = line.chars();
    letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters
            .next()
            .is_some_and(|c| c.is_ascii_lowercase() || c == ' ')
}

/// Letters with which two lines begin that are rows of one table, or of a list of files.
const ALIKE: usize = 10;

/// Whether two lines begin alike, as rows of one table do: with the same word but for its numbers,
/// or the same letters.
fn begin_alike(one: &str, other: &str) -> bool {
    let shape = |line: &str| -> String {
        let word = line.split(' ').next().unwrap_or("");
        word.chars().filter(|c| !c.is_ascii_digit()).collect()
    };
    let same = one.bytes().zip(other.bytes());
    shape(one) == shape(other) || same.take_while(|(a, b)| a == b).count() >= ALIKE
}

const DIGITS: [char; 10] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

/// Whether a line ends where no sentence does.
fn asks_for_more(line: &str) -> bool {
    let line = line.trim_end();
    // A message follows the place in the source: `pair.cc:525]`.
    let place = line.strip_suffix(']').unwrap_or("");
    let file = place.trim_end_matches(DIGITS);
    let is_place = file.len() < place.len() && file.ends_with(':');
    let quote = line.rsplit_once(" '").map_or("'", |(_, quote)| quote);
    is_place
        || !quote.contains('\'')
        || line.ends_with([',', '(', '=', '<', ':'])
        || ends_in_preposition(line.trim_end_matches(DIGITS).trim_end())
}

/// Whether the last word of a line needs another.
fn ends_in_preposition(line: &str) -> bool {
    const ENDS: [&str; 12] = [
        " with", " error", " from", " to", " on", " for", " of", " peer", " the", " AT", " WARN",
        " INFO",
    ];
    ENDS.iter().any(|word| line.ends_with(word))
}
