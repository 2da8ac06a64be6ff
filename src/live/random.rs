//! Random numbers of the kernel.

use crate::source::wire::to_hex;

/// Sixteen random bytes, for the key of a recording's pseudonyms.
///
/// # Errors
///
/// The kernel has no generator (before Linux 3.17), or it gave fewer bytes.
pub fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let got = got.map_err(|error| {
        std::io::Error::other(format!("the kernel gives no random numbers: {error}"))
    })?;
    if got < bytes.len() {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(bytes)
    }
}

/// A key of a run, in hexadecimal digits.
///
/// # Errors
///
/// Those of [`random_bytes`].
pub fn hex_key() -> std::io::Result<String> {
    let bytes = [random_bytes()?, random_bytes()?];
    Ok(to_hex(bytes.as_flattened()))
}

/// A number that no other run has, below 2^53, which JSON's readers keep whole; 0 if the kernel gives no random numbers.
pub fn number_of_run() -> u64 {
    let bytes = random_bytes().unwrap_or_default();
    u64::from_be_bytes([0, 0, 0, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
}
