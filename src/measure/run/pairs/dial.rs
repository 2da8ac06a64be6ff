//! Connects from a given local address to another node, with a timeout.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Connects. The packets leave by the interface with the `from` address if the node's routes say
/// so.
///
/// # Errors
///
/// The kernel's error; `TimedOut` if nothing answered.
pub(super) fn connect(from: IpAddr, to: SocketAddr, wait: Duration) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
            if poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&wait))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            rustix::net::sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}
