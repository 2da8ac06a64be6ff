//! The manual pages are made from the code: clap's definition, the catalogue, the schema. What is checked in must agree.
//!
//! `RDMA_DOCTOR_BLESS=1` writes them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap_mangen::Man;
use rdma_doctor::check::{Catalogue, FactName, Required};
use rdma_doctor::cli;
use rdma_doctor::exit::Exit;
use rdma_doctor::fact::Subject;

fn compare(page: &str, made: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("man")
        .join(page);
    if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == made,
        "man/{page} is not what the code says: make bless"
    );
}

/// Text as roff wants it: backslashes, leading dots and hyphens that are to stay hyphens.
fn roff(text: &str) -> String {
    text.lines()
        .map(|line| {
            let line = line.trim_end().replace('\\', "\\e").replace('-', "\\-");
            if line.starts_with(['.', '\'']) {
                format!("\\&{line}")
            } else {
                line
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn title(name: &str, section: u8, what: &str) -> String {
    format!(
        ".TH {name} {section} \"\" \"rdma-doctor {}\" \"\"\n.SH NAME\n{} \\- {what}\n",
        env!("CARGO_PKG_VERSION"),
        roff(name)
    )
}

#[test]
fn rdma_doctor_1() {
    let mut command = cli::definition();
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    let mut page = String::from_utf8(page).unwrap();
    page.push_str(".SH COMMANDS\nEach has a page of its own.\n");
    for sub in subcommands(&command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let name = roff(&format!("rdma-doctor-{}", sub.get_name()));
        let _ = writeln!(page, ".TP\n.BR {name} (1)\n{}.", roff(&about));
    }
    page.push_str(".SH EXIT STATUS\nPrecedence: 2, 3, 1, 0. Compatible with Nagios plugins.\n");
    for exit in Exit::ALL {
        let _ = writeln!(page, ".TP\n.B {}\n{}", exit.code(), roff(exit.meaning()));
    }
    page.push_str(include_str!("man/rdma-doctor.1.tail"));
    compare("rdma-doctor.1", &page);
}

/// The page of all checks is made when the program is installed.
#[test]
fn rdma_doctor_checks_7() {
    let run = crate::process::run_doctor(&["explain", "--man"]);
    let page = String::from_utf8(run.stdout).unwrap();
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|l| l.strip_prefix(".SH "))
        .collect();
    for check in &Catalogue::embedded().unwrap().checks {
        assert!(sections.contains(&&*roff(&check.id)), "{}", check.id);
    }
    let requests = page.lines().filter(|line| line.starts_with('.'));
    for request in requests {
        let name = request.split(' ').next().unwrap();
        let known = [".TH", ".SH", ".TP", ".B", ".BR", ".br", ".PP", ".nf", ".fi"];
        assert!(known.contains(&name), "{request}");
    }
}

#[test]
fn rdma_doctor_areas_7() {
    let mut page = title(
        "rdma-doctor-areas",
        7,
        "what a verdict of rdma-doctor is worth",
    );
    page.push_str(include_str!("man/rdma-doctor-areas.7.head"));
    page.push_str(".SH AREAS\n");
    let list = |items: Vec<String>| roff(&items.join(", "));
    for area in Catalogue::embedded().unwrap().areas {
        let required = match &area.required {
            Required::Always(true) => "required".to_owned(),
            Required::Always(false) => "not required".to_owned(),
            Required::If(condition) => {
                format!("required if {}, or if that is not known", condition.text())
            }
        };
        let _ = writeln!(page, ".SS {}\n{}.", roff(&area.name), roff(&required));
        let mut line = |name: &str, items: Vec<String>| {
            if !items.is_empty() {
                let _ = writeln!(page, ".TP\n.B {name}\n{}", list(items));
            }
        };
        let owned = |names: &[std::sync::Arc<str>]| names.iter().map(|n| n.to_string()).collect();
        line("checks of", owned(&area.folders));
        if let Some(exists) = &area.exists {
            line("exists if", vec![exists.text().to_owned()]);
        }
        if let Some((subject, when)) = &area.exists_any {
            let when = when.as_ref().map(|when| format!(" with {}", when.text()));
            let when = when.unwrap_or_default();
            line(
                "exists if",
                vec![format!("there is a {}{when}", subject.name())],
            );
        }
        let members = area.members.iter().map(|m| m.name().to_owned());
        line("members known", members.collect());
        for each in &area.each {
            let of = match &each.when {
                Some(when) => format!(" ({} with {})", each.subject.name(), when.text()),
                None => String::new(),
            };
            let names = |facts: &[FactName]| -> Vec<String> {
                let mut names: Vec<String> = facts.iter().map(|fact| fact.path()).collect();
                if let Some(last) = names.last_mut() {
                    last.push_str(&of);
                }
                names
            };
            line("known", names(&each.facts));
            line("known if offered", names(&each.if_offered));
            if let Some((condition, _)) = &each.examined {
                line("true", vec![format!("{}{of}", condition.text())]);
            }
        }
        line("decided", owned(&area.decided));
        line("privileged", owned(&area.privileged));
    }
    page.push_str(".SH SEE ALSO\n.BR rdma-doctor (1),\n.BR rdma-doctor-checks (7)\n");
    compare("rdma-doctor-areas.7", &page);
}

#[test]
fn rdma_doctor_check_5() {
    let mut page = title("rdma-doctor-check", 5, "format of a check of rdma-doctor");
    page.push_str(include_str!("man/rdma-doctor-check.5.head"));
    page.push_str(".SH FACTS\n");
    for subject in Subject::ALL {
        let schema = subject.schema();
        let within = subject.parent().map_or(String::new(), |p| {
            format!(" In scope too: its {}.", p.name())
        });
        let _ = writeln!(
            page,
            ".SS {}\n{}{within}",
            schema.name,
            roff(schema.doc.trim())
        );
        for fact in schema.facts {
            let _ = writeln!(
                page,
                ".TP\n.B {}.{}\n({}) {}",
                schema.name,
                roff(fact.name),
                roff(&fact.ty.to_string()),
                roff(fact.doc.trim())
            );
        }
    }
    page.push_str(".SH SEE ALSO\n.BR rdma-doctor (1),\n.BR rdma-doctor-checks (7)\n");
    compare("rdma-doctor-check.5", &page);
}

#[test]
fn rdma_doctor_recording_5() {
    let mut page = title(
        "rdma-doctor-recording",
        5,
        "format of a recording of rdma-doctor",
    );
    page.push_str(&format!(
        ".SH VERSION\n{}\n",
        rdma_doctor::source::wire::VERSION
    ));
    page.push_str(include_str!("man/rdma-doctor-recording.5.tail"));
    compare("rdma-doctor-recording.5", &page);
}

/// What is written by hand behind the generated part of a page.
const TAILS: [(&str, &str); 6] = [
    ("advise", include_str!("man/rdma-doctor-advise.1.tail")),
    ("bench", include_str!("man/rdma-doctor-bench.1.tail")),
    (
        "collect-script",
        include_str!("man/rdma-doctor-collect-script.1.tail"),
    ),
    ("job", include_str!("man/rdma-doctor-job.1.tail")),
    ("log", include_str!("man/rdma-doctor-log.1.tail")),
    ("topo", include_str!("man/rdma-doctor-topo.1.tail")),
];

fn subcommands(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let all = command.get_subcommands();
    all.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// Synopsis, description and options.
fn sections(command: &clap::Command) -> String {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    String::from_utf8(page).unwrap()
}

#[test]
fn each_subcommand_has_a_page() {
    let mut command = cli::definition();
    command.build();
    for sub in subcommands(&command) {
        let name = format!("rdma-doctor-{}", sub.get_name());
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let mut page = title(&name, 1, &roff(&about)) + &sections(sub);
        for each in subcommands(sub) {
            // The other collectives have the options of all-reduce.
            if sub.get_name() == "bench"
                && !["p2p", "all-reduce", "latency", "pairs", "flags"].contains(&each.get_name())
            {
                continue;
            }
            let heading = format!(".SH {}", each.get_name().to_uppercase());
            let part = sections(each).replace(".SH SYNOPSIS", &heading);
            let part = part.replace(".SH DESCRIPTION", ".PP");
            page.push_str(&part.replace(".SH OPTIONS", ".PP"));
        }
        // The end of the help: examples, and the exit statuses.
        let end = sub.get_after_help().map(ToString::to_string).unwrap();
        let (examples, statuses) = end.split_once("\n\nExit status: ").unwrap();
        let examples = roff(examples.trim_start_matches("Examples:\n"));
        let _ = writeln!(page, ".SH EXAMPLES\n.nf\n{examples}\n.fi");
        let _ = writeln!(page, ".SH EXIT STATUS\n{}.", roff(statuses));
        let tail = TAILS.iter().find(|(of, _)| *of == sub.get_name());
        page.push_str(tail.map_or("", |(_, tail)| tail));
        compare(&format!("{name}.1"), &page);
    }
}

#[test]
fn rdma_doctor_agents_7() {
    let what = "how a script or an agent triages with rdma-doctor";
    let head = include_str!("man/rdma-doctor-agents.7.head");
    compare(
        "rdma-doctor-agents.7",
        &(title("rdma-doctor-agents", 7, what) + head),
    );
    // What it says of the summary is there, and the example works.
    let example = head
        .lines()
        .find(|line| line.ends_with("| jq .summary"))
        .unwrap();
    let words = example.replace('\\', "");
    let words: Vec<&str> = words
        .split(' ')
        .skip(1)
        .take_while(|word| *word != "|")
        .collect();
    let report = crate::process::run_doctor(&words);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let summary = report["summary"].as_object().unwrap();
    let part = head.split(".SH THE SUMMARY").nth(1).unwrap();
    let part = part.split(".SH RULES").next().unwrap();
    for key in summary
        .keys()
        .filter(|key| !["status", "exit"].contains(&&***key))
    {
        assert!(part.contains(key.as_str()), "{key} is not explained");
    }
    for word in ["proven", "presumed", "open", "none"] {
        assert!(part.contains(&format!(".B {word}\n")), "{word}");
    }
}

/// What is known by its lines, and is no tool that somebody could call.
const OF_NO_COMMAND: [&str; 7] = [
    "alike-rows",
    "counter-table",
    "counters",
    "log",
    "nccl-topology",
    "not-listed",
    "said-settings",
];

#[test]
fn rdma_doctor_evidence_7() {
    let what = "which outputs of tools to post, and what is read of them";
    let mut page = title("rdma-doctor-evidence", 7, what);
    let head = include_str!("man/rdma-doctor-evidence.7.head");
    page.push_str(&head.replace('-', "\\-"));
    // What the page asks for is read.
    for line in head.lines() {
        let Some(command) = line.strip_prefix(".B ").filter(|_| !line.contains('"')) else {
            continue;
        };
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        assert!(rdma_doctor::tool_output::is_read(&argv), "{command}");
    }
    let marks: toml::Table = include_str!("../../src/tool_output/marks.toml")
        .parse()
        .unwrap();
    let names = |key: &str| marks[key].as_array().unwrap().iter();
    let tools = |key: &str| names(key).filter_map(toml::Value::as_str);
    let of_rows = |rows: &str| -> Vec<String> {
        let words = names(rows).map(|row| row[0].as_array().map_or(&row[0], |argv| &argv[0]));
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let mut parts = std::collections::BTreeSet::new();
    for row in names("subjects") {
        let words = row[1].as_array().unwrap().iter();
        let words: Vec<&str> = words.filter_map(toml::Value::as_str).collect();
        parts.insert(format!("{} {}", row[0].as_str().unwrap(), words.join("|")));
    }
    let whole: std::collections::BTreeSet<&str> = tools("read")
        .filter(|tool| !OF_NO_COMMAND.contains(tool))
        .collect();
    let is_read =
        |tool: &String| tools("read").any(|one| one == tool) || of_rows("subjects").contains(tool);
    let known: std::collections::BTreeSet<String> = of_rows("marks")
        .into_iter()
        .filter(|tool| !is_read(tool))
        .collect();
    let list = |items: Vec<String>| roff(&items.join(", "));
    let _ = write!(
        page,
        ".SH TOOLS\n.TP\n.B read, whatever their arguments\n{}\n.TP\n.B read with one of these words\n{}\n\
         .TP\n.B known by their lines, named and not read\n{}\n.PP\nThe XML that NCCL_TOPO_DUMP_FILE names is read as a \
         topology file; tables of nccl\\-tests and perftest are judged with the log in which they stand. Read without a \
         command, too: rows of a counter and its value, tables whose columns count errors, rows of devices or hosts \
         of which one is unlike the others, and settings in a sentence.\n\
         .SH SEE ALSO\n.BR rdma\\-doctor\\-check (1), \n.BR rdma\\-doctor\\-log (1), \n.BR rdma\\-doctor\\-areas (7)\n",
        list(whole.into_iter().map(str::to_owned).collect()),
        list(
            parts
                .into_iter()
                .map(|part| part.replace(" |", " (alone)|"))
                .collect()
        ),
        list(known.into_iter().collect()),
    );
    compare("rdma-doctor-evidence.7", &page);
}

#[test]
fn the_intended_rule_of_the_manual_is_that_of_the_code() {
    let rule = include_str!("../../src/derive/intended.rs");
    let manual = include_str!("man/rdma-doctor-check.5.head");
    for words in [
        "default route",
        "virtual function without a GID",
        "never had link",
        "only RDMA port",
    ] {
        assert!(rule.contains(words) && manual.contains(words), "{words}");
    }
}
