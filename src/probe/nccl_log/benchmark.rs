//! Results of benchmarks.

#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;
use std::sync::Arc;

use super::{File, benchmark_ranks};
use crate::fact::benchmark::{self as fact, BenchmarkFailure, BenchmarkTool};
use crate::fact::{BitRate, Bytes, Fact, Facts, Gap, Id, Membership, Origin, Seconds, Subject};
use crate::probe::outputs::output_line::{self, OutputLine};
use crate::tool_output::{self, Block};

/// States the results of benchmarks in these files.
pub(super) fn state(files: &[File], missing: &Option<Gap>, origin: &Origin, facts: &mut Facts) {
    let members = Membership::known_unless(missing.clone(), origin.clone());
    facts.set_members(Subject::Benchmark, Facts::CLUSTER, members);
    for (file, digest) in files {
        for block in digest.outputs.iter().filter(|block| block.tool() == "log") {
            if let Some(id) = table(file, block, facts)
                .or_else(|| ranks_alone(file, &digest.outputs, block, facts))
            {
                benchmark_ranks::state(file, &digest.outputs, block, facts, id);
                stated_ports(file, &digest.outputs, facts, id);
            }
        }
    }
}

/// A list of ranks of which the text shows no table: it alone tells whether the processes joined.
fn ranks_alone(file: &Arc<str>, all: &[Block], block: &Block, facts: &mut Facts) -> Option<Id> {
    let has_table = all.iter().any(|other| other.is_benchmark("nccl-tests"));
    let jobs = benchmark_ranks::jobs(file, block);
    if has_table || jobs.len() < 2 {
        return None;
    }
    let first = output_line::lines(file, &block.lines).next()?;
    let place = super::place(file, first.number);
    let name = format!("{} at {place}", BenchmarkTool::NcclTests.word());
    let id = facts.instance(Subject::Benchmark, Facts::CLUSTER, &name);
    facts.set(id, fact::TOOL, first.known(BenchmarkTool::NcclTests));
    facts.set(id, fact::PLACE, first.known(place.into()));
    facts.set(id, fact::ROWS, first.known(0));
    let count = jobs.len() as u64;
    facts.set(id, fact::JOBS, jobs.first()?.known(count));
    Some(id)
}

fn table(file: &Arc<str>, block: &Block, facts: &mut Facts) -> Option<Id> {
    let lines = || output_line::lines(file, &block.lines);
    let first = lines().next()?;
    let tool = match block.argv.get(1)?.as_str() {
        "nccl-tests" => BenchmarkTool::NcclTests,
        "all-reduce-bench" => BenchmarkTool::AllReduceBench,
        "perftest" => BenchmarkTool::Perftest,
        "iperf3" => BenchmarkTool::Iperf3,
        _ => return None,
    };
    let place = super::place(file, first.number);
    let name = format!("{} at {place}", tool.word());
    let id = facts.instance(Subject::Benchmark, Facts::CLUSTER, &name);
    facts.set(id, fact::TOOL, first.known(tool));
    facts.set(id, fact::PLACE, first.known(place.into()));
    let mut rows = Rows::default();
    match tool {
        BenchmarkTool::NcclTests => nccl_tests(lines(), block.is_cut, facts, id, &mut rows),
        BenchmarkTool::AllReduceBench => all_reduce_bench(lines(), facts, id, &mut rows),
        BenchmarkTool::Perftest => perftest(lines(), facts, id, &mut rows),
        BenchmarkTool::Iperf3 => iperf3(lines(), facts, id, &mut rows),
    }
    facts.set(id, fact::ROWS, first.known(rows.count));
    if let Some((size, origin)) = rows.largest.filter(|(size, _)| *size > 0) {
        facts.set(id, fact::LARGEST, Fact::Known(Bytes(size), origin));
    }
    if let Some((rate, origin)) = rows.best {
        facts.set(id, fact::BANDWIDTH, Fact::Known(rate, origin));
    }
    Some(id)
}

