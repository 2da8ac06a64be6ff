//! A stage for the stand-ins: mount namespaces in which NVIDIA's driver seems to be loaded, so that the real program loads and asks a library
//! of its name. Nothing outside of them changes.
//!
//! Needs `unshare` (util-linux), and root or user namespaces; elsewhere the tests are skipped and say so.
//! `RDMA_DOCTOR_STAGE=require` makes a machine that cannot run them a failure.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdma_doctor::derive::derive;
use rdma_doctor::fact::{Facts, Id, Key, Subject, Typed};
use rdma_doctor::probe::establish;
use rdma_doctor::source::recording::Recording;

use crate::machine::{Machine, VARIABLE};
use crate::place::{Scratch, doctor};

/// This build, which has the stand-ins beside it.
const DOCTOR: &str = env!("CARGO_BIN_EXE_rdma-doctor");

/// How a namespace is made: as root, or as a user who becomes root of one.
const WAYS: [&[&str]; 2] = [
    &["-m", "--propagation", "private"],
    &["-r", "-m", "--propagation", "private"],
];

/// What the driver was told when it was loaded: its defaults, some of many.
const PARAMETERS: &str = "ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
EnableMSI: 1
EnableStreamMemOPs: 0
NvLinkDisable: 0
RmProfilingAdminOnly: 1
RegistryDwords: \"\"
RegistryDwordsPerDevice: \"\"
RmMsg: \"\"
GpuBlacklist: \"\"
TemporaryFilePath: \"\"
ExcludedGpus: \"\"
";

