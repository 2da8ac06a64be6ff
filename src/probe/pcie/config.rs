//! PCI configuration space: the capabilities that decide how a function sends and takes packets.
//!
//! Registers as in the PCI Express Base Specification, chapter 7, and the kernel's include/uapi/linux/pci_regs.h.

use std::sync::Arc;

use crate::fact::bridge::PortType;
use crate::probe::joined;

/// The bytes that the kernel shows to users other than root: the header alone.
const HEADER: usize = 64;
/// The size without extended configuration space.
const CONVENTIONAL: usize = 256;
/// All of it.
const WHOLE: usize = 4096;

const CAPABILITY_EXPRESS: u8 = 0x10;
const EXTENDED_ACS: u16 = 0x000d;
const EXTENDED_ATS: u16 = 0x000f;

/// Why something cannot be read from a configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Only root is shown more than the header.
    NotRoot,
    /// The function does not answer: all ones.
    OffBus,
    /// The machine gives no access to the extended configuration space.
    NotExtended,
    /// The bytes contradict the specification: how.
    Odd(&'static str),
}

/// The bytes of a configuration space.
#[derive(Debug)]
pub struct Config {
    bytes: Vec<u8>,
}

/// PCI Express Capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Express {
    /// Device/Port Type.
    pub kind: u8,
    /// Bytes that a packet can carry.
    pub max_payload_supported: u64,
    /// Bytes that a packet carries at most.
    pub max_payload: u64,
    /// Bytes that a read request asks for at most.
    pub max_read_request: u64,
    /// Enable Relaxed Ordering.
    pub relaxed_ordering: bool,
    /// Extended Tag Field Supported.
    pub extended_tags_supported: bool,
    /// Extended Tag Field Enable, or 10-Bit Tag Requester Enable.
    pub extended_tags: bool,
    /// Active State Power Management Control, L1 Entry Enabled.
    pub aspm_l1: bool,
    /// Speed and width of the link: those that it is capable of, and those that it has.
    pub link: [u16; 2],
}

/// Access Control Services: the control register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acs(pub u16);

impl Acs {
    const REQUEST_REDIRECT: u16 = 1 << 2;
    const COMPLETION_REDIRECT: u16 = 1 << 3;
    const UPSTREAM_FORWARDING: u16 = 1 << 4;
    const DIRECT_TRANSLATED: u16 = 1 << 6;
    const NAMES: [&'static str; 7] = [
        "SrcValid",
        "TransBlk",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "EgressCtrl",
        "DirectTrans",
    ];

    /// Whether packets from one device to its neighbour go up to the root complex. Direct Translated P2P exempts what a device with
    /// ATS has had translated before.
    pub fn redirects(self) -> bool {
        let bits = Self::REQUEST_REDIRECT | Self::COMPLETION_REDIRECT | Self::UPSTREAM_FORWARDING;
        self.0 & bits != 0 && self.0 & Self::DIRECT_TRANSLATED == 0
    }

    /// The enabled controls, as lspci(8) names them.
    pub fn words(self) -> Arc<str> {
        let names = (0..).zip(Self::NAMES);
        let on = names.filter(|(bit, _)| self.0 & (1 << bit) != 0);
        joined(&on.map(|(_, name)| name).collect::<Vec<_>>(), ", ")
    }
}

/// Whether a function answers a read of its configuration space: what is gone reads as ones throughout. Of a virtual function, the vendor's
/// and the device's number alone do (PCI Express Base Specification, SR-IOV's chapter: they are those of its physical function). Nothing
/// where less was read than these two.
pub fn answers(bytes: &[u8]) -> Option<bool> {
    let header = bytes.get(..HEADER.min(bytes.len()))?;
    (header.len() >= 4).then(|| header.iter().any(|byte| *byte != 0xff))
}

impl Config {
    /// The configuration space that a read of the sysfs file gave.
    pub fn new(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut bytes = bytes.to_vec();
        match answers(&bytes) {
            None => return Err(Unreadable::Odd("fewer than four bytes")),
            Some(false) => return Err(Unreadable::OffBus),
            Some(true) => {}
        }
        // The kernel gives 64, 128 (to others than root, of a CardBus bridge), 256 or 4096 bytes. Another number is what a copy left
        // when it cut the zeros at the end.
        if !matches!(bytes.len(), HEADER | 128 | CONVENTIONAL | WHOLE) {
            let whole = match bytes.len() {
                0..HEADER => HEADER,
                _ => WHOLE,
            };
            bytes.resize(whole, 0);
        }
        Ok(Config { bytes })
    }

    fn u8(&self, at: usize) -> Result<u8, Unreadable> {
        self.bytes.get(at).copied().ok_or(self.short())
    }

