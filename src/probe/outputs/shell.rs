//! Limits, modules, file systems and variables of a shell, as `ulimit -a`, `lsmod`, `df` and `env` print them.

use serde_json::{Map, Value};

use super::{Output, OutputLine, replayed};
use crate::fact::node::{CpuVendor, SharedMemory};
use crate::fact::{Bytes, Facts, Id, Percent, Subject, module, node as of_node};
use crate::nccl_log::setting;
use crate::probe::{driver, module as modules_of, nccl};
use crate::source::Question;

/// `max locked memory  (kbytes, -l) 64`, and `unlimited` of `ulimit -l` alone.
pub(super) fn limits(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let Some(value) = line.text.split_whitespace().next_back() else {
            continue;
        };
        let number = match value {
            "unlimited" => Some(u64::MAX),
            value => value.parse::<u64>().ok(),
        };
        let is = |option: &str, words: &str| {
            line.text.contains(words) || output.argv.get(1).is_some_and(|arg| **arg == *option)
        };
        if is("-l", "max locked memory") {
            let bytes = number.map(|kib| Bytes(kib.saturating_mul(1024)));
            facts.set(node, of_node::MEMLOCK, line.read(bytes));
        } else if is("-s", "stack size") {
            let bytes = number.map(|kib| Bytes(kib.saturating_mul(1024)));
            facts.set(node, of_node::STACK, line.read(bytes));
        } else if is("-n", "open files") {
            facts.set(node, of_node::NOFILE, line.read(number));
        }
    }
}

/// The architecture that `uname -m` and `uname -a` print: of x86 it does not tell the vendor.
pub(super) fn architecture(output: &Output, facts: &mut Facts, node: Id) {
    if let Some(line) = output.lines().next()
        && line.text.split_whitespace().any(|word| word == "aarch64")
    {
        facts.set(node, of_node::CPU_VENDOR, line.known(CpuVendor::Arm));
    }
}

/// `MEMLOCK max locked-in-memory address space 67108864 67108864 bytes`, and `Max locked memory` of
/// /proc/PID/limits: what is in force, then what the process may raise it to.
pub(super) fn prlimit(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let soft = match words.as_slice() {
            [.., soft, _hard, "bytes" | "files"] => *soft,
            _ => continue,
        };
        let number = match soft {
            "unlimited" => Some(u64::MAX),
            value => value.parse::<u64>().ok(),
        };
        match words.as_slice() {
            ["MEMLOCK", ..] | ["Max", "locked", "memory", ..] => {
                facts.set(node, of_node::MEMLOCK, line.read(number.map(Bytes)));
            }
            ["NOFILE", ..] | ["Max", "open", "files", ..] => {
                facts.set(node, of_node::NOFILE, line.read(number))
            }
            _ => {}
        }
    }
}

/// nvidia_peermem uses the driver's module, whose line names its users, whatever else of the list was left out.
fn peer_memory(users: Option<&str>, line: &OutputLine<'_>, facts: &mut Facts, node: Id) {
    let name = "nvidia_peermem";
    let is_user = users.is_some_and(|users| users.split(',').any(|one| one == name));
    let id = facts.instance(Subject::Module, node, name);
    facts.set(id, module::NAME, line.known(name.into()));
    facts.set(id, module::PRESENT, line.known(is_user));
}

/// The names that lsmod lists are loaded; of those that no kernel has built in the others are not.
pub(super) fn modules(output: &Output, facts: &mut Facts, node: Id) {
    let mut loaded = Vec::new();
    for line in output.lines() {
        let mut words = line.text.split_whitespace();
        let (Some(name), Some(size)) = (words.next(), words.next()) else {
            continue;
        };
        if size.parse::<u64>().is_err() {
            continue;
        }
        loaded.push(name.to_owned());
        if name == "nvidia" {
            peer_memory(words.nth(1), &line, facts, node);
        }
        if let Some(id) = facts.find(Subject::Module, node, name) {
            facts.set(id, module::PRESENT, line.known(true));
            facts.set(id, module::BUILTIN, line.known(false));
        }
    }
    let is_whole = !output.is_cut
        && output
            .lines()
            .next()
            .is_some_and(|line| line.text.contains("Used by"));
    for name in modules_of::OUT_OF_TREE
        .split(' ')
        .filter(|_| is_whole && !loaded.is_empty())
    {
        let id = facts.instance(Subject::Module, node, name);
        if !loaded.iter().any(|one| one == name) {
            facts.set(id, module::PRESENT, output.known(false));
            facts.set(id, module::BUILTIN, output.known(false));
        }
    }
}

/// `tmpfs  64M  0  64M  0% /dev/shm`
pub(super) fn file_systems(output: &Output, facts: &mut Facts, node: Id) {
    let mut unit = 1024;
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if line.text.contains("1M-blocks") {
            unit = 1 << 20;
        }
        let [source, size, _, free, used, "/dev/shm"] = words.as_slice() else {
            continue;
        };
        // Docker calls the file system that it mounts there `shm`.
        if matches!(*source, "tmpfs" | "shm") {
            facts.set(node, of_node::SHM, line.known(SharedMemory::Usable));
        }
        let bytes = |text: &str| {
            let at = text
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(text.len());
            let (number, suffix) = text.split_at(at);
            let scale = match suffix {
                "" => unit,
                "K" => 1 << 10,
                "M" => 1 << 20,
                "G" => 1 << 30,
                "T" => 1u64 << 40,
                _ => return None,
            };
            let number: f64 = number.parse().ok()?;
            (0.0..1e15)
                .contains(&number)
                .then_some(Bytes((number * scale as f64) as u64))
        };
        facts.set(node, of_node::SHM_SIZE, line.read(bytes(size)));
        // `-h` rounds: what is left is known where it is much, and where nothing is.
        if *used == "100%" || bytes(free).is_some_and(|free| free.0 > 0) {
            facts.set(node, of_node::SHM_FREE, line.read(bytes(free)));
        }
    }
}