/// What somebody says beside a benchmark of the ports of a host: `4 x 400 Gb/s`.
fn stated_ports(file: &Arc<str>, outputs: &[Block], facts: &mut Facts, id: Id) {
    let of_ports = |block: &&Block| block.is_benchmark(tool_output::STATED_PORTS);
    let said = outputs.iter().filter(of_ports);
    let mut said = said.flat_map(|block| output_line::lines(file, &block.lines));
    if let Some((line, (count, rate))) =
        said.find_map(|line| Some((line, tool_output::stated_ports(line.text)?)))
    {
        let place = super::place(file, line.number);
        let words = format!("{count} × {rate} Gb/s, as the text says in {place}");
        facts.set(id, fact::STATED_PORTS, line.known(words.into()));
        let rate = BitRate(count * rate * 1_000_000_000);
        facts.set(id, fact::STATED_RATE, line.known(rate));
        if let Some(hosts) = tool_output::stated_hosts(line.text) {
            facts.set(id, fact::HOSTS, line.known(hosts));
        }
    }
}

/// What rows amount to.
#[derive(Default)]
struct Rows {
    count: u64,
    largest: Option<(u64, Origin)>,
    best: Option<(BitRate, Origin)>,
}

impl Rows {
    fn add(&mut self, place: &OutputLine<'_>, size: u64, rate: Option<f64>) {
        self.count += 1;
        if self.largest.as_ref().is_none_or(|(most, _)| size >= *most) {
            self.largest = Some((size, place.origin()));
        }
        if let Some(rate) = rate.and_then(bits)
            && self.best.as_ref().is_none_or(|(most, _)| rate > *most)
        {
            self.best = Some((rate, place.origin()));
        }
    }
}

/// Bits per second, if the number is one of a machine that can be.
fn bits(per_second: f64) -> Option<BitRate> {
    (per_second.is_finite() && (0.0..1e18).contains(&per_second))
        .then_some(BitRate(per_second.round() as u64))
}

/// A gigabyte as nccl-tests counts it: 10^9 bytes (common.cu, algBw = size / 1.0E9 / time).
const GIGABYTE: f64 = 8e9;

/// One half of a row, out of place or in place: time, algbw, busbw, and how many values are wrong.
fn half<'t>(words: &[&'t str]) -> Option<(f64, f64, &'t str)> {
    let [time, algbw, busbw, wrong] = words else {
        return None;
    };
    let number = |word: &str| word.parse::<f64>().ok().filter(|n| n.is_finite());
    // A test that has no in-place form writes N/A.
    if *time == "N/A" {
        return Some((0.0, 0.0, wrong));
    }
    number(algbw)?;
    Some((number(time)?, number(busbw)?, wrong))
}

