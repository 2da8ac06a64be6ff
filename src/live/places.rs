//! Where each child of a run asks just now. One child at a time asks in a directory, so that a directory that hangs keeps one child; where a child hangs
//! that SIGKILL did not end, no other one asks.
//!
//! The table is memory that the parent shares with its children, in a file that has no name.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::environment;
use crate::source::Question;

/// Directories of a run; a machine with thousands of PCI functions has some thousand.
const ENTRIES: usize = 8192;
/// Entries that are looked at for a directory; where all are taken it is asked without regard to others.
const PROBES: usize = 16;
/// Whose entry it is if nobody can be asked there any more.
const HANGS: u32 = u32::MAX;
/// How often one who waits says so.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// A directory, and the process that asks there; all zeros is nobody's.
struct Entry {
    key: AtomicU64,
    process: AtomicU32,
}

/// The table.
pub(super) struct Places {
    entries: NonNull<[Entry; ENTRIES]>,
    /// What children open; a child needs the mapping alone.
    file: Option<OwnedFd>,
}

#[expect(unsafe_code, reason = "the entries are atomics in shared memory")]
// SAFETY: the memory is mapped for as long as this value lives, and holds nothing but atomics.
unsafe impl Sync for Places {}
#[expect(unsafe_code, reason = "the entries are atomics in shared memory")]
// SAFETY: as above.
unsafe impl Send for Places {}

