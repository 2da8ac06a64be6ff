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
    let head = text.as_bytes();
    let ends = (1..=head.len().min(LONGEST)).filter(move |&at| match head[at - 1] {
        // One space behind it belongs to it, and further ones to the line.
        b'>' | b'|' | b':' => head.get(at) != Some(&b' '),
        b' ' => at > 1 && head[at - 2] != b' ',
        _ => false,
    });
    ends.filter_map(|at| {
        let (before, rest) = (text.get(..at)?, text.get(at..)?);
        Some((Tag::of(before)?, rest))
    })
}

impl<'t> Tag<'t> {
    fn of(before: &'t str) -> Option<Self> {
        let digit = |word: &str| word.bytes().any(|b| b.is_ascii_digit());
        let bare = before.trim();
        let is_tag = bare.ends_with([':', ']', '>', '|']) || bare.split(' ').all(digit);
        if !is_tag || !digit(bare) {
            return None;
        }
        let is_time = |word: &str| word.matches(':').count() >= 2 && digit(word);
        if !bare.contains(':') || !bare.split(' ').any(is_time) {
            return Some(Tag(bare.into()));
        }
        let alike = |word: &str| {
            let is_stamp = word
                .bytes()
                .all(|b| b.is_ascii_digit() || b"-:.,+TZ[]".contains(&b));
            match is_stamp {
                true => word.replace(|c: char| c.is_ascii_digit(), "0"),
                false => word.to_owned(),
            }
        };
        let words: Vec<String> = bare.split_whitespace().map(alike).collect();
        Some(Tag(words.join(" ").into()))
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
