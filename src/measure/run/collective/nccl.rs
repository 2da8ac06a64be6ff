//! The NCCL backend: buffers in GPU memory, operations in a stream, timed by the device's clock.
//!
//! The communicator is the blocking one that programs use; a rank that waits in it forever is
//! killed by its parent. While an operation runs, the communicator is polled for asynchronous
//! errors, because its kernel would hang then.

mod buffers;

use std::time::Duration;

use cudarc::nccl::sys::{ncclDataType_t, ncclRedOp_t};
use serde_json::Value;

use super::backend::{Backend, Identity};
use super::rank_exchange::RankExchange;
use super::rank_messages::RankJob;
use crate::live::cuda::{self, driver};
use crate::live::failure::Failure;
use crate::live::nccl::{self, Communicator, DeviceBuffer, Operation};
use crate::measure::plan::collective::{Collective, DataType, Reduction};
use crate::measure::plan::run::Point;
use buffers::Layout;
use driver::{Context, DeviceMemory, Event, Stream};

/// What the output buffer holds before an operation: no value of the test data.
const POISON: u8 = 0xa5;
/// How often to poll for an operation's end without a pause, and the longest pause afterwards. The
/// device's clock times the operations, so pauses do not matter, unless each operation is awaited.
const LOOKS: u32 = 64;
const LOOKS_AWAITED: u32 = 4096;
const LONGEST: Duration = Duration::from_millis(1);

impl From<driver::Failure> for Failure {
    fn from(failure: driver::Failure) -> Self {
        match failure {
            driver::Failure::Refused(refusal) => Failure::new("CUDA", refusal.to_string()),
            driver::Failure::Code { function, code } => {
                Failure::new(function, driver::error_name(code)).code(code)
            }
        }
    }
}

/// Opens the rank's GPU, loads the chosen library, and joins the other ranks.
///
/// # Errors
///
/// No driver, no such GPU, no library, or what CUDA and NCCL say.
pub(super) fn connect(
    job: &RankJob,
    exchange: &mut RankExchange,
) -> Result<Box<dyn Backend>, Failure> {
    let refused = |what: &str, error: &str| Failure::new(what, error);
    let path = (job.library.as_deref())
        .ok_or_else(|| refused("dlopen", "no NCCL library was named or found"))?;
    let gpu = (job.place.gpu.as_deref())
        .ok_or_else(|| refused("cuDeviceGet", "the rank was given no GPU"))?;
    exchange.report_step("taking the GPU");
    cuda::ready().map_err(driver::Failure::from)?;
    driver::init()?;
    let context = Context::of(cuda::device_at(gpu)?)?;
    let stream = Stream::new(context)?;
    let (begin, end) = (Event::new(context)?, Event::new(context)?);
    exchange.report_step("loading NCCL");
    nccl::load(path)?;
    let version = nccl::version();
    exchange.report_identity(Identity {
        library: Some(path.to_owned()),
        version: version.as_ref().ok().cloned(),
        ..Identity::default()
    });
    version?;
    // Ensures that all ranks loaded the library before any of them blocks in it.
    exchange.report_step("sharing the communicator's id");
    let own = match exchange.rank {
        0 => Value::from(nccl::unique_id()?),
        _ => Value::Null,
    };
    let all = exchange.all_gather(own)?;
    let id = all.first().and_then(Value::as_str).unwrap_or("");
    exchange.report_step("ncclCommInitRank");
    // NCCL uses the device of the current context.
    context.enter()?;
    let communicator = Communicator::join(id, exchange.rank, exchange.ranks)?;
    Ok(Box::new(NcclBackend {
        rank: exchange.rank,
        ranks: exchange.ranks,
        communicator,
        memory: Vec::new(),
        layout: Layout::default(),
        begin,
        end,
        stream,
        context,
    }))
}

/// A rank on its GPU. Fields are dropped in order: the communicator's kernels end before the memory
/// is freed.
struct NcclBackend {
    rank: usize,
    ranks: usize,
    communicator: Communicator,
    /// Input and output; one buffer in place.
    memory: Vec<DeviceMemory>,
    layout: Layout,
    begin: Event,
    end: Event,
    stream: Stream,
    context: Context,
}

impl NcclBackend {
    /// The output buffer.
    fn receiving(&self) -> Result<&DeviceMemory, Failure> {
        let at = usize::from(!self.layout.in_place);
        self.memory.get(at).ok_or_else(not_prepared)
    }

    fn sending(&self) -> Result<&DeviceMemory, Failure> {
        self.memory.first().ok_or_else(not_prepared)
    }

