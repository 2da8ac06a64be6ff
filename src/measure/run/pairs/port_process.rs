//! The parent's side of a process that measures over a port with RDMA writes. A process that
//! crashes or does not respond in time is replaced.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use crate::live::worker::child::{self, how_its_process_ended, kill_group, wait_a_moment};
use crate::measure::plan::pairs::Memory;
use crate::measure::plan::reply::GpuMemory;
use crate::measure::run::pairs::rdma::{
    ARGUMENT, GreetingResult, OpenedPort, PortCommand, PortReply, Purpose, WriteResult,
};

/// How long the library may take to open a device, or to make or connect a queue pair.
const SETTING_UP: Duration = Duration::from_secs(20);
/// How long CUDA may take to start and the adapter to register GPU memory: without persistence mode
/// the driver first initialises all GPUs.
pub const TAKING: Duration = Duration::from_secs(60);
/// How long a measurement may take beyond its window: until a device gives up, and a margin.
const MEASURING: Duration = Duration::from_secs(75);

/// A port, and the process that measures over it.
pub struct PortProcess {
    device: String,
    gid_index: Option<u64>,
    purpose: Purpose,
    /// What its packets carry at most, where that was limited.
    most: Option<u64>,
    /// The GPU whose memory is registered, too.
    gpu: Option<String>,
    running: Option<RunningProcess>,
}

struct RunningProcess {
    child: Child,
    told: ChildStdin,
    said: Receiver<PortReply>,
}

impl PortProcess {
    /// Opens a device and port (`mlx5_0/1`) for this, with this row of its GID table if given;
    /// returns what was opened.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open(
        device: &str,
        gid_index: Option<u64>,
        purpose: Purpose,
    ) -> Result<(Self, OpenedPort), String> {
        let mut station = PortProcess {
            device: device.to_owned(),
            gid_index,
            purpose,
            most: None,
            gpu: None,
            running: None,
        };
        let opened = station.start()?;
        Ok((station, opened))
    }

    fn start(&mut self) -> Result<OpenedPort, String> {
        let started = child::start(None, ARGUMENT, Stdio::null, |_| {});
        let mut child = started.map_err(|error| format!("its process did not start: {error}"))?;
        let (Some(told), Some(pipe)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its process has no pipes".to_owned());
        };
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let said = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let Some(said) = said else { break };
                if sender.send(said).is_err() {
                    break;
                }
            }
        });
        self.running = Some(RunningProcess { child, told, said });
        let open = PortCommand::Open {
            device: self.device.clone(),
            gid_index: self.gid_index,
            purpose: self.purpose,
        };
        let said = self.request(&open, SETTING_UP)?;
        let PortReply::Opened(opened) = said else {
            return Err(unexpected_reply());
        };
        if let Some(bytes) = self.most {
            self.request(&PortCommand::Limit(bytes), SETTING_UP)?;
        }
        if let Some(pci) = self.gpu.clone() {
            self.request(&PortCommand::Gpu(pci), TAKING)?;
        }
        Ok(opened)
    }

    /// Opens a GPU whose memory the adapter shall access; returns how it does, or why it cannot.
    ///
    /// # Errors
    ///
    /// CUDA does not start, or has no memory.
    pub fn open_gpu(&mut self, pci: &str) -> Result<GpuMemory, String> {
        match self.request(&PortCommand::Gpu(pci.to_owned()), TAKING)? {
            PortReply::Gpu(tried) => {
                self.gpu = tried.way.map(|_| pci.to_owned());
                Ok(tried)
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// Sends a command and waits for the reply. A process that dies or does not respond is killed,
    /// and the next pair starts a new one.
    fn request(&mut self, told: &PortCommand, patience: Duration) -> Result<PortReply, String> {
        let running = self.running.as_mut().ok_or("its process is gone")?;
        let mut line = serde_json::to_vec(told).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let said = match running.told.write_all(&line) {
            Ok(()) => running.said.recv_timeout(patience),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match said {
            Ok(PortReply::Failed(why)) => Err(why),
            Ok(said) => Ok(said),
            Err(lost) => {
                let died = match lost {
                    RecvTimeoutError::Disconnected => wait_a_moment(&mut running.child),
                    RecvTimeoutError::Timeout => None,
                };
                self.running = None;
                Err(match died {
                    Some(status) => how_its_process_ended(status),
                    None => format!("the library did not return in {} s", patience.as_secs()),
                })
            }
        }
    }

    /// Makes a new queue pair for data in this memory; returns its address for the other end.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn pair(&mut self, of: Memory) -> Result<Value, String> {
        if self.running.is_none() {
            self.start()?;
        }
        match self.request(&PortCommand::Pair(of), SETTING_UP)? {
            PortReply::Paired(end) => Ok(end),
            _ => Err(unexpected_reply()),
        }
    }

    /// Has the packets of the queue pairs that follow carry so many bytes at most.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn limit(&mut self, bytes: u64) -> Result<(), String> {
        self.most = Some(bytes);
        match self.running {
            None => Ok(()),
            Some(_) => (self.request(&PortCommand::Limit(bytes), SETTING_UP)).map(|_| ()),
        }
    }

    /// Connects the queue pair to the other end's; returns how many bytes its packets carry.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn connect(&mut self, far: Value) -> Result<u64, String> {
        match self.request(&PortCommand::Connect(far), SETTING_UP)? {
            PortReply::Connected(bytes) => Ok(bytes),
            _ => Err(unexpected_reply()),
        }
    }

    /// Exchanges a word with the other end.
    pub fn greet(&mut self) -> GreetingResult {
        let why = match self.request(&PortCommand::Greet, MEASURING) {
            Ok(PortReply::Greeted(greeted)) => return greeted,
            Ok(_) => unexpected_reply(),
            Err(why) => why,
        };
        GreetingResult {
            own: Err(why),
            heard: false,
        }
    }

    /// Writes data for `window`.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn write(&mut self, window: Duration) -> Result<WriteResult, String> {
        let write = PortCommand::Write(milliseconds(window));
        match self.request(&write, window + MEASURING)? {
            PortReply::Written(written) => Ok(written),
            _ => Err(unexpected_reply()),
        }
    }

    /// Checks whether this many bytes that the other end wrote arrived correctly.
    ///
    /// # Errors
    ///
    /// How many did not.
    pub fn check(&mut self, bytes: u64) -> Result<(), String> {
        self.request(&PortCommand::Check(bytes), SETTING_UP)
            .map(|_| ())
    }

    /// The shortest round trip of a word within `window`, in nanoseconds.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn measure_latency(&mut self, window: Duration) -> Result<u64, String> {
        match self.request(&PortCommand::Ask(milliseconds(window)), window + MEASURING)? {
            PortReply::Asked(least) => Ok(least),
            _ => Err(unexpected_reply()),
        }
    }

    /// Answers words while the other end measures: `window`, and a margin.
    ///
    /// # Errors
    ///
    /// What failed.
    pub fn answer_latency(&mut self, window: Duration) -> Result<(), String> {
        self.request(&PortCommand::Answer, window + MEASURING)
            .map(|_| ())
    }
}

fn milliseconds(window: Duration) -> u64 {
    u64::try_from(window.as_millis()).unwrap_or(u64::MAX)
}

fn unexpected_reply() -> String {
    "its process sent an unexpected reply".to_owned()
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        kill_group(&self.child);
        wait_a_moment(&mut self.child);
    }
}
