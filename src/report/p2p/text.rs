//! The matrices as text.

use std::io::{self, Write};

use crate::terminal::{Paint, Painted};

use super::{Copies, Copy, Gpu, host};
use crate::fact::Bytes;
use crate::report::plural;

/// The width of a column, and of the names before the first.
const COLUMN: usize = 9;
const NAME: usize = 7;

/// Writes the matrices for people, in lines of at most `width` columns.
pub fn write(out: &mut dyn Write, copies: &Copies, width: usize) -> io::Result<()> {
    let node = copies.node.bold();
    if let Some(why) = &copies.nothing {
        return writeln!(out, "{node} · {}: {why}", "no copy was measured".magenta());
    }
    let size = Bytes(copies.size);
    writeln!(
        out,
        "{node} · {} · copies of {size}, median of {}, every byte compared",
        plural(copies.gpus.len() as u64, "GPU"),
        plural(copies.trials, "trial"),
    )?;
    for gpu in &copies.gpus {
        let model = gpu.model.as_deref().unwrap_or("");
        writeln!(
            out,
            "{}",
            format!("  {:<NAME$}{}  {model}", name(gpu), gpu.pci).trim_end()
        )?;
    }
    let page = Page {
        copies,
        width: width.clamp(NAME + 2 + 4 * COLUMN, 160),
    };
    page.with_host(out)?;
    if copies.gpus.len() > 1 {
        let one_way = "GPU to GPU, GB/s, from row to column";
        page.matrix(out, one_way, false, bandwidth)?;
        let both = "Both directions at once, GB/s together";
        page.matrix(out, both, true, bandwidth)?;
        let small = "A copy of 16 bytes, µs, from row to column";
        page.matrix(out, small, false, latency)?;
    }
    page.marks(out)?;
    page.troubles(out)
}

struct Page<'c> {
    copies: &'c Copies,
    width: usize,
}

impl Page<'_> {
    fn with_host(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\nHost and GPU, GB/s and µs for 16 bytes")?;
        let heads = ["to GPU", "µs", "to host", "µs", "both"];
        let heads = heads.map(|head| format!("{head:>COLUMN$}")).concat();
        writeln!(out, "  {:NAME$}{heads}", "")?;
        for gpu in &self.copies.gpus {
            let find = |from: &str, to: &str, both| self.copies.get(from, to, both);
            let (host, gpu, name) = (host(), &gpu.pci, name(gpu));
            let (to, from) = (find(&host, gpu, false), find(gpu, &host, false));
            let both = bandwidth(find(&host, gpu, true));
            let (fast, back) = (bandwidth(to), bandwidth(from));
            let (late, late_back) = (latency(to), latency(from));
            writeln!(out, "  {name:<NAME$}{fast}{late}{back}{late_back}{both}")?;
        }
        Ok(())
    }

    /// Rows and columns of GPUs, in blocks of as many columns as fit. What belongs to both directions is above the diagonal.
    fn matrix(
        &self,
        out: &mut dyn Write,
        title: &str,
        both: bool,
        cell: impl Fn(Option<&Copy>) -> Painted,
    ) -> io::Result<()> {
        writeln!(out, "\n{title}")?;
        let gpus = &self.copies.gpus;
        let fit = ((self.width - NAME - 2) / COLUMN).max(1);
        for block in (0..gpus.len()).collect::<Vec<_>>().chunks(fit) {
            let heads = block.iter().filter_map(|at| gpus.get(*at));
            let heads: String = heads.map(|gpu| format!("{:>COLUMN$}", name(gpu))).collect();
            writeln!(out, "  {:NAME$}{heads}", "")?;
            for (at, from) in gpus.iter().enumerate() {
                let mut row = Vec::new();
                for to in block {
                    let Some(gpu) = gpus.get(*to) else { continue };
                    row.push(if *to == at || (both && *to < at) {
                        format!("{:>COLUMN$}", if *to == at { "-" } else { "" }).normal()
                    } else {
                        cell(self.copies.get(&from.pci, &gpu.pci, both))
                    });
                }
                if row.iter().all(|cell| cell.trim().is_empty()) {
                    continue;
                }
                write!(out, "  {:<NAME$}", name(from))?;
                for cell in row {
                    write!(out, "{cell}")?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn marks(&self, out: &mut dyn Write) -> io::Result<()> {
        let any = |is: fn(&Copy) -> bool| self.copies.copies.iter().any(is);
        let mut marks = vec!["1 GB/s is 8 Gb/s"];
        if any(|copy| copy.direct == Some(false)) {
            marks.push("s: through memory of the host");
        }
        if any(|copy| copy.steady == Some(false)) {
            marks.push("~: the trials differ too much to count");
        }
        writeln!(out, "\n{}", marks.join(" · "))
    }

    fn troubles(&self, out: &mut dyn Write) -> io::Result<()> {
        for copy in &self.copies.copies {
            let begun = !copy.outcome.starts_with("not ");
            let Some(why) = copy.why.as_deref().filter(|_| begun) else {
                continue;
            };
            let and = if copy.both { " and back" } else { "" };
            let (word, from, to) = (word(copy).red(), &copy.from, &copy.to);
            writeln!(out, "{word} {from} to {to}{and}: {why}")?;
        }
        Ok(())
    }
}

fn name(gpu: &Gpu) -> String {
    gpu.index
        .map_or_else(|| "GPU".to_owned(), |index| format!("GPU{index}"))
}

fn word(copy: &Copy) -> String {
    copy.outcome.to_uppercase()
}

/// A cell of the column's width: a number with its mark, or the word for what became of it.
fn cell(copy: Option<&Copy>, number: impl Fn(&Copy) -> Option<String>) -> Painted {
    let Some(copy) = copy else {
        return format!("{:>COLUMN$}", "?").magenta();
    };
    match number(copy) {
        Some(number) => {
            let mark = match (copy.steady, copy.direct) {
                (Some(false), _) => "~",
                (_, Some(false)) => "s",
                _ => "",
            };
            let text = format!("{:>COLUMN$}", format!("{number}{mark}"));
            if mark.is_empty() {
                text.normal()
            } else {
                text.yellow()
            }
        }
        None if copy.outcome.starts_with("not ") => format!("{:>COLUMN$}", "?").magenta(),
        None if copy.outcome == "verified" => format!("{:>COLUMN$}", "-").normal(),
        None => format!("{:>COLUMN$}", word(copy)).red(),
    }
}

fn bandwidth(copy: Option<&Copy>) -> Painted {
    cell(copy, |copy| {
        Some(format!("{:.1}", copy.bandwidth? as f64 / 8e9))
    })
}

fn latency(copy: Option<&Copy>) -> Painted {
    cell(copy, |copy| Some(format!("{:.1}", copy.latency? * 1e6)))
}