    /// Queues one operation in the stream.
    fn launch(&mut self, point: &Point) -> Result<(), Failure> {
        let size = point.dtype.size();
        let part = |memory: &DeviceMemory, at: usize, bytes: usize| DeviceBuffer {
            at: memory.address() + at as u64,
            count: bytes / size,
        };
        let layout = self.layout;
        let send = part(self.sending()?, layout.send, layout.send_bytes);
        let receive = part(self.receiving()?, layout.receive, layout.receive_bytes);
        let with = &Operation {
            dtype: dtype(point.dtype),
            op: reduction(point.op),
            stream: &self.stream,
        };
        let (rank, ranks) = (self.rank, self.ranks);
        let of = |whole: DeviceBuffer, rank: usize| DeviceBuffer {
            at: whole.at + (rank * (whole.count / ranks) * size) as u64,
            count: whole.count / ranks,
        };
        let parts = |whole: DeviceBuffer| -> Vec<(DeviceBuffer, usize)> {
            (0..ranks).map(|rank| (of(whole, rank), rank)).collect()
        };
        let of_root = |whole: DeviceBuffer| match rank {
            0 => parts(whole),
            _ => Vec::new(),
        };
        let communicator = &mut self.communicator;
        match point.collective {
            Collective::Scatter => communicator.exchange(with, &of_root(send), &[(receive, 0)]),
            Collective::Gather => communicator.exchange(with, &[(send, 0)], &of_root(receive)),
            Collective::AllToAll => communicator.exchange(with, &parts(send), &parts(receive)),
            Collective::SendRecv => {
                let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
                communicator.exchange(with, &[(send, next)], &[(receive, before)])
            }
            native => communicator.collective(native, with, send, receive),
        }
    }

    /// Waits until the stream is done or the communicator reports an error.
    fn wait(&mut self, doing: &str, eager: u32) -> Result<(), Failure> {
        let mut looks: u32 = 0;
        while !self.stream.done()? {
            looks = looks.saturating_add(1);
            if looks <= eager {
                std::thread::yield_now();
                continue;
            }
            self.communicator.alive(doing)?;
            let pause = Duration::from_micros(10) * (looks - eager).min(100);
            std::thread::sleep(pause.min(LONGEST));
        }
        // An error at the very end makes the result worthless, too.
        self.communicator.alive(doing)
    }

    fn timed(&mut self, point: &Point) -> Result<Duration, Failure> {
        let doing = function(point.collective);
        self.begin.mark(&self.stream)?;
        for _ in 0..point.iterations {
            self.launch(point)?;
            if point.awaited {
                self.wait(doing, LOOKS_AWAITED)?;
            }
        }
        self.end.mark(&self.stream)?;
        self.wait(doing, LOOKS)?;
        let ms = self.begin.until(&self.end)?;
        Ok(Duration::from_secs_f64(ms.max(0.0) / 1e3))
    }
}

impl Backend for NcclBackend {
    fn prepare(&mut self, _exchange: &mut RankExchange, point: &Point) -> Result<(), Failure> {
        let layout = Layout::of(point, self.rank, self.ranks)
            .map_err(|error| Failure::new(function(point.collective).to_owned(), error))?;
        let fits = self.memory.len() == layout.buffers().len()
            && self
                .memory
                .iter()
                .zip(layout.buffers())
                .all(|(memory, bytes)| memory.bytes() >= *bytes);
        if !fits {
            // Frees the old memory first: both may not fit.
            self.memory.clear();
            for bytes in layout.buffers() {
                // A rank has no elements if there are more ranks than elements.
                let bytes = (*bytes).max(1);
                self.memory.push(DeviceMemory::new(self.context, bytes)?);
            }
        }
        self.layout = layout;
        Ok(())
    }

    fn fill(&mut self, at: usize, send: &[u8]) -> Result<(), Failure> {
        let layout = self.layout;
        if at
            .checked_add(send.len())
            .is_none_or(|end| end > layout.send_bytes)
        {
            return Err(not_prepared());
        }
        self.stream.put(self.sending()?, layout.send + at, send)?;
        Ok(())
    }

    fn poison(&mut self) -> Result<(), Failure> {
        let bytes = self.layout.buffers().last().copied().unwrap_or(0);
        self.stream.set(self.receiving()?, 0, bytes, POISON)?;
        Ok(())
    }

    fn run(&mut self, _exchange: &mut RankExchange, point: &Point) -> Result<Duration, Failure> {
        let timed = self.timed(point);
        if timed.is_err() {
            // Queued work may wait for other ranks forever.
            self.communicator.give_up();
        }
        timed
    }

    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure> {
        let at = self.layout.receive + from;
        self.stream.get(self.receiving()?, at, into)?;
        Ok(())
    }
}

fn not_prepared() -> Failure {
    Failure::new("cuMemcpy", "there is no buffer of this size")
}

/// The NCCL function that an operation's failure or hang is attributed to.
fn function(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "ncclAllReduce",
        Collective::AllGather => "ncclAllGather",
        Collective::ReduceScatter => "ncclReduceScatter",
        Collective::Broadcast => "ncclBroadcast",
        Collective::Reduce => "ncclReduce",
        Collective::Scatter | Collective::Gather | Collective::AllToAll | Collective::SendRecv => {
            "ncclSend"
        }
    }
}

fn dtype(dtype: DataType) -> ncclDataType_t {
    match dtype {
        DataType::Float32 => ncclDataType_t::ncclFloat32,
        DataType::Float16 => ncclDataType_t::ncclFloat16,
        DataType::Bfloat16 => ncclDataType_t::ncclBfloat16,
        DataType::Uint8 => ncclDataType_t::ncclUint8,
        DataType::Int32 => ncclDataType_t::ncclInt32,
    }
}

fn reduction(op: Reduction) -> ncclRedOp_t {
    match op {
        Reduction::Sum => ncclRedOp_t::ncclSum,
        Reduction::Min => ncclRedOp_t::ncclMin,
        Reduction::Max => ncclRedOp_t::ncclMax,
    }
}
