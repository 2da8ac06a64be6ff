//! `SIOCETHTOOL`: the commands that the doctor needs (include/uapi/linux/ethtool.h).

use std::ffi::{c_char, c_void};
use std::os::fd::AsRawFd;

use netlink_sys::protocols::NETLINK_GENERIC;
use serde_json::{Value, json};

use super::Netdev;
use crate::live::netlink::Connection;
use crate::source::{Errno, Refusal};

const GLINKSETTINGS: u32 = 0x4c;
const GPAUSEPARAM: u32 = 0x12;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GTSO: u32 = 0x1e;
const GGRO: u32 = 0x2b;
const GSSET_INFO: u32 = 0x37;
const GMODULEINFO: u32 = 0x42;
const GMODULEEEPROM: u32 = 0x43;
const GFECPARAM: u32 = 0x50;
/// Bytes of module memory that an answer has at most: SFF-8472 has 512 on its two pages, the others 256 before paging.
const EEPROM_LIMIT: u32 = 512;
/// `link_mode_masks_nwords` is a signed byte.
const MAX_WORDS: usize = 127;
/// `ETH_SS_STATS`: the names of the statistics.
const STATISTICS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// Statistics that a device may have. An adapter with hundreds of queues has some ten thousand.
const MAX_STATISTICS: usize = 1 << 16;

/// A structure of ethtool in words of 32 bits, of which the first is the command. The kernel writes its answer into it.
struct Request(Vec<u32>);

impl Request {
    /// A command, and the words behind it; the others are zero.
    ///
    /// The room must be as large as what the kernel writes at this command.
    fn new(command: u32, behind: &[u32], bytes: usize) -> Self {
        let mut words = vec![0; bytes.div_ceil(4)];
        let given = std::iter::once(&command).chain(behind);
        words
            .iter_mut()
            .zip(given)
            .for_each(|(to, from)| *to = *from);
        Request(words)
    }

    /// The n-th word.
    fn word(&self, n: usize) -> u32 {
        self.0.get(n).copied().unwrap_or(0)
    }

    /// So many bytes from a word on.
    fn bytes(&self, word: usize, length: usize) -> Vec<u8> {
        let words = self.0.iter().skip(word);
        words
            .flat_map(|word| word.to_ne_bytes())
            .take(length)
            .collect()
    }

    #[expect(unsafe_code, reason = "the kernel writes into the request")]
    fn send(&mut self, netdev: &Netdev<'_>) -> Result<(), Refusal> {
        let socket = Connection::open(NETLINK_GENERIC)?;
        // SAFETY: zero is valid for all of ifreq.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        // The name is shorter than the field, so a NUL follows it.
        for (to, from) in ifreq.ifr_name.iter_mut().zip(netdev.0.bytes()) {
            *to = from as c_char;
        }
        ifreq.ifr_ifru.ifru_data = self.0.as_mut_ptr().cast();
        let argument: *mut c_void = (&raw mut ifreq).cast();
        // SAFETY: SIOCETHTOOL takes an ifreq whose data points at a structure that begins with its command; who made the request gave it the room that the
        // kernel needs at this command.
        let done =
            unsafe { libc::ioctl(socket.fd().as_raw_fd(), libc::SIOCETHTOOL as _, argument) };
        match done {
            -1 => Err(std::io::Error::last_os_error().into()),
            _ => Ok(()),
        }
    }
}

/// The link modes that the device supports: the first request, of no words, is answered with the number of words to ask for, negated.
pub(super) fn supported_link_modes(netdev: &Netdev<'_>) -> Result<Vec<u8>, Refusal> {
    // struct ethtool_link_settings: command, speed, then bytes; the last of bytes 12 to 15 is link_mode_masks_nwords, and the masks begin at byte 48.
    let asked = |words: u8| {
        let count = u32::from_ne_bytes([0, 0, 0, words]);
        let mut request = Request::new(GLINKSETTINGS, &[0, 0, count], 48 + 4 * 3 * MAX_WORDS);
        request.send(netdev)?;
        let count = request.word(3).to_ne_bytes()[3];
        Ok::<_, Refusal>((request, count.cast_signed()))
    };
    let (_, offered) = asked(0)?;
    if offered >= 0 || offered == i8::MIN {
        return Err(Refusal::Errno(Errno::EPROTO));
    }
    let (reply, words) = asked(offered.unsigned_abs())?;
    if words != -offered {
        return Err(Refusal::Errno(Errno::EPROTO));
    }
    let words = usize::from(words.unsigned_abs());
    let map = (0..words).flat_map(|at| reply.word(12 + at).to_le_bytes());
    Ok(map.collect())
}

