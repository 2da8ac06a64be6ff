//! Where a test keeps its files, under which path it starts the doctor, and at which port it listens. Shells, sshd, Slurm and Unix sockets take short
//! paths of plain characters only, and a checkout may have any name.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::TcpListener;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// A directory of one test's own in the system's folder for temporary files; it goes with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(unique(&format!("rdma-doctor-{name}")));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The doctor: this build, or the one that `RDMA_DOCTOR_BINARY` names. Where its path has characters that a shell or a configuration file would
/// have to quote, a link to it.
pub(crate) fn doctor() -> &'static str {
    static DOCTOR: OnceLock<String> = OnceLock::new();
    DOCTOR.get_or_init(|| {
        let named = std::env::var("RDMA_DOCTOR_BINARY").ok();
        let named = named.filter(|name| !name.is_empty());
        plain(&named.unwrap_or_else(|| env!("CARGO_BIN_EXE_rdma-doctor").to_owned()))
    })
}

/// The path, or a link to it from the system's folder for temporary files where the path is not one of plain characters.
fn plain(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if path.bytes().all(is_plain) {
        return path.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let dir = std::env::temp_dir().join(format!("rdma-doctor-link-{:016x}", hasher.finish()));
    std::fs::create_dir_all(&dir).unwrap();
    let link = dir.join("rdma-doctor");
    // Tests of other processes may make the same link at the same time.
    let _ = std::os::unix::fs::symlink(path, &link);
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new(path));
    link.to_str().unwrap().to_owned()
}

/// A port of loopback at which nobody listens, and that no other test of this machine gets while this process lives. It is below those that the
/// kernel hands out itself.
pub(crate) fn free_port() -> u16 {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut held = HELD.lock().unwrap();
    loop {
        let step = std::process::id() * 17 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (step % 9_000) as u16;
        let lock = std::env::temp_dir().join(format!("rdma-doctor-port-{port}"));
        let Ok(lock) = File::create(lock) else {
            continue;
        };
        if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            held.push(lock);
            return port;
        }
    }
}

/// A name that no other test of this or of another run has.
pub(crate) fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{count}", std::process::id())
}
