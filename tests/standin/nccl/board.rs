//! What the ranks of a communicator share: a file without a name in which each says what it does, and each other's memory. Nothing has a name in
//! the file system, so that nothing is left when ranks are killed.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::cuda::Cuda;

/// Ranks that a board has room for.
pub(crate) const MOST: usize = 64;

/// A piece of memory: the process that has it, the file, the number of the allocation, its size, and where in it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Area {
    pid: u32,
    file: i32,
    serial: u64,
    whole: u64,
    place: u64,
    pub(crate) bytes: u64,
}

/// What a rank posts of an operation.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Post {
    /// Which operation, of what: all ranks' are the same.
    pub(crate) what: [u64; 5],
    pub(crate) send: Area,
    pub(crate) receive: Area,
    pub(crate) scratch: Area,
    pub(crate) sends: u32,
    /// To each of these ranks this.
    pub(crate) pieces: [(u32, Area); MOST],
}

#[repr(C)]
struct Shared {
    run: u64,
    arrived: AtomicU32,
    generation: AtomicU32,
    gpus: [AtomicU32; MOST],
    posts: [Post; MOST],
}

/// A rank's view of the board.
pub(crate) struct Board {
    shared: *mut Shared,
    rank: usize,
    ranks: usize,
    others: HashMap<(u32, u64), Mapped>,
    scratch: Option<(Area, *mut u8)>,
}

// SAFETY: the board is used by one thread at a time.
unsafe impl Send for Board {}

struct Mapped {
    at: *mut u8,
    bytes: usize,
}

/// The communicator is being aborted, or memory of another rank cannot be reached.
pub(crate) struct Gone;

fn map(file: i32, bytes: usize) -> Option<*mut u8> {
    // SAFETY: a mapping of a file of this size.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file,
            0,
        )
    };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

fn make(bytes: usize) -> Option<i32> {
    // SAFETY: the name is a C string, and the file is this process's own.
    unsafe {
        let file = libc::memfd_create(c"standin-nccl".as_ptr(), libc::MFD_CLOEXEC);
        (file >= 0 && libc::ftruncate(file, i64::try_from(bytes).ok()?) == 0).then_some(file)
    }
}

/// Another process's file.
fn open(pid: u32, file: i32) -> Option<i32> {
    let path = std::ffi::CString::new(format!("/proc/{pid}/fd/{file}")).ok()?;
    // SAFETY: the path is a C string.
    let own = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    (own >= 0).then_some(own)
}

/// A new board, as an id: the process and its file.
pub(crate) fn create(run: u64) -> Option<(u32, i32)> {
    let file = make(size_of::<Shared>())?;
    let shared: *mut Shared = map(file, size_of::<Shared>())?.cast();
    // SAFETY: nobody else knows of it yet.
    unsafe { (*shared).run = run };
    Some((std::process::id(), file))
}

impl Board {
    /// The board of an id.
    pub(crate) fn join(pid: u32, file: i32, rank: usize, ranks: usize) -> Option<Board> {
        if ranks > MOST {
            return None;
        }
        let file = open(pid, file)?;
        let shared = map(file, size_of::<Shared>())?;
        // SAFETY: the mapping stays.
        unsafe { libc::close(file) };
        Some(Board {
            shared: shared.cast(),
            rank,
            ranks,
            others: HashMap::new(),
            scratch: None,
        })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: it is mapped, and what changes in it is atomic or ordered by `meet`.
        unsafe { &*self.shared }
    }

    /// Which start of a communicator it is.
    pub(crate) fn run(&self) -> u64 {
        self.shared().run
    }

    /// Says which GPU this rank has.
    pub(crate) fn give_gpu(&self, gpu: usize) {
        self.shared().gpus[self.rank].store(gpu as u32 + 1, Ordering::Release);
    }

    /// The GPU of a rank.
    pub(crate) fn gpu(&self, rank: usize) -> usize {
        (self.shared().gpus[rank].load(Ordering::Acquire) as usize).saturating_sub(1)
    }

