//! What is kept of a text that a site has filled: words of `kept.toml`, numbers, names of this
//! machine's devices. Nobody could list what a site may have written there, and so what need not
//! be hidden is listed.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::Names;
use super::launcher::WORDS_OF_MESSAGES;
use super::text::{Kind, run};

/// Sources, with the words that are from there.
type Rows = &'static [(&'static str, &'static [&'static str])];

const WORDS: Rows = include!(concat!(env!("OUT_DIR"), "/kept.words.rs"));
const DISTRIBUTIONS: Rows = include!(concat!(env!("OUT_DIR"), "/kept.distributions.rs"));
const PARAMETERS: Rows = include!(concat!(env!("OUT_DIR"), "/kept.parameters.rs"));
const MODULES: Rows = include!(concat!(env!("OUT_DIR"), "/kept.modules.rs"));
const COMMANDS: Rows = include!(concat!(env!("OUT_DIR"), "/kept.commands.rs"));
const MESSAGES: Rows = include!(concat!(env!("OUT_DIR"), "/kept.messages.rs"));
const PROGRAMS: Rows = include!(concat!(env!("OUT_DIR"), "/kept.programs.rs"));

fn words_of(rows: Rows) -> impl Iterator<Item = &'static str> {
    let texts = rows.iter().flat_map(|(_, texts)| texts.iter());
    texts.flat_map(|text| text.split(' '))
}

static KEPT_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let pieces = words_of(WORDS).flat_map(|word| word.split(['_', '-', '.']));
    pieces.map(str::to_ascii_lowercase).collect()
});
static MESSAGE_WORDS: LazyLock<HashSet<String>> =
    LazyLock::new(|| words_of(MESSAGES).map(str::to_ascii_lowercase).collect());
static KEPT_PARAMETERS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words_of(PARAMETERS).collect());

/// Digits behind a word, as of `step_0`, `pod7`, `eth10`; more of them number a site's machines.
const DIGITS_BEHIND: usize = 3;
/// Digits of a number; a serial number has more.
const DIGITS: usize = 12;
/// Numbers that a version or a range has in a row; an address in the name of a host has four.
const NUMBERS_IN_A_ROW: usize = 3;

/// Whether a program of this name runs everywhere.
pub(super) fn is_known_program(name: &str) -> bool {
    let mut commands = words_of(COMMANDS);
    words_of(PROGRAMS).any(|program| name.starts_with(program))
        || commands.any(|command| command == name)
}

/// Whether a parameter of the kernel's command line is kept.
fn is_parameter(name: &str) -> bool {
    let canonical = name.to_ascii_lowercase().replace('-', "_");
    let module = canonical.split_once('.').map(|(module, _)| module);
    KEPT_PARAMETERS.contains(&*canonical)
        || module.is_some_and(|module| words_of(MODULES).any(|known| known == module))
}

/// The characters of a name, with what joins its parts.
pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'~') || byte >= 0x80
}

/// The part of a word that begins with its first piece that is not kept, where it has one. A piece
/// is a run of letters and digits.
pub(super) fn unknown_rest<'w>(names: &Names, word: &'w str, kind: Kind) -> Option<&'w str> {
    if names.known.contains(word) || kind.messages && is_pseudonym(word) {
        return None;
    }
    let mut before = "";
    let mut numbers = 0;
    let mut at = 0;
    while let Some(rest) = word.get(at..).filter(|rest| !rest.is_empty()) {
        let piece = run(rest, |b| b.is_ascii_alphanumeric() || b >= 0x80);
        if piece.is_empty() {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        numbers = if is_number(piece) { numbers + 1 } else { 0 };
        // Everybody's programs run as root, whose number is 0.
        let is_user_id = matches!(before, "uid" | "user") && is_number(piece) && piece != "0";
        let is_kept = is_piece_kept(piece)
            || names.known.contains(piece)
            || kind.messages && is_piece_of_message(piece);
        if is_user_id || numbers > NUMBERS_IN_A_ROW || !is_kept {
            return Some(rest);
        }
        before = piece;
        at += piece.len();
    }
    None
}