fn nccl_tests<'p>(
    mut lines: impl Iterator<Item = OutputLine<'p>>,
    is_cut: bool,
    facts: &mut Facts,
    id: Id,
    rows: &mut Rows,
) {
    let header = lines.next();
    // Before 2.13 the last column was the error of floating-point sums, which is not zero if all is right.
    let counts = header.is_some_and(|line| line.text.contains("#wrong"));
    let (mut wrong, mut torn, mut untested) = (0u64, false, !counts);
    let mut whose: Vec<String> = Vec::new();
    let mut proof = None;
    let mut bounds: Option<(u64, OutputLine<'p>)> = None;
    let mut complete = None;
    let mut reduces = None;
    for line in lines {
        let text = line.text.trim();
        if let Some(comment) = text.strip_prefix('#') {
            let after = comment.split_once(':').map(|(_, after)| after.trim());
            if comment.contains("Out of bounds values") {
                let count = after.and_then(|a| a.split_whitespace().next()?.parse().ok());
                bounds = count.map(|count| (count, line));
            } else if comment.contains("Avg bus bandwidth") {
                let mean = after.and_then(|a| a.parse::<f64>().ok());
                let mean = mean.and_then(|mean| bits(mean * GIGABYTE));
                facts.set(id, fact::MEAN_BANDWIDTH, line.read(mean));
                complete = Some(line);
            } else if let Some(test) = after.filter(|_| comment.contains("test concluded")) {
                facts.set(id, fact::TEST, line.known(test.into()));
            }
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let size = words.first().and_then(|word| word.parse::<u64>().ok());
        // Other programs write between the rows, and behind the table.
        if complete.is_some() || size.is_none() || words.len() < 6 {
            continue;
        }
        let halves = words
            .len()
            .checked_sub(8)
            .filter(|begin| *begin >= 2)
            .and_then(|begin| {
                let out = half(words.get(begin..begin + 4)?)?;
                let inside = half(words.get(begin + 4..)?)?;
                Some([("out of place", out), ("in place", inside)])
            });
        let (Some(size), Some(halves)) = (size, halves) else {
            torn = true;
            continue;
        };
        let best = halves
            .iter()
            .map(|(_, (_, busbw, _))| *busbw)
            .fold(0.0, f64::max);
        rows.add(&line, size, Some(best * GIGABYTE));
        let (_, (micros, ..)) = halves[0];
        if rows.count == 1 && micros > 0.0 {
            facts.set(id, fact::SMALLEST, line.known(Bytes(size)));
            facts.set(id, fact::LATENCY, line.known(Seconds(micros / 1e6)));
        }
        // Size, count, type, operation: in the table's form, truncated rows have others there.
        if reduces.is_none() {
            reduces = words.get(3).map(|op| (*op != "none", line));
        }
        for (what, (.., count)) in halves {
            match (counts, count.parse::<f64>()) {
                (true, Ok(0.0)) => {}
                (true, Ok(count)) if (1.0..1e18).contains(&count) => {
                    wrong = wrong.saturating_add(count as u64);
                    whose.push(format!("{size} bytes {what}: {count}"));
                    proof.get_or_insert(line);
                }
                _ => untested = true,
            }
        }
    }
    if let (None, Some((count, line))) = (proof, bounds)
        && count > 0
    {
        wrong = count;
        whose.push(format!("{count} values out of bounds"));
        proof = Some(line);
    }
    if let Some((reduces, line)) = reduces {
        facts.set(id, fact::REDUCES, line.known(reduces));
    }
    let clear = bounds.filter(|(count, _)| *count == 0 && !untested && !torn);
    let unknown = |why: &str| {
        let origin = header.map_or(Origin::derived("the log"), |line| line.origin());
        Gap::not_said(why, origin)
    };
    match (proof, clear) {
        (Some(line), _) => {
            facts.set(id, fact::WRONG, line.known(wrong));
            facts.set(id, fact::WRONG_ROWS, line.known(some(&whose).into()));
        }
        (None, Some((_, line))) => {
            facts.set(id, fact::WRONG, line.known(0));
            facts.set(id, fact::WRONG_ROWS, line.known("none".into()));
        }
        (None, None) => {
            let gap = unknown(if untested {
                "the test did not look whether values are right (N/A)"
            } else if torn {
                "a row of the table is incomplete"
            } else {
                "the table ends before its sum"
            });
            facts.set(id, fact::WRONG, Fact::Unknown(gap.clone()));
            facts.set(id, fact::WRONG_ROWS, Fact::Unknown(gap));
        }
    }
    let ended = match (complete, header) {
        (Some(line), _) => line.known(true),
        (None, Some(line)) if !is_cut => line.known(false),
        _ => Fact::Unknown(unknown("the table is longer than what was kept of it")),
    };
    facts.set(id, fact::COMPLETE, ended);
}

fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names
        .get(..names.len().min(SHOWN))
        .unwrap_or(&[])
        .join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// What the first versions of all_reduce_bench send, which print no table: 500,000 × 2,000 elements of four bytes.
const PAYLOAD: u64 = 4_000_000_000;

/// `|     4GB | 480.15GBps | 274.37GBps |`, or in older ones `busbw: 371.481 GBps (2971.9 Gbps)`.
fn all_reduce_bench<'p>(
    lines: impl Iterator<Item = OutputLine<'p>> + Clone,
    facts: &mut Facts,
    id: Id,
    rows: &mut Rows,
) {
    let how = "all_reduce_bench measures no other";
    facts.derive(id, fact::TEST, "all_reduce".into(), how);
    facts.derive(id, fact::REDUCES, true, how);
    let mut header = lines.clone().map(|line| line.text);
    let header = header.find(|text| text.trim_start().starts_with('|'));
    let header = header.unwrap_or_default();
    let column = |name: &str| header.split('|').position(|cell| cell.trim() == name);
    let (payload, busbw) = (column("payload"), column("busbw"));
    for line in lines {
        if let Some((_, rest)) = line.text.split_once("Properties(name='") {
            let model = rest.split_once('\'').map(|(model, _)| model.into());
            facts.set(id, fact::GPUS, line.read(model));
            continue;
        }
        if line.text.starts_with("The average bandwidth") {
            let mut words = line.text.split([' ', '(', ',', ')']);
            let before = words.by_ref().take_while(|word| !word.starts_with("ranks"));
            let ranks = before.last().and_then(|number| number.parse().ok());
            facts.set(id, fact::RANKS, line.read(ranks));
            continue;
        }
        if let Some((_, rate)) = line.text.split_once("busbw:") {
            let rate = rate
                .split_once("GBps")
                .and_then(|(n, _)| n.trim().parse().ok());
            if let Some(rate) = rate.map(|rate: f64| rate * GIGABYTE) {
                rows.add(&line, PAYLOAD, Some(rate));
            }
            continue;
        }
        let cells: Vec<&str> = line.text.split('|').map(str::trim).collect();
        let cell = |at: Option<usize>| at.and_then(|at| cells.get(at).copied());
        let size = cell(payload).and_then(size);
        let rate =
            cell(busbw).and_then(|cell| cell.strip_suffix("GBps")?.trim().parse::<f64>().ok());
        if let (Some(size), Some(rate)) = (size, rate) {
            rows.add(&line, size, Some(rate * GIGABYTE));
        }
    }
}

/// `32KB`, `4GB`: powers of 1024.
fn size(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(unit)?;
    let shift = match unit.trim() {
        "B" => 0,
        "KB" | "KiB" => 10,
        "MB" | "MiB" => 20,
        "GB" | "GiB" => 30,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    (number < 1e6).then_some((number * f64::from(1u32 << shift)) as u64)
}

/// `[  5]   0.00-10.00  sec  10.9 GBytes  9.39 Gbits/sec   12   sender`; of several streams `[SUM]` stands last.
fn iperf3<'p>(
    lines: impl Iterator<Item = OutputLine<'p>>,
    facts: &mut Facts,
    id: Id,
    rows: &mut Rows,
) {
    // A client that is tried again says the last time how it went.
    let mut ended = None;
    for line in lines {
        let text = line.text.trim();
        if let Some(error) = text.strip_prefix("iperf3: error - ") {
            let failure = match error.starts_with("unable to connect") {
                true => BenchmarkFailure::NotConnected,
                false => BenchmarkFailure::Other,
            };
            ended = Some((failure, error, line));
            continue;
        }
        // The receiver's sums: what was sent and lost is none of them.
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.last() == Some(&"receiver") {
            let rate = words
                .windows(2)
                .find_map(|pair| Some(pair[0].parse::<f64>().ok()? * unit(pair[1])?));
            rows.add(&line, 0, rate);
            ended = Some((BenchmarkFailure::None, "none", line));
        }
    }
    if let Some((failure, text, line)) = ended {
        facts.set(id, fact::FAILURE, line.known(failure));
        facts.set(id, fact::FAILURE_TEXT, line.known(text.into()));
    }
}

fn perftest<'p>(
    lines: impl Iterator<Item = OutputLine<'p>>,
    facts: &mut Facts,
    id: Id,
    rows: &mut Rows,
) {
    let mut columns: Vec<&str> = Vec::new();
    let mut failure: Option<(BenchmarkFailure, OutputLine<'p>)> = None;
    let mut last = None;
    let mut gids = PrintedGids::default();
    for line in lines {
        let text = line.text.trim();
        let value = |key: &str| {
            let (before, after) = text.split_once(key)?;
            let rest = after.trim_start().strip_prefix(':')?;
            let starts = before.is_empty() || before.ends_with([' ', '\t']);
            rest.split_whitespace().next().filter(|_| starts)
        };
        // What follows the line below the rows is of other programs.
        if text.starts_with("-----") && last.is_some() {
            break;
        }
        if text.ends_with(" Test") {
            facts.set(id, fact::TEST, line.known(text.into()));
        } else if text.starts_with("#bytes") {
            // `BW average[MB/sec]` are two words, and one column.
            columns = header(text);
        } else if let Some(found) = failed(text) {
            if let Some(status) = status(text) {
                facts.set(id, fact::STATUS, line.known(status));
            }
            // That a request failed says more than what followed from it.
            let completed = |(kind, line): (_, OutputLine<'_>)| {
                kind == BenchmarkFailure::Completion && line.text.contains("status")
            };
            if failure.is_none()
                || found == BenchmarkFailure::Completion && !failure.is_some_and(completed)
            {
                failure = Some((found, line));
            }
        } else if !columns.is_empty() && text.starts_with(|c: char| c.is_ascii_digit()) {
            let words: Vec<&str> = text.split_whitespace().collect();
            let size = words.first().and_then(|word| word.parse::<u64>().ok());
            let cell = |name: &str| {
                let at = columns.iter().position(|column| column.starts_with(name))?;
                Some((*columns.get(at)?, words.get(at)?.parse::<f64>().ok()?))
            };
            if let Some(size) = size {
                let rate = cell("BW average")
                    .and_then(|(column, n)| Some(n * unit(column.split_once('[')?.1)?));
                rows.add(&line, size, rate);
                let latency = cell("t_avg").or_else(|| cell("t_typical"));
                if let Some((_, micros)) = latency
                    && rows.count == 1
                {
                    facts.set(id, fact::LATENCY, line.known(Seconds(micros / 1e6)));
                }
                last = Some(line);
            }
        }
        let completed = text.split("ccnt=").nth(1);
        if let Some(completed) = completed.and_then(|count| count.parse().ok()) {
            facts.set(id, fact::COMPLETED, line.known(completed));
        }
        if let Some(device) = value("Device") {
            facts.set(id, fact::DEVICE, line.known(device.into()));
        }
        if let Some(layer) = value("Link type") {
            facts.set(id, fact::LINK_LAYER, line.known(layer.into()));
        }
        if let Some(index) = value("GID index").and_then(|index| index.parse().ok()) {
            facts.set(id, fact::GID_INDEX, line.known(index));
        }
        if let Some(address) = text.strip_prefix("GID: ").and_then(printed_gid) {
            gids.add(address, line, facts, id);
        }
    }
    gids.state_empty(facts, id);
    if let Some((kind, line)) = failure {
        facts.set(id, fact::FAILURE, line.known(kind));
        facts.set(id, fact::FAILURE_TEXT, line.known(line.text.trim().into()));
    } else if let Some(line) = last {
        facts.set(id, fact::FAILURE, line.known(BenchmarkFailure::None));
    }
}

/// `00:00:00:00:00:00:00:00:00:00:255:255:10:10:01:01`: the bytes of a GID, in decimal.
fn printed_gid(text: &str) -> Option<Ipv6Addr> {
    let bytes: Result<Vec<u8>, _> = text.trim().split(':').map(str::parse).collect();
    let bytes: [u8; 16] = bytes.ok()?.try_into().ok()?;
    Some(Ipv6Addr::from(bytes))
}

/// The GIDs that the two ends of a perftest print, its own first.
#[derive(Default)]
struct PrintedGids<'p> {
    own: Option<Ipv6Addr>,
    /// The ends that print zeros, and the last line that does.
    empty: Option<(&'static str, OutputLine<'p>)>,
}

