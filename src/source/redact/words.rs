//! Host names, users, home directories, URLs and secrets: what no form betrays, and the names have to be known for.

use std::collections::HashSet;

use super::key::Key;
use super::text::{self, Found, Kind, run};
use super::{files, kept};

/// Names that identify nothing, and words of the kernel's files: replacing them would lose meaning and protect nothing.
const ORDINARY: &str = "\
    localhost localdomain linux none node host server compute gpu cluster ubuntu debian rocky \
    centos rhel fedora redhat root admin user nobody daemon infiniband ethernet mellanox nvidia \
    roce mlx4 mlx5 ib_core eth0 ib0 active down init unknown enabled disabled true false home net \
    sys proc dev default kernel device driver port yes no on off up vm fs class bus module \
    modules block virtual firmware debug power cpu memory pci devices drivers ports gids counters \
    bonding bond irq self status stat limits cgroup security fabric storage login head master \
    worker test build slurm munge conda";

/// The names that are replaced wherever they stand as words.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The key of their pseudonyms.
    pub(super) key: Key,
    /// The node's name, whole and up to its first dot, the longer first.
    hosts: Vec<String>,
    /// The short name with each run of digits as `#`: how the cluster's other nodes are called.
    pattern: Option<String>,
    users: Vec<String>,
    homes: Vec<String>,
    /// Names that are kept, whoever they are called after: of this machine's network and RDMA devices.
    pub(super) known: HashSet<String>,
    /// Hosts that wrote lines of a log: replaced in logs alone.
    pub(super) writers: HashSet<String>,
}

impl Names {
    /// The names of this node and of these users; a user that begins with `/` is a home directory.
    pub(super) fn new(key: Key, node: &str, users: &[&str]) -> Self {
        let short = node.split('.').next().unwrap_or("");
        let hosts = names_of(node);
        let pattern = Some(shape(short)).filter(|shape| {
            !hosts.is_empty()
                && shape.contains('#')
                && shape.bytes().filter(u8::is_ascii_alphabetic).count() >= 3
        });
        let (homes, users): (Vec<_>, Vec<_>) = users
            .iter()
            .map(|name| name.trim_end_matches('/'))
            .filter(|name| name.len() > 1 && !is_ordinary(name) && *name != "/root")
            .map(str::to_owned)
            .partition(|name| name.starts_with('/'));
        Names {
            key,
            hosts,
            pattern,
            users,
            homes,
            known: HashSet::new(),
            writers: HashSet::new(),
        }
    }

    /// Adds the name of a host of which a recording speaks, and of a user.
    pub(super) fn learn(&mut self, hosts: &[String], users: &[String]) {
        for host in hosts {
            for name in names_of(host) {
                if !self.hosts.contains(&name) {
                    self.hosts.push(name);
                }
            }
        }
        for user in users {
            if user.len() > 2 && !is_ordinary(user) && !self.users.contains(user) {
                self.users.push(user.clone());
            }
        }
        // The longer first: the short name is the beginning of the whole one.
        self.hosts.sort_by_key(|name| std::cmp::Reverse(name.len()));
    }

    /// The host, user, home directory, URL or secret that begins at `at`.
    pub(super) fn at(&self, text: &str, at: usize, word_start: bool, kind: Kind) -> Option<Found> {
        let rest = text.get(at..)?;
        if kind.free
            && let Some(found) = self.home(text, at, kind.listed)
        {
            return Some(found);
        }
        if !word_start {
            return None;
        }
        if kind.free
            && let Some(found) = url(&self.key, rest)
                .or_else(|| assignment(&self.key, rest))
                .or_else(|| credential(&self.key, text, at))
                .or_else(|| management_key(&self.key, rest))
                .or_else(|| self.account(rest).or_else(|| self.domain_account(rest)))
                .or_else(|| self.library(rest, kind))
        {
            return Some(found);
        }
        self.host(rest, kind).or_else(|| self.user(rest, kind))
    }

    /// `user@host`, `first.last@mail.example`.
    fn account(&self, rest: &str) -> Option<Found> {
        let in_user = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
        let user = run(rest, in_user);
        let place = rest.get(user.len()..)?.strip_prefix('@')?;
        let host = run(place, |b| {
            b.is_ascii_alphanumeric() || b == b'.' || b == b'-'
        });
        let host = host.trim_end_matches(['.', '-']);
        let is_name = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
        // `vlan7@eth0`, `10.0.0.1@o2ib`, `rdma-load-modules@rdma.service`.
        if !is_name(user) || !is_name(host) || kept::is_kept(self, host) {
            return None;
        }
        let taken = user.len() + 1 + host.len();
        Some((
            taken,
            format!("{}@{}", self.key.user(user), self.key.host(host)),
        ))
    }

