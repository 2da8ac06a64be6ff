use std::sync::OnceLock;

use proptest::prelude::*;

use super::check;
use crate::check::example::facts_of;
use crate::check::{Check, Outcome};
use crate::fact::{Fact, Origin, Subject, Type, Value};

type Stated = (Subject, usize, Fact<Value>);

/// The facts that random conditions name.
const NAMES: [&str; 11] = [
    "port.intended",
    "port.has_netdev",
    "port.lid",
    "port.sm_lid",
    "port.rate",
    "port.max_rate",
    "port.state",
    "port.verbs_state",
    "port.netdev",
    "device.pci",
    "node.default_route",
];

fn fact(name: &str) -> (Subject, usize, Type) {
    let (subject, fact) = name.split_once('.').unwrap();
    let subject = Subject::from_name(subject).unwrap();
    let facts = subject.schema().facts;
    let index = facts.iter().position(|f| f.name == fact).unwrap();
    (subject, index, facts[index].ty)
}

/// A value of few, so that comparisons go both ways.
fn value(ty: Type, pick: u8) -> Value {
    let pick = usize::from(pick % 3);
    match ty {
        Type::Bool => Value::Bool(pick == 0),
        Type::Count => Value::Count(pick as u64),
        Type::BitRate => Value::BitRate(crate::fact::BitRate(pick as u64 * 1_000_000_000)),
        Type::Word(words) => Value::Word(words[pick]),
        Type::Texts => Value::Texts((0..pick).map(|i| ["a", "b"][i].into()).collect()),
        _ => Value::Text(["a", "b", "c"][pick].into()),
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::Bool(b) => b.to_string(),
        Value::Text(_) | Value::Word(_) => format!("\"{value}\""),
        other => other.to_string(),
    }
}

fn leaf() -> impl Strategy<Value = String> {
    let sides = (
        0..4usize,
        any::<[u8; 2]>(),
        any::<bool>(),
        0..6usize,
        0..4usize,
    );
    sides.prop_map(|(kind, picks, flip, sign, form)| {
        let (a, b) = [
            ("port.lid", "port.sm_lid"),
            ("port.rate", "port.max_rate"),
            ("port.state", "port.verbs_state"),
            ("port.netdev", "device.pci"),
        ][kind];
        let (a, b) = if flip { (b, a) } else { (a, b) };
        let literal = |pick| written(&value(fact(a).2, pick));
        let ordered = kind < 2;
        let sign = ["==", "!=", "<", "<=", ">", ">="][if ordered { sign } else { sign % 2 }];
        match form {
            0 => format!("{a} {sign} {b}"),
            1 => format!("{a} {sign} {}", literal(picks[0])),
            2 => format!("{a} in [{}, {}]", literal(picks[0]), literal(picks[1])),
            _ if ordered => format!("min({a}, {b}) {sign} max({a}, {})", literal(picks[0])),
            _ if kind == 3 => format!("{a} in node.default_route"),
            _ => ["port.intended", "port.has_netdev"][usize::from(flip)].to_owned(),
        }
    })
}

fn condition() -> impl Strategy<Value = String> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|p| format!("({})", p.join(") and ("))),
            prop::collection::vec(inner, 2..4).prop_map(|p| format!("({})", p.join(") or ("))),
        ]
    })
}

fn stated() -> impl Strategy<Value = Vec<Option<u8>>> {
    prop::collection::vec(prop::option::weighted(0.8, any::<u8>()), NAMES.len())
}

fn facts(picks: &[Option<u8>]) -> Vec<Stated> {
    let known = |(name, pick): (&&str, &Option<u8>)| {
        let (subject, index, ty) = fact(name);
        Some((
            subject,
            index,
            Fact::Known(value(ty, (*pick)?), Origin::Stated),
        ))
    };
    NAMES.iter().zip(picks).filter_map(known).collect()
}

fn answer(check: &Check, stated: &[Stated]) -> Outcome {
    let (facts, id) = facts_of(check, stated);
    check.judge(&facts, id)
}

