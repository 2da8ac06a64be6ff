//! UTF-16 as UTF-8, piece by piece: a redirection in PowerShell writes it.

/// The byte order marks (Unicode Standard, section 23.8).
const LITTLE: [u8; 2] = [0xff, 0xfe];
const BIG: [u8; 2] = [0xfe, 0xff];

/// Whether a text begins with such a mark.
pub(super) fn is_marked(first: &[u8]) -> bool {
    first.starts_with(&LITTLE) || first.starts_with(&BIG)
}

/// State between two pieces.
pub(in crate::live) struct Utf16 {
    unit: fn([u8; 2]) -> u16,
    /// The first half of a unit.
    half: Option<u8>,
    /// The first unit of a pair.
    high: Option<u16>,
    text: String,
}

impl Utf16 {
    /// Where the first bytes of a text are the mark of it.
    pub(in crate::live) fn detect(first: &[u8]) -> Option<Self> {
        let unit = match first.get(..2)? {
            mark if mark == LITTLE => u16::from_le_bytes,
            mark if mark == BIG => u16::from_be_bytes,
            _ => return None,
        };
        Some(Utf16 {
            unit,
            half: None,
            high: None,
            text: String::new(),
        })
    }

    /// Decodes the next piece. Invalid units become U+FFFD.
    pub(in crate::live) fn next_utf8(&mut self, bytes: &[u8]) -> &[u8] {
        self.text.clear();
        let half = self.half.take();
        let mut bytes = half.into_iter().chain(bytes.iter().copied());
        let (unit, half) = (self.unit, &mut self.half);
        let units = std::iter::from_fn(|| {
            let first = bytes.next()?;
            match bytes.next() {
                Some(second) => Some(unit([first, second])),
                None => {
                    *half = Some(first);
                    None
                }
            }
        });
        let mut last = None;
        let units = self.high.take().into_iter().chain(units);
        for character in char::decode_utf16(units.inspect(|unit| last = Some(*unit))) {
            self.text.push(match character {
                Ok('\u{feff}') => continue,
                Ok(character) => character,
                Err(_) => char::REPLACEMENT_CHARACTER,
            });
        }
        // The second of a pair may be in the next piece.
        if let Some(high @ 0xd800..=0xdbff) = last
            && self.text.pop().is_some()
        {
            self.high = Some(high);
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(bytes: &[u8], piece: usize) -> String {
        let mut wide = Utf16::detect(bytes).unwrap();
        let mut text = String::new();
        for piece in bytes.chunks(piece) {
            text.push_str(std::str::from_utf8(wide.next_utf8(piece)).unwrap());
        }
        text
    }

    #[test]
    fn both_orders_in_pieces_of_any_length() {
        let text = "n1:7:7 [0] NCCL INFO Using network IB\r\nzażółć \u{1f600}!\n";
        let units: Vec<u16> = text.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|u| u.to_be_bytes()).collect();
        for piece in [1, 2, 3, 5, 7, 1000] {
            // The mark comes in the first piece: it tells that this is UTF-16.
            let first = piece.max(2);
            assert_eq!(through(&[&LITTLE[..], &little].concat(), first), text);
            assert_eq!(through(&[&BIG[..], &big].concat(), first), text);
        }
        let mut wide = Utf16::detect(&LITTLE).unwrap();
        let one_by_one: Vec<String> = little
            .iter()
            .map(|byte| String::from_utf8(wide.next_utf8(&[*byte]).to_vec()).unwrap())
            .collect();
        assert_eq!(one_by_one.concat(), text);
    }

    #[test]
    fn half_a_pair_is_no_character_and_other_text_has_no_mark() {
        let lone = [0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00];
        assert_eq!(through(&lone, 100), "\u{fffd}A");
        assert!(Utf16::detect(b"n1:7:7").is_none());
        assert!(Utf16::detect(b"").is_none());
    }
}