/// Reads a module's memory: its kind (`ETH_MODULE_SFF_*`) and its first bytes.
pub(super) fn module_eeprom(netdev: &Netdev<'_>) -> Result<(u32, Vec<u8>), Refusal> {
    // struct ethtool_modinfo: command, kind, length, eight reserved words.
    let mut info = Request::new(GMODULEINFO, &[], 44);
    info.send(netdev)?;
    let length = info.word(2).min(EEPROM_LIMIT);
    // struct ethtool_eeprom: command, magic, offset, length, and as many bytes.
    let mut eeprom = Request::new(GMODULEEEPROM, &[0, 0, length], 16 + EEPROM_LIMIT as usize);
    eeprom.send(netdev)?;
    let length = length.min(eeprom.word(3));
    Ok((info.word(1), eeprom.bytes(4, length as usize)))
}

/// Reads whether the device sends and obeys pause frames of the whole link (`ETHTOOL_GPAUSEPARAM`).
pub(super) fn pause(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    // struct ethtool_pauseparam: command, autoneg, rx, tx.
    let mut pause = Request::new(GPAUSEPARAM, &[], 16);
    pause.send(netdev)?;
    Ok(json!({ "autoneg": pause.word(1), "rx": pause.word(2), "tx": pause.word(3) }))
}

/// Reads the forward error correction in force (`ETHTOOL_GFECPARAM`), a bit of `enum ethtool_fec_config_bits`.
pub(super) fn fec(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    // struct ethtool_fecparam: command, active_fec, fec, a reserved word.
    let mut fec = Request::new(GFECPARAM, &[], 16);
    fec.send(netdev)?;
    Ok(json!({ "active": fec.word(1) }))
}

/// Reads whether the device cuts and joins TCP's segments (`ETHTOOL_GTSO`, `ETHTOOL_GGRO`).
pub(super) fn offloads(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    // struct ethtool_value: command, data.
    let is_on = |command| {
        let mut value = Request::new(command, &[], 8);
        value.send(netdev)?;
        Ok::<_, Refusal>(value.word(1) != 0)
    };
    Ok(json!({ "tso": is_on(GTSO)?, "gro": is_on(GGRO)? }))
}

/// Reads the device's own statistics: names and values, in the driver's order.
pub(super) fn statistics(netdev: &Netdev<'_>) -> Result<Vec<(String, u64)>, Refusal> {
    // struct ethtool_sset_info: command, a reserved word, a mask of 64 bits, and a count, since one set is asked for.
    let mask = (1u64 << STATISTICS).to_ne_bytes();
    let [low, high] = [&mask[..4], &mask[4..]].map(word);
    let mut info = Request::new(GSSET_INFO, &[0, low, high], 24);
    info.send(netdev)?;
    let count = info.word(4);
    if (info.word(2), info.word(3)) != (low, high) || count == 0 {
        return Err(Refusal::Errno(Errno::EOPNOTSUPP));
    }
    if count as usize > MAX_STATISTICS {
        return Err(Refusal::TooLarge);
    }
    // The kernel counts the statistics again at each request and writes as many; there is room for twice the most that are asked for, and the driver has
    // said just before that it has no more than these.
    let room = 2 * MAX_STATISTICS;
    // struct ethtool_gstrings: command, set, length, then the names of 32 bytes each.
    let mut names = Request::new(GSTRINGS, &[STATISTICS, count], 12 + NAME * room);
    names.send(netdev)?;
    // struct ethtool_stats: command, count, then the values of 8 bytes each.
    let mut values = Request::new(GSTATS, &[count], 8 + 8 * room);
    values.send(netdev)?;
    if names.word(2) != count || values.word(1) != count {
        // Queues came or went between the requests: names and values may not belong together.
        return Err(Refusal::Errno(Errno::EINTR));
    }
    let count = count as usize;
    let (names, values) = (names.bytes(3, NAME * count), values.bytes(2, 8 * count));
    let one = |(name, value): (&[u8], &[u8])| {
        let name = name.split(|b| *b == 0).next()?;
        // mlx5 has a name with a blank at its end.
        let name = std::str::from_utf8(name).ok()?.trim();
        Some((name.to_owned(), u64::from_ne_bytes(value.try_into().ok()?)))
    };
    let both = names.chunks_exact(NAME).zip(values.chunks_exact(8));
    Ok(both.filter_map(one).collect())
}

fn word(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}
