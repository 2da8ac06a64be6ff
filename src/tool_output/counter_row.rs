//! Rows of a name and a count, as people print counters with a shell, and tables whose columns count
//! what went wrong: each says what it is, whatever command wrote it.

/// Parts of the names of counters of what went wrong.
const TROUBLES: [&str; 20] = [
    "err",
    "discard",
    "dropped",
    "drops",
    "overflow",
    "overrun",
    "crc",
    "fcs",
    "retrans",
    "naks",
    "timeouts",
    "pruned",
    "lost",
    "failed",
    "failures",
    "uncorr",
    "downed",
    "sequence",
    "_oos",
    "out_of_buffer",
];

/// Parts of the names of settings and figures, which count nothing.
const FIGURES: [&str; 19] = [
    "max", "min_", "limit", "thresh", "interval", "enable", "size", "ratio", "rate", "weight",
    "version", "mode", "dropout", "train", "eval", "inject", "token", "sample", "batch",
];

/// A row of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRow<'l> {
    /// Whose it is, where the row begins with it: a port, an interface.
    pub of: Option<&'l str>,
    /// The counter's name.
    pub name: &'l str,
    /// The count.
    pub count: u64,
}

/// `out_of_sequence 88123`, `mlx5_0: rx_crc_errors_phy = 3`, `TcpExtListenOverflows  4410  0.0`.
pub fn counter_row(line: &str) -> Option<CounterRow<'_>> {
    if line.len() > LONGEST {
        return None;
    }
    let mut words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | '|'))
        .filter(|word| !word.trim_matches('.').is_empty())
        .collect();
    // nstat(8) puts the rate behind the count.
    if words.len() > 2 && words.last().is_some_and(|word| is_rate(word)) {
        words.pop();
    }
    let (of, name, count) = match words.as_slice() {
        [name, count] => (None, *name, *count),
        [of, name, count] if is_device(of) => (Some(*of), *name, *count),
        _ => return None,
    };
    let count = number(count.trim_start_matches('.'))?;
    is_counter_name(name).then_some(CounterRow { of, name, count })
}

/// A longer line is no row.
const LONGEST: usize = 120;

/// A whole number, with or without marks of thousands.
pub fn number(word: &str) -> Option<u64> {
    match word.contains(',') {
        true => word.replace(',', "").parse().ok(),
        false => word.parse().ok(),
    }
}

fn is_rate(word: &str) -> bool {
    word.contains('.') && word.parse::<f64>().is_ok()
}

/// Whether a word names a port or an interface: letters, and a digit behind them.
fn is_device(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/');
    word.len() <= 24
        && word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.bytes().all(is_plain)
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether programs call a counter so: parts joined by `_`, or by capitals.
fn is_counter_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let humps = name.bytes().filter(u8::is_ascii_uppercase).count();
    let is_joined = name.contains('_') && name.bytes().all(|byte| !byte.is_ascii_uppercase())
        || humps > 1 && name.bytes().any(|byte| byte.is_ascii_lowercase()) && !name.contains('_');
    name.len() >= 8 && name.bytes().all(is_plain) && is_joined
}

/// Whether a counter of this name counts what went wrong.
pub fn counts_trouble(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    has(&TROUBLES) && !has(&FIGURES)
}

/// The columns of a heading of which some count what went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterTable<'l> {
    /// The names of all columns.
    pub columns: Vec<&'l str>,
}

/// `IFACE STATE RX_OK RX_ERR RX_DRP …`, `Port Align-Err FCS-Err Rcv-Err`: a heading with at least
/// two columns that count what went wrong.
pub fn counter_table(line: &str) -> Option<CounterTable<'_>> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let of_trouble = columns.iter().filter(|column| is_trouble_column(column));
    let is_name =
        |column: &&str| column.len() <= 16 && !column.bytes().all(|byte| byte.is_ascii_digit());
    // A sentence has words in small letters, and a heading has not.
    let is_spoken = |column: &&str| column.bytes().all(|byte| byte.is_ascii_lowercase());
    let ends = |column: &&str| column.ends_with([',', ':', '.']);
    let is_heading = columns.len() >= 4
        && columns.iter().all(is_name)
        && !columns.iter().any(is_spoken)
        && !columns.iter().any(ends);
    (is_heading && of_trouble.count() >= 2).then_some(CounterTable { columns })
}

