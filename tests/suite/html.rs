//! `--format html`: what a browser makes of the pages, and what a hostile recording can put into them.
//!
//! The browser is Chromium without a screen (`tests/install-deps test` gets it); where it is missing that part is skipped and says so.

use crate::process::run_doctor as doctor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;
use serde_json::Value;

use crate::formats::skipped;

/// Markup, quotes, and characters that act on a terminal or turn text around.
const POISON: &str = "<script>alert(1)</script>\" onmouseover=\"alert(2)' <img src=x onerror=alert(3)>\u{202e}\u{1b}]0;x\u{7}&";

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("html-{name}"))
}

/// The page that a command writes.
fn page(args: &[&str]) -> String {
    let out = doctor(&[args, &["--format", "html"]].concat());
    assert!(out.stderr.is_empty(), "{args:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// What each page must be, whatever was recorded: its own style and script, nothing from elsewhere, no character that misleads.
fn assert_closed(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"));
    let count = |what: &str| page.to_lowercase().matches(what).count();
    assert_eq!(
        (count("<script"), count("<style"), count("<meta")),
        (1, 1, 5)
    );

    const TAGS: [&str; 46] = [
        "a", "article", "b", "body", "circle", "code", "details", "div", "footer", "g", "h1", "h2",
        "h3", "h4", "head", "header", "html", "i", "input", "label", "li", "link", "main", "meta",
        "output", "p", "path", "polyline", "pre", "rect", "script", "section", "span", "style",
        "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "title", "tr", "tspan",
        "ul",
    ];
    for tag in page
        .split('<')
        .skip(1)
        .filter(|tag| !tag.starts_with("!DOCTYPE"))
    {
        let name = tag
            .trim_start_matches('/')
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next();
        assert!(TAGS.contains(&name.unwrap()), "<{tag:.40}");
    }
    for loading in ["url(", "@import"] {
        assert!(!page.contains(loading), "{loading}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(
            link.starts_with("https://") || link.starts_with("data:,"),
            "{link:.60}"
        );
    }
    let misleads = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!page.contains(misleads), "a character that misleads");
}

/// The pages of commands with something to draw, by name.
fn pages() -> Vec<(&'static str, String)> {
    let cluster = [
        "modelled-ib.jsonl",
        "modelled-roce.jsonl",
        "modelled-gpu-host.jsonl",
    ]
    .map(fixture);
    let cluster: Vec<&str> = ["check"]
        .into_iter()
        .chain(cluster.iter().map(String::as_str))
        .collect();
    let one = |command: &[&str], name: &str| page(&[command, &[fixture(name).as_str()]].concat());
    let log = scratch("log.txt");
    let cases = std::fs::read_to_string(format!(
        "{}/tests/suite/log/cases/hosts.md",
        env!("CARGO_MANIFEST_DIR")
    ));
    std::fs::write(&log, cases.unwrap()).unwrap();
    vec![
        ("node", one(&["check"], "modelled-gpu-node-faults.jsonl")),
        (
            "nvlink",
            one(&["check"], "modelled-gpu-nvlink-faults.jsonl"),
        ),
        ("cluster", page(&cluster)),
        ("each", page(&[cluster.as_slice(), &["--each"]].concat())),
        ("triage", one(&["triage"], "modelled-ablation-no-p2p.jsonl")),
        (
            "ablate",
            one(&["ablate"], "modelled-ablation-healthy.jsonl"),
        ),
        (
            "pairs",
            one(&["bench", "pairs"], "modelled-pairs-bad.jsonl"),
        ),
        (
            "p2p",
            one(&["bench", "p2p"], "modelled-gpu-copies-faults.jsonl"),
        ),
        (
            "parts",
            one(&["bench", "all-reduce"], "modelled-bench-slow-node.jsonl"),
        ),
        (
            "nothing",
            one(&["bench", "pairs"], "modelled-gpu-node.jsonl"),
        ),
        ("log", page(&["log", log.to_str().unwrap()])),
        ("topo", one(&["topo"], "modelled-gpu-nvml.jsonl")),
    ]
}

#[test]
fn pages_have_drawings_with_the_words_of_the_text_report() {
    let pages = pages();
    let of = |wanted: &str| &pages.iter().find(|(name, _)| *name == wanted).unwrap().1;
    let text = doctor(&["check", &fixture("modelled-gpu-node-faults.jsonl")]).stdout;
    let text = String::from_utf8(text).unwrap();
    let headline = text.lines().next().unwrap().strip_prefix("ERROR ").unwrap();
    assert!(
        of("node").contains(&format!("<h1>{headline}</h1>")),
        "{headline}"
    );
    // The narrow link, by its verdict; the GPU that is gone; and a command that can be copied.
    assert!(of("node").contains("<g class=\"hop error narrow\"><title>PCIe 4.0 x16 (of 5.0 x16)"));
    assert!(of("node").contains("<g class=\"error\"><title>GPU7  0000:4a:00.0 "));
    assert!(
        of("node").contains(
            "<pre class=\"command\">lspci -vv -s 0000:18:00.0\nlspci -vv -s 0000:26:00.0\n"
        )
    );
    assert!(of("nvlink").contains(">NV1 to NV18 between GPUs</text>"));
    assert!(of("nvlink").contains("<path class=\"error\" d=\"M"));
    for (name, drawn) in [
        ("cluster", "<td class=\"odd\">"),
        ("triage", "<svg class=\"node\""),
        ("triage", "<g class=\"slower\">"),
        ("ablate", ">ceiling 274 GB/s</text>"),
        ("pairs", "<td class=\"failed\" title=\""),
        ("p2p", "<td class=\"h0\" title=\"GPU 0 to GPU 1: "),
        ("parts", "node-2 makes it slow"),
        ("cluster", "<td class=\"good\">ok"),
        ("log", "<h1>RDMA: used."),
        ("topo", ">NV18 between GPUs</text>"),
        ("topo", "GPU0 X    NV18 NV18"),
    ] {
        assert!(of(name).contains(drawn), "{name}: {drawn}");
    }
    assert_eq!(of("each").matches("<h1>").count(), 3);
    for (name, page) in &pages {
        assert_closed(page);
        assert!(page.len() < 300_000, "{name}: {} bytes", page.len());
    }
}

#[test]
fn bandwidth_over_size_has_its_knee() {
    let out = scratch("latency.jsonl");
    let path = out.to_str().unwrap();
    let run = [
        "bench",
        "latency",
        "--backend",
        "tcp",
        "--ranks",
        "2",
        "--size",
        "8M",
        "--trials",
        "1",
        "--record",
        path,
    ];
    let measured = page(&run);
    assert_closed(&measured);
    assert!(measured.contains("<polyline points=\""), "{measured}");
    let text = String::from_utf8(doctor(&["bench", "latency", path]).stdout).unwrap();
    // The recording gives the same chart. On a busy machine the sizes may lie on no line.
    let replayed = page(&["bench", "latency", path]);
    let knee = |page: &str| {
        Some(
            page.split_once(">knee at ")?
                .1
                .split_once('<')?
                .0
                .to_owned(),
        )
    };
    assert_eq!(knee(&measured), knee(&replayed));
    if let Some(knee) = knee(&replayed) {
        assert!(
            text.contains(&format!("the knee is at {knee}: ")),
            "{knee}: {text}"
        );
    }
}

/// A recording in which each reply, or each of these names, is hostile.
fn poisoned(name: &str, names: &[&str]) -> PathBuf {
    let recording = Recording::open(Path::new(&fixture(name))).unwrap();
    let quoted = serde_json::to_string(POISON).unwrap();
    let quoted = quoted.trim_matches('"');
    let mut text = recording_text::to_text(&recording, None);
    for name in names {
        text = text.replace(name, &format!("{name}{quoted}"));
    }
    if names.is_empty() {
        let line = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            for part in ["text", "names", "value", "node", "altered"] {
                if let Some(value) = line.get_mut(part) {
                    poison(value);
                }
            }
            format!("{line}\n")
        };
        text = text.lines().map(line).collect();
    }
    let path = scratch(&format!("poisoned-{}-{name}", names.len()));
    std::fs::write(&path, text).unwrap();
    path
}

