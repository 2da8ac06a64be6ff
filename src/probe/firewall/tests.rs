use super::*;
use crate::fact::ruleset::{Hook, Match, Rule, Values, Verdict};
use crate::probe::testing;

const NFT: &str = include_str!("testdata/nft-1.0.6.json");
const FIREWALLD: &str = include_str!("testdata/firewalld-1.3.3.json");
/// What `nft -a list ruleset` and `nft -j list ruleset` say of one table, and `nft list ruleset` of firewalld's.
const LISTING: &str = include_str!("testdata/listing-1.0.6.txt");
const LISTING_JSON: &str = include_str!("testdata/listing-1.0.6.json");
const FIREWALLD_LISTING: &str = include_str!("testdata/firewalld-1.3.3.txt");
const UFW: &str = include_str!("testdata/ufw-0.36.2.save");
const IPTABLES_JSON: &str = include_str!("testdata/iptables-nft-1.8.9.json");
const IPTABLES_SAVE: &str = include_str!("testdata/iptables-nft-1.8.9.save");

fn rules(ruleset: &Ruleset) -> impl Iterator<Item = &Rule> {
    let chains = ruleset.tables.iter().flat_map(|t| &t.chains);
    chains.flat_map(|c| &c.rules)
}

fn find<'r>(ruleset: &'r Ruleset, part: &str) -> &'r Rule {
    rules(ruleset)
        .find(|rule| rule.text.contains(part))
        .unwrap_or_else(|| panic!("no rule with {part}"))
}

fn is_opaque(step: &Step) -> bool {
    matches!(step, Step::Opaque(_) | Step::OpaqueVerdict(_))
}

/// Matches whose field or values were not understood.
fn is_open(step: &Step) -> bool {
    match step {
        Step::Match(m) => {
            let other = |f: &PacketField| matches!(f, PacketField::Other(_));
            !m.whole || m.any.is_empty() || m.fields.iter().any(other)
        }
        step => is_opaque(step),
    }
}

/// The rules of which the text is read otherwise than JSON, where all else is the same.
fn differing(json: &str, listing: &str) -> Vec<String> {
    let (json, listing) = (nft::ruleset(json).unwrap(), nft::listing(listing).unwrap());
    let titles = |of: &Ruleset| -> Vec<String> { of.tables.iter().map(Table::title).collect() };
    assert_eq!(titles(&json), titles(&listing));
    let chains = |of: &Ruleset| -> Vec<(Arc<str>, Option<Base>)> {
        let chains = of.tables.iter().flat_map(|table| &table.chains);
        chains
            .map(|chain| (Arc::clone(&chain.name), chain.base.clone()))
            .collect()
    };
    assert_eq!(chains(&json), chains(&listing));
    assert_eq!(rules(&json).count(), rules(&listing).count());
    let both = rules(&json).zip(rules(&listing));
    let differing = both.filter(|(json, listing)| json.steps != listing.steps);
    differing
        .map(|(json, listing)| {
            // What is not understood may decide.
            assert!(
                listing
                    .steps
                    .iter()
                    .any(|step| matches!(step, Step::OpaqueVerdict(_))),
                "{json:?} {listing:?}"
            );
            json.text.to_string()
        })
        .collect()
}

#[test]
fn the_plain_listing_says_what_json_says() {
    assert_eq!(
        differing(LISTING_JSON, LISTING),
        [
            "inet filter in handle 24: iifname . tcp dport @ifp accept",
            "inet filter in handle 32: meta mark & 255 16 drop",
            "inet filter in handle 34: meta mark set meta mark | 16",
            "inet filter in handle 51: ct count reject",
        ]
    );
    assert!(differing(FIREWALLD, FIREWALLD_LISTING).is_empty());
    let cut = LISTING.split_at(LISTING.len() / 2).0;
    assert!(nft::listing(cut).is_err());
    // What is no list has no elements.
    let odd = "table ip t {\n set s {\n elements = x\n elements =\n }\n chain c {\n }\n}\n";
    assert_eq!(nft::listing(odd).unwrap().tables.len(), 1);
}

