//! A job of several nodes as its log shows it: healthy, until a cause changes it.
//!
//! Lines are written as the release of NCCL writes them, by every rank, and mixed as a launcher mixes them.

use super::rng::Rng;

/// A release: minor and patch of 2.x.y.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

/// Releases of which logs are met.
pub(crate) const VERSIONS: [Version; 10] = [
    Version(8, 4),
    Version(12, 12),
    Version(18, 5),
    Version(20, 5),
    Version(22, 3),
    Version(24, 3),
    Version(26, 2),
    Version(27, 7),
    Version(28, 9),
    Version(30, 7),
];

/// What the launcher puts before each line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Launcher {
    Bare,
    Srun,
    Mpirun,
    Torchrun,
    Ray,
    Kubectl,
}

const LAUNCHERS: [Launcher; 6] = [
    Launcher::Bare,
    Launcher::Srun,
    Launcher::Mpirun,
    Launcher::Torchrun,
    Launcher::Ray,
    Launcher::Kubectl,
];

/// When a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Start,
    Bootstrap,
    Network,
    Init,
    Graph,
    Channels,
    Complete,
    Running,
    Failure,
    After,
}

const PHASES: [Phase; 10] = [
    Phase::Start,
    Phase::Bootstrap,
    Phase::Network,
    Phase::Init,
    Phase::Graph,
    Phase::Channels,
    Phase::Complete,
    Phase::Running,
    Phase::Failure,
    Phase::After,
];

/// What nccl-tests prints.
const NCCL_TESTS: [&str; 6] = [
    "#                                                              out-of-place                       in-place",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    "  1073741824     268435456     float     sum      -1   4810.2  223.22  418.54      0   4806.9  223.38  418.83      0",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 418.685",
];

/// What it prints at its end.
const SUMMARY: [&str; 2] = [
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 418.685",
];

/// What a host's network is and says.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// `Using network …`.
    pub(crate) network: String,
    /// The devices of `NET/IB : Using`; none means that the line is not written.
    pub(crate) hcas: Option<Vec<String>>,
    pub(crate) gdr_send: bool,
    pub(crate) gdr_receive: bool,
    pub(crate) interface: String,
    pub(crate) address: String,
    pub(crate) version: Version,
    pub(crate) driver: u32,
    /// How GPUs of the host reach each other.
    pub(crate) local: String,
}

/// A line that a cause adds.
struct Extra {
    phase: Phase,
    rank: usize,
    warn: Option<&'static str>,
    /// Whether it is written as it stands, without NCCL's prefix.
    raw: bool,
    text: String,
}

pub(crate) struct Job {
    pub(crate) rng: Rng,
    pub(crate) version: Version,
    pub(crate) launcher: Launcher,
    pub(crate) gpus: usize,
    pub(crate) hosts: Vec<Host>,
    pub(crate) layer: &'static str,
    pub(crate) relaxed: bool,
    /// NCCL_DEBUG_SUBSYS has NET and GRAPH too.
    pub(crate) subsystems: bool,
    /// NCCL_DEBUG=WARN: only warnings are written.
    pub(crate) warn_only: bool,
    /// No line of a later phase is written.
    pub(crate) last: Phase,
    /// What tells the job from others in one log.
    pub(crate) id: u64,
    /// The program is one of nccl-tests, and prints its table.
    pub(crate) tests: bool,
    /// Nothing completes, and nothing runs.
    pub(crate) unfinished: bool,
    /// The work ends as it should, whatever is written later.
    pub(crate) ended_well: bool,
    /// Ranks that never write anything.
    pub(crate) silent: Vec<usize>,
    pub(crate) pattern: &'static str,
    pub(crate) pci: &'static str,
    pub(crate) affinity: &'static str,
    pub(crate) rccl: bool,
    env: Vec<(Option<usize>, String, String)>,
    extra: Vec<Extra>,
    from_launcher: Vec<(Phase, String)>,
}

