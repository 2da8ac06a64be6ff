//! The outputs of tools that people kept of a machine: they stand in a recording as the answers of commands, and are read into the facts that
//! other probes state of the machine itself. What another probe knows stays.

mod amd;
mod asked_route;
mod beside_settings;
mod bonding;
mod bridging;
mod complaint;
mod complaints;
mod containers;
mod counter_rows;
mod counters;
mod cpu_binding;
mod devices;
mod fabric;
mod filter;
mod ibdiagnet;
mod imex;
mod interfaces;
mod kernel;
mod links;
mod lldp;
mod lspci;
mod matrix;
mod missing_gpus;
mod mlxconfig;
mod mlxlink;
mod mounts;
mod named;
mod nvbandwidth;
mod opensm_log;
pub(super) mod output_line;
mod ports;
mod processors;
mod rdma;
pub mod recorded;
mod replayed;
mod routes;
mod schedulers;
mod self_counted;
mod self_stated;
mod self_tests;
mod services;
mod shell;
mod shown;
mod smi;
mod statistics;
mod subnet;
mod summary;
mod tree_links;
mod wrapped;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(super) use self::output_line::OutputLine;
use super::{Ask, Probe, obstacle, topology};
use crate::fact::{Fact, Facts, Id, Origin, node as of_node};
use crate::left_out::LeftOut;
use crate::source::{Answer, OUTPUTS, Question};
use crate::tool_output;

/// The probe. It runs over recordings only.
pub const PROBE: Probe = Probe::new("outputs", run).within(Duration::from_secs(5));

/// Which outputs there are, and where they stand.
pub fn question() -> Question {
    Question::call(OUTPUTS, [])
}

/// What was not read of the texts in which they stood.
fn left_out_question() -> Question {
    Question::call("outputs_left_out", [])
}

/// Where an output stands.
#[derive(Debug, Serialize, Deserialize)]
struct OutputPlace {
    run: Vec<Arc<str>>,
    file: Arc<str>,
    /// The number of its first line.
    line: u64,
    /// The numbers of all lines, where others stand between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lines: Vec<u64>,
    /// Whether a part may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    /// Whether no command was shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_mark: bool,
    /// Whether other hosts of its text printed something for the same command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_several: bool,
}

/// The output of a command.
struct Output {
    argv: Vec<Arc<str>>,
    file: Arc<str>,
    is_cut: bool,
    by_mark: bool,
    of_several: bool,
    lines: Vec<(u64, String)>,
}

impl Output {
    fn tool(&self) -> &str {
        self.argv.first().map_or("", |tool| &**tool)
    }

    fn has(&self, word: &str) -> bool {
        self.argv.iter().any(|arg| **arg == *word)
    }

    /// Whether the command is known, and nothing was filtered: all arguments are options, or these.
    fn is_whole(&self, words: &[&str]) -> bool {
        let is_plain = |arg: &Arc<str>| arg.starts_with('-') || words.contains(&&**arg);
        !self.is_cut && !self.by_mark && self.argv.iter().skip(1).all(is_plain)
    }

    /// Whether these are lines that name GPUs, and without the command, without any of their links.
    fn is_gpu_list(&self) -> bool {
        let is_link = |line: &str| line.starts_with("Link ") || line.starts_with("NVML:");
        let mut lines = self.lines.iter().map(|(_, line)| line.trim());
        let is_asked = self.has("-L") || self.has("--list-gpus");
        is_asked || self.by_mark && self.has("nvlink") && !lines.any(is_link)
    }

    /// The last argument that is no option.
    fn operand(&self) -> Option<&str> {
        let operands = self.argv.iter().skip(1).filter(|arg| !arg.starts_with('-'));
        operands.map(|arg| &**arg).next_back()
    }

