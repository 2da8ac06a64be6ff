//! The kernel's log.
//!
//! A line proves that something happened, and when. That nothing happened is known only if the log still reaches back to boot.

mod classes;
mod nvlink_registers;
#[cfg(test)]
mod tests;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use self::classes::{Event, LATER};
use super::{Ask, Probe};
use crate::fact::kernel_event::{self as fact, EventClass};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Seconds, Subject, limit};
use crate::left_out::LeftOut;
use crate::source::Question;
use crate::source::kernel_log_markers::MOST_OF_KIND;

/// The probe.
// One question reads thousands of records, one at a time.
pub const PROBE: Probe = Probe::new("kernel_log", run).within(Duration::from_secs(10));

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let question = Question::call("kernel_log", []);
    let origin = Origin::Asked(question.clone());
    // The classes are always the same; what is open is whether one of their lines was seen.
    let members = Membership::Known(origin.clone());
    facts.set_members(Subject::KernelEvent, node, members);
    let log = match ask.read::<Log>(question) {
        Fact::Known(log, _) => log,
        Fact::Unknown(gap) => {
            for &class in EventClass::ALL.iter().filter(|class| is_listed(**class)) {
                let id = facts.instance(Subject::KernelEvent, node, class.word());
                facts.know(id, fact::CLASS, class, &origin);
                unknown(facts, id, &gap);
            }
            return;
        }
    };
    if log.goes_on {
        let more = LeftOut::one_or_more("line", "the kernel's log has more than are read");
        super::state_left_out(facts, node, &more, &origin);
    }
    let settled = facts.limit(limit::LINKS_SETTLED);
    for &class in EventClass::ALL {
        let groups = log.groups(class, settled);
        // A recording that is older than the class says nothing of it, as before there was one.
        if groups.is_empty() && LATER.contains(&class) && !log.looked_for(class) {
            continue;
        }
        for (place, group) in groups.iter().enumerate() {
            let name = match (&*group.event.about, group.event.code) {
                // A server's name is not to be part of one that reports and waivers go by.
                _ if matches!(class, EventClass::ServerSilent | EventClass::LustreLost) => {
                    format!("{class} {number}", class = class.word(), number = place + 1)
                }
                ("none", None) => class.word().to_owned(),
                ("none", Some(code)) => format!("{class} {code}", class = class.word()),
                (about, Some(code)) if class != EventClass::RecoveryAction => {
                    format!("{class} {code} {about}", class = class.word())
                }
                (about, _) => format!("{class} {about}", class = class.word()),
            };
            let id = facts.instance(Subject::KernelEvent, node, &name);
            facts.know(id, fact::CLASS, class, &origin);
            seen(facts, id, group, &log, &origin);
        }
        if groups.is_empty() {
            let id = facts.instance(Subject::KernelEvent, node, class.word());
            facts.know(id, fact::CLASS, class, &origin);
            none_seen(facts, id, class, &log, &origin);
        }
    }
}

/// The facts of a class with lines.
fn seen(facts: &mut Facts, id: Id, group: &Group<'_>, log: &Log, origin: &Origin) {
    let known = |value| Fact::Known(value, origin.clone());
    facts.set(id, fact::SEEN, known(true));
    facts.set(id, fact::LOGGED, known(true));
    let count = if log.is_thinned(group) {
        gap_of("the recording keeps a part of such lines", origin)
    } else {
        Fact::Known(group.count, origin.clone())
    };
    facts.set_at_least(id, fact::COUNT, count, group.count);
    let quiet = match group.earlier {
        true => gap_of("the log's times count from each boot", origin),
        false => log.since(group.last, origin),
    };
    let age: Arc<str> = match &quiet {
        Fact::Known(quiet, _) => format!("{quiet} ago").into(),
        Fact::Unknown(_) => "at an unknown time".into(),
    };
    facts.set(id, fact::AGED, known(quiet.known().is_some()));
    facts.know(id, fact::AGE, age, origin);
    facts.set(id, fact::QUIET, quiet);
    facts.set(id, fact::THIS_BOOT, known(!group.earlier));
    let about = Arc::clone(&group.event.about);
    facts.know(id, fact::ABOUT, about, origin);
    facts.set(
        id,
        fact::LINE,
        // A record may have several lines.
        Fact::Known(group.line.replace('\n', " ").into(), origin.clone()),
    );
    facts.set(id, fact::ENDED, known(group.end.is_some()));
    let end = group.end.unwrap_or("and nothing was logged of it since");
    facts.know(id, fact::END, end.into(), origin);
    facts.set(id, fact::FATAL, known(group.event.fatal));
    facts.know(id, fact::LINK_ERROR, group.event.link_error, origin);
    if let Some(code) = group.event.code {
        facts.know(id, fact::CODE, code, origin);
    }
    facts.know(id, fact::INCIDENTS, group.incidents, origin);
    if let Some(rate) = group.event.bandwidth {
        facts.know(id, fact::PCIE_BANDWIDTH, rate, origin);
    }
}

