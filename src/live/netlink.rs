//! Netlink: requests built byte by byte, replies as they come.
//!
//! No crate covers RDMA netlink, and only a few requests are needed.

mod route;

use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_RDMA;
use netlink_sys::{Socket, SocketAddr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::source::netlink::{self, HEADER, Message, attribute};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// How long the kernel may take for one datagram.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 500_000_000,
};
/// Bytes that a reply of the kernel may have: the routes of a router of the Internet.
const REPLY_LIMIT: usize = 64 << 20;
/// Bytes of messages that an answer may have: 30,000 routes to own networks. As text in a recording they take up to six times
/// as many.
const ANSWER_LIMIT: usize = 2 << 20;
/// How often a dump is asked for whose set changes meanwhile.
const ATTEMPTS: u32 = 3;

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
const RDMA_NLDEV_CMD_RES_QP_GET: u16 = 10;
const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;

/// Answers `route/…`, see [`route`], and `rdma/sys-get`, `rdma/dev-get`, and `rdma/port-get` and `rdma/qp-get` (device: its index).
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
    let (command, flags, attributes) = match &*call.name {
        "rdma/sys-get" => (RDMA_NLDEV_CMD_SYS_GET, 0, Vec::new()),
        "rdma/dev-get" => (RDMA_NLDEV_CMD_GET, NLM_F_DUMP, Vec::new()),
        "rdma/port-get" | "rdma/qp-get" => {
            let command = match &*call.name {
                "rdma/qp-get" => RDMA_NLDEV_CMD_RES_QP_GET,
                _ => RDMA_NLDEV_CMD_PORT_GET,
            };
            let device = call.number("device").and_then(|n| u32::try_from(n).ok());
            let device = device.ok_or(Errno::EINVAL)?.to_le_bytes();
            let device = attribute(RDMA_NLDEV_ATTR_DEV_INDEX, &device);
            (command, NLM_F_DUMP, device)
        }
        name => return Err(Refusal::unknown_call(name)),
    };
    let messages = Connection::open(NETLINK_RDMA)?.request(NLDEV | command, flags, &attributes)?;
    Ok(Answer::Bytes(messages.into()))
}

/// A netlink socket.
pub(super) struct Connection {
    socket: Socket,
}

