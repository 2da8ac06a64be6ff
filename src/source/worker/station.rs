//! A process that measures over a port with RDMA writes: it is asked, and answers within its time, or is replaced.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use super::child::{self, how_its_process_ended, kill_group, wait_a_moment};
use crate::source::live::pairs::rdma::{ARGUMENT, Greeted, Opened, Said, Told, Written};

/// How long a library may take to open a device, or to make or connect a queue pair.
const SETTING_UP: Duration = Duration::from_secs(20);
/// How long a measurement may take beyond its time: until a device has given up, and a little more.
const MEASURING: Duration = Duration::from_secs(75);

/// A port, and the process that has it.
pub struct Station {
    device: String,
    running: Option<Running>,
}

struct Running {
    child: Child,
    told: ChildStdin,
    said: Receiver<Said>,
}

impl Station {
    /// Opens a device and port (`mlx5_0/1`); says what is used of it.
    ///
    /// # Errors
    ///
    /// Why it cannot be used, in words.
    pub fn open(device: &str) -> Result<(Self, Opened), String> {
        let mut station = Station {
            device: device.to_owned(),
            running: None,
        };
        let opened = station.start()?;
        Ok((station, opened))
    }

    fn start(&mut self) -> Result<Opened, String> {
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
        self.running = Some(Running { child, told, said });
        let said = self.ask(&Told::Open(self.device.clone()), SETTING_UP)?;
        match said {
            Said::Opened(opened) => Ok(opened),
            _ => Err(strange()),
        }
    }

    /// Puts a wish to the process. One that dies or stays silent is ended; the next pair begins with a fresh one.
    fn ask(&mut self, told: &Told, patience: Duration) -> Result<Said, String> {
        let running = self.running.as_mut().ok_or("its process is gone")?;
        let mut line = serde_json::to_vec(told).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let said = match running.told.write_all(&line) {
            Ok(()) => running.said.recv_timeout(patience),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match said {
            Ok(Said::Failed(why)) => Err(why),
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

    /// Has a new queue pair; what the other end has to know of it.
    ///
    /// # Errors
    ///
    /// What failed, in words.
    pub fn pair(&mut self) -> Result<Value, String> {
        if self.running.is_none() {
            self.start()?;
        }
        match self.ask(&Told::Pair, SETTING_UP)? {
            Said::Paired(end) => Ok(end),
            _ => Err(strange()),
        }
    }

    /// Connects it with the other end's.
    ///
    /// # Errors
    ///
    /// What failed, in words.
    pub fn connect(&mut self, far: Value) -> Result<(), String> {
        self.ask(&Told::Connect(far), SETTING_UP).map(|_| ())
    }

    /// A word each way.
    pub fn greet(&mut self) -> Greeted {
        match self.ask(&Told::Greet, MEASURING) {
            Ok(Said::Greeted(greeted)) => greeted,
            Ok(_) => Greeted {
                own: Err(strange()),
                heard: false,
            },
            Err(why) => Greeted {
                own: Err(why),
                heard: false,
            },
        }
    }

    /// Writes data for this time.
    ///
    /// # Errors
    ///
    /// What failed, in words.
    pub fn write(&mut self, window: Duration) -> Result<Written, String> {
        match self.ask(&Told::Write(milliseconds(window)), window + MEASURING)? {
            Said::Written(written) => Ok(written),
            _ => Err(strange()),
        }
    }

    /// The least time of a word there and back, in nanoseconds, of those of this time.
    ///
    /// # Errors
    ///
    /// What failed, in words.
    pub fn ask_words(&mut self, window: Duration) -> Result<u64, String> {
        match self.ask(&Told::Ask(milliseconds(window)), window + MEASURING)? {
            Said::Asked(least) => Ok(least),
            _ => Err(strange()),
        }
    }

    /// Answers words, for as long as the other end asks: this time, and a little more.
    ///
    /// # Errors
    ///
    /// What failed, in words.
    pub fn answer_words(&mut self, window: Duration) -> Result<(), String> {
        self.ask(&Told::Answer, window + MEASURING).map(|_| ())
    }
}

fn milliseconds(window: Duration) -> u64 {
    u64::try_from(window.as_millis()).unwrap_or(u64::MAX)
}

fn strange() -> String {
    "its process said something else".to_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(&self.child);
        wait_a_moment(&mut self.child);
    }
}