/// The share of the memory that is available, of the row `Mem:` of free(1), in whatever unit.
pub(super) fn memory(output: &Output, facts: &mut Facts, node: Id) {
    let mut names: Vec<&str> = Vec::new();
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        match words.split_first() {
            Some((&"total", _)) => names = words,
            Some((&"Mem:", values)) => {
                let value = |name: &str| {
                    let at = names.iter().position(|one| *one == name)?;
                    values.get(at).and_then(|value| amount(value))
                };
                let (Some(all), Some(free)) = (value("total"), value("available")) else {
                    continue;
                };
                let bytes = all.bytes.or_else(|| Some(all.number * unit_of(output)?));
                if let Some(bytes) = bytes.filter(|bytes| *bytes < 1e15) {
                    facts.set(node, of_node::MEMORY, line.known(Bytes(bytes as u64)));
                }
                // Whole units are rounded down.
                let share = match (all.bytes, free.bytes) {
                    (Some(all), Some(free)) => free / all,
                    (None, None) => (free.number + 1.0) / all.number,
                    _ => continue,
                };
                let percent = share.is_finite().then(|| share.min(1.0) * 1000.0);
                let percent = percent.map(|tenths| Percent(tenths.round() / 10.0));
                facts.set(node, of_node::MEMORY_AVAILABLE, line.read(percent));
            }
            _ => {}
        }
    }
}

/// The bytes of one, by the option of free(1); none where nobody shows the command, or where it has
/// others than these.
fn unit_of(output: &Output) -> Option<f64> {
    if output.by_mark {
        return None;
    }
    match output.argv.get(1).map(|option| &**option) {
        None | Some("-k") => Some(f64::from(1 << 10)),
        Some("-b") => Some(1.0),
        Some("-m") => Some(f64::from(1 << 20)),
        Some("-g") => Some(f64::from(1 << 30)),
        Some(_) => None,
    }
}

/// A cell of free(1): its number, and the bytes where it has a unit of its own.
struct Amount {
    number: f64,
    bytes: Option<f64>,
}

/// `1031772`, `1.0Ti`, `998G`, `0B`.
fn amount(text: &str) -> Option<Amount> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    let power = match text.get(digits.len()..)?.chars().next() {
        None => {
            let bytes = None;
            return Some(Amount { number, bytes });
        }
        Some('B') => 0,
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        Some(_) => return None,
    };
    let bytes = Some(number * 1024f64.powi(power));
    Some(Amount { number, bytes })
}

/// The variables of NCCL, read by the probe that reads them of a process.
pub(super) fn environment(output: &Output, facts: &mut Facts, node: Id) {
    let mut all = Map::new();
    for line in output.lines() {
        let text = line
            .text
            .trim()
            .trim_start_matches("export ")
            .trim_start_matches("declare -x ");
        // A line by itself may be that of a command, behind its variables; `printenv NAME` prints
        // the value alone.
        let asked = output.operand().filter(|_| output.tool() == "printenv");
        let set: Vec<(&str, &str)> = match asked {
            Some(name) if !text.contains('=') => vec![(name, text)],
            _ if output.by_mark => setting::settings(text).collect(),
            _ => text.split_once('=').into_iter().collect(),
        };
        for (name, value) in set {
            if name.starts_with("NCCL_") {
                let value = Value::from(value.trim_matches(['"', '\'']));
                all.insert(name.to_owned(), value);
            }
        }
    }
    if all.is_empty() {
        return;
    }
    let question = Question::env(&["NCCL_"]);
    let (read, machine) = replayed::facts(&nccl::PROBE, question, &Value::Object(all));
    for variable in read.below(machine, Subject::Variable) {
        let assigned = format!("{}=", read.name(variable));
        if let Some(line) = output.lines().find(|line| line.text.contains(&assigned)) {
            replayed::copy(&read, variable, facts, node, &line);
        }
    }
}

/// The version of the package of drivers, as `ofed_info -s` prints it.
pub(super) fn driver_package(output: &Output, facts: &mut Facts, node: Id) {
    if let Some(line) = output.lines().next()
        && let Ok(version) = driver::parse::ofed(line.text)
    {
        facts.set(node, of_node::OFED, line.known(version));
    }
}

/// `filename: /lib/modules/…/kernel/drivers/…/mlx5_core.ko` is the kernel's own; a package of drivers
/// puts its modules elsewhere, and loads its compatibility module first.
pub(super) fn module_file(output: &Output, facts: &mut Facts, node: Id) {
    let is_file = |line: &OutputLine<'_>| line.text.starts_with("filename:");
    let Some(line) = output
        .lines()
        .find(is_file)
        .filter(|_| output.has("mlx5_core"))
    else {
        return;
    };
    let is_own = line.text.contains("/kernel/drivers/");
    let id = facts.instance(Subject::Module, node, "mlx_compat");
    facts.set(id, module::PRESENT, line.known(!is_own));
}
