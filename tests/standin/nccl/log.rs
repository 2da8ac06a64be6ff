//! What NCCL writes, as version 2.27 writes it: to standard output, or where NCCL_DEBUG_FILE says.

use std::io::Write;
use std::sync::{Mutex, OnceLock};

/// Groups of lines, of which NCCL_DEBUG_SUBSYS chooses.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Group {
    Init,
    Env,
    Net,
    Graph,
    Tuning,
    Bootstrap,
}

/// The variables that say what is written.
struct DebugVariables {
    warnings: bool,
    info: bool,
    version: bool,
    groups: Vec<Group>,
}

fn wish() -> &'static DebugVariables {
    static WISH: OnceLock<DebugVariables> = OnceLock::new();
    WISH.get_or_init(|| {
        let level = std::env::var("NCCL_DEBUG").unwrap_or_default();
        let is = |name: &str| level.eq_ignore_ascii_case(name);
        let list = std::env::var("NCCL_DEBUG_SUBSYS").unwrap_or("INIT,BOOTSTRAP,ENV".to_owned());
        let mut groups = Vec::new();
        for word in list.split(',') {
            match word {
                "ALL" => groups.extend([
                    Group::Init,
                    Group::Env,
                    Group::Net,
                    Group::Graph,
                    Group::Tuning,
                    Group::Bootstrap,
                ]),
                "INIT" => groups.push(Group::Init),
                "ENV" => groups.push(Group::Env),
                "NET" => groups.push(Group::Net),
                "GRAPH" => groups.push(Group::Graph),
                "TUNING" => groups.push(Group::Tuning),
                "BOOTSTRAP" => groups.push(Group::Bootstrap),
                _ => {}
            }
        }
        DebugVariables {
            version: ["VERSION", "WARN", "INFO", "TRACE"].into_iter().any(is),
            warnings: ["WARN", "INFO", "TRACE"].into_iter().any(is),
            info: ["INFO", "TRACE"].into_iter().any(is),
            groups,
        }
    })
}

/// Who writes.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) host: String,
    pub(crate) device: i32,
}

static LAST: Mutex<Option<std::ffi::CString>> = Mutex::new(None);

/// The last WARN line, for `ncclGetLastError`; it is never freed.
pub(crate) fn last() -> *const std::ffi::c_char {
    LAST.lock()
        .unwrap()
        .take()
        .map_or(c"".as_ptr(), |text| text.into_raw().cast_const())
}

fn write(line: &str) {
    static FILE: OnceLock<Option<Mutex<std::fs::File>>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let name = std::env::var("NCCL_DEBUG_FILE").ok()?;
        let name = name
            .replace("%p", &std::process::id().to_string())
            .replace("%h", "node");
        std::fs::File::create(name).ok().map(Mutex::new)
    });
    // A line at once, so that lines of other processes come between lines only.
    let _ = match file {
        Some(file) => file.lock().unwrap().write_all(line.as_bytes()),
        None => std::io::stdout()
            .lock()
            .write_all(line.as_bytes())
            .and_then(|()| std::io::stdout().flush()),
    };
}

impl Log {
    fn prefix(&self) -> String {
        // SAFETY: it takes nothing.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) };
        format!(
            "{}:{}:{tid} [{}]",
            self.host,
            std::process::id(),
            self.device
        )
    }

    pub(crate) fn info(&self, group: Group, text: &str) {
        let wish = wish();
        if wish.info && wish.groups.contains(&group) {
            write(&format!("{} NCCL INFO {text}\n", self.prefix()));
        }
    }

    /// A line `file.cc:12 NCCL WARN text`; an empty line comes before it.
    pub(crate) fn warn(&self, text: &str) {
        let said = text.split_once("NCCL WARN ").map_or(text, |(_, said)| said);
        *LAST.lock().unwrap() = std::ffi::CString::new(format!("{said}\n")).ok();
        if wish().warnings {
            write(&format!("\n{} {text}\n", self.prefix()));
        }
    }

    /// The line without a prefix that rank 0 writes at every level.
    pub(crate) fn banner(&self, version: &str) {
        if wish().version {
            write(&format!("NCCL version {version}+cuda12.9\n"));
        }
    }
}
