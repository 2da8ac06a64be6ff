//! What launchers, parallel shells and collectors of logs put before each line: `n01: `, `0: `, `[1,0]<stdout>:`, `pod-7 | `, a time.

use std::borrow::Cow;

use super::host;

/// The text before a line, in which the digits of a time are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag<'t>(Cow<'t, str>);

/// The longest text before a line that is looked at.
const LONGEST: usize = 100;

/// The beginnings of a line that can be such a text, each with what follows it.
pub(super) fn before(text: &str) -> impl Iterator<Item = (Tag<'_>, &str)> {
    ends(text).filter_map(|at| Some((Tag::of(text.get(..at)?.trim()), text.get(at..)?)))
}

/// What follows each of these.
pub(super) fn rests(text: &str) -> impl Iterator<Item = &str> {
    ends(text).filter_map(|at| text.get(at..))
}

/// Where each of these ends.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    let head = text.as_bytes();
    let first = head.iter().take(LONGEST).position(u8::is_ascii_digit);
    // Each has a digit, before the sign that ends it.
    let first = first.map_or(usize::MAX, |digit| digit + 2);
    let signs = (first..=head.len().min(LONGEST)).filter(move |&at| match head[at - 1] {
        // One space behind it belongs to it, and further ones to the line.
        b'>' | b'|' | b':' => head.get(at) != Some(&b' '),
        b' ' => head[at - 2] != b' ',
        _ => false,
    });
    signs.filter(|at| text.get(..*at).is_some_and(|before| is_tag(before.trim())))
}

fn is_tag(words: &str) -> bool {
    words.ends_with([':', ']', '>', '|']) || words.split(' ').all(has_digit)
}

fn has_digit(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
}

/// A time of day, with whatever stands around it.
fn is_time(word: &str) -> bool {
    word.matches(':').count() >= 2 && has_digit(word)
}

/// A word of nothing but numbers and the signs of a time, in which each digit is the same.
fn alike(word: &str) -> String {
    let is_sign = |b: u8| b.is_ascii_digit() || b"-:.,+TZ[]".contains(&b);
    if word.bytes().all(is_sign) {
        return word.replace(|c: char| c.is_ascii_digit(), "0");
    }
    word.to_owned()
}

impl<'t> Tag<'t> {
    fn of(bare: &'t str) -> Self {
        if !bare.contains(':') || !bare.split(' ').any(is_time) {
            return Self(bare.into());
        }
        let words: Vec<String> = bare.split_whitespace().map(alike).collect();
        Self(words.join(" ").into())
    }

    /// Whether it is the name of a host as pdsh(1), clush(1) and their like write it.
    pub(super) fn is_host(&self) -> bool {
        self.0.strip_suffix(':').is_some_and(host::is_name)
    }

    /// Whose lines they are: the host or the rank before each, if that is all that stands there.
    pub(super) fn host(&self) -> Option<String> {
        let name = self.0.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let name = name.split([']', '<']).next().unwrap_or(name);
        // Times since boot have the same place.
        let is_time = name.contains('.') && name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        (name.len() < 64 && !is_time && !name.contains([' ', ':'])).then(|| name.to_owned())
    }
}
