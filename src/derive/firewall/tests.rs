use proptest::prelude::*;

use super::evaluate::{End, evaluate};
use super::packet::{Packet, PacketDirection, Transport, Version};
use super::passage::{Fate, Legs, Segment, cuts, segments, sum};
use super::*;
use crate::derive::testing::{node, stated};
use crate::fact::Percent;
use crate::fact::flow::FlowCondition;
use crate::fact::ruleset::{
    Backend, Base, Chain, Family, Hook, Match, PacketField, Rule, Step, Table, Values, Verdict,
};

fn rule(steps: Vec<Step>) -> Rule {
    Rule {
        text: format!("{steps:?}").into(),
        steps,
    }
}

fn chain(name: &str, hook: Option<Hook>, drops: bool, rules: Vec<Vec<Step>>) -> Chain {
    Chain {
        name: name.into(),
        base: hook.map(|hook| Base {
            hook,
            nat: false,
            priority: 0,
            drops,
            devices: None,
        }),
        rules: rules.into_iter().map(rule).collect(),
    }
}

fn table(chains: Vec<Chain>) -> Table {
    Table {
        family: Family::Inet,
        name: "t".into(),
        backend: Backend::Nftables,
        chains,
        gap: None,
    }
}

fn input(drops: bool, rules: Vec<Vec<Step>>) -> Ruleset {
    Ruleset {
        tables: vec![table(vec![chain("in", Some(Hook::Input), drops, rules)])],
        open: None,
    }
}

fn fits(field: PacketField, values: Values) -> Step {
    Step::Match(Match {
        fields: vec![field],
        negate: false,
        any: vec![vec![values]],
        whole: true,
    })
}

fn port(from: u128, to: u128) -> Step {
    fits(
        PacketField::DestinationPort,
        Values::Ranges(vec![(from, to)]),
    )
}

const ACCEPT: Step = Step::Verdict(Verdict::Accept);
const DROP: Step = Step::Verdict(Verdict::Drop);

/// 10.0.0.1 in 10.0.0.0/24.
const HERE: AddressPair = AddressPair {
    own: Some((0x0a00_0001, 0x0a00_0001)),
    peer: Some((0x0a00_0000, 0x0a00_00ff)),
};

fn packet(destination: u16) -> Packet {
    Packet {
        way: PacketDirection::In,
        version: Version::Four,
        interface: "eth0".into(),
        local: false,
        own: HERE.own,
        peer: HERE.peer,
        transport: Transport::Tcp {
            source: EPHEMERAL,
            destination: (destination, destination),
            flags: SYN,
        },
        state: state::NEW,
    }
}

fn fate(ruleset: &Ruleset, packet: Packet) -> Fate {
    Legs(vec![packet]).fate(ruleset)
}

fn is_blocked(fate: &Fate) -> bool {
    matches!(fate, Fate::Blocked(_))
}

#[test]
fn policies_rules_and_their_order() {
    assert_eq!(fate(&Ruleset::default(), packet(40000)), Fate::Accepted);
    assert!(is_blocked(&fate(&input(true, vec![]), packet(40000))));
    let rules = input(
        true,
        vec![
            vec![port(22, 22), ACCEPT],
            vec![port(1024, 65535), DROP],
            vec![ACCEPT],
        ],
    );
    assert_eq!(fate(&rules, packet(22)), Fate::Accepted);
    assert!(is_blocked(&fate(&rules, packet(40000))));
    assert_eq!(fate(&rules, packet(80)), Fate::Accepted);
}

#[test]
fn what_one_chain_accepts_another_may_drop() {
    let mut rules = input(false, vec![vec![ACCEPT]]);
    rules.tables.push(table(vec![chain(
        "late",
        Some(Hook::Prerouting),
        false,
        vec![vec![port(7, 7), DROP]],
    )]));
    assert!(is_blocked(&fate(&rules, packet(7))));
    assert_eq!(fate(&rules, packet(8)), Fate::Accepted);
}

