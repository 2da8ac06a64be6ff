//! The events of a log over time, with a lane for each rank.

use std::collections::BTreeMap;

use super::Markup;
use crate::fact::event::{self, Role};
use crate::fact::{Facts, Id, Subject};
use crate::report::shortened::shortened;

/// Lanes and events that are drawn, at most: those that come first.
const LANES: usize = 24;
const EVENTS: usize = 240;
/// Fewer are told as well by the findings.
const FEWEST: usize = 4;
/// The drawing in its own units: where the lanes begin, how long they are, how high one is.
const LEFT: f64 = 190.0;
const LONG: f64 = 660.0;
const LANE: f64 = 24.0;
const TOP: f64 = 30.0;

/// An event at its place.
struct Mark {
    lane: (String, Option<u64>),
    /// Seconds since the first line, or the number of the line.
    at: f64,
    role: Role,
    leads: bool,
    class: &'static str,
    text: String,
}

/// By what the lanes run.
#[derive(Clone, Copy)]
enum Axis {
    Seconds,
    Lines,
}

/// Draws the events, if there are some at different places.
pub fn timeline(page: &mut Markup, facts: &Facts) {
    let events: Vec<Id> = facts.all(Subject::Event).collect();
    let timed = events
        .iter()
        .filter(|id| facts.known(**id, event::AFTER).is_some());
    // Where most lines have no time, their order in the file is what there is.
    let axis = if timed.count() * 2 > events.len() {
        Axis::Seconds
    } else {
        Axis::Lines
    };
    let marks = events.into_iter().filter_map(|id| mark(facts, id, axis));
    let mut marks: Vec<Mark> = marks.collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let all = marks.len();
    marks.truncate(EVENTS);
    let (Some(first), Some(last)) = (marks.first(), marks.last()) else {
        return;
    };
    let (begin, end) = (first.at, last.at);
    if begin >= end || marks.len() < FEWEST {
        return;
    }
    let mut lanes: BTreeMap<(String, Option<u64>), usize> = BTreeMap::new();
    for one in &marks {
        lanes.entry(one.lane.clone()).or_default();
    }
    for (at, (_, lane)) in lanes.iter_mut().enumerate() {
        *lane = at;
    }
    let shown = lanes.len().min(LANES);
    let height = TOP + LANE * shown as f64 + 10.0;
    page.put(
        "<section>\n<h2>Events <span>{} in {} lanes</span></h2>\n<div class=\"wide\"><svg class=\"chart timeline\" \
         viewBox=\"0 0 880 {}\" role=\"img\">\n<title>Events by rank</title>\n",
        &[&all, &lanes.len(), &height],
    );
    let (from, to) = match axis {
        Axis::Seconds => (format!("{begin:.1} s"), format!("{end:.1} s")),
        Axis::Lines => (format!("line {begin}"), format!("line {end}")),
    };
    page.put(
        "<text x=\"{}\" y=\"16\">{}</text><text x=\"{}\" y=\"16\" text-anchor=\"end\">{}</text>\n",
        &[&LEFT, &from, &(LEFT + LONG), &to],
    );
    for ((host, rank), lane) in lanes.iter().take(LANES) {
        let y = TOP + LANE * *lane as f64 + LANE / 2.0;
        let name = match rank {
            Some(rank) => format!("{} rank {rank}", shortened(host, 18, "…")),
            None => shortened(host, 26, "…"),
        };
        page.put(
            "<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
            &[&LEFT, &y, &(LEFT + LONG), &(LEFT - 10.0), &(y + 4.0), &name],
        );
    }
    for one in &marks {
        let lane = lanes.get(&one.lane).copied().filter(|lane| *lane < LANES);
        let Some(lane) = lane else { continue };
        let x = LEFT + LONG * (one.at - begin) / (end - begin);
        let y = TOP + LANE * lane as f64 + LANE / 2.0;
        let (class, radius) = if one.leads {
            ("leads", 7.0)
        } else {
            (one.role.word(), 4.5)
        };
        page.put(
            "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>\n",
            &[&class, &x.round(), &y, &radius, &one.text],
        );
        if one.leads {
            // Beside the edge the label goes to the left.
            let (at, anchor) = if x > LEFT + LONG * 0.7 {
                (x - 11.0, "end")
            } else {
                (x + 11.0, "start")
            };
            page.put(
                "<text class=\"figure\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                &[&at.round(), &(y + 4.0), &anchor, &one.class],
            );
        }
    }
    page.put("</svg></div>\n<p class=\"key timeline\">", &[]);
    for (class, word) in [
        ("leads", "first cause"),
        ("failure", "failure"),
        ("consequence", "follows from a failure"),
        ("warning", "warning"),
        ("benign", "harmless"),
    ] {
        page.put("<span class=\"{}\">{}</span>", &[&class, &word]);
    }
    page.put("</p>\n</section>\n", &[]);
}

fn mark(facts: &Facts, id: Id, axis: Axis) -> Option<Mark> {
    let host = facts
        .ancestor(id, Subject::Host)
        .map(|host| facts.name(host));
    let place = facts.known(id, event::PLACE)?;
    let at = match axis {
        Axis::Seconds => facts.known(id, event::AFTER)?.0,
        Axis::Lines => {
            let digits = place.rsplit(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()?
        }
    };
    let text = facts.known(id, event::TEXT).unwrap_or_default();
    Some(Mark {
        lane: (
            host.unwrap_or_default().to_owned(),
            facts.known(id, event::RANK),
        ),
        at,
        role: facts.known(id, event::ROLE)?,
        leads: facts.known(id, event::LEADS) == Some(true),
        class: facts.known(id, event::CLASS)?.word(),
        text: format!("{place}: {}", shortened(&text, 200, "…")),
    })
}
