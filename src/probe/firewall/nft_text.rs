//! `nft list ruleset` in nft's own language (nft(8)), as the objects of its JSON. A statement that is not understood may decide.

use std::net::IpAddr;

use serde_json::{Value, json};

/// What ends a statement.
const END: &str = ";";
/// Statements that say nothing of what becomes of a packet, each with the words that go on with it.
const SILENT: [(&str, &[&str]); 3] = [
    ("counter", &["packets", "bytes", "name"]),
    ("log", &["prefix", "level", "group", "snaplen", "flags"]),
    ("comment", &[]),
];
const OPERATORS: [&str; 6] = ["==", "!=", "<", ">", "<=", ">="];

/// The objects of a listing; of one that is cut, what is missing may let pass what the rest drops.
pub(super) fn document(text: &str) -> Result<Value, String> {
    let tokens = tokens(text);
    let count = |mark: &str| tokens.iter().filter(|token| **token == mark).count();
    if count("{") == 0 || count("{") != count("}") {
        return Err("the listing has no end".to_owned());
    }
    let mut words = Words(&tokens);
    let mut objects = Vec::new();
    while let Some(word) = words.take() {
        if word == "table" {
            words.table(&mut objects);
        }
    }
    Ok(json!({ "nftables": objects }))
}

/// Words, and the marks between them; a text in quotes keeps the first of these.
fn tokens(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let (line, handle) = line.split_once(" # handle ").unwrap_or((line, ""));
        let mut rest = line.trim();
        while !rest.is_empty() {
            let end = match rest.strip_prefix('"') {
                Some(quoted) => 1 + quoted.find('"').unwrap_or(quoted.len()),
                None if rest.starts_with([',', ';', '{', '}']) => 1,
                None => rest
                    .find([' ', '\t', ',', ';', '{', '}'])
                    .unwrap_or(rest.len()),
            };
            let (word, behind) = rest.split_at(end);
            all.push(word);
            let behind = match word.starts_with('"') {
                true => behind.get(1..).unwrap_or(""),
                false => behind,
            };
            rest = behind.trim_start();
        }
        if !handle.is_empty() {
            all.extend(["handle", handle.trim()]);
        }
        // A list in braces goes on over several lines.
        if !line.ends_with(',') {
            all.push(END);
        }
    }
    all.push(END);
    all
}

/// The words that are left.
struct Words<'w>(&'w [&'w str]);

impl<'w> Words<'w> {
    fn peek(&self) -> &'w str {
        self.0.first().copied().unwrap_or("")
    }

    fn take(&mut self) -> Option<&'w str> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is = self.peek() == word;
        if is {
            self.take();
        }
        is
    }

    /// The words to the end of a statement, or to the block below it; `None` at the end of the block in which it would stand.
    fn statement(&mut self) -> Option<Words<'w>> {
        while self.takes(END) {}
        let is_end =
            |pair: &[&str]| pair[0] == END || pair == ["{", END] || pair == ["{", "handle"];
        let end = self.0.windows(2).position(is_end).unwrap_or(self.0.len());
        let (own, rest) = self.0.split_at(end);
        self.0 = rest;
        if own == ["}"] {
            return None;
        }
        (!own.is_empty()).then_some(Words(own))
    }

    fn table(&mut self, objects: &mut Vec<Value>) {
        let Some(Words(&[family, table])) = self.statement() else {
            return;
        };
        let of =
            |name: &str| json!({ "family": family, "table": table, "chain": name, "name": name });
        let mut own = of(table);
        self.takes("{");
        while let Some(Words(words)) = self.statement() {
            match *words {
                ["flags", ref all @ ..] => own["flags"] = json!(all),
                ["chain", name] if self.takes("{") => {
                    let mut chain = of(name);
                    let at = objects.len();
                    while let Some(words) = self.statement() {
                        match words.peek() {
                            "type" => base(words.0, &mut chain),
                            "policy" => chain["policy"] = json!(words.0.last()),
                            "comment" | "handle" => {}
                            _ => objects.push(json!({ "rule": rule(words, of(name)) })),
                        }
                    }
                    objects.insert(at, json!({ "chain": chain }));
                }
                [kind, name] if self.takes("{") => {
                    let mut set = of(name);
                    while let Some(Words(words)) = self.statement() {
                        if let ["elements", "=", ref all @ ..] = *words {
                            let all = Words(all).value();
                            set["elem"] = json!(all.as_ref().and_then(|all| all.get("set")));
                        }
                    }
                    objects.push(json!({ kind: set }));
                }
                _ if self.takes("{") => while self.statement().is_some() {},
                _ => {}
            }
        }
        objects.push(json!({ "table": own }));
    }
}

/// `type filter hook input device "eth0" priority filter + 10`
fn base(words: &[&str], chain: &mut Value) {
    let after = |key| words.iter().skip_while(move |word| **word != key).skip(1);
    let named = [
        ("raw", -300),
        ("mangle", -150),
        ("dstnat", -100),
        ("security", 50),
        ("srcnat", 100),
    ];
    let name = |word: &str| named.iter().find(|(of, _)| *of == word).map(|(_, n)| *n);
    let value = |word: &str| word.parse().ok().or_else(|| name(word));
    let numbers: i64 = after("priority").filter_map(|word| value(word)).sum();
    let less: i64 = after("-").filter_map(|word| value(word)).sum();
    let devices: Vec<&str> = words
        .iter()
        .filter_map(|word| word.strip_prefix('"'))
        .collect();
    chain["type"] = json!(words.get(1));
    chain["hook"] = json!(after("hook").next());
    chain["prio"] = json!(numbers - 2 * less);
    if !devices.is_empty() {
        chain["dev"] = json!(devices);
    }
}

