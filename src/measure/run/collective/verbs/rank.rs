//! A rank of the verbs backend.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connections::{Connections, unprepared};
use super::layout::Layout;
use super::rank_ports::{self, RankMemory, RankPort};
use super::transfer::Transfer;
use crate::fact::Bytes;
use crate::live::clock;
use crate::live::environment::variable;
use crate::live::failure::Failure;
use crate::live::verbs::address::Address;
use crate::live::verbs::gpu::Gpu;
use crate::live::verbs::library::pair::{RemoteEndpoint, Target};
use crate::live::verbs::port::Port;
use crate::live::verbs::port_request::PortRequest;
use crate::measure::plan::reply::Carried;
use crate::measure::plan::run::Point;
use crate::measure::run::collective::backend::{Backend, Identity};
use crate::measure::run::collective::rank_exchange::RankExchange;
use crate::measure::run::collective::rank_messages::RankJob;
use crate::measure::run::collective::rank_steps;

/// What the output buffer holds before an operation.
const POISON: u8 = 0xa5;
/// The completion queue is polled this often between two looks at the clock.
const LOOKS: u32 = 8;
/// How long to spin before yielding the processor: soft-RoCE needs it, too.
const SPINNING: Duration = Duration::from_micros(20);
/// How long to yield before sleeping until a completion arrives.
const YIELDING: Duration = Duration::from_millis(1);
/// How long without progress before the other ranks' devices are probed.
const SILENCE: Duration = Duration::from_millis(500);

/// A connected rank.
pub(super) struct VerbsRank {
    rank: usize,
    ranks: usize,
    port: Port,
    ports: Vec<RankPort>,
    common: rank_ports::CommonLimits,
    connections: Connections,
    point: Option<(Layout, Transfer)>,
    epoch: u8,
    identity: Identity,
    /// The PCI address of its GPU, and the GPU once it is opened.
    gpu: (Option<String>, Option<Rc<Gpu>>),
    /// The port's counters when the rank was connected.
    counted: Carried,
}

impl VerbsRank {
    /// Opens the port, and exchanges addresses with the others.
    pub(super) fn connect(job: &RankJob, exchange: &mut RankExchange) -> Result<Self, Failure> {
        let wish = PortRequest::new(&job.place, variable)?;
        let port = Port::open(job.place.device.as_deref(), &wish, variable)?;
        let mut identity = Identity {
            library: Some("libibverbs.so.1".to_owned()),
            device: Some(port.describe()),
            ..Identity::default()
        };
        exchange.report_identity(identity.clone());
        let own = RankPort {
            address: Address::of(&port)?.with_mtu(wish.mtu),
            pairs: wish.pairs,
            piece: wish
                .piece
                .min(usize::try_from(port.longest).unwrap_or(usize::MAX)),
        };
        let first_packet = own.address.first_packet;
        let own = serde_json::to_value(&own).unwrap_or_default();
        let cards: Vec<RankPort> = rank_ports::parse_all(&exchange.all_gather(own)?)?;
        let common = rank_ports::common_limits(&cards, exchange.rank)?;
        let mtu = (wish.mtu).map_or(String::new(), |mtu| format!(", {mtu} B a packet at most"));
        identity.device = Some(format!(
            "{}, {} queue pair{}, {} a write{mtu}",
            port.describe(),
            common.pairs,
            if common.pairs == 1 { "" } else { "s" },
            Bytes(common.piece as u64)
        ));
        exchange.report_identity(identity.clone());
        let near = port.near(&wish, first_packet);
        let ranks = exchange.ranks;
        let connections = Connections::new(&port.context, near, ranks, common.pairs)?;
        let counted = port.traffic_counters();
        Ok(VerbsRank {
            rank: exchange.rank,
            ranks,
            port,
            ports: cards,
            common,
            connections,
            point: None,
            epoch: 0,
            identity,
            gpu: (job.place.gpu.clone(), None),
            counted,
        })
    }

    /// The rank's GPU.
    fn gpu(&mut self, exchange: &mut RankExchange) -> Result<Rc<Gpu>, Failure> {
        if let Some(gpu) = &self.gpu.1 {
            return Ok(Rc::clone(gpu));
        }
        let pci = self
            .gpu
            .0
            .as_deref()
            .ok_or_else(|| Failure::new("cuDeviceGet", "the rank was given no GPU"))?;
        exchange.report_step("taking the GPU");
        let gpu = Rc::new(Gpu::open(pci)?);
        Ok(Rc::clone(self.gpu.1.insert(gpu)))
    }

    /// Ensures registered memory for the point.
    fn have_memory(
        &mut self,
        exchange: &mut RankExchange,
        point: &Point,
        length: usize,
    ) -> Result<(), Failure> {
        if !point.gpu_memory {
            return self.connections.ensure_memory(length);
        }
        let gpu = self.gpu(exchange)?;
        exchange.report_step("registering GPU memory");
        let (connections, identity) = (&mut self.connections, &mut self.identity);
        connections.ensure_gpu_memory(&gpu, length, |tried| {
            identity.gpu_memory = Some(tried);
            exchange.report_identity(identity.clone());
        })
    }

