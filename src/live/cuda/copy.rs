//! One measurement: copies in one direction, or in both at once, timed by the device and verified byte by byte.

use serde_json::{Value, json};

use super::driver::{self, Context, DeviceMemory, Event, Failure, HostMemory, Stream};
use super::{affinity, answer, device_at, ready};
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// Copies within one timed trial.
const COPIES: usize = 4;
/// The size of a small copy, and how many are timed in a row.
const SMALL: usize = 16;
const SMALL_COPIES: usize = 100;
/// The destination's bytes before each trial. The pattern is no run of equal bytes.
const POISON: u8 = 0xa5;
/// The name of the host among the ends of a copy.
const HOST: &str = "host";

/// Answers `{"bench":"p2p","from":…,"to":…,"size":…,"trials":…}`: copies from one GPU to another, from the host (`"host"`) to a GPU, or back; with
/// `"both":1` in both directions at once.
///
/// ```json
/// {"bytes":268435456,"copies":4,"ms":[21.5,…],"verified":6,"small":{"bytes":16,"copies":100,"ms":[0.31,…]},"access":1,"direct":true}
/// ```
///
/// `ms` is how long the copies of each trial took together, by the device's clock; `verified` counts the trials, the first and untimed one
/// included, after which every byte was right. One that was not ends the measurement: `"wrong":{"trial":2,"bytes":12,"first":4096}`.
pub fn copy(call: &Call) -> Result<Answer, Refusal> {
    ready()?;
    answer(measure(call))
}

fn measure(call: &Call) -> Result<Value, Failure> {
    let argument = || Failure::Refused(Refusal::Errno(Errno::EINVAL));
    let from = call.text("from").ok_or_else(argument)?;
    let to = call.text("to").ok_or_else(argument)?;
    let count = |name| call.number(name).and_then(|n| usize::try_from(n).ok());
    let bytes = count("size")
        .filter(|size| *size >= SMALL)
        .ok_or_else(argument)?;
    let trials = count("trials").ok_or_else(argument)?;
    let both = call.number("both") == Some(1);

    let mut value = json!({});
    let gpu = if from == HOST { to } else { from };
    if (from == HOST || to == HOST)
        && let Some(cpus) = affinity::near(gpu)
    {
        value["cpus"] = cpus.into();
    }
    driver::init()?;
    let end = |name: &str| match name {
        HOST => Ok(None),
        pci => Context::of(device_at(pci)?).map(Some),
    };
    let (from_end, to_end) = (end(from)?, end(to)?);
    let pair = PeerAccess::of(from_end, to_end, &mut value)?;
    let seed = format!("{from} {to} {both}");
    let mut ways = vec![CopyDirection::new(
        from_end,
        to_end,
        bytes,
        seed.as_bytes(),
    )?];
    if both {
        ways.push(CopyDirection::new(
            to_end,
            from_end,
            bytes,
            seed.as_bytes(),
        )?);
    }
    let ways = ways.as_mut_slice();
    let timer = Timer::new(&ways[0])?;

    let mut ms = Vec::with_capacity(trials);
    let mut verified = 0;
    value["bytes"] = bytes.into();
    value["copies"] = COPIES.into();
    // The first trial wakes what sleeps, and is not counted.
    for trial in 0..=trials {
        let took = timer.trial(ways, bytes, COPIES)?;
        if let Some((wrong, first)) = ways
            .iter_mut()
            .find_map(|way| way.wrong().transpose())
            .transpose()?
        {
            value["wrong"] = json!({ "trial": trial, "bytes": wrong, "first": first });
            break;
        }
        verified += 1;
        if trial > 0 {
            ms.push(took);
        }
    }
    value["ms"] = ms.into();
    value["verified"] = verified.into();
    if !both && value.get("wrong").is_none() {
        let mut ms = Vec::with_capacity(trials);
        for trial in 0..=trials {
            let took = timer.trial(ways, SMALL, SMALL_COPIES)?;
            if trial > 0 {
                ms.push(took);
            }
        }
        value["small"] = json!({ "bytes": SMALL, "copies": SMALL_COPIES, "ms": ms });
    }
    drop(pair);
    Ok(value)
}