#[test]
fn jumps_return_and_gotos_do_not() {
    let jump = |verdict| {
        let inner = vec![
            vec![port(1, 9), Step::Verdict(Verdict::Return)],
            vec![port(10, 19), ACCEPT],
        ];
        Ruleset {
            tables: vec![table(vec![
                chain("sub", None, false, inner),
                chain(
                    "in",
                    Some(Hook::Input),
                    true,
                    vec![vec![Step::Verdict(verdict)], vec![port(1, 5), ACCEPT]],
                ),
            ])],
            open: None,
        }
    };
    let jumps = jump(Verdict::Jump("sub".into()));
    let goes = jump(Verdict::Goto("sub".into()));
    for (at, jumped, gone) in [
        (3, true, false),
        (7, false, false),
        (12, true, true),
        (30, false, false),
    ] {
        assert_eq!(!is_blocked(&fate(&jumps, packet(at))), jumped, "{at}");
        assert_eq!(!is_blocked(&fate(&goes, packet(at))), gone, "{at}");
    }
}

#[test]
fn a_peer_of_the_own_subnet_is_inside_or_outside_or_in_doubt() {
    let from = |low, high| fits(PacketField::Source4, Values::Ranges(vec![(low, high)]));
    let only = |low, high| input(true, vec![vec![from(low, high), ACCEPT]]);
    assert_eq!(
        fate(&only(0x0a00_0000, 0x0aff_ffff), packet(1)),
        Fate::Accepted
    );
    assert!(is_blocked(&fate(
        &only(0x0b00_0000, 0x0bff_ffff),
        packet(1)
    )));
    let half = fate(&only(0x0a00_0000, 0x0a00_007f), packet(1));
    assert!(
        matches!(half, Fate::Depends(FlowCondition::Source, _)),
        "{half:?}"
    );
    let mut nowhere = packet(1);
    nowhere.peer = None;
    let fate = fate(&only(0x0a00_0000, 0x0aff_ffff), nowhere);
    assert!(matches!(fate, Fate::Depends(FlowCondition::Source, _)));
}

#[test]
fn what_is_not_understood_matters_only_where_it_decides() {
    let opaque = || Step::Opaque("x".into());
    let unknown = |ruleset: &Ruleset| matches!(fate(ruleset, packet(40000)), Fate::Unknown(_));
    assert!(unknown(&input(false, vec![vec![opaque(), DROP]])));
    assert!(unknown(&input(true, vec![vec![opaque(), ACCEPT]])));
    assert!(unknown(&input(
        false,
        vec![vec![Step::OpaqueVerdict("x".into())]]
    )));
    assert_eq!(
        fate(&input(false, vec![vec![opaque(), ACCEPT]]), packet(40000)),
        Fate::Accepted
    );
    assert!(is_blocked(&fate(
        &input(true, vec![vec![opaque(), DROP]]),
        packet(40000)
    )));
    assert_eq!(
        fate(
            &input(false, vec![vec![opaque()], vec![ACCEPT]]),
            packet(40000)
        ),
        Fate::Accepted
    );
    assert_eq!(
        fate(
            &input(false, vec![vec![port(1, 2), opaque(), DROP]]),
            packet(40000)
        ),
        Fate::Accepted
    );
    let later = input(
        false,
        vec![vec![opaque(), Step::Verdict(Verdict::Return)], vec![DROP]],
    );
    assert!(unknown(&later));
}

#[test]
fn limits_queues_and_rewriting() {
    let of = |steps| fate(&input(false, vec![steps]), packet(40000));
    assert!(matches!(
        of(vec![Step::Rate, DROP]),
        Fate::Depends(FlowCondition::Rate, _)
    ));
    assert_eq!(
        of(vec![Step::Rate]),
        Fate::Accepted,
        "a limit on what is logged"
    );
    assert!(matches!(
        of(vec![Step::Verdict(Verdict::Queue)]),
        Fate::Depends(FlowCondition::Elsewhere, _)
    ));
    assert!(matches!(
        of(vec![Step::Divert]),
        Fate::Depends(FlowCondition::Elsewhere, _)
    ));
}

