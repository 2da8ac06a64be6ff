//! What was examined, and findings with evidence and remedy, as HTML.

use super::Markup;
use crate::nodeset;
use crate::report::remedy::{self, RemedyLine};
use crate::report::{EvidenceLine, Finding, Report, plural};

/// So many items of a list are shown at once.
const FEW: usize = 3;

/// What was examined: the machine, or how many.
pub(super) fn about(report: &Report) -> String {
    let node = match report.nodes.as_slice() {
        [node] => node,
        several => {
            let names: Vec<&str> = several.iter().map(|n| n.name.as_str()).collect();
            return match several.len() {
                0 => String::new(),
                n => format!("{n} nodes: {}", nodeset::list(&names)),
            };
        }
    };
    let kernel = node.kernel.as_ref().map(|k| format!("Linux {k}"));
    let mut parts = vec![node.name.clone(), format!("recorded {}", node.recorded)];
    parts.extend(node.os.iter().chain(&kernel).chain(&node.launch).cloned());
    parts.extend(node.inventory.iter().cloned());
    // How, says the text below.
    parts.extend(node.altered.iter().map(|_| "altered by hand".to_owned()));
    parts.join(" · ")
}

/// Writes how far each area was examined.
pub(super) fn areas(page: &mut Markup, report: &Report) {
    page.put("<section>\n<h2>Examined</h2>\n<ul class=\"areas\">\n", &[]);
    for area in &report.areas {
        let (class, word) = match area.state {
            "examined" => ("ok", "examined"),
            "partly" => ("unknown", "in part"),
            "not-examined" => ("unknown", "not examined"),
            _ if area.is_wanting() => ("unknown", "none here"),
            _ => ("", "none here"),
        };
        page.put(
            "<li class=\"{}\"><b>{}</b> <i>{}</i><span>{}</span></li>\n",
            &[&class, &area.area, &word, &area.sentence()],
        );
    }
    page.put("</ul>\n</section>\n", &[]);
}

/// Writes findings in full, if there are any.
pub(super) fn list(page: &mut Markup, title: &str, findings: &[Finding]) {
    if !findings.is_empty() {
        page.put("<section>\n<h2>{}</h2>\n", &[&title]);
        findings.iter().for_each(|one| finding(page, one));
        page.put("</section>\n", &[]);
    }
}

fn evidence(page: &mut Markup, lines: &[&EvidenceLine]) {
    page.put("<table class=\"evidence\">\n", &[]);
    for line in lines {
        let says_more = line.origin != "stated" && line.origin != line.value;
        let origin = if says_more { &line.origin } else { "" };
        page.put(
            "<tr><td>{}<td>{}<td>{}\n",
            &[&line.fact, &line.value, &origin],
        );
    }
    page.put("</table>\n", &[]);
}

/// Items of a list, those beyond the first few folded.
fn first_few<T>(page: &mut Markup, items: &[T], write: impl Fn(&mut Markup, &T)) {
    // To fold one item saves nothing.
    let few = if items.len() > FEW + 1 {
        FEW
    } else {
        items.len()
    };
    let (shown, folded) = items.split_at(few);
    shown.iter().for_each(|item| write(page, item));
    if !folded.is_empty() {
        page.put(
            "<li><details class=\"more\">\n<summary>and {} more</summary>\n<ul>\n",
            &[&folded.len()],
        );
        folded.iter().for_each(|item| write(page, item));
        page.put("</ul>\n</details></li>\n", &[]);
    }
}

fn finding(page: &mut Markup, finding: &Finding) {
    page.put(
        "<article class=\"finding {}\">\n<h3><span class=\"badge\">{}</span> {}</h3>\n<p class=\"aside\"><code>{}</code></p>\n<ul>",
        &[&finding.severity, &finding.severity, &finding.sentence, &finding.check],
    );
    first_few(page, &finding.further, |page, more| {
        page.put("<li>{}</li>", &[more]);
    });
    page.put(
        "</ul>\n<div class=\"parts\">\n<div>\n<h4>Evidence</h4>\n",
        &[],
    );
    // What the check applies to is no news to most readers.
    let (decides, premises): (Vec<_>, Vec<_>) = finding.evidence.iter().partition(|l| l.decides);
    evidence(page, &decides);
    if !premises.is_empty() {
        page.put(
            "<details class=\"more\">\n<summary>{}</summary>\n",
            &[&plural(premises.len() as u64, "precondition")],
        );
        evidence(page, &premises);
        page.put("</details>\n", &[]);
    }
    page.put("<h4>Why</h4>\n<p>", &[]);
    page.sentence(&finding.why);
    page.put("</p>\n</div>\n<div>\n<h4>Fix</h4>\n", &[]);
    // The commands of a step stand below each other, to be copied.
    let is_command = |line: &RemedyLine| matches!(line, RemedyLine::Command(..));
    let all = remedy::lines(&finding.fix);
    for lines in all.chunk_by(|a, b| is_command(a) && is_command(b)) {
        let [begin, end] = if is_command(&lines[0]) {
            ["<pre class=\"command\">", "</pre>\n"]
        } else {
            ["<p class=\"step\">", "</p>\n"]
        };
        page.put(begin, &[]);
        for line in lines {
            match line {
                RemedyLine::Command(command, after) if after.is_empty() => {
                    page.put("{}\n", &[&command.text()]);
                }
                RemedyLine::Command(command, after) => {
                    page.put("{}   <i># {}</i>\n", &[&command.text(), after]);
                }
                RemedyLine::Words(words) => page.sentence(words),
            }
        }
        page.put(end, &[]);
    }
    page.put("</div>\n</div>\n", &[]);
    if !finding.consequences.is_empty() {
        page.put("<h4>Effects</h4>\n<ul>\n", &[]);
        first_few(page, &finding.consequences, |page, one| {
            page.put(
                "<li>{} <code>{}</code></li>\n",
                &[&one.sentence, &one.check],
            );
        });
        page.put("</ul>\n", &[]);
    }
    // Another scheme could run a script.
    for see in finding.see.iter().filter(|see| see.starts_with("https://")) {
        page.put(
            "<p class=\"aside\">See <a href=\"{}\">{}</a></p>\n",
            &[see, see],
        );
    }
    page.put("</article>\n", &[]);
}