fn poison(value: &mut Value) {
    match value {
        // What ends in a line break, or is a number, would be read as nothing: the text around the poison stays.
        Value::String(text) => *text = format!("{}{POISON}\n", text.trim_end()),
        Value::Array(items) => items.iter_mut().for_each(poison),
        Value::Object(members) => members.values_mut().for_each(poison),
        _ => {}
    }
}

/// What the browser must have of a hostile page: not one element or attribute of the poison.
fn hostile() -> Vec<String> {
    let mut pages = Vec::new();
    for (name, command) in [
        ("modelled-gpu-nvml.jsonl", "check"),
        ("modelled-gpu-nvml.jsonl", "topo"),
        ("modelled-ablation-no-p2p.jsonl", "triage"),
    ] {
        for names in [&["mlx5_1", "H100", "ib-node", "NCCL", "ib2"][..], &[]] {
            let path = poisoned(name, names);
            pages.push(page(&[command, path.to_str().unwrap()]));
        }
    }
    for (name, names) in [
        ("modelled-pairs-bad.jsonl", &["n2", "eth0"]),
        ("modelled-gpu-copies-faults.jsonl", &["H100", "CUDA"]),
    ] {
        let command = if name.contains("pairs") {
            "pairs"
        } else {
            "p2p"
        };
        pages.push(page(&[
            "bench",
            command,
            poisoned(name, names).to_str().unwrap(),
        ]));
    }
    pages
}

