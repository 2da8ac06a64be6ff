//! Streams that gzip or zstd packed: their first bytes say so.

use std::io::{self, Read};

use crate::source::recording::ZSTD_MAGIC;

/// How gzip's streams begin.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a stream holds that begins with `head`.
///
/// # Errors
///
/// zstd's.
pub(super) fn unpacked<'r>(head: &[u8], stream: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    Ok(if head.starts_with(&GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(stream))
    } else if head.starts_with(&ZSTD_MAGIC) {
        Box::new(zstd::stream::read::Decoder::new(stream)?)
    } else {
        Box::new(stream)
    })
}
