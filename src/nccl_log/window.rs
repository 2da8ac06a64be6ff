//! From bytes in any pieces to whole lines, in bounded memory.

/// Bytes that are looked at in one piece. A longer line is read in pieces of this length, which count as the same line:
/// if a piece ends depends on the line alone, so that any splitting of the input gives the same result.
pub(super) const LONGEST: usize = 64 << 10;

/// Bytes that are gathered before they are looked at.
const BLOCK: usize = 256 << 10;

/// A consumer of lines, in their order.
pub(super) trait Lines {
    /// Whole lines, each with its end, none longer than [`LONGEST`].
    fn whole(&mut self, lines: &[u8]);
    /// A piece of a line that is longer; `ends` if it is the last one.
    fn piece(&mut self, piece: &[u8], ends: bool);
}

/// The bytes that were not passed on yet.
#[derive(Default)]
pub(super) struct Window {
    held: Vec<u8>,
    /// Whether the bytes continue a line whose beginning was passed on.
    goes_on: bool,
}

impl Window {
    /// Takes bytes, and passes on the complete lines.
    pub(super) fn feed(&mut self, mut bytes: &[u8], to: &mut impl Lines) {
        while !bytes.is_empty() {
            let room = BLOCK.saturating_sub(self.held.len()).max(1);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.held.extend_from_slice(now);
            bytes = later;
            if self.held.len() >= BLOCK {
                self.flush_lines(to);
            }
        }
    }

    /// Tells the rest: the last line may lack its end.
    pub(super) fn finish(&mut self, to: &mut impl Lines) {
        self.flush_lines(to);
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            to.piece(&held, true);
        }
        self.goes_on = false;
    }

    fn flush_lines(&mut self, to: &mut impl Lines) {
        let mut held = std::mem::take(&mut self.held);
        let mut at = 0;
        // Lines up to here are complete and short, and were not passed on yet.
        let mut short = 0;
        while let Some(rest) = held.get(at..) {
            let end = memchr::memchr(b'\n', rest);
            let length = end.unwrap_or(rest.len());
            if !self.goes_on && length <= LONGEST {
                match end {
                    // Whole blocks of short lines are the rule: their ends need not be looked for one by one.
                    Some(_) => {
                        at = far_end(&held, at + length + 1);
                        continue;
                    }
                    None => break,
                }
            }
            if short < at {
                to.whole(held.get(short..at).unwrap_or(&[]));
            }
            let taken = length.min(LONGEST);
            let ends = end.is_some() && taken == length;
            if !ends && taken < LONGEST {
                short = at;
                break;
            }
            to.piece(rest.get(..taken).unwrap_or(&[]), ends);
            self.goes_on = !ends;
            at += taken + usize::from(ends);
            short = at;
        }
        if short < at {
            to.whole(held.get(short..at).unwrap_or(&[]));
        }
        held.drain(..at.max(short));
        self.held = held;
    }
}

/// The end of the last of the lines from here on of which none can be longer than [`LONGEST`]: a jump of at most that length.
fn far_end(held: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(window) = held.get(at..(at + LONGEST).min(held.len())) {
        match memchr::memrchr(b'\n', window) {
            Some(end) => at += end + 1,
            None => break,
        }
    }
    at
}
