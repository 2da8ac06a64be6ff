//! The ranks of a running job: what each did in the first look, between both, and in the second.

use super::Markup;
use crate::fact::live_rank::{self, RankFault};
use crate::fact::{Facts, Id, Subject};
use crate::report::shortened::shortened;

/// Ranks that are drawn, those at fault first.
const LANES: usize = 64;
/// The drawing in its own units: where a look's cell begins and how wide it is, where the bar between them does, and how high a lane is.
const FIRST: f64 = 190.0;
const CELL: f64 = 220.0;
const BAR: f64 = 425.0;
const LONG: f64 = 210.0;
const SECOND: f64 = 650.0;
const LANE: f64 = 24.0;
const TOP: f64 = 30.0;
/// Letters that a cell has room for.
const LETTERS: usize = 30;

/// Draws the ranks, if a running job was looked at.
pub fn rank_strip(page: &mut Markup, facts: &Facts) {
    let mut ranks: Vec<Id> = facts.all(Subject::LiveRank).collect();
    if ranks.is_empty() {
        return;
    }
    let all = ranks.len();
    ranks.sort_by_key(|rank| class(facts, *rank) != "leads");
    ranks.truncate(LANES);
    let height = TOP + LANE * ranks.len() as f64 + 10.0;
    page.put(
        "<section>\n<h2>Ranks <span>{} of {}</span></h2>\n<div class=\"wide\"><svg class=\"chart timeline strip\" \
         viewBox=\"0 0 880 {}\" role=\"img\">\n<title>What each rank did</title>\n",
        &[&ranks.len(), &all, &height],
    );
    for (x, words) in [
        (FIRST, "first look"),
        (BAR, "CPU between"),
        (SECOND, "second look"),
    ] {
        page.put("<text x=\"{}\" y=\"16\">{}</text>\n", &[&x, &words]);
    }
    for (lane, rank) in ranks.iter().enumerate() {
        draw(page, facts, *rank, TOP + LANE * lane as f64);
    }
    page.put("</svg></div>\n<p class=\"key timeline\">", &[]);
    for (class, word) in [
        ("leads", "at fault, or unlike the others"),
        ("warning", "the others wait for it"),
        ("benign", "as the others"),
    ] {
        page.put("<span class=\"{}\">{}</span>", &[&class, &word]);
    }
    page.put("</p>\n</section>\n", &[]);
}

fn draw(page: &mut Markup, facts: &Facts, rank: Id, y: f64) {
    let class = class(facts, rank);
    let middle = y + LANE / 2.0;
    page.put(
        "<path class=\"grid\" d=\"M{} {}H{}\"/><text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        &[&FIRST, &(y + LANE), &(SECOND + CELL), &(FIRST - 10.0), &(middle + 4.0), &shortened(facts.name(rank), 26, "…")],
    );
    for (x, key) in [(FIRST, live_rank::FIRST), (SECOND, live_rank::SECOND)] {
        let words = facts.known(rank, key).unwrap_or_else(|| "not known".into());
        page.put(
            "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"4.5\"><title>{}</title></circle><text x=\"{}\" y=\"{}\">{}</text>\n",
            &[&class, &(x + 5.0), &middle, &words, &(x + 14.0), &(middle + 4.0), &shortened(&words, LETTERS, "…")],
        );
    }
    if let Some(cpu) = facts.known(rank, live_rank::CPU) {
        let long = (LONG * cpu.0.min(100.0) / 100.0).max(1.0).round();
        page.put(
            "<path class=\"line\" d=\"M{} {}H{}\"/><text class=\"figure\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
            &[&BAR, &middle, &(BAR + long), &(BAR + LONG), &(middle - 4.0), &cpu],
        );
    }
}

/// How a rank is marked.
fn class(facts: &Facts, rank: Id) -> &'static str {
    match facts.known(rank, live_rank::FAULT) {
        Some(RankFault::None | RankFault::Flushes) => "benign",
        Some(RankFault::BusyAlone | RankFault::ComputesAlone | RankFault::Late) => "warning",
        Some(_) => "leads",
        None => "unknown",
    }
}