fn rule(mut words: Words<'_>, mut rule: Value) -> Value {
    if let [rest @ .., "handle", number] = words.0 {
        rule["handle"] = json!(number.parse::<u64>().ok());
        words.0 = rest;
    }
    let mut statements = Vec::new();
    while !words.0.is_empty() {
        let all = words.0;
        match words.read() {
            Some(read) => statements.extend(read),
            // What follows may be a part of it.
            None => {
                statements.push(json!({ "unread": all.join(" ") }));
                break;
            }
        }
    }
    rule["expr"] = json!(statements);
    rule
}

impl<'w> Words<'w> {
    /// The next statement of a rule; nothing of one that says nothing.
    fn read(&mut self) -> Option<Option<Value>> {
        let all = self.0;
        let word = self.take()?;
        if let Some((_, follow)) = SILENT.iter().find(|(silent, _)| *silent == word) {
            if word == "comment" {
                self.take();
            }
            while follow.contains(&self.peek()) {
                self.0 = self.0.get(2..)?;
            }
            return Some(None);
        }
        Some(Some(match word {
            "accept" | "drop" | "continue" | "return" | "notrack" => json!({ word: null }),
            "jump" | "goto" => json!({ word: { "target": self.take()? } }),
            "reject" | "queue" | "masquerade" | "snat" | "dnat" | "redirect" | "tproxy" => {
                self.0 = &[];
                json!({ word: null })
            }
            "limit" if self.takes("rate") => {
                let over = self.takes("over");
                let (rate, per) = self.take()?.split_once('/')?;
                if self.takes("burst") {
                    self.0 = self.0.get(2..)?;
                }
                json!({ "limit": { "rate": rate, "per": per, "inv": over } })
            }
            _ => {
                self.0 = all;
                self.matching()?
            }
        }))
    }

    /// `tcp dport != { 22, 80 }`, `ct state vmap { established : accept }`
    fn matching(&mut self) -> Option<Value> {
        let mut left = match self.take()? {
            kind @ ("iifname" | "oifname" | "iif" | "oif" | "mark") => {
                json!({ "meta": { "key": kind } })
            }
            kind @ ("ct" | "meta") => json!({ kind: { "key": self.take()? } }),
            "fib" => {
                let mut flags = vec![self.take()?];
                while self.takes(".") {
                    flags.push(self.take()?);
                }
                json!({ "fib": { "flags": flags, "result": self.take()? } })
            }
            kind @ ("ip" | "ip6" | "tcp" | "udp" | "th" | "icmp" | "icmpv6" | "ether" | "sctp") => {
                json!({ "payload": { "protocol": kind, "field": self.take()? } })
            }
            _ => return None,
        };
        if self.takes("vmap") {
            return Some(json!({ "vmap": { "key": left, "data": self.value()? } }));
        }
        if self.takes("set") {
            // Of a mark that is made of another nobody knows what it becomes.
            let value = self
                .take()
                .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
            return Some(json!({ "mangle": { "key": left, "value": value } }));
        }
        let named = OPERATORS.into_iter().find(|operator| self.takes(operator));
        let right = self.value()?;
        if self.takes("/") {
            left = json!({ "&": [left, self.value()?] });
        }
        // One flag, and several without braces, are any of them.
        let flags = ["state", "status", "flags"].map(Value::from);
        let of = [&left["ct"]["key"], &left["payload"]["field"]];
        let implied = match right.get("set") {
            None if of.iter().any(|of| flags.contains(of)) => "in",
            _ => "==",
        };
        Some(json!({ "match": { "op": named.unwrap_or(implied), "left": left, "right": right } }))
    }

    /// A value, several with commas, or a set.
    fn value(&mut self) -> Option<Value> {
        if !self.takes("{") {
            let mut all = vec![plain(self.take()?)?];
            while self.takes(",") {
                all.push(plain(self.take()?)?);
            }
            return if all.len() == 1 {
                all.pop()
            } else {
                Some(json!(all))
            };
        }
        let mut set = Vec::new();
        while !self.takes("}") {
            let key = plain(self.take()?)?;
            set.push(match self.takes(":") {
                true => json!([key, self.read()??]),
                false => key,
            });
            // How long an element stays, and what it counted.
            while !self.takes(",") && self.peek() != "}" {
                self.take()?;
            }
        }
        Some(json!({ "set": set }))
    }
}

/// A word, a name in quotes, a prefix, or a range of numbers or addresses.
fn plain(word: &str) -> Option<Value> {
    let is_number = |text: &str| text.parse::<u64>().is_ok() || text.parse::<IpAddr>().is_ok();
    if let Some((address, length)) = word.split_once('/') {
        let length = length.parse::<u8>().ok()?;
        return Some(json!({ "prefix": { "addr": address, "len": length } }));
    }
    Some(match word.split_once('-') {
        Some((from, to)) if is_number(from) && is_number(to) => json!({ "range": [from, to] }),
        _ if word == "missing" || word == "exists" => json!(word == "exists"),
        _ if ["over", ".", "&", "|", "^"].contains(&word) => return None,
        _ => json!(word.trim_start_matches('"')),
    })
}