impl<'p> PrintedGids<'p> {
    fn add(&mut self, address: Ipv6Addr, line: OutputLine<'p>, facts: &mut Facts, id: Id) {
        let ends = match (self.own, self.empty.is_some()) {
            (None, _) => "this end",
            (Some(_), true) => "both ends",
            (Some(_), false) => "the other end",
        };
        match self.own {
            Some(own) => facts.set(id, fact::GIDS_APART, line.known(apart(own, address))),
            None => self.own = Some(address),
        }
        if address.is_unspecified() {
            self.empty = Some((ends, line));
        }
    }

    fn state_empty(self, facts: &mut Facts, id: Id) {
        if let Some((ends, line)) = self.empty {
            facts.set(id, fact::GIDS_EMPTY, line.known(ends.into()));
        }
    }
}

/// Both GIDs in words, if one is an IPv4 address or link-local and the other is not.
fn apart(own: Ipv6Addr, peer: Ipv6Addr) -> Arc<str> {
    fn kind(address: Ipv6Addr) -> (bool, bool) {
        (
            address.to_ipv4_mapped().is_some(),
            address.is_unicast_link_local(),
        )
    }
    if kind(own) == kind(peer) {
        return "none".into();
    }
    let [own, peer] = [own, peer].map(|address| match address.to_ipv4_mapped() {
        Some(four) => four.to_string(),
        None => address.to_string(),
    });
    format!("{own} here, {peer} there").into()
}