#[test]
fn marks_are_followed_and_lost_where_in_doubt() {
    let marked = |value| fits(PacketField::Mark, Values::Masked(0xff, value));
    let set = |value| Step::Mark(Some((0, value)));
    let of = |rules| fate(&input(false, rules), packet(40000));
    assert!(is_blocked(&of(vec![vec![set(5)], vec![marked(5), DROP]])));
    assert_eq!(
        of(vec![vec![set(5)], vec![marked(6), DROP]]),
        Fate::Accepted
    );
    assert_eq!(
        of(vec![vec![port(1, 2), set(5)], vec![marked(5), DROP]]),
        Fate::Accepted
    );
    let doubtful = of(vec![
        vec![Step::Opaque("x".into()), set(5)],
        vec![marked(5), DROP],
    ]);
    assert!(matches!(doubtful, Fate::Unknown(_)));
}

#[test]
fn the_state_of_what_is_not_tracked() {
    let new = fits(PacketField::State, Values::Bits(state::NEW));
    let mut rules = input(true, vec![vec![new, ACCEPT]]);
    assert_eq!(fate(&rules, packet(1)), Fate::Accepted);
    rules.tables.push(table(vec![chain(
        "raw",
        Some(Hook::Prerouting),
        false,
        vec![vec![Step::Untrack]],
    )]));
    assert!(is_blocked(&fate(&rules, packet(1))));
}

#[test]
fn a_match_on_what_a_packet_does_not_have_never_fits() {
    let icmp = |negate| {
        Step::Match(Match {
            negate,
            ..Match::is(PacketField::IcmpType, 8)
        })
    };
    for negate in [false, true] {
        assert_eq!(
            fate(&input(false, vec![vec![icmp(negate), DROP]]), packet(1)),
            Fate::Accepted
        );
    }
    let six = fits(PacketField::Source6, Values::Ranges(vec![(0, u128::MAX)]));
    assert_eq!(
        fate(&input(false, vec![vec![six, DROP]]), packet(1)),
        Fate::Accepted
    );
}

#[test]
fn chains_that_never_end_do_not_hang() {
    let cycle = Ruleset {
        tables: vec![table(vec![
            chain(
                "a",
                None,
                false,
                vec![vec![Step::Verdict(Verdict::Jump("a".into()))]; 8],
            ),
            chain(
                "in",
                Some(Hook::Input),
                false,
                vec![vec![Step::Verdict(Verdict::Jump("a".into()))]],
            ),
        ])],
        open: None,
    };
    assert!(matches!(fate(&cycle, packet(1)), Fate::Unknown(_)));
}

#[test]
fn a_table_that_could_not_be_listed_leaves_it_open() {
    let mut rules = input(false, vec![]);
    rules.tables[0].gap = Some("too large".into());
    assert!(matches!(fate(&rules, packet(1)), Fate::Unknown(_)));
    // Address translation blocks nothing.
    rules.tables[0].name = "nat".into();
    assert_eq!(fate(&rules, packet(1)), Fate::Accepted);
}

#[test]
fn a_range_is_cut_where_rules_tell_ports_apart() {
    let rules = input(
        true,
        vec![vec![port(40000, 50000), ACCEPT], vec![port(22, 22), ACCEPT]],
    );
    let cuts = cuts(&rules);
    assert_eq!(cuts, [22, 23, 40000, 50001]);
    let parts = segments((32768, 60999), &cuts).unwrap();
    assert_eq!(parts, [(32768, 39999), (40000, 50000), (50001, 60999)]);
    let parts = parts.into_iter().map(|ports| {
        let mut one = packet(0);
        one.transport = Transport::Tcp {
            source: EPHEMERAL,
            destination: ports,
            flags: SYN,
        };
        Segment {
            ports,
            fate: fate(&rules, one),
        }
    });
    let judged = sum(parts.collect()).unwrap();
    assert_eq!(judged.passage, FlowPassage::Partly);
    assert_eq!(judged.blocked, [(32768, 39999), (50001, 60999)]);
    assert!((judged.share - 100.0 * 18231.0 / 28232.0).abs() < 0.01);
}