    /// `DOMAIN\user`, as Windows and winbind write one.
    fn domain_account(&self, rest: &str) -> Option<Found> {
        let domain = run(rest, |b| {
            b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-'
        });
        let user = run(rest.get(domain.len()..)?.strip_prefix('\\')?, |b| {
            b.is_ascii_alphanumeric() || b"._-".contains(&b)
        });
        let begins_with_letter = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
        if domain.len() < 2 || !begins_with_letter(domain) || !begins_with_letter(user) {
            return None;
        }
        let taken = domain.len() + 1 + user.len();
        let pseudonyms = format!("{}\\{}", self.key.other(domain), self.key.user(user));
        Some((taken, pseudonyms))
    }

    /// A library by its file's name alone, as in NCCL's words about a plugin.
    fn library(&self, rest: &str, kind: Kind) -> Option<Found> {
        let name = run(rest, kept::in_name).trim_end_matches('.');
        let is_library = name.ends_with(".so") || name.contains(".so.");
        (is_library && !kind.listed).then(|| (name.len(), self.place(name)))
    }

    /// A name of letters, digits and what joins them, of which only what is listed is kept: from the first unknown piece on a
    /// pseudonym stands in its place, up to the next dot.
    pub(super) fn unlisted(&self, rest: &str, kind: Kind) -> Found {
        let name = run(rest, kept::in_name);
        // `misc/socket.cc:484 NCCL WARN`: by its form a line is known.
        let is_source = rest
            .get(name.len()..)
            .and_then(|after| after.strip_prefix(':')?.split_once(" NCCL "))
            .is_some_and(|(line, _)| line.bytes().all(|b| b.is_ascii_digit()));
        if kind.messages && is_source {
            return (name.len(), name.to_owned());
        }
        let words = name
            .split('.')
            .map(|word| match kept::unknown_rest(self, word, kind) {
                Some(unknown) => {
                    let known = word.get(..word.len() - unknown.len()).unwrap_or("");
                    format!("{known}{}", self.key.other(unknown))
                }
                None => word.to_owned(),
            });
        (name.len(), words.collect::<Vec<_>>().join("."))
    }

    fn host(&self, rest: &str, kind: Kind) -> Option<Found> {
        // In the kernel's files an underscore makes a longer name, as in mlx5_0; people join anything with one.
        let ends = |length: usize| match rest.as_bytes().get(length) {
            Some(b'_') => kind.free,
            Some(byte) => !byte.is_ascii_alphanumeric(),
            None => true,
        };
        for name in &self.hosts {
            let fits = rest
                .get(..name.len())
                .is_some_and(|word| word.eq_ignore_ascii_case(name));
            if fits && ends(name.len()) {
                let domain = domain_after(rest, name.len());
                let whole = rest.get(..name.len() + domain)?;
                return Some((whole.len(), self.key.host(whole)));
            }
        }
        let pattern = self.pattern.as_ref().filter(|_| kind.free)?;
        let word = run(rest, |b| b.is_ascii_alphanumeric() || b == b'-');
        if &shape(word) == pattern {
            let whole = rest.get(..word.len() + domain_after(rest, word.len()))?;
            return Some((whole.len(), self.key.host(whole)));
        }
        None
    }

    fn user(&self, rest: &str, kind: Kind) -> Option<Found> {
        if !kind.free {
            return None;
        }
        let fits = |name: &&String| {
            rest.starts_with(name.as_str())
                && !rest
                    .as_bytes()
                    .get(name.len())
                    .is_some_and(u8::is_ascii_alphanumeric)
        };
        let name = self
            .users
            .iter()
            .filter(fits)
            .max_by_key(|name| name.len())?;
        Some((name.len(), self.key.user(name)))
    }

    /// A path below a home directory, or any other that is not the kernel's. What lists words finds the latter's names by itself.
    fn home(&self, text: &str, at: usize, is_listed: bool) -> Option<Found> {
        let rest = text.get(at..)?;
        let before = at
            .checked_sub(1)
            .and_then(|before| text.as_bytes().get(before));
        if before.is_some_and(|b| text::in_word(*b)) {
            return None;
        }
        // `../devices`, `}/name`: what follows is the end of a longer path.
        let goes_on = before.is_some_and(|b| b"./-*%$})~".contains(b));
        match self.home_path(rest) {
            None if !goes_on && !is_listed => self.shared_path(path_of(rest)),
            found => found,
        }
    }