    fn lines(&self) -> impl Iterator<Item = OutputLine<'_>> + Clone {
        output_line::lines(&self.file, &self.lines)
    }

    /// The first line stands for all that the whole output says.
    fn origin(&self) -> Origin {
        match self.lines().next() {
            Some(line) => line.origin(),
            None => Origin::derived("an output without a line"),
        }
    }

    fn known<T>(&self, value: T) -> Fact<T> {
        Fact::Known(value, self.origin())
    }

    fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|(_, line)| line.as_str()).collect();
        lines.join("\n")
    }
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let places = ask.value(question()).and_then(|value| {
        let places: Result<Vec<OutputPlace>, _> = serde::Deserialize::deserialize(&*value);
        places.map_err(|error| error.to_string())
    });
    let Fact::Known(places, _) = places else {
        return;
    };
    if let Fact::Known(left_out, origin) = ask.read::<Vec<LeftOut>>(left_out_question()) {
        let said = left_out.iter().map(|one| one.to_string().into());
        facts.add_texts(node, of_node::LEFT_OUT, said, &origin);
    }
    let mut outputs = Vec::new();
    for place in places {
        let answer = ask.raw(&Question::Run(place.run.as_slice().into())).said;
        let Ok(Answer::Text(text)) = answer else {
            continue;
        };
        let numbers = place.lines.iter().copied();
        let numbers = numbers.chain(place.line + place.lines.len() as u64..);
        let tool = place.run.first().map_or("", |tool| &**tool);
        outputs.push(Output {
            lines: wrapped::joined(tool, numbers.zip(text.lines().map(str::to_owned))),
            argv: place.run,
            file: place.file,
            is_cut: place.cut,
            by_mark: place.by_mark,
            of_several: place.of_several,
        });
    }
    shown::state(&outputs, facts, node);
    // What printed no line says something beside others alone.
    outputs.retain(|output| !(output.of_several && output.lines.is_empty()));
    // The numbers of GPUs are known before the matrix that names them by these, the ports before what runs on them.
    outputs.sort_by_key(|output| match output.tool() {
        "nvidia-smi" if output.has("topo") || output.has("nvlink") => 2,
        "ip" | "ethtool" | "perfquery" | "mlxlink" | "mlxconfig" => 1,
        "lspci" if lspci::is_tree(output) => 1,
        _ => 0,
    });
    for output in &outputs {
        read(output, facts, node);
    }
    links::state_below(facts, node);
    bridging::state(&outputs, facts, node);
    mounts::state(&outputs, facts, node);
    amd::state(&outputs, facts, node);
    filter::state(&outputs, facts, node);
    fabric::state_fabric(&outputs, facts, node);
    routes::state(ask, &outputs, facts, node);
    asked_route::state(&outputs, facts, node);
    devices::odd(facts, node);
    summary::state_outputs(&outputs, facts, node);
    missing_gpus::state(&outputs, facts, node);
    beside_settings::state(&outputs, facts, node);
    self_counted::state(&outputs, facts, node);
    cpu_binding::state(&outputs, facts, node);
    complaints::state(&outputs, facts, node);
}