/// The right to ask in a directory.
pub(super) struct Turn<'p>(Option<&'p Entry>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            // Where the parent said meanwhile that it hangs, that stays.
            let own = std::process::id();
            let _ = entry
                .process
                .compare_exchange(own, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

impl Places {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory, or no file without a name.
    pub(super) fn new() -> std::io::Result<Self> {
        let file = rustix::fs::memfd_create("rdma-doctor-places", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size_of::<[Entry; ENTRIES]>() as u64)?;
        Ok(Places {
            entries: map(&file)?,
            file: Some(file),
        })
    }

    /// The table of a parent.
    ///
    /// # Errors
    ///
    /// It is gone, or has another size.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let size = rustix::fs::fstat(&file)?.st_size;
        if size != size_of::<[Entry; ENTRIES]>() as i64 {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(Places {
            entries: map(&file)?,
            file: None,
        })
    }

    /// Where a child finds the table; `None` of a child's own.
    pub(super) fn path(&self) -> Option<String> {
        let file = self.file.as_ref()?.as_raw_fd();
        Some(format!("/proc/{}/fd/{file}", std::process::id()))
    }

    #[expect(unsafe_code, reason = "memory that processes share")]
    fn entries(&self) -> &[Entry; ENTRIES] {
        // SAFETY: it is mapped until the process ends, and holds atomics alone.
        unsafe { self.entries.as_ref() }
    }

    /// The entry of a directory, made if `make`.
    fn entry(&self, key: u64, make: bool) -> Option<&Entry> {
        let first = key as usize;
        (0..PROBES).find_map(|step| {
            let entry = self.entries().get(first.wrapping_add(step) % ENTRIES)?;
            match entry.key.load(Ordering::SeqCst) {
                taken if taken == key => Some(Some(entry)),
                0 if !make => Some(None),
                0 => {
                    let made =
                        (entry.key).compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst);
                    let is_own = made.map_or_else(|by| by == key, |_| true);
                    is_own.then_some(Some(entry))
                }
                _ => None,
            }
        })?
    }

    /// Waits until nobody else asks in the directory of a question, or in one above it; `waits` is called now and then meanwhile.
    ///
    /// # Errors
    ///
    /// The directory in which a process hangs.
    pub(super) fn enter<'p>(
        &self,
        place: &'p str,
        mut waits: impl FnMut(),
    ) -> Result<Turn<'_>, &'p str> {
        let mut pause = Duration::from_micros(20);
        let mut waited = Duration::ZERO;
        loop {
            let mut is_busy = false;
            for (above, key) in directories(place) {
                let entry = self.entry(key, false);
                match entry.map_or(0, |entry| entry.process.load(Ordering::SeqCst)) {
                    0 => {}
                    HANGS => return Err(above),
                    _ => is_busy = true,
                }
            }
            if !is_busy {
                let Some(entry) = self.entry(key_of(place), true) else {
                    return Ok(Turn(None));
                };
                let own = std::process::id();
                let taken =
                    (entry.process).compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst);
                if taken.is_ok() {
                    return Ok(Turn(Some(entry)));
                }
            }
            std::thread::sleep(pause);
            waited += pause;
            pause = (pause * 2).min(HEARTBEAT / 10);
            if waited >= HEARTBEAT {
                waited = Duration::ZERO;
                waits();
            }
        }
    }

    /// From now on nobody asks there.
    pub(super) fn hangs(&self, place: &str) {
        if let Some(entry) = self.entry(key_of(place), true) {
            entry.process.store(HANGS, Ordering::SeqCst);
        }
    }

    /// A child is gone: what it asked is free.
    pub(super) fn release(&self, process: u32) {
        for entry in self.entries() {
            let _ =
                (entry.process).compare_exchange(process, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

#[expect(unsafe_code, reason = "memory that processes share")]
fn map(file: &OwnedFd) -> std::io::Result<NonNull<[Entry; ENTRIES]>> {
    // SAFETY: a new mapping of a file that is as long as the table; every bit pattern is a table.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<[Entry; ENTRIES]>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match NonNull::new(at) {
        Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(at.cast()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The directories of a path, from the second name on, and itself.
fn directories(path: &str) -> impl Iterator<Item = (&str, u64)> {
    let mut hash = Fnv::default();
    let mut depth = 0;
    let bytes = path.as_bytes();
    (0..bytes.len()).filter_map(move |at| {
        hash.add(*bytes.get(at)?);
        let is_end = bytes.get(at + 1).is_none_or(|next| *next == b'/');
        depth += u32::from(is_end);
        (is_end && depth > 1 || at + 1 == bytes.len()).then_some((path.get(..=at)?, hash.0 | 1))
    })
}

fn key_of(path: &str) -> u64 {
    let mut hash = Fnv::default();
    path.bytes().for_each(|byte| hash.add(byte));
    hash.0 | 1
}

/// The hash of Fowler, Noll and Vo: both ends have to agree, and the paths are the kernel's.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// The directory that a question is about: what hangs there hangs for all of it. `None` for a question that is about none.
pub(super) fn of_question(question: &Question) -> Option<&str> {
    Some(match question {
        Question::List(path) => of_directory(path),
        Question::Call(call) => match &*call.name {
            "home_file" => home()?,
            "named_file" => of_file(call.text("path")?),
            "ibv_get_device_list" | "interrupt_spread" => "/sys/class/infiniband",
            _ => return None,
        },
        _ => of_file(question.path()?),
    })
}

/// The directory of a file. What is close to the root stands for itself: all of the machine is below its parent.
pub(super) fn of_file(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((parent, _)) if parent.split('/').count() > 3 => of_directory(parent),
        _ => of_directory(path),
    }
}

/// A directory, or the home directory that it is in: it may be another machine's.
pub(super) fn of_directory(path: &str) -> &str {
    let is_below = |home: &&str| {
        path.strip_prefix(*home)
            .is_some_and(|inside| inside.is_empty() || inside.starts_with('/'))
    };
    home().filter(is_below).unwrap_or(path)
}

fn home() -> Option<&'static str> {
    static HOME: OnceLock<Option<String>> = OnceLock::new();
    let home = HOME.get_or_init(|| environment::path_variable("HOME"));
    home.as_deref().filter(|home| home.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_asks_in_a_directory_and_below_it() {
        let places = Places::new().unwrap();
        let child = Places::open(Path::new(&places.path().unwrap())).unwrap();
        let turn = places.enter("/sys/class/infiniband", || panic!()).unwrap();
        std::thread::scope(|scope| {
            let (waiting, waits) = std::sync::mpsc::channel();
            let other = scope.spawn(move || {
                let below = "/sys/class/infiniband/mlx5_0/ports";
                child.enter(below, || waiting.send(()).unwrap()).is_ok()
            });
            waits.recv().unwrap();
            // Elsewhere nobody waits.
            drop(places.enter("/sys/class/net", || panic!()).unwrap());
            drop(turn);
            assert!(other.join().unwrap());
        });
    }

    #[test]
    fn where_a_child_hangs_nobody_asks() {
        let places = Places::new().unwrap();
        let turn = places.enter("/sys/class/infiniband", || panic!()).unwrap();
        places.hangs("/sys/class/infiniband");
        drop(turn);
        for place in ["/sys/class/infiniband", "/sys/class/infiniband/mlx5_0"] {
            let hangs = places.enter(place, || panic!()).err();
            assert_eq!(hangs, Some("/sys/class/infiniband"));
        }
        assert!(
            places
                .enter("/sys/class/infiniband_verbs", || panic!())
                .is_ok()
        );
        assert!(places.enter("/sys/class", || panic!()).is_ok());
    }

    #[test]
    fn what_a_dead_child_asked_is_free() {
        let places = Places::new().unwrap();
        std::mem::forget(places.enter("/a/b", || panic!()).unwrap());
        places.release(std::process::id());
        assert!(places.enter("/a/b", || panic!()).is_ok());
    }

    #[test]
    fn a_question_has_a_directory() {
        let of = |question: Question| of_question(&question).unwrap_or_default().to_owned();
        assert_eq!(of(Question::list("/sys/class/net")), "/sys/class/net");
        assert_eq!(of(Question::read("/proc/loadavg")), "/proc/loadavg");
        assert_eq!(of(Question::stat("/sys/class/net")), "/sys/class/net");
        let rate = "/sys/class/infiniband/mlx5_0/ports/1/rate";
        assert_eq!(
            of(Question::read(rate)),
            "/sys/class/infiniband/mlx5_0/ports/1"
        );
        assert_eq!(of_question(&Question::env(&["A"])), None);
    }
}