    /// [`Names::home`], for a text that begins with the path.
    pub(super) fn home_path(&self, rest: &str) -> Option<Found> {
        let path = path_of(rest);
        let home = self.homes.iter().filter(|home| {
            path.strip_prefix(home.as_str())
                .is_some_and(|inside| inside.is_empty() || inside.starts_with('/'))
        });
        let (owner, inside) = match home.max_by_key(|home| home.len()) {
            Some(home) => (home.rsplit('/').next()?, path.get(home.len()..)?),
            None => {
                let inside = path.strip_prefix("/home/")?;
                let owner = inside.split('/').next().filter(|owner| !owner.is_empty())?;
                (owner, inside.get(owner.len()..)?)
            }
        };
        let home = format!("/home/{}", self.key.user(owner));
        Some((path.len(), home + &self.place(inside)))
    }

    /// A path that is not the kernel's.
    fn shared_path(&self, path: &str) -> Option<Found> {
        let (top, inside) = path.strip_prefix('/')?.split_once('/')?;
        // `/s`, `//`: what looks like the top of a path is none.
        let is_path = top.starts_with(|c: char| c.is_ascii_alphabetic())
            && inside.bytes().any(|b| b != b'/')
            && !files::is_kernel(path);
        is_path.then(|| (path.len(), self.place(path)))
    }
}

/// The names by which a host is known: the whole one, and up to its first dot.
fn names_of(host: &str) -> Vec<String> {
    let short = host.split('.').next().unwrap_or("");
    let mut names = vec![host, short];
    names.dedup();
    names.retain(|name| {
        // Four hexadecimal digits could be anything, and so could a number.
        let hex = name.len() <= 4 && name.bytes().all(|b| b.is_ascii_hexdigit());
        let letter = name.bytes().any(|b| b.is_ascii_alphabetic());
        letter && !hex && name.len() > 1 && !is_ordinary(short)
    });
    names.into_iter().map(str::to_owned).collect()
}

/// The users whose homes a text names: `/home/alice/…`.
pub(super) fn home_owners(text: &str) -> impl Iterator<Item = &str> {
    text.split("/home/").skip(1).map(|rest| {
        run(rest, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
        })
    })
}

pub(super) fn is_ordinary(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_glog_mark(name) || ORDINARY.split(' ').any(|one| one == lower)
}

/// Whether it is the level and the day of a line, as glog and PyTorch write them: `W0430`, `W430`.
fn is_glog_mark(name: &str) -> bool {
    name.strip_prefix(['I', 'W', 'E', 'F']).is_some_and(|day| {
        matches!(day.len(), 3 | 4) && day.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A name with each run of digits as `#`.
fn shape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

/// The path with which a text begins.
fn path_of(text: &str) -> &str {
    run(text, |b| {
        !b.is_ascii_whitespace() && !br#":,;"'=()[]{}<>|"#.contains(&b)
    })
}

/// The bytes that `.cluster.example` takes after a host's short name.
fn domain_after(rest: &str, from: usize) -> usize {
    let mut end = from;
    while let Some(label) = rest.get(end..).and_then(|r| r.strip_prefix('.')) {
        match run(label, |b| b.is_ascii_alphanumeric() || b == b'-').len() {
            0 => break,
            length => end += 1 + length,
        }
    }
    end - from
}

/// `scheme://user:password@host`: user and host are replaced; port and path are scanned further.
fn url(key: &Key, rest: &str) -> Option<Found> {
    let scheme = run(rest, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-')
    });
    let after = rest.get(scheme.len()..)?.strip_prefix("://")?;
    if scheme.is_empty() {
        return None;
    }
    let authority = run(after, |b| {
        !b.is_ascii_whitespace() && !br#"/?#"',;"#.contains(&b)
    });
    // A secret may have slashes in it: `s3://ID:SECRET@bucket`, where no port follows the colon.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|b| b.is_ascii_digit());
    let whole = run(after, |b| {
        !b.is_ascii_whitespace() && !br#""',"#.contains(&b)
    });
    let authority = match whole.rfind('@') {
        Some(at) if !authority.contains('@') && !is_port => {
            let place = run(whole.get(at + 1..)?, |b| !br"/?#;".contains(&b));
            whole.get(..at + 1 + place.len())?
        }
        _ => authority,
    };
    let (who, place) = match authority.rsplit_once('@') {
        Some((who, place)) => {
            let credentials = who.split(':').filter(|part| !part.is_empty());
            credentials.for_each(|one| drop(key.secret(one)));
            ("redacted@", place)
        }
        None => ("", authority),
    };
    let name = run(place, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')
    });
    // An address is left to the scanner, which goes on after what is taken here.
    let is_name = name.bytes().any(|b| b.is_ascii_alphabetic());
    let taken_place = if is_name { name.len() } else { 0 };
    let taken = scheme.len() + 3 + (authority.len() - place.len()) + taken_place;
    let host = if is_name {
        key.host(name)
    } else {
        String::new()
    };
    Some((taken, format!("{scheme}://{who}{host}")))
}

/// `Mkey:....0x…` of smpquery: whoever has a port's M_Key can configure it.
fn management_key(key: &Key, rest: &str) -> Option<Found> {
    let name = ["Mkey", "M_Key", "MKey"]
        .into_iter()
        .find(|name| rest.starts_with(name))?;
    let after = rest.get(name.len()..)?;
    let value = after.trim_start_matches([':', '.', ' ', '\t', '=']);
    let digits = run(value, |b| b.is_ascii_hexdigit() || b == b'x');
    let gap = after.get(..after.len() - value.len())?;
    if gap.is_empty() || !digits.starts_with("0x") {
        return None;
    }
    let taken = name.len() + gap.len() + digits.len();
    Some((taken, format!("{name}{gap}{}", key.secret(digits))))
}

/// `password=…`: the value, up to white space.
fn assignment(key: &Key, rest: &str) -> Option<Found> {
    let name = run(rest, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
    });
    let value = rest.get(name.len()..)?.strip_prefix('=')?;
    if !is_secret(name) {
        return None;
    }
    let value = match value.bytes().next() {
        Some(quote @ (b'"' | b'\'')) => {
            let end = value.bytes().skip(1).position(|b| b == quote);
            value.get(..end.map_or(value.len(), |end| end + 2))?
        }
        _ => run(value, |b| !b.is_ascii_whitespace()),
    };
    let taken = name.len() + 1 + value.len();
    Some((taken, format!("{name}={}", key.secret(value))))
}

