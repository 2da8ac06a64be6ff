//! Test data: what the buffers hold before an operation, and what each rank must find afterwards.
//!
//! Every rank computes every other's data from the seed, so that no exchange is needed to verify. A
//! rank's elements repeat after [`PERIOD`] elements, a prime: data at a wrong place is wrong nearly
//! everywhere, because no part or chunk size is a multiple of it. For reductions the elements are
//! small whole numbers, so that every sum is exact in every type and order.

use std::ops::Range;

use crate::live::element;
use crate::live::failure::Failure;
use crate::measure::plan::collective::{Collective, Reduction};
use crate::measure::plan::run::Point;
use crate::small_sort;

/// The data repeats after this many elements.
pub const PERIOD: usize = 1_048_573;
/// The largest sum of a reduction: bfloat16 represents whole numbers up to 2^8.
const MAX_SUM: usize = 120;
/// Results up to this many bytes are compared completely.
const MAX_CHECKED_WHOLE: usize = 64 << 20;
/// Of a larger result this many blocks of `BLOCK` bytes are compared: the first, the last, and
/// others between.
const BLOCKS: usize = 64;
const BLOCK: usize = 1 << 20;
/// Bytes that are filled or read back at once.
const PIECE: usize = 4 << 20;

/// A 64-bit word gives this many numbers, of 16 bits each.
const PARTS: usize = 4;

/// The test data of one point.
#[derive(Clone, Copy, Debug)]
pub struct TestData<'p> {
    /// The point.
    pub point: &'p Point,
    /// This rank.
    pub rank: usize,
    /// How many ranks there are.
    pub ranks: usize,
    /// The plan's seed.
    pub seed: u64,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Elements that were compared.
    pub elements: u64,
    /// Those that are wrong.
    pub wrong: u64,
    /// The first wrong one.
    pub first_wrong: Option<u64>,
}

/// A range of a rank's result, and the data that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExpectedRange {
    at: Range<usize>,
    of: PatternSource,
    /// The index of its first element in the source's data.
    from: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternSource {
    Rank(usize),
    /// The reduction over all ranks.
    All,
}

