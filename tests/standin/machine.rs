//! What a stand-in for a library of NVIDIA's answers: a description of a machine, read from a file.
//!
//! Used by the stand-ins of `tests/standin`, never by the doctor, and never shipped. What a stand-in answers is made up: a recording made
//! over one is no recording of hardware.
//!
//! The file is TOML, named by `RDMA_DOCTOR_STANDIN`:
//!
//! ```toml
//! base = "hgx-h100.toml"             # another description beside this one; this one is laid over it, table by table
//!
//! [behaviour]                        # functions that misbehave: "hangs", "aborts", "sleeps 0.3" (then it answers), "meddles"
//! nvmlDeviceGetP2PStatus = "hangs"
//! "nvmlDeviceGetName@3" = "aborts"   # asked of GPU 3 only
//!
//! [system.nvml]                      # what a function answers that is asked of no GPU: by the function's name
//! [gpu.nvml]                         # of every GPU: "function" or "function/argument"; a text "error: NAME" is that return code,
//!                                    # and a function that is not named answers that it is not supported
//! [gpu.link]                         # of every NVLink; `count`, `active` (how many of them) and what functions answer
//! [gpus.0]                           # GPUs, by their number; `pci` is the address, as "0000:1b:00.0"
//! [gpus.0.nvml]                      # over [gpu.nvml]
//! [gpus.0.links.17]                  # one link, over [gpu.link]
//! [pair]                             # of every two GPUs, as `read = 0`
//! [pairs."0-3"]                      # what the first has to the second, over [pair]
//! ```
//!
//! Sections of another library have its name: `[system.cuda]`, `[gpu.cuda]`, `[gpus.0.cuda]`, `[pair.cuda]`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a stand-in reads its description, and says where it cannot"
)]
#![expect(
    dead_code,
    reason = "every stand-in reads its own part of the description"
)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use toml::{Table, Value};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "RDMA_DOCTOR_STANDIN";

/// A description.
pub(crate) struct Machine {
    root: Table,
}

impl Machine {
    /// The machine that the environment names, read once. A description that cannot be read ends the process: a test is wrong.
    pub(crate) fn get() -> &'static Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| {
            let Some(path) = std::env::var_os(VARIABLE) else {
                eprintln!("stand-in: {VARIABLE} is not set");
                std::process::exit(99);
            };
            match read(Path::new(&path)) {
                Ok(root) => Machine { root },
                Err(error) => {
                    eprintln!("stand-in: {}: {error}", PathBuf::from(path).display());
                    std::process::exit(99);
                }
            }
        })
    }

    /// A description by its path.
    pub(crate) fn read(path: &Path) -> Result<Machine, String> {
        Ok(Machine { root: read(path)? })
    }

    /// Does what the description says of a function before it answers: nothing, or hang, abort, sleep.
    pub(crate) fn enter(&self, function: &str, gpu: Option<usize>) {
        let Some(table) = table(&self.root, &["behaviour"]) else {
            return;
        };
        let of_gpu = gpu.and_then(|gpu| table.get(&format!("{function}@{gpu}")));
        let Some(behaviour) = of_gpu
            .or_else(|| table.get(function))
            .and_then(Value::as_str)
        else {
            return;
        };
        match behaviour.split_once(' ') {
            None if behaviour == "hangs" => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            None if behaviour == "aborts" => std::process::abort(),
            None if behaviour == "meddles" => meddle(),
            Some(("sleeps", seconds)) => {
                std::thread::sleep(Duration::from_secs_f64(seconds.parse().unwrap_or(0.0)));
            }
            _ => {}
        }
    }

    /// How many GPUs there are.
    pub(crate) fn gpus(&self) -> usize {
        table(&self.root, &["gpus"]).map_or(0, |gpus| {
            gpus.values()
                .filter(|gpu| gpu.get("absent").is_none())
                .count()
        })
    }

    /// The PCI addresses of all GPUs.
    pub(crate) fn addresses(&self) -> Vec<String> {
        (0..self.gpus())
            .map(|gpu| self.pci(gpu).to_owned())
            .collect()
    }

    /// A GPU's PCI address, as "0000:1b:00.0".
    pub(crate) fn pci(&self, gpu: usize) -> &str {
        let gpu = gpu.to_string();
        table(&self.root, &["gpus", &gpu])
            .and_then(|gpu| gpu.get("pci"))
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    /// What a function of a library answers that is asked of no GPU.
    pub(crate) fn system(&self, library: &str, function: &str) -> Option<&Value> {
        table(&self.root, &["system", library])?.get(function)
    }

    /// What a function of a library answers of a GPU.
    pub(crate) fn gpu(&self, library: &str, gpu: usize, function: &str) -> Option<&Value> {
        let gpu = gpu.to_string();
        table(&self.root, &["gpus", &gpu, library])
            .and_then(|own| own.get(function))
            .or_else(|| table(&self.root, &["gpu", library])?.get(function))
    }

    /// What is said of an NVLink of a GPU; `None` where it has no such link.
    pub(crate) fn link(&self, gpu: usize, link: usize, what: &str) -> Option<&Value> {
        let gpu = gpu.to_string();
        let link = link.to_string();
        table(&self.root, &["gpus", &gpu, "links", &link])
            .and_then(|own| own.get(what))
            .or_else(|| table(&self.root, &["gpus", &gpu, "link"])?.get(what))
            .or_else(|| table(&self.root, &["gpu", "link"])?.get(what))
    }

    /// What the first of two GPUs has to the second.
    pub(crate) fn pair(&self, first: usize, second: usize, what: &str) -> Option<&Value> {
        table(&self.root, &["pairs", &format!("{first}-{second}")])
            .and_then(|own| own.get(what))
            .or_else(|| table(&self.root, &["pair"])?.get(what))
    }

    /// The same of another library, in a table of its own.
    pub(crate) fn pair_of(
        &self,
        library: &str,
        first: usize,
        second: usize,
        what: &str,
    ) -> Option<&Value> {
        table(
            &self.root,
            &["pairs", &format!("{first}-{second}"), library],
        )
        .and_then(|own| own.get(what))
        .or_else(|| table(&self.root, &["pair", library])?.get(what))
    }
}

/// Does what NVIDIA's libraries do where something is missing: runs a program, and makes a file of a device, beside the library itself.
fn meddle() {
    let dir = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let _ = std::process::Command::new("touch")
        .arg(format!("{dir}/made-by-a-program"))
        .status();
    if let Ok(path) = std::ffi::CString::new(format!("{dir}/made-by-mknod")) {
        #[expect(unsafe_code, reason = "the standard library makes no such files")]
        // SAFETY: the path is a C string.
        unsafe {
            libc::mknod(path.as_ptr(), libc::S_IFIFO | 0o600, 0)
        };
    }
}

fn table<'t>(root: &'t Table, path: &[&str]) -> Option<&'t Table> {
    let mut at = root;
    for name in path {
        at = at.get(*name)?.as_table()?;
    }
    Some(at)
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let own: Table = toml::from_str(&text).map_err(|e| e.to_string())?;
    let Some(base) = own.get("base").and_then(Value::as_str) else {
        return Ok(own);
    };
    let mut root = read(&path.with_file_name(base)).map_err(|e| format!("{base}: {e}"))?;
    lay_over(&mut root, own);
    Ok(root)
}

fn lay_over(base: &mut Table, over: Table) {
    for (name, value) in over {
        match (base.get_mut(&name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}
