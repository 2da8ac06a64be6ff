//! Lines that differ from an earlier one in nothing but digits: they have the same needles, so that nobody searches them.
//!
//! A training writes the same line at each step. To compare a line with its template takes a fraction of a search for all needles.

use super::anchor::FoundNeedles;

/// Bytes that are compared at once.
const CHUNK: usize = 8;
/// The lengths of lines that have a template. A shorter line is searched as fast as it is compared.
const LENGTHS: std::ops::RangeInclusive<usize> = 4 * CHUNK..=1024;
/// Templates that are kept, by the length of their lines.
const SLOTS: usize = 256;
/// Templates that are made in any case, and lines that must fit one before another one is made: in a text that does not repeat itself each
/// would be in vain.
const FREE: u64 = 64;
const HITS: u64 = 128;

/// Of a digit its high half is compared, which `:` to `?` have too: all of them are as `0`.
fn alike(byte: u8) -> u8 {
    if byte & 0xf0 == 0x30 { b'0' } else { byte }
}

/// A line's text, in which a digit stands for any other.
struct Template {
    length: usize,
    /// The bits that count and their values, of each eight bytes; the last ones end with the line.
    chunks: Vec<(u64, u64)>,
    /// `None` if other digits could make another needle: each line is searched.
    needles: Option<FoundNeedles>,
}

impl Template {
    fn of(line: &[u8], needles: Option<FoundNeedles>) -> Self {
        let chunk = |bytes: &[u8; CHUNK]| {
            let mask = bytes.map(|byte| if byte.is_ascii_digit() { 0xf0 } else { 0xff });
            let mask = u64::from_le_bytes(mask);
            (mask, u64::from_le_bytes(*bytes) & mask)
        };
        let last = line.last_chunk().into_iter();
        Template {
            length: line.len(),
            chunks: line.as_chunks().0.iter().chain(last).map(chunk).collect(),
            needles,
        }
    }

    fn fits(&self, line: &[u8]) -> bool {
        let Some(last) = line.last_chunk::<CHUNK>() else {
            return false;
        };
        let same = |bytes: &[u8; CHUNK], (mask, value): (u64, u64)| {
            (u64::from_le_bytes(*bytes) & mask) ^ value
        };
        let Some((behind, chunks)) = self.chunks.split_last() else {
            return false;
        };
        // One decision for the whole line: nearly all fit.
        let whole = line.as_chunks().0.iter().zip(chunks);
        let differs = whole.fold(0, |differs, (bytes, chunk)| differs | same(bytes, *chunk));
        line.len() == self.length && differs | same(last, *behind) == 0
    }
}

/// The templates of a log.
#[derive(Default)]
pub(super) struct LineTemplates {
    slots: Vec<Option<Template>>,
    /// Lines that fitted one.
    pub(super) hits: u64,
    /// How many were made.
    made: u64,
}

impl LineTemplates {
    /// The needles of a line that has a template.
    pub(super) fn needles(&mut self, line: &[u8]) -> Option<FoundNeedles> {
        let template = self.slots.get(line.len() % SLOTS)?.as_ref()?;
        let needles = template.needles.filter(|_| template.fits(line))?;
        self.hits += 1;
        Some(needles)
    }

    /// Makes a template of a line with these needles.
    pub(super) fn learn(&mut self, line: &[u8], needles: FoundNeedles, varying: &VaryingNeedles) {
        if !LENGTHS.contains(&line.len()) || self.made > FREE + self.hits / HITS {
            return;
        }
        self.slots.resize_with(SLOTS, || None);
        let slot = self.slots.get_mut(line.len() % SLOTS);
        let unknown = |slot: &&mut Option<Template>| !slot.as_ref().is_some_and(|t| t.fits(line));
        if let Some(slot) = slot.filter(unknown) {
            self.made += 1;
            let needles = (!varying.may_be_in(line)).then_some(needles);
            *slot = Some(Template::of(line, needles));
        }
    }
}

/// Needles that a change of digits in a line can make or destroy.
pub(super) struct VaryingNeedles(Vec<memchr::memmem::Finder<'static>>);

impl VaryingNeedles {
    pub(super) fn of(needles: &[&str]) -> Self {
        let needles = needles
            .iter()
            .filter(|needle| needle.bytes().any(|byte| alike(byte) == b'0'));
        let alike = needles.map(|needle| needle.bytes().map(alike).collect::<Vec<u8>>());
        let finder = |needle: Vec<u8>| memchr::memmem::Finder::new(&needle).into_owned();
        VaryingNeedles(alike.map(finder).collect())
    }

    fn may_be_in(&self, line: &[u8]) -> bool {
        let line: Vec<u8> = line.iter().copied().map(alike).collect();
        self.0.iter().any(|needle| needle.find(&line).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::{FoundNeedles, LineTemplates, VaryingNeedles};

    #[test]
    fn only_other_digits_fit() {
        let varying = VaryingNeedles::of(&["xit code 0", "GPU0", "rror"]);
        let mut templates = LineTemplates::default();
        let found = FoundNeedles::of_bits(4);
        let line = "iteration 17 of 500, loss 2.250E+00, all is well";
        templates.learn(line.as_bytes(), found, &varying);
        let mut needles = |line: &str| templates.needles(line.as_bytes());
        assert_eq!(needles(line), Some(found));
        assert_eq!(needles(&line.replace("17", "98")), Some(found));
        assert_eq!(needles(&line.replace("17", "9 ")), None);
        assert_eq!(needles(&line.replace("17", "987")), None);
        for at in 0..line.len() {
            let mut other = line.as_bytes().to_vec();
            other[at] = b'\n';
            assert_eq!(templates.needles(&other), None, "{at}");
        }
    }

    #[test]
    fn a_line_in_which_other_digits_make_a_needle_has_no_template() {
        let varying = VaryingNeedles::of(&["xit code 0", "GPU0", "rror"]);
        for line in [
            "the process ended with exit code 1, as expected",
            "GPU4 has nothing to do at the moment, it seems",
        ] {
            let mut templates = LineTemplates::default();
            templates.learn(line.as_bytes(), FoundNeedles::default(), &varying);
            assert_eq!(templates.needles(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_text_that_does_not_repeat_itself_is_soon_left_alone() {
        let mut templates = LineTemplates::default();
        for length in 0..2000 {
            let line = "x".repeat(length);
            templates.learn(
                line.as_bytes(),
                FoundNeedles::default(),
                &VaryingNeedles::of(&[]),
            );
        }
        assert!(templates.made <= super::FREE + 1, "{}", templates.made);
    }
}