#[test]
fn text_of_a_recording_is_never_markup() {
    let pages = hostile();
    for page in &pages {
        assert_closed(page);
        assert!(!page.contains("alert(1)</script>") && !page.contains("\" onmouseover"));
    }
    let planted = pages
        .iter()
        .filter(|page| page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(planted.count() >= 6, "the poison reaches the pages");
    let svg = doctor(&[
        "topo",
        "--format",
        "svg",
        poisoned("modelled-gpu-nvml.jsonl", &["mlx5_1", "H100"])
            .to_str()
            .unwrap(),
    ]);
    let svg = String::from_utf8(svg.stdout).unwrap();
    assert!(
        svg.contains("mlx5_1&lt;scri") && !svg.contains("<script"),
        "{svg:.400}"
    );
}

/// The document as Chromium has it once it is loaded, and what its console says.
fn in_browser(name: &str, page: &str, fragment: &str) -> Option<(String, String)> {
    in_sized_browser(name, page, fragment, "--window-size=1280,900")
}

/// The same in a window of this size.
fn in_sized_browser(
    name: &str,
    page: &str,
    fragment: &str,
    size: &str,
) -> Option<(String, String)> {
    let file = scratch(&format!("{name}.html"));
    std::fs::write(&file, page).unwrap();
    let profile = scratch(&format!("{name}-profile"));
    let start = || {
        Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                size,
            ])
            .args(["--enable-logging=stderr", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("file://{}{fragment}", file.display()))
            .stdin(Stdio::null())
            .output()
    };
    let mut out = start();
    // A browser that crashes says nothing of the page.
    for _ in 0..2 {
        // What is left of a profile is in the target folder.
        let _ = std::fs::remove_dir_all(&profile);
        if out.as_ref().is_ok_and(|out| !out.status.success()) {
            out = start();
        }
    }
    let _ = std::fs::remove_dir_all(&profile);
    match out {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        out => {
            let out = out.unwrap();
            let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
            let console = stderr.lines().filter(|line| line.contains("CONSOLE"));
            let console = console.collect::<Vec<_>>().join("\n");
            assert!(out.status.success(), "{stderr}");
            Some((String::from_utf8(out.stdout).unwrap(), console))
        }
    }
}

/// How many nodes of the document an XPath finds.
fn count(dom: &str, path: &str) -> usize {
    let file = scratch(&format!("dom-{}.html", std::process::id()));
    std::fs::write(&file, dom).unwrap();
    let out = Command::new("xmllint")
        .args([
            "--html",
            "--noout",
            "--nowarning",
            "--xpath",
            &format!("count({path})"),
        ])
        .arg(&file)
        .output()
        .unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    out.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{path}: {out}"))
}

