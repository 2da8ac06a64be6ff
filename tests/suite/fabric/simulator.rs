//! ibsim(8) with a subnet manager that configures its fabric once, and the tools that look at it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::net::Net;
use crate::place::Scratch;
use crate::process::PATIENT;

/// A simulated fabric; it ends with this value.
pub(super) struct Simulator {
    directory: Scratch,
    simulator: Child,
    manager: Option<Child>,
    socket: String,
    /// The host on which the tools run.
    host: String,
}

/// The library that stands for the machine's adapter.
fn library() -> Option<PathBuf> {
    let lib = Path::new("/usr/lib");
    let folders = [
        lib.to_owned(),
        lib.join(format!("{}-linux-gnu", std::env::consts::ARCH)),
    ];
    let mut found = folders
        .iter()
        .map(|folder| folder.join("umad2sim/libumad2sim.so"));
    found.find(|path| path.is_file())
}

/// Whether ibsim is installed; it is said where it is not, and where all must be there, that fails.
pub(super) fn is_here() -> bool {
    let is_here = library().is_some();
    if !is_here {
        crate::formats::skipped("ibsim");
    }
    is_here
}

impl Simulator {
    /// Starts the fabric, and waits until its ports are active.
    pub(super) fn start(net: &Net, name: &str) -> Self {
        let directory = Scratch::new(&format!("ibsim-{name}"));
        let file = directory.join("net");
        fs::write(&file, net.to_text()).unwrap();
        let log = directory.join("ibsim.log");
        let socket = format!("rd{}-{name}", std::process::id());
        let simulator = Command::new("ibsim")
            .args(["-s", file.to_str().unwrap()])
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::piped())
            .stdout(File::create(&log).unwrap())
            .stderr(File::create(directory.join("ibsim.err")).unwrap())
            .spawn()
            .unwrap();
        let adapters = net.adapters();
        let host = (*adapters.last().unwrap()).to_owned();
        let mut simulator = Simulator {
            directory,
            simulator,
            manager: None,
            socket,
            host,
        };
        wait_until(|| {
            fs::read_to_string(&log)
                .unwrap()
                .contains("Network simulator ready")
        });
        simulator.configure(adapters.first().unwrap());
        simulator
    }

    /// Lets a subnet manager bring all ports up.
    fn configure(&mut self, host: &str) {
        let cache = self.directory.join("opensm");
        fs::create_dir(&cache).unwrap();
        let manager = self
            .command("opensm", host)
            .args([
                "-e",
                "-f",
                self.directory.join("opensm.log").to_str().unwrap(),
            ])
            .env("OSM_CACHE_DIR", &cache)
            .env("OSM_TMP_DIR", &cache)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.manager = Some(manager);
        let is_active =
            |output: Output| String::from_utf8_lossy(&output.stdout).contains("State: Active");
        wait_until(|| is_active(self.run("ibstat")));
    }

    /// Ends the subnet manager, so that what commands change stays as it is.
    pub(super) fn end_manager(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill();
            let _ = manager.wait();
        }
    }

    fn command(&self, program: &str, host: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&*self.directory)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", host)
            .env("LD_PRELOAD", library().unwrap());
        command
    }

    /// Gives the simulator's console a command.
    pub(super) fn say(&mut self, line: &str) {
        let console = self.simulator.stdin.as_mut().unwrap();
        writeln!(console, "{line}").unwrap();
        console.flush().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }

    /// What a tool prints.
    fn run(&self, line: &str) -> Output {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap(), &self.host);
        command.args(words).output().unwrap()
    }

    /// The list of links that the subnet manager wrote.
    pub(super) fn subnet_list(&self) -> PathBuf {
        self.directory.join("opensm/opensm-subnet.lst")
    }

    /// Writes a file beside the outputs.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes what a tool prints into a file.
    pub(super) fn output(&self, line: &str) -> PathBuf {
        let path = self
            .directory
            .join(format!("{}.txt", line.replace(' ', "")));
        // The console may not have done yet what it was told.
        let end = Instant::now() + PATIENT;
        let mut output = self.run(line);
        while output.stdout.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(Instant::now() < end, "{line}: {said}");
            output = self.run(line);
        }
        fs::write(&path, output.stdout).unwrap();
        path
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.end_manager();
        let _ = self.simulator.kill();
        let _ = self.simulator.wait();
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENT;
    while !is_so() {
        assert!(
            Instant::now() < end,
            "the simulated fabric does not come up"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