fn read(output: &Output, facts: &mut Facts, node: Id) {
    if output.tool() == "nvidia-smi" {
        smi::failure::state(output, facts, node);
    }
    self_stated::state(output, facts, node);
    match output.tool() {
        "ibstat" | "ibstatus" | "ibv_devinfo" => devices::state(output, facts, node),
        "show_gids" => devices::gids(output, facts, node),
        "ibdev2netdev" => ports::netdevs(output, facts, node),
        "rdma" => rdma::state(output, facts, node),
        "perfquery" => counters::perfquery(output, facts, node),
        "sysfs" => counters::files(output, facts, node),
        tool_output::COUNTERS => counter_rows::rows(output, facts, node),
        tool_output::COUNTER_TABLE => counter_rows::table(output, facts, node),
        "cat" => {
            bonding::state(output, facts, node);
            counters::shown_files(output, facts, node);
            if output.has("/proc/net/dev") {
                counter_rows::interfaces(output, facts, node);
            }
            shell::prlimit(output, facts, node);
        }
        "mlxlink" => mlxlink::state_port(output, facts, node),
        "mlxconfig" => mlxconfig::state_settings(output, facts, node),
        "sminfo" => subnet::manager(output, facts, node),
        "ibswinfo" => subnet::switch(output, facts, node),
        "lldpctl" | "lldpcli" | "networkctl" => lldp::state_neighbours(output, facts, node),
        "ibv_devices" => counters::devices(output, facts, node),
        "ip" => interfaces::state(output, facts, node),
        "ethtool" if output.has("-i") => ports::driver(output, facts, node),
        "ethtool" if output.argv.iter().any(|arg| arg.starts_with('-')) => {
            statistics::state(output, facts, node)
        }
        "ethtool" => ports::speed(output, facts, node),
        "lspci" if lspci::is_tree(output) => lspci::tree(output, facts, node),
        "lspci" => lspci::state(output, facts, node),
        "opensm.log" => opensm_log::state(output, facts, node),
        "ibdiagnet" => ibdiagnet::state(output, facts, node),
        "gpud" => kernel::gpud(output, facts, node),
        "fabricmanager" => kernel::fabric_manager(output, facts, node),
        "dmesg" | "journalctl" => {
            kernel::state(output, facts, node);
            kernel::carriers(output, facts, node);
            kernel::fabric_manager(output, facts, node);
        }
        "nvidia-smi" if output.has("topo") => matrix::state(output, facts, node),
        "nvidia-smi" if output.is_gpu_list() => smi::list(output, facts, node),
        "nvidia-smi" if output.has("nvlink") => smi::nvlinks::state(output, facts, node),
        "nvidia-smi" if output.has("-q") || output.has("--query") => {
            smi::query(output, facts, node)
        }
        "nvidia-smi" if output.argv.len() > 1 => smi::csv(output, facts, node),
        "nvidia-smi" => smi::table(output, facts, node),
        "lsmod" => shell::modules(output, facts, node),
        "ofed_info" => shell::driver_package(output, facts, node),
        "modinfo" => shell::module_file(output, facts, node),
        "ulimit" => shell::limits(output, facts, node),
        "uname" => shell::architecture(output, facts, node),
        "prlimit" => shell::prlimit(output, facts, node),
        "env" | "printenv" => shell::environment(output, facts, node),
        "free" => shell::memory(output, facts, node),
        "df" => shell::file_systems(output, facts, node),
        "tc" => output.lines().for_each(|line| {
            obstacle::printed::discipline(facts, node, line.text, &line.origin());
        }),
        "lscpu" => processors::lscpu(output, facts, node),
        "numactl" => processors::numactl(output, facts, node),
        "systemctl" => {
            services::systemctl(output, facts, node);
            self_tests::units(output, facts, node);
        }
        "timedatectl" => services::clock(output, facts, node),
        "chronyc" if output.has("sources") => services::sources(output, facts, node),
        "chronyc" => services::chrony(output, facts, node),
        "ping" | "ping6" | "ibping" => self_tests::ping(output, facts, node),
        "dcgmi" => self_tests::dcgmi(output, facts, node),
        "ufw" => output.lines().for_each(|line| {
            let pair = line.text.split_once(':').unwrap_or_default();
            named::state(facts, node, named::NODE, pair, &line);
        }),
        "docker" => containers::docker(output, facts, node),
        "kubectl" => {
            containers::kubectl(output, facts, node);
            schedulers::events(output, facts, node);
            schedulers::allocatable(output, facts, node);
        }
        "nvbandwidth" => nvbandwidth::state_gpus(output, facts, node),
        "nvidia-imex-ctl" => imex::state_domain(output, facts, node),
        "sinfo" => schedulers::sinfo(output, facts, node),
        "scontrol" => schedulers::scontrol(output, facts, node),
        "nccl-topology" => {
            let (name, text) = (&*output.file, output.text());
            topology::file::printed(facts, node, name, &text, &output.origin());
        }
        _ => {}
    }
}
