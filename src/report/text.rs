//! The report as text: the answer first, then each cause with its evidence and remedy, then what stays open.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::nodeset;
use crate::terminal::{Paint, Painted};

use super::areas::fitting;
use super::fit::{fit, split};
use super::headline::{HEADLINE, is_damage};
use super::log;
use super::remedy::{self, RemedyLine, pasted};
use super::{
    AreaLine, Consequence, EvidenceLine, Finding, NodeHead, OpenQuestion, Report, plural, some,
};
use crate::check::Severity;
use crate::exit::Exit;
use crate::sentence::{Name, Sentence, Span};

/// What a report for people shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The headline alone.
    pub quiet: bool,
    /// Why each cause matters, all its evidence, and what passed.
    pub verbose: bool,
    /// All causes and notes in full.
    pub all: bool,
    /// Notes on which nobody acts, too.
    pub notes: bool,
    /// What could not be judged, by what would supply it.
    pub open: bool,
    /// The terminal's lines: a longer report ends in its headline.
    pub height: Option<usize>,
}

/// The most columns of a page.
const WIDEST: usize = 120;
/// What the headline has no room for is read below it.
const BELOW_HEADLINE: usize = 100;
/// So many causes are shown in full, and then so many in a line each.
const IN_FULL: usize = 3;
const IN_A_LINE: usize = 24;
/// So many notes, further subjects and consequences of a cause.
const NOTES: usize = 3;
const FURTHER: usize = 3;
/// So many facts that decide.
const EVIDENCE: usize = 3;
/// The column in which the origin of a fact begins.
const ORIGIN: usize = 38;
/// What is said in short may take so many lines.
const LINES: usize = 3;
/// What of these the ends of lines may leave empty.
const LONGEST_WORD: usize = 30;
/// Areas of which the inventory above has the numbers.
const COUNTED: [&str; 6] = ["devices", "verbs", "ports", "roce", "gpus", "software"];

/// Whether what was seen of an area stands in the inventory of the one node.
fn is_in_inventory(area: &AreaLine, report: &Report) -> bool {
    let is_counted = area.nodes.is_none() && area.missing.is_empty();
    let [node] = report.nodes.as_slice() else {
        return false;
    };
    let is_shown = node.outputs.is_empty() && !node.inventory.is_empty();
    is_counted && is_shown && COUNTED.contains(&&*area.area)
}

/// How far an area was examined, in the words of the legend in the help of `check`, and the column behind them.
const EXAMINED: &str = "examined";
const IN_PART: &str = "in part";
const NOT_EXAMINED: &str = "not examined";
const NONE_HERE: &str = "none here";
const STATE: usize = 14;
/// So many commands of one step.
const COMMANDS: usize = 8;

/// Writes the report for people, in lines of at most `width` columns where text can be broken.
pub fn write(out: &mut dyn Write, report: &Report, detail: Detail, width: usize) -> io::Result<()> {
    if detail.quiet {
        return headline(out, report);
    }
    let mut page = Vec::new();
    headline(&mut page, report)?;
    let told = match &report.log {
        Some(log) => log::text::write(&mut page, log, width)?,
        None => Vec::new(),
    };
    body(&mut page, report, detail, width, told)?;
    out.write_all(&page)?;
    // What stays on the screen is the end.
    let lines = page.iter().filter(|byte| **byte == b'\n').count();
    if detail.height.is_some_and(|height| lines > height) {
        headline(out, report)
    } else {
        Ok(())
    }
}

