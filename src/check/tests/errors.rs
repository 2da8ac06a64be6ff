use super::{RATE_DEGRADED, check, load};

/// The rendered error of a condition.
fn refused(fails: &str) -> String {
    match check("port", "", fails) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("`{fails}` is accepted"),
    }
}

#[test]
fn conditions_that_make_no_sense_are_refused_with_a_reason() {
    for (condition, expected) in [
        // Names.
        (
            "port.stat == \"active\"",
            &["there is no fact `port.stat`", "write `port.state`"][..],
        ),
        (
            "prot.state == \"active\"",
            &["there is no fact `prot.state`", "write `port.state`"],
        ),
        (
            "port.firmware == \"1\"",
            &[
                "there is no fact `port.firmware`",
                "write `device.firmware`",
            ],
        ),
        (
            "state == \"active\"",
            &["`state` is not a fact", "write `port.state`"],
        ),
        (
            "port.state == active",
            &["`active` is not a fact", "a text or a word `\"active\"`"],
        ),
        (
            "gid.type == \"roce-v2\"",
            &[
                "`gid.type` is out of scope",
                "sees the facts of port, device, node, cluster",
            ],
        ),
        (
            "counter.rate > 1 /s",
            &[
                "out of scope",
                "there may be none or several of subject counter",
            ],
        ),
        (
            "port.rate > limit.sped",
            &["`limit.sped` is not stated", "write `limit.speed`"],
        ),
        (
            "zzz.qqq",
            &["there is no fact `zzz.qqq`", "sees the facts of"],
        ),
        // Words.
        (
            "port.state == \"activ\"",
            &[
                "`activ` is none of the words",
                "no-change, down, init",
                "write `\"active\"`",
            ],
        ),
        (
            "port.state in [\"active\", \"dwon\"]",
            &["`dwon` is none of the words", "write `\"down\"`"],
        ),
        // Types.
        (
            "port.rate > 200",
            &["cannot be compared", "write its unit: `200 Gb/s`"],
        ),
        (
            "port.rate > 4096 B",
            &["`port.rate` and `4096 B` cannot be compared", "a bit rate"],
        ),
        ("port.lid == \"7\"", &["cannot be compared"]),
        ("port.state == true", &["cannot be compared"]),
        (
            "port.state < \"active\"",
            &["`port.state` has no order", "`==`"],
        ),
        ("port.netdev > \"a\"", &["`port.netdev` has no order"]),
        ("port.intended < true", &["has no order"]),
        ("min(port.rate, port.mtu) > 1 Gb/s", &["cannot be compared"]),
        (
            "min(port.state, port.state) == \"active\"",
            &["has no order"],
        ),
        (
            "port.lid in [1, 2 s]",
            &["`port.lid` and `2 s` cannot be compared"],
        ),
        ("port.lid in [port.sm_lid]", &["a list holds literals only"]),
        ("port.lid in []", &["nothing is in an empty list"]),
        ("port.lid in port.netdev", &["`port.netdev` is not a list"]),
        (
            "port.lid in node.default_route",
            &["`port.lid` is not text"],
        ),
        (
            "node.default_route in [\"a\"]",
            &["is itself a list", "in node.default_route`"],
        ),
        (
            "node.default_route == [\"a\"]",
            &["a list can stand only behind `in`"],
        ),
        (
            "(port.intended) == (port.has_netdev and port.intended)",
            &["a condition cannot be compared"],
        ),
        // No condition.
        (
            "port.rate",
            &[
                "`port.rate` is not a condition",
                "it is a bit rate",
                "`port.rate > 400 Gb/s`",
            ],
        ),
        (
            "port.state",
            &[
                "`port.state` is not a condition",
                "`port.state == \"no-change\"`",
            ],
        ),
        ("limit.rate", &["`limit.rate` is not a condition"]),
        ("min(port.rate, 1 Gb/s)", &["is not a condition"]),
        ("7", &["`7` is not a condition"]),
        ("", &["the condition is empty"]),
        // Constants.
        ("true", &["a constant decides nothing"]),
        ("port.intended or false", &["a constant decides nothing"]),
        ("1 < 2", &["a constant decides nothing"]),
        ("limit.rate > 1 /s", &["a constant decides nothing"]),
        // Writing.
        (
            "port.intended && port.has_netdev",
            &["`&` does not belong here", "write `and`"],
        ),
        (
            "!port.intended",
            &["`!` does not belong here", "write `not`"],
        ),
        ("port.lid = 7", &["`=` does not belong here", "write `==`"]),
        ("port.lid + 1 > 7", &["there is no arithmetic"]),
        ("port.lid > -1", &["no negative numbers"]),
        (
            "1 < port.lid < 3",
            &["comparisons cannot be chained", "`and`"],
        ),
        (
            "port.state not in [\"active\"]",
            &["`not` does not belong here", "before the whole comparison"],
        ),
        (
            "port.intended(port.netdev)",
            &["`(` does not belong here", "there are no calls"],
        ),
        (
            "port.intended port.has_netdev",
            &["join conditions with `and` or `or`"],
        ),
        ("(port.intended", &["`)` is expected, not the end"]),
        ("port.lid in [1 2]", &["`]` is expected"]),
        ("min(port.rate) > 1 Gb/s", &["`,` is expected, not `)`"]),
        (
            "port.rate > 400 Gbps",
            &["`Gbps` is not a unit", "write `Gb/s`"],
        ),
        ("port.mtu > 4 KB", &["`KB` is not a unit", "write `KiB`"]),
        ("port.lid > 1.5", &["`1.5` has no unit"]),
        ("port.lid > 99999999999999999999", &["is too large"]),
        ("port.netdev == \"a", &["a text does not end"]),
        ("port.netdev == \"\\n\"", &["unknown escape"]),
        ("port.intended and", &["is expected, not the end"]),
        ("port.netdev == 'a'", &["`'` does not belong here"]),
        ("port.intended and \u{202e}", &["does not belong here"]),
    ] {
        let error = refused(condition);
        for part in expected {
            assert!(
                error.contains(part),
                "`{condition}`: {part:?} is missing in\n{error}"
            );
        }
        assert!(
            error.contains("checks/link/x.toml:4:"),
            "{condition}\n{error}"
        );
    }
}

#[test]
fn hostile_nesting_and_size_are_refused() {
    for (open, close) in [("(", ")"), ("not ", ""), ("not (", ")"), ("min(", "")] {
        let text = format!(
            "{}port.intended{}",
            open.repeat(30_000),
            close.repeat(30_000)
        );
        let error = check("port", "", &text).unwrap_err().to_string();
        assert!(
            error.contains("nested deeper than 64 levels") || error.contains("larger than"),
            "{error}"
        );
        assert!(error.len() < 600_000);
    }
    let deep = format!("{}port.intended{}", "(".repeat(64), ")".repeat(64));
    assert!(check("port", "", &deep).is_ok());
    let wide = vec!["port.intended"; 10_000].join(" and ");
    assert!(check("port", "", &wide).is_ok());
    let tables = format!("{RATE_DEGRADED}x = {}", "[".repeat(100_000));
    assert!(load(&tables).and_then(|c| c.examples()).is_err());
    let error = load(&" ".repeat(300 << 10)).unwrap_err().to_string();
    assert_eq!(error, "error: checks/link/x.toml: larger than 256 KiB");
}
