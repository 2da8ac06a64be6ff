//! A stand-in for libnccl.so.2 at its ABI, for tests only. Ranks are processes of one machine; what they exchange and reduce is real, through
//! memory that they share, and how long it takes is a model of the machine that a description gives (`machine.rs`): a stream's work ends when
//! that time has passed, and events of the stand-in of CUDA say exactly that time. It asks no hardware and is never shipped.
//!
//! It writes the lines that NCCL 2.27 writes, and reads a variable where NCCL reads it. What it reads of the description:
//!
//! ```toml
//! [system.nccl]
//! version = 22705
//! nodes = 2                          # on so many nodes the ranks seem to be; names are node-0, node-1
//! p2p = true                         # GPUs of a node reach each other; [pairs."0-1".nccl] p2p = false
//! hcas = ["mlx5_0:1/IB"]             # no list: no device is found
//! gdr = true                         # the adapters reach the GPUs' memory
//! nvls = true
//! chooses = "ring"                   # the algorithms that it takes by itself, as NCCL_ALGO names them; else the fastest
//! plugin = "…"                       # a line of the network plugin's
//! channels = 2                       # lines are written for so many
//! latency = 0.0                      # µs of a step
//! first_ms = 0.0                     # what the first operation takes besides
//! noise = 0.1                        # each operation takes up to this part longer, by chance of its number
//! run_noise = 0.3                    # the same of a run
//! drift = 0.05                       # every run is slower by this part of the first
//! ignores = ["NCCL_IB_DISABLE"]      # variables that are read and have no effect
//! never_reads = []                   # variables that are not read
//! [system.nccl.bandwidth]            # GB/s: bus bandwidth of a ring whose slowest hop is this
//! p2p = 370.0
//! shm = 9.0
//! ib = 48.0                          # with `_local`, of hops within a node: ib_local, ib_host_local, socket_local
//! ib_host = 24.0                     # without GPUDirect RDMA
//! socket = 2.5
//! nvls = 480.0                       # algorithms, where there are any but the ring
//! tree = 80.0
//! collnet = 90.0
//! [[system.nccl.effect]]             # what a variable makes of a path
//! variable = "NCCL_CROSS_NIC"
//! value = "0"
//! path = "ib"
//! factor = 0.8
//! [system.nccl.fail]                 # what fails: of which rank (else of all), where this path is used, this variable is set
//! rank = 2
//! path = "shm"
//! at = "init"                        # or "operation"
//! after = 3                          # operations that are well before
//! async = true                       # the communicator breaks, and the operation never ends
//! code = 2
//! warn = ["misc/shmutils.cc:87 NCCL WARN …"]
//! [system.nccl.hang]                 # likewise: a rank that does not come
//! [system.nccl.wrong]                # likewise: a rank that gets wrong values
//! element = 1000
//! count = 3
//! [gpus.5.nccl]
//! bandwidth = 40.0                   # no hop from or to this GPU carries more
//! slower = 0.3                       # its part of an operation takes longer than the others'
//! ```
//!
//! `RDMA_DOCTOR_STANDIN_DIR` names a directory in which runs are counted, in a file `runs`.
#![expect(
    clippy::missing_safety_doc,
    unsafe_code,
    missing_docs,
    reason = "the functions are NCCL's, and so are their contracts"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a stand-in reads its description and fails loudly"
)]

#[path = "nccl/board.rs"]
mod board;
#[path = "nccl/cuda.rs"]
mod cuda;
#[path = "nccl/data.rs"]
mod data;
#[path = "nccl/log.rs"]
mod log;
mod machine;
#[path = "nccl/model.rs"]
mod model;

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use board::{Area, Board, Cause, Gone, MOST, Post};
use cuda::{Cuda, Stream};
use data::{Op, Type};
use log::{Group, Log};
use model::{Algorithm, Model, Network, Variables, Via, number, said, trouble};
use toml::Value;

type Code = u32;
const CUDA_ERROR: Code = 1;
const SYSTEM_ERROR: Code = 2;
const INTERNAL_ERROR: Code = 3;
const INVALID_ARGUMENT: Code = 4;
const INVALID_USAGE: Code = 5;

/// `ncclUniqueId`: the process that made it, its file, and what marks it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId {
    internal: [u8; 128],
}

const MARK: &[u8; 8] = b"standin\0";

/// `ncclComm_t`.
pub struct Comm {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    worker: Option<std::thread::JoinHandle<()>>,
}

/// What the worker and the caller share.
struct Shared {
    aborted: AtomicBool,
    broken: AtomicU32,
}