/// Whether nothing of a name has to be hidden.
pub(super) fn is_kept(names: &Names, name: &str) -> bool {
    name.split('.')
        .all(|word| unknown_rest(names, word, Kind::LISTED).is_none())
}

fn is_piece_kept(piece: &str) -> bool {
    let lower = piece.to_ascii_lowercase();
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = lower.len() - stem.len();
    // `8(x2)`: Slurm's tasks of two nodes.
    let is_repeated = stem == "x" && digits <= DIGITS_BEHIND;
    piece.len() == 1
        || is_repeated
        || is_number(piece)
        || is_interface(&lower)
        || KEPT_WORDS.contains(&lower)
        || (1..=DIGITS_BEHIND).contains(&digits) && stem.len() > 1 && KEPT_WORDS.contains(stem)
}

/// Whether a part of a name stands for one already.
fn is_pseudonym(word: &str) -> bool {
    let mut kinds = ["host-", "domain-", "user-", "name-", "program-"].iter();
    let digits = kinds.find_map(|kind| word.strip_prefix(kind));
    digits.is_some_and(|digits| {
        matches!(digits.len(), 4 | 8) && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Whether a piece is a word of messages, or a number as they have them: a short one in hexadecimal
/// digits, a pointer, a time (`20T10`, `I1120`).
fn is_piece_of_message(piece: &str) -> bool {
    let lower = piece.to_ascii_lowercase();
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_word = |word: &str| WORDS_OF_MESSAGES.contains(word) || MESSAGE_WORDS.contains(word);
    let has_digit = stem.len() < lower.len() || lower.bytes().any(|b| b.is_ascii_digit());
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    // Thirty-two CPUs, `ffffffff`.
    let is_full_mask = lower.bytes().all(|b| b == b'f');
    let is_time = |text: &str| {
        let parts = text
            .split_once('t')
            .or_else(|| text.split_once(['i', 'w', 'e', 'f']));
        parts.is_some_and(|(a, b)| {
            a.len() + b.len() <= 4 && [a, b].concat().bytes().all(|b| b.is_ascii_digit())
        })
    };
    is_word(&lower)
        || is_call(piece)
        || stem.len() > 1 && lower.len() - stem.len() <= DIGITS_BEHIND && is_word(stem)
        || (has_digit || is_full_mask) && lower.len() <= 8 && is_hex(&lower)
        || lower
            .strip_prefix("0x")
            .is_some_and(|digits| digits.len() <= 16 && is_hex(digits))
        || is_time(&lower)
}

/// Whether a piece is the name of a function of NVIDIA's libraries: `nvmlDeviceGetHandleByIndex`.
fn is_call(piece: &str) -> bool {
    let mut libraries = ["nvml", "nccl", "cuda", "cu"].iter();
    libraries.any(|library| {
        let rest = piece.strip_prefix(library);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

/// A number with or without a unit, or one in hexadecimal digits that is too short for an address.
fn is_number(piece: &str) -> bool {
    if let Some(hex) = piece.strip_prefix("0x") {
        return hex.len() <= 8 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let digits = run(piece, |b| b.is_ascii_digit());
    let unit = piece.get(digits.len()..).unwrap_or("");
    (1..=DIGITS).contains(&digits.len())
        && (unit.is_empty() || KEPT_WORDS.contains(&unit.to_ascii_lowercase()) && unit.len() <= 3)
}

/// A name that systemd.net-naming-scheme(7) makes of a device's place: `ens1f0np0`, `ibp12s0`.
fn is_interface(lower: &str) -> bool {
    let place = ["en", "ib", "roce", "rdma"]
        .iter()
        .find_map(|kind| lower.strip_prefix(kind));
    let mut rest = place.unwrap_or("");
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let letters = run(rest, |b| b"opsfnduvicb".contains(&b));
        let digits = run(rest.get(letters.len()..).unwrap_or(""), |b| {
            b.is_ascii_digit()
        });
        if !(1..=2).contains(&letters.len()) || !(1..=5).contains(&digits.len()) {
            return false;
        }
        rest = rest.get(letters.len() + digits.len()..).unwrap_or("");
    }
    true
}

/// os-release(5), which speaks of a distribution, or of an image that a site made of one.
pub(super) fn os_release(names: &Names, text: &str) -> String {
    let mut of_file = names.clone();
    let words = words_of(DISTRIBUTIONS);
    of_file.known.extend(words.flat_map(|word| {
        let (first, rest) = word.split_at(1);
        let capitalised = first.to_ascii_uppercase() + rest;
        [word.to_owned(), word.to_ascii_uppercase(), capitalised]
    }));
    of_file.place(text)
}

/// The kernel's command line: parameters that are known, with what is known of their values.
/// Everything behind `--` is for process 1.
pub(super) fn command_line(names: &Names, line: &str) -> String {
    let mut is_for_init = false;
    let words = line.split(' ').map(|word| {
        let text = word.trim_end_matches('\n');
        let end = word.get(text.len()..).unwrap_or("");
        is_for_init |= text == "--";
        if text.is_empty() || text == "--" {
            return word.to_owned();
        }
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match is_parameter(name) && !is_for_init {
            true if value.is_empty() => word.to_owned(),
            true => format!("{name}={}{end}", names.listed(value)),
            false if super::words::is_secret(name) => names.key.secret(text) + end,
            false => names.key.other(text) + end,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::redact::key::Key;

    fn names() -> Names {
        let mut names = Names::new(Key::from_text("k"), "node1720", &["alice"]);
        names.known.insert("storage0".to_owned());
        names
    }

    #[test]
    fn what_no_site_has_named_is_kept() {
        for same in [
            "BOOT_IMAGE=/boot/vmlinuz-6.1.0-56-amd64 ro iommu=pt pci=realloc=off,nomsi mem=512G",
            "isolcpus=managed_irq,domain,2-5,8 crashkernel=1G-4G:192M console=ttyS0,115200n8 -- ",
            "mlx5_core.prof_sel=2 nvme_core.io_timeout=4294967295 intel_iommu=on",
        ] {
            assert_eq!(command_line(&names(), same), same);
        }
        for same in [
            "0::/system.slice/slurmd.service\n4:pids:/slurm/uid_0/job_4711/step_0/task_3\n",
            "0::/user.slice/user-0.slice/session-3.scope",
            "0::/kubepods.slice/kubepods-burstable.slice",
            "=mlx5_0:1,^docker,lo ens1f0np0 ibp12s0,storage0 Tree;Ring ^LL128",
            "rw,relatime,size=65536k,mode=755,vers=4.2,proto=rdma",
        ] {
            assert_eq!(names().listed(same), same);
        }
    }

    #[test]
    fn what_is_on_no_list_is_replaced() {
        for (text, kept) in [
            ("0::/slurm/uid_61803/job_4711", "/slurm/uid_name-"),
            ("0::/acme.slice/jupyter-alpaca.service", ".slice/name-"),
            ("storage1234 ip-10-41-7-23", "name-"),
            ("0::/docker/9f86d081884c7d65", "/docker/name-"),
        ] {
            let mapped = names().listed(text);
            assert!(mapped != text && mapped.contains(kept), "{mapped}");
            for secret in ["61803", "acme", "alpaca", "1234", "10-41", "9f86"] {
                assert!(!mapped.contains(secret), "{mapped}");
            }
        }
        let line = command_line(
            &names(),
            "quiet acme.role=trainer ds=acme root=LABEL=acme\n",
        );
        assert!(
            line.starts_with("quiet name-") && line.ends_with('\n'),
            "{line}"
        );
        assert!(
            line.contains(" root=LABEL=name-") && !line.contains("acme"),
            "{line}"
        );
    }
}