/// Writes the status and the answer: as much as a headline holds leads, the rest stands below it.
pub fn headline(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let (lead, rest) = split(&report.headline, HEADLINE);
    let page = Page::with_width(WIDEST);
    let mut lines = page.broken(visible(&label(report).to_string()) + 1, 2, &lead);
    writeln!(out, "{} {}", label(report), lines.remove(0).bold())?;
    for line in lines {
        writeln!(out, "  {}", line.bold())?;
    }
    if let Some(rest) = rest {
        Page::with_width(BELOW_HEADLINE).wrap(out, "  ", 2, &rest)?;
    }
    // What was changed since all was well is where a person looks first.
    let since = report
        .baseline
        .as_ref()
        .and_then(|baseline| baseline.since.as_deref());
    match since.filter(|_| report.exit() != Exit::Healthy) {
        Some(since) => page.wrap(out, "  ", 2, &since.into()),
        None => Ok(()),
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
    text: impl Into<Sentence>,
    width: usize,
) -> io::Result<()> {
    Page::with_width(width).wrap(out, label, indent, &text.into())
}

/// Subjects of the doctor's own, of which the sentence says all.
const OWN_SUBJECTS: [&str; 5] = ["respondent.", "suspect.", "obstacle.", "factor.", "arm."];

/// Whether a fact says no more than the sentence above it: a word, which is the doctor's own name for
/// what the sentence says, or a figure that stands in the sentence.
fn is_said_above(line: &EvidenceLine, sentence: &str) -> bool {
    let value = line.value.as_str();
    let has_figure = value.contains(|letter: char| letter.is_ascii_digit());
    let is_own = OWN_SUBJECTS.iter().any(|name| line.fact.starts_with(name));
    is_own
        || !has_figure
        || sentence
            .split(' ')
            .any(|word| word.trim_matches(MARKS) == value)
        || { value.contains(' ') && sentence.contains(value) }
}

/// What stands around a figure in a sentence.
const MARKS: [char; 7] = ['(', ')', ',', ';', ':', '"', '.'];

/// A file, a command, a call, and a line of a text are places; how the doctor worked it out is none.
fn is_place(origin: &str) -> bool {
    is_source(origin) || origin.contains([':', '['])
}

/// A file, a command or a call.
fn is_source(origin: &str) -> bool {
    origin.starts_with(['/', '`']) || origin.contains(" /") || origin.ends_with(')')
}

/// Writes the line of a log that proves the answer; nothing where the answer follows from several.
pub fn proof(out: &mut dyn Write, line: &EvidenceLine, width: usize) -> io::Result<()> {
    if !is_place(&line.origin) {
        return Ok(());
    }
    paragraph(out, "         ", 11, line.origin.as_str(), width)
}

/// Writes the lines below the answer. The origins in `told` stand above already, and are not written again.
pub fn body(
    out: &mut dyn Write,
    report: &Report,
    detail: Detail,
    width: usize,
    told: Vec<String>,
) -> io::Result<()> {
    let page = Page {
        detail,
        told: RefCell::new(told.into_iter().collect()),
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
    let shows_all = everything || detail.notes;
    let notes = report.notes.iter();
    let notes: Vec<&Finding> = notes.filter(|note| shows_all || !note.background).collect();
    if detail.verbose {
        for note in notes {
            page.finding(out, note)?;
        }
    } else {
        let most = if shows_all { usize::MAX } else { NOTES };
        page.in_a_line(out, notes.into_iter(), most, "note")?;
    }
    for one in &report.waived {
        let more = match one.subjects.get(1..) {
            Some(others) if !others.is_empty() => format!(" (and {})", some(others)),
            _ => String::new(),
        };
        writeln!(out)?;
        let head = one.sentence.then(format!("{more} [{}]", one.check));
        page.wrap(out, &format!("{:<9}", "waived"), 9, &head)?;
        page.wrap(out, &format!("{:<9}", ""), 9, &one.terms().into())?;
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
                page.evidence(out, line, "")?;
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
        // What was found is certain, whatever else is open.
        Exit::Undecided if has_finding(report) => "WARNING".yellow().bold(),
        _ => "UNKNOWN".magenta().bold(),
    }
}

/// Whether something failed besides answers that did not come.
fn has_finding(report: &Report) -> bool {
    report.causes.iter().any(|cause| !is_damage(&cause.check))
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
                width => width.clamp(60, WIDEST),
            },
            detail: Detail::default(),
            told: RefCell::default(),
        }
    }

    fn node(&self, out: &mut dyn Write, node: &NodeHead) -> io::Result<()> {
        let mut parts = vec![node.name.clone()];
        parts.extend(node.os.clone());
        parts.extend(node.kernel.clone().map(|k| format!("Linux {k}")));
        parts.extend(node.launch.clone());
        aside(out, &self.head(parts))?;
        // What a paste holds is named output by output.
        if node.outputs.is_empty() && !node.inventory.is_empty() {
            self.line(out, "", 0, &Sentence::from(node.inventory.join(" · ")))?;
        }
        if !node.outputs.is_empty() {
            let outputs = Sentence::from(format!("Read {}", node.outputs.join("; ")));
            self.line(out, "", 0, &outputs)?;
        }
        if let Some(altered) = &node.altered {
            let altered = Sentence::from("Altered by hand").then_optionally(format!(": {altered}"));
            self.in_one_line(out, "", 0, &altered)?;
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

    /// Writes `label` and then as much of a sentence as the line holds.
    fn in_one_line(
        &self,
        out: &mut dyn Write,
        label: &str,
        indent: usize,
        sentence: &Sentence,
    ) -> io::Result<()> {
        if self.everything() {
            return self.wrap(out, label, indent, sentence);
        }
        let fitted = fit(sentence, self.width.saturating_sub(indent));
        self.wrap(out, label, indent, &fitted)
    }

    /// As much of what describes a machine as a line holds.
    fn head(&self, parts: Vec<String>) -> String {
        let parts = Sentence::joined(parts.into_iter().map(Sentence::from), " · ");
        one_line(&fit(&parts, self.width).to_string())
    }

    fn nodes(&self, out: &mut dyn Write, nodes: &[NodeHead]) -> io::Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let mut parts = vec![format!("{} nodes: {}", nodes.len(), nodeset::list(&names))];
        let sum = |of: fn(&NodeHead) -> Option<u64>| nodes.iter().map(of).sum::<Option<u64>>();
        let devices = sum(|n| n.devices).map(|n| plural(n, "RDMA device"));
        let gpus = sum(|n| n.gpus).filter(|n| *n > 0).map(|n| plural(n, "GPU"));
        parts.extend(devices.into_iter().chain(gpus));
        aside(out, &self.head(parts))?;
        if let Some(text) = nodes.iter().find_map(|n| n.altered.as_deref()) {
            let altered = nodes.iter().filter(|n| n.altered.is_some()).count();
            let count = format!("{altered} of {} altered by hand", nodes.len());
            let altered = Sentence::from(count).then_optionally(format!("; the first: {text}"));
            self.in_one_line(out, "", 0, &altered)?;
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
                // The number of checks is for those who look closer.
                let seen = area.without_checks();
                let is_said = seen.is_empty() || is_in_inventory(area, report);
                examined.push(if is_said {
                    area.area.clone()
                } else {
                    format!("{} ({seen})", area.area)
                });
                continue;
            }
            let label = match area.state {
                "examined" => format!("{EXAMINED:<STATE$}").green(),
                "partly" => format!("{IN_PART:<STATE$}").magenta(),
                "not-examined" => format!("{NOT_EXAMINED:<STATE$}").magenta(),
                _ if area.is_wanting() => format!("{NONE_HERE:<STATE$}").magenta(),
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
            let indent = STATE + width + 2;
            self.line(out, &label, indent, &area.sentence().then(optional))?;
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
            let label = format!("{NOT_EXAMINED:<STATE$}").magenta().to_string();
            self.wrap(out, &label, STATE, &unrecorded.into())?;
        }
        let absent = absent.join(", ");
        if !examined.is_empty() {
            let label = format!("{EXAMINED:<STATE$}").green().to_string();
            let mut all = examined.join(", ");
            if !absent.is_empty() {
                all.push_str(&format!("; {NONE_HERE}: {absent}"));
            }
            self.wrap(out, &label, STATE, &all.into())?;
        } else if !absent.is_empty() {
            self.wrap(out, &format!("{NONE_HERE:<STATE$}"), STATE, &absent.into())?;
        }
        match fitting(&report.areas) {
            // Damage cannot be accepted.
            Some(fits) if report.exit() == Exit::Undecided && report.damage.is_empty() => self
                .wrap(
                    out,
                    "",
                    STATE,
                    &format!("To accept what was examined: --require {fits}").into(),
                ),
            _ => Ok(()),
        }
    }

    fn finding(&self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        writeln!(out)?;
        let head = finding.sentence.then(format!(" [{}]", finding.check));
        self.wrap(out, &severity(finding.severity).to_string(), 9, &head)?;
        self.some(out, "", finding.further.iter().cloned())?;
        let decides = |line: &&EvidenceLine| self.detail.verbose || line.decides;
        let mut lines: Vec<&EvidenceLine> = finding.evidence.iter().filter(decides).collect();
        let said = finding.sentence.to_string();
        if !self.detail.verbose {
            // A number or a name says more than a yes.
            if lines.iter().all(|line| is_said_above(line, &said)) {
                lines.retain(|line| is_place(&line.origin));
                lines.truncate(1)
            } else {
                lines.retain(|line| !is_said_above(line, &said))
            }
            lines.truncate(EVIDENCE);
        }
        for line in lines {
            self.evidence(out, line, &said)?;
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
                    self.wrap(out, label, 12, words)?;
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
        // What has the predicate of the cause itself says nothing new.
        let is_new = |c: &&Consequence| {
            let mut own = [&finding.sentence].into_iter().chain(&finding.further);
            self.everything() || own.all(|own| own.predicate() != c.sentence.predicate())
        };
        let effects = finding.consequences.iter().filter(is_new);
        let effects: Vec<Sentence> = effects
            .map(|c| {
                let check = Name::of_key("check", c.check.as_str());
                let said = c.sentence.then_optionally(" [");
                said.then(Span::Name(check)).then("]")
            })
            .collect();
        self.some(out, "effect", effects.into_iter())
    }

    fn everything(&self) -> bool {
        self.detail.all || self.detail.verbose
    }

    /// The first few sentences in a line each, and how many more there are.
    fn some(
        &self,
        out: &mut dyn Write,
        label: &str,
        all: impl ExactSizeIterator<Item = Sentence>,
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
            // Other cases of a note's check say something else, and nobody looks further for it.
            let has_room = one.further.len() <= FURTHER && count <= 2;
            let lists_all = one.severity == "note" && (one.is_shown_in_several_ways || has_room);
            let others = match one.subjects.len().max(one.further.len() + 1) - 1 {
                0 => String::new(),
                _ if lists_all => String::new(),
                n => format!(" (and {n} more)"),
            };
            let end = format!("{others} [{}]", one.check);
            let label = severity(one.severity).to_string();
            self.wrap(out, &label, 9, &self.tagged(&one.sentence, &end))?;
            if lists_all {
                self.some(out, "", one.further.iter().cloned())?;
            }
        }
        Ok(())
    }

    /// As much of a sentence as stands in a few lines before this end, or all of it.
    fn tagged(&self, said: &Sentence, end: &str) -> Sentence {
        if self.everything() {
            return said.then(end);
        }
        let room = self.room(9).saturating_sub(end.chars().count());
        fit(said, room.max(24)).then(end)
    }

    /// The letters that a few lines hold for sure, behind what stands in front of each.
    fn room(&self, indent: usize) -> usize {
        let of_line = self.width.saturating_sub(indent);
        of_line.saturating_mul(LINES).saturating_sub(LONGEST_WORD)
    }

    /// Writes a fact below the sentence that it proves.
    fn evidence(&self, out: &mut dyn Write, line: &EvidenceLine, sentence: &str) -> io::Result<()> {
        let is_told = || !self.told.borrow_mut().insert(line.origin.clone());
        let origin = match line.origin.as_str() {
            "" | "stated" => "",
            origin if origin == line.value || is_told() => "",
            origin => origin,
        };
        let place = if origin.starts_with('/') {
            Span::Path(origin.into())
        } else {
            Span::Quote(origin.into())
        };
        // The sentence says it already: what is new is where it was seen.
        if is_said_above(line, sentence) && !self.detail.verbose {
            if !is_place(origin) {
                return Ok(());
            }
            let label = if is_source(origin) { "from " } else { "" };
            let said = Sentence::from(label).then(place);
            return self.line(out, "         ", 9, &said);
        }
        let fact = Sentence::from(format!("{} = ", line.fact));
        let mut said = fact.then(Span::Quote(line.value.as_str().into()));
        if !origin.is_empty() {
            let gap = ORIGIN.saturating_sub(said.letters());
            said = said.then_optionally(format!("{:gap$} ", "")).then(place);
        }
        if self.detail.verbose {
            writeln!(out, "         {}", one_line(&said.to_string()))
        } else {
            // A long value needs its second line more than where it comes from.
            let room = self.width.saturating_sub(9);
            let in_one = fit(&said, room);
            let shown = if in_one.letters() <= room {
                in_one
            } else {
                said
            };
            self.line(out, "         ", 9, &shown)
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
        let is_wanted = self.detail.open || self.detail.verbose;
        if supplied.is_empty() || !is_wanted {
            return Ok(());
        }
        let checks = plural(report.open_checks() as u64, "check");
        let label = format!("{}", "open     ".magenta());
        writeln!(out)?;
        self.wrap(out, &label, 9, &format!("{checks} could not run").into())?;
        for ((unnamed, by), of) in supplied {
            let by = if unnamed {
                format!("because: {by}")
            } else {
                by
            };
            self.wrap(out, "", 2, &format!("{by} ({})", of.len()).into())?;
            for question in of {
                let id = format!(" [{}]", question.check);
                if !self.detail.verbose {
                    let title = question.title.as_str().into();
                    self.wrap(out, "         ", 9, &self.tagged(&title, &id))?;
                    continue;
                }
                let text = format!("{}{id}", question.title);
                let missing = question.missing.iter();
                let missing: Vec<String> = missing
                    .map(|m| format!("{} ({})", m.fact, m.value))
                    .collect();
                let (on, missing) = (some(&question.subjects), missing.join(", "));
                let text = format!("{text} on {on}: {missing}");
                self.wrap(out, "         ", 11, &text.into())?;
            }
        }
        Ok(())
    }

    /// How many checks there are, and what became of them.
    fn judged(&self, report: &Report) -> String {
        let c = &report.counts;
        let mut parts = vec![plural(c.checks as u64, "check")];
        if c.waived > 0 {
            parts.push(format!("{} waived", c.waived));
        }
        let open = report.open_checks();
        if self.detail.verbose {
            let failed = c.errors + c.warnings + c.notes;
            parts.push(format!(
                "{} verdicts passed, {failed} failed, {} open",
                c.passes, c.unknown
            ));
        } else if open > 0 {
            parts.push(format!("{open} could not run (--open)"));
        }
        let is_by_root = |question: &OpenQuestion| {
            let remedy = question.remedy.as_deref();
            remedy.is_some_and(|remedy| remedy.starts_with("run as root"))
        };
        if report.open.iter().any(is_by_root) {
            parts.push("some only as root".to_owned());
        }
        parts.join(", ")
    }

    fn summary(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        if report.open.is_empty() || !(self.detail.open || self.detail.verbose) {
            writeln!(out)?;
        }
        let shown = report.notes.iter().find(|note| !note.background);
        if let Some(first) = report.causes.first().or(shown) {
            writeln!(out, "explain  rdma-doctor explain {}", first.check)?;
        }
        let background = report.notes.iter().filter(|note| note.background).count();
        let background = match background {
            0 => String::new(),
            _ if self.everything() || self.detail.notes => format!(" and {background} more"),
            _ => format!(" and {background} more (--notes)"),
        };
        let line = format!(
            "{}, {}, {}{background} · {} · {:.2} s",
            plural(report.listed(Severity::Error) as u64, "error"),
            plural(report.listed(Severity::Warning) as u64, "warning"),
            plural(report.listed(Severity::Note) as u64, "note"),
            self.judged(report),
            report.seconds
        );
        self.wrap(out, "", 0, &line.dimmed().to_string().into())
    }

    /// Writes `label` and then as much of a sentence as stands in a few lines.
    fn line(
        &self,
        out: &mut dyn Write,
        label: &str,
        indent: usize,
        sentence: &Sentence,
    ) -> io::Result<()> {
        if self.everything() {
            return self.wrap(out, label, indent, sentence);
        }
        let fitted = fit(sentence, self.room(indent));
        if fitted.letters() > self.width.saturating_sub(indent) {
            return self.wrap(out, label, indent, &fitted);
        }
        writeln!(out, "{label}{}", one_line(&fitted.to_string()))
    }

    /// Writes `label` and then a sentence, broken at spaces outside of commands, further lines indented.
    fn wrap(
        &self,
        out: &mut dyn Write,
        label: &str,
        indent: usize,
        sentence: &Sentence,
    ) -> io::Result<()> {
        let lines = self.broken(visible(label), indent, sentence);
        let margin = format!("\n{:indent$}", "");
        writeln!(out, "{label}{}", lines.join(&margin))
    }

    /// The lines of a sentence of which the first begins in this column, further ones at the indent. There is one at least.
    fn broken(&self, mut column: usize, indent: usize, sentence: &Sentence) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in unbroken(sentence) {
            let length = visible(&word);
            let line = match lines.last_mut() {
                Some(line) if line.is_empty() => line,
                Some(line) if column + 1 + length <= self.width => {
                    line.push(' ');
                    column += 1;
                    line
                }
                _ => {
                    column = indent;
                    lines.push(word);
                    column += length;
                    continue;
                }
            };
            line.push_str(&word);
            column += length;
        }
        lines
    }
}