/// An operation.
#[derive(Clone, Copy)]
struct Call {
    kind: Kind,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: Type,
    op: Option<Op>,
    root: usize,
}

// SAFETY: pointers are a device's addresses.
unsafe impl Send for Call {}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    /// One of a group; `root` is the peer.
    Send,
    Receive,
}

struct Job {
    calls: Vec<Call>,
    stream: Stream,
}

thread_local! {
    /// What is called between ncclGroupStart and ncclGroupEnd.
    static GROUP: RefCell<Option<Vec<(*mut Comm, Job)>>> = const { RefCell::new(None) };
}

fn version() -> i64 {
    said("version").and_then(Value::as_integer).unwrap_or(22705)
}

fn version_text() -> String {
    let code = version();
    format!("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version_out: *mut c_int) -> Code {
    unsafe { *version_out = version() as c_int };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: Code) -> *const c_char {
    let text = match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_comm: *mut Comm) -> *const c_char {
    log::last()
}

/// Which run it is: how often a communicator was begun before.
fn run() -> u64 {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    let Ok(dir) = std::env::var("RDMA_DOCTOR_STANDIN_DIR") else {
        return 0;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(format!("{dir}/runs"));
    let mut file = file.unwrap();
    let before = file.metadata().unwrap().size();
    file.write_all(b".").unwrap();
    before
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> Code {
    let Some((pid, file)) = board::create(run()) else {
        return SYSTEM_ERROR;
    };
    let mut internal = [0; 128];
    internal[..8].copy_from_slice(MARK);
    internal[8..12].copy_from_slice(&pid.to_le_bytes());
    internal[12..16].copy_from_slice(&file.to_le_bytes());
    unsafe { (*id).internal = internal };
    0
}

fn cuda() -> Option<&'static Cuda> {
    static CUDA: OnceLock<Option<Cuda>> = OnceLock::new();
    CUDA.get_or_init(Cuda::load).as_ref()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(
    comm: *mut *mut Comm,
    ranks: c_int,
    id: UniqueId,
    rank: c_int,
) -> Code {
    let (Ok(ranks), Ok(rank)) = (usize::try_from(ranks), usize::try_from(rank)) else {
        return INVALID_ARGUMENT;
    };
    match init(ranks, id, rank) {
        Ok(made) => {
            unsafe { *comm = Box::into_raw(Box::new(made)) };
            0
        }
        Err(code) => code,
    }
}

/// Chooses the network, as NCCL does when a program's first communicator begins.
fn choose_network(variables: &Variables, log: &Log, host: usize) -> Result<Network, Code> {
    let plugin = said("plugin").and_then(Value::as_str);
    log.info(
        Group::Init,
        plugin.unwrap_or("NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin."),
    );
    let wanted = variables.text("NCCL_NET");
    let wants = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let interface = format!("eth0:10.0.0.{}<0>", host + 1);
    if wants("IB") {
        let off = variables.integer("NCCL_IB_DISABLE").is_some_and(|n| n != 0);
        let adapters = model::adapters();
        if !off && !adapters.is_empty() {
            let list: String = adapters
                .iter()
                .enumerate()
                .map(|(at, name)| format!(" [{at}]{name}"))
                .collect();
            log.info(
                Group::Init,
                &format!("NET/IB : Using{list} [RO]; OOB {interface}"),
            );
            log.info(Group::Init, "Initialized NET plugin IB");
            log.info(Group::Init, "Assigned NET plugin IB to comm");
            log.info(Group::Init, "Using network IB");
            return Ok(Network::Ib);
        }
        if !off {
            log.info(Group::Init, "NET/IB : No device found.");
            log.info(
                Group::Init,
                &format!("NET/IB : Using [RO]; OOB {interface}"),
            );
        }
        log.info(Group::Init, "Failed to initialize NET plugin IB");
    }
    if wants("Socket") {
        log.info(Group::Init, &format!("NET/Socket : Using [0]{interface}"));
        log.info(Group::Init, "Initialized NET plugin Socket");
        log.info(Group::Init, "Assigned NET plugin Socket to comm");
        log.info(Group::Init, "Using network Socket");
        return Ok(Network::Socket);
    }
    log.warn("plugin/net.cc:349 NCCL WARN Failed to initialize any NET plugin");
    Err(INVALID_USAGE)
}

fn init(ranks: usize, id: UniqueId, rank: usize) -> Result<Comm, Code> {
    if &id.internal[..8] != MARK || rank >= ranks || ranks > MOST {
        return Err(INVALID_ARGUMENT);
    }
    let word = |at: usize| u32::from_le_bytes(id.internal[at..at + 4].try_into().unwrap());
    let cuda = cuda().ok_or(CUDA_ERROR)?;
    let (gpu, ordinal) = cuda.current().ok_or(CUDA_ERROR)?;
    let nodes = number(said("nodes")).map_or(1, |n| n as usize).max(1);
    let node = rank * nodes / ranks;
    let log = Log {
        host: format!("node-{node}"),
        device: ordinal,
    };
    if rank == 0 {
        log.banner(&version_text());
    }
    let interface = format!("Bootstrap: Using eth0:10.0.0.{}<0>", node + 1);
    log.info(Group::Bootstrap, &interface);
    log.info(Group::Init, "cudaDriverVersion 12080");
    log.info(
        Group::Init,
        &format!("NCCL version {}+cuda12.9", version_text()),
    );
    let variables = Variables::new(log.clone());
    let network = choose_network(&variables, &log, node)?;
    if model::said("gdr").and_then(Value::as_bool).unwrap_or(true) && network == Network::Ib {
        log.info(
            Group::Init,
            &format!("DMA-BUF is available on GPU device {ordinal}"),
        );
    }
    let board = Board::join(word(8), word(12).cast_signed(), rank, ranks).ok_or(SYSTEM_ERROR)?;
    // An address that differs from process to process, as a real one does.
    let comm = 0x5500_0000_0000_u64 | u64::from(std::process::id()) << 12;
    let bus = machine::Machine::get().pci(gpu).replace([':', '.'], "");
    let bus = bus.trim_start_matches('0');
    let name = format!(
        "ncclCommInitRank comm 0x{comm:x} rank {rank} nranks {ranks} cudaDev {ordinal} nvmlDev {gpu} busId {bus} commId 0x{:x}",
        u64::from(word(8)) << 16 | u64::from(word(12)),
    );
    log.info(Group::Init, &format!("{name} - Init START"));
    let shared = Arc::new(Shared {
        aborted: AtomicBool::new(false),
        broken: AtomicU32::new(0),
    });
    board.give_gpu(gpu);
    if trouble("hang", rank, None).is_some_and(|hang| at(hang) == "bootstrap") {
        forever();
    }
    if board.meet(&shared.aborted).is_err() {
        return Err(SYSTEM_ERROR);
    }
    let gpus: Vec<usize> = (0..ranks).map(|rank| board.gpu(rank)).collect();
    if let Some(other) = (0..ranks).find(|other| *other != rank && gpus[*other] == gpu) {
        log.warn(&format!(
            "init.cc:974 NCCL WARN Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {bus}"
        ));
        return Err(INVALID_USAGE);
    }
    let model = Model::new(gpus, network, variables);
    let channels = number(said("channels")).map_or(2, |n| n as usize);
    describe(&model, &log, rank, comm, channels);
    if let Some(fail) = trouble("fail", rank, Some(&model)).filter(|fail| at(fail) == "init") {
        return Err(fails(fail, &log));
    }
    if trouble("hang", rank, Some(&model)).is_some_and(|hang| at(hang) == "init") {
        forever();
    }
    if board.meet(&shared.aborted).is_err() {
        return Err(SYSTEM_ERROR);
    }
    log.info(Group::Init, &format!("{name} - Init COMPLETE"));
    log.info(
        Group::Init,
        &format!("Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total 0.42 (kernels 0.20, alloc 0.05, bootstrap 0.04, allgathers 0.01, topo 0.08, graphs 0.02, connections 0.01, rest 0.01)"),
    );
    let (jobs, inbox) = mpsc::channel::<Job>();
    let worker = Worker {
        shared: Arc::clone(&shared),
        board,
        model,
        log,
        rank,
        channels,
        done: 0,
        connected: [false; 3],
        last: Vec::new(),
    };
    let worker = std::thread::spawn(move || {
        let mut worker = worker;
        for job in inbox {
            worker.work(&job);
        }
    });
    Ok(Comm {
        shared,
        jobs,
        worker: Some(worker),
    })
}

/// What NCCL says of a communicator before it is complete.
fn describe(model: &Model, log: &Log, rank: usize, comm: u64, channels: usize) {
    let ranks = model.ranks();
    let local = (0..ranks)
        .filter(|one| model.node(*one) == model.node(rank))
        .count();
    if model.network == Network::Ib {
        for (at, name) in model::adapters().iter().enumerate() {
            let device = name.split(':').next().unwrap_or(name);
            let state = if said("gdr").and_then(Value::as_bool).unwrap_or(true) {
                "Enabled"
            } else {
                "Disabled"
            };
            log.info(
                Group::Net,
                &format!("NET/IB : GPU Direct RDMA {state} for HCA {at} '{device}'"),
            );
        }
    }
    if said("nvls").is_some() {
        let not = if model.nvls_available() { "" } else { "not " };
        log.info(
            Group::Init,
            &format!(
                "NVLS multicast support is {not}available on dev {} (NVLS_NCHANNELS 16)",
                log.device
            ),
        );
    }
    log.info(
        Group::Init,
        &format!(
            "comm 0x{comm:x} rank {rank} nRanks {ranks} nNodes {} localRanks {local} localRank {} MNNVL 0",
            model.nodes,
            model.local(rank),
        ),
    );
    if rank == 0 {
        for channel in 0..channels {
            let order: String = (0..ranks).map(|rank| format!(" {rank:3}")).collect();
            log.info(
                Group::Init,
                &format!("Channel {channel:02}/{channels:02} :{order}"),
            );
        }
    }
    log.info(
        Group::Init,
        &format!("{channels} coll channels, {channels} collnet channels, 0 nvls channels, {channels} p2p channels, {channels} p2p channels per peer"),
    );
}

/// Where something goes wrong.
fn at(table: &toml::Table) -> &str {
    table
        .get("at")
        .and_then(Value::as_str)
        .unwrap_or("operation")
}

/// Whether it is the turn of this operation.
fn due(table: &toml::Table, done: u64) -> bool {
    at(table) == "operation" && done as f64 >= number(table.get("after")).unwrap_or(0.0)
}

/// Says what failed.
fn fails(table: &toml::Table, log: &Log) -> Code {
    let lines = table.get("warn").and_then(Value::as_array);
    for line in lines.into_iter().flatten().filter_map(Value::as_str) {
        match line.contains("NCCL WARN") {
            true => log.warn(line),
            false => log.info(Group::Init, line),
        }
    }
    number(table.get("code")).map_or(SYSTEM_ERROR, |code| code as Code)
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// The thread that does a communicator's operations.
struct Worker {
    shared: Arc<Shared>,
    board: Board,
    model: Model,
    log: Log,
    rank: usize,
    channels: usize,
    done: u64,
    /// Which of ring, other algorithms, and pairs are connected.
    connected: [bool; 3],
    /// What the last result followed from: where nothing changed since, the same operation has the same result, and it is there already.
    last: Vec<Cause>,
}

impl Worker {
    fn work(&mut self, job: &Job) {
        let cuda = cuda().unwrap();
        if self.shared.broken.load(Ordering::Acquire) != 0 {
            // What comes after a failure never ends.
            return;
        }
        if let Some(hang) = trouble("hang", self.rank, Some(&self.model))
            && due(hang, self.done)
        {
            while !self.shared.aborted.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if let Some(fail) = trouble("fail", self.rank, Some(&self.model))
            && fail.contains_key("async")
            && due(fail, self.done)
        {
            let code = fails(fail, &self.log);
            self.shared.broken.store(code, Ordering::Release);
            return;
        }
        match self.operate(job) {
            Ok((begun, ms)) => {
                let until = begun + Duration::from_secs_f64(ms / 1e3);
                let now = Instant::now();
                if until > now {
                    std::thread::sleep(until - now);
                }
                self.done += 1;
                cuda.end(job.stream, ms);
            }
            Err(code) => self.shared.broken.store(code, Ordering::Release),
        }
    }

    /// Does an operation with the other ranks: when it began, and how long it takes.
    fn operate(&mut self, job: &Job) -> Result<(Instant, f64), Code> {
        let call = *job.calls.first().ok_or(INTERNAL_ERROR)?;
        let cuda = cuda().ok_or(CUDA_ERROR)?;
        let mut post = Post {
            what: [0; 5],
            writes: cuda.writes(),
            send: Area::default(),
            receive: Area::default(),
            scratch: Area::default(),
            sends: 0,
            pieces: [(0, Area::default()); MOST],
        };
        let ranks = self.model.ranks();
        let bytes = call.count * call.dtype.size();
        let grouped = matches!(call.kind, Kind::Send | Kind::Receive);
        if grouped {
            post.what = [99, 0, 0, 0, 0];
            for send in job.calls.iter().filter(|call| call.kind == Kind::Send) {
                let bytes = send.count * send.dtype.size();
                let area = self.board.area(cuda, send.send, bytes).ok_or(CUDA_ERROR)?;
                post.pieces[post.sends as usize] = (send.root as u32, area);
                post.sends += 1;
            }
        } else {
            post.what = [
                call.kind as u64,
                call.count as u64,
                call.dtype as u64,
                call.op.map_or(0, |op| op as u64),
                call.root as u64,
            ];
            let (all, own) = (bytes * ranks, bytes);
            let (send, receive) = match call.kind {
                Kind::AllGather => (own, all),
                Kind::ReduceScatter => (all, own),
                _ => (own, own),
            };
            post.send = self.board.area(cuda, call.send, send).ok_or(CUDA_ERROR)?;
            if !matches!(call.kind, Kind::Reduce) || self.rank == call.root {
                post.receive = self
                    .board
                    .area(cuda, call.receive, receive)
                    .ok_or(CUDA_ERROR)?;
            }
        }
        let mut scratch = std::ptr::null_mut();
        if call.kind == Kind::AllReduce {
            let (area, at) = self
                .board
                .own_scratch(bytes.div_ceil(ranks) + 64)
                .ok_or(SYSTEM_ERROR)?;
            post.scratch = area;
            scratch = at;
        }
        self.board.post(&post);
        let gone = |_: Gone| SYSTEM_ERROR;
        self.board.meet(&self.shared.aborted).map_err(gone)?;
        let begun = Instant::now();
        let posts: Vec<&Post> = (0..ranks).map(|rank| self.board.posted(rank)).collect();
        let ms = self.model_ms(job, &posts)?;
        if posts.iter().any(|one| one.what != post.what) {
            self.log.warn("enqueue.cc:2214 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 0. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs");
            return Err(INVALID_USAGE);
        }
        if grouped {
            self.last.clear();
            self.exchange(job, &posts)?;
        } else {
            let causes: Vec<Cause> = posts.iter().map(|post| post.cause()).collect();
            let in_place = call.send == call.receive.cast_const();
            if !in_place && causes == self.last {
                // The others may go on when they have seen this rank's post.
                self.board.meet(&self.shared.aborted).map_err(gone)?;
                return Ok((begun, ms));
            }
            self.collective(call, &posts, scratch).map_err(gone)?;
            self.last = causes;
        }
        self.spoil(&call, &post, job);
        self.board.meet(&self.shared.aborted).map_err(gone)?;
        Ok((begun, ms))
    }

    fn collective(&mut self, call: Call, posts: &[&Post], scratch: *mut u8) -> Result<(), Gone> {
        let ranks = posts.len();
        let bytes = call.count * call.dtype.size();
        let own = self.rank;
        let to: *mut u8 = call.receive.cast();
        // SAFETY, here and below: areas have the bytes that their ranks posted, and ranks write where no other reads until all have met.
        let read = |board: &mut Board, area: &Area| board.bytes(area).map(<*mut u8>::cast_const);
        match call.kind {
            Kind::AllReduce => {
                // Each rank reduces a part, and gets the others' parts.
                let part = call.count.div_ceil(ranks);
                let size = call.dtype.size();
                let range = |rank: usize| {
                    let from = (rank * part).min(call.count) * size;
                    (from, ((rank + 1) * part).min(call.count) * size)
                };
                let (from, end) = range(own);
                self.reduce(&call, posts, from, end - from, scratch)?;
                self.board.meet(&self.shared.aborted)?;
                for (rank, post) in posts.iter().enumerate() {
                    let (from, end) = range(rank);
                    if end > from {
                        let at = read(&mut self.board, &post.scratch)?;
                        unsafe { std::ptr::copy_nonoverlapping(at, to.add(from), end - from) };
                    }
                }
            }
            Kind::AllGather => {
                for (rank, post) in posts.iter().enumerate() {
                    let target = unsafe { to.add(rank * bytes) };
                    if rank != own || target.cast_const() != call.send.cast() {
                        let at = read(&mut self.board, &post.send)?;
                        unsafe { std::ptr::copy_nonoverlapping(at, target, bytes) };
                    }
                }
            }
            Kind::ReduceScatter => {
                // In place, the result is where only this rank reads.
                let mut result = vec![0u8; bytes];
                self.reduce(&call, posts, own * bytes, bytes, result.as_mut_ptr())?;
                unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), to, bytes) };
            }
            Kind::Broadcast => {
                if own != call.root || to.cast_const() != call.send.cast() {
                    let at = read(&mut self.board, &posts[call.root].send)?;
                    unsafe { std::ptr::copy_nonoverlapping(at, to, bytes) };
                }
            }
            Kind::Reduce => {
                if own == call.root {
                    let mut result = vec![0u8; bytes];
                    self.reduce(&call, posts, 0, bytes, result.as_mut_ptr())?;
                    unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), to, bytes) };
                }
            }
            Kind::Send | Kind::Receive => {}
        }
        Ok(())
    }

    /// Reduces a range of all ranks' buffers.
    fn reduce(
        &mut self,
        call: &Call,
        posts: &[&Post],
        from: usize,
        bytes: usize,
        into: *mut u8,
    ) -> Result<(), Gone> {
        let into = unsafe { std::slice::from_raw_parts_mut(into, bytes) };
        for (rank, post) in posts.iter().enumerate() {
            let at = self.board.bytes(&post.send)?;
            let part = unsafe { std::slice::from_raw_parts(at.add(from), bytes) };
            match (rank, call.op) {
                (0, _) => into.copy_from_slice(part),
                (_, Some(op)) => data::reduce(call.dtype, op, into, part),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gets what the others send: the first from a rank is the first that it sends to this one.
    fn exchange(&mut self, job: &Job, posts: &[&Post]) -> Result<(), Code> {
        let mut taken = vec![0; posts.len()];
        for call in job.calls.iter().filter(|call| call.kind == Kind::Receive) {
            let post = posts.get(call.root).ok_or(INVALID_ARGUMENT)?;
            let mut to_this = post.pieces[..post.sends as usize]
                .iter()
                .filter(|(to, _)| *to as usize == self.rank)
                .map(|(_, area)| *area);
            let area = to_this.nth(taken[call.root]).ok_or(INVALID_USAGE)?;
            taken[call.root] += 1;
            let bytes = call.count * call.dtype.size();
            if area.bytes as usize != bytes {
                return Err(INVALID_USAGE);
            }
            let at = self.board.bytes(&area).map_err(|_| SYSTEM_ERROR)?;
            // In place, a rank's own part is where it is.
            unsafe { std::ptr::copy(at, call.receive.cast(), bytes) };
        }
        Ok(())
    }

    /// Makes values wrong where the description says so.
    fn spoil(&self, call: &Call, post: &Post, job: &Job) {
        let Some(wrong) =
            trouble("wrong", self.rank, Some(&self.model)).filter(|wrong| due(wrong, self.done))
        else {
            return;
        };
        let of = |name: &str, otherwise: f64| number(wrong.get(name)).unwrap_or(otherwise) as usize;
        let (element, count) = (of("element", 0.0), of("count", 1.0));
        let size = call.dtype.size();
        let received = job.calls.iter().find(|call| call.kind == Kind::Receive);
        let (to, bytes) = match (received, call.kind) {
            (Some(one), _) => (one.receive, one.count * size),
            (None, Kind::Send) => return,
            _ => (call.receive, post.receive.bytes as usize),
        };
        for at in (element * size..bytes).step_by(size).take(count) {
            // The most significant byte: no rounding explains it.
            unsafe { *to.cast::<u8>().add(at + size - 1) ^= 0x15 };
        }
    }

    /// How long a job takes; connects what it needs, which NCCL does when it is first needed.
    fn model_ms(&mut self, job: &Job, posts: &[&Post]) -> Result<f64, Code> {
        let call = *job.calls.first().ok_or(INTERNAL_ERROR)?;
        let n = self.model.ranks() as f64;
        let bytes = (call.count * call.dtype.size()) as f64;
        let ring = self.model.ring_bandwidth();
        let (name, algorithm, ms) = match call.kind {
            Kind::AllReduce => {
                let Some((algorithm, bandwidth)) = self.model.all_reduce() else {
                    let list = self.model.variables.text("NCCL_ALGO").unwrap_or_default();
                    self.log.warn(&format!(
                        "enqueue.cc:1971 NCCL WARN Error : no algorithm/protocol available for function AllReduce with datatype {}. NCCL_ALGO was set to {list}.",
                        call.dtype.name()
                    ));
                    return Err(INVALID_USAGE);
                };
                let ms = self
                    .model
                    .ms(bytes, 2.0 * (n - 1.0) / n, 2.0 * (n - 1.0), bandwidth);
                ("AllReduce", Some(algorithm), ms)
            }
            Kind::AllGather => (
                "AllGather",
                Some(Algorithm::Ring),
                self.model.ms(bytes * n, (n - 1.0) / n, n - 1.0, ring),
            ),
            Kind::ReduceScatter => (
                "ReduceScatter",
                Some(Algorithm::Ring),
                self.model.ms(bytes * n, (n - 1.0) / n, n - 1.0, ring),
            ),
            Kind::Broadcast => (
                "Broadcast",
                Some(Algorithm::Ring),
                self.model.ms(bytes, 1.0, n - 1.0, ring),
            ),
            Kind::Reduce => (
                "Reduce",
                Some(Algorithm::Ring),
                self.model.ms(bytes, 1.0, n - 1.0, ring),
            ),
            Kind::Send | Kind::Receive => {
                let peers = |kind: Kind| -> Vec<usize> {
                    let calls = job.calls.iter().filter(|call| call.kind == kind);
                    calls.map(|call| call.root).collect()
                };
                self.connect_pairs(&peers(Kind::Send), &peers(Kind::Receive));
                let sends: Vec<Vec<(usize, f64)>> = posts
                    .iter()
                    .map(|post| {
                        let pieces = post.pieces.iter().take(post.sends as usize);
                        pieces
                            .map(|(to, area)| (*to as usize, area.bytes as f64))
                            .collect()
                    })
                    .collect();
                let ms = self.model.exchange_ms(self.rank, &sends);
                ("SendRecv", None, ms)
            }
        };
        if let Some(algorithm) = algorithm {
            self.connect(algorithm);
            if self.rank == 0 {
                let whole = match call.kind {
                    Kind::AllGather | Kind::ReduceScatter => bytes * n,
                    _ => bytes,
                };
                self.log.info(
                    Group::Tuning,
                    &format!(
                        "{name}: {} Bytes -> Algo {} proto SIMPLE channel{{Lo..Hi}}={{0..{}}}",
                        whole as u64,
                        algorithm.word(),
                        self.channels.saturating_sub(1),
                    ),
                );
            }
        }
        let first = match self.done {
            0 => number(said("first_ms")).unwrap_or(0.0),
            _ => 0.0,
        };
        let ms = ms * self.model.slower(self.rank);
        Ok(ms * model::disturbance(self.board.run(), self.done) + first)
    }

    /// Writes the lines of the ring's channels, or of what else is used.
    fn connect(&mut self, algorithm: Algorithm) {
        let rings = algorithm != Algorithm::Nvls;
        let which = usize::from(!rings);
        if std::mem::replace(&mut self.connected[which], true) {
            return;
        }
        if !rings {
            let ranks = self.model.ranks();
            self.log.info(Group::Init, &format!("NVLS comm 0x55d0a1 headRank {} nHeads {ranks} nvlsRanks {ranks} buffSize 1048576 nvlsPerRankSize 201326592 nvlsTotalSize 1610612736", self.rank));
            self.log.info(Group::Init, "Connected NVLS tree");
            return;
        }
        let ranks = self.model.ranks();
        let before = (self.rank + ranks - 1) % ranks;
        for channel in 0..self.channels {
            self.channel(channel, 0, before, self.rank);
            self.channel(channel, 0, self.rank, (self.rank + 1) % ranks);
        }
        let net = self
            .model
            .ring()
            .iter()
            .any(|via| matches!(via, Via::Ib(..) | Via::Socket));
        let gdr = net && self.model.network == Network::Ib && self.model.gdr();
        self.log.info(
            Group::Init,
            &format!("Connected all rings, use ring PXN 0 GDR {}", u8::from(gdr)),
        );
        if algorithm == Algorithm::Tree {
            self.log.info(Group::Init, "Connected all trees");
        }
    }

    fn connect_pairs(&mut self, sends: &[usize], receives: &[usize]) {
        if std::mem::replace(&mut self.connected[2], true) {
            return;
        }
        for from in receives.iter().filter(|from| **from != self.rank) {
            self.channel(0, 1, *from, self.rank);
        }
        for to in sends.iter().filter(|to| **to != self.rank) {
            self.channel(0, 1, self.rank, *to);
        }
    }

    /// The line of a hop: the sender writes it, and where it is a network's the receiver too.
    fn channel(&self, channel: usize, index: usize, from: usize, to: usize) {
        let via = self.model.via(from, to);
        let sends = from == self.rank;
        let hop = format!(
            "{from}[{}] -> {to}[{}]",
            self.model.local(from),
            self.model.local(to)
        );
        let side = if sends { "send" } else { "receive" };
        let line = match via {
            Via::P2p if sends => format!("Channel {channel:02}/{index} : {hop} via P2P/CUMEM"),
            Via::Shm if sends => format!("Channel {channel:02} : {hop} via SHM/direct/direct"),
            Via::P2p | Via::Shm => return,
            Via::Ib(adapter, gdr) => {
                let gdr = if gdr { "/GDRDMA" } else { "" };
                format!("Channel {channel:02}/{index} : {hop} [{side}] via NET/IB/{adapter}{gdr}")
            }
            Via::Socket => {
                format!("Channel {channel:02}/{index} : {hop} [{side}] via NET/Socket/0")
            }
        };
        self.log.info(Group::Init, &line);
    }
}

/// Queues an operation, or keeps it for the group's end.
unsafe fn queue(comm: *mut Comm, stream: *mut c_void, call: Call) -> Code {
    let job = Job {
        calls: vec![call],
        stream: Stream(stream),
    };
    let job = GROUP.with_borrow_mut(|group| match group {
        None => Some(job),
        Some(group) => {
            let same = group
                .iter_mut()
                .find(|(one, kept)| *one == comm && kept.stream == job.stream);
            match same {
                Some((_, kept)) => kept.calls.push(call),
                None => group.push((comm, job)),
            }
            None
        }
    });
    match job {
        Some(job) => unsafe { start(comm, job) },
        None => 0,
    }
}

unsafe fn start(comm: *mut Comm, job: Job) -> Code {
    let Some(comm) = (unsafe { comm.as_ref() }) else {
        return INVALID_ARGUMENT;
    };
    let broken = comm.shared.broken.load(Ordering::Acquire);
    if broken != 0 {
        return broken;
    }
    let Some(cuda) = cuda() else {
        return CUDA_ERROR;
    };
    cuda.begin(job.stream);
    match comm.jobs.send(job) {
        Ok(()) => 0,
        Err(_) => INTERNAL_ERROR,
    }
}

struct Arguments {
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: u32,
    op: Option<u32>,
    root: c_int,
}

unsafe fn call(kind: Kind, with: Arguments, comm: *mut Comm, stream: *mut c_void) -> Code {
    let Some(dtype) = Type::of(with.dtype) else {
        return INVALID_ARGUMENT;
    };
    let op = match with.op.map(Op::of) {
        Some(None) => return INVALID_ARGUMENT,
        op => op.flatten(),
    };
    let Ok(root) = usize::try_from(with.root) else {
        return INVALID_ARGUMENT;
    };
    let Some(cuda) = cuda() else {
        return CUDA_ERROR;
    };
    let call = Call {
        kind,
        send: cuda.at(with.send.cast_mut()).cast_const(),
        receive: cuda.at(with.receive),
        count: with.count,
        dtype,
        op,
        root,
    };
    unsafe { queue(comm, stream, call) }
}

/// Declares NCCL's functions that move data: what each takes before the communicator and the stream, and what of it goes where.
macro_rules! operations {
    ($( $name:ident($($arg:ident: $ty:ty),*) is $kind:ident $with:tt )*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($arg: $ty,)*
            comm: *mut Comm,
            stream: *mut c_void,
        ) -> Code {
            let with = Arguments $with;
            unsafe { call(Kind::$kind, with, comm, stream) }
        }
    )* };
}

