//! The kernel's counters of a connection (tcp(7), `TCP_INFO`; `struct tcp_info` of `linux/tcp.h`), and the size of its segments (`TCP_MAXSEG`).

#![expect(unsafe_code, reason = "rustix has neither TCP_MAXSEG nor TCP_INFO")]

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Segments of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    /// With data, those sent again counted.
    pub(crate) segments: u64,
    /// Sent again because the first copy was lost. A copy that the peer already had (RFC 2883) was sent again by a timer, as on a busy machine.
    pub(crate) again: u64,
}

/// Where `tcpi_snd_mss`, `tcpi_total_retrans`, `tcpi_data_segs_out` (from Linux 4.6) and `tcpi_dsack_dups` (from Linux 4.19) stand.
const SEGMENT: usize = 16;
const AGAIN: usize = 100;
const SEGMENTS: usize = 156;
const NEEDLESS: usize = 216;

/// Reads them; `None` if the kernel does not tell.
pub(crate) fn read(stream: &TcpStream) -> Option<Segments> {
    let word = words(stream)?;
    Some(Segments {
        segments: word(SEGMENTS)?,
        again: word(AGAIN)?.saturating_sub(word(NEEDLESS).unwrap_or(0)),
    })
}

/// The bytes of data in a full segment of a connection.
pub(crate) fn segment(stream: &TcpStream) -> Option<u64> {
    words(stream)?(SEGMENT)
}

/// Limits the segments of all connections that a listener accepts, both ways: it tells its peers.
pub(crate) fn limit_segments(listener: &TcpListener, bytes: u16) -> std::io::Result<()> {
    let bytes = libc::c_int::from(bytes);
    // SAFETY: the kernel reads one int, which `bytes` is.
    let done = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The words of a connection's `tcp_info`, by their places.
fn words(stream: &TcpStream) -> Option<impl Fn(usize) -> Option<u64>> {
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
    (told == 0).then_some(move |at: usize| {
        let bytes = info.get(..length as usize)?.get(at..)?.first_chunk::<4>()?;
        Some(u64::from(u32::from_ne_bytes(*bytes)))
    })
}
