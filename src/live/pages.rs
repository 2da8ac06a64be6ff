//! Memory of this process that devices read and write while the process runs.

#![expect(unsafe_code, reason = "mmap gives pages that devices can be told of")]

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::source::Errno;

/// Private zeroed pages. Freed when dropped: registrations of them must be dropped before.
///
/// Other ranks' devices write into it when this rank lets them. Whoever reads or writes a range here keeps to ranges that no device has leave to touch:
/// that is the protocol's business, and each method copies or hands out slices only for the time of a call.
pub(crate) struct PageMemory {
    start: NonNull<u8>,
    length: usize,
}

/// A function of three ranges: the result, the rank's own data, and the received data.
type ThreeRanges<'f> = &'f mut dyn FnMut(&mut [u8], Option<&[u8]>, &[u8]);

#[cfg_attr(
    not(feature = "verbs"),
    expect(dead_code, reason = "without verbs nobody writes into it from afar")
)]
impl PageMemory {
    /// This many bytes, rounded up to pages; one page at least.
    pub(crate) fn new(length: usize) -> Result<Self, Errno> {
        let length = length.max(1).next_multiple_of(4096);
        // SAFETY: a new anonymous mapping touches no memory that is there already; the advice changes only how it is backed.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(Errno::from(&std::io::Error::last_os_error()));
            }
            libc::madvise(start, length, libc::MADV_HUGEPAGE);
            start
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(PageMemory { start, length }),
            None => Err(Errno::ENOMEM),
        }
    }

    /// This many bytes of a file, which has them, shared with whoever else maps it.
    pub(crate) fn of_file(file: &std::fs::File, length: usize) -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping touches no memory that is there already; it keeps the file.
        let start = unsafe {
            let file = file.as_raw_fd();
            libc::mmap(
                ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(PageMemory { start, length })
            }
            _ => Err(Errno::from(&std::io::Error::last_os_error())),
        }
    }

    /// The address of its first byte, for another rank's device.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// How many bytes there are.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    fn inside(&self, range: &Range<usize>) -> Option<NonNull<u8>> {
        let fits = range.start <= range.end && range.end <= self.length;
        // SAFETY: the offset lies within the mapping, which has this length.
        fits.then(|| unsafe { self.start.add(range.start) })
    }

    /// Hands out a range to be read. Empty if it does not lie inside.
    pub(crate) fn read(&self, range: Range<usize>) -> &[u8] {
        match self.inside(&range) {
            // SAFETY: the range lies in the mapping, which lives as long as `self`; see the type for devices.
            Some(start) => unsafe { std::slice::from_raw_parts(start.as_ptr(), range.len()) },
            None => &[],
        }
    }

    /// Hands out a range to be written. Empty if it does not lie inside.
    pub(crate) fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        match self.inside(&range) {
            // SAFETY: the range lies in the mapping, which nobody else has while `self` is borrowed; see the type for devices.
            Some(start) => unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), range.len()) },
            None => &mut [],
        }
    }

    /// Copies one range over another one of the same length.
    pub(crate) fn copy(&mut self, from: Range<usize>, to: Range<usize>) {
        if let (Some(source), Some(target)) = (self.inside(&from), self.inside(&to)) {
            let length = from.len().min(to.len());
            // SAFETY: both lie in the mapping, for this length; they may overlap.
            unsafe { ptr::copy(source.as_ptr(), target.as_ptr(), length) }
        }
    }

    /// Hands out three ranges at once. Does nothing if one lies outside, or where the first overlaps another one.
    pub(crate) fn three(
        &mut self,
        into: Range<usize>,
        own: Option<Range<usize>>,
        came: Range<usize>,
        with: ThreeRanges<'_>,
    ) {
        let apart = |other: &Range<usize>| other.end <= into.start || into.end <= other.start;
        if !apart(&came) || own.as_ref().is_some_and(|own| !apart(own)) {
            return;
        }
        let Some(target) = self.inside(&into) else {
            return;
        };
        let own = own.as_ref().map(|own| self.read(own.clone()));
        // SAFETY: the range lies in the mapping, apart from the two that are read, and `self` is borrowed alone.
        let target = unsafe { std::slice::from_raw_parts_mut(target.as_ptr(), into.len()) };
        with(target, own, self.read(came));
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_handed_out_within_and_apart() {
        let mut memory = PageMemory::new(5000).unwrap();
        assert_eq!(memory.length(), 8192);
        memory.write(0..4).copy_from_slice(&[1, 2, 3, 4]);
        memory.copy(0..4, 100..104);
        assert_eq!(memory.read(100..104), [1, 2, 3, 4]);
        assert!(memory.read(8190..8200).is_empty());
        let mut called = 0;
        let sum = &mut |into: &mut [u8], own: Option<&[u8]>, came: &[u8]| {
            called += 1;
            into[0] = own.map_or(into[0], |own| own[0]) + came[1];
        };
        memory.three(8..9, Some(0..1), 2..4, sum);
        memory.three(8..9, None, 2..4, sum);
        memory.three(2..9, None, 0..4, sum);
        memory.three(8..9, Some(8..9), 0..4, sum);
        assert_eq!(called, 2);
        assert_eq!(memory.read(8..9), [9]);
    }
}