impl Connection {
    pub(super) fn open(protocol: isize) -> Result<Self, Refusal> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        Ok(Connection { socket })
    }

    /// The socket's descriptor: `SIOCETHTOOL` works on any socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request and gives the messages of its reply. A dump that was interrupted is asked for again.
    ///
    /// # Errors
    ///
    /// The kernel refuses, does not reply in time, or replies with more than a reply may have; `EINTR` for a set that changes
    /// whenever it is dumped.
    pub(super) fn request(
        &self,
        kind: u16,
        flags: u16,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        again_if_interrupted(|| self.request_once(kind, flags, payload))
    }

    fn request_once(&self, kind: u16, flags: u16, payload: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut request = Vec::with_capacity(HEADER + payload.len());
        request.extend_from_slice(&((HEADER + payload.len()) as u32).to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        // Each request has its own socket or waits for its whole reply: sequence numbers need not differ.
        request.extend_from_slice(&1u32.to_ne_bytes());
        request.extend_from_slice(&0u32.to_ne_bytes());
        request.extend_from_slice(payload);
        self.socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;

        let mut reply = KernelReply::default();
        loop {
            self.wait()?;
            let (datagram, from) = self.socket.recv_from_full()?;
            if from.port_number() != 0 {
                // Not from the kernel.
                continue;
            }
            if reply.add(&datagram)? {
                return reply.whole();
            }
            if reply.messages.len() > REPLY_LIMIT {
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
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Asks up to [`ATTEMPTS`] times, while the reply is that it was interrupted.
fn again_if_interrupted<T>(ask: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 1..ATTEMPTS {
        match ask() {
            Err(Refusal::Errno(Errno::EINTR)) => {}
            said => return said,
        }
    }
    ask()
}

/// The messages of a reply that has begun.
#[derive(Default)]
struct KernelReply {
    messages: Vec<u8>,
    /// The set changed while it was dumped: members may be missing.
    is_interrupted: bool,
}

impl KernelReply {
    /// Adds a datagram's messages; true if the reply is complete. An interrupted one is read to its end, where the kernel can be
    /// asked again.
    fn add(&mut self, datagram: &[u8]) -> Result<bool, Refusal> {
        for message in netlink::messages::<0>(datagram) {
            let message = message.map_err(|_| Refusal::Errno(Errno::EPROTO))?;
            self.is_interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
            match message.kind {
                NLMSG_NOOP => {}
                NLMSG_ERROR | NLMSG_DONE => {
                    let code = message.attributes.0.first_chunk();
                    return match code.map_or(0, |code| i32::from_le_bytes(*code)) {
                        code if code < 0 => Err(Refusal::Errno(Errno(-code))),
                        _ => Ok(true),
                    };
                }
                _ => {
                    self.messages.extend_from_slice(message.bytes);
                    let padded = self.messages.len().next_multiple_of(4);
                    self.messages.resize(padded, 0);
                    if message.flags & NLM_F_MULTI == 0 {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn whole(self) -> Result<Vec<u8>, Refusal> {
        match self.is_interrupted {
            true => Err(Refusal::Errno(Errno::EINTR)),
            false => Ok(self.messages),
        }
    }
}

/// The messages of a reply that matter.
pub(super) fn chosen<const FIXED: usize>(
    reply: &[u8],
    mut matters: impl FnMut(&Message<'_, FIXED>) -> bool,
) -> Result<Vec<u8>, Refusal> {
    let mut kept = Vec::new();
    for message in netlink::messages::<FIXED>(reply) {
        let message = message.map_err(|_| Refusal::Errno(Errno::EPROTO))?;
        if matters(&message) {
            kept.extend_from_slice(message.bytes);
            kept.resize(kept.len().next_multiple_of(4), 0);
            if kept.len() > ANSWER_LIMIT {
                return Err(Refusal::TooLarge);
            }
        }
    }
    Ok(kept)
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
        let mut reply = KernelReply::default();
        assert_eq!(reply.add(&part), Ok(false));
        assert_eq!(reply.add(&[part.clone(), done].concat()), Ok(true));
        assert_eq!(reply.whole(), Ok([part.clone(), part].concat()));
    }

    #[test]
    fn one_message_is_a_whole_reply_and_errors_are_errors() {
        let mut reply = KernelReply::default();
        assert_eq!(reply.add(&message(5126, 0, &[0; 8])), Ok(true));
        let error = message(NLMSG_ERROR, 0, &(-95i32).to_ne_bytes());
        assert_eq!(reply.add(&error), Err(Errno::EOPNOTSUPP.into()));
        let cut = &message(5121, 2, &[0; 4])[..18];
        assert_eq!(reply.add(cut), Err(Errno::EPROTO.into()));
    }

    #[test]
    fn an_interrupted_dump_is_read_to_its_end_and_asked_for_again() {
        let interrupted = message(5121, NLM_F_MULTI | NLM_F_DUMP_INTR, &[]);
        let done = |flags| message(NLMSG_DONE, NLM_F_MULTI | flags, &[0; 4]);
        for datagram in [
            [interrupted, done(0)].concat(),
            [message(5121, NLM_F_MULTI, &[]), done(NLM_F_DUMP_INTR)].concat(),
        ] {
            let mut reply = KernelReply::default();
            assert_eq!(reply.add(&datagram), Ok(true));
            assert_eq!(reply.whole(), Err(Errno::EINTR.into()));
        }
        for (interruptions, said) in [(0, Ok(1)), (2, Ok(3)), (9, Err(Errno::EINTR.into()))] {
            let times = std::cell::Cell::new(0);
            let ask = || {
                times.set(times.get() + 1);
                match times.get() > interruptions {
                    true => Ok(times.get()),
                    false => Err(Errno::EINTR.into()),
                }
            };
            assert_eq!(again_if_interrupted(ask), said);
        }
    }

    #[test]
    fn what_matters_of_ten_thousand_messages_is_kept() {
        let route = message(24, NLM_F_MULTI, &[0; 44]);
        let all = route.repeat(10_000);
        assert_eq!(chosen::<12>(&all, |_| true), Ok(all.clone()));
        let more = route.repeat(ANSWER_LIMIT / route.len() + 1);
        assert_eq!(chosen::<12>(&more, |_| true), Err(Refusal::TooLarge));
        assert_eq!(chosen::<12>(&more, |_| false), Ok(Vec::new()));
    }

    proptest::proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes: Vec<u8>) {
            let _ = KernelReply::default().add(&bytes);
        }
    }
}
