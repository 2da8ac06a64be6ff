use super::{RATE_DEGRADED, load};

#[test]
fn files_that_make_no_sense_are_refused_with_a_reason() {
    for (from, to, expected) in [
        (
            "severity = \"error\"",
            "severity = \"eror\"",
            &["there is no severity `eror`", "write \"error\"", ":2:12"][..],
        ),
        (
            "area     = \"ports\"",
            "open = \"notes\"",
            &["unknown key `open`"],
        ),
        (
            "subject  = \"port\"",
            "subject = \"prot\"",
            &["there is no subject `prot`", "write \"port\""],
        ),
        (
            "explains =",
            "explain =",
            &["unknown key `explain`", "write `explains`"],
        ),
        (
            "title    =",
            "titel =",
            &["unknown key `titel`", "write `title`", ":1:1"],
        ),
        ("fails    =", "# ", &["the key `fails` is missing"]),
        (
            "explains = [",
            "explains = [1, ",
            &["a text is expected", "this is of type integer"],
        ),
        (
            "see      = [",
            "see = 7 # ",
            &["a list of texts is expected"],
        ),
        (
            "{port.rate};",
            "{port.raet};",
            &["there is no fact `port.raet`", "write `port.rate`", ":7:32"],
        ),
        (
            "{device.pci}",
            "{device.pc}",
            &["there is no fact `device.pc`", ":13:36"],
        ),
        ("title    = \"", "title    = ", &["checks/link/x.toml:1:"]),
    ] {
        assert!(RATE_DEGRADED.contains(from), "{from}");
        let error = load(&RATE_DEGRADED.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        for part in expected {
            assert!(error.contains(part), "{part:?} is missing in\n{error}");
        }
    }
}

#[test]
fn examples_that_make_no_sense_are_refused_with_a_reason() {
    for (from, to, expected) in [
        (
            "\nfails = {",
            "\nfail = {",
            &["unknown key `fail`", "write `fails`"][..],
        ),
        (
            "about ",
            "abuot ",
            &["unknown key `abuot`", "write `about`"],
        ),
        (
            "\"port.rate\" = \"200 Gb/s\"",
            "\"port.rat\" = \"200 Gb/s\"",
            &["there is no fact `port.rat`", ":18:"],
        ),
        (
            "\"port.rate\" = \"200 Gb/s\"",
            "\"port.rate\" = \"200 B\"",
            &["a bit rate (Gb/s) is expected"],
        ),
        (
            "\"port.rate\" = \"200 Gb/s\"",
            "\"port.rate\" = 200",
            &["a bit rate (Gb/s) is expected", "as 400 Gb/s"],
        ),
        (
            "\"port.rate\" = \"200 Gb/s\"",
            "\"port.rate\" = \"fast\"",
            &["neither a number nor a quantity"],
        ),
        (
            "\"port.state\" = \"active\"",
            "\"port.state\" = \"activ\"",
            &["none of the words"],
        ),
        (
            "\"port.intended\" = true",
            "\"port.intended\" = \"yes\"",
            &["true or false is expected"],
        ),
        (
            "{ unknown = \"permission denied\" }",
            "{ unkown = \"x\" }",
            &["unknown key `unkown`"],
        ),
        (
            "{ unknown = \"permission denied\" }",
            "{}",
            &["a value is missing"],
        ),
        (
            "[[example]]\nfails = {",
            "[[example]]\nabout = 'x'\n[[example]]\nfails = {",
            &["an example has one verdict", ":17:1", "fails = { … }"],
        ),
        (
            "[[example]]\nfails = {",
            "[[example]]\npasses = {}\nfails = {",
            &["an example has one verdict"],
        ),
        (
            "[[example]]\nfails = {",
            "[[example]]\nverdict = \"fails\"\nfacts = {",
            &[
                "unknown key",
                "the key of the facts: fails = { … }; write",
                "[[case.example]]",
            ],
        ),
    ] {
        assert!(RATE_DEGRADED.contains(from), "{from}");
        let check = load(&RATE_DEGRADED.replacen(from, to, 1)).unwrap();
        let error = check.examples().unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{part:?} is missing in\n{error}");
        }
    }
}

#[test]
fn an_error_shows_the_place() {
    let text = RATE_DEGRADED.replace("== \"active\"'", "== \"activ\"'");
    insta::assert_snapshot!(load(&text).unwrap_err(), @r#"
    error: `activ` is none of the words
     --> checks/link/x.toml:5:45
      |
    5 | applies  = 'port.intended and port.state == "activ"'
      |                                             ^^^^^^^ the words are no-change, down, init, armed, active, active-defer
      |
    help: write `"active"`
    "#);
    let text = RATE_DEGRADED.replace("port.cable_rate'", "device.cable_rate'");
    insta::assert_snapshot!(load(&text).unwrap_err(), @r"
    error: there is no fact `device.cable_rate`
     --> checks/link/x.toml:6:55
      |
    6 | fails    = 'port.rate < port.max_rate and port.rate < device.cable_rate'
      |                                                       ^^^^^^^^^^^^^^^^^
      |
    help: write `port.cable_rate`
    ");
}

#[test]
fn limits_are_quantities() {
    for (value, expected) in [
        ("\"fast\"", "`fast` is neither a number nor a quantity"),
        ("1.5", "a text is expected"),
        ("-1", "a whole number, not negative is expected"),
        ("\"1 Gbps\"", "`Gbps` is not a unit"),
        ("\"\"", "is neither a number nor a quantity"),
    ] {
        let text = format!("limits.x = {value}\n{RATE_DEGRADED}");
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("x.toml:1:"), "{error}");
    }
    let error = load(&format!("limits.X = 1\n{RATE_DEGRADED}"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a limit's name"), "{error}");
}
