//! Texts that C libraries write into arrays of characters.

use std::ffi::c_char;

/// The characters up to the first NUL, or all. `c_char` is signed on x86-64 and unsigned on aarch64.
pub(super) fn c_text(chars: &[c_char]) -> String {
    let bytes = chars.iter().flat_map(|c| c.to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_nul_or_with_the_array() {
        let chars: Vec<c_char> = "é n\0rest"
            .bytes()
            .map(|byte| c_char::from_ne_bytes([byte]))
            .collect();
        assert_eq!(c_text(&chars), "é n");
        assert_eq!(c_text(&chars[..2]), "é");
        assert_eq!(c_text(&[]), "");
    }
}