/// Access of two GPUs to each other's memory, taken back when dropped.
struct PeerAccess(Option<(Context, Context)>);

impl PeerAccess {
    /// Enables access if the driver supports it. Records whether a copy is direct: the copying GPU writes into the other's memory itself.
    fn of(from: Option<Context>, to: Option<Context>, value: &mut Value) -> Result<Self, Failure> {
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(PeerAccess(None));
        };
        let pair = PeerAccess(Some((from, to)));
        let access = driver::can_access(from.device, to.device)?;
        let back = driver::can_access(to.device, from.device)?;
        value["access"] = access.into();
        value["access_back"] = back.into();
        if access == 1 {
            from.allow(to)?;
        }
        if back == 1 {
            to.allow(from)?;
        }
        value["direct"] = (access == 1).into();
        Ok(pair)
    }
}

impl Drop for PeerAccess {
    fn drop(&mut self) {
        if let Some((from, to)) = self.0 {
            from.forbid(to);
            to.forbid(from);
        }
    }
}

/// One end of a copy.
enum Memory {
    Host(HostMemory),
    Device(DeviceMemory),
}

/// One direction of copies: source, destination and stream.
struct CopyDirection {
    stream: Stream,
    /// The GPU of the stream: the source, or the only one.
    context: Context,
    from: Memory,
    to: Memory,
    /// The data that must arrive, and the buffer to read it back.
    pattern: HostMemory,
    back: HostMemory,
}

impl CopyDirection {
    fn new(
        from: Option<Context>,
        to: Option<Context>,
        bytes: usize,
        seed: &[u8],
    ) -> Result<Self, Failure> {
        let nowhere = || Failure::Refused(Refusal::Errno(Errno::EINVAL));
        let context = from.or(to).ok_or_else(nowhere)?;
        let stream = Stream::new(context)?;
        let mut pattern = HostMemory::new(context, bytes)?;
        fill(pattern.bytes_mut(), seed);
        let memory = |end: Option<Context>| match end {
            Some(context) => DeviceMemory::new(context, bytes).map(Memory::Device),
            None => HostMemory::new(context, bytes).map(Memory::Host),
        };
        let (mut from, to) = (memory(from)?, memory(to)?);
        match &mut from {
            Memory::Device(memory) => stream.load(memory, &pattern, bytes)?,
            Memory::Host(memory) => memory.bytes_mut().copy_from_slice(pattern.bytes()),
        }
        stream.wait()?;
        let back = match &to {
            Memory::Device(_) => HostMemory::new(context, bytes)?,
            // The host compares the destination.
            Memory::Host(_) => HostMemory::new(context, SMALL)?,
        };
        Ok(CopyDirection {
            stream,
            context,
            from,
            to,
            pattern,
            back,
        })
    }

    fn poison(&mut self) -> Result<(), Failure> {
        match &mut self.to {
            Memory::Device(memory) => {
                // In a stream of the device whose memory it is.
                let stream = Stream::new(memory.context)?;
                stream.fill(memory, POISON)?;
                stream.wait()
            }
            Memory::Host(memory) => {
                memory.bytes_mut().fill(POISON);
                Ok(())
            }
        }
    }

    fn copy(&self, bytes: usize) -> Result<(), Failure> {
        match (&self.from, &self.to) {
            (Memory::Host(from), Memory::Device(to)) => self.stream.load(to, from, bytes),
            (Memory::Device(from), Memory::Host(to)) => self.stream.store(to, from, bytes),
            (Memory::Device(from), Memory::Device(to)) => self.stream.pass(to, from, bytes),
            (Memory::Host(_), Memory::Host(_)) => Ok(()),
        }
    }

