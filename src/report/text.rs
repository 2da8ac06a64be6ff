//! The report as text: the answer first, then each cause with its evidence and remedy, then what stays open.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::terminal::{Paint, Painted};

use super::areas::fitting;
use super::many;
use super::{EvidenceLine, Finding, NodeHead, OpenQuestion, Report, plural, some};
use crate::exit::Exit;
use crate::fact::Why;

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The headline alone.
    Quiet,
    /// Causes with evidence and remedies; notes and open questions in short.
    Normal,
    /// Everything: passes and each open question too.
    Verbose,
}

/// So many areas of which nothing could be read have a line each; more share one.
const UNRECORDED: usize = 3;

/// Writes the report for people, in lines of at most `width` columns where text can be broken.
pub fn write(out: &mut dyn Write, report: &Report, detail: Detail, width: usize) -> io::Result<()> {
    headline(out, report)?;
    if detail == Detail::Quiet {
        return Ok(());
    }
    body(out, report, detail, width, None)
}

/// Writes the status and the answer.
pub fn headline(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{} {}", label(report), report.headline.bold())
}

/// Writes which areas were examined.
pub fn aside(out: &mut dyn Write, line: &str) -> io::Result<()> {
    writeln!(out, "{}", line.dimmed())
}

/// Writes text behind a label, broken at `width`.
pub fn paragraph(
    out: &mut dyn Write,
    label: &str,
    indent: usize,
    text: &str,
    width: usize,
) -> io::Result<()> {
    Page::with_width(width).wrap(out, label, indent, text)
}

/// Writes a fact with its origin.
pub fn evidence(out: &mut dyn Write, line: &EvidenceLine) -> io::Result<()> {
    Page::with_width(0).evidence(out, line)
}

/// Writes the lines below the answer. If `told` is given, a line of evidence is written once on the page, and not if it is among these.
pub fn body(
    out: &mut dyn Write,
    report: &Report,
    detail: Detail,
    width: usize,
    told: Option<Vec<String>>,
) -> io::Result<()> {
    let page = Page {
        told: told.map(|told| RefCell::new(told.into_iter().collect())),
        ..Page::with_width(width)
    };
    match report.nodes.as_slice() {
        [one] => page.node(out, one)?,
        several => page.nodes(out, several)?,
    }
    page.areas(out, report)?;
    if report.unauthenticated {
        let text = "Unauthenticated: the nodes had no key (RDMA_DOCTOR_KEY, --key-file), and each is believed by its address.";
        page.wrap(out, "", 0, text)?;
    }
    for cause in &report.causes {
        page.finding(out, cause)?;
    }
    for note in &report.notes {
        if detail == Detail::Verbose {
            page.finding(out, note)?;
        }
    }
    if detail != Detail::Verbose && !report.notes.is_empty() {
        writeln!(out)?;
        for note in &report.notes {
            let more = match (note.nodes.is_empty(), note.subjects.get(1..)) {
                (true, Some(others)) if !others.is_empty() => format!(" (and {})", some(others)),
                (false, _) if !note.further.is_empty() => {
                    format!(" (and {} more like it)", note.further.len())
                }
                _ => String::new(),
            };
            page.wrap(
                out,
                &format!("{:<9}", "note"),
                9,
                &format!("{}{more} [{}]", note.sentence, note.check),
            )?;
        }
    }
    for one in &report.waived {
        let more = match one.subjects.get(1..) {
            Some(others) if !others.is_empty() => format!(" (and {})", some(others)),
            _ => String::new(),
        };
        writeln!(out)?;
        let head = format!("{}{more} [{}]", one.sentence, one.check);
        page.wrap(out, &format!("{:<9}", "waived"), 9, &head)?;
        page.wrap(out, &format!("{:<9}", ""), 9, &one.terms())?;
    }
    if let Some(baseline) = &report.baseline {
        baseline.write(out, width)?;
    }
    for failure in &report.probe_failures {
        page.wrap(out, &format!("{}  ", "unknown".magenta()), 9, failure)?;
    }
    page.open(out, report, detail)?;
    if detail == Detail::Verbose {
        writeln!(out)?;
        for pass in &report.passes {
            writeln!(out, "passes   {}  {}", pass.check, pass.subject)?;
            for line in &pass.evidence {
                page.evidence(out, line)?;
            }
        }
    }
    page.summary(out, report)
}