/// The words of a sentence; a command is one, with the marks at it.
fn unbroken(sentence: &Sentence) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for span in sentence.spans() {
        let text = span.to_string();
        let is_whole = matches!(span, Span::Command(command) if !command.is_by_hand());
        let parts = if is_whole {
            vec![text.as_str()]
        } else {
            text.split(char::is_whitespace).collect()
        };
        for (at, part) in parts.into_iter().enumerate() {
            is_open &= at == 0;
            match words.last_mut().filter(|_| is_open) {
                Some(word) => word.push_str(part),
                None if part.is_empty() => continue,
                None => words.push(part.to_owned()),
            }
            is_open = true;
        }
    }
    words
}

/// A text without its line breaks: what a recording says must not look like a line of the report.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Writes a remedy, or another text with commands on lines of their own, behind its name.
pub fn steps(out: &mut dyn Write, name: &str, text: &Sentence, width: usize) -> io::Result<()> {
    for (i, line) in remedy::lines(text).iter().enumerate() {
        let label = format!("{:<8} ", if i == 0 { name } else { "" });
        match line {
            RemedyLine::Command(command, after) => {
                writeln!(out, "            {}", pasted(command, after))?;
            }
            RemedyLine::Words(words) => paragraph(out, &label, 9, words, width)?,
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
