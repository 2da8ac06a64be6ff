//! The output of iptables-save(8) and ip6tables-save(8), of both implementations.

use std::sync::Arc;

use super::words;
use crate::fact::ruleset::{
    Backend, Base, Chain, Family, Hook, Match, PacketField, Rule, Step, Table, Values, Verdict,
};
use crate::sentence::shell::Command;

/// Reads all tables of one family.
pub(in crate::probe) fn tables(
    text: &str,
    family: Family,
    backend: Backend,
) -> Result<Vec<Table>, String> {
    let mut tables: Vec<Table> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('*') {
            tables.push(Table::new(family, name, backend));
            open = true;
        } else if line == "COMMIT" {
            open = false;
        } else if let Some(table) = tables.last_mut().filter(|_| open) {
            if let Some(chain) = line.strip_prefix(':') {
                let mut words = chain.split_whitespace();
                let name = words.next().ok_or("a chain without a name")?;
                let drops = words.next() == Some("DROP");
                let base = base(&table.name, name, drops);
                table.chains.push(Chain {
                    name: name.into(),
                    base,
                    rules: Vec::new(),
                });
            } else {
                let (chain, rule) = rule(line, table);
                if let Some(chain) = table.chains.iter_mut().find(|c| *c.name == *chain) {
                    chain.rules.push(rule);
                } else {
                    table.gap = Some(format!("rule {line:?} is of no chain").into());
                }
            }
        } else {
            return Err(crate::probe::is_not(line, "a line of iptables-save"));
        }
    }
    if open {
        return Err("the last table has no end".into());
    }
    Ok(tables)
}

/// A built-in chain's hook and priority (`include/uapi/linux/netfilter_ipv4.h`, NF_IP_PRI_*).
fn base(table: &str, chain: &str, drops: bool) -> Option<Base> {
    let hook = match chain {
        "PREROUTING" => Hook::Prerouting,
        "INPUT" => Hook::Input,
        "OUTPUT" => Hook::Output,
        "POSTROUTING" => Hook::Postrouting,
        "FORWARD" => Hook::Other,
        _ => return None,
    };
    let source = matches!(hook, Hook::Input | Hook::Postrouting);
    Some(Base {
        hook,
        nat: table == "nat",
        priority: match table {
            "raw" => -300,
            "mangle" => -150,
            "nat" if source => 100,
            "nat" => -100,
            "security" => 50,
            _ => 0,
        },
        drops,
        devices: None,
    })
}

/// A word of a rule; whether it was quoted.
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    fn is_option(&self) -> bool {
        !self.quoted && self.text.starts_with('-') && self.text.len() > 1
    }
}

/// Splits a rule as iptables-save writes it: words, some in double quotes with backslashes.
fn split(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut letters = line.chars().peekable();
    while let Some(&c) = letters.peek() {
        if c.is_whitespace() {
            letters.next();
            continue;
        }
        let quoted = c == '"';
        if quoted {
            letters.next();
        }
        let mut text = String::new();
        while let Some(c) = letters.next() {
            match c {
                '"' if quoted => break,
                '\\' if quoted => text.extend(letters.next()),
                c if !quoted && c.is_whitespace() => break,
                c => text.push(c),
            }
        }
        words.push(Word { text, quoted });
    }
    words
}

/// The chain of a rule, and the rule.
fn rule(line: &str, table: &Table) -> (String, Rule) {
    let tool = if table.family == Family::Ipv6 {
        "ip6tables"
    } else {
        "iptables"
    };
    let words = split(line);
    let program: &[&str] = match &*table.name {
        "filter" => &[tool],
        other => &[tool, "-t", other],
    };
    let all = words.iter().map(|word| word.text.as_str());
    let text = Command::of_words(program.iter().copied().chain(all));
    let mut reader = Reader {
        words: &words,
        at: 0,
        table,
        module: String::new(),
        steps: Vec::new(),
        chain: String::new(),
    };
    reader.read();
    let rule = Rule {
        text: text.into_text(),
        steps: reader.steps,
    };
    (reader.chain, rule)
}

