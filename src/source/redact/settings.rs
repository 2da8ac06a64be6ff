//! Files of settings, of hosts and of mounts: what is on the right of an assignment may be a host, a path of a project's, a secret.

use super::words::is_secret;
use super::{Names, value};

/// Types of file systems whose source is another machine.
const REMOTE: &str = "\
    nfs nfs4 beegfs lustre cifs smb3 gpfs wekafs ceph fuse.sshfs 9p glusterfs fuse.glusterfs";

/// Lines of `name = value` or `name: value`; nothing is kept of a comment.
pub(super) fn assignments(names: &Names, content: &str) -> String {
    by_line(content, |line| {
        match without_comment(line).split_once(['=', ':']) {
            _ if without_comment(line) != line => {
                let line = without_comment(line);
                marked(&assignments(names, line))
            }
            Some((name, value)) => {
                let separator = line.get(name.len()..=name.len()).unwrap_or("=");
                let blank = value.len() - value.trim_start().len();
                let (blank, text) = value.split_at(blank);
                let text = match name.trim().trim_start_matches("export ").trim() {
                    word if is_secret(word) => match text {
                        "" => String::new(),
                        text => names.key.secret(text),
                    },
                    word if names_host(word) => hosts(names, text),
                    _ => names.listed(text),
                };
                format!("{}{separator}{blank}{text}", names.free(name))
            }
            None => names.free(line),
        }
    })
}

/// A file of variables for every rank: those that no recording has of the environment are left with their names alone.
pub(super) fn variables(names: &Names, content: &str) -> String {
    by_line(content, |line| match line.split_once('=') {
        Some((name, text)) => {
            let plain = name.trim().trim_start_matches("export ").trim();
            let text = match value::is_recorded(plain) {
                true => value::variable(names, plain, text),
                false => names.key.secret(text),
            };
            format!("{name}={text}")
        }
        None => String::new(),
    })
}

fn names_host(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    (name.contains("host") && !name.contains("hostfile"))
        || (name.contains("server") && !name.contains("port"))
        || name == "main_process_ip"
}

fn hosts(names: &Names, text: &str) -> String {
    let is_host = |part: &str| {
        part.bytes().any(|b| b.is_ascii_alphabetic()) && !part.contains(['/', ':', ' '])
    };
    match is_host(text) {
        true => names.key.host(text),
        false => names.free(text),
    }
}

/// What stands before a comment: `#` at the beginning of a line or behind white space; `;`, `!` and `%` at the beginning of one.
fn without_comment(line: &str) -> &str {
    let text = line.trim_start();
    if text.starts_with([';', '!', '%']) {
        return "";
    }
    let comment = line.char_indices().find(|(at, c)| {
        let before = line.get(..*at).unwrap_or("");
        *c == '#' && (before.is_empty() || before.ends_with(char::is_whitespace))
    });
    match comment {
        Some((at, _)) => line.get(..at).unwrap_or("").trim_end(),
        None => line,
    }
}

/// What is left of a line, with a mark where its comment was.
fn marked(text: &str) -> String {
    match text.is_empty() {
        true => "#".to_owned(),
        false => format!("{text} #"),
    }
}

/// A file of /etc: text, of which no comment is kept.
pub(super) fn without_comments(content: &str) -> String {
    by_line(content, |line| match without_comment(line) {
        text if text == line => line.to_owned(),
        text => marked(text),
    })
}

/// A hostfile: a host at the beginning of each line.
pub(super) fn hostfile(names: &Names, content: &str) -> String {
    by_line(&without_comments(content), |line| {
        let word = line.split_whitespace().next().unwrap_or("");
        match line.starts_with(word) && !word.starts_with('#') && !word.is_empty() {
            true => {
                let host = match word.parse::<std::net::IpAddr>() {
                    Ok(_) => names.free(word),
                    Err(_) => names.key.host(word),
                };
                host + &names.free(line.get(word.len()..).unwrap_or(""))
            }
            false => names.free(line),
        }
    })
}

/// limits.conf(5): users and groups, one on a line, and what bounds them. A line of another form is dropped.
pub(super) fn login_limits(names: &Names, content: &str) -> String {
    let mut out = String::new();
    for line in content.lines() {
        let words: Vec<&str> = without_comment(line).split_whitespace().collect();
        if let [who, kind, item, value] = words.as_slice() {
            let who = match *who {
                "*" | "root" => (*who).to_owned(),
                who => names.key.user(who),
            };
            let is_plain =
                |word: &&str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if [kind, item, value].iter().all(|word| is_plain(word)) {
                out += &format!("{who} {kind} {item} {value}\n");
            }
        }
    }
    out
}

/// mountinfo, mounts and fstab: the source and the directories of what another machine serves.
pub(super) fn mounts(names: &Names, content: &str) -> String {
    by_line(content, |line| {
        // Whatever the type is called: another machine's file system is `HOST:/PATH` or `//HOST/SHARE`.
        let is_source = |word: &str| {
            REMOTE.split(' ').any(|one| one == word)
                || word.starts_with("//")
                || word.contains(":/")
        };
        let remote = line.split_whitespace().any(is_source);
        let weka = line.split_whitespace().any(|word| word == "wekafs");
        let text = without_comment(line);
        if text != line {
            return marked(&mounts(names, text));
        }
        if !remote {
            return names.listed(line);
        }
        let words = line.split(' ').map(|word| match word {
            path if path.starts_with("//") => {
                let (host, share) = path
                    .get(2..)
                    .unwrap_or("")
                    .split_once('/')
                    .unwrap_or((path, ""));
                format!("//{}/{}", hosts(names, host), names.place(share))
            }
            path if path.starts_with('/') => names.place(path),
            source if source.contains(":/") => {
                let (servers, path) = source.split_once(":/").unwrap_or((source, ""));
                let servers: Vec<String> = servers.split(':').map(|one| nids(names, one)).collect();
                format!("{}:/{}", servers.join(":"), names.place(path))
            }
            // `weka1,weka2/default`
            backends if weka && backends.contains('/') => {
                let (backends, fs) = backends.split_once('/').unwrap_or((backends, ""));
                format!("{}/{}", nids(names, backends), names.place(fs))
            }
            options => options
                .split(',')
                .map(|one| option(names, one))
                .collect::<Vec<_>>()
                .join(","),
        });
        words.collect::<Vec<_>>().join(" ")
    })
}