/// How namespaces can be made here; `None` where they cannot, after saying so.
pub(crate) fn way() -> Option<&'static [&'static str]> {
    let works = |way: &&[&str]| {
        Command::new("unshare")
            .args(*way)
            .args(["sh", "-c", "mount -t tmpfs t /proc/driver"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let way = WAYS.into_iter().find(works);
    if way.is_none() {
        assert_ne!(
            std::env::var("RDMA_DOCTOR_STAGE").as_deref(),
            Ok("require"),
            "the stage is required, and no mount namespace can be made"
        );
        let _ = writeln!(
            std::io::stdout().lock(),
            "skipped: no mount namespace can be made"
        );
    }
    way
}

/// A stage.
pub(crate) struct Stage {
    dir: Scratch,
    description: PathBuf,
    way: &'static [&'static str],
    kernel_driver: bool,
    environment: Vec<(String, OsString)>,
}

/// What the doctor recorded on a stage.
pub(crate) struct StageRecording {
    pub(crate) recording: Recording,
    pub(crate) facts: Facts,
    pub(crate) node: Id,
    pub(crate) took: Duration,
}

impl StageRecording {
    /// What is known of the node.
    pub(crate) fn of_node<T: Typed>(&self, key: Key<T>) -> Option<T> {
        self.facts.known(self.node, key)
    }

    /// The instance of this name.
    pub(crate) fn id(&self, subject: Subject, name: &str) -> Id {
        self.facts
            .all(subject)
            .find(|id| self.facts.name(*id) == name)
            .unwrap_or_else(|| panic!("no {name}"))
    }
}

impl Stage {
    /// A stage for a machine of `tests/standin/machines`, with its GPUs on the PCI bus; `None` where there can be none.
    pub(crate) fn new(machine: &str) -> Option<Stage> {
        let way = way()?;
        let dir = Scratch::new("stage");
        let description = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/standin/machines")
            .join(machine);
        let described = Machine::read(&description).unwrap();
        for part in ["lib", "dev", "driver", "bus/devices", "bus/drivers/nvidia"] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        let stage = Stage {
            dir,
            description,
            way,
            kernel_driver: true,
            environment: Vec::new(),
        };
        for (number, pci) in described.addresses().into_iter().enumerate() {
            stage.file(&format!("dev/nvidia{number}"), b"");
            stage.gpu(&pci);
        }
        stage.file("dev/nvidiactl", b"");
        stage.file("dev/nvidia-uvm", b"");
        let driver = described.system("nvml", "nvmlSystemGetDriverVersion");
        let driver = driver
            .and_then(|value| value.as_str())
            .filter(|version| !version.starts_with("error"))
            .unwrap_or("550.90.07");
        stage.file("driver/nvidia/params", PARAMETERS.as_bytes());
        stage.file(
            "driver/nvidia/version",
            format!("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (dvs-builder@U16)\n").as_bytes(),
        );
        Some(stage)
    }

    /// The same with another description laid over the machine's.
    pub(crate) fn overlaid(mut self, over: &str) -> Self {
        let text = format!("base = \"{}\"\n{over}", self.description.display());
        self.description = self.dir.join("described.toml");
        std::fs::write(&self.description, text).unwrap();
        self
    }

    fn file(&self, name: &str, content: &[u8]) {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A GPU on the PCI bus, below a switch of its own, and in the driver's list.
    fn gpu(&self, pci: &str) {
        let bridge = format!("bus/store/devices/pci0000:00/0000:{}:01.0", &pci[5..7]);
        let dir = format!("{bridge}/{pci}");
        for (name, content) in [
            ("class", "0x030200\n"),
            ("vendor", "0x10de\n"),
            ("device", "0x2330\n"),
            ("numa_node", "0\n"),
        ] {
            self.file(&format!("{dir}/{name}"), content.as_bytes());
        }
        // The kernel always has the whole header.
        let mut header = [0; 64];
        header[..4].copy_from_slice(&[0xde, 0x10, 0x30, 0x23]);
        self.file(&format!("{dir}/config"), &header);
        let store = dir.trim_start_matches("bus/");
        symlink(
            "/sys/bus/pci/drivers/nvidia",
            self.dir.join(&dir).join("driver"),
        )
        .unwrap();
        symlink(
            format!("../{store}"),
            self.dir.join("bus/devices").join(pci),
        )
        .unwrap();
        std::fs::create_dir_all(self.dir.join("driver/nvidia/gpus").join(pci)).unwrap();
    }

    /// Puts a stand-in, built as an example, in place of a library.
    pub(crate) fn library(self, example: &str, name: &str) -> Self {
        symlink(built(example), self.dir.join("lib").join(name)).unwrap();
        self
    }

    /// The same without some of its functions, as an older library is.
    pub(crate) fn older_library(self, example: &str, name: &str, lacks: &[&str]) -> Self {
        let mut bytes = std::fs::read(built(example)).unwrap();
        for function in lacks {
            // Names stand in the table of dynamic symbols, ended by a NUL; another first letter is another name.
            let wanted = [b"\0", function.as_bytes(), b"\0"].concat();
            let mut found = 0;
            let mut at = 0;
            while let Some(next) = memchr::memmem::find(&bytes[at..], &wanted) {
                bytes[at + next + 1] = b'x';
                at += next + 1;
                found += 1;
            }
            assert!(found > 0, "{example} has no {function}");
        }
        std::fs::write(self.dir.join("lib").join(name), bytes).unwrap();
        self
    }

    /// A variable in the doctor's environment.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// A machine whose driver is not loaded.
    pub(crate) fn without_driver(mut self) -> Self {
        self.kernel_driver = false;
        self
    }

    /// A GPU on the bus that neither the driver shows to this process nor a stand-in knows: another container's.
    pub(crate) fn with_ungiven(self, pci: &str) -> Self {
        self.gpu(pci);
        std::fs::remove_dir(self.dir.join("driver/nvidia/gpus").join(pci)).unwrap();
        self
    }

    /// Takes something off the stage.
    pub(crate) fn without(self, name: &str) -> Self {
        let path = self.dir.join(name);
        match path.is_dir() && !path.is_symlink() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
        self
    }

    /// A shell's script that dresses the stage, of whose directory it is told, and then is what it is told.
    fn scene(&self) -> String {
        let mut script = String::from("set -e\ncd \"$0\"\n");
        // What of the machine's own devices programs need.
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            script += &format!("touch dev/{name}; mount --bind /dev/{name} dev/{name}\n");
        }
        if self.kernel_driver {
            script += "mount --bind driver /proc/driver\n";
        }
        script + "mount --bind bus /sys/bus/pci\nmount --rbind dev /dev\ncd /\nexec \"$@\"\n"
    }

    /// A library of the stage.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.dir.join("lib").join(name)
    }

    /// A program that is the doctor on this stage, for what starts it by itself.
    pub(crate) fn program(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let quoted =
            |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let path = self.dir.join("doctor");
        let mut script = String::from("#!/bin/sh\n");
        for (name, value) in [
            ("LD_LIBRARY_PATH", self.dir.join("lib")),
            (VARIABLE, self.description.clone()),
            ("RDMA_DOCTOR_STANDIN_DIR", self.dir.to_path_buf()),
        ] {
            script += &format!("export {name}={}\n", quoted(&value));
        }
        script += &format!(
            "exec unshare {} sh -c '{}' {} {} \"$@\"\n",
            self.way.join(" "),
            self.scene(),
            quoted(&self.dir),
            quoted(Path::new(doctor())),
        );
        self.file("doctor", script.as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs the doctor on the stage.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let script = self.scene();
        Command::new("unshare")
            .args(self.way)
            .args(["sh", "-c", &script])
            .arg(&*self.dir)
            .arg(doctor())
            .args(args)
            .env("LD_LIBRARY_PATH", self.dir.join("lib"))
            .env(VARIABLE, &self.description)
            .env("RDMA_DOCTOR_STANDIN_DIR", &*self.dir)
            .env("NO_COLOR", "1")
            .env_remove("CUDA_VISIBLE_DEVICES")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The names of what is beside the library.
    pub(crate) fn beside_library(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.join("lib")).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// Records the stage, unredacted, and reads the recording.
    pub(crate) fn record(&self) -> StageRecording {
        self.record_with(&["--no-redact"])
    }

    /// Records the stage with these options.
    pub(crate) fn record_with(&self, options: &[&str]) -> StageRecording {
        let begun = Instant::now();
        let out = self.run(&[&["record"], options].concat());
        let took = begun.elapsed();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        let recording = Recording::read(text.as_bytes(), Path::new("stage")).unwrap();
        let mut facts = Facts::new();
        let node = establish(&recording, &mut facts);
        derive(&mut facts);
        StageRecording {
            recording,
            facts,
            node,
            took,
        }
    }
}

/// A stand-in, as its sources are now: `cargo test` builds them all, `cargo test --test NAME` none.
pub(crate) fn built(example: &str) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    // The program is target/PROFILE/rdma-doctor, and examples are in target/PROFILE/examples.
    let path = Path::new(DOCTOR)
        .with_file_name("examples")
        .join(format!("lib{example}.so"));
    if stale(&path) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--example", example]);
        if !cfg!(feature = "verbs") {
            cargo.arg("--no-default-features");
        }
        let profile = path.ancestors().nth(2).and_then(Path::file_name);
        if profile.is_some_and(|name| name == "release") {
            cargo.arg("--release");
        }
        let status = cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "{example} does not build");
    }
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// Whether a library is missing, or older than one of the sources that cargo made it of.
fn stale(library: &Path) -> bool {
    let changed = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|data| data.modified())
            .ok()
    };
    // "LIBRARY: SOURCE SOURCE"; a space in a path has a backslash before it. The doctor's own sources, which examples may use, are named
    // too; a stand-in uses none.
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    let Ok(made_of) = std::fs::read_to_string(library.with_extension("d")) else {
        return true;
    };
    let made_of = made_of.replace("\\ ", "\0");
    let mut sources = made_of
        .lines()
        .flat_map(|line| line.split_whitespace().skip(1))
        .map(|path| PathBuf::from(path.replace('\0', " ")))
        .filter(|path| path.starts_with(&own));
    let built = changed(library);
    built.is_none() || sources.any(|source| changed(&source) > built)
}