struct Reader<'a> {
    words: &'a [Word],
    at: usize,
    table: &'a Table,
    module: String,
    steps: Vec<Step>,
    chain: String,
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut negate = false;
        while let Some(word) = self.words.get(self.at) {
            self.at += 1;
            if word.text == "!" && !word.quoted {
                negate = true;
                continue;
            }
            if word.is_option() {
                self.option(&word.text, negate);
            }
            negate = false;
        }
    }

    fn argument(&mut self) -> &str {
        let word = self.words.get(self.at);
        self.at += usize::from(word.is_some());
        word.map_or("", |word| word.text.as_str())
    }

    /// Passes over the arguments of an option that needs no more attention.
    fn skip(&mut self) {
        while let Some(word) = self.words.get(self.at) {
            if word.is_option() || (word.text == "!" && !word.quoted) {
                break;
            }
            self.at += 1;
        }
    }

    fn fits(&mut self, field: PacketField, negate: bool, values: Option<Values>) {
        self.fits_any(vec![field], negate, values.map(|values| vec![vec![values]]));
    }

    /// The packet needs a header that an ordinary one does not have.
    fn fits_none(&mut self) {
        let none = Match::any(vec![PacketField::Extension], Vec::new());
        self.steps.push(Step::Match(none));
    }

    fn fits_any(&mut self, fields: Vec<PacketField>, negate: bool, any: Option<Vec<Vec<Values>>>) {
        let fits = match any {
            Some(any) => Match::any(fields, any),
            None => Match::unknown(fields),
        };
        self.steps.push(Step::Match(fits.unless(negate)));
    }

    /// Reads one word of a field.
    fn fits_word(&mut self, field: PacketField, negate: bool) {
        let number = words::number(&field, self.argument());
        self.fits(field, negate, number.map(Values::one));
    }

    fn opaque(&mut self, option: &str) {
        let module = std::mem::take(&mut self.module);
        self.steps
            .push(Step::Opaque(format!("match {module} {option}").into()));
        self.module = module;
        self.skip();
    }

    fn option(&mut self, option: &str, negate: bool) {
        match option {
            "-A" | "--append" => self.chain = self.argument().to_owned(),
            "-p" | "--protocol" => {
                let word = self.argument();
                if word != "all" && word != "0" {
                    let number = words::number(&PacketField::Protocol, word);
                    self.fits(PacketField::Protocol, negate, number.map(Values::one));
                }
            }
            "-s" | "--source" | "-d" | "--destination" => {
                let source = matches!(option, "-s" | "--source");
                let field = self.address(source);
                let range = subnet(&field, self.argument());
                self.fits(field, negate, range.map(|r| Values::Ranges(vec![r])));
            }
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let name = self.argument();
                let name: Arc<str> = match name.strip_suffix('+') {
                    Some(start) => format!("{start}*").into(),
                    None => name.into(),
                };
                let field = match option {
                    "-i" | "--in-interface" => PacketField::InName,
                    _ => PacketField::OutName,
                };
                self.fits(field, negate, Some(Values::Names(vec![name])));
            }
            // Second and further fragments; those that matter here are whole.
            "-f" | "--fragment" if !negate => self.fits_none(),
            "-f" | "--fragment" => {}
            "-m" | "--match" => {
                self.module = self.argument().to_owned();
                self.module_itself(negate);
            }
            "-j" | "--jump" => {
                let target = self.argument().to_owned();
                self.target(&target);
            }
            "-g" | "--goto" => {
                let target = self.argument().into();
                self.steps.push(Step::Verdict(Verdict::Goto(target)));
            }
            "-c" | "--set-counters" => self.skip(),
            _ => self.module_option(option, negate),
        }
    }

    fn address(&self, source: bool) -> PacketField {
        match (self.table.family, source) {
            (Family::Ipv6, true) => PacketField::Source6,
            (Family::Ipv6, false) => PacketField::Destination6,
            (_, true) => PacketField::Source4,
            (_, false) => PacketField::Destination4,
        }
    }

    /// The condition that naming a module implies.
    fn module_itself(&mut self, negate: bool) {
        match self.module.as_str() {
            module if words::RATES.contains(&module) => self.steps.push(Step::Rate),
            // Headers that an ordinary packet does not have.
            "rt" | "frag" | "ah" | "esp" | "mh" | "hbh" | "dst" if !negate => self.fits_none(),
            "rpfilter" => {
                let rest = self.words.get(self.at..).unwrap_or_default();
                let own = rest.iter().take_while(|w| {
                    !matches!(w.text.as_str(), "-m" | "-j" | "-g" | "--match" | "--jump")
                });
                let invert = own.clone().any(|w| w.text == "--invert");
                self.fits(PacketField::ReversePath, invert, Some(Values::one(1)));
            }
            module if words::OPAQUE.contains(&module) => {
                let what = format!("match {module}");
                self.steps.push(Step::Opaque(what.into()));
            }
            "mac" | "geoip" => {
                let what: Arc<str> = format!("match {}", self.module).into();
                self.fits(PacketField::Sender(what), false, None);
            }
            _ => {}
        }
    }

    fn module_option(&mut self, option: &str, negate: bool) {
        let module = self.module.clone();
        match (module.as_str(), option) {
            (_, "--comment") => {
                self.argument();
            }
            // What these modules ask was said when they were named.
            (
                "rt" | "frag" | "ah" | "esp" | "mh" | "hbh" | "dst" | "rpfilter" | "mac" | "geoip",
                _,
            ) => self.skip(),
            (module, _) if words::RATES.contains(&module) || words::OPAQUE.contains(&module) => {
                self.skip()
            }
            ("recent", "--rcheck" | "--update" | "--remove") => {
                self.steps.push(Step::Rate);
                self.skip();
            }
            ("recent", _) => self.skip(),
            (_, "--dport" | "--destination-port") => {
                self.ports(PacketField::DestinationPort, negate)
            }
            (_, "--sport" | "--source-port") => self.ports(PacketField::SourcePort, negate),
            ("multiport", "--dports" | "--destination-ports") => {
                self.ports(PacketField::DestinationPort, negate);
            }
            ("multiport", "--sports" | "--source-ports") => {
                self.ports(PacketField::SourcePort, negate)
            }
            // Either port: fits where one of two tuples does.
            ("multiport", "--ports") => {
                let ports = ports(self.argument());
                let all = Values::Ranges(vec![(0, u128::MAX)]);
                let any = ports.clone().map(|ports| {
                    let ports = Values::Ranges(ports);
                    vec![vec![ports.clone(), all.clone()], vec![all, ports]]
                });
                let fields = vec![PacketField::SourcePort, PacketField::DestinationPort];
                self.fits_any(fields, negate, any);
            }
            ("tcp", "--syn") => {
                self.fits(PacketField::TcpFlags, negate, Some(Values::Masked(23, 2)))
            }
            ("tcp", "--tcp-flags") => {
                let mask = flags(&PacketField::TcpFlags, self.argument());
                let set = flags(&PacketField::TcpFlags, self.argument());
                let values = mask.zip(set).map(|(m, v)| Values::Masked(m, v));
                self.fits(PacketField::TcpFlags, negate, values);
            }
            ("conntrack", "--ctstate") | ("state", "--state") => self.states(negate),
            ("conntrack", "--ctstatus") => {
                let bits = flags(&PacketField::Status, self.argument());
                self.fits(PacketField::Status, negate, bits.map(Values::Bits));
            }
            ("conntrack", "--ctdir") => self.fits_word(PacketField::Direction, negate),
            ("mark", "--mark") => self.mark(PacketField::Mark, negate),
            ("connmark", "--mark") => self.mark(PacketField::ConnectionMark, negate),
            ("addrtype", "--src-type") => self.kinds(PacketField::SourceKind, negate),
            ("addrtype", "--dst-type") => self.kinds(PacketField::DestinationKind, negate),
            ("pkttype", "--pkt-type") => self.fits_word(PacketField::PacketType, negate),
            ("iprange", "--src-range") => self.addresses(true, negate),
            ("iprange", "--dst-range") => self.addresses(false, negate),
            ("icmp", "--icmp-type") => {
                self.icmp(PacketField::IcmpType, PacketField::IcmpCode, negate)
            }
            ("icmp6" | "icmpv6", "--icmpv6-type") => {
                self.icmp(PacketField::Icmp6Type, PacketField::Icmp6Code, negate);
            }
            ("set", "--match-set") => {
                let set: Arc<str> = format!("ipset {}", self.argument()).into();
                let source = self.argument().split(',').all(|part| part == "src");
                let field = if source {
                    PacketField::Sender(set)
                } else {
                    PacketField::Other(set)
                };
                self.fits(field, negate, None);
            }
            ("set", "--return-nomatch" | "--update-counters" | "--update-subcounters") => {
                self.skip()
            }
            (_, option) => self.opaque(option),
        }
    }

    fn ports(&mut self, field: PacketField, negate: bool) {
        let ports = ports(self.argument());
        self.fits(field, negate, ports.map(Values::Ranges));
    }

    fn states(&mut self, negate: bool) {
        let words = self.argument().to_owned();
        let mut bits = 0;
        let mut rewritten = 0;
        for word in words.split(',') {
            match (word, words::number(&PacketField::State, word)) {
                // Bits of the status, under the same option.
                ("SNAT", _) => rewritten |= 16,
                ("DNAT", _) => rewritten |= 32,
                (_, Some(bit)) => bits |= bit,
                (_, None) => {
                    self.fits(PacketField::State, negate, None);
                    return;
                }
            }
        }
        if rewritten == 0 {
            self.fits(PacketField::State, negate, Some(Values::Bits(bits)));
            return;
        }
        let all = Values::Ranges(vec![(0, u128::MAX)]);
        let any = vec![
            vec![Values::Bits(bits), all.clone()],
            vec![all, Values::Bits(rewritten)],
        ];
        let fields = vec![PacketField::State, PacketField::Status];
        self.fits_any(fields, negate, Some(any));
    }

    fn mark(&mut self, field: PacketField, negate: bool) {
        let text = self.argument();
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        let read = words::plain(mask).zip(words::plain(value));
        let values = read.map(|(mask, value)| Values::Masked(mask, value));
        self.fits(field, negate, values);
    }

    fn kinds(&mut self, field: PacketField, negate: bool) {
        let words = self.argument().to_owned();
        let kinds = words.split(',').map(|word| words::number(&field, word));
        let ranges: Option<Vec<(u128, u128)>> = kinds.map(|kind| kind.map(|n| (n, n))).collect();
        self.fits(field, negate, ranges.map(Values::Ranges));
    }

    fn addresses(&mut self, source: bool, negate: bool) {
        let field = self.address(source);
        let range = self
            .argument()
            .split_once('-')
            .and_then(|(from, to)| words::number(&field, from).zip(words::number(&field, to)));
        self.fits(field, negate, range.map(|r| Values::Ranges(vec![r])));
    }

    fn icmp(&mut self, kind: PacketField, code: PacketField, negate: bool) {
        let text = self.argument().to_owned();
        let (type_word, code_word) = match text.split_once('/') {
            Some((kind, code)) => (kind, Some(code)),
            None => (text.as_str(), None),
        };
        if type_word == "any" || type_word == "255" {
            return;
        }
        let type_value = words::number(&kind, type_word).map(Values::one);
        let code_value = match code_word {
            Some(word) => words::number(&code, word).map(Values::one),
            None => Some(Values::Ranges(vec![(0, u128::MAX)])),
        };
        let any = type_value.zip(code_value).map(|(t, c)| vec![vec![t, c]]);
        self.fits_any(vec![kind, code], negate, any);
    }

    fn target(&mut self, target: &str) {
        let plain = plain_target(target).map(<[_]>::to_vec);
        let steps = plain.unwrap_or_else(|| match target {
            "ACCEPT" => vec![Step::Verdict(Verdict::Accept)],
            "DROP" => vec![Step::Verdict(Verdict::Drop)],
            "RETURN" => vec![Step::Verdict(Verdict::Return)],
            "CT" => {
                let rest = self.words.get(self.at..).unwrap_or_default();
                let untracked = rest.iter().any(|word| word.text == "--notrack");
                untracked.then_some(Step::Untrack).into_iter().collect()
            }
            "MARK" => {
                let option = self.argument().to_owned();
                vec![Step::Mark(set_mark(&option, self.argument()))]
            }
            chain if self.table.chain(chain).is_some() => {
                vec![Step::Verdict(Verdict::Jump(chain.into()))]
            }
            other => vec![Step::OpaqueVerdict(format!("target {other}").into())],
        });
        self.steps.extend(steps);
        // The rest are the target's own options.
        self.at = self.words.len();
    }
}

