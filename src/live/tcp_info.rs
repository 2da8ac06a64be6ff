//! The kernel's counters of a connection (tcp(7), `TCP_INFO`; `struct tcp_info` of `linux/tcp.h`).

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Segments of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    /// With data, those sent again counted.
    pub(crate) segments: u64,
    /// Sent again because the first copy was lost. A copy that the peer already had (RFC 2883) was sent again by a timer, as on a busy machine.
    pub(crate) again: u64,
}

/// Where `tcpi_total_retrans`, `tcpi_data_segs_out` (from Linux 4.6) and `tcpi_dsack_dups` (from Linux 4.19) stand.
const AGAIN: usize = 100;
const SEGMENTS: usize = 156;
const NEEDLESS: usize = 216;

/// Reads them; `None` if the kernel does not tell.
#[expect(unsafe_code, reason = "rustix has no TCP_INFO")]
pub(crate) fn read(stream: &TcpStream) -> Option<Segments> {
    let mut info = [0u8; 256];
    let mut length: libc::socklen_t = 256;
    // SAFETY: the kernel writes at most `length` bytes, which is the buffer's, and says how many.
    let told = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let info = info.get(..length as usize).filter(|_| told == 0)?;
    let word = |at: usize| {
        let bytes = info.get(at..)?.first_chunk::<4>()?;
        Some(u64::from(u32::from_ne_bytes(*bytes)))
    };
    Some(Segments {
        segments: word(SEGMENTS)?,
        again: word(AGAIN)?.saturating_sub(word(NEEDLESS).unwrap_or(0)),
    })
}