/// Whether a column counts what went wrong: `RX_ERR`, `RX-DRP`, `FCS-Err`, `InDiscards`.
fn is_trouble_column(name: &str) -> bool {
    const COLUMNS: [&str; 9] = [
        "err", "drp", "drop", "ovr", "discard", "fcs", "crc", "symbol", "runts",
    ];
    let lower = name.to_ascii_lowercase();
    let is_word = name.len() <= 16
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    is_word && COLUMNS.iter().any(|part| lower.contains(part))
}

impl CounterTable<'_> {
    /// The counts of a row that went wrong, with their columns; `None` where the row has other columns.
    pub fn troubles(&self, row: &str) -> Option<Vec<(&str, u64)>> {
        let words = joined_units(row);
        if words.len() != self.columns.len() {
            return None;
        }
        let counted = self.columns.iter().zip(&words);
        let counted = counted.filter(|(column, _)| is_trouble_column(column));
        Some(
            counted
                .filter_map(|(column, word)| Some((*column, number(word)?)))
                .collect(),
        )
    }
}

/// The words of a row, of which a unit belongs to the figure before it: `1.2 MB/s` is one.
fn joined_units(row: &str) -> Vec<&str> {
    let is_unit = |word: &&str| !["B/s", "KB/s", "MB/s", "GB/s", "TB/s"].contains(word);
    row.split_whitespace().filter(is_unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_count_are_a_row() {
        let row = |line| counter_row(line).map(|row| (row.of, row.name, row.count));
        assert_eq!(
            row("out_of_sequence 88123"),
            Some((None, "out_of_sequence", 88123))
        );
        assert_eq!(
            row("mlx5_0: rx_crc_errors_phy = 3"),
            Some((Some("mlx5_0"), "rx_crc_errors_phy", 3))
        );
        assert_eq!(
            row("TcpExtListenOverflows           4,410              0.0"),
            Some((None, "TcpExtListenOverflows", 4410))
        );
        assert_eq!(
            row("PortXmitWait:....................77"),
            Some((None, "PortXmitWait", 77))
        );
        for line in [
            "it dropped 3",
            "grad_norm 0.21",
            "step_errors",
            "NCCL_IB_TIMEOUT=22",
            "there were some_errors in 3 of them",
            "",
        ] {
            assert_eq!(row(line), None, "{line}");
        }
    }

    #[test]
    fn trouble_has_a_name() {
        for name in [
            "local_ack_timeout_err",
            "TcpRetransSegs",
            "rx_prio3_discards",
            "RcvPruned",
        ] {
            assert!(counts_trouble(name), "{name}");
        }
        for name in [
            "max_errors",
            "port_xmit_data",
            "dropout_layers",
            "train_errors",
        ] {
            assert!(!counts_trouble(name), "{name}");
        }
    }

    #[test]
    fn a_table_has_columns_of_trouble() {
        let heading = "IFACE    STATE    RX_OK     RX_BPS    RX_UTIL    RX_ERR    RX_DRP";
        let table = counter_table(heading).unwrap();
        let row = "Ethernet8        U  993,120  98.2 MB/s      1.96%    18,201         0";
        assert_eq!(
            table.troubles(row),
            Some(vec![("RX_ERR", 18201), ("RX_DRP", 0)])
        );
        assert_eq!(table.troubles("Ethernet8 U"), None);
        assert_eq!(counter_table("no errors and no drops were seen"), None);
        assert_eq!(
            counter_table("RX errors 0  dropped 0  overruns 0  frame 0"),
            None
        );
    }
}