/// What a target does, whatever its options.
pub(super) fn plain_target(target: &str) -> Option<&'static [Step]> {
    Some(match target {
        "MASQUERADE" => &[Step::Verdict(Verdict::Accept)],
        "SNAT" => &[Step::Translate],
        "REJECT" => &[Step::Verdict(Verdict::Reject)],
        "QUEUE" | "NFQUEUE" => &[Step::Verdict(Verdict::Queue)],
        "DNAT" | "REDIRECT" | "TPROXY" | "SYNPROXY" | "NETMAP" => &[Step::Divert],
        "NOTRACK" => &[Step::Untrack],
        "CONNMARK" => &[Step::ConnectionMark, Step::Mark(None)],
        silent if words::SILENT_TARGETS.contains(&silent) => &[],
        _ => return None,
    })
}

/// `mark & and ^ xor` of an option of target MARK.
fn set_mark(option: &str, argument: &str) -> Option<(u32, u32)> {
    let (value, mask) = argument.split_once('/').unwrap_or((argument, "0xffffffff"));
    let value = u32::try_from(words::plain(value)?).ok()?;
    let mask = u32::try_from(words::plain(mask)?).ok()?;
    Some(match option {
        "--set-xmark" => (!mask, value),
        "--set-mark" => (!(value | mask), value),
        "--and-mark" => (value, 0),
        "--or-mark" => (!value, value),
        "--xor-mark" => (u32::MAX, value),
        _ => return None,
    })
}