#[test]
fn what_nft_lists_is_understood() {
    let read = nft::ruleset(NFT).unwrap();
    let table = &read.tables[0];
    assert_eq!((table.family, &*table.name), (Family::Inet, "filter"));
    assert_eq!(table.backend, Backend::Nftables);
    let base = table.chain("in").unwrap().base.as_ref().unwrap();
    assert!(base.drops && base.hook == Hook::Input && base.priority == 0);
    assert!(table.chain("sub").unwrap().base.is_none());
    let open: Vec<&str> = rules(&read)
        .filter(|rule| rule.steps.iter().any(is_open))
        .map(|rule| &*rule.text)
        .collect();
    assert_eq!(
        open,
        ["inet filter in handle 55: meta skuid 0 accept"],
        "who owns a socket is not known of a packet"
    );
    let rule = find(&read, "handle 21:");
    assert_eq!(
        &*rule.text,
        "inet filter in handle 21: ip saddr @peers tcp dport @ports accept"
    );
    let [.., Step::Match(ports), Step::Verdict(Verdict::Accept)] = rule.steps.as_slice() else {
        panic!("{rule:?}");
    };
    assert_eq!(ports.fields, [PacketField::DestinationPort]);
    assert_eq!(
        ports.any,
        [vec![Values::Ranges(vec![(22, 22), (1000, 1000)])]]
    );
    let peers = Values::Ranges(vec![
        (0x0a00_0000, 0x0aff_ffff),
        (0xc0a8_0105, 0xc0a8_0105),
        (0xc0a8_020a, 0xc0a8_0214),
    ]);
    assert!(matches!(&rule.steps[1], Step::Match(m) if m.any == [vec![peers]]));
    // The header that a match implies is asked for, though nft leaves it out.
    assert_eq!(
        rule.steps[0],
        Step::Match(Match::is(PacketField::Version, 4))
    );
    assert!(
        find(&read, "handle 35:")
            .steps
            .contains(&Step::Mark(Some((0xffff_ffef, 0x10))))
    );
    assert!(
        matches!(find(&read, "handle 25:").steps.last(), Some(Step::VerdictMap { entries, .. }) if entries.len() == 2)
    );
    let negated = find(&read, "handle 58:")
        .steps
        .iter()
        .any(|s| matches!(s, Step::Match(m) if m.negate));
    assert!(negated);
}