#[test]
fn the_port_that_a_client_picks_by_chance() {
    let judge = |rules: &Ruleset| {
        let one = |own| {
            let mut answer = packet(0);
            answer.transport = Transport::Tcp {
                source: (40000, 40000),
                destination: own,
                flags: SYN | ACK,
            };
            fate(rules, answer)
        };
        super::passage::by_chance((32768, 60999), &cuts(rules), Percent(1.0), one).unwrap()
    };
    // A hole of one port is none; half of the range is.
    assert_eq!(
        judge(&input(false, vec![vec![port(50000, 50000), DROP]])),
        Fate::Accepted
    );
    assert!(is_blocked(&judge(&input(
        true,
        vec![vec![port(50000, 50000), ACCEPT]]
    ))));
    let half = judge(&input(true, vec![vec![port(1024, 45000), ACCEPT]]));
    assert!(
        matches!(half, Fate::Depends(FlowCondition::Rate, _)),
        "{half:?}"
    );
}

/// A node with soft-RoCE on eth0, which carries the default route.
fn machine(facts: &mut Facts, ruleset: Fact<Arc<Ruleset>>) -> Id {
    let id = machine_of(facts, ruleset);
    facts.set_members(Subject::Interface, id, Membership::Known(Origin::Stated));
    id
}

/// The same, before anything is known of further interfaces.
fn machine_of(facts: &mut Facts, ruleset: Fact<Arc<Ruleset>>) -> Id {
    let id = node(facts);
    let rxe =
        crate::derive::testing::port(facts, id, "rxe0", crate::fact::port::PortState::Active, 100);
    let device = facts.parent(rxe).unwrap();
    facts.set(device, device::NODE_TYPE, stated(NodeType::Ca));
    facts.set(device, device::SOFTWARE, stated(true));
    facts.set(rxe, port::NETDEV, stated("eth0".into()));
    facts.set(rxe, port::INTENDED, stated(true));
    facts.set(id, node::PORT_RANGE, stated("32768-60999".into()));
    let eth = facts.instance(Subject::Interface, id, "eth0");
    facts.set(
        eth,
        interface::ADDRESSES,
        stated(["10.0.0.1/24".into()].into()),
    );
    facts.set_ruleset(id, ruleset);
    id
}

fn verdict(facts: &Facts, id: Id, name: &str) -> Option<FlowPassage> {
    let flow = facts
        .find(Subject::Flow, id, name)
        .unwrap_or_else(|| panic!("no {name}"));
    facts.known(flow, flow::VERDICT)
}

#[test]
fn the_flows_of_a_node() {
    let rules = input(
        true,
        vec![
            vec![
                fits(PacketField::InName, Values::Names(vec!["lo".into()])),
                ACCEPT,
            ],
            vec![port(22, 22), ACCEPT],
        ],
    );
    let mut facts = Facts::new();
    let id = machine(&mut facts, stated(Arc::new(rules)));
    let master = facts.instance(Subject::Setting, id, "MASTER_PORT");
    facts.set(master, setting::VALUE, stated("22".into()));
    derive(&mut facts, id);
    for (name, passage) in [
        ("bootstrap TCP in on eth0", FlowPassage::Dropped),
        // The answer to what this node opens does not come in.
        ("bootstrap TCP out on eth0", FlowPassage::Dropped),
        ("bootstrap TCP within the node", FlowPassage::Accepted),
        ("rendezvous TCP in on eth0", FlowPassage::Accepted),
        ("ssh in on eth0", FlowPassage::Accepted),
        ("path MTU discovery in on eth0", FlowPassage::Dropped),
    ] {
        assert_eq!(verdict(&facts, id, name), Some(passage), "{name}");
    }
    let lone = facts
        .find(Subject::Flow, id, "bootstrap TCP in on eth0")
        .unwrap();
    assert_eq!(facts.known(lone, flow::USED), Some(true));
    assert!(facts.members(Subject::Flow, id).is_ok());
}

