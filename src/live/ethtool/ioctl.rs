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
const GSSET_INFO: u32 = 0x37;
const GMODULEINFO: u32 = 0x42;
const GMODULEEEPROM: u32 = 0x43;
/// Bytes of module memory that an answer has at most: SFF-8472 has 512 on its two pages, the others 256 before paging.
const EEPROM_LIMIT: usize = 512;
/// `link_mode_masks_nwords` is a signed byte.
const MAX_WORDS: usize = 127;

/// `struct ethtool_link_settings`, with room for the three bitmaps.
#[repr(C)]
struct LinkSettingsRequest {
    cmd: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio_support: u8,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    link_mode_masks_nwords: i8,
    transceiver: u8,
    master_slave_cfg: u8,
    master_slave_state: u8,
    rate_matching: u8,
    reserved: [u32; 7],
    masks: [u32; 3 * MAX_WORDS],
}

/// `struct ethtool_modinfo`.
#[repr(C)]
struct ModuleInfo {
    cmd: u32,
    kind: u32,
    eeprom_len: u32,
    reserved: [u32; 8],
}

/// `struct ethtool_eeprom`, with room for the data.
#[repr(C)]
struct Eeprom {
    cmd: u32,
    magic: u32,
    offset: u32,
    len: u32,
    data: [u8; EEPROM_LIMIT],
}

/// `struct ethtool_pauseparam`.
#[repr(C)]
struct PauseParam {
    cmd: u32,
    autoneg: u32,
    rx: u32,
    tx: u32,
}

/// `struct ethtool_sset_info`, asked for one set.
#[repr(C)]
struct StringSetInfo {
    cmd: u32,
    reserved: u32,
    mask: u64,
    count: u32,
    padding: u32,
}

/// `ETH_SS_STATS`: the names of the statistics.
const STATISTICS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// Statistics that a device may have. An adapter with hundreds of queues has some ten thousand.
const MAX_STATISTICS: usize = 1 << 16;

/// The reply of `ETHTOOL_GLINKSETTINGS`. Bitmaps are little-endian.
pub(super) struct LinkSettings {
    /// Mb/s; all ones where unknown.
    pub(super) speed: u32,
    /// 0 half, 1 full, 255 unknown.
    pub(super) duplex: u8,
    /// `PORT_*`: 0 twisted pair, 3 fibre, 5 direct attach, 239 none, 255 other.
    pub(super) port: u8,
    /// Whether the link is negotiated.
    pub(super) autoneg: u8,
    /// Link modes that the device supports.
    pub(super) supported: Vec<u8>,
    /// Link modes that it offers.
    pub(super) advertising: Vec<u8>,
    /// Link modes that the other end offers.
    pub(super) lp_advertising: Vec<u8>,
}