impl Job {
    /// A healthy job.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let version = *rng.pick(&VERSIONS);
        let launcher = *rng.pick(&LAUNCHERS);
        let gpus = *rng.pick(&[4, 8]);
        let layer = *rng.pick(&["IB", "RoCE"]);
        let stem = *rng.pick(&["gpu", "node", "dgx-a", "ip-10-1-0-"]);
        let count = 2 + rng.below(3);
        let first = 1 + rng.below(40);
        let interface = *rng.pick(&["eth0", "eno8303", "bond0", "enp65s0f0"]);
        let hosts = (0..count)
            .map(|h| Host {
                name: format!("{stem}{:02}", first + h),
                network: "IB".into(),
                hcas: Some((0..gpus).map(|g| format!("mlx5_{g}:1/{layer}")).collect()),
                gdr_send: true,
                gdr_receive: true,
                interface: interface.into(),
                address: format!("10.35.4.{}", first + h),
                version,
                driver: 12040,
                local: "P2P".into(),
            })
            .collect();
        let subsystems = rng.below(3) == 0;
        let tests = rng.below(4) == 0;
        Job {
            rng,
            version,
            launcher,
            gpus,
            hosts,
            layer,
            relaxed: true,
            subsystems,
            warn_only: false,
            last: Phase::Running,
            id: 0x840f_1304_d3f4_d41a,
            tests,
            unfinished: false,
            ended_well: false,
            silent: Vec::new(),
            pattern: "NVL/PIX",
            pci: "24.0",
            affinity: "ffffffff,ffffffff",
            rccl: false,
            env: Vec::new(),
            extra: Vec::new(),
            from_launcher: Vec::new(),
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.hosts.len() * self.gpus
    }

    pub(crate) fn host_of(&self, rank: usize) -> usize {
        rank / self.gpus
    }

    /// The first rank of a host.
    pub(crate) fn first_of(&self, host: usize) -> usize {
        host * self.gpus
    }

    /// Takes over what another job's causes add, as things that come after its own failure.
    pub(crate) fn absorb(&mut self, other: Job) {
        for extra in other.extra {
            if self.extra.iter().any(|own| own.text == extra.text) {
                continue;
            }
            self.extra.push(Extra {
                phase: Phase::After,
                rank: extra.rank % self.ranks(),
                ..extra
            });
        }
        for variable in other.env {
            if !self.env.iter().any(|own| own.1 == variable.1) {
                self.env.push(variable);
            }
        }
        let launcher = other.from_launcher.into_iter();
        self.from_launcher
            .extend(launcher.map(|(_, line)| (Phase::After, line)));
        self.last = Phase::After;
    }

    /// A variable that every host has.
    pub(crate) fn env(&mut self, name: &str, value: &str) {
        self.env.push((None, name.into(), value.into()));
    }

    pub(crate) fn info(&mut self, phase: Phase, rank: usize, text: impl Into<String>) {
        self.extra.push(Extra {
            phase,
            rank,
            warn: None,
            raw: false,
            text: text.into(),
        });
    }

    pub(crate) fn info_all(&mut self, phase: Phase, text: &str) {
        for rank in 0..self.ranks() {
            self.info(phase, rank, text);
        }
    }

    pub(crate) fn warn(
        &mut self,
        phase: Phase,
        rank: usize,
        file: &'static str,
        text: impl Into<String>,
    ) {
        self.extra.push(Extra {
            phase,
            rank,
            warn: Some(file),
            raw: false,
            text: text.into(),
        });
        if phase > self.last {
            self.last = phase;
        }
    }

    /// A line of the program's own.
    pub(crate) fn raw(&mut self, phase: Phase, rank: usize, text: impl Into<String>) {
        self.extra.push(Extra {
            phase,
            rank,
            warn: None,
            raw: true,
            text: text.into(),
        });
        if phase > self.last {
            self.last = phase;
        }
    }

    /// A line of the launcher's own, without the prefix of a rank.
    pub(crate) fn launcher_says(&mut self, phase: Phase, text: &str) {
        self.from_launcher.push((phase, format!("{text}\n")));
        self.last = self.last.max(phase);
    }

    /// Nothing of RDMA is used between nodes.
    pub(crate) fn over_tcp(&mut self) {
        for h in 0..self.hosts.len() {
            self.host_over_tcp(h);
        }
    }

    pub(crate) fn host_over_tcp(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.network = "Socket".into();
        host.hcas = None;
        host.gdr_send = false;
        host.gdr_receive = false;
    }

    pub(crate) fn without_gdr(&mut self) {
        for host in &mut self.hosts {
            host.gdr_send = false;
            host.gdr_receive = false;
        }
    }

