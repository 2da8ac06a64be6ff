//! The ranks of a group: as ranges, because a thousand dumps each list a thousand ranks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Ranks that a job may have.
const MOST: u32 = 1 << 20;

/// Ranks in the order of the group, so that a rank of the group has its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Members(Vec<(u32, u32)>);

impl Members {
    /// These ranks in this order.
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for rank in ranks {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
                _ => ranges.push((rank, rank)),
            }
        }
        Members(ranges)
    }

    /// The ranks from 0 on.
    pub fn of_world(size: u32) -> Self {
        Members(match size.checked_sub(1) {
            Some(last) => vec![(0, last.min(MOST))],
            None => Vec::new(),
        })
    }

    /// A list as PyTorch writes it: `[0, 1, 2]`.
    pub(super) fn of_list(text: &str) -> Option<Self> {
        let inside = text.trim().strip_prefix('[')?.strip_suffix(']')?;
        let mut ranks = Vec::new();
        for word in inside.split(',').filter(|word| !word.trim().is_empty()) {
            let rank: u32 = word.trim().parse().ok()?;
            if rank >= MOST {
                return None;
            }
            ranks.push(rank);
        }
        Some(Members::of(ranks))
    }

    /// How many these are.
    pub fn len(&self) -> usize {
        let sizes = self
            .0
            .iter()
            .map(|(first, last)| (last - first) as usize + 1);
        sizes.sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranks, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Whether it is one of them.
    pub fn contains(&self, rank: u32) -> bool {
        let mut ranges = self.0.iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&rank))
    }

    /// The rank of the job that has this place in the group.
    pub fn at(&self, place: usize) -> Option<u32> {
        self.iter().nth(place)
    }
}

/// `0-7,12`
impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl From<Members> for String {
    fn from(members: Members) -> Self {
        members.to_string()
    }
}

impl TryFrom<String> for Members {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let ranges = crate::cpu_list::ranges(&text)?;
        let mut all = Vec::new();
        for range in ranges {
            let (Ok(first), Ok(last)) =
                (u32::try_from(*range.start()), u32::try_from(*range.end()))
            else {
                return Err(format!("{text:?} is no list of ranks"));
            };
            all.push((first, last));
        }
        Ok(Members(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_ranges_and_come_back() {
        let members = Members::of_list("[0, 1, 2, 8, 12, 13]").unwrap();
        assert_eq!(members.to_string(), "0-2,8,12-13");
        assert_eq!(Members::try_from(members.to_string()).unwrap(), members);
        assert_eq!((members.len(), members.at(3)), (6, Some(8)));
        assert!(members.contains(12) && !members.contains(9));
        assert_eq!(Members::of_list("[]").unwrap().len(), 0);
        for bad in ["0, 1", "[x]", "[99999999]", "[-1]"] {
            assert_eq!(Members::of_list(bad), None, "{bad}");
        }
    }
}
