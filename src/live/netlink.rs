//! Netlink: requests built byte by byte, replies as they come.
//!
//! No crate covers RDMA netlink, and only a few requests are needed.

mod route;

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_RDMA;
use netlink_sys::{Socket, SocketAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// How long the kernel may take for one datagram.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 500_000_000,
};
/// Bytes that an answer may have.
const LIMIT: usize = 16 << 20;

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_MULTI: u16 = 0x2;
const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const NLM_F_DUMP: u16 = 0x300;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// `RDMA_NL_NLDEV` of include/uapi/rdma/rdma_netlink.h; `RDMA_NL_GET_TYPE` puts it above ten bits of command.
const NLDEV: u16 = 5 << 10;
const RDMA_NLDEV_CMD_GET: u16 = 1;
const RDMA_NLDEV_CMD_PORT_GET: u16 = 5;
const RDMA_NLDEV_CMD_SYS_GET: u16 = 6;
const RDMA_NLDEV_CMD_RES_GET: u16 = 9;
const RDMA_NLDEV_CMD_STAT_GET: u16 = 17;
const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;
const RDMA_NLDEV_ATTR_PORT_INDEX: u16 = 3;

/// Answers `route/…`, see [`route`], and `rdma/sys-get`, `rdma/dev-get`, `rdma/port-get` (device: its index), `rdma/stat-get` (device, port) and `rdma/res-get`.
///
/// The answer is all messages, headers included, without the one that ends a dump. Making an RDMA netlink socket can load
/// `ib_core`: probes ask only if it is there.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    match call.name.split('/').next() {
        Some("route") => route::ask(call),
        _ => ask_rdma(call),
    }
}

fn ask_rdma(call: &Call) -> Result<Answer, Refusal> {
    let number = |name| {
        let number = call.number(name).and_then(|n| u32::try_from(n).ok());
        number.ok_or(Refusal::Errno(Errno::EINVAL))
    };
    let mut attributes = Vec::new();
    let (command, flags) = match &*call.name {
        "rdma/sys-get" => (RDMA_NLDEV_CMD_SYS_GET, 0),
        "rdma/dev-get" => (RDMA_NLDEV_CMD_GET, NLM_F_DUMP),
        "rdma/res-get" => (RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP),
        "rdma/port-get" => {
            let device = number("device")?.to_ne_bytes();
            attribute(&mut attributes, RDMA_NLDEV_ATTR_DEV_INDEX, &device);
            (RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP)
        }
        "rdma/stat-get" => {
            let (device, port) = (number("device")?, number("port")?);
            attribute(
                &mut attributes,
                RDMA_NLDEV_ATTR_DEV_INDEX,
                &device.to_ne_bytes(),
            );
            attribute(
                &mut attributes,
                RDMA_NLDEV_ATTR_PORT_INDEX,
                &port.to_ne_bytes(),
            );
            (RDMA_NLDEV_CMD_STAT_GET, 0)
        }
        name => {
            return Err(Refusal::NotAsked(
                format!("unknown netlink request {name}").into(),
            ));
        }
    };
    let messages = Connection::open(NETLINK_RDMA)?.request(NLDEV | command, flags, &attributes)?;
    Ok(Answer::Bytes(messages.into()))
}

