use super::{LOSES_PACKETS, RATE_DEGRADED, load, named, strict};
use crate::check::{
    Advice, Catalogue, Check, Impact, Severity, SiteFile, catalogue::read, limits, try_example,
};
use crate::fact::{Facts, Subject, kernel_event};

fn two() -> Catalogue {
    let files = [
        ("link/loses-packets", LOSES_PACKETS),
        ("link/rate-degraded", RATE_DEGRADED),
    ];
    Catalogue {
        checks: (files.into_iter())
            .flat_map(|(id, text)| read(id, id.into(), text.into()).unwrap())
            .collect(),
        areas: crate::check::areas::embedded().unwrap(),
        ..Catalogue::default()
    }
}

#[test]
fn the_example_of_the_design_loads_and_its_examples_hold() {
    let check = load(RATE_DEGRADED).unwrap();
    assert_eq!(
        (check.severity, &*check.area, check.subject),
        (Severity::Error, "ports", Subject::Port)
    );
    assert_eq!(check.advice().see.len(), 1);
    assert!(check.explains(&named("cluster/slow-rail")) && !check.explains(&named("cluster/slow")));
    assert_eq!(
        check.fails.text(),
        "port.rate < port.max_rate and port.rate < port.cable_rate"
    );
    assert!(
        check
            .advice()
            .fix
            .source()
            .starts_with("1. (operator) Reseat")
    );
    let examples = check.examples().unwrap();
    assert_eq!(
        examples.iter().map(|e| e.line).collect::<Vec<_>>(),
        [17, 19, 21]
    );
    for example in &examples {
        try_example(&check, example).unwrap();
    }
}

#[test]
fn a_check_says_what_it_does_to_a_job_or_leaves_it_out() {
    assert_eq!(load(RATE_DEGRADED).unwrap().impact, None);
    let with = |word: &str| {
        RATE_DEGRADED.replace("\nsubject ", &format!("\nimpact = \"{word}\"\nsubject "))
    };
    for &impact in Impact::ALL {
        assert_eq!(load(&with(impact.word())).unwrap().impact, Some(impact));
    }
    let check = load(&with("slows")).unwrap();
    assert_eq!(check.gravity(), "error that slows a job down");
    let error = load(&with("slow")).unwrap_err().to_string();
    assert!(
        error.contains("there is no impact `slow`") && error.contains("write \"slows\""),
        "{error}"
    );
}

#[test]
fn facts_of_examples_can_be_written_in_three_ways() {
    let check = load(LOSES_PACKETS).unwrap();
    assert!(check.explains(&named("bench/anything")));
    let examples = check.examples().unwrap();
    assert_eq!(
        examples.iter().map(|e| e.facts.len()).collect::<Vec<_>>(),
        [3, 3, 2, 1]
    );
    for example in &examples {
        try_example(&check, example).unwrap();
    }
    // An example that does not hold says what came out.
    let wrong = LOSES_PACKETS.replace("\"30 /min\"", "\"90 /min\"");
    let check = load(&wrong).unwrap();
    let problem = try_example(&check, &check.examples().unwrap()[1]).unwrap_err();
    assert!(
        problem.contains("expects `passes`, the check says `fails`"),
        "{problem}"
    );
    assert!(
        problem.contains("counter.rate = 1.5 /s, limit.rate = 1 /s"),
        "{problem}"
    );
}

#[test]
fn examples_are_found_wherever_they_stand() {
    for text in [
        RATE_DEGRADED.replace("\n[[example]]", "\n  [[ example ]]"),
        RATE_DEGRADED.replacen("\n[[example]]", "\n[[ example ]]", 1),
        RATE_DEGRADED.replace('\n', "\r\n"),
        RATE_DEGRADED.replace("fix = \"\"\"\n", "fix = \"\"\"\n[[example]]\n"),
    ] {
        assert_eq!(load(&text).unwrap().examples().unwrap().len(), 3, "{text}");
    }
}