/// Rank 0 is behind a router of eth0: what is dropped for it is known from the kernel's way to it.
#[test]
fn the_flow_to_rank_0_has_its_address_and_the_kernels_way() {
    let passage = |to: &str, way: Option<&str>| {
        let addresses = Values::Ranges(vec![(0x0a09_0000, 0x0a09_ffff)]);
        let dropped = chain(
            "out",
            Some(Hook::Output),
            false,
            vec![vec![fits(PacketField::Destination4, addresses), DROP]],
        );
        let rules = Ruleset {
            tables: vec![table(vec![dropped])],
            open: None,
        };
        let mut facts = Facts::new();
        let id = machine(&mut facts, stated(Arc::new(rules)));
        let port = facts.instance(Subject::Setting, id, "MASTER_PORT");
        facts.set(port, setting::VALUE, stated("29500".into()));
        let master = facts.instance(Subject::Setting, id, "MASTER_ADDR");
        if let Some(way) = way {
            facts.set(master, setting::ROUTE_REFUSED, stated("none".into()));
            facts.set(master, setting::PEER, stated(to.into()));
            facts.set(master, setting::PEER_INTERFACE, stated(way.into()));
        }
        derive(&mut facts, id);
        verdict(&facts, id, "rendezvous TCP out on eth0")
    };
    let eth0 = Some("eth0");
    assert_eq!(passage("10.9.0.7", eth0), Some(FlowPassage::Dropped));
    assert_eq!(passage("10.8.0.7", eth0), Some(FlowPassage::Accepted));
    // Without a known peer the interface's own subnet is judged.
    assert_eq!(passage("10.9.0.7", None), Some(FlowPassage::Accepted));
    assert_eq!(passage("10.0.0.1", Some("lo")), Some(FlowPassage::Accepted));
}

