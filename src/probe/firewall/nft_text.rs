//! `nft list ruleset` in nft's own language (nft(8)), as the objects of its JSON. A statement that is not understood may decide.

mod statement;

use serde_json::{Value, json};

/// What ends a statement.
const END: &str = ";";
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
