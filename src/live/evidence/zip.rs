//! The members of a zip (APPNOTE.TXT of PKWARE), by the headers that stand before each: those that are stored or deflated.

use std::io::{self, Read};

use super::{CUT, MEMBERS, MEMBERS_BOUND, Texts};
use crate::left_out::LeftOut;

/// How the header of a member begins.
pub(super) const MARK: [u8; 4] = *b"PK\x03\x04";
/// How the record begins that ends an archive.
const END: [u8; 4] = *b"PK\x05\x06";
/// Bytes that are read of an archive.
const ARCHIVE: u64 = 64 << 20;
const ARCHIVE_BOUND: &str = "a zip of more than 64 MiB";
const OTHERWISE: &str = "encrypted, or packed in another way";

/// Adds the texts of an archive; one that is cut is read as far as it goes.
pub(super) fn members(input: impl Read, texts: &mut Texts, layers: u8) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.take(ARCHIVE).read_to_end(&mut bytes)?;
    if !bytes.windows(END.len()).any(|mark| mark == END) {
        let is_long = bytes.len() as u64 == ARCHIVE;
        let why = if is_long { ARCHIVE_BOUND } else { CUT };
        texts.leave_out(LeftOut::one_or_more("member", why));
    }
    let mut rest = &*bytes;
    for number in 0.. {
        let Some(at) = rest.windows(MARK.len()).position(|mark| mark == MARK) else {
            break;
        };
        if number >= MEMBERS {
            texts.leave_out(LeftOut::one_or_more("member", MEMBERS_BOUND));
            break;
        }
        let header = rest.get(at..).unwrap_or_default();
        let Some((fixed, behind)) = header.split_first_chunk::<30>() else {
            break;
        };
        let half = |at: usize| usize::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        let packed = half(18) | half(20) << 16;
        let (name, data) = behind.split_at_checked(half(26)).unwrap_or((behind, &[]));
        let data = data.get(half(28)..).unwrap_or_default();
        let path = String::from_utf8_lossy(name);
        // The first flag says that it is encrypted. Of what is deflated, the size may stand behind it only.
        let used = match (half(6) & 1, half(8)) {
            (0, 0) => {
                texts.member(data.take(packed as u64), &path, layers);
                packed
            }
            (0, 8) => {
                let mut inflated = flate2::bufread::DeflateDecoder::new(data);
                texts.member(inflated.by_ref(), &path, layers);
                usize::try_from(inflated.total_in()).unwrap_or(0)
            }
            _ => {
                texts.leave_out(LeftOut::counted(1, "member", OTHERWISE));
                packed
            }
        };
        rest = data.get(used..).unwrap_or_default();
    }
    Ok(())
}