    /// How many bytes of the destination are wrong, and the first of them; `None` if all are right.
    fn wrong(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let arrived = match &self.to {
            Memory::Host(memory) => memory.bytes(),
            Memory::Device(memory) => {
                // Not over the GPU that copied: the one whose memory it is reads it back.
                let stream = Stream::new(memory.context)?;
                self.back.bytes_mut().fill(POISON);
                stream.store(&self.back, memory, self.pattern.bytes().len())?;
                stream.wait()?;
                self.back.bytes()
            }
        };
        let expected = self.pattern.bytes();
        if arrived == expected {
            return Ok(None);
        }
        let mut differing = arrived
            .iter()
            .zip(expected)
            .enumerate()
            .filter(|(_, (a, b))| a != b);
        let first = differing.next().map_or(0, |(at, _)| at);
        Ok(Some((differing.count() + 1, first)))
    }
}

/// Two moments in the stream of the first way, between which all ways copy.
struct Timer {
    begin: Event,
    end: Event,
}

impl Timer {
    fn new(way: &CopyDirection) -> Result<Self, Failure> {
        Ok(Timer {
            begin: Event::new(way.context)?,
            end: Event::new(way.context)?,
        })
    }

    /// Milliseconds that this many copies took, each way; those of several ways run at the same time.
    fn trial(
        &self,
        ways: &mut [CopyDirection],
        bytes: usize,
        copies: usize,
    ) -> Result<f64, Failure> {
        for way in ways.iter_mut() {
            way.poison()?;
        }
        let Some((first, others)) = ways.split_first() else {
            return Ok(0.0);
        };
        self.begin.mark(&first.stream)?;
        let mut ends = Vec::with_capacity(others.len());
        for way in others {
            way.stream.after(&self.begin)?;
            ends.push(Event::new(way.context)?);
        }
        for _ in 0..copies {
            for way in std::iter::once(first).chain(others) {
                way.copy(bytes)?;
            }
        }
        for (way, end) in others.iter().zip(&ends) {
            end.mark(&way.stream)?;
            first.stream.after(end)?;
        }
        self.end.mark(&first.stream)?;
        first.stream.wait()?;
        for way in others {
            way.stream.wait()?;
        }
        self.begin.until(&self.end)
    }
}

/// Fills memory with numbers that the seed determines (splitmix64), so that no piece of it is like another.
fn fill(memory: &mut [u8], seed: &[u8]) {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut state = seed.iter().fold(0xcbf2_9ce4_8422_2325, hash);
    for chunk in memory.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let bytes = word.to_le_bytes();
        // The last chunk may be shorter.
        if let Some(bytes) = bytes.get(..chunk.len()) {
            chunk.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_follows_its_seed_and_does_not_repeat() {
        let of = |seed: &[u8], bytes: usize| {
            let mut memory = vec![0; bytes];
            fill(&mut memory, seed);
            memory
        };
        assert_eq!(of(b"a b", 4099), of(b"a b", 4099));
        assert_ne!(of(b"a b", 64), of(b"b a", 64));
        let words: std::collections::HashSet<Vec<u8>> =
            of(b"a b", 1 << 16).chunks(8).map(<[u8]>::to_vec).collect();
        assert_eq!(words.len(), 1 << 13);
        assert!(
            !of(b"a b", 4096)
                .chunks(4)
                .any(|four| four.iter().all(|b| *b == POISON))
        );
    }

    #[test]
    fn arguments_that_make_no_copy_are_refused() {
        for args in [vec![], vec![("from", "host"), ("to", "host")]] {
            let args: Vec<_> = args
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect();
            let call = Call {
                name: "p2p".into(),
                args: args.into(),
            };
            assert!(matches!(
                measure(&call),
                Err(Failure::Refused(Refusal::Errno(Errno::EINVAL)))
            ));
        }
    }
}