/// The columns of perftest's table: names that hold blanks end with their unit.
fn header(text: &str) -> Vec<&str> {
    const NAMES: [&str; 12] = [
        "#bytes",
        "#iterations",
        "BW peak",
        "BW average",
        "MsgRate",
        "t_min",
        "t_max",
        "t_typical",
        "t_avg",
        "t_stdev",
        "99%",
        "99.9%",
    ];
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in NAMES {
        for (at, _) in text.match_indices(name) {
            let rest = text.get(at..).unwrap_or("");
            let end = rest.find(']').map_or(name.len(), |end| end + 1);
            let whole = match name.starts_with('#') {
                true => name,
                false => rest.get(..end).unwrap_or(name),
            };
            found.push((at, whole));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Bits per second of one unit of iperf3, or of a column of perftest, whose MB are of 2^20 bytes.
fn unit(word: &str) -> Option<f64> {
    Some(match word.trim_end_matches(']') {
        "MB/sec" | "MiB/sec" => 8.0 * 1_048_576.0,
        "Gb/sec" | "Gib/sec" | "Gbits/sec" => 1e9,
        "Mbits/sec" => 1e6,
        "Kbits/sec" => 1e3,
        "bits/sec" => 1.0,
        _ => return None,
    })
}

fn failed(text: &str) -> Option<BenchmarkFailure> {
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    Some(if has(&["Failed status", "Completion with error"]) {
        BenchmarkFailure::Completion
    } else if has(&["Failed to modify QP", "Unable to Connect the HCA"]) {
        BenchmarkFailure::Queue
    } else if has(&[
        "ouldn't connect to ",
        "Unable to open file descriptor for socket",
        "Unable to init the socket connection",
    ]) {
        BenchmarkFailure::NotConnected
    } else if has(&["ouldn't", "Unable to", "Failed to "]) {
        BenchmarkFailure::Other
    } else {
        return None;
    })
}

/// The number of `Failed status 12: wr_id 0 syndrom 0x81`.
fn status(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("Failed status ")?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}