fn label(report: &Report) -> Painted {
    match report.exit() {
        Exit::Errors => "ERROR".red().bold(),
        Exit::Warnings => "WARNING".yellow().bold(),
        Exit::Healthy => "OK".green().bold(),
        _ => "UNKNOWN".magenta().bold(),
    }
}

fn severity(word: &str) -> Painted {
    let padded = format!("{word:<9}");
    match word {
        "error" => padded.red().bold(),
        "warning" => padded.yellow().bold(),
        _ => padded.normal(),
    }
}

struct Page {
    width: usize,
    /// Lines of evidence that were written, where each is written once.
    told: Option<RefCell<BTreeSet<String>>>,
}

impl Page {
    fn with_width(width: usize) -> Self {
        Page {
            width: width.clamp(60, 120),
            told: None,
        }
    }

    fn node(&self, out: &mut dyn Write, node: &NodeHead) -> io::Result<()> {
        let mut parts = vec![node.name.clone()];
        parts.extend(node.os.clone());
        parts.extend(node.kernel.clone().map(|k| format!("Linux {k}")));
        parts.extend(node.devices.map(|n| plural(n, "RDMA device")));
        parts.extend(node.launch.clone());
        writeln!(out, "{}", parts.join(" · ").dimmed())?;
        if let Some(altered) = &node.altered {
            self.wrap(
                out,
                "",
                0,
                &format!("This recording was altered by hand: {altered}"),
            )?;
        }
        if node.truncated {
            writeln!(
                out,
                "{}",
                "The recording was cut short: what is missing in it is unknown.".magenta()
            )?;
        }
        Ok(())
    }

    fn nodes(&self, out: &mut dyn Write, nodes: &[NodeHead]) -> io::Result<()> {
        let Some(first) = nodes.first() else {
            return Ok(());
        };
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let mut parts = vec![format!("{} nodes: {}", nodes.len(), many::list(&names))];
        let sum = |of: fn(&NodeHead) -> Option<u64>| nodes.iter().map(of).sum::<Option<u64>>();
        let devices = sum(|n| n.devices).map(|n| plural(n, "RDMA device"));
        let gpus = sum(|n| n.gpus).filter(|n| *n > 0).map(|n| plural(n, "GPU"));
        parts.extend(devices.into_iter().chain(gpus));
        writeln!(out, "{}", parts.join(" · ").dimmed())?;
        let altered = nodes.iter().filter(|n| n.altered.is_some()).count();
        if let Some(text) = nodes.iter().find_map(|n| n.altered.as_deref()) {
            let whose = match altered {
                n if n == nodes.len() => "All recordings were altered by hand".to_owned(),
                1 => "One recording was altered by hand".to_owned(),
                n => format!("{n} recordings were altered by hand"),
            };
            let text = match first.altered.as_deref() == Some(text) && altered == 1 {
                true => format!("{whose}: {text}"),
                false => format!("{whose}; the first: {text}"),
            };
            self.wrap(out, "", 0, &text)?;
        }
        Ok(())
    }

    /// A line for each area that is there, one for all that are not, and how to accept what was examined.
    fn areas(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let Some(width) = report.areas.iter().map(|area| area.area.len()).max() else {
            return Ok(());
        };
        writeln!(out)?;
        let mut absent: Vec<&str> = Vec::new();
        let mut remedies: Vec<&str> = Vec::new();
        let unrecorded = report.areas.iter().filter(|area| area.unrecorded);
        let unrecorded: Vec<&str> = unrecorded.map(|area| area.area.as_str()).collect();
        let is_folded = unrecorded.len() > UNRECORDED;
        for area in &report.areas {
            if is_folded && area.unrecorded {
                continue;
            }
            let label = match area.state {
                "examined" => format!("{:<11}", area.state).green(),
                "partly" => format!("{:<11}", area.state).magenta(),
                "not-examined" => format!("{:<11}", "not seen").magenta(),
                _ if area.is_wanting() => format!("{:<11}", "absent").magenta(),
                _ => {
                    absent.push(&area.area);
                    continue;
                }
            };
            let label = format!("{label}{:<width$}  ", area.area);
            let optional = match (area.state, area.required) {
                ("partly" | "not-examined", false) => " (not required)",
                _ => "",
            };
            let text = format!("{}{optional}", area.sentence());
            self.wrap(out, &label, 13 + width, &text)?;
            match area.remedy.as_deref() {
                Some(remedy) if !remedies.contains(&remedy) => remedies.push(remedy),
                _ => {}
            }
        }
        if is_folded {
            let label = format!("{:<11}", "not seen").magenta().to_string();
            let text = format!("{}: nothing of them could be read", unrecorded.join(", "));
            self.wrap(out, &label, 11, &text)?;
        }
        if !absent.is_empty() {
            let label = format!("{:<11}", "none here");
            self.wrap(out, &label, 11, &absent.join(", "))?;
        }
        // A remedy for several gaps is printed once.
        if !remedies.is_empty() {
            let text = format!("To see what was not examined: {}", remedies.join("; "));
            self.wrap(out, "", 11, &text)?;
        }
        match fitting(&report.areas) {
            // Damage cannot be accepted.
            Some(fits) if report.exit() == Exit::Undecided && report.damage.is_empty() => self
                .wrap(
                    out,
                    "",
                    11,
                    &format!("To accept what was examined: --require {fits}"),
                ),
            _ => Ok(()),
        }
    }