type Sent = *const c_void;
type Received = *mut c_void;

operations! {
    ncclAllReduce(send: Sent, receive: Received, count: usize, dtype: u32, op: u32) is AllReduce {
        send, receive, count, dtype, op: Some(op), root: 0
    }
    ncclAllGather(send: Sent, receive: Received, count: usize, dtype: u32) is AllGather {
        send, receive, count, dtype, op: None, root: 0
    }
    ncclReduceScatter(send: Sent, receive: Received, count: usize, dtype: u32, op: u32) is ReduceScatter {
        send, receive, count, dtype, op: Some(op), root: 0
    }
    ncclBroadcast(send: Sent, receive: Received, count: usize, dtype: u32, root: c_int) is Broadcast {
        send, receive, count, dtype, op: None, root
    }
    ncclReduce(send: Sent, receive: Received, count: usize, dtype: u32, op: u32, root: c_int) is Reduce {
        send, receive, count, dtype, op: Some(op), root
    }
    ncclSend(send: Sent, count: usize, dtype: u32, peer: c_int) is Send {
        send, receive: std::ptr::null_mut(), count, dtype, op: None, root: peer
    }
    ncclRecv(receive: Received, count: usize, dtype: u32, peer: c_int) is Receive {
        send: std::ptr::null(), receive, count, dtype, op: None, root: peer
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> Code {
    GROUP.set(Some(Vec::new()));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> Code {
    for (comm, job) in GROUP.take().unwrap_or_default() {
        let code = unsafe { start(comm, job) };
        if code != 0 {
            return code;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(comm: *mut Comm, code: *mut Code) -> Code {
    unsafe { *code = (&*comm).shared.broken.load(Ordering::Acquire) };
    0
}

unsafe fn end(comm: *mut Comm, abort: bool) -> Code {
    let mut comm = unsafe { Box::from_raw(comm) };
    comm.shared.aborted.store(abort, Ordering::Release);
    let worker = comm.worker.take();
    // Without a sender the worker ends.
    drop(comm);
    if let Some(worker) = worker {
        let _ = worker.join();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(comm: *mut Comm) -> Code {
    unsafe { end(comm, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(comm: *mut Comm) -> Code {
    unsafe { end(comm, true) }
}
