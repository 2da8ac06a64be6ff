//! Numbers as NCCL reads them: strtoll(3) with base 0, what follows ignored (`src/misc/param.cc`).

/// A number, and what of the text follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<'t> {
    /// The number; `None` if it is out of range, for which NCCL takes the default.
    pub(crate) value: Option<i64>,
    /// Whether there is a digit at all; without one it is 0.
    pub(crate) digits: bool,
    /// What follows.
    pub(crate) rest: &'t str,
}

/// Reads a number.
pub(crate) fn number(text: &str) -> Number<'_> {
    let start = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, body) = match start.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, start.strip_prefix('+').unwrap_or(start)),
    };
    let hex = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"));
    let hex = hex.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (radix, body) = match hex {
        Some(body) => (16, body),
        None if body.starts_with('0') => (8, body),
        None => (10, body),
    };
    let end = body
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(body.len());
    let (digits, rest) = body.split_at(end);
    if digits.is_empty() {
        return Number {
            value: Some(0),
            digits: false,
            rest: text,
        };
    }
    let value = i128::from_str_radix(digits, radix).ok();
    let value = value.map(|value| if negative { -value } else { value });
    Number {
        value: value.and_then(|value| i64::try_from(value).ok()),
        digits: true,
        rest,
    }
}

/// Reads a decimal number as atoi(3) does.
pub(crate) fn decimal(text: &str) -> i64 {
    let text = text.trim_start();
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = text.get(..end.unwrap_or(text.len())).unwrap_or("");
    sign * digits.parse::<i64>().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<i64>, bool, &str) {
        let n = number(text);
        (n.value, n.digits, n.rest)
    }

    #[test]
    fn as_strtoll_with_base_0() {
        assert_eq!(read("1"), (Some(1), true, ""));
        assert_eq!(read(" -1"), (Some(-1), true, ""));
        assert_eq!(read("0x10"), (Some(16), true, ""));
        assert_eq!(read("010"), (Some(8), true, ""));
        assert_eq!(read("08"), (Some(0), true, "8"));
        assert_eq!(read("true"), (Some(0), false, "true"));
        assert_eq!(read("4M"), (Some(4), true, "M"));
        assert_eq!(read("1\r"), (Some(1), true, "\r"));
        assert_eq!(read("0x"), (Some(0), true, "x"));
        assert_eq!(read("99999999999999999999"), (None, true, ""));
        assert_eq!(read("\"1\""), (Some(0), false, "\"1\""));
        assert_eq!(read(""), (Some(0), false, ""));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = number(&text);
        }
    }
}
