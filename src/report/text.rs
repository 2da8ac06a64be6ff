//! The report as text: the answer first, then each cause with its evidence and remedy, then what stays open.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::terminal::{Paint, Painted};

use super::areas::fitting;
use super::clause::{HEADLINE, cut};
use super::remedy::{self, RemedyLine, pasted};
use super::{
    Consequence, EvidenceLine, Finding, NodeHead, OpenQuestion, Report, many, plural, some,
};
use crate::exit::Exit;
use crate::sentence::Sentence;

/// What a report for people shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The headline alone.
    pub quiet: bool,
    /// Why each cause matters, all its evidence, and what passed.
    pub verbose: bool,
    /// All causes and notes in full.
    pub all: bool,
    /// What could not be judged, by what would supply it.
    pub open: bool,
    /// The terminal's lines: a longer report ends in its headline.
    pub height: Option<usize>,
}

/// So many causes are shown in full, and then so many in a line each.
const IN_FULL: usize = 3;
const IN_A_LINE: usize = 24;
/// So many notes, further subjects and consequences of a cause.
const NOTES: usize = 3;
const FURTHER: usize = 3;
/// So many facts that decide.
const EVIDENCE: usize = 3;
/// So many commands of one step.
const COMMANDS: usize = 8;

/// Writes the report for people, in lines of at most `width` columns where text can be broken.
pub fn write(out: &mut dyn Write, report: &Report, detail: Detail, width: usize) -> io::Result<()> {
    if detail.quiet {
        return headline(out, report);
    }
    let mut page = Vec::new();
    headline(&mut page, report)?;
    body(&mut page, report, detail, width, None)?;
    out.write_all(&page)?;
    // What stays on the screen is the end.
    let lines = page.iter().filter(|byte| **byte == b'\n').count();
    match detail.height.is_some_and(|height| lines > height) {
        true => headline(out, report),
        false => Ok(()),
    }
}

/// Writes the status and the answer: as many clauses as a headline holds lead, further ones stand below it.
pub fn headline(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let (lead, rest) = lead(&report.headline, HEADLINE);
    writeln!(out, "{} {}", label(report), lead.bold())?;
    match rest {
        "" => Ok(()),
        rest => Page::with_width(120).wrap(out, "  ", 2, rest),
    }
}

/// As many clauses of an answer as these columns hold, or parts of its first clause, and the others.
fn lead(answer: &str, columns: usize) -> (&str, &str) {
    if visible(answer) <= columns {
        return (answer, "");
    }
    let ends = answer.match_indices(". ").chain(answer.match_indices("; "));
    let ends: Vec<usize> = ends.map(|(at, _)| at).collect();
    let fits = |at: &usize| visible(&answer[..*at]) <= columns;
    let is_outside = |at: &usize| {
        let before = &answer[..*at];
        before.matches('(').count() == before.matches(')').count()
    };
    let parts = answer.match_indices(", ").map(|(at, _)| at);
    let parts = parts.filter(is_outside);
    let end = (ends.iter().copied().filter(fits).max())
        .or_else(|| parts.filter(fits).max())
        .or_else(|| ends.iter().copied().min());
    match end {
        Some(at) => (&answer[..at], &answer[at + 2..]),
        None => (answer, ""),
    }
}

/// Writes a line of lesser weight.
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
    Page::with_width(usize::MAX).evidence(out, line)
}