    /// The job dies while it is initialised: what comes after `phase` is not written.
    pub(crate) fn dies_in(&mut self, phase: Phase) {
        self.last = phase;
    }

    /// The same lines of failure, in a run that went on: they come before the communicators are complete, and a benchmark ends well after them.
    pub(crate) fn recovers(&mut self) {
        for extra in &mut self.extra {
            extra.phase = extra.phase.min(Phase::Channels);
        }
        self.ends_well(Phase::Running);
    }

    /// The same lines of failure, after the work has ended well: processes that leave one after the other.
    pub(crate) fn shuts_down(&mut self) {
        for extra in &mut self.extra {
            extra.phase = Phase::After;
        }
        self.ends_well(Phase::After);
    }

    /// The same job without the lines that a cause adds.
    pub(crate) fn without_extras(&mut self) {
        self.extra.clear();
        self.ends_well(Phase::Running);
    }

    fn ends_well(&mut self, last: Phase) {
        self.from_launcher.clear();
        self.silent.clear();
        self.unfinished = false;
        self.ended_well = true;
        self.tests = true;
        self.last = last;
    }

    /// What the other ranks write when one has failed.
    pub(crate) fn collapse(&mut self, failed: usize) {
        let phase = Phase::After;
        for rank in 0..self.ranks() {
            if rank == failed {
                self.info(phase, rank, "transport/net.cc:1134 -> 6");
                self.info(phase, rank, "proxy.cc:694 -> 6 [Proxy Thread]");
                continue;
            }
            let peer = self.hosts[self.host_of(failed)].address.clone();
            if rank % 3 == 1 {
                self.warn(
                    phase,
                    rank,
                    "misc/socket.cc:58",
                    format!("socketProgress: Connection closed by remote peer {peer}<54210>"),
                );
                self.info(phase, rank, "misc/socket.cc:775 -> 6");
            }
            if rank % 3 == 2 {
                self.raw(phase, rank, format!(
                    "[rank{rank}]:[E1121 10:44:11.104313226 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1921, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
                ));
            }
        }
        self.last = Phase::After;
    }

    /// The log.
    pub(crate) fn text(mut self) -> String {
        let mut out = String::new();
        let ranks = self.ranks();
        let mut clock = 3_600 * 10;
        for phase in PHASES {
            if phase > self.last {
                break;
            }
            if self.unfinished && matches!(phase, Phase::Complete | Phase::Running) {
                continue;
            }
            let mut queues: Vec<std::collections::VecDeque<String>> = (0..ranks)
                .map(|rank| match self.silent.contains(&rank) {
                    true => Default::default(),
                    false => self.lines(phase, rank, clock).into(),
                })
                .collect();
            for (_, line) in self.from_launcher.iter().filter(|(p, _)| *p == phase) {
                out.push_str(line);
            }
            // A failure is written by the one who meets it before the others notice.
            while queues.iter().any(|q| !q.is_empty()) {
                let open: Vec<usize> = (0..ranks).filter(|r| !queues[*r].is_empty()).collect();
                let rank = *self.rng.pick(&open);
                for _ in 0..1 + self.rng.below(4) {
                    if let Some(line) = queues[rank].pop_front() {
                        out.push_str(&line);
                    }
                }
            }
            clock += match phase {
                Phase::Running => 2_400,
                _ => 4,
            };
        }
        out
    }

    fn launcher_prefix(&self, rank: usize) -> String {
        match self.launcher {
            Launcher::Bare => String::new(),
            Launcher::Srun => format!("{rank:>2}: "),
            Launcher::Mpirun => format!("[1,{rank}]<stdout>:"),
            Launcher::Torchrun => format!("[default{}]:", rank % self.gpus),
            Launcher::Ray => format!(
                "\u{1b}[36m(RayWorker pid={}, ip=10.35.4.{})\u{1b}[0m ",
                4000 + rank,
                10 + self.host_of(rank)
            ),
            Launcher::Kubectl => format!("[pod/worker-{}/main] ", self.host_of(rank)),
        }
    }

    fn nccl(&self, rank: usize, tid: usize, text: &str) -> String {
        let host = &self.hosts[self.host_of(rank)];
        let pid = 31_000 + 17 * rank;
        format!(
            "{}{}:{pid}:{} [{}] NCCL INFO {text}\n",
            self.launcher_prefix(rank),
            host.name,
            pid + tid,
            rank % self.gpus
        )
    }

