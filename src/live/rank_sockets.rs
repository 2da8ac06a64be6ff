//! TCP connections of a process of a running job: its own, and those of its node with a server of files.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fs::{Dir, OFlags};
use serde_json::{Value, json};

use super::files;
use super::job_process::{at_most, open};
use crate::source::{Answer, Errno, Refusal};

/// Descriptors of a process that are looked at.
const DESCRIPTORS: usize = 65_536;

/// `{"sockets":[{"inode","local","peer","timer","unacknowledged","unread","retransmits"}]}`: the
/// TCP connections that a process has open.
pub(super) fn of_process(pid: u32) -> Result<Value, Refusal> {
    let own = open(u64::from(pid), "fd", OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut inodes = BTreeSet::new();
    let entries = Dir::read_from(&own).map_err(std::io::Error::from)?;
    for entry in at_most(entries, DESCRIPTORS) {
        let entry = entry?;
        let Ok(target) = rustix::fs::readlinkat(&own, entry.file_name(), Vec::new()) else {
            continue;
        };
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[");
        let inode = inode.and_then(|rest| rest.strip_suffix(']')?.parse::<u64>().ok());
        inodes.extend(inode);
    }
    told(pid, |one| inodes.contains(&one.inode))
}

/// The same of the connections with the server of a mount that the process sees, named by the numbers of its device: these belong to no process.
pub(super) fn with_server(pid: u32, device: &str) -> Result<Value, Refusal> {
    let mounts = match files::read(None, &format!("/proc/{pid}/mountinfo")) {
        Ok(Answer::Text(text)) => text,
        said => return Err(said.err().unwrap_or(Refusal::TooLarge)),
    };
    let of_device = |line: &&str| line.split(' ').nth(2) == Some(device);
    let server = mounts.lines().find(of_device).and_then(server_of);
    let server = server.ok_or_else(|| Refusal::not_asked("the mount names no server's address"))?;
    told(pid, |one| one.peer.ip() == server)
}

/// The address of a mount's server: `addr=10.0.0.9` among its options (NFS, SMB), or `10.0.0.9@tcp:/work` of Lustre.
fn server_of(line: &str) -> Option<IpAddr> {
    let (_, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let (_, source, options) = (right.next()?, right.next()?, right.next()?);
    let named = options
        .split(',')
        .find_map(|option| option.strip_prefix("addr="));
    let of_lustre = || Some(source.split_once("@tcp")?.0);
    named.or_else(of_lustre)?.parse().ok()
}

fn told(pid: u32, is_wanted: impl Fn(&Connection) -> bool) -> Result<Value, Refusal> {
    let mut told = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = match files::read(None, &format!("/proc/{pid}/net/{table}")) {
            Ok(Answer::Text(text)) => text,
            Err(Refusal::Errno(Errno::ENOENT)) => continue,
            said => return Err(said.err().unwrap_or(Refusal::TooLarge)),
        };
        let lines = text.lines().skip(1).filter_map(connection);
        told.extend(lines.filter(&is_wanted).map(json_of));
    }
    Ok(json!({ "sockets": told }))
}

/// A line of /proc/net/tcp (proc_pid_net(5)).
struct Connection {
    inode: u64,
    local: SocketAddr,
    peer: SocketAddr,
    /// 1 while data or the beginning is sent again, 4 while a full receiver is asked for room.
    timer: u64,
    unacknowledged: u64,
    unread: u64,
    retransmits: u64,
}

fn json_of(one: Connection) -> Value {
    json!({
        "inode": one.inode,
        "local": one.local.to_string(),
        "peer": one.peer.to_string(),
        "timer": one.timer,
        "unacknowledged": one.unacknowledged,
        "unread": one.unread,
        "retransmits": one.retransmits,
    })
}

fn connection(line: &str) -> Option<Connection> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (sent, received) = fields.get(4)?.split_once(':')?;
    let (timer, _) = fields.get(5)?.split_once(':')?;
    Some(Connection {
        inode: fields.get(9)?.parse().ok()?,
        local: address(fields.get(1)?)?,
        peer: address(fields.get(2)?)?,
        timer: hex(timer)?,
        unacknowledged: hex(sent)?,
        unread: hex(received)?,
        retransmits: hex(fields.get(6)?)?,
    })
}

/// `0100007F:1F90`: each 32 bits in the byte order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..digits.len()).step_by(8) {
        let word = u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_mount_is_found_by_its_options() {
        let nfs = "99 1 0:52 / /data rw,relatime shared:50 - nfs4 fs1:/data rw,vers=4.2,proto=tcp,clientaddr=10.0.0.2,local_lock=none,addr=10.0.0.9";
        assert_eq!(server_of(nfs), "10.0.0.9".parse().ok());
        let lustre = "80 1 0:41 / /work rw - lustre 10.0.1.1@tcp:10.0.1.2@tcp:/work rw,checksum";
        assert_eq!(server_of(lustre), "10.0.1.1".parse().ok());
        let over_ib = "80 1 0:41 / /work rw - lustre 10.0.1.1@o2ib:/work rw,checksum";
        assert_eq!(server_of(over_ib), None);
        assert_eq!(server_of("22 1 8:1 / / rw - ext4 /dev/sda1 rw"), None);
    }
}