#[test]
fn a_browser_opens_each_page_without_an_error() {
    let faults = page(&["check", &fixture("modelled-gpu-node-faults.jsonl")]);
    let Some((dom, console)) = in_browser("faults", &faults, "") else {
        return skipped("chromium");
    };
    assert_eq!(console, "");
    assert_eq!(count(&dom, "//p[@class='filter'][@hidden]"), 0);
    let rows = "//details[@id='facts']//tr[not(@class='head')]";
    let all = count(&dom, rows);
    assert_eq!(count(&dom, &format!("{rows}[@hidden]")), 0);

    // The filter, filled from the address.
    let (dom, console) = in_browser("faults", &faults, "#facts=port%20RATE").unwrap();
    assert_eq!(console, "");
    let shown = format!("{rows}[not(@hidden)][not(../@hidden)]");
    let count_shown = count(&dom, &shown);
    assert!(
        (4..all / 10).contains(&count_shown),
        "{count_shown} of {all}"
    );
    assert_eq!(
        count(&dom, &format!("{shown}[not(contains(., 'rate'))]")),
        0
    );
    assert_eq!(count(&dom, "//details[@id='facts'][@open]"), 1);

    for (name, page) in pages() {
        let (dom, console) = in_browser(name, &page, "").unwrap();
        assert_eq!(console, "", "{name}");
        assert_eq!(count(&dom, "//script"), 1, "{name}");
    }
    // The console tells of a style that the policy does not admit.
    let (_, console) = in_browser("refused", &faults.replace("<style>", "<style> "), "").unwrap();
    assert!(console.contains("Content Security Policy"), "{console}");
}

/// What a page is asked once it is laid out: how wide it is, and which labels of a drawing lie on
/// each other.
const LAYOUT: &str = r#"<script>
const labels = [...document.querySelectorAll("svg text")].filter((text) => text.textContent.trim());
const boxes = labels.map((text) => text.getBoundingClientRect());
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5;
const pairs = [];
for (let i = 0; i < boxes.length; i++)
  for (let j = 0; j < i; j++)
    if (labels[i].closest("svg") === labels[j].closest("svg") && meet(boxes[i], boxes[j])) pairs.push(`${labels[j].textContent} | ${labels[i].textContent}`);
document.body.dataset.width = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.dataset.overlaps = pairs.slice(0, 5).join(" ; ");
</script></body>"#;

/// By how much a page is wider than a window of this width, and which labels lie on each other.
fn layout(name: &str, page: &str, width: &str) -> Option<(String, String)> {
    let policy = "<meta http-equiv=\"Content-Security-Policy\"";
    let (before, rest) = page.split_once(policy).unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let asked = format!("{before}{rest}").replace("</body>", LAYOUT);
    let size = format!("--window-size={width},900");
    let (dom, _) = in_sized_browser(name, &asked, "", &size)?;
    let said = |key: &str| {
        let rest = dom.split(&format!("data-{key}=\"")).nth(1);
        let value = rest.and_then(|rest| rest.split('"').next());
        value
            .unwrap_or_else(|| panic!("{name}: no {key}"))
            .to_owned()
    };
    Some((said("width"), said("overlaps")))
}

#[test]
fn no_page_is_wider_than_its_window_and_no_label_lies_on_another() {
    let pages = pages();
    // A page with both faults is found.
    let faults = "<svg><text x=\"10\" y=\"20\">one</text><text x=\"12\" y=\"20\">two</text></svg>\
                  <p style=\"width: 3000px\">x</p></main>";
    let broken = pages[0].1.replace("</main>", faults);
    let Some((width, overlaps)) = layout("broken", &broken, "390") else {
        return skipped("chromium");
    };
    assert!(
        width.parse::<u32>().is_ok_and(|width| width > 2000),
        "{width}"
    );
    assert_eq!(overlaps, "one | two");
    for (name, page) in pages {
        for width in ["390", "1280"] {
            let found = layout(name, &page, width);
            assert_eq!(
                found,
                Some(("0".into(), String::new())),
                "{name} at {width}"
            );
        }
    }
}

#[test]
fn a_browser_finds_no_markup_of_a_recording() {
    for (at, page) in hostile().iter().enumerate() {
        let Some((dom, console)) = in_browser(&format!("hostile-{at}"), page, "") else {
            return skipped("chromium");
        };
        assert_eq!(console, "");
        assert_eq!(count(&dom, "//script"), 1);
        assert_eq!(
            count(
                &dom,
                "//@*[starts-with(name(), 'on')] | //img | //iframe | //@style"
            ),
            0
        );
    }
}