/// splitmix64: a well-mixed number for each input.
fn scatter(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl TestData<'_> {
    /// The elements of an operation.
    fn elements(&self) -> usize {
        usize::try_from(self.point.bytes).unwrap_or(usize::MAX) / self.point.dtype.size()
    }

    /// Passes this rank's input to `put` in pieces: offset and bytes.
    ///
    /// # Errors
    ///
    /// The error of `put`.
    pub fn fill(
        &self,
        mut put: impl FnMut(usize, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let shape = self.point.collective.shape(self.elements(), self.ranks);
        let bytes = shape.send * self.point.dtype.size();
        let pattern = self.pattern(PatternSource::Rank(self.rank), shape.send);
        let mut piece = Vec::with_capacity(PIECE.min(bytes));
        let mut at = 0;
        while at < bytes {
            piece.clear();
            let end = (at + PIECE).min(bytes);
            while at + piece.len() < end {
                let rest = &pattern[(at + piece.len()) % pattern.len()..];
                piece.extend_from_slice(&rest[..rest.len().min(end - at - piece.len())]);
            }
            put(at, &piece)?;
            at = end;
        }
        Ok(())
    }

    /// Compares this rank's output; `read` returns its bytes from an offset on.
    ///
    /// # Errors
    ///
    /// The error of `read`.
    pub fn check(
        &self,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<(), Failure>,
    ) -> Result<CheckResult, Failure> {
        let size = self.point.dtype.size();
        let blocks = self.checked_blocks();
        let mut checked = CheckResult::default();
        let mut piece = Vec::new();
        for stretch in self.expected_ranges() {
            let own = |block: &Range<usize>| {
                block.start.max(stretch.at.start)..block.end.min(stretch.at.end)
            };
            let blocks: Vec<_> = blocks.iter().map(own).filter(|b| !b.is_empty()).collect();
            if blocks.is_empty() {
                continue;
            }
            let length = stretch.at.len();
            let pattern = self.pattern(stretch.of, stretch.from + length);
            for block in blocks {
                piece.resize(block.len() * size, 0);
                read(block.start * size, &mut piece)?;
                let from = (stretch.from + block.start - stretch.at.start) * size;
                checked.elements += block.len() as u64;
                compare(&piece, &pattern, from, size, |element| {
                    checked.wrong += 1;
                    let place = (block.start + element) as u64;
                    let first = checked.first_wrong.get_or_insert(place);
                    *first = place.min(*first);
                });
            }
        }
        Ok(checked)
    }

    /// The ranges of elements that are compared.
    fn checked_blocks(&self) -> Vec<Range<usize>> {
        let size = self.point.dtype.size();
        let shape = self.point.collective.shape(self.elements(), self.ranks);
        let all = shape.receive;
        let cut = |whole: Range<usize>, piece: usize| {
            let end = whole.end;
            whole
                .step_by(piece)
                .map(move |at| at..(at + piece).min(end))
        };
        if all * size <= MAX_CHECKED_WHOLE {
            return cut(0..all, PIECE / size).collect();
        }
        let block = BLOCK / size;
        let mut blocks = vec![0..block, all - block..all];
        // Each further block is at a random place in a section of its own.
        let section = all / (BLOCKS - 2);
        for number in 0..BLOCKS - 2 {
            let word = scatter(self.seed ^ scatter(number as u64 ^ self.point.bytes));
            let at = number * section + (word % (section - block).max(1) as u64) as usize;
            let at = at.clamp(block, all - 2 * block);
            blocks.push(at..at + block);
        }
        small_sort::by_key(&mut blocks, |block| block.start);
        // Small sections may overlap; no element is counted twice.
        let mut end = 0;
        for block in &mut blocks {
            block.start = block.start.max(end);
            end = block.end.max(end);
        }
        blocks.retain(|block| !block.is_empty());
        blocks
    }

    /// What this rank must have received; empty if the operation gives it nothing.
    fn expected_ranges(&self) -> Vec<ExpectedRange> {
        let (rank, ranks) = (self.rank, self.ranks.max(1));
        let elements = self.elements();
        let part = elements / ranks;
        let one = |length: usize, of: PatternSource, from: usize| {
            vec![ExpectedRange {
                at: 0..length,
                of,
                from,
            }]
        };
        let parts = |from: usize| {
            let of = |other: usize| ExpectedRange {
                at: other * part..(other + 1) * part,
                of: PatternSource::Rank(other),
                from,
            };
            (0..ranks).map(of).collect()
        };
        match self.point.collective {
            Collective::AllReduce => one(elements, PatternSource::All, 0),
            Collective::Reduce if rank == 0 => one(elements, PatternSource::All, 0),
            Collective::ReduceScatter => one(part, PatternSource::All, rank * part),
            Collective::Broadcast => one(elements, PatternSource::Rank(0), 0),
            Collective::Scatter => one(part, PatternSource::Rank(0), rank * part),
            Collective::SendRecv => {
                one(elements, PatternSource::Rank((rank + ranks - 1) % ranks), 0)
            }
            Collective::AllGather => parts(0),
            Collective::Gather if rank == 0 => parts(0),
            Collective::AllToAll => parts(rank * part),
            Collective::Reduce | Collective::Gather => Vec::new(),
        }
    }

    /// The bytes of the first elements, up to one period.
    fn pattern(&self, of: PatternSource, elements: usize) -> Vec<u8> {
        let elements = elements.min(PERIOD);
        let dtype = self.point.dtype;
        let mut bytes = Vec::with_capacity(elements * dtype.size());
        match of {
            PatternSource::Rank(rank) if self.point.collective.reduces() => {
                self.numbers(rank, elements, |_, number| {
                    element::write(dtype, number, &mut bytes);
                });
            }
            // Data that is only moved may be any bits.
            PatternSource::Rank(rank) => {
                for at in 0..elements {
                    let word = self.word(rank, at).to_ne_bytes();
                    bytes.extend_from_slice(&word[..dtype.size()]);
                }
            }
            PatternSource::All => {
                let mut numbers = vec![0u8; elements];
                for rank in 0..self.ranks {
                    self.numbers(rank, elements, |at, other| {
                        let number = &mut numbers[at];
                        *number = match self.point.op {
                            _ if rank == 0 => other,
                            Reduction::Sum => number.wrapping_add(other),
                            Reduction::Min => other.min(*number),
                            Reduction::Max => other.max(*number),
                        };
                    });
                }
                for number in numbers {
                    element::write(dtype, number, &mut bytes);
                }
            }
        }
        bytes
    }

    fn word(&self, rank: usize, at: usize) -> u64 {
        let rank = (rank as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        scatter(self.seed ^ rank ^ (at as u64) << 1)
    }

    /// Passes the first elements of a rank for a reduction, each with its index: whole numbers
    /// whose sum over all ranks is [`MAX_SUM`] at most.
    fn numbers(&self, rank: usize, elements: usize, mut give: impl FnMut(usize, u8)) {
        let ranks = self.ranks.max(1);
        // With very many ranks only every n-th contributes anything but zero.
        let every = ranks.div_ceil(MAX_SUM);
        let values = (MAX_SUM / ranks.div_ceil(every)).clamp(1, 15) as u64 + 1;
        for at in (0..elements).step_by(PARTS) {
            let mut word = self.word(rank, at);
            for at in at..elements.min(at + PARTS) {
                // Scales 16 bits of the word to the number of values.
                let number = ((word & 0xffff) * values) >> 16;
                word >>= 16;
                let is_zero = every > 1 && !(rank + at).is_multiple_of(every);
                give(at, if is_zero { 0 } else { number as u8 });
            }
        }
    }
}

/// Calls `wrong` with the number of each element that differs from the pattern, which repeats.
fn compare(bytes: &[u8], pattern: &[u8], from: usize, size: usize, mut wrong: impl FnMut(usize)) {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &pattern[(from + at) % pattern.len()..];
        let length = rest.len().min(bytes.len() - at);
        let (found, expected) = (&bytes[at..at + length], &rest[..length]);
        if found != expected {
            let pairs = found.chunks(size).zip(expected.chunks(size));
            for (number, (a, b)) in pairs.enumerate() {
                if a != b {
                    wrong(at / size + number);
                }
            }
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::collective::DataType;

    fn point(collective: Collective, bytes: u64, dtype: DataType) -> Point {
        Point {
            collective,
            bytes,
            dtype,
            op: Reduction::Sum,
            in_place: false,
            iterations: 1,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(0),
            trials: 1,
        }
    }

    /// What each rank sends, and what the simplest correct implementation gives each.
    fn reference(point: &Point, ranks: usize, seed: u64) -> Vec<Vec<u8>> {
        let data = |rank| TestData {
            point,
            rank,
            ranks,
            seed,
        };
        let sent: Vec<Vec<u8>> = (0..ranks)
            .map(|rank| {
                let mut bytes = Vec::new();
                data(rank)
                    .fill(|at, piece| {
                        assert_eq!(at, bytes.len());
                        bytes.extend_from_slice(piece);
                        Ok(())
                    })
                    .unwrap();
                bytes
            })
            .collect();
        let mut sum = sent[0].clone();
        for other in &sent[1..] {
            element::combine(point.dtype, point.op, &mut sum, None, other);
        }
        let part = point.bytes as usize / point.dtype.size() / ranks * point.dtype.size();
        let own = |from: &[u8], rank: usize| from[rank * part..(rank + 1) * part].to_vec();
        (0..ranks)
            .map(|rank| match point.collective {
                Collective::AllReduce => sum.clone(),
                Collective::Reduce if rank == 0 => sum.clone(),
                Collective::ReduceScatter => own(&sum, rank),
                Collective::Broadcast => sent[0].clone(),
                Collective::Scatter => own(&sent[0], rank),
                Collective::SendRecv => sent[(rank + ranks - 1) % ranks].clone(),
                Collective::AllGather => sent.concat(),
                Collective::Gather if rank == 0 => sent.concat(),
                Collective::AllToAll => sent.iter().flat_map(|s| own(s, rank)).collect(),
                Collective::Reduce | Collective::Gather => Vec::new(),
            })
            .collect()
    }

    fn checked(point: &Point, rank: usize, ranks: usize, result: &[u8]) -> CheckResult {
        let data = TestData {
            point,
            rank,
            ranks,
            seed: 7,
        };
        data.check(|from, into| {
            into.copy_from_slice(&result[from..from + into.len()]);
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn what_is_right_is_found_right_and_one_wrong_element_is_seen() {
        for collective in Collective::ALL.iter().copied() {
            for dtype in DataType::ALL.iter().copied() {
                for ranks in [1, 2, 3, 8] {
                    let point = point(collective, 4099 * 4, dtype);
                    let results = reference(&point, ranks, 7);
                    for (rank, result) in results.iter().enumerate() {
                        let found = checked(&point, rank, ranks, result);
                        assert_eq!(found.wrong, 0, "{collective:?} {dtype:?} {rank} of {ranks}");
                        assert_eq!(found.elements, (result.len() / dtype.size()) as u64);
                        if result.is_empty() {
                            continue;
                        }
                        let mut bad = result.clone();
                        let at = bad.len() / 2;
                        bad[at] ^= 0x40;
                        let found = checked(&point, rank, ranks, &bad);
                        let place = Some((at / dtype.size()) as u64);
                        assert_eq!((found.wrong, found.first_wrong), (1, place));
                    }
                }
            }
        }
    }

    #[test]
    fn another_ranks_data_and_shifted_data_are_wrong() {
        let point = point(Collective::AllReduce, 1 << 20, DataType::Float32);
        let result = &reference(&point, 4, 7)[0];
        let mut shifted = result.clone();
        shifted.rotate_left(64 << 10);
        assert!(checked(&point, 0, 4, &shifted).wrong > 200_000);
        // Less one rank's contribution.
        let three = &reference(&point, 3, 7)[0];
        assert!(checked(&point, 0, 4, three).wrong > 200_000);
        let poison = vec![0xa5; result.len()];
        assert_eq!(checked(&point, 0, 4, &poison).wrong, 1 << 18);
    }

    #[test]
    fn sums_of_any_number_of_ranks_stay_small() {
        let point = point(Collective::AllReduce, 4096, DataType::Bfloat16);
        for ranks in [1, 2, 8, 64, 120, 121, 512, 4096] {
            let data = TestData {
                point: &point,
                rank: 0,
                ranks,
                seed: 3,
            };
            let mut sums = [0; 50];
            for rank in 0..ranks {
                data.numbers(rank, sums.len(), |at, number| {
                    sums[at] += usize::from(number);
                });
            }
            assert!(sums.iter().all(|sum| *sum <= MAX_SUM), "{ranks} ranks");
            assert!(sums.iter().any(|sum| *sum > 0), "{ranks} ranks");
        }
    }

    #[test]
    fn of_a_large_result_a_sample_is_compared_first_and_last_included() {
        let point = point(Collective::AllReduce, 4_000_000_000, DataType::Float32);
        let data = TestData {
            point: &point,
            rank: 0,
            ranks: 2,
            seed: 3,
        };
        let blocks = data.checked_blocks();
        assert_eq!(blocks.first().unwrap().start, 0);
        assert_eq!(blocks.last().unwrap().end, 1_000_000_000);
        assert!(blocks.windows(2).all(|w| w[0].end <= w[1].start));
        let looked_at: usize = blocks.iter().map(Range::len).sum();
        assert!(looked_at > 60 << 18 && looked_at <= 64 << 18);
        let other = TestData { seed: 4, ..data };
        assert_ne!(other.checked_blocks(), blocks);
    }
}