/// `10.0.0.1@o2ib,10.0.0.2@o2ib`, `server.example`, `[fd00`.
fn nids(names: &Names, text: &str) -> String {
    let one = |nid: &str| match nid.split_once('@') {
        Some((host, net)) => format!("{}@{net}", hosts(names, host)),
        None => hosts(names, nid),
    };
    // Without its brackets an IPv6 address in pieces is no address: nothing of it is kept.
    match text.contains('[') || text.contains(']') {
        true => "redacted".into(),
        false => text.split(',').map(one).collect::<Vec<_>>().join(","),
    }
}

fn option(names: &Names, text: &str) -> String {
    match text.split_once('=') {
        Some((name, value))
            if is_secret(name)
                || [
                    "user", "username", "domain", "context", "name", "uid", "gid",
                ]
                .contains(&name) =>
        {
            match name {
                name if is_secret(name) => format!("{name}={}", names.key.secret(value)),
                "user" | "username" => format!("{name}={}", names.key.user(value)),
                name => format!("{name}={}", names.key.other(value)),
            }
        }
        Some((name, value)) if names_host(name) || name.contains("addr") || name == "srv" => {
            format!("{name}={}", value::hosts(names, value))
        }
        _ => names.listed(text),
    }
}

fn by_line(content: &str, map: impl Fn(&str) -> String) -> String {
    let line = |line: &str| {
        let text = line.trim_end_matches(['\n', '\r']);
        map(text) + line.get(text.len()..).unwrap_or("")
    };
    content.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::redact::key::Key;

    fn key() -> Key {
        Key::from_text("k")
    }

    #[test]
    fn limits_of_logins_stay_and_name_nobody() {
        let names = Names::new(key(), "node1720", &["alice"]);
        let text = "# of node1720\n*\tsoft memlock 64 # alice\n@hpc - memlock unlimited\nbob hard memlock /home/bob\n";
        let mapped = login_limits(&names, text);
        let group = key().user("@hpc");
        let expected = format!("* soft memlock 64\n{group} - memlock unlimited\n");
        assert_eq!(mapped, expected);
        assert!(!mapped.contains("hpc"), "{mapped}");
    }

    #[test]
    fn a_mount_keeps_its_kind_and_neither_server_nor_project() {
        let names = Names::new(Key::from_text("k"), "node1720", &["alice"]);
        let line = "77 29 0:50 / /mnt/secret-project rw - nfs4 store7.corp.example:/export/secret-project rw,proto=tcp,clientaddr=10.1.2.3,addr=10.1.2.4\n";
        let mapped = mounts(&names, line);
        for secret in ["secret-project", "store7", "corp", "10.1.2.3", "10.1.2.4"] {
            assert!(!mapped.contains(secret), "{secret}: {mapped}");
        }
        assert!(
            mapped.contains(" /mnt/name-")
                && mapped.contains(" nfs4 host-")
                && mapped.contains("proto=tcp"),
            "{mapped}"
        );
        let lustre =
            "78 29 0:51 / /lustre rw - lustre 10.1.2.4@o2ib:10.1.2.5@o2ib:/scratch rw,flock\n";
        let mapped = mounts(&names, lustre);
        assert!(
            mapped.contains("@o2ib:")
                && mapped.contains(":/scratch ")
                && !mapped.contains("10.1.2.4"),
            "{mapped}"
        );
        let local = "29 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        assert_eq!(mounts(&names, local), local);
    }

    #[test]
    fn settings_keep_what_decides_and_no_host_and_no_secret() {
        let names = Names::new(key(), "", &[]);
        let text = "sysMgmtdHost = mgmt7.corp.example\nconnUseRDMA = true\nconnAuthFile = /etc/beegfs/conn.auth\n# mgmt\n";
        let mapped = assignments(&names, text);
        assert!(
            !mapped.contains("mgmt7") && !mapped.contains("corp"),
            "{mapped}"
        );
        assert!(mapped.contains("connUseRDMA = true\n"), "{mapped}");
        let mapped = variables(
            &names,
            "NCCL_IB_DISABLE=1\nWANDB_API_KEY=t0k\nFOO=hunter2\nnonsense hunter2\n",
        );
        assert_eq!(
            mapped,
            "NCCL_IB_DISABLE=1\nWANDB_API_KEY=redacted\nFOO=redacted\n\n"
        );
        let mapped = hostfile(
            &names,
            "worker-1 slots=8\nworker-1 slots=8\n10.0.0.1 slots=8\n",
        );
        let lines: Vec<&str> = mapped.lines().collect();
        assert!(
            lines[0] == lines[1] && lines[0].ends_with(" slots=8") && !mapped.contains("worker"),
            "{mapped}"
        );
    }
}
