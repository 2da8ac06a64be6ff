//! Pseudonyms of names and serial numbers.

use super::key::{Domain, Key};
use super::tally::Replaced;
use super::words::is_ordinary;

impl Key {
    /// A host's name. The short name of a name with a domain is that of the name without.
    pub(super) fn host(&self, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        let (short, domain) = name.split_once('.').unwrap_or((&name, ""));
        if short.is_empty() || is_ordinary(short) {
            return name;
        }
        self.count(Replaced::Host, short.as_bytes());
        let short = self.digits(Domain::Host, short);
        match domain {
            "" => format!("host-{short}"),
            domain => {
                self.count(Replaced::Domain, domain.as_bytes());
                format!("host-{short}.domain-{}", self.digits(Domain::Dns, domain))
            }
        }
    }

    fn digits(&self, domain: Domain, name: &str) -> String {
        format!("{:08x}", self.number(domain, 0, name.as_bytes()) as u32)
    }

    /// A user.
    pub(super) fn user(&self, name: &str) -> String {
        match is_ordinary(name) {
            true => name.to_owned(),
            false => {
                self.count(Replaced::User, name.as_bytes());
                format!("user-{}", self.digits(Domain::User, name))
            }
        }
    }

    /// A word, a directory or a file that is on no list of what is kept.
    pub(super) fn other(&self, name: &str) -> String {
        self.count(Replaced::Name, name.as_bytes());
        format!("name-{}", self.digits(Domain::Other, name))
    }

    /// A program that not everybody has.
    pub(super) fn program(&self, name: &str) -> String {
        self.count(Replaced::Program, name.as_bytes());
        let digits = self.number(Domain::User, 0, name.as_bytes()) & 0xffff;
        format!("program-{digits:04x}")
    }

    /// What stands in the place of a secret, which has no pseudonym: whoever has the key could try passwords.
    pub(super) fn secret(&self, secret: &str) -> String {
        if !secret.is_empty() {
            self.count(Replaced::Secret, secret.as_bytes());
        }
        "redacted".to_owned()
    }

    /// A serial number: letters stay letters, digits digits, and the rest what it is.
    pub(super) fn serial(&self, text: &str) -> String {
        let trimmed = text.trim();
        if trimmed.bytes().any(|b| b.is_ascii_alphanumeric()) {
            self.count(Replaced::Serial, trimmed.as_bytes());
        }
        let letter = |at: usize| self.number(Domain::Serial, at as u8, trimmed.as_bytes());
        text.chars()
            .enumerate()
            .map(|(at, c)| {
                let n = letter(at);
                let one_of = |first: u8, count: u64| char::from(first + (n % count) as u8);
                match c {
                    '0'..='9' => one_of(b'0', 10),
                    'a'..='f' => one_of(b'a', 6),
                    'g'..='z' => one_of(b'a', 26),
                    'A'..='F' => one_of(b'A', 6),
                    'G'..='Z' => one_of(b'A', 26),
                    c if c.is_alphanumeric() => one_of(b'a', 26),
                    c => c,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_leaves_the_short_name_what_it_is() {
        let key = Key::from_text("k");
        assert!(
            key.host("N1.a.example")
                .starts_with(&(key.host("n1") + ".domain-"))
        );
        assert_eq!(key.host("localhost"), "localhost");
    }

    #[test]
    fn serial_numbers_keep_their_look() {
        let key = Key::from_text("k");
        let mapped = key.serial("MT2042X-01234\n");
        assert_ne!(mapped, "MT2042X-01234\n");
        let look = |text: &str| -> Vec<(bool, bool)> {
            let chars = text.chars();
            chars
                .map(|c| (c.is_ascii_digit(), c.is_ascii_uppercase()))
                .collect()
        };
        assert_eq!(look(&mapped), look("MT2042X-01234\n"));
        assert_eq!(key.serial(" \n"), " \n");
    }
}