/// The facts of a class without lines: there was none if the log is complete.
fn none_seen(facts: &mut Facts, id: Id, class: EventClass, log: &Log, origin: &Origin) {
    let reach = log.since(log.begin(), origin);
    let aged = Fact::Known(reach.known().is_some(), origin.clone());
    facts.set(id, fact::AGED, aged);
    facts.set(id, fact::QUIET, reach);
    let looked_for = log.looked_for(class);
    if looked_for {
        facts.know(id, fact::LOGGED, false, origin);
    }
    let why = if !looked_for {
        "the log was not searched for this class"
    } else if log.is_whole() {
        facts.know(id, fact::SEEN, false, origin);
        facts.know(id, fact::COUNT, 0, origin);
        return;
    } else {
        "the log has lost its beginning, and what is left has no such line"
    };
    if let Fact::Unknown(gap) = gap_of::<bool>(why, origin) {
        unknown(facts, id, &gap);
    }
}

fn unknown(facts: &mut Facts, id: Id, gap: &Gap) {
    facts.set(id, fact::SEEN, Fact::Unknown(gap.clone()));
    facts.set(id, fact::COUNT, Fact::Unknown(gap.clone()));
    facts.set(id, fact::QUIET, Fact::Unknown(gap.clone()));
}

fn gap_of<T>(why: &str, origin: &Origin) -> Fact<T> {
    Fact::Unknown(Gap::not_said(why, origin.clone()))
}

/// The reported part of the log. Times are microseconds since boot.
#[derive(Deserialize)]
struct Log {
    /// Unknown if the log is a file of another day, without the uptime of the machine.
    now: Option<u64>,
    first: Option<u64>,
    /// How many records were lost: unknown of a copy.
    lost: Option<u64>,
    from_boot: Option<bool>,
    /// Lines of floods that the recording does not keep.
    #[serde(default)]
    left_out: u64,
    /// Whether the log has more records than were read.
    #[serde(default)]
    goes_on: bool,
    markers: Vec<String>,
    #[serde(skip)]
    told_classes: OnceCell<Arc<[EventClass]>>,
    #[serde(rename = "told")]
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "t")]
    at: u64,
    text: String,
    /// Whether it was logged before this boot.
    #[serde(default)]
    earlier: bool,
}

/// The lines of a class about one thing.
struct Group<'l> {
    event: Event,
    count: u64,
    incidents: u64,
    last: u64,
    line: &'l str,
    /// Whether the last of them is of an earlier boot.
    earlier: bool,
    /// How it ended.
    end: Option<&'static str>,
}

/// Whether the lines of a class are known: of the others nobody can tell that there is none.
fn is_listed(class: EventClass) -> bool {
    class != EventClass::Uncatalogued
}

/// Whether a log from which the lines with these markers were taken has all lines of a class.
fn are_lines_told(class: EventClass, markers: &[impl AsRef<str>]) -> bool {
    let told = |part: &&str| markers.iter().any(|m| part.contains(m.as_ref()));
    // Nobody knows all words of a trouble.
    is_listed(class)
        && classes::rules(class)
            .all(|(.., all, any)| all.iter().any(told) || (!any.is_empty() && any.iter().all(told)))
}

