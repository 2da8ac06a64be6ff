//! What people kept of a machine, in files that the user named: texts, directories and archives of them.
//!
//! Nothing of it is unpacked onto a disk. Whoever made it is not trusted: what is read is bounded, in bytes and in members.

mod zip;

use std::io::{self, Read};
use std::path::Path;

use super::files::open_input;
use super::log::{self, DEPTH_BOUND, FoundFiles, Utf16};
use super::packed::unpacked;
use crate::left_out::{self, LeftOut};
use crate::sentence::shell::Command;

/// Bytes that are read in all, unpacked.
const BYTES: u64 = 256 << 20;
/// Bytes that are read of one text.
const TEXT: u64 = 32 << 20;
/// Members of an archive, or files of a directory, that are looked at.
const MEMBERS: usize = 20_000;
const BYTES_BOUND: &str = "more than 256 MiB in all";
const TEXT_BOUND: &str = "a text of more than 32 MiB";
const MEMBERS_BOUND: &str = "more than 20000 in all";
const CUT: &str = "the archive is cut or damaged";
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
const LAYERS_BOUND: &str = "inside of 3 other archives";

/// The texts that were found.
#[derive(Default)]
pub struct FoundTexts {
    /// In the order of the archive, or by their paths.
    pub texts: Vec<Text>,
    /// What was not read of what was found.
    pub left_out: Vec<LeftOut>,
}

/// How archives of 7-Zip begin, which are not read.
const SEVEN_ZIP: [u8; 6] = [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c];

/// Reads a file, all texts of a directory, or those of an archive: a tar, plain, `.gz`, `.zst`,
/// `.xz` or `.bz2`, or a zip, and archives in these.
///
/// # Errors
///
/// It cannot be opened or read.
pub fn read(path: &Path) -> io::Result<FoundTexts> {
    let found = FoundFiles::below(path).map_err(|(_, error)| error)?;
    let Some(found) = found else {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        return texts(open_input(path)?, &name);
    };
    if found.logs.is_empty() {
        let all = Command::filled("rdma-doctor check {}/*", &[&path.to_string_lossy()]);
        return Err(io::Error::other(match found.recordings.len() {
            0 => "no text in this directory".to_owned(),
            count => format!(
                "a directory of recordings ({count}): {all} judges them as one cluster, with --each one by one"
            ),
        }));
    }
    let mut texts = Texts::new();
    texts.leave_out(LeftOut::counted(found.too_deep, "directory", DEPTH_BOUND));
    for file in found.logs {
        let below = file.strip_prefix(path).unwrap_or(&file).to_string_lossy();
        match open_input(&file) {
            Ok(input) => texts.member(input, &below, LAYERS - 1),
            Err(error) => texts.unreadable(&error),
        }
    }
    Ok(texts.found)
}

/// Whether a file is an archive, packed or not.
pub fn is_archive(path: &Path) -> bool {
    let head = || -> io::Result<Vec<u8>> {
        let (head, input) = peek(open_input(path)?)?;
        Ok(peek(unpacked(&head, input)?)?.0)
    };
    head().is_ok_and(|head| begins_tar(&head) || head.starts_with(&zip::MARK))
}

fn begins_tar(head: &[u8]) -> bool {
    let (at, mark) = TAR_MARK;
    head.get(at..at + mark.len()) == Some(mark)
}

/// The texts of a stream of this name, which may be packed and may be an archive.
///
/// # Errors
///
/// It cannot be read.
pub fn texts(input: impl Read, name: &str) -> io::Result<FoundTexts> {
    let mut texts = Texts::new();
    texts.add(input, name, LAYERS)?;
    Ok(texts.found)
}

/// The texts that were found, and how much is still looked at.
struct Texts {
    found: FoundTexts,
    bytes: u64,
    members: usize,
}

impl Texts {
    fn new() -> Self {
        Texts {
            found: FoundTexts::default(),
            bytes: BYTES,
            members: MEMBERS,
        }
    }

    fn leave_out(&mut self, more: LeftOut) {
        left_out::add(&mut self.found.left_out, more);
    }

    /// That a member, or a file, is there and cannot be read.
    fn unreadable(&mut self, error: &io::Error) {
        let why = format!("{}", error.kind());
        self.leave_out(LeftOut::counted(1, "member", why));
    }

