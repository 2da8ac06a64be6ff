//! A queue pair that is connected with itself and writes to itself, as NCCL's flush after GPUDirect RDMA does (`ncclIbAccept`, gpuFlush, of
//! `src/transport/net_ib.cc`).

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::address::Address;
use super::library::completion::{CompletionQueue, status_words};
use super::library::domain::{Domain, Registered};
use super::library::pair::{Attempts, QueuePair};
use super::port::Port;
use super::port_request::PortRequest;
use crate::live::environment;
use crate::live::failure::Failure;
use crate::live::pages::PageMemory;
use crate::live::rehearsal::{Failed, Why};
use crate::measure::plan::run::RankPlacement;
use crate::source::{Errno, Refusal};

/// Memory that NCCL registers for each connection: the buffer of its protocol for large messages (`DEFAULT_BUFFSIZE` of `src/init.cc`).
const REGISTERED: usize = 4 << 20;
/// Bytes that are written: several packets of any size.
const WRITTEN: usize = 64 << 10;
/// 268 ms for an acknowledgement, four attempts: an adapter reports its failure within four seconds.
const ATTEMPTS: Attempts = Attempts {
    timeout: 16,
    retries: 3,
};
/// How long the device may leave the write without a word. On a machine whose processors are taken its timers run late: that is no silence.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long to yield the processor before sleeping between two looks.
const YIELDING: Duration = Duration::from_millis(1);

/// What became of a port.
pub(crate) struct Trial {
    /// The row of the GID table that was used, on Ethernet.
    pub(crate) gid_index: Option<u8>,
    /// How it ended.
    pub(in crate::live) ended: Result<(), Failed>,
}

/// Tries the port of this name; says at which step it is.
pub(crate) fn of_port(name: &str, asked: Option<u64>, at: &dyn Fn(&'static str)) -> Trial {
    let mut gid_index = None;
    let place = RankPlacement {
        gid_index: asked,
        ..RankPlacement::default()
    };
    let ended = write_to_itself(name, &place, at, &mut gid_index);
    Trial { gid_index, ended }
}

fn write_to_itself(
    name: &str,
    place: &RankPlacement,
    at: &dyn Fn(&'static str),
    row: &mut Option<u8>,
) -> Result<(), Failed> {
    let failed = |step: &'static str| {
        at(step);
        Failed::refused(step)
    };
    let variable = environment::variable;
    let wish = PortRequest::new(place, variable);
    let refused = |why: Failure| {
        let errno = why.code.and_then(|code| i32::try_from(code).ok());
        Failed::refused("open")(match errno {
            Some(errno) => Refusal::Errno(Errno(errno)),
            // No row of the GID table is the one that is asked for.
            None => Refusal::not_asked(why.to_string()),
        })
    };
    let wish = wish.map_err(refused)?;
    let port = Port::open(Some(name), &wish, variable).map_err(refused)?;
    if port.ethernet {
        *row = Some(port.gid_index);
    }
    let domain = Domain::new(&port.context).map_err(failed("domain"))?;
    let domain = Rc::new(domain);
    let queue = CompletionQueue::new(&port.context, 2).map_err(failed("completion-queue"))?;
    let queue = Rc::new(queue);
    let no_memory = failed("register");
    let memory = PageMemory::new(REGISTERED).map_err(|errno| no_memory(Refusal::Errno(errno)))?;
    let registered = Registered::new(&domain, memory);
    let mut memory = registered.map_err(|(refusal, _)| no_memory(refusal))?;
    let pair = QueuePair::new(&domain, &queue, 1, 1).map_err(failed("queue-pair"))?;
    let address = Address::of(&port).map_err(refused)?;
    let near = port.near(&wish, address.first_packet);
    pair.initialise(&near).map_err(failed("INIT"))?;
    let far = address.far(&address, pair.number());
    pair.ready_to_receive(&near, &far).map_err(failed("RTR"))?;
    pair.ready_to_send(&near, ATTEMPTS).map_err(failed("RTS"))?;
    let (from, to) = (0..WRITTEN, WRITTEN..2 * WRITTEN);
    for (at, byte) in memory
        .memory_mut()
        .write(from.clone())
        .iter_mut()
        .enumerate()
    {
        // No two packets carry the same bytes.
        *byte = (at / 251 + at) as u8;
    }
    let mut target = memory.far();
    target.address += to.start as u64;
    let lost = failed("write");
    let posted = pair.write(0, memory.near(), from.clone(), target, None);
    posted.map_err(&lost)?;
    match wait(&queue).map_err(&lost)? {
        Some(0) => {}
        Some(status) => {
            let why = Why::Status(status_words(status).1);
            return Err(Failed { step: "write", why });
        }
        None => return Err(lost(Refusal::Timeout)),
    }
    let (sent, came) = (memory.memory().read(from), memory.memory().read(to));
    match sent.iter().zip(came).filter(|(a, b)| a != b).count() {
        0 => Ok(()),
        wrong => Err(Failed::wrong(wrong)),
    }
}

/// The status of the one work that was given; `None` if the device says nothing in time.
#[expect(
    clippy::disallowed_methods,
    reason = "the child times its own questions"
)]
fn wait(queue: &CompletionQueue) -> Result<Option<u32>, Refusal> {
    let begun = Instant::now();
    loop {
        let mut status = None;
        let waited = begun.elapsed();
        queue.poll(|done| status = Some(done.status))?;
        match status {
            Some(_) => return Ok(status),
            None if waited > PATIENCE => return Ok(None),
            None if waited < YIELDING => std::thread::yield_now(),
            None => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