/// Reads the link settings: the first request, of no words, is answered with the number of words to ask for, negated.
pub(super) fn link_settings(netdev: &Netdev<'_>) -> Result<LinkSettings, Refusal> {
    let socket = Connection::open(NETLINK_GENERIC)?;
    let mut request = LinkSettingsRequest {
        cmd: GLINKSETTINGS,
        speed: 0,
        duplex: 0,
        port: 0,
        phy_address: 0,
        autoneg: 0,
        mdio_support: 0,
        eth_tp_mdix: 0,
        eth_tp_mdix_ctrl: 0,
        link_mode_masks_nwords: 0,
        transceiver: 0,
        master_slave_cfg: 0,
        master_slave_state: 0,
        rate_matching: 0,
        reserved: [0; 7],
        masks: [0; 3 * MAX_WORDS],
    };
    ethtool(&socket, netdev, &mut request)?;
    let words = request.link_mode_masks_nwords;
    if words >= 0 || words == i8::MIN {
        return Err(Refusal::Errno(Errno::EPROTO));
    }
    request.cmd = GLINKSETTINGS;
    request.link_mode_masks_nwords = -words;
    ethtool(&socket, netdev, &mut request)?;
    if request.link_mode_masks_nwords != -words {
        return Err(Refusal::Errno(Errno::EPROTO));
    }
    let words = usize::from(words.unsigned_abs());
    let map = |n: usize| {
        let words = &request.masks[n * words..(n + 1) * words];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    Ok(LinkSettings {
        speed: request.speed,
        duplex: request.duplex,
        port: request.port,
        autoneg: request.autoneg,
        supported: map(0),
        advertising: map(1),
        lp_advertising: map(2),
    })
}

/// Reads a module's memory: its kind (`ETH_MODULE_SFF_*`) and its first bytes.
pub(super) fn module_eeprom(netdev: &Netdev<'_>) -> Result<(u32, Vec<u8>), Refusal> {
    let socket = Connection::open(NETLINK_GENERIC)?;
    let mut info = ModuleInfo {
        cmd: GMODULEINFO,
        kind: 0,
        eeprom_len: 0,
        reserved: [0; 8],
    };
    ethtool(&socket, netdev, &mut info)?;
    let length = (info.eeprom_len as usize).min(EEPROM_LIMIT);
    let mut eeprom = Eeprom {
        cmd: GMODULEEEPROM,
        magic: 0,
        offset: 0,
        // At most EEPROM_LIMIT.
        len: length as u32,
        data: [0; EEPROM_LIMIT],
    };
    ethtool(&socket, netdev, &mut eeprom)?;
    let length = length.min(eeprom.len as usize);
    Ok((info.kind, eeprom.data[..length].to_vec()))
}

/// Reads whether the device sends and obeys pause frames of the whole link (`ETHTOOL_GPAUSEPARAM`).
pub(super) fn pause(netdev: &Netdev<'_>) -> Result<Value, Refusal> {
    let mut request = PauseParam {
        cmd: GPAUSEPARAM,
        autoneg: 0,
        rx: 0,
        tx: 0,
    };
    ethtool(&Connection::open(NETLINK_GENERIC)?, netdev, &mut request)?;
    Ok(json!({ "autoneg": request.autoneg, "rx": request.rx, "tx": request.tx }))
}

/// Reads the device's own statistics: names and values, in the driver's order.
pub(super) fn statistics(netdev: &Netdev<'_>) -> Result<Vec<(String, u64)>, Refusal> {
    let socket = Connection::open(NETLINK_GENERIC)?;
    let mut info = StringSetInfo {
        cmd: GSSET_INFO,
        reserved: 0,
        mask: 1 << STATISTICS,
        count: 0,
        padding: 0,
    };
    ethtool(&socket, netdev, &mut info)?;
    let count = info.count as usize;
    if info.mask != 1 << STATISTICS || count == 0 {
        return Err(Refusal::Errno(Errno::EOPNOTSUPP));
    }
    if count > MAX_STATISTICS {
        return Err(Refusal::TooLarge);
    }
    // struct ethtool_gstrings: command, set, length, then the names of 32 bytes each.
    let mut names = FlexibleArrayBuffer::new(12 + NAME * 2 * MAX_STATISTICS);
    names.word(0, GSTRINGS);
    names.word(1, STATISTICS);
    names.word(2, info.count);
    ethtool(&socket, netdev, &mut names)?;
    // struct ethtool_stats: command, count, then the values of 8 bytes each.
    let mut values = FlexibleArrayBuffer::new(8 + 8 * 2 * MAX_STATISTICS);
    values.word(0, GSTATS);
    values.word(1, info.count);
    ethtool(&socket, netdev, &mut values)?;
    let (names, values) = (names.bytes(12 + NAME * count), values.bytes(8 + 8 * count));
    let said = |bytes: &[u8], at: usize| {
        let word = bytes
            .get(4 * at..4 * at + 4)
            .and_then(|b| b.try_into().ok());
        word.map(u32::from_ne_bytes)
    };
    if said(&names, 2) != Some(info.count) || said(&values, 1) != Some(info.count) {
        // Queues came or went between the requests: names and values may not belong together.
        return Err(Refusal::Errno(Errno::EINTR));
    }
    let one = |at: usize| {
        let name = names.get(12 + NAME * at..12 + NAME * (at + 1))?;
        let name = name.split(|b| *b == 0).next()?;
        let value = values.get(8 + 8 * at..16 + 8 * at)?.try_into().ok()?;
        // mlx5 has a name with a blank at its end.
        let name = std::str::from_utf8(name).ok()?.trim();
        Some((name.to_owned(), u64::from_ne_bytes(value)))
    };
    Ok((0..count).filter_map(one).collect())
}

/// A structure that ends in an array whose length the driver decides while it answers.
struct FlexibleArrayBuffer(Vec<u64>);

impl FlexibleArrayBuffer {
    /// Zeros of this many bytes at least, aligned for 64-bit numbers.
    fn new(bytes: usize) -> Self {
        FlexibleArrayBuffer(vec![0; bytes.div_ceil(8)])
    }

    /// Sets the n-th 32-bit word.
    fn word(&mut self, n: usize, word: u32) {
        if let Some(pair) = self.0.get_mut(n / 2) {
            let mut halves = pair.to_ne_bytes();
            let at = 4 * (n % 2);
            halves[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            *pair = u64::from_ne_bytes(halves);
        }
    }

    /// The first bytes, as many as asked for and up to seven more.
    fn bytes(&self, length: usize) -> Vec<u8> {
        let words = self.0.iter().take(length.div_ceil(8));
        words.flat_map(|pair| pair.to_ne_bytes()).collect()
    }
}

/// A structure that the kernel takes for an ethtool command. All of them begin with its number.
///
/// # Safety
///
/// The structure is `repr(C)`, has room for all that the kernel writes at its command, and every bit pattern is valid for it.
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
unsafe trait Request {
    /// Where the structure begins.
    fn start(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: at most 3 * 127 words follow the fixed part, as many as the masks have.
unsafe impl Request for LinkSettingsRequest {}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: it has a fixed size.
unsafe impl Request for ModuleInfo {}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: the kernel writes `len` bytes of data, and `len` is at most EEPROM_LIMIT.
unsafe impl Request for Eeprom {}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: it has a fixed size.
unsafe impl Request for PauseParam {}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: one set is asked for, so one count is written.
unsafe impl Request for StringSetInfo {}
#[expect(unsafe_code, reason = "the kernel writes into the structure")]
// SAFETY: the kernel counts the statistics again at each request and writes as many; there is room for twice the most that
// are asked for, and the driver has said just before that it has no more than these.
unsafe impl Request for FlexibleArrayBuffer {
    fn start(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

#[expect(unsafe_code, reason = "ioctl")]
fn ethtool<R: Request>(
    socket: &Connection,
    netdev: &Netdev<'_>,
    request: &mut R,
) -> Result<(), Refusal> {
    // SAFETY: zero is valid for all of ifreq.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name is shorter than the field, so a NUL follows it.
    for (to, from) in ifreq.ifr_name.iter_mut().zip(netdev.0.bytes()) {
        *to = from as c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.start().cast();
    let argument: *mut c_void = (&raw mut ifreq).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq whose data points at a structure that begins with its command; `Request` vouches for
    // its size.
    let done = unsafe { libc::ioctl(socket.fd().as_raw_fd(), libc::SIOCETHTOOL as _, argument) };
    match done {
        -1 => Err(Refusal::Errno(
            Errno::from(&std::io::Error::last_os_error()),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn layouts_are_the_kernels() {
        assert_eq!(offset_of!(LinkSettingsRequest, link_mode_masks_nwords), 15);
        assert_eq!(offset_of!(LinkSettingsRequest, masks), 48);
        assert_eq!(size_of::<ModuleInfo>(), 44);
        assert_eq!(offset_of!(Eeprom, data), 16);
        assert_eq!(size_of::<PauseParam>(), 16);
        assert_eq!(offset_of!(StringSetInfo, count), 16);
    }
}