    fn u16(&self, at: usize) -> Result<u16, Unreadable> {
        let bytes = self.bytes.get(at..at + 2).ok_or(self.short())?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&self, at: usize) -> Result<u32, Unreadable> {
        Ok(u32::from(self.u16(at)?) | u32::from(self.u16(at + 2)?) << 16)
    }

    fn short(&self) -> Unreadable {
        match self.bytes.len() {
            HEADER | 128 => Unreadable::NotRoot,
            _ => Unreadable::NotExtended,
        }
    }

    /// Vendor and device id.
    pub fn id(&self) -> Result<String, Unreadable> {
        Ok(format!("{:04x}:{:04x}", self.u16(0)?, self.u16(2)?))
    }

    /// The place of a capability; `None` if the function does not have it.
    fn capability(&self, wanted: u8) -> Result<Option<usize>, Unreadable> {
        const STATUS_HAS_CAPABILITIES: u16 = 1 << 4;
        if self.u16(6)? & STATUS_HAS_CAPABILITIES == 0 {
            return Ok(None);
        }
        let mut at = usize::from(self.u8(0x34)? & !3);
        // Each takes at least four bytes of the 192 that there are.
        for _ in 0..48 {
            if at < HEADER {
                return Ok(None);
            }
            if self.u8(at)? == wanted {
                return Ok(Some(at));
            }
            at = usize::from(self.u8(at + 1)? & !3);
        }
        Err(Unreadable::Odd("the chain of capabilities has no end"))
    }

    /// The place of an extended capability; `None` if the function does not have it.
    fn extended(&self, wanted: u16) -> Result<Option<usize>, Unreadable> {
        if self.capability(CAPABILITY_EXPRESS)?.is_none() {
            return Ok(None);
        }
        let mut at = CONVENTIONAL;
        // Each takes at least eight bytes of the 3840 that there are.
        for _ in 0..480 {
            let header = self.u32(at)?;
            match header {
                0 if at == CONVENTIONAL => return Ok(None),
                u32::MAX => return Err(Unreadable::NotExtended),
                _ => {}
            }
            if header & 0xffff == u32::from(wanted) {
                return Ok(Some(at));
            }
            at = (header >> 20) as usize & !3;
            if at < CONVENTIONAL {
                return Ok(None);
            }
        }
        Err(Unreadable::Odd(
            "the chain of extended capabilities has no end",
        ))
    }

    /// PCI Express Capabilities; `None` if the function is a conventional one.
    pub fn express(&self) -> Result<Option<Express>, Unreadable> {
        let Some(at) = self.capability(CAPABILITY_EXPRESS)? else {
            return Ok(None);
        };
        let flags = self.u16(at + 2)?;
        let capabilities = self.u32(at + 4)?;
        let control = self.u16(at + 8)?;
        let link_control = self.u16(at + 0x10)?;
        // Version 1 of the structure has no second registers, and what is there is another capability's.
        let control_2 = match flags & 0xf {
            0 | 1 => 0,
            _ => self.u16(at + 0x28)?,
        };
        // Both of the values above 5 are reserved.
        let size = |field: u32| match field & 7 {
            n @ 0..=5 => Ok(128u64 << n),
            _ => Err(Unreadable::Odd("a reserved size of packets")),
        };
        Ok(Some(Express {
            kind: (flags >> 4 & 0xf) as u8,
            max_payload_supported: size(capabilities)?,
            max_payload: size(u32::from(control >> 5))?,
            max_read_request: size(u32::from(control >> 12))?,
            relaxed_ordering: control & 1 << 4 != 0,
            extended_tags_supported: capabilities & 1 << 5 != 0,
            extended_tags: control & 1 << 8 != 0 || control_2 & 1 << 12 != 0,
            aspm_l1: link_control & 2 != 0,
            link: [self.u16(at + 0xc)?, self.u16(at + 0x12)?],
        }))
    }

    /// The control register of Access Control Services; `None` if the function does not have them.
    pub fn acs(&self) -> Result<Option<Acs>, Unreadable> {
        match self.extended(EXTENDED_ACS)? {
            Some(at) => Ok(Some(Acs(self.u16(at + 6)? & 0x7f))),
            None => Ok(None),
        }
    }

    /// Whether Address Translation Services are on; `None` if the function does not have them.
    pub fn ats(&self) -> Result<Option<bool>, Unreadable> {
        match self.extended(EXTENDED_ATS)? {
            Some(at) => Ok(Some(self.u16(at + 6)? & 1 << 15 != 0)),
            None => Ok(None),
        }
    }
}

/// The kind of a bridge by Device/Port Type.
pub fn port_type(kind: u8) -> PortType {
    match kind {
        4 => PortType::Root,
        5 => PortType::Upstream,
        6 => PortType::Downstream,
        _ => PortType::Other,
    }
}
