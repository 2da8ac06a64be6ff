//! What people kept of a machine, in files that the user named: texts, directories and archives of them.
//!
//! Nothing of it is unpacked onto a disk. Whoever made it is not trusted: what is read is bounded, in bytes and in members.

use std::io::{self, Read};
use std::path::Path;

use super::files::open_input;
use super::log::{self, FoundFiles, Utf16};

/// Bytes that are read in all, unpacked.
const BYTES: u64 = 256 << 20;
/// Bytes that are read of one text.
const TEXT: u64 = 32 << 20;
/// Members of an archive, or files of a directory, that are looked at.
const MEMBERS: usize = 20_000;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Where the header of a member of tar(5) has its mark, and the mark.
const TAR_MARK: (usize, &[u8]) = (257, b"ustar");

/// A text, and where it was: a file, or a file in a directory or an archive.
pub struct Text {
    /// Its path below what the user named; the name of that where it is the file itself.
    pub path: String,
    /// Whether it is a part of a directory or an archive.
    pub is_member: bool,
    /// Its text, in UTF-8.
    pub text: String,
}

/// Reads a file, all texts of a directory, or those of an archive: plain, `.gz` or `.zst`.
///
/// # Errors
///
/// It cannot be opened or read.
pub fn read(path: &Path) -> io::Result<Vec<Text>> {
    let found = FoundFiles::below(path).map_err(|(_, error)| error)?;
    let Some(found) = found else {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        return unpacked(open_input(path)?, &name, 2);
    };
    let mut texts = Vec::new();
    let mut left = BYTES;
    for file in found.logs.into_iter().take(MEMBERS) {
        let below = file
            .strip_prefix(path)
            .unwrap_or(&file)
            .to_string_lossy()
            .into_owned();
        // One that cannot be opened is as if it were not there: nobody says that it is.
        let Ok(of_file) = open_input(&file).and_then(|file| unpacked(file, &below, 1)) else {
            continue;
        };
        for text in of_file {
            left = left.saturating_sub(text.text.len() as u64);
            texts.push(Text {
                is_member: true,
                ..text
            });
        }
        if left == 0 {
            break;
        }
    }
    Ok(texts)
}

/// The texts of a stream, which may be packed and may be an archive, so many times over each other.
fn unpacked(input: impl Read, name: &str, layers: u8) -> io::Result<Vec<Text>> {
    let (head, input) = peek(input)?;
    let input: Box<dyn Read + '_> = if head.starts_with(&GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(input))
    } else if head.starts_with(&ZSTD) {
        Box::new(zstd::stream::read::Decoder::new(input)?)
    } else {
        Box::new(input)
    };
    let (head, input) = peek(input.take(BYTES))?;
    if layers > 1 && head.get(TAR_MARK.0..TAR_MARK.0 + TAR_MARK.1.len()) == Some(TAR_MARK.1) {
        return members(input);
    }
    let text = text(input)?;
    let text = text.map(|text| Text {
        path: name.to_owned(),
        is_member: false,
        text,
    });
    Ok(text.into_iter().collect())
}

/// The first bytes, and the whole stream.
fn peek<'r>(mut input: impl Read + 'r) -> io::Result<(Vec<u8>, impl Read + 'r)> {
    let mut head = Vec::with_capacity(512);
    input.by_ref().take(512).read_to_end(&mut head)?;
    Ok((head.clone(), io::Cursor::new(head).chain(input)))
}

fn members(input: impl Read) -> io::Result<Vec<Text>> {
    let mut archive = tar::Archive::new(input);
    let mut texts = Vec::new();
    for entry in archive.entries()?.take(MEMBERS) {
        // A cut archive is read as far as it goes.
        let Ok(mut entry) = entry else {
            break;
        };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let Ok(of_member) = unpacked(&mut entry, &path, 1) else {
            continue;
        };
        texts.extend(of_member.into_iter().map(|text| Text {
            is_member: true,
            ..text
        }));
    }
    Ok(texts)
}

/// The text of a stream; `None` if it is none.
fn text(input: impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = input.take(TEXT).read_to_end(&mut bytes);
    if bytes.is_empty() {
        read?;
    }
    if let Some(mut wide) = Utf16::detect(&bytes) {
        bytes = wide.next_utf8(&bytes).to_vec();
    }
    if !log::is_text(bytes.get(..4096).unwrap_or(&bytes)) {
        return Ok(None);
    }
    Ok(Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}