    /// Adds the texts of a stream, which may be packed and may be an archive; of one that is neither, its own.
    fn add(&mut self, input: impl Read, name: &str, layers: u8) -> io::Result<()> {
        let (head, input) = peek(input)?;
        if head.starts_with(&SEVEN_ZIP) {
            let unpack = Command::filled("7z x {}", &[name]);
            let why = format!(
                "archives of 7-Zip are not read: unpack it ({unpack}) and check the directory"
            );
            return Err(io::Error::other(why));
        }
        let (head, input) = peek(unpacked(&head, input)?)?;
        let is_tar = begins_tar(&head);
        if is_tar || head.starts_with(&zip::MARK) {
            if layers == 0 {
                self.leave_out(LeftOut::counted(1, "archive", LAYERS_BOUND));
                return Ok(());
            }
            let mut input = input.take(self.bytes);
            let read = match is_tar {
                true => self.tar(&mut input, layers - 1),
                false => zip::members(&mut input, self, layers - 1),
            };
            // What is no text takes time, too.
            self.bytes = self.bytes.min(input.limit());
            if self.bytes == 0 {
                self.leave_out(LeftOut::one_or_more("byte", BYTES_BOUND));
            }
            return read;
        }
        let (most, bound) = if self.bytes < TEXT {
            (self.bytes, BYTES_BOUND)
        } else {
            (TEXT, TEXT_BOUND)
        };
        let text = read_text(input, most)?;
        self.bytes = self.bytes.saturating_sub(text.bytes);
        let Some(content) = text.content else {
            return Ok(());
        };
        if text.goes_on {
            self.leave_out(LeftOut::one_or_more("byte", bound));
        }
        if let Some(error) = text.broken_off {
            self.leave_out(LeftOut::one_or_more("byte", format!("{}", error.kind())));
        }
        self.found.texts.push(Text {
            path: name.to_owned(),
            is_member: layers < LAYERS,
            text: content,
        });
        Ok(())
    }

    /// Adds those of a member.
    fn member(&mut self, input: impl Read, path: &str, layers: u8) {
        if self.members == 0 {
            return self.leave_out(LeftOut::counted(1, "member", MEMBERS_BOUND));
        }
        if self.bytes == 0 {
            return self.leave_out(LeftOut::counted(1, "member", BYTES_BOUND));
        }
        self.members -= 1;
        if let Err(error) = self.add(input, path, layers) {
            self.unreadable(&error);
        }
    }

    fn tar(&mut self, input: impl Read, layers: u8) -> io::Result<()> {
        let mut archive = tar::Archive::new(EndOfTar::new(input));
        for (number, entry) in archive.entries()?.enumerate() {
            if number >= MEMBERS {
                self.leave_out(LeftOut::one_or_more("member", MEMBERS_BOUND));
                return Ok(());
            }
            // A cut archive is read as far as it goes.
            let Ok(mut entry) = entry else {
                self.leave_out(LeftOut::one_or_more("member", CUT));
                return Ok(());
            };
            let kind = entry.header().entry_type();
            // A link counts as a file that holds its target.
            if let (true, Some(target)) = (kind.is_symlink(), entry.link_name_bytes()) {
                let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                self.member(&*target, &path, layers);
            } else if kind.is_file() {
                let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                self.member(&mut entry, &path, layers);
            }
        }
        if !archive.into_inner().is_at_end() {
            self.leave_out(LeftOut::one_or_more("member", CUT));
        }
        Ok(())
    }
}

/// A tar archive as it is read: a block of zeros ends it, and where none does it was cut between
/// two members.
struct EndOfTar<R> {
    input: R,
    /// The zeros that were read last.
    zeros: usize,
}

impl<R> EndOfTar<R> {
    fn new(input: R) -> Self {
        EndOfTar { input, zeros: 0 }
    }

    fn is_at_end(&self) -> bool {
        self.zeros >= 512
    }
}

impl<R: Read> Read for EndOfTar<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        let read = buffer.get(..length).unwrap_or_default();
        let zeros = read.iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = zeros + if zeros == length { self.zeros } else { 0 };
        Ok(length)
    }
}

/// The first bytes, and the whole stream.
fn peek<'r>(mut input: impl Read + 'r) -> io::Result<(Vec<u8>, impl Read + 'r)> {
    let mut head = Vec::with_capacity(512);
    input.by_ref().take(512).read_to_end(&mut head)?;
    Ok((head.clone(), io::Cursor::new(head).chain(input)))
}

/// What was read of a stream.
struct ReadText {
    /// How many bytes.
    bytes: u64,
    /// Its text; nothing if it is none.
    content: Option<String>,
    /// Whether it has more bytes.
    goes_on: bool,
    /// Why not all of it could be read.
    broken_off: Option<io::Error>,
}

/// Reads so many bytes of a stream.
fn read_text(mut input: impl Read, most: u64) -> io::Result<ReadText> {
    let mut bytes = Vec::new();
    let outcome = input.by_ref().take(most).read_to_end(&mut bytes);
    let broken_off = match outcome {
        Err(error) if bytes.is_empty() => return Err(error),
        outcome => outcome.err(),
    };
    let read = bytes.len() as u64;
    let goes_on = read == most && input.read(&mut [0]).is_ok_and(|more| more > 0);
    if let Some(mut wide) = Utf16::detect(&bytes) {
        bytes = wide.next_utf8(&bytes).to_vec();
    }
    let is_text = log::is_text(bytes.get(..4096).unwrap_or(&bytes));
    let text = is_text.then(|| String::from_utf8(bytes));
    let text = text
        .map(|text| text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()));
    Ok(ReadText {
        bytes: read,
        content: text,
        goes_on,
        broken_off,
    })
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
        let each = texts.found.texts.iter();
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