fn flags(field: &PacketField, text: &str) -> Option<u128> {
    text.split(',')
        .map(|word| words::number(field, word))
        .try_fold(0, |all, one| Some(all | one?))
}

/// `22`, `1000:2000`, `:1023`, and several with commas.
fn ports(text: &str) -> Option<Vec<(u128, u128)>> {
    let one = |part: &str| {
        let (from, to) = part.split_once(':').unwrap_or((part, part));
        let from = if from.is_empty() { "0" } else { from };
        let to = if to.is_empty() { "65535" } else { to };
        words::plain(from).zip(words::plain(to))
    };
    text.split(',').map(one).collect()
}

/// `10.0.0.0/8`, with a mask in dots too, or one address.
fn subnet(field: &PacketField, text: &str) -> Option<(u128, u128)> {
    let whole = if matches!(field, PacketField::Source6 | PacketField::Destination6) {
        128
    } else {
        32
    };
    let Some((address, length)) = text.split_once('/') else {
        return words::subnet(field, text, whole);
    };
    let length = match (length.parse::<u32>(), length.parse::<std::net::Ipv4Addr>()) {
        (Ok(length), _) => length,
        (_, Ok(mask)) => {
            let mask = u32::from(mask);
            // A mask with holes is no subnet.
            if mask.leading_ones() != mask.count_ones() {
                return None;
            }
            mask.leading_ones()
        }
        _ => return None,
    };
    words::subnet(field, address, length)
}