/// Writes the lines below the answer. The origins in `told` stand above already, and are not written again.
pub fn body(
    out: &mut dyn Write,
    report: &Report,
    detail: Detail,
    width: usize,
    told: Option<Vec<String>>,
) -> io::Result<()> {
    let page = Page {
        detail,
        told: RefCell::new(told.into_iter().flatten().collect()),
        ..Page::with_width(width)
    };
    match report.nodes.as_slice() {
        [one] => page.node(out, one)?,
        several => page.nodes(out, several)?,
    }
    page.areas(out, report)?;
    let everything = detail.all || detail.verbose;
    let full = if everything { usize::MAX } else { IN_FULL };
    for cause in report.causes.iter().take(full) {
        page.finding(out, cause)?;
    }
    page.in_a_line(out, report.causes.iter().skip(full), IN_A_LINE, "cause")?;
    match detail.verbose {
        true => report
            .notes
            .iter()
            .try_for_each(|note| page.finding(out, note))?,
        false if detail.all => page.in_a_line(out, report.notes.iter(), usize::MAX, "note")?,
        false => page.in_a_line(out, report.notes.iter(), NOTES, "note")?,
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
    page.open(out, report)?;
    if detail.verbose {
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
    detail: Detail,
    /// Origins of evidence that were written: each is written once.
    told: RefCell<BTreeSet<String>>,
}

impl Page {
    fn with_width(width: usize) -> Self {
        Page {
            width: match width {
                usize::MAX => width,
                width => width.clamp(60, 120),
            },
            detail: Detail::default(),
            told: RefCell::default(),
        }
    }

    fn node(&self, out: &mut dyn Write, node: &NodeHead) -> io::Result<()> {
        let mut parts = vec![node.name.clone()];
        parts.extend(node.os.clone());
        parts.extend(node.kernel.clone().map(|k| format!("Linux {k}")));
        parts.extend(node.devices.map(|n| plural(n, "RDMA device")));
        parts.extend(node.launch.clone());
        aside(out, &cut(&one_line(&parts.join(" · ")), self.width))?;
        if let Some(altered) = &node.altered {
            self.line(out, "", 0, &format!("Altered by hand: {altered}"))?;
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
        if nodes.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let mut parts = vec![format!("{} nodes: {}", nodes.len(), many::list(&names))];
        let sum = |of: fn(&NodeHead) -> Option<u64>| nodes.iter().map(of).sum::<Option<u64>>();
        let devices = sum(|n| n.devices).map(|n| plural(n, "RDMA device"));
        let gpus = sum(|n| n.gpus).filter(|n| *n > 0).map(|n| plural(n, "GPU"));
        parts.extend(devices.into_iter().chain(gpus));
        aside(out, &cut(&one_line(&parts.join(" · ")), self.width))?;
        if let Some(text) = nodes.iter().find_map(|n| n.altered.as_deref()) {
            let altered = nodes.iter().filter(|n| n.altered.is_some()).count();
            let count = format!("{altered} of {} altered by hand", nodes.len());
            self.line(out, "", 0, &format!("{count}; the first: {text}"))?;
        }
        Ok(())
    }

    /// A line for each area that is there, one for all that are not, and how to accept what was examined.
    fn areas(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let Some(width) = report.areas.iter().map(|area| area.area.len()).max() else {
            return Ok(());
        };
        let mut absent: Vec<&str> = Vec::new();
        let mut examined: Vec<String> = Vec::new();
        let mut unrecorded: [Vec<&str>; 2] = Default::default();
        for area in &report.areas {
            if area.unrecorded && !self.everything() {
                unrecorded[usize::from(!area.required)].push(&area.area);
                continue;
            }
            if area.state == "examined" && area.is_whole() && !self.everything() {
                let seen = area.sentence();
                // The number of checks is for those who look closer.
                let seen = match seen.rsplit_once(' ') {
                    Some((seen, "check" | "checks")) => {
                        seen.rsplit_once(", ").map_or("", |(seen, _)| seen)
                    }
                    _ => &seen,
                };
                examined.push(match seen.is_empty() {
                    true => area.area.clone(),
                    false => format!("{} ({seen})", area.area),
                });
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
            self.line(out, &label, 13 + width, &text)?;
        }
        let [required, optional] = unrecorded.map(|names| names.join(", "));
        let unrecorded = match (required.is_empty(), optional.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("{required}: not recorded")),
            (true, false) => Some(format!("{optional}: not recorded (not required)")),
            (false, false) => Some(format!(
                "{required}: not recorded; not required: {optional}"
            )),
        };
        if let Some(unrecorded) = unrecorded {
            let label = format!("{:<11}", "not seen").magenta().to_string();
            self.wrap(out, &label, 11, &unrecorded)?;
        }
        if !examined.is_empty() {
            let label = format!("{:<11}", "examined").green().to_string();
            self.wrap(out, &label, 11, &examined.join(", "))?;
        }
        if !absent.is_empty() {
            let label = format!("{:<11}", "none here");
            self.wrap(out, &label, 11, &absent.join(", "))?;
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
        self.some(out, "", finding.further.iter().cloned())?;
        let decides = |line: &&EvidenceLine| self.detail.verbose || line.decides;
        let mut lines: Vec<&EvidenceLine> = finding.evidence.iter().filter(decides).collect();
        if !self.detail.verbose {
            // A number or a name says more than a yes.
            let says = |line: &EvidenceLine| !matches!(line.value.as_str(), "yes" | "no");
            match lines.iter().any(|line| says(line)) {
                true => lines.retain(|line| says(line)),
                false => lines.truncate(1),
            }
            lines.truncate(EVIDENCE);
        }
        for line in lines {
            self.evidence(out, line)?;
        }
        if self.detail.verbose {
            self.wrap(out, "  why    ", 9, &finding.why)?;
        }
        let mut commands = 0;
        for (i, line) in remedy::lines(&finding.fix).iter().enumerate() {
            let label = if i == 0 { "  fix    " } else { "         " };
            let (command, after) = match line {
                RemedyLine::Command(command, after) => (command, after),
                RemedyLine::Words(words) => {
                    commands = 0;
                    self.wrap(out, label, 12, &words.to_string())?;
                    continue;
                }
            };
            commands += 1;
            // A command is pasted: it is neither broken nor between backquotes.
            match self.everything() || commands <= COMMANDS {
                true => writeln!(out, "            {}", pasted(command, after))?,
                false if commands == COMMANDS + 1 => writeln!(out, "            … (--all)")?,
                false => {}
            }
        }
        // What begins as the cause itself says nothing new.
        let begin = |text: &str| text.split("; ").next().map(str::to_owned);
        let own = [&finding.sentence].into_iter().chain(&finding.further);
        let own: Vec<Option<String>> = own.map(|text| begin(text)).collect();
        let is_new = |c: &&Consequence| self.everything() || !own.contains(&begin(&c.sentence));
        let hence = finding.consequences.iter().filter(is_new);
        let hence: Vec<String> = hence
            .map(|c| format!("{} [{}]", c.sentence, c.check))
            .collect();
        self.some(out, "hence", hence.into_iter())
    }

    fn everything(&self) -> bool {
        self.detail.all || self.detail.verbose
    }

    /// The first few sentences in a line each, and how many more there are.
    fn some(
        &self,
        out: &mut dyn Write,
        label: &str,
        all: impl ExactSizeIterator<Item = String>,
    ) -> io::Result<()> {
        let count = all.len();
        for (i, text) in all.enumerate() {
            let label = format!("  {:<7}", if i == 0 { label } else { "" });
            match self.everything() {
                true => self.wrap(out, &label, 11, &text)?,
                false if i < FURTHER || count == FURTHER + 1 => self.line(out, &label, 9, &text)?,
                false => return writeln!(out, "         … and {} more (--all)", count - FURTHER),
            }
        }
        Ok(())
    }

    /// Findings in a line each, at most so many, and how many more there are.
    fn in_a_line<'f>(
        &self,
        out: &mut dyn Write,
        all: impl ExactSizeIterator<Item = &'f Finding>,
        most: usize,
        what: &str,
    ) -> io::Result<()> {
        let count = all.len();
        for (i, one) in all.enumerate() {
            if i == 0 {
                writeln!(out)?;
            }
            if i >= most && count > most + 1 {
                let more = plural((count - most) as u64, &format!("more {what}"));
                return writeln!(out, "         … and {more} (--all)");
            }
            let others = match one.subjects.len().max(one.further.len() + 1) - 1 {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            let end = format!("{others} [{}]", one.check);
            let label = severity(one.severity).to_string();
            self.wrap(out, &label, 9, &self.tagged(&one.sentence, &end))?;
        }
        Ok(())
    }

    /// As much of a sentence as stands in a line before this end, or all of it.
    fn tagged(&self, said: &str, end: &str) -> String {
        if self.everything() {
            return format!("{said}{end}");
        }
        let room = self.width.saturating_sub(9 + end.chars().count());
        format!("{}{end}", cut(&one_line(said), room.max(24)))
    }

    fn evidence(&self, out: &mut dyn Write, line: &EvidenceLine) -> io::Result<()> {
        let fact = format!("{} = {}", line.fact, line.value);
        let is_told = || !self.told.borrow_mut().insert(line.origin.clone());
        let origin = match line.origin.as_str() {
            "" | "stated" => "",
            origin if origin == line.value || is_told() => "",
            origin => origin,
        };
        let text = format!("{fact:<38} {origin}");
        match self.detail.verbose {
            true => writeln!(out, "         {}", one_line(text.trim_end())),
            false => self.line(out, "         ", 9, text.trim_end()),
        }
    }

    /// How many checks could not run, and what would let them; with --open each of them.
    fn open(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let mut supplied: BTreeMap<(bool, String), Vec<&OpenQuestion>> = BTreeMap::new();
        for question in &report.open {
            let key = match (&question.remedy, question.missing.first()) {
                (Some(remedy), _) => (false, remedy.clone()),
                (None, Some(missing)) => (true, missing.value.clone()),
                (None, None) => (true, "unknown".into()),
            };
            let of = supplied.entry(key).or_default();
            // A check that waits for several facts of one kind is listed once.
            if self.detail.verbose || of.last().is_none_or(|last| last.check != question.check) {
                of.push(question);
            }
        }
        if supplied.is_empty() {
            return Ok(());
        }
        let checks: BTreeSet<&str> = report.open.iter().map(|q| q.check.as_str()).collect();
        let checks = plural(checks.len() as u64, "check");
        let label = format!("{}", "open     ".magenta());
        writeln!(out)?;
        if !self.detail.open && !self.detail.verbose {
            let named = supplied.iter().filter(|((unnamed, _), _)| !unnamed);
            let mut named: Vec<_> = named.map(|((_, by), of)| (of.len(), by)).collect();
            // Root is what one can have at once.
            named.sort_by_key(|(_, by)| !by.starts_with("run as root"));
            let how: String = named
                .iter()
                .map(|(of, by)| format!("; {by}: {of}"))
                .collect();
            return self.line(
                out,
                &label,
                9,
                &format!("{checks} could not run (--open){how}"),
            );
        }
        self.wrap(out, &label, 9, &format!("{checks} could not run"))?;
        for ((unnamed, by), of) in supplied {
            let by = if unnamed {
                format!("because: {by}")
            } else {
                by
            };
            self.wrap(out, "", 2, &format!("{by} ({})", of.len()))?;
            for question in of {
                let id = format!(" [{}]", question.check);
                if !self.detail.verbose {
                    self.wrap(out, "         ", 9, &self.tagged(&question.title, &id))?;
                    continue;
                }
                let text = format!("{}{id}", question.title);
                let missing = question.missing.iter();
                let missing: Vec<String> = missing
                    .map(|m| format!("{} ({})", m.fact, m.value))
                    .collect();
                let (on, missing) = (some(&question.subjects), missing.join(", "));
                self.wrap(out, "         ", 11, &format!("{text} on {on}: {missing}"))?;
            }
        }
        Ok(())
    }

    fn summary(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let c = &report.counts;
        // Findings as they are listed above: what several subjects share counts once, and what follows from another is beneath it.
        let of = |severity: &str| {
            let listed = report.causes.iter().filter(|c| c.severity == severity);
            listed.count() as u64
        };
        let waived = match c.waived {
            0 => String::new(),
            n => format!("{n} waived, "),
        };
        if report.open.is_empty() {
            writeln!(out)?;
        }
        if let Some(first) = report.causes.first().or(report.notes.first()) {
            writeln!(out, "explain  rdma-doctor explain {}", first.check)?;
        }
        let line = format!(
            "{}, {}, {} · {} · verdicts: {} passed, {} failed, {waived}{} open · {:.2} s",
            plural(of("error"), "error"),
            plural(of("warning"), "warning"),
            plural(report.notes.len() as u64, "note"),
            plural(c.checks as u64, "check"),
            c.passes,
            c.errors + c.warnings + c.notes,
            c.unknown,
            report.seconds
        );
        self.wrap(out, "", 0, &line.dimmed().to_string())
    }

    /// Writes `label` and then as much of `text` as one line holds.
    fn line(&self, out: &mut dyn Write, label: &str, indent: usize, text: &str) -> io::Result<()> {
        match self.everything() {
            true => self.wrap(out, label, indent, text),
            false => writeln!(
                out,
                "{label}{}",
                cut(&one_line(text), self.width.saturating_sub(indent))
            ),
        }
    }

    /// Writes `label` and then `text`, broken at spaces outside of commands in backticks, further lines indented.
    fn wrap(&self, out: &mut dyn Write, label: &str, indent: usize, text: &str) -> io::Result<()> {
        write!(out, "{label}")?;
        let mut column = visible(label);
        let mut fresh = true;
        for word in unbroken(text) {
            let length = visible(&word);
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

/// A text without its line breaks: what a recording says must not look like a line of the report.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// The words of a text; a command in backticks is one.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let paired = text.matches('`').count().is_multiple_of(2);
    let mut inside = false;
    for word in text.split_whitespace() {
        match words.last_mut().filter(|_| inside) {
            Some(command) => {
                command.push(' ');
                command.push_str(word);
            }
            None => words.push(word.to_owned()),
        }
        inside ^= paired && word.matches('`').count() % 2 == 1;
    }
    words
}

/// Writes a remedy, or another text with commands on lines of their own, behind its name.
pub fn steps(out: &mut dyn Write, name: &str, text: &Sentence, width: usize) -> io::Result<()> {
    for (i, line) in remedy::lines(text).iter().enumerate() {
        let label = format!("{:<8} ", if i == 0 { name } else { "" });
        match line {
            RemedyLine::Command(command, after) => {
                writeln!(out, "            {}", pasted(command, after))?;
            }
            RemedyLine::Words(words) => paragraph(out, &label, 9, &words.to_string(), width)?,
        }
    }
    Ok(())
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