/// Four times as many cases as `PROPTEST_CASES` says, or as proptest runs anyway.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(4),
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    /// Knowing less can lose an answer, and never changes one.
    #[test]
    fn a_missing_fact_only_ever_loses_an_answer(
        (applies, fails) in (condition(), condition()),
        picks in stated(),
        dropped in any::<u16>(),
    ) {
        let check = check("port", &applies, &fails).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let all = facts(&picks);
        let fewer: Vec<Stated> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| dropped & (1 << i) == 0)
            .map(|(_, f)| f.clone())
            .collect();
        let (before, after) = (answer(&check, &all), answer(&check, &fewer));
        prop_assert!(after == before || matches!(after, Outcome::Unknown(_)), "{before:?} {after:?}");
        prop_assert!(!matches!(answer(&check, &[]), Outcome::Passes(_) | Outcome::Fails));
    }

    /// What is said to be missing is what is needed: with it, the check is decided; it is empty if it is decided.
    #[test]
    fn what_is_missing_decides(fails in condition(), picks in stated(), supplied in any::<[u8; 11]>()) {
        let check = check("port", "", &fails).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut known = facts(&picks);
        let mut rounds = 0;
        while matches!(answer(&check, &known), Outcome::Unknown(_)) {
            let (facts, id) = facts_of(&check, &known);
            let missing = check.missing(&facts, id);
            prop_assert!(!missing.is_empty());
            for gap in missing {
                let (subject, index, ty) = fact(&gap.fact);
                let pick = supplied[NAMES.iter().position(|n| *n == gap.fact).unwrap()];
                known.push((subject, index, Fact::Known(value(ty, pick), Origin::Stated)));
            }
            rounds += 1;
            prop_assert!(rounds == 1, "missing facts were not all named");
        }
        let (facts, id) = facts_of(&check, &known);
        prop_assert!(check.missing(&facts, id).is_empty());
    }

    /// De Morgan's laws, double negation and the order of parts.
    #[test]
    fn kleenes_laws((a, b) in (condition(), condition()), picks in stated()) {
        let known = facts(&picks);
        let holds = |text: String| -> Result<_, TestCaseError> {
            let check = check("port", "", &text).map_err(|e| TestCaseError::fail(e.to_string()))?;
            Ok(answer(&check, &known))
        };
        for (left, right) in [
            (format!("not (({a}) and ({b}))"), format!("not ({a}) or not ({b})")),
            (format!("not (({a}) or ({b}))"), format!("not ({a}) and not ({b})")),
            (format!("not not ({a})"), a.clone()),
            (format!("({a}) and ({b})"), format!("({b}) and ({a})")),
            (format!("({a}) or ({b})"), format!("({b}) or ({a})")),
            (format!("({a}) or (({a}) and ({b}))"), a.clone()),
        ] {
            prop_assert_eq!(holds(left.clone())?, holds(right.clone())?, "{} | {}", left, right);
        }
    }

    /// Whatever is in a file, it is a check or an error.
    #[test]
    fn no_text_makes_the_loader_panic(text in r#"[a-z."\[\](){}<>=!&0-9/% \\\n'äµ-]{0,60}"#) {
        let _ = check("port", "", &text);
        let _ = super::load(&text);
        let _ = super::load(&super::RATE_DEGRADED.replace("{device.pci}", &text));
    }

    /// The same with the language's own words, which get further.
    #[test]
    fn no_words_make_the_parser_panic(words in prop::collection::vec(0..WORDS.len(), 0..14)) {
        let text: Vec<&str> = words.into_iter().map(|w| WORDS[w]).collect();
        let _ = check("port", &text.join(" "), &text.join(""));
    }

    /// A file that is damaged anywhere is a check or an error.
    #[test]
    fn no_damage_makes_the_loader_panic(at in any::<prop::sample::Index>(), cut in 0..20usize, put in "[\\PC\n\"']{0,3}") {
        static CHARS: OnceLock<Vec<char>> = OnceLock::new();
        let chars = CHARS.get_or_init(|| super::LOSES_PACKETS.chars().collect());
        let at = at.index(chars.len());
        let rest = chars[(at + cut).min(chars.len())..].iter();
        let text: String = chars[..at].iter().copied().chain(put.chars()).chain(rest.copied()).collect();
        if let Ok(check) = super::load(&text) {
            let _ = check.examples();
        }
    }
}

const WORDS: [&str; 22] = [
    "port.state",
    "port.rate",
    "node.default_route",
    "limit.rate",
    "gid.type",
    "\"active\"",
    "400 Gb/s",
    "7",
    "in",
    "[",
    "]",
    "(",
    ")",
    ",",
    "and",
    "or",
    "not",
    "==",
    "<",
    "min(",
    "true",
    "\"",
];