#[test]
fn rules_of_firewalld_are_understood() {
    let read = nft::ruleset(FIREWALLD).unwrap();
    let met = |table: &&Table| &*table.name == "firewalld";
    assert_eq!(read.tables.iter().filter(met).count(), 1);
    let open: Vec<&Rule> = rules(&read)
        .filter(|r| r.steps.iter().any(is_open))
        .collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn rules_of_ufw_are_understood() {
    let tables = iptables::tables(UFW, Family::Ipv4, Backend::IptablesNft).unwrap();
    let ruleset = Ruleset { tables, open: None };
    let open: Vec<&Rule> = rules(&ruleset)
        .filter(|r| r.steps.iter().any(is_open))
        .collect();
    assert!(open.is_empty(), "{open:#?}");
    assert!(find(&ruleset, "--hitcount 6").steps.contains(&Step::Rate));
    assert!(
        !find(&ruleset, "29500 -m conntrack --ctstate NEW -m recent --set")
            .steps
            .contains(&Step::Rate)
    );
}

#[test]
fn iptables_says_what_nft_does_not() {
    let by_nft = nft::ruleset(IPTABLES_JSON).unwrap();
    assert!(
        by_nft
            .tables
            .iter()
            .all(|t| t.backend == Backend::IptablesNft)
    );
    assert!(find(&by_nft, "xt multiport").steps.iter().any(is_opaque));
    let tables = iptables::tables(IPTABLES_SAVE, Family::Ipv4, Backend::IptablesNft).unwrap();
    let ruleset = Ruleset { tables, open: None };
    let open: Vec<&str> = rules(&ruleset)
        .filter(|r| r.steps.iter().any(is_open))
        .map(|r| &*r.text)
        .collect();
    assert_eq!(
        open,
        ["iptables -A INPUT -m physdev --physdev-in eth0 -j ACCEPT"]
    );
    assert_eq!(
        find(&ruleset, "NFQUEUE").steps,
        [Step::Verdict(Verdict::Queue)]
    );
    assert_eq!(
        find(&ruleset, "-t mangle").steps,
        [Step::Mark(Some((0xffff_ff00, 1)))]
    );
    assert!(
        find(&ruleset, "-t raw -A PREROUTING")
            .steps
            .contains(&Step::Untrack)
    );
    let rule = find(&ruleset, "a b");
    assert_eq!(
        rule.steps.last(),
        Some(&Step::Verdict(Verdict::Drop)),
        "the comment is passed over"
    );
}

#[test]
fn options_of_iptables() {
    let steps = |rule: &str| {
        let text = format!("*filter\n:INPUT DROP [0:0]\n:X - [0:0]\n-A INPUT {rule}\nCOMMIT\n");
        let tables = iptables::tables(&text, Family::Ipv4, Backend::IptablesLegacy).unwrap();
        tables[0].chains[0].rules[0].steps.clone()
    };
    let one = |field, negate, values| {
        Step::Match(Match {
            fields: vec![field],
            negate,
            any: vec![vec![values]],
            whole: true,
        })
    };
    for (rule, expected) in [
        (
            "-i eth+ -j X",
            vec![
                one(
                    PacketField::InName,
                    false,
                    Values::Names(vec!["eth*".into()]),
                ),
                Step::Verdict(Verdict::Jump("X".into())),
            ],
        ),
        (
            "! -s 10.0.0.0/255.0.0.0 -g X",
            vec![
                one(
                    PacketField::Source4,
                    true,
                    Values::Ranges(vec![(0x0a00_0000, 0x0aff_ffff)]),
                ),
                Step::Verdict(Verdict::Goto("X".into())),
            ],
        ),
        ("-p all -j RETURN", vec![Step::Verdict(Verdict::Return)]),
        (
            "-m state --state NEW,INVALID -j DROP",
            vec![
                one(PacketField::State, false, Values::Bits(9)),
                Step::Verdict(Verdict::Drop),
            ],
        ),
        (
            "-m comment --comment -j -j LOG --log-prefix \"a -j DROP\"",
            vec![],
        ),
        (
            "-m rpfilter --invert -j DROP",
            vec![
                one(PacketField::ReversePath, true, Values::one(1)),
                Step::Verdict(Verdict::Drop),
            ],
        ),
        (
            "-m mark ! --mark 0x4/0xc -j ACCEPT",
            vec![
                one(PacketField::Mark, true, Values::Masked(0xc, 4)),
                Step::Verdict(Verdict::Accept),
            ],
        ),
        (
            "-m hashlimit --hashlimit-upto 1/sec --hashlimit-name a -j ACCEPT",
            vec![Step::Rate, Step::Verdict(Verdict::Accept)],
        ),
        ("-j TPROXY --on-port 1 --on-ip 0.0.0.0", vec![Step::Divert]),
        ("-j CT --zone 1", vec![]),
    ] {
        assert_eq!(steps(rule), expected, "{rule}");
    }
    for opaque in [
        "-m new --thing 1 -j DROP",
        "-m hl --hl-eq 5 -j DROP",
        "-m owner --uid-owner 0 -j DROP",
        "-j NEWTARGET --x",
    ] {
        assert!(steps(opaque).iter().any(is_opaque), "{opaque}");
    }
    let set = steps("-m set --match-set blocked src -j DROP");
    assert!(
        matches!(&set[0], Step::Match(m) if m.fields == [PacketField::Sender("ipset blocked".into())] && !m.whole)
    );
}

#[test]
fn what_is_no_listing_is_said_to_be_none() {
    for text in ["", "x", "{}", "[]", "{\"nftables\":3}"] {
        assert!(nft::ruleset(text).is_err(), "{text}");
    }
    for text in [
        "-A INPUT -j DROP",
        "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\n",
        "hello",
    ] {
        let read = iptables::tables(text, Family::Ipv4, Backend::IptablesLegacy);
        assert!(read.is_err(), "{text}");
    }
}

#[test]
fn an_unknown_statement_loses_nothing_else() {
    let text = r#"{"nftables":[{"metainfo":{}},{"table":{"family":"inet","name":"t"}},{"news":{"a":1}},
        {"chain":{"family":"inet","table":"t","name":"c","hook":"input","prio":0,"type":"filter","policy":"accept"}},
        {"rule":{"family":"inet","table":"t","chain":"c","handle":2,"expr":[{"teleport":{"to":"moon"}},{"drop":null}]}},
        {"rule":{"family":"inet","table":"t","chain":"c","handle":3,"expr":[{"match":{"op":"==","left":{"quantum":1},"right":2}},{"drop":null}]}},
        {"rule":{"family":"inet","table":"t","chain":"c","handle":4,"expr":[{"accept":null}]}},
        {"table":{"family":"ip","name":"asleep","flags":"dormant"}},
        {"chain":{"family":"ip","table":"asleep","name":"c","hook":"input","prio":0,"type":"filter","policy":"drop"}}]}"#;
    let read = nft::ruleset(text).unwrap();
    let rules = &read.tables[0].chains[0].rules;
    assert!(matches!(rules[0].steps[0], Step::OpaqueVerdict(_)));
    assert!(matches!(rules[1].steps[0], Step::Opaque(_)));
    assert_eq!(rules[2].steps, [Step::Verdict(Verdict::Accept)]);
    assert!(
        read.tables[1].chains.is_empty(),
        "a dormant table does nothing"
    );
}

