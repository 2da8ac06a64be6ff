//! Lines that go on in the next ones.

use super::setting;

/// How messages end that only the lines behind them explain, and how many these are: libmlx5 dumps a completion, and Open MPI names the hosts
/// below its sentences.
const UNFINISHED: [(&str, usize); 4] = [
    (" got completion with error:", 4),
    (" was unable to complete a TCP connection", 3),
    // help-mpi-btl-tcp.txt, "client connect fail": the error is the last of these.
    (" failed to TCP connect to a peer MPI process.  This", 8),
    // The same where its sentence is one line again.
    (" peer MPI process.  This should not happen.", 8),
];

fn unfinished(line: &[u8]) -> Option<usize> {
    // Each line with a needle is asked: its last byte answers for nearly all.
    if !matches!(line.last(), Some(b':' | b'n' | b's' | b'.')) {
        return None;
    }
    let ends = |(end, _): &&(&str, usize)| line.ends_with(end.as_bytes());
    UNFINISHED.iter().find(ends).map(|(_, lines)| *lines)
}

/// Whether a line says only with those behind it what it says.
pub(super) fn goes_on(line: &[u8]) -> bool {
    unfinished(line).is_some() || setting::announced(line).is_some()
}

/// Such a line as one: with what the lines behind it hold, or with the setting's value.
pub(super) fn joined(line: &[u8], behind: &[u8]) -> Option<Vec<u8>> {
    let mut next = behind.split(|b| *b == b'\n').skip(1);
    if let Some(name) = setting::announced(line) {
        return setting::with_value(name, next.next()?);
    }
    let mut joined = line.to_vec();
    for word in next
        .take(unfinished(line)?)
        .flat_map(|line| line.split(u8::is_ascii_whitespace))
        .filter(|word| !word.is_empty())
    {
        joined.push(b' ');
        joined.extend_from_slice(word);
    }
    Some(joined)
}