/// Appends an attribute (`struct nlattr`: length, type, payload), padded to four bytes.
pub(super) fn attribute(to: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    // Payloads here are numbers and names.
    let length = (4 + payload.len()) as u16;
    to.extend_from_slice(&length.to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(payload);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn refused(error: std::io::Error) -> Refusal {
    Refusal::Errno(Errno::from(&error))
}

/// A netlink socket.
pub(super) struct Connection {
    socket: Socket,
}

impl Connection {
    pub(super) fn open(protocol: isize) -> Result<Self, Refusal> {
        let mut socket = Socket::new(protocol).map_err(refused)?;
        socket.bind_auto().map_err(refused)?;
        Ok(Connection { socket })
    }

    /// The socket's descriptor: `SIOCETHTOOL` works on any socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request and gives the messages of its reply.
    pub(super) fn request(
        &self,
        kind: u16,
        flags: u16,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let mut request = Vec::with_capacity(HEADER + payload.len());
        request.extend_from_slice(&((HEADER + payload.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        // Each request has its own socket or waits for its whole reply: sequence numbers need not differ.
        request.extend_from_slice(&1u32.to_ne_bytes());
        request.extend_from_slice(&0u32.to_ne_bytes());
        request.extend_from_slice(payload);
        self.socket
            .send_to(&request, &SocketAddr::new(0, 0), 0)
            .map_err(refused)?;

        let mut messages = Vec::new();
        loop {
            self.wait()?;
            let (datagram, from) = self.socket.recv_from_full().map_err(refused)?;
            if from.port_number() != 0 {
                // Not from the kernel.
                continue;
            }
            if gather(&datagram, &mut messages)? {
                return Ok(messages);
            }
            if messages.len() > LIMIT {
                return Err(Refusal::TooLarge);
            }
        }
    }

    fn wait(&self) -> Result<(), Refusal> {
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&TIMEOUT)) {
                Ok(0) => return Err(Refusal::Timeout),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Refusal::Errno(Errno(e.raw_os_error()))),
            }
        }
    }
}

/// Adds a datagram's messages to those that came before; true if the reply is complete.
fn gather(datagram: &[u8], messages: &mut Vec<u8>) -> Result<bool, Refusal> {
    let mut rest = datagram;
    while let Some((header, _)) = rest.split_first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let flags = u16::from_ne_bytes([header[6], header[7]]);
        let Some(message) = rest.get(..length).filter(|m| m.len() >= HEADER) else {
            return Err(Refusal::Errno(Errno::EPROTO));
        };
        let code = || match message[HEADER..].first_chunk::<4>() {
            Some(code) => i32::from_ne_bytes(*code),
            None => 0,
        };
        match kind {
            NLMSG_NOOP => {}
            NLMSG_ERROR | NLMSG_DONE => {
                return match code() {
                    code if code < 0 => Err(Refusal::Errno(Errno(-code))),
                    _ => Ok(true),
                };
            }
            _ => {
                if flags & NLM_F_DUMP_INTR != 0 {
                    // The set changed while it was dumped: members may be missing.
                    return Err(Refusal::Errno(Errno::EINTR));
                }
                messages.extend_from_slice(message);
                messages.resize(messages.len().next_multiple_of(4), 0);
                if flags & NLM_F_MULTI == 0 {
                    return Ok(true);
                }
            }
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut m = Vec::new();
        m.extend_from_slice(&((HEADER + payload.len()) as u32).to_ne_bytes());
        m.extend_from_slice(&kind.to_ne_bytes());
        m.extend_from_slice(&flags.to_ne_bytes());
        m.extend_from_slice(&[0; 8]);
        m.extend_from_slice(payload);
        m
    }

    #[test]
    fn a_dump_ends_with_done_and_keeps_its_messages() {
        let part = message(5121, NLM_F_MULTI, &[1, 2, 3, 4]);
        let done = message(NLMSG_DONE, NLM_F_MULTI, &[0; 4]);
        let mut messages = Vec::new();
        assert_eq!(gather(&part, &mut messages), Ok(false));
        assert_eq!(
            gather(&[part.clone(), done].concat(), &mut messages),
            Ok(true)
        );
        assert_eq!(messages, [part.clone(), part].concat());
    }

    #[test]
    fn one_message_is_a_whole_reply_and_errors_are_errors() {
        let mut messages = Vec::new();
        assert_eq!(gather(&message(5126, 0, &[0; 8]), &mut messages), Ok(true));
        let error = message(NLMSG_ERROR, 0, &(-95i32).to_ne_bytes());
        assert_eq!(
            gather(&error, &mut messages),
            Err(Refusal::Errno(Errno::EOPNOTSUPP))
        );
        let interrupted = message(5121, NLM_F_MULTI | NLM_F_DUMP_INTR, &[]);
        assert_eq!(
            gather(&interrupted, &mut messages),
            Err(Refusal::Errno(Errno::EINTR))
        );
        assert_eq!(
            gather(&message(5121, 2, &[0; 4])[..18], &mut messages),
            Err(Refusal::Errno(Errno::EPROTO))
        );
    }

    #[test]
    fn attributes_are_padded() {
        let mut bytes = Vec::new();
        attribute(&mut bytes, 2, b"eth0\0");
        assert_eq!(bytes.len(), 12);
        assert_eq!(u16::from_ne_bytes([bytes[0], bytes[1]]), 9);
    }

    proptest::proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes: Vec<u8>) {
            let _ = gather(&bytes, &mut Vec::new());
        }
    }
}