fn recorded(lines: &[&str]) -> Fact<Arc<Ruleset>> {
    let (facts, node) = testing::run(&PROBE, lines);
    facts.ruleset(node)
}

const RANGE: &str =
    r#"{"q":{"read":"/proc/sys/net/ipv4/ip_local_port_range"},"text":"32768\t60999\n"}"#;
const NO_LEGACY: [&str; 3] = [
    r#"{"q":{"read":"/proc/net/ip_tables_names"},"errno":"ENOENT"}"#,
    r#"{"q":{"read":"/proc/net/ip6_tables_names"},"errno":"ENOENT"}"#,
    r#"{"q":{"list":"/proc/net"},"names":["route","tcp"]}"#,
];
const MODULES: &str = r#"{"q":{"stat":"/proc/modules"},"value":{"kind":"file"}}"#;

#[test]
fn nothing_is_run_where_no_filter_is_loaded() {
    let mut lines = vec![
        RANGE,
        MODULES,
        r#"{"q":{"list":"/sys/module"},"names":["ext4","kernel"]}"#,
        r#"{"q":{"read":"/proc/sys/kernel/osrelease"},"text":"6.1.0\n"}"#,
        r#"{"q":{"read":"/lib/modules/6.1.0/modules.builtin"},"text":"kernel/fs/ext4/ext4.ko\n"}"#,
    ];
    lines.extend(NO_LEGACY);
    assert_eq!(recorded(&lines).known().map(|r| r.tables.len()), Some(0));
    // Built in, it is asked; not knowing what is built in, nothing is.
    lines[4] = r#"{"q":{"read":"/lib/modules/6.1.0/modules.builtin"},"text":"kernel/net/netfilter/nf_tables.ko\n"}"#;
    assert!(
        matches!(recorded(&lines), Fact::Unknown(gap) if gap.origin == Origin::Asked(Question::run(&["nft", "-j", "list", "ruleset"])))
    );
    lines.remove(4);
    assert!(recorded(&lines).known().is_none());
}