    fn warning(&self, rank: usize, file: &str, clock: u32, text: &str) -> String {
        let host = &self.hosts[self.host_of(rank)];
        let pid = 31_000 + 17 * rank;
        let time = match host.version >= Version(26, 0) {
            true => format!(
                "[2026-11-21 {:02}:{:02}:{:02}] ",
                clock / 3600 % 24,
                clock / 60 % 60,
                clock % 60
            ),
            false => String::new(),
        };
        let function = match host.version >= Version(30, 0) {
            true => "(ncclCommInitRankFunc) ",
            false => "",
        };
        let prefix = self.launcher_prefix(rank);
        format!(
            "{prefix}\n{prefix}{time}{}:{pid}:{} [{}] {file} {function}NCCL WARN {text}\n",
            host.name,
            pid + 300,
            rank % self.gpus
        )
    }

    /// What a rank writes in a phase.
    fn lines(&mut self, phase: Phase, rank: usize, clock: u32) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        let host = self.hosts[self.host_of(rank)].clone();
        let version = host.version;
        let local = rank % self.gpus;
        let comm = format!("0x55{:08x}", 0x1000 * (rank + 7));
        let id = format!("{:016x}", self.id);
        let product = if self.rccl { "RCCL" } else { "NCCL" };
        let mut info: Vec<(usize, String)> = Vec::new();
        match phase {
            Phase::Start => {
                said.push(format!(
                    "{}+ python train.py --nnodes {}\n",
                    self.launcher_prefix(rank),
                    self.hosts.len()
                ));
            }
            Phase::Bootstrap => {
                if version >= Version(13, 0) {
                    info.push((0, format!("cudaDriverVersion {}", host.driver)));
                }
                let colon = if version >= Version(24, 0) { "" } else { " " };
                info.push((
                    0,
                    format!(
                        "Bootstrap{colon}: Using {}:{}<0>",
                        host.interface, host.address
                    ),
                ));
                if rank == 0 || (version != self.version && local == 0) {
                    said.push(format!(
                        "{}{product} version 2.{}.{}+cuda12.4\n",
                        self.launcher_prefix(rank),
                        version.0,
                        version.1
                    ));
                }
                if version >= Version(24, 0) {
                    info.push((
                        0,
                        format!("{product} version 2.{}.{}+cuda12.4", version.0, version.1),
                    ));
                }
            }
            Phase::Network => {
                match version {
                    v if v >= Version(24, 0) => info.push((
                        1,
                        "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
                            .into(),
                    )),
                    v if v >= Version(18, 0) => info.push((
                        1,
                        "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation".into(),
                    )),
                    _ => info.push((
                        1,
                        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation".into(),
                    )),
                }
                for (on, name, value) in &self.env {
                    if on.is_some_and(|h| h != self.host_of(rank)) {
                        continue;
                    }
                    let number = value.parse::<i64>().is_ok();
                    let set = match (number, version >= Version(12, 0)) {
                        (true, _) => format!("{name} set by environment to {value}."),
                        (false, true) if name.contains("IB_HCA") => {
                            format!("{name} set to {value}")
                        }
                        (false, _) => format!("{name} set by environment to {value}"),
                    };
                    info.push((1, set));
                }
                if let Some(hcas) = &host.hcas {
                    let list: String = hcas
                        .iter()
                        .enumerate()
                        .map(|(i, hca)| format!(" [{i}]{hca}"))
                        .collect();
                    let relaxed = if self.relaxed && version >= Version(12, 0) {
                        "[RO]"
                    } else {
                        ""
                    };
                    info.push((
                        1,
                        format!(
                            "NET/IB : Using{list} {relaxed}; OOB {}:{}<0>",
                            host.interface, host.address
                        ),
                    ));
                }
                if host.network == "Socket" {
                    info.push((
                        1,
                        format!(
                            "NET/Socket : Using [0]{}:{}<0>",
                            host.interface, host.address
                        ),
                    ));
                }
                if version >= Version(27, 0) {
                    info.push((1, format!("Initialized NET plugin {}", host.network)));
                    info.push((1, format!("Assigned NET plugin {} to comm", host.network)));
                }
                info.push((1, format!("Using network {}", host.network)));
            }
            Phase::Init => {
                if version >= Version(13, 0) {
                    info.push((2, format!("DMA-BUF is available on GPU device {local}")));
                }
                if version >= Version(18, 3) {
                    let function = if version >= Version(21, 0) {
                        "ncclCommInitRank "
                    } else {
                        ""
                    };
                    info.push((
                        2,
                        format!(
                            "{function}comm {comm} rank {rank} nranks {} cudaDev {local} nvmlDev {local} busId {:x}000 commId 0x{id} - Init START",
                            self.ranks(),
                            27 + local
                        ),
                    ));
                }
            }
            Phase::Graph => {
                info.push((
                    2,
                    format!("Setting affinity for GPU {local} to {}", self.affinity),
                ));
                if version >= Version(20, 0) {
                    info.push((
                        2,
                        format!(
                            "comm {comm} rank {rank} nRanks {} nNodes {} localRanks {} localRank {local} MNNVL 0",
                            self.ranks(),
                            self.hosts.len(),
                            self.gpus
                        ),
                    ));
                }
                if self.subsystems {
                    info.push((2, "=== System : maxBw 48.0 totalBw 240.0 ===".into()));
                    info.push((
                        2,
                        format!(
                            "CPU/0 (1/1/2)\n+ PCI[{}] - PCI/19000 (1000c0301000100e)",
                            self.pci
                        )
                        .replace('\n', " "),
                    ));
                    info.push((2, format!("+ PCI[{}] - NIC/1A000", self.pci)));
                    if host.network != "Socket" {
                        for (i, hca) in host.hcas.iter().flatten().enumerate() {
                            let name = hca.split(':').next().unwrap_or(hca);
                            if version >= Version(13, 0) {
                                let state = if host.gdr_receive {
                                    "Enabled"
                                } else {
                                    "Disabled"
                                };
                                info.push((
                                    2,
                                    format!(
                                        "NET/{} : GPU Direct RDMA {state} for HCA {i} '{name}'",
                                        host.network
                                    ),
                                ));
                            }
                        }
                    }
                    let word = if version >= Version(14, 0) {
                        "bw"
                    } else {
                        "speed"
                    };
                    info.push((
                        2,
                        format!("Pattern 4, crossNic 0, nChannels 2, {word} 24.000000/24.000000, type {}, sameChannels 1", self.pattern),
                    ));
                }
                if rank == 0 {
                    for channel in 0..2 {
                        let order: String = (0..self.ranks()).map(|r| format!("{r:>4}")).collect();
                        info.push((2, format!("Channel {channel:02}/02 :{order}")));
                    }
                }
                info.push((2, format!("Trees [0] {}/-1/-1->{rank}->-1", rank + 1)));
            }
            Phase::Channels => {
                for channel in 0..2 {
                    self.channel_lines(&host, version, rank, channel, &mut info);
                }
                info.push((2, "Connected all rings".into()));
                info.push((2, "Connected all trees".into()));
            }
            Phase::Complete => {
                info.push((
                    2,
                    match version {
                        v if v >= Version(20, 0) => "16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer".into(),
                        v if v >= Version(17, 0) => "16 coll channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer".into(),
                        _ => "16 coll channels, 16 p2p channels, 2 p2p channels per peer".into(),
                    },
                ));
                let id = match version {
                    v if v >= Version(18, 3) => format!(
                        "cudaDev {local} nvmlDev {local} busId {:x}000 commId 0x{id}",
                        27 + local
                    ),
                    _ => format!("cudaDev {local} busId {:x}000", 27 + local),
                };
                let function = if version >= Version(21, 0) {
                    "ncclCommInitRank "
                } else {
                    ""
                };
                info.push((
                    2,
                    format!(
                        "{function}comm {comm} rank {rank} nranks {} {id} - Init COMPLETE",
                        self.ranks()
                    ),
                ));
                if version >= Version(23, 0) {
                    info.push((2, format!("Init timings - ncclCommInitRank: rank {rank} nranks {} total 1.92 (kernels 0.21, alloc 0.80, bootstrap 0.12, allgathers 0.01, topo 0.45, graphs 0.01, connections 0.32, rest 0.00)", self.ranks())));
                }
            }
            Phase::Running if self.tests => {
                if rank == 0 {
                    // A test that fails on the way prints no summary.
                    let failed = self.last > Phase::Running && !self.ended_well;
                    let lines = NCCL_TESTS
                        .iter()
                        .filter(|line| !failed || !SUMMARY.contains(line));
                    said.extend(
                        lines.map(|line| format!("{}{line}\n", self.launcher_prefix(rank))),
                    );
                }
            }
            Phase::Running => {
                for step in 0..3 {
                    said.push(format!(
                        "{}step {step} loss {:.3} tokens/s {}\n",
                        self.launcher_prefix(rank),
                        9.1 - step as f64 / 3.0,
                        18_000 + self.rng.below(900)
                    ));
                }
            }
            Phase::Failure | Phase::After => {}
        }
        if !self.warn_only {
            said.extend(info.iter().map(|(t, text)| self.nccl(rank, *t, text)));
        }
        for extra in self
            .extra
            .iter()
            .filter(|e| e.phase == phase && e.rank == rank)
        {
            match (extra.warn, extra.raw) {
                (Some(file), _) => said.push(self.warning(rank, file, clock, &extra.text)),
                (None, true) => {
                    said.push(format!("{}{}\n", self.launcher_prefix(rank), extra.text));
                }
                (None, false) if self.warn_only => {}
                (None, false) => said.push(self.nccl(rank, 2, &extra.text)),
            }
        }
        said
    }

    fn channel_lines(
        &self,
        host: &Host,
        version: Version,
        rank: usize,
        channel: usize,
        info: &mut Vec<(usize, String)>,
    ) {
        let gpus = self.gpus;
        let local = rank % gpus;
        let node = self.host_of(rank);
        // The ring of a channel enters each node at another GPU.
        let (enter, leave) = (channel % gpus, (channel + gpus - 1) % gpus);
        let name = |r: usize| match version {
            v if v >= Version(18, 3) => format!("{r}[{}]", r % gpus),
            _ => format!("{r}[{:x}000]", 27 + r % gpus),
        };
        let slot = match version {
            v if v >= Version(12, 0) => format!("{channel:02}/0"),
            _ => format!("{channel:02}"),
        };
        let nodes = self.hosts.len();
        let net = |gdr: bool| {
            format!(
                "via NET/{}/{channel}{}",
                host.network,
                if gdr { "/GDRDMA" } else { "" }
            )
        };
        if local == enter && nodes > 1 {
            let from = ((node + nodes - 1) % nodes) * gpus + leave;
            info.push((
                2,
                format!(
                    "Channel {slot} : {} -> {} [receive] {}",
                    name(from),
                    name(rank),
                    net(host.gdr_receive)
                ),
            ));
        }
        if local == leave && nodes > 1 {
            let to = ((node + 1) % nodes) * gpus + enter;
            info.push((
                2,
                format!(
                    "Channel {slot} : {} -> {} [send] {}",
                    name(rank),
                    name(to),
                    net(host.gdr_send)
                ),
            ));
        }
        if local != leave {
            let to = node * gpus + (local + 1) % gpus;
            let shm_slot = format!("{channel:02}");
            let line = match host.local.as_str() {
                "P2P" => format!(
                    "Channel {slot} : {} -> {} via P2P/IPC",
                    name(rank),
                    name(to)
                ),
                "SHM" if version >= Version(13, 0) => format!(
                    "Channel {shm_slot} : {} -> {} via SHM/direct/direct",
                    name(rank),
                    name(to)
                ),
                "SHM" => format!(
                    "Channel {shm_slot} : {} -> {} via direct shared memory",
                    name(rank),
                    name(to)
                ),
                "NET" => format!(
                    "Channel {slot} : {} -> {} [send] {}",
                    name(rank),
                    name(to),
                    net(host.gdr_send)
                ),
                // Every second pair only.
                _ if local.is_multiple_of(2) => {
                    format!(
                        "Channel {slot} : {} -> {} via P2P/IPC",
                        name(rank),
                        name(to)
                    )
                }
                _ => format!(
                    "Channel {shm_slot} : {} -> {} via SHM/direct/direct",
                    name(rank),
                    name(to)
                ),
            };
            info.push((2, line));
        }
    }
}
