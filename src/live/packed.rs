//! Streams that gzip, zstd, xz or bzip2 packed: their first bytes say so.

use std::io::{self, Read};

use crate::source::recording::ZSTD_MAGIC;

/// How gzip's streams begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How xz's streams begin.
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// How bzip2's streams begin.
const BZIP2: [u8; 3] = *b"BZh";

/// The most memory that a stream of xz may ask for, in KiB: what `xz -9` needs.
const XZ_MEMORY: u32 = 128 << 10;

/// Whether a stream that begins so is packed.
pub(super) fn is_packed(head: &[u8]) -> bool {
    let begins: [&[u8]; 4] = [&GZIP, &ZSTD_MAGIC, &XZ, &BZIP2];
    begins.iter().any(|begin| head.starts_with(begin))
}

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
    } else if head.starts_with(&XZ) {
        Box::new(lzma_rust2::XzReader::new_mem_limit(stream, true, XZ_MEMORY))
    } else if head.starts_with(&BZIP2) {
        Box::new(bzip2::read::MultiBzDecoder::new(stream))
    } else {
        Box::new(stream)
    })
}