#[test]
fn without_permission_root_is_suggested() {
    let nft = Question::run(&["nft", "-j", "list", "ruleset"]);
    for (said, why) in [
        (
            r#""refused":"command-failed 1: netlink: Error: cache initialization failed: Operation not permitted""#,
            Refusal::Errno(Errno::EPERM),
        ),
        (r#""refused":"command-missing""#, Refusal::CommandMissing),
    ] {
        let said = format!(r#"{{"q":{{"run":["nft","-j","list","ruleset"]}},{said}}}"#);
        let mut lines = vec![
            RANGE,
            MODULES,
            r#"{"q":{"list":"/sys/module"},"names":["nf_tables","kernel"]}"#,
            &said,
        ];
        lines.extend(NO_LEGACY);
        assert_eq!(recorded(&lines), Fact::Unknown(Gap::refused(&nft, why)));
    }
}

#[test]
fn a_listing_that_is_too_large_is_asked_for_without_elements_and_then_by_table() {
    let table = r#"{\"nftables\":[{\"table\":{\"family\":\"ip\",\"name\":\"NAME\"}},{\"chain\":{\"family\":\"ip\",\"table\":\"NAME\",\"name\":\"c\",\"type\":\"filter\",\"hook\":\"input\",\"prio\":0,\"policy\":\"drop\"}}]}"#;
    let small = format!(
        r#"{{"q":{{"run":["nft","-j","-t","list","table","ip","small"]}},"text":"{}"}}"#,
        table.replace("NAME", "small")
    );
    let mut lines = vec![
        RANGE,
        MODULES,
        r#"{"q":{"list":"/sys/module"},"names":["nf_tables","kernel"]}"#,
        r#"{"q":{"run":["nft","-j","list","ruleset"]},"refused":"too-large"}"#,
        r#"{"q":{"run":["nft","-j","-t","list","ruleset"]},"refused":"too-large"}"#,
        r#"{"q":{"run":["nft","-j","list","tables"]},"text":"{\"nftables\":[{\"table\":{\"family\":\"ip\",\"name\":\"nat\"}},{\"table\":{\"family\":\"ip\",\"name\":\"small\"}}]}"}"#,
        r#"{"q":{"run":["nft","-j","-t","list","table","ip","nat"]},"refused":"too-large"}"#,
        &small,
    ];
    lines.extend(NO_LEGACY);
    let fact = recorded(&lines);
    let tables = &fact.known().unwrap().tables;
    assert!(tables[0].gap.is_some() && tables[0].chains.is_empty());
    assert!(tables[1].gap.is_none() && tables[1].chains.len() == 1);
}

#[test]
fn legacy_tables_are_asked_for_by_name() {
    let lines = [
        RANGE,
        MODULES,
        r#"{"q":{"list":"/sys/module"},"names":["ip_tables","kernel"]}"#,
        r#"{"q":{"read":"/proc/sys/kernel/osrelease"},"text":"6.1.0\n"}"#,
        r#"{"q":{"read":"/lib/modules/6.1.0/modules.builtin"},"text":""}"#,
        r#"{"q":{"read":"/proc/net/ip_tables_names"},"text":"filter\n"}"#,
        r#"{"q":{"run":["iptables-legacy-save","-t","filter"]},"refused":"command-missing"}"#,
        r#"{"q":{"link":"/usr/sbin/iptables-save"},"text":"xtables-multi\n"}"#,
        r#"{"q":{"run":["iptables-save","-t","filter"]},"text":"*filter\n:INPUT DROP [0:0]\nCOMMIT\n"}"#,
        NO_LEGACY[1],
        NO_LEGACY[2],
    ];
    let fact = recorded(&lines);
    let ruleset = fact.known().unwrap();
    assert_eq!(ruleset.tables[0].backend, Backend::IptablesLegacy);
    assert!(ruleset.tables[0].chains[0].base.as_ref().unwrap().drops);
}

#[test]
fn ranges_of_ports_and_ufw() {
    assert_eq!(port_range("32768\t60999"), Ok((32768, 60999)));
    for bad in ["", "1", "2 1", "1 70000", "1 2 3"] {
        assert!(port_range(bad).is_err(), "{bad}");
    }
    for (text, yes) in [
        ("# ENABLED=yes\nENABLED=no\n", false),
        ("ENABLED=yes\n", true),
        ("ENABLED=\"Yes\"", true),
        ("", false),
    ] {
        assert_eq!(enabled(text), yes, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "[-:*!\"\\\\A-Za-z0-9./,+{}\\[\\] \n]{0,200}") {
        let _ = nft::ruleset(&text);
        for text in [text.clone(), format!("*filter\n:INPUT DROP [0:0]\n-A INPUT {text}\nCOMMIT\n")] {
            let _ = iptables::tables(&text, Family::Ipv6, Backend::IptablesLegacy);
        }
    }

    #[test]
    fn no_damage_to_a_listing_makes_it_panic(at in 0usize..14_000, with in "[\\[\\]{}\"0-9a-z:,@]{0,3}") {
        let at = at.min(NFT.len() - 1);
        if NFT.is_char_boundary(at) && NFT.is_char_boundary(at + 1) {
            let _ = nft::ruleset(&format!("{}{with}{}", &NFT[..at], &NFT[at + 1..]));
        }
    }
}