#[test]
fn a_spare_adapter_that_is_down_and_has_no_address_has_no_flow() {
    for (up, flows) in [(true, true), (false, false)] {
        let mut facts = Facts::new();
        let id = machine(&mut facts, stated(Arc::new(input(true, Vec::new()))));
        let device = facts.instance(Subject::Device, id, "rxe1");
        facts.set(device, device::NODE_TYPE, stated(NodeType::Ca));
        let spare = facts.instance(Subject::Port, device, "rxe1/1");
        facts.set(spare, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(spare, port::HAS_NETDEV, stated(true));
        facts.set(spare, port::NETDEV, stated("spare0".into()));
        let own = facts.instance(Subject::Interface, id, "spare0");
        facts.set(own, interface::ADDRESSES, stated([].into()));
        facts.set(own, interface::UP, stated(up));
        derive(&mut facts, id);
        let flow = facts.find(Subject::Flow, id, "RoCE v2 in on spare0");
        assert_eq!(flow.is_some(), flows, "up: {up}");
    }
}

#[test]
fn a_flow_that_no_interface_lets_through_is_used_whichever_is_chosen() {
    let used = |others: &[(&str, &str, bool)], listed: bool| {
        let mut facts = Facts::new();
        let id = machine_of(&mut facts, stated(Arc::new(input(true, Vec::new()))));
        if listed {
            facts.set_members(Subject::Interface, id, Membership::Known(Origin::Stated));
        }
        for (name, kind, physical) in others {
            let other = facts.instance(Subject::Interface, id, name);
            facts.set(other, interface::UP, stated(true));
            facts.set(other, interface::KIND, stated((*kind).into()));
            facts.set(other, interface::PHYSICAL, stated(*physical));
            facts.set(other, interface::MASTER, stated("none".into()));
            let addresses: Arc<[Arc<str>]> = ["10.1.0.1/24".into()].into();
            facts.set(other, interface::ADDRESSES, stated(addresses));
        }
        let eth = facts.find(Subject::Interface, id, "eth0").unwrap();
        facts.set(eth, interface::MASTER, stated("none".into()));
        derive(&mut facts, id);
        let flow = facts.find(Subject::Flow, id, "bootstrap TCP in on eth0");
        facts.known(flow.unwrap(), flow::USED)
    };
    let two = ("eth1", "none", true);
    assert_eq!(used(&[two], true), Some(true));
    assert_eq!(used(&[two], false), None, "there may be another");
    // A VLAN may be chosen too, and no flow of it was judged.
    assert_eq!(used(&[two, ("eth1.7", "vlan", false)], true), None);
    assert_eq!(used(&[two, ("docker0", "bridge", false)], true), Some(true));
}

#[test]
fn rules_that_could_not_be_read_leave_every_flow_open() {
    let mut facts = Facts::new();
    let id = machine(&mut facts, Fact::Unknown(Gap::missing("the rules")));
    derive(&mut facts, id);
    assert!(facts.below(id, Subject::Flow).count() >= 4);
    for flow in facts.below(id, Subject::Flow).collect::<Vec<_>>() {
        assert_eq!(facts.known(flow, flow::VERDICT), None);
    }
    assert_eq!(facts.known(id, node::FIREWALLS_COMPETE), None);
}

#[test]
fn addresses_of_interfaces() {
    let read = |text| subnet(text).map(|(version, at)| (version, at.own.is_some(), at.peer));
    let net = Some((0x0a00_0000, 0x0a00_00ff));
    assert_eq!(read("10.0.0.7/24"), Some((Version::Four, true, net)));
    // The only other address of the subnet is a router's.
    assert_eq!(read("10.0.0.6/31"), Some((Version::Four, true, None)));
    assert_eq!(read("fd00::1/128"), Some((Version::Six, true, None)));
    assert!(matches!(
        read("fd00::1/64"),
        Some((Version::Six, true, Some(_)))
    ));
    for bad in ["", "10.0.0.1", "10.0.0.1/33", "x/24"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

/// Any step that a ruleset may have, jumping only to chains `a` and `b`.
fn step() -> impl Strategy<Value = Step> {
    let field = prop_oneof![
        Just(PacketField::InName),
        Just(PacketField::OutName),
        Just(PacketField::Protocol),
        Just(PacketField::Version),
        Just(PacketField::SourcePort),
        Just(PacketField::DestinationPort),
        Just(PacketField::Source4),
        Just(PacketField::Destination4),
        Just(PacketField::Source6),
        Just(PacketField::State),
        Just(PacketField::Mark),
        Just(PacketField::TcpFlags),
        Just(PacketField::IcmpType),
        Just(PacketField::ConnectionMark),
        Just(PacketField::Status),
        Just(PacketField::ReversePath),
        Just(PacketField::Other("o".into())),
        Just(PacketField::Sender("s".into())),
        Just(PacketField::Extension),
    ];
    let number = prop_oneof![
        Just(0u128),
        Just(6),
        Just(8),
        Just(4),
        Just(22),
        Just(40000),
        Just(0x0a00_0001),
        Just(u128::MAX)
    ];
    let values = prop_oneof![
        (number.clone(), number.clone())
            .prop_map(|(a, b)| Values::Ranges(vec![(a.min(b), a.max(b))])),
        (number.clone(), number).prop_map(|(a, b)| Values::Masked(a, b)),
        (0u128..64).prop_map(Values::Bits),
        prop_oneof![Just("eth0"), Just("lo"), Just("eth*"), Just("")]
            .prop_map(|n| Values::Names(vec![n.into()])),
        Just(Values::Ranges(vec![])),
    ];
    let matching = (field, values, any::<bool>(), prop::bool::weighted(0.9)).prop_map(
        |(field, values, negate, whole)| {
            Step::Match(Match {
                fields: vec![field],
                negate,
                any: vec![vec![values]],
                whole,
            })
        },
    );
    let verdict = prop_oneof![
        Just(Verdict::Accept),
        Just(Verdict::Drop),
        Just(Verdict::Reject),
        Just(Verdict::Return),
        Just(Verdict::Continue),
        Just(Verdict::Queue),
        Just(Verdict::Jump("a".into())),
        Just(Verdict::Jump("b".into())),
        Just(Verdict::Goto("b".into())),
        Just(Verdict::Jump("none".into())),
    ];
    let map = (prop::collection::vec((0u128..50_000, verdict.clone()), 0..3)).prop_map(|entries| {
        Step::VerdictMap {
            fields: vec![PacketField::DestinationPort],
            entries: entries
                .into_iter()
                .map(|(n, v)| (vec![Values::Ranges(vec![(n, 45_000.max(n))])], v))
                .collect(),
            whole: true,
        }
    });
    prop_oneof![
        4 => matching,
        4 => verdict.prop_map(Step::Verdict),
        1 => map,
        1 => prop_oneof![Just(Step::Rate), Just(Step::Divert), Just(Step::Untrack), Just(Step::ConnectionMark), Just(Step::Mark(None)), Just(Step::Mark(Some((0xf, 3))))],
    ]
}

fn rulesets() -> impl Strategy<Value = Ruleset> {
    let rules = || prop::collection::vec(prop::collection::vec(step(), 0..4), 0..5);
    (
        rules(),
        rules(),
        rules(),
        rules(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(a, b, pre, inner, one, two)| Ruleset {
            tables: vec![table(vec![
                chain("a", None, false, a),
                chain("b", None, false, b),
                chain("pre", Some(Hook::Prerouting), one, pre),
                chain("in", Some(Hook::Input), two, inner),
            ])],
            open: None,
        })
}

proptest! {
    #[test]
    fn no_ruleset_makes_it_panic_or_leaves_a_packet_nowhere(rules in rulesets(), at: u16) {
        let ways = evaluate(&rules, &packet(at));
        prop_assert!(!ways.outcomes.is_empty());
    }

    /// A match that is not known can only add ends: what was certain stays, or becomes open.
    #[test]
    fn a_match_that_is_not_known_turns_no_verdict_into_another(rules in rulesets(), chain: prop::sample::Index, rule: prop::sample::Index, place: prop::sample::Index) {
        let before = evaluate(&rules, &packet(40000));
        let mut less = rules.clone();
        let chain = chain.get(&[0usize, 1, 2, 3]);
        let of = &mut less.tables[0].chains[*chain].rules;
        prop_assume!(!of.is_empty());
        let at = rule.index(of.len());
        let steps = &mut of[at].steps;
        let place = place.index(steps.len() + 1);
        steps.insert(place, Step::Opaque("?".into()));
        let after = evaluate(&less, &packet(40000));
        for outcome in &before.outcomes {
            prop_assert!(after.outcomes.iter().any(|o| o.end == outcome.end || o.end == End::Drop && outcome.end == End::Away),
                "{:?} was possible, {:?} is now", before.outcomes, after.outcomes);
        }
    }

    /// The same for knowing less of the peer.
    #[test]
    fn not_knowing_the_peer_turns_no_verdict_into_another(rules in rulesets()) {
        let before = fate(&rules, packet(40000));
        let mut nowhere = packet(40000);
        (nowhere.peer, nowhere.own) = (None, None);
        let after = fate(&rules, nowhere);
        match (&before, &after) {
            (Fate::Accepted, Fate::Blocked(_)) | (Fate::Blocked(_), Fate::Accepted) => prop_assert!(false, "{before:?} {after:?}"),
            (Fate::Depends(..) | Fate::Unknown(_), Fate::Accepted | Fate::Blocked(_)) => prop_assert!(false, "{before:?} {after:?}"),
            _ => {}
        }
    }

    #[test]
    fn the_parts_of_a_range_are_the_range(cuts in prop::collection::btree_set(0u32..65536, 0..20), a: u16, b: u16) {
        let cuts: Vec<u32> = cuts.into_iter().collect();
        let range = (a.min(b), a.max(b));
        let parts = segments(range, &cuts).unwrap();
        prop_assert_eq!(parts[0].0, range.0);
        prop_assert_eq!(parts[parts.len() - 1].1, range.1);
        for pair in parts.windows(2) {
            prop_assert_eq!(u32::from(pair[0].1) + 1, u32::from(pair[1].0));
        }
    }
}
