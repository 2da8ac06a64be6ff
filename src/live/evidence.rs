//! What people kept of a machine, in files that the user named: texts, directories and archives of them.
//!
//! Nothing of it is unpacked onto a disk. Whoever made it is not trusted: what is read is bounded, in bytes and in members.

mod zip;

use std::io::{self, Read};
use std::path::Path;

use super::files::open_input;
use super::log::{self, FoundFiles, Utf16};
use super::packed::unpacked;
use crate::terminal;

/// Bytes that are read in all, unpacked.
const BYTES: u64 = 256 << 20;
/// Bytes that are read of one text.
const TEXT: u64 = 32 << 20;
/// Members of an archive, or files of a directory, that are looked at.
const MEMBERS: usize = 20_000;
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

/// Archives that are opened inside of each other.
const LAYERS: u8 = 3;

/// Reads a file, all texts of a directory, or those of an archive: a tar, plain, `.gz` or `.zst`, or a zip, and archives in these.
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
        return texts(open_input(path)?, &name);
    };
    if found.logs.is_empty() {
        let path = terminal::path(path);
        return Err(io::Error::other(match found.recordings.len() {
            0 => "no text in this directory".to_owned(),
            count => format!(
                "a directory of recordings ({count}): `rdma-doctor check {path}/*` judges them as one cluster, with --each one by one"
            ),
        }));
    }
    let mut texts = Texts::new();
    for file in found.logs {
        let below = file.strip_prefix(path).unwrap_or(&file).to_string_lossy();
        // One that cannot be opened is as if it were not there: nobody says that it is.
        if let Ok(input) = open_input(&file) {
            texts.member(input, &below, LAYERS - 1);
        }
    }
    Ok(texts.all)
}

/// The texts of a stream of this name, which may be packed and may be an archive.
///
/// # Errors
///
/// It cannot be read.
pub fn texts(input: impl Read, name: &str) -> io::Result<Vec<Text>> {
    let mut texts = Texts::new();
    texts.add(input, name, LAYERS)?;
    Ok(texts.all)
}

/// The texts that were found, and how much is still looked at.
struct Texts {
    all: Vec<Text>,
    bytes: u64,
    members: usize,
}

impl Texts {
    fn new() -> Self {
        Texts {
            all: Vec::new(),
            bytes: BYTES,
            members: MEMBERS,
        }
    }

    /// Adds the texts of a stream, which may be packed and may be an archive; of one that is neither, its own.
    fn add(&mut self, input: impl Read, name: &str, layers: u8) -> io::Result<()> {
        let (head, input) = peek(input)?;
        let (head, input) = peek(unpacked(&head, input)?.take(self.bytes))?;
        let is_tar = head.get(TAR_MARK.0..TAR_MARK.0 + TAR_MARK.1.len()) == Some(TAR_MARK.1);
        let is_zip = head.starts_with(&zip::MARK);
        if is_tar || is_zip {
            if layers == 0 {
                return Ok(());
            }
            let mut input = input.take(self.bytes);
            let read = match is_tar {
                true => self.tar(&mut input, layers - 1),
                false => zip::members(&mut input, self, layers - 1),
            };
            // What is no text takes time, too.
            self.bytes = self.bytes.min(input.limit());
            return read;
        }
        let (read, text) = text(input)?;
        self.bytes = self.bytes.saturating_sub(read as u64);
        let text = text.map(|text| Text {
            path: name.to_owned(),
            is_member: layers < LAYERS,
            text,
        });
        self.all.extend(text);
        Ok(())
    }

    /// Adds those of a member. One that cannot be read is as if it were not there.
    fn member(&mut self, input: impl Read, path: &str, layers: u8) {
        if self.members > 0 && self.bytes > 0 {
            self.members -= 1;
            let _ = self.add(input, path, layers);
        }
    }

    fn tar(&mut self, input: impl Read, layers: u8) -> io::Result<()> {
        let mut archive = tar::Archive::new(input);
        for entry in archive.entries()?.take(MEMBERS) {
            // A cut archive is read as far as it goes.
            let Ok(mut entry) = entry else {
                break;
            };
            if entry.header().entry_type().is_file() {
                let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                self.member(&mut entry, &path, layers);
            }
        }
        Ok(())
    }
}

/// The first bytes, and the whole stream.
fn peek<'r>(mut input: impl Read + 'r) -> io::Result<(Vec<u8>, impl Read + 'r)> {
    let mut head = Vec::with_capacity(512);
    input.by_ref().take(512).read_to_end(&mut head)?;
    Ok((head.clone(), io::Cursor::new(head).chain(input)))
}

/// How many bytes of a stream were read, and its text; `None` if it is none.
fn text(input: impl Read) -> io::Result<(usize, Option<String>)> {
    let mut bytes = Vec::new();
    let outcome = input.take(TEXT).read_to_end(&mut bytes);
    if bytes.is_empty() {
        outcome?;
    }
    let read = bytes.len();
    if let Some(mut wide) = Utf16::detect(&bytes) {
        bytes = wide.next_utf8(&bytes).to_vec();
    }
    if !log::is_text(bytes.get(..4096).unwrap_or(&bytes)) {
        return Ok((read, None));
    }
    let text = String::from_utf8(bytes);
    let text = text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    Ok((read, Some(text)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn bounded(input: &[u8], bytes: u64, members: usize) -> Vec<(String, usize)> {
        let mut texts = Texts {
            bytes,
            members,
            ..Texts::new()
        };
        texts.add(input, "in", LAYERS).unwrap();
        let each = texts.all.iter();
        each.map(|text| (text.path.clone(), text.text.len()))
            .collect()
    }

    #[test]
    fn what_is_unpacked_is_bounded_over_all_members() {
        let bomb = packed(&[b'a'; 40_000]);
        let many = archive(&[("a.gz", &bomb), ("b.gz", &bomb), ("c.gz", &bomb)]);
        let all = bounded(&many, 60_000, 10);
        let sum: usize = all.iter().map(|(_, length)| length).sum();
        assert!(all.len() == 2 && sum <= 60_000, "{all:?}");
        assert_eq!(bounded(&many, 1 << 20, 2).len(), 2);
        // Archives in archives, to the third, which is no text.
        let mut nested = archive(&[("text", b"ibstat")]);
        for layer in 1..=4 {
            let found = bounded(&nested, 1 << 20, 10);
            assert_eq!(found.len(), usize::from(layer <= 3), "{layer}");
            nested = packed(&archive(&[("in.tar", &nested)]));
        }
    }
}