/// Whether a name ends in a word, of which it has the beginning: `db_password`, `clientSecret`,
/// `authtoken`. A host may be called `topsecret`.
fn ends_in_word(name: &str, word: &str) -> bool {
    const OWNERS: &str = "access admin api app auth bearer client db my refresh root user";
    let Some((before, last)) = name.split_at_checked(name.len().saturating_sub(word.len())) else {
        return false;
    };
    let begins = match before.chars().last() {
        None | Some('_' | '-') => true,
        Some(_) if last.starts_with(|c: char| c.is_ascii_uppercase()) => true,
        Some(_) => OWNERS
            .split(' ')
            .any(|owner| before.eq_ignore_ascii_case(owner)),
    };
    last.eq_ignore_ascii_case(word) && begins
}

/// `"password": "…"`, `api_key: …`, `--password …`, `Bearer …`: the word behind it. What outputs of
/// tools call a key is none of these.
fn credential(key: &Key, text: &str, at: usize) -> Option<Found> {
    const SECRETS: [&str; 5] = ["password", "passwd", "passphrase", "secret", "token"];
    let (before, rest) = text.split_at_checked(at)?;
    let name = run(rest, |b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let plain = name.to_ascii_lowercase().replace(['_', '-'], "");
    let after = rest.get(name.len()..)?;
    let value = after.trim_start_matches(['"', '\'', ':', ' ', '\t', '\\']);
    let gap = after.get(..after.len() - value.len())?;
    let word = run(value, |b| {
        !b.is_ascii_whitespace() && !br#""',;)}]\"#.contains(&b)
    });
    let is_word = word.len() >= 4 && !word.bytes().all(|b| b.is_ascii_digit());
    let is_named = (plain.ends_with("apikey")
        || plain.ends_with("accesskey")
        || SECRETS.iter().any(|one| ends_in_word(name, one)))
        && (gap.matches(':').count() == 1 || gap == " " && before.ends_with("--"));
    let is_scheme = matches!(&*plain, "bearer" | "basic")
        && gap == " "
        && word.len() >= 8
        && word.bytes().any(|b| !b.is_ascii_lowercase());
    (is_word && (is_named || is_scheme)).then(|| {
        let taken = name.len() + gap.len() + word.len();
        (taken, format!("{name}{gap}{}", key.secret(word)))
    })
}

/// Whether a variable of this name holds a secret. A P_Key is a partition's number and no secret.
pub(super) fn is_secret(name: &str) -> bool {
    name.to_ascii_uppercase()
        .split(['_', '-', '.'])
        .any(|word| {
            [
                "TOKEN",
                "SECRET",
                "CRED",
                "AUTH",
                "PASSW",
                "PASSPHRASE",
                "SIGNATURE",
                "ACCESSKEY",
            ]
            .iter()
            .any(|part| word.contains(part))
                || matches!(word, "PASS" | "KEYS" | "PWD" | "SIG")
                || (word.ends_with("KEY")
                    && !matches!(word, "PKEY" | "QKEY" | "RKEY" | "LKEY" | "MONKEY"))
        })
}