    fn layout(&self, point: &Point, rank: usize) -> Result<Layout, Failure> {
        let steps = rank_steps::plan_steps(point.collective, rank, self.ranks);
        Layout::new(point, &steps, rank, self.ranks, self.common.piece)
    }

    /// The other end of a connection.
    fn far(&self, other: usize, pair: u32) -> RemoteEndpoint {
        let (own, theirs) = (&self.ports[self.rank], &self.ports[other]);
        own.address.far(&theirs.address, pair)
    }

    /// Connects with all that the operation needs and that are not connected yet. All ranks do it
    /// at the same time.
    fn reach(&mut self, exchange: &mut RankExchange, others: &[usize]) -> Result<(), Failure> {
        let mut pairs = BTreeMap::new();
        for other in others {
            if let Some(numbers) = self.connections.open(*other)? {
                pairs.insert(*other, numbers);
            }
        }
        let target = self.connections.memory_target();
        let own = RankMemory {
            address: target.address,
            key: target.key,
            pairs,
        };
        let value = serde_json::to_value(&own).unwrap_or_default();
        let opened: Vec<RankMemory> = rank_ports::parse_all(&exchange.all_gather(value)?)?;
        for (other, theirs) in opened.iter().enumerate() {
            let memory = Target {
                address: theirs.address,
                key: theirs.key,
            };
            self.connections.set_remote_memory(other, memory);
            let numbers = match own.pairs.get(&other) {
                None => continue,
                Some(_) => theirs.pairs.get(&self.rank),
            };
            let numbers = numbers.filter(|numbers| numbers.len() == self.common.pairs);
            let numbers = numbers.ok_or_else(|| {
                Failure::new(
                    "exchange",
                    format!("rank {other} has no connection for this one"),
                )
            })?;
            for (number, pair) in numbers.iter().enumerate() {
                let far = self.far(other, *pair);
                self.connections.connect(other, number, &far)?;
            }
        }
        Ok(())
    }
}

impl Backend for VerbsRank {
    fn prepare(&mut self, exchange: &mut RankExchange, point: &Point) -> Result<(), Failure> {
        let layout = self.layout(point, self.rank)?;
        let steps = rank_steps::plan_steps(point.collective, self.rank, self.ranks);
        self.epoch = self.epoch.wrapping_add(1);
        let place = (self.rank, self.ranks);
        let ids = (self.epoch, self.common.pairs);
        let of = |rank| self.layout(point, rank);
        let transfer = Transfer::new(point, &steps, &layout, place, ids, of)?;
        self.have_memory(exchange, point, layout.length)?;
        self.reach(exchange, &transfer.others())?;
        self.point = Some((layout, transfer));
        Ok(())
    }

    fn fill(&mut self, at: usize, send: &[u8]) -> Result<(), Failure> {
        let (layout, _) = self.point.as_ref().ok_or_else(unprepared)?;
        let start = layout.send.start + at;
        let end = (start + send.len()).min(layout.send.end);
        self.connections.write(start.min(end)..end, send)
    }

    fn poison(&mut self) -> Result<(), Failure> {
        let (layout, _) = self.point.as_ref().ok_or_else(unprepared)?;
        let receive = layout.receive.clone();
        self.connections.set(receive, POISON)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the host's clock is this backend's device's"
    )]
    fn run(&mut self, exchange: &mut RankExchange, point: &Point) -> Result<Duration, Failure> {
        let (_, transfer) = self.point.as_mut().ok_or_else(unprepared)?;
        let others = transfer.others();
        let begun = clock::now();
        for _ in 0..point.iterations.max(1) {
            transfer.begin();
            let mut idle: Option<Instant> = None;
            let (mut polls, mut armed) = (0u32, false);
            loop {
                let (done, moved) = transfer.turn(&mut self.connections)?;
                if done {
                    break;
                }
                if moved {
                    (idle, polls, armed) = (None, 0, false);
                    continue;
                }
                polls = polls.wrapping_add(1);
                if polls % LOOKS != 0 {
                    std::hint::spin_loop();
                    continue;
                }
                let silence = idle.get_or_insert_with(Instant::now).elapsed();
                if silence < SPINNING {
                    continue;
                }
                if silence < YIELDING {
                    rustix::thread::sched_yield();
                    continue;
                }
                if !armed {
                    // Completions before arming are seen by the next polls; later ones wake the
                    // rank.
                    self.connections.arm()?;
                    (armed, polls) = (true, 0);
                    continue;
                }
                self.connections.wait(SILENCE)?;
                armed = false;
                if silence > SILENCE {
                    // Reported because only the last step of a rank that hangs is known.
                    let (name, bytes) = (point.collective.word(), Bytes(point.bytes));
                    let what = transfer.waits_for();
                    exchange.report_step(&format!("{name} of {bytes}: waits for {what}"));
                    self.connections.probe_liveness(&others)?;
                    idle = None;
                }
            }
        }
        Ok(begun.elapsed())
    }

    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure> {
        let (layout, _) = self.point.as_ref().ok_or_else(unprepared)?;
        let start = layout.receive.start + from;
        let end = (start + into.len()).min(layout.receive.end);
        self.connections.get(start.min(end)..end, into)
    }

    fn carried(&self) -> Option<Carried> {
        Some(self.port.traffic_counters().since(self.counted))
    }
}