/// The classes of which a log with these markers has all lines.
fn classes_told(markers: &[String]) -> Arc<[EventClass]> {
    type Told = (Vec<String>, Arc<[EventClass]>);
    // Recordings that are judged together are of one version of this program, mostly.
    thread_local! { static LAST: RefCell<Option<Told>> = const { RefCell::new(None) }; }
    LAST.with_borrow_mut(|last| match last {
        Some((of, told)) if of == markers => Arc::clone(told),
        _ => {
            let all = EventClass::ALL.iter().copied();
            let told = all.filter(|class| are_lines_told(*class, markers));
            let told: Arc<[EventClass]> = told.collect();
            *last = Some((markers.to_vec(), Arc::clone(&told)));
            told
        }
    })
}

impl Log {
    /// Whether it reaches back to boot, without a gap.
    fn is_whole(&self) -> bool {
        let of_copy = self.from_boot == Some(true);
        self.lost.map_or(of_copy, |lost| lost == 0) && !self.goes_on
    }

    /// Whether lines like those of a group were more than a recording keeps.
    fn is_thinned(&self, group: &Group<'_>) -> bool {
        let marker = |text: &str| self.markers.iter().position(|marker| text.contains(marker));
        let of_group = marker(group.line);
        let mut same = (self.lines.iter()).filter(|line| marker(&line.text) == of_group);
        self.left_out > 0 && same.nth(MOST_OF_KIND - 1).is_some()
    }

    /// The time from which on it has all lines.
    fn begin(&self) -> u64 {
        match self.is_whole() {
            true => 0,
            false => self.first.or(self.now).unwrap_or(0),
        }
    }

    /// How long ago a time of the log was.
    fn since(&self, at: u64, origin: &Origin) -> Fact<Seconds> {
        match self.now {
            Some(now) => {
                let seconds = now.saturating_sub(at) as f64 / 1e6;
                Fact::Known(Seconds(seconds.round()), origin.clone())
            }
            None => gap_of("no file next to the log tells when it was copied", origin),
        }
    }

    /// Whether lines of this class would have been reported.
    fn looked_for(&self, class: EventClass) -> bool {
        let told = || classes_told(&self.markers);
        self.told_classes.get_or_init(told).contains(&class)
    }

    fn groups(&self, class: EventClass, settled: Seconds) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut places: HashMap<(Arc<str>, Option<u64>), usize> = HashMap::new();
        for Line { at, text, earlier } in &self.lines {
            // Of an earlier boot only a fault tells something that this boot can show again.
            if *earlier && !classes::needs_reset(class) {
                continue;
            }
            if let Some(event) = Event::of(class, text) {
                if class == EventClass::LinkDown && (*at as f64) < settled.0 * 1e6 {
                    continue;
                }
                // The last line names the current recovery action: one for each GPU.
                let code = event.code.filter(|_| class != EventClass::RecoveryAction);
                let next = groups.len();
                let place = *places
                    .entry((Arc::clone(&event.about), code))
                    .or_insert(next);
                let old = groups.get(place);
                // Lines of one earlier boot are not told from those of another.
                let again = |old: &Group<'_>| old.end.is_some() && !(old.earlier && *earlier);
                let group = Group {
                    event,
                    count: old.map_or(1, |old| old.count + 1),
                    incidents: old.map_or(1, |old| old.incidents + u64::from(again(old))),
                    last: *at,
                    line: text,
                    earlier: *earlier,
                    end: earlier.then_some("before this boot"),
                };
                match groups.get_mut(place) {
                    Some(old) => *old = group,
                    None => groups.push(group),
                }
            } else {
                for group in groups.iter_mut().filter(|group| group.end.is_none()) {
                    group.end = classes::end(class, &group.event.about, text);
                }
            }
        }
        groups
    }
}
