//! NCCL's RAS, which a person asked to be asked: one connection over the loopback interface to a process of the job, which collects
//! the status of all.
//!
//! The lines are those of NCCL's own client (`src/ras/client.cc`): `CLIENT PROTOCOL`, `TIMEOUT`, `SET FORMAT json`, `VERBOSE STATUS`, and
//! then all up to the end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::environment;
use super::rank_process::variables;

/// Where RAS listens, unless NCCL_RAS_ADDR says otherwise (`NCCL_RAS_CLIENT_PORT`, `src/ras/ras_internal.h`).
const ADDRESS: &str = "localhost:28028";
const VARIABLE: &str = "NCCL_RAS_ADDR";
/// The protocol's version that NCCL 2.24 to 2.32 speak.
const PROTOCOL: u32 = 2;
/// For how many seconds RAS waits for ranks that do not answer.
const TIMEOUT: u64 = 5;
/// Bytes of a status: that of 16,000 ranks has a tenth of it.
const LARGEST: u64 = 64 << 20;

/// Where RAS is asked: where this environment says, or else that of one of these processes, which listen there.
pub fn address(pids: &[u32]) -> String {
    let own = environment::variable(VARIABLE);
    let of_process = |pid: &u32| {
        variables(*pid, |name| name == VARIABLE)
            .ok()?
            .remove(VARIABLE)
    };
    let said = own.or_else(|| pids.iter().find_map(of_process));
    said.unwrap_or_else(|| ADDRESS.to_owned())
}

/// The status of the job as JSON. As text it is never asked for: processes crash that are asked so while they initialise (nccl#2346).
///
/// # Errors
///
/// Nobody listens there, or what listens does not speak the protocol, knows no JSON (before 2.28.7), or does not answer in time.
pub fn status(address: &str) -> io::Result<Vec<u8>> {
    let mut last = io::Error::other("the name has no address");
    for one in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&one, Duration::from_secs(2)) {
            Ok(stream) => return ask(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(Duration::from_secs(2 * TIMEOUT + 5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut said = |words: &str, expected: &str| {
        stream.write_all(format!("{words}\n").as_bytes())?;
        let mut line = String::new();
        (&mut answers).take(4096).read_line(&mut line)?;
        let is_expected = line.trim_end().to_ascii_uppercase().starts_with(expected);
        let why = || io::Error::other(format!("{words}: it answers {:?}", line.trim_end()));
        is_expected.then_some(()).ok_or_else(why)
    };
    said(&format!("CLIENT PROTOCOL {PROTOCOL}"), "SERVER PROTOCOL ")?;
    said(&format!("TIMEOUT {TIMEOUT}"), "OK")?;
    said("SET FORMAT json", "OK")?;
    stream.write_all(b"VERBOSE STATUS\n")?;
    let mut status = Vec::new();
    answers.take(LARGEST).read_to_end(&mut status)?;
    Ok(status)
}