#[test]
fn checks_are_chosen_by_id_and_pattern() {
    let ids = |c: &Catalogue| {
        c.checks
            .iter()
            .map(|c| c.id.to_string())
            .collect::<Vec<_>>()
    };
    let select = |only: &[&str], skip: &[&str]| {
        let mut catalogue = two();
        let list = |l: &[&str]| l.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        catalogue
            .select(&list(only), &list(skip))
            .map(|()| ids(&catalogue))
    };
    assert_eq!(select(&[], &[]).unwrap().len(), 2);
    assert_eq!(
        select(&["link/*"], &["*packets"]).unwrap(),
        ["link/rate-degraded"]
    );
    assert_eq!(
        select(&["link/loses-packets"], &[]).unwrap(),
        ["link/loses-packets"]
    );
    let error = select(&["link/rate-degrade"], &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "no check is named `link/rate-degrade`; the nearest is `link/rate-degraded`"
    );
    assert!(select(&[], &["roce/*"]).is_err());
    assert!(two().get("link/rate-degraded").is_some() && two().get("link").is_none());
}

#[test]
fn a_site_overrides_a_limit_by_one_of_its_type() {
    let mut catalogue = two();
    let set = |catalogue: &mut Catalogue, text: &str| limits::apply(catalogue, "limits.toml", text);
    set(
        &mut catalogue,
        "[\"link/loses-packets\"]\nrate = \"100 /s\"\n",
    )
    .unwrap();
    let check = catalogue.get("link/loses-packets").unwrap();
    assert!(try_example(check, &check.examples().unwrap()[0]).is_err());
    for (text, expected) in [
        (
            "[\"link/loses-packets\"]\nrate = 7",
            "limit `rate` of check `link/loses-packets`: `7` is not a frequency (/s, /min, /h)\n --> limits.toml:2:8",
        ),
        (
            "[\"link/loses-packets\"]\nrat = \"7 /s\"",
            "no limit `rat`; the nearest is `rate`",
        ),
        (
            "[\"link/loses-packets\"]\nrate = \"fast\"",
            "`fast` is neither a number nor a quantity",
        ),
        ("[\"link/loses-packets\"]\nrate = []", "is not a frequency"),
        (
            "[\"link/loses-packets\"]\nrate = [1, \"2\"]",
            "a whole number, not negative is expected",
        ),
        (
            "[\"link/loses\"]\nrate = \"7 /s\"",
            "no check is named `link/loses`\n --> limits.toml:1:2",
        ),
        ("rate = \"7 /s\"", "a table"),
    ] {
        let error = set(&mut catalogue, text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn what_number_is_meant_is_data() {
    let text = RATE_DEGRADED
        .replace("{device.pci}", "PCI")
        .replace("subject  = \"port\"", "subject  = \"kernel_event\"")
        .replace(
            "port.intended and port.state == \"active\"",
            "kernel_event.seen",
        )
        .replace(
            "port.rate < port.max_rate and port.rate < port.cable_rate",
            "kernel_event.code in limit.codes",
        )
        .replace(
            "{port} trained at {port.rate}; port and cable allow {port.max_rate}",
            "one of {limit.codes}",
        );
    let head = text.split("\n[[example]]").next().unwrap();
    let with = |limits: &str, fails: &str| {
        let text = head.replace("kernel_event.code in limit.codes", fails);
        let text = format!("{text}\n[limits]\n{limits}\n");
        read("kernel/some", "some.toml".into(), text.into())
    };
    let mut catalogue = Catalogue {
        checks: with("codes = [48, 79]", "kernel_event.code in limit.codes").unwrap(),
        ..Catalogue::default()
    };
    let outcome = |catalogue: &Catalogue, code: u64| {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let id = facts.instance(Subject::KernelEvent, node, "e");
        facts.derive(id, kernel_event::SEEN, true, "stated");
        facts.derive(id, kernel_event::CODE, code, "stated");
        catalogue.checks[0].judge(&facts, id).word()
    };
    assert_eq!(outcome(&catalogue, 79), "fails");
    assert_eq!(outcome(&catalogue, 63), "passes");
    limits::apply(&mut catalogue, "l", "[\"kernel/some\"]\ncodes = [63]").unwrap();
    assert_eq!(outcome(&catalogue, 79), "passes");
    assert_eq!(outcome(&catalogue, 63), "fails");
    limits::apply(&mut catalogue, "l", "[\"kernel/some\"]\ncodes = []").unwrap();
    assert_eq!(outcome(&catalogue, 63), "passes");
    for (limits, fails, expected) in [
        (
            "codes = [48, 79]",
            "kernel_event.line in limit.codes",
            "`kernel_event.line` is not a number",
        ),
        (
            "codes = [48, 79]",
            "3 in limit.codes",
            "a constant decides nothing",
        ),
        ("codes = [48, 79]", "limit.codes", "a list of whole numbers"),
        (
            "codes = [\"a\"]",
            "kernel_event.code in limit.codes",
            "`kernel_event.code` is not text",
        ),
        (
            "codes = [1.5]",
            "kernel_event.code in limit.codes",
            "a whole number",
        ),
    ] {
        let error = with(limits, fails).unwrap_err().to_string();
        assert!(error.contains(expected), "{limits} {fails}: {error}");
    }
}

#[test]
fn ids_are_plain_and_unique() {
    for id in [
        "Link/x", "link/x y", "link//x", "/x", "a/b/c", "link/x.y", "", "../x",
    ] {
        let error = read(id, "f".into(), RATE_DEGRADED.into())
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not an id"), "{id}: {error}");
    }
}

fn site_file(inside: &str, text: &str) -> SiteFile {
    SiteFile {
        inside: inside.into(),
        name: format!("/site/{inside}"),
        text: text.into(),
    }
}

#[test]
fn a_site_adds_checks_and_cannot_replace_one() {
    let limits = "[\"link/loses-packets\"]\nrate = \"3 /s\"\n";
    let site = || {
        let checks = ["site/own.toml", "flat.toml", "..data/site/own.toml"];
        let checks = checks.map(|inside| site_file(inside, RATE_DEGRADED));
        checks.into_iter().chain([site_file("limits.toml", limits)])
    };
    let mut catalogue = two();
    catalogue.add_site(site()).unwrap();
    let set = &catalogue.get("link/loses-packets").unwrap().limits[0].1;
    assert_eq!(set.to_string(), "3 /s");
    let ids: Vec<&str> = catalogue.checks.iter().map(|c| &*c.id).collect();
    assert_eq!(
        ids,
        [
            "flat",
            "link/loses-packets",
            "link/rate-degraded",
            "site/own"
        ]
    );
    let error = catalogue.add_site(site()).unwrap_err().to_string();
    assert!(error.contains("is already defined in"), "{error}");
    // A site's examples are read by `explain`, not by every check of a node.
    let wrong = RATE_DEGRADED.replace("\nfails = {", "\nfail = {");
    let mut with_site = two();
    with_site
        .add_site([site_file("flat.toml", &wrong)])
        .unwrap();
    let error = with_site.get("flat").unwrap().examples().unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("unknown key `fail`") && error.contains("flat.toml:18:1"),
        "{error}"
    );
}

#[test]
fn the_built_in_checks_are_asked_for_more() {
    let complaints = |from: &str, to: &str| {
        assert!(RATE_DEGRADED.contains(from), "{from}");
        let text = RATE_DEGRADED
            .replace(
                "\narea     = \"ports\"",
                "\nimpact = \"slows\"\narea     = \"ports\"",
            )
            .replace("cluster/slow-rail", "link/loses-packets")
            .replace("bench/below-ceiling", "link/l*");
        let mut catalogue = two();
        catalogue.checks[1] = read(
            "link/rate-degraded",
            "p".into(),
            text.replacen(from, to, 1).into(),
        )
        .unwrap()
        .remove(0);
        let found = strict::complaints(&catalogue);
        // The other check explains what this small catalogue does not have.
        let other = found.iter().filter(|c| c.contains("`bench/*`")).count();
        assert_eq!(other, 1, "{found:?}");
        found
            .into_iter()
            .filter(|c| c.starts_with("p: "))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(complaints("title", "title"), "");
    for (from, to, expected) in [
        ("A port runs", "A port should run", "`title` says `should`"),
        (
            "Reseat the cable",
            "Please reseat the cable",
            "`fix` says `please`",
        ),
        ("trained at", "trained! at", "`finding` says `!`"),
        (
            "(operator) Reseat",
            "Reseat",
            "step 1 of `fix` names none of",
        ),
        (
            "2. (operator)",
            "3. (operator)",
            "step 3 of `fix` is number 2",
        ),
        (
            "https://docs.kernel.org/infiniband/sysfs.html",
            "",
            "`see` names no page",
        ),
        ("fails = {", "unknown = {", "no example shows `fails`"),
        (
            "\"port.rate\" = \"200 Gb/s\"",
            "\"port.rate\" = \"400 Gb/s\"",
            "expects `fails`, the check says `passes`",
        ),
        ("link/l*", "roce/*", "`explains` names `roce/*`"),
        (
            "title    = \"A port",
            "title = \"A.\" # ",
            "`title` names the problem",
        ),
    ] {
        let from = if from == "link/l*" {
            "bench/below-ceiling"
        } else {
            from
        };
        let found = if from == "bench/below-ceiling" {
            let mut catalogue = two();
            catalogue.checks[1] = read(
                "link/rate-degraded",
                "p".into(),
                RATE_DEGRADED.replace(from, to).into(),
            )
            .unwrap()
            .remove(0);
            strict::complaints(&catalogue).join("\n")
        } else {
            complaints(from, to)
        };
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// Each has its examples and they hold, its finding and its remedy keep to the project's words, what it explains exists.
#[test]
fn every_built_in_check_keeps_the_rules() {
    let complaints = strict::complaints(&Catalogue::embedded_with_examples().unwrap());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_program_has_what_each_file_says() {
    let built = Catalogue::embedded().unwrap();
    let whole = Catalogue::embedded_with_examples().unwrap();
    assert_eq!(built.checks.len(), whole.checks.len());
    for (built, whole) in built.checks.iter().zip(&whole.checks) {
        let said = |check: &Check| {
            let judged = (&check.applies, &check.fails, check.finding());
            let words = (&check.title, &check.explains, &check.aliases, &check.path);
            let kind = (&check.id, check.severity, check.impact, &check.area);
            let kind = (kind, check.subject, &check.premises);
            let mut limits = check.limits.clone();
            limits.sort_by(|(a, _), (b, _)| a.cmp(b));
            format!("{kind:?} {words:?} {judged:?} {limits:?}")
        };
        assert_eq!(said(built), said(whole));
    }
}

#[test]
fn the_program_has_the_advice_of_each_file() {
    let packed = Catalogue::embedded().unwrap();
    let whole = Catalogue::embedded_with_examples().unwrap();
    assert_eq!(packed.checks.len(), whole.checks.len());
    for (packed, whole) in packed.checks.iter().zip(&whole.checks) {
        let (packed, whole) = (packed.advice(), whole.advice());
        assert_eq!(packed.why, whole.why);
        assert_eq!(packed.see, whole.see);
        assert_eq!(packed.fix.source(), whole.fix.source());
        let facts = |advice: &Advice| advice.fix.facts().collect::<Vec<_>>();
        assert_eq!(facts(packed), facts(whole));
        assert!(!packed.why.is_empty());
    }
}