    fn finding(&self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        writeln!(out)?;
        let head = format!("{} [{}]", finding.sentence, finding.check);
        self.wrap(out, &severity(finding.severity).to_string(), 9, &head)?;
        const SHOWN: usize = 7;
        for sentence in finding.further.iter().take(SHOWN) {
            self.wrap(out, "         ", 9, sentence)?;
        }
        if finding.further.len() > SHOWN {
            writeln!(
                out,
                "         … and {} more (--format json lists them)",
                finding.further.len() - SHOWN
            )?;
        }
        for line in &finding.evidence {
            let told = self.told.as_ref();
            match told.is_some_and(|told| !told.borrow_mut().insert(line.origin.clone())) {
                true => writeln!(out, "         {} = {}", line.fact, line.value)?,
                false => self.evidence(out, line)?,
            }
        }
        self.wrap(out, "  why    ", 9, &finding.why)?;
        for (i, step) in finding.fix.lines().enumerate() {
            let label = if i == 0 { "  fix    " } else { "         " };
            match step.strip_prefix("   ") {
                // A command is pasted: it is neither broken nor quoted.
                Some(command) => writeln!(out, "            {}", unquoted(command))?,
                None => self.wrap(out, label, 12, step)?,
            }
        }
        for (i, c) in finding.consequences.iter().enumerate() {
            let label = if i == 0 { "  hence  " } else { "         " };
            if i == 8 && finding.consequences.len() > 9 {
                writeln!(out, "{label}… and {} more", finding.consequences.len() - 8)?;
                break;
            }
            self.wrap(out, label, 11, &format!("{} [{}]", c.sentence, c.check))?;
        }
        Ok(())
    }

    fn evidence(&self, out: &mut dyn Write, line: &EvidenceLine) -> io::Result<()> {
        let fact = format!("{} = {}", line.fact, line.value);
        if line.origin.is_empty() || line.origin == "stated" || line.origin == line.value {
            return writeln!(out, "         {fact}");
        }
        writeln!(out, "         {fact:<38} {}", line.origin.dimmed())
    }

    fn open(&self, out: &mut dyn Write, report: &Report, detail: Detail) -> io::Result<()> {
        let noted: Vec<&OpenQuestion> = report.open.iter().collect();
        if detail == Detail::Verbose {
            writeln!(out)?;
            return self.noted(out, &noted);
        }
        if noted.is_empty() {
            return Ok(());
        }
        let root = noted
            .iter()
            .filter(|q| q.remedy.as_deref() == Some("run as root"))
            .count();
        let sample = noted
            .iter()
            .filter(|q| q.remedy.as_deref().is_some_and(|r| r.contains("--sample")))
            .count();
        let mut how = Vec::new();
        if root > 0 {
            how.push(format!("root would settle {root}"));
        }
        if sample > 0 {
            how.push(format!("--sample SECONDS would settle {sample}"));
        }
        let mut settings: Vec<(&str, usize)> = Vec::new();
        for remedy in noted.iter().filter_map(|q| q.remedy.as_deref()) {
            if !remedy.contains("NCCL_DEBUG") {
                continue;
            }
            match settings.iter_mut().find(|(known, _)| *known == remedy) {
                Some((_, count)) => *count += 1,
                None => settings.push((remedy, 1)),
            }
        }
        for (setting, count) in settings {
            how.push(format!("to {setting} would settle {count}"));
        }
        how.push("-v lists them".into());
        writeln!(out)?;
        writeln!(
            out,
            "{}{} could not run: {}",
            "open     ".magenta(),
            plural(noted.len() as u64, "check"),
            how.join(", ")
        )
    }

