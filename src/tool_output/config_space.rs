//! The configuration spaces that `lspci -xxx` prints in hexadecimal digits.

use super::is_function;

/// The sizes that the kernel gives; of another a part was left out.
const SIZES: [usize; 2] = [256, 4096];

/// The address of each function whose configuration space is printed as a whole, the place of its line, and the bytes.
pub fn config_spaces<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<(String, usize, Vec<u8>)> {
    let mut all: Vec<(String, usize, Vec<u8>)> = Vec::new();
    for (at, line) in lines.enumerate() {
        if is_function(line) {
            all.push((function_name(line), at, Vec::new()));
        } else if let Some((_, _, bytes)) = all.last_mut()
            && let Some(row) = row(line, bytes.len())
        {
            bytes.extend(row);
        }
    }
    all.retain(|(_, _, bytes)| SIZES.contains(&bytes.len()));
    all
}

/// The address that a function's line begins with; without its domain it is of the first.
pub fn function_name(line: &str) -> String {
    let address = line.split(' ').next().unwrap_or(line);
    match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address.to_owned(),
    }
}

/// `40: 10 00 02 00 …`, sixteen bytes, if this is their place.
fn row(line: &str, place: usize) -> Option<Vec<u8>> {
    let (at, digits) = line.trim().split_once(": ")?;
    (usize::from_str_radix(at, 16) == Ok(place)).then_some(())?;
    let bytes = digits
        .split_whitespace()
        .map(|two| u8::from_str_radix(two, 16).ok());
    bytes
        .collect::<Option<Vec<u8>>>()
        .filter(|row| row.len() == 16)
}
