//! NCCL_IB_HCA and NCCL_SOCKET_IFNAME: lists of names, with `^` and `=` before them
//! (`src/misc/utils.cc`).

/// A list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::derive) struct List {
    /// `^`: what is listed is left out.
    pub(super) excludes: bool,
    /// `=`: names are whole names, not beginnings.
    pub(super) exact: bool,
    /// The names.
    pub(super) entries: Vec<Entry>,
}

/// A name, and the port that may follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// `None` where none is named: any.
    pub(super) port: Option<i64>,
}

impl List {
    /// Reads a list of at most so many names. `^` comes before `=`; in another order they are part
    /// of a name.
    pub(in crate::derive) fn parse(text: &str, most: usize) -> Self {
        let (excludes, rest) = strip(text, '^');
        let (exact, rest) = strip(rest, '=');
        let entries = rest
            .split(',')
            .filter_map(|entry| {
                let mut parts = entry.split(':');
                let name = parts.next().filter(|name| !name.is_empty())?;
                let port = parts.next().map(|port| {
                    // atoi(3)
                    crate::nccl_rules::number::decimal(port)
                });
                Some(Entry {
                    name: name.to_owned(),
                    port: port.filter(|port| *port >= 0),
                })
            })
            .take(most)
            .collect();
        List {
            excludes,
            exact,
            entries,
        }
    }

    /// Whether a name, and a port of it, is used.
    pub(in crate::derive) fn takes(&self, name: &str, port: Option<i64>) -> bool {
        let listed =
            self.entries.is_empty() || self.entries.iter().any(|e| self.fits(e, name, port));
        listed != self.excludes
    }

    /// Whether an entry names this.
    pub(super) fn fits(&self, entry: &Entry, name: &str, port: Option<i64>) -> bool {
        let named = if self.exact {
            name == entry.name
        } else {
            name.starts_with(&entry.name)
        };
        named
            && match (entry.port, port) {
                (Some(wanted), Some(port)) => wanted == port,
                _ => true,
            }
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(list: &str, names: &[&str]) -> Vec<bool> {
        let list = List::parse(list, 32);
        names
            .iter()
            .map(|name| {
                let (name, port) = name.split_once(':').unwrap_or((name, "1"));
                list.takes(name, port.parse().ok())
            })
            .collect()
    }

    #[test]
    fn names_are_beginnings_unless_they_are_exact() {
        let names = ["mlx5_1", "mlx5_10", "mlx5_2"];
        assert_eq!(takes("mlx5_1", &names), [true, true, false]);
        assert_eq!(takes("=mlx5_1", &names), [true, false, false]);
        assert_eq!(takes("^mlx5_1", &names), [false, false, true]);
        assert_eq!(takes("^=mlx5_1", &names), [false, true, true]);
        assert_eq!(
            takes("=^mlx5_1", &names),
            [false, false, false],
            "a name that begins with ^"
        );
        assert_eq!(takes("", &names), [true, true, true]);
        assert_eq!(
            takes("^", &names),
            [false, false, false],
            "the empty list matches everything"
        );
        assert_eq!(takes(",mlx5_2,", &names), [false, false, true]);
        assert_eq!(
            takes(" mlx5_1", &names),
            [false, false, false],
            "nothing is trimmed"
        );
    }

    #[test]
    fn ports() {
        let names = ["mlx5_0:1", "mlx5_0:2"];
        assert_eq!(takes("=mlx5_0:2", &names), [false, true]);
        assert_eq!(takes("mlx5_0", &names), [true, true]);
        assert_eq!(
            takes("=mlx5_0:1:3:4", &names),
            [true, false],
            "rail and plane"
        );
    }

    #[test]
    fn what_is_beyond_the_limit_is_not_read() {
        assert_eq!(List::parse("a,b,c", 2).entries.len(), 2);
    }
}