    /// Each open question. A reason shared by many is printed once.
    fn noted(&self, out: &mut dyn Write, noted: &[&OpenQuestion]) -> io::Result<()> {
        const MANY: usize = 3;
        let unknown = format!("{}", "unknown  ".magenta());
        let reason = |q: &OpenQuestion| match q.missing.as_slice() {
            [first, more @ ..] => {
                // What follows from the first is not established either.
                let same = |m: &EvidenceLine| {
                    m.value == first.value || m.value == Why::NotEstablished.to_string()
                };
                more.iter().all(same).then(|| first.value.clone())
            }
            [] => None,
        };
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for reason in noted.iter().filter_map(|q| reason(q)) {
            *count.entry(reason).or_default() += 1;
        }
        for q in noted {
            let of = reason(q).and_then(|reason| count.get_key_value(&reason));
            let text = match of {
                // Said where the first of them stands.
                Some((_, 0)) => continue,
                Some((why, many)) if *many >= MANY => {
                    let why = why.clone();
                    let same = noted.iter().filter(|q| reason(q).as_ref() == Some(&why));
                    let mut ids: Vec<&str> = same.map(|q| q.check.as_str()).collect();
                    ids.dedup();
                    let text = format!("{why} — keeps open {}: {}", ids.len(), ids.join(", "));
                    count.insert(why, 0);
                    text
                }
                _ => {
                    let missing = q.missing.iter();
                    let missing = missing.map(|m| format!("{} ({})", m.fact, m.value));
                    format!(
                        "{} [{}] on {}: {}",
                        q.title,
                        q.check,
                        some(&q.subjects),
                        missing.collect::<Vec<_>>().join(", ")
                    )
                }
            };
            self.wrap(out, &unknown, 9, &text)?;
        }
        Ok(())
    }

    fn summary(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let c = &report.counts;
        writeln!(out)?;
        // Findings as they are listed above: what several subjects share counts once, and what follows from another is beneath it.
        let of = |severity: &str| {
            let listed = report.causes.iter().filter(|c| c.severity == severity);
            listed.count() as u64
        };
        let waived = match c.waived {
            0 => String::new(),
            n => format!("{n} waived, "),
        };
        let line = format!(
            "{}, {}, {} · {} of {}: {} pass, {} fail, {waived}{} unknown, {} do not apply · {:.2} s",
            plural(of("error"), "error"),
            plural(of("warning"), "warning"),
            plural(report.notes.len() as u64, "note"),
            plural(c.verdicts as u64, "verdict"),
            plural(c.checks as u64, "check"),
            c.passes,
            c.errors + c.warnings + c.notes,
            c.unknown,
            c.does_not_apply,
            report.seconds
        );
        writeln!(out, "{}", line.dimmed())
    }

    /// Writes `label` and then `text`, broken at spaces, further lines indented.
    fn wrap(&self, out: &mut dyn Write, label: &str, indent: usize, text: &str) -> io::Result<()> {
        write!(out, "{label}")?;
        let mut column = visible(label);
        let mut fresh = true;
        for word in text.split_whitespace() {
            let length = visible(word);
            if !fresh && column + 1 + length > self.width {
                writeln!(out)?;
                write!(out, "{:indent$}", "")?;
                column = indent;
                fresh = true;
            }
            if !fresh {
                write!(out, " ")?;
                column += 1;
            }
            write!(out, "{word}")?;
            column += length;
            fresh = false;
        }
        writeln!(out)
    }
}

/// A line of a remedy that is one command, without its backticks.
fn unquoted(line: &str) -> &str {
    let command = line
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    command
        .filter(|command| !command.contains('`'))
        .unwrap_or(line)
}

/// Columns that a text takes: escape sequences of colours take none.
fn visible(text: &str) -> usize {
    let mut columns = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (false, '\u{1b}') => escape = true,
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, _) => columns += 1,
        }
    }
    columns
}