    /// Waits until all ranks are here.
    pub(crate) fn meet(&self, aborted: &AtomicBool) -> Result<(), Gone> {
        let shared = self.shared();
        let generation = shared.generation.load(Ordering::Acquire);
        if shared.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.ranks as u32 {
            shared.arrived.store(0, Ordering::Release);
            shared.generation.fetch_add(1, Ordering::AcqRel);
            // SAFETY: the word is mapped.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    shared.generation.as_ptr(),
                    libc::FUTEX_WAKE,
                    i32::MAX,
                )
            };
            return Ok(());
        }
        let patience = libc::timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        while shared.generation.load(Ordering::Acquire) == generation {
            if aborted.load(Ordering::Acquire) {
                return Err(Gone);
            }
            // SAFETY: the word is mapped, and the time lives for the call.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    shared.generation.as_ptr(),
                    libc::FUTEX_WAIT,
                    generation,
                    &raw const patience,
                )
            };
        }
        Ok(())
    }

    /// Says what this rank does.
    pub(crate) fn post(&self, post: &Post) {
        // SAFETY: a rank writes its own post only, before it meets the others.
        unsafe { (&raw mut (*self.shared).posts[self.rank]).write(*post) };
    }

    /// What a rank does; the others have met it since it said so.
    pub(crate) fn posted(&self, rank: usize) -> Post {
        // SAFETY: it was written before the ranks met.
        unsafe { (&raw const (*self.shared).posts[rank]).read() }
    }

    /// Memory of this process's device, so that others find it.
    pub(crate) fn area(&self, cuda: &Cuda, address: *const c_void, bytes: usize) -> Option<Area> {
        if bytes == 0 {
            return Some(Area::default());
        }
        let [file, serial, whole, place] = cuda.memory(address)?;
        (place + bytes as u64 <= whole).then_some(Area {
            pid: std::process::id(),
            file: file as i32,
            serial,
            whole,
            place,
            bytes: bytes as u64,
        })
    }

    /// Memory for what this rank reduces for all.
    pub(crate) fn own_scratch(&mut self, bytes: usize) -> Option<(Area, *mut u8)> {
        if let Some((area, at)) = self.scratch
            && area.bytes as usize >= bytes
        {
            return Some((area, at));
        }
        let file = make(bytes.max(1))?;
        let at = map(file, bytes.max(1))?;
        let area = Area {
            pid: std::process::id(),
            file,
            // No allocation of a device has such a number.
            serial: 1 << 63 | file as u64 | (bytes as u64) << 16,
            whole: bytes.max(1) as u64,
            place: 0,
            bytes: bytes as u64,
        };
        self.scratch = Some((area, at));
        Some((area, at))
    }

    /// The bytes of an area, whosever it is.
    pub(crate) fn bytes(&mut self, area: &Area) -> Result<*mut u8, Gone> {
        if area.bytes == 0 {
            return Ok(std::ptr::NonNull::dangling().as_ptr());
        }
        let key = (area.pid, area.serial);
        if !self.others.contains_key(&key) {
            self.forget(area.pid);
            let file = open(area.pid, area.file).ok_or(Gone)?;
            let at = map(file, area.whole as usize);
            // SAFETY: the mapping stays.
            unsafe { libc::close(file) };
            let mapped = Mapped {
                at: at.ok_or(Gone)?,
                bytes: area.whole as usize,
            };
            self.others.insert(key, mapped);
        }
        let mapped = self.others.get(&key).ok_or(Gone)?;
        // SAFETY: the area lies in the mapping.
        Ok(unsafe { mapped.at.add(area.place as usize) })
    }

    /// Lets go of a process's oldest memory, where much of it is held.
    fn forget(&mut self, pid: u32) {
        let mut serials: Vec<u64> = self
            .others
            .keys()
            .filter(|key| key.0 == pid)
            .map(|key| key.1)
            .collect();
        serials.sort_unstable();
        if serials.len() >= 6
            && let Some(mapped) = self.others.remove(&(pid, serials[0]))
        {
            // SAFETY: it was mapped so.
            unsafe { libc::munmap(mapped.at.cast(), mapped.bytes) };
        }
    }
}
