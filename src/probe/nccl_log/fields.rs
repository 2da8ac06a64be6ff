//! Fields of an event's message beyond its class.

use crate::fact::event::{LogClass, Role};
use crate::nccl_log::failure_words;
use crate::nccl_log::text::{after, number, number_after};

use super::{completion_status, errno};

/// What PyTorch calls an error of NCCL.
const ERRORS: &[&str] = include!(concat!(env!("OUT_DIR"), "/roles.torch_errors.rs"));

/// The fields of an event, as far as its message has them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fields<'d> {
    pub(super) function: Option<&'d str>,
    pub(super) errno: Option<&'static str>,
    pub(super) status: Option<u64>,
    pub(super) vendor_err: Option<u64>,
    pub(super) device: Option<&'d str>,
    pub(super) peer: Option<&'d str>,
    pub(super) local_gid: Option<&'d str>,
    pub(super) remote_gid: Option<&'d str>,
    pub(super) peer_device: Option<&'d str>,
    pub(super) rank: Option<u64>,
    pub(super) sequence: Option<u64>,
    pub(super) operation: Option<String>,
    pub(super) group: Option<&'d str>,
    pub(super) detail: Option<&'d str>,
}

/// The text behind a needle, up to one of these characters.
fn word<'d>(message: &'d str, needle: &str, ends: &[char]) -> Option<&'d str> {
    let (_, rest) = message.split_once(needle)?;
    let word = rest.split(ends).next()?.trim();
    (!word.is_empty()).then_some(word)
}

fn quoted(message: &str) -> Option<&str> {
    word(message, "'", &['\''])
}

fn count(message: &str, needle: &str) -> Option<u64> {
    number_after(message.as_bytes(), needle)
}

impl<'d> Fields<'d> {
    /// Reads the message of an event of this class.
    pub(super) fn of(class: LogClass, message: &'d str) -> Self {
        use LogClass as C;
        let mut fields = Fields {
            errno: errno::named(message),
            ..Fields::default()
        };
        match class {
            C::VerbsCall | C::ConnectRetry
                if message.contains("ibv_") || message.contains("mlx5dv_") =>
            {
                fields.verbs(message);
            }
            C::Completion | C::CompletionHandled => fields.completion(message),
            C::Async | C::AsyncFatal | C::GidChanged => {
                fields.device = word(message, "NET/IB : ", &[' '])
                    .filter(|word| word.contains(':') && !word.starts_with("Got"))
                    .and_then(|word| word.split(':').next());
                // From 2.28.7 the event's number is behind its words.
                let words = |text: &'d str| text.split('(').next().unwrap_or(text).trim();
                let detail = message.rsplit(": ").next().map(words);
                fields.detail = detail.filter(|_| class != C::GidChanged);
            }
            C::DeviceOpen | C::DeviceQuery => {
                // A device's name has a number, and words of the message have none.
                let named = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
                fields.device = [" device ", " port_num ", " port "]
                    .iter()
                    .find_map(|needle| word(message, needle, &[' ']).filter(named));
            }
            C::GdrMissing | C::GdrTooFar => {
                let of_ofi = message.contains("NET/OFI").then_some("the devices of OFI");
                fields.device = quoted(message).or(of_ofi);
            }
            C::PeerClosed
            | C::ConnectFailed
            | C::ConnectRetry
            | C::SocketFailed
            | C::SocketMagic
            | C::NameResolution
            | C::CollectiveMismatch => fields.socket(message),
            C::Cuda => {
                let numbers = ["Cuda failure ", "CUDA failure ", "runtime error (", "code="];
                fields.status = numbers.iter().find_map(|mark| count(message, mark));
                fields.detail = quoted(message).or(word(message, "CUDA error: ", &['\n']));
            }
            C::NvlsFailed | C::MnnvlFailed => {
                fields.status = count(message, "CUDA error ").or(count(message, "Cuda failure "));
                fields.detail = quoted(message);
            }
            C::PluginInit => fields.device = word(message, "NET plugin ", &[' ']),
            C::NetworkMissing => fields.device = word(message, "network ", &[' ']),
            C::PciSpeedUnknown => {
                fields.detail = quoted(message);
                fields.status = count(message, "falling back to ");
            }
            C::EnvInvalid => {
                fields.detail = word(message, "token \"", &['"']).or(message
                    .split([' ', '=', ',', '\''])
                    .find(|word| word.starts_with("NCCL_")));
            }
            C::MtuMismatch => {
                let at = message.find("MTU mismatch").unwrap_or(0);
                fields.detail = message.get(at..).map(str::trim);
            }
            C::Uncatalogued => {
                let writer = failure_words::writer(message);
                fields.detail = Some(writer.unwrap_or("a program that it does not name"));
            }
            C::DuplicateGpu => fields.detail = word(message, "CUDA device ", &[' ']),
            C::P2pDisabled | C::P2pNvlinkDisabled => {
                fields.detail =
                    word(message, "GPUs ", &['.']).or(word(message, "between ", &['\n']));
            }
            C::RailMismatch => fields.detail = word(message, "between ", &['.']),
            C::AdapterCountMismatch => fields.detail = word(message, "(", &[')']),
            C::AdapterFailed | C::AdapterRecovered => {
                let device = count(message, "evice ").or(count(message, "devIndex="));
                fields.status = device;
            }
            C::Unwinding => {
                let (_, outcome) = message.split_once(" -> ").unwrap_or((message, ""));
                fields.status = number(outcome.as_bytes()).map(|(n, _)| n);
            }
            C::TorchTimeout => fields.watchdog(message),
            C::TorchNccl => {
                fields.detail = ERRORS.iter().copied().find(|name| message.contains(name));
            }
            C::TorchStore => {
                let inside =
                    word(message, "to [", &[']']).or(word(message, "connect to ", &[' ', ')']));
                fields.peer = inside.map(|peer| peer.trim_matches(['(', ',', ']', '.']));
                fields.detail = word(message, "waiting for clients. ", &['.'])
                    .or_else(|| counted_workers(message));
                fields.errno = errno::program_call(message)
                    .or_else(|| message.contains("imed out").then_some("ETIMEDOUT"));
            }
            C::ProcessEnded | C::BusError => {
                fields.status = count(message, "Signal ")
                    .or(count(message, "on signal "))
                    .or(count(message, "exit code "))
                    .or(count(message, "exitcode: -"))
                    .or(count(message, "exitcode: "))
                    .or(count(message, "return code = -"))
                    .or(count(message, "return code = "));
                fields.detail = word(message, "(SIG", &[')'])
                    .map(|_| word(message, "(", &[')']))
                    .unwrap_or(None);
            }
            C::TopologyInvalid => {
                let named = [
                    ("graph file", "NCCL_GRAPH_FILE"),
                    ("NCCL_GRAPH_FILE", "NCCL_GRAPH_FILE"),
                    ("topology file", "NCCL_TOPO_FILE"),
                    ("NCCL_TOPO_FILE", "NCCL_TOPO_FILE"),
                ];
                let named = named.iter().find(|(words, _)| message.contains(words));
                fields.detail = Some(named.map_or("NCCL's topology", |(_, variable)| variable));
            }
            C::GidPrinted => fields.local_gid = word(message, "GID: ", &[' ']),
            C::PingAnswered => fields.peer = word(message, " bytes from ", &[':', ' ']),
            C::TransportMissing => fields.detail = quoted(message),
            C::SubnetNoInterface => fields.peer = word(message, "address ", &[' ']),
            _ => {}
        }
        fields
    }

    /// The fields of a line of a program other than NCCL: the call that its words describe, and the error.
    pub(super) fn of_program(&mut self, message: &str, call: Option<&'static str>) {
        self.errno = self.errno.or_else(|| errno::program_call(message));
        if !self
            .function
            .is_some_and(|name| name.starts_with("ibv_reg_"))
        {
            self.function = call.or(self.function);
        }
    }

    /// `Call to ibv_modify_qp failed with error Invalid argument errno 22, on dev mlx5_0:1, curr state INIT, …`
    fn verbs(&mut self, message: &'d str) {
        self.function = ["ibv_", "mlx5dv_"].iter().find_map(|prefix| {
            let at = message.find(prefix)?;
            message.get(at..)?.split([' ', '(', ':']).next()
        });
        let number = count(message, "errno ")
            .or(count(message, "failed with "))
            .or(count(message, "returned "));
        if let Some(name) = number.and_then(errno::numbered) {
            self.errno = Some(name);
        }
        self.device =
            word(message, "on dev ", &[',', ' ']).and_then(|device| device.split(':').next());
        self.local_gid = word(message, "local GID ", &[','])
            .filter(|gid| !gid.starts_with("index"))
            .or_else(|| {
                let (_, rest) = message.split_once("local GID index ")?;
                word(rest, "local GID ", &[','])
            });
        self.remote_gid = word(message, "remote GID ", &[',', ' ']);
    }

    /// `[PG ID 0 PG GUID 0(default_pg) Rank 5] Watchdog caught …: WorkNCCL(SeqNum=123, OpType=ALLREDUCE, NumelIn=1, …)`
    fn watchdog(&mut self, message: &'d str) {
        self.rank = count(message, "Rank ");
        self.sequence = count(message, "SeqNum=");
        self.group = word(message, "[PG ", &[']']).and_then(|inside| inside.split(" Rank ").next());
        self.operation = word(message, "OpType=", &[',', ')']).map(|operation| {
            match count(message, "NumelIn=") {
                Some(1) => format!("{operation} (1 element)"),
                Some(elements) => format!("{operation} ({elements} elements)"),
                None => operation.to_owned(),
            }
        });
    }

    /// `NET/IB: Got completion from peer 10.0.0.2<4711> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=… vendor_err=129 req_type=Send
    /// localGid fe80::1 remoteGids fe80::2 hca mlx5_0`, and the forms since 2.3.
    fn completion(&mut self, message: &'d str) {
        self.errno = None;
        self.peer = ["from peer ", "Peer host id: "]
            .iter()
            .find_map(|before| word(message, before, &[' ']));
        let status = after(message.as_bytes(), "status=")
            .or(after(message.as_bytes(), "with error "))
            .and_then(|rest| {
                // `12`, `IBV_WC_RETRY_EXC_ERR(12)`, `(IBV_WC_RETRY_EXC_ERR)12`
                let end = rest
                    .iter()
                    .position(|b| matches!(b, b' ' | b','))
                    .unwrap_or(rest.len());
                let field = rest.get(..end)?;
                let at = field.iter().position(u8::is_ascii_digit)?;
                number(field.get(at..)?).map(|(status, _)| status)
            });
        let (told, vendor) = completion_status::parse(message);
        self.status = status.or(told);
        self.vendor_err = ["vendor err ", "vendor_err=", "vendor err="]
            .iter()
            .find_map(|needle| count(message, needle))
            .or(vendor);
        self.local_gid = word(message, "localGid ", &[' ', ',']);
        self.remote_gid = word(message, "remoteGids ", &[' ', ',']);
        self.device = word(message, "hca ", &[' ', ',']);
        // UCX: `Transport retry count exceeded on mlx5_2:1/RoCE (synd 0x15 …)`
        if let Some(device) = word(message, " exceeded on ", &[':']) {
            self.device = self.device.or(Some(device));
        }
        // Mooncake: `local_nic: mlx5_7, peer_nic: 10.93.81.13:15729@mlx5_0, …`
        self.device = self.device.or(word(message, "local_nic: ", &[',']));
        if let Some((peer, device)) =
            word(message, "peer_nic: ", &[',']).and_then(|nic| nic.split_once('@'))
        {
            self.peer = self.peer.or(Some(peer));
            self.peer_device = Some(device);
        }
    }

    /// `socketProgressOpt: Call to recv from 10.0.0.2<4711> failed : Connection reset by peer`
    fn socket(&mut self, message: &'d str) {
        if self.errno.is_none() {
            self.errno = count(message, "errno ").and_then(errno::numbered);
        }
        self.function = word(message, "Call to ", &[' ', '(']);
        if self.function.is_none()
            && (message.contains("onnect to") || message.contains("onnect returned"))
        {
            self.function = Some("connect");
        }
        self.peer = message
            .split([' ', ','])
            .find(|word| word.ends_with('>') && word.contains('<'))
            .map(|word| word.trim_start_matches('('))
            .or_else(|| word(message, "remote=[", &[']']))
            .or_else(|| word(message, "connect [", &[']']))
            .or_else(|| word(message, "Remote host: ", &[' ']));
    }
}

type Rows = &'static [(&'static str, &'static [&'static str])];

/// Classes by the role of their events, and what a message holds that has it: the rows are in `roles.toml`.
const CONSEQUENCE: Rows = include!(concat!(env!("OUT_DIR"), "/roles.consequence.rs"));
const WARNING: Rows = include!(concat!(env!("OUT_DIR"), "/roles.warning.rs"));
const BENIGN: Rows = include!(concat!(env!("OUT_DIR"), "/roles.benign.rs"));

/// What no failure of another process and none of the network causes.
const ORIGIN: Rows = include!(concat!(env!("OUT_DIR"), "/roles.origin.rs"));
/// What the end of another process is felt as.
const FELT: Rows = include!(concat!(env!("OUT_DIR"), "/roles.felt.rs"));

/// Who passes on what another library said.
const RELAY: Rows = include!(concat!(env!("OUT_DIR"), "/roles.relay.rs"));

/// `world_size=16, worker_count=12` of the barrier at PyTorch's store.
fn counted_workers(message: &str) -> Option<&str> {
    let counts = message.get(message.find("world_size=")?..)?;
    let end = counts.find(", timeout").or(counts.find(')'))?;
    counts.get(..end)
}

/// Whether an event of this class passes on what another library said.
pub(super) fn is_relay(class: LogClass) -> bool {
    RELAY.iter().any(|(name, _)| *name == class.word())
}

/// Whether a failure of this class is caused by none of another process, and none of the network.
pub(super) fn is_origin(class: LogClass) -> bool {
    ORIGIN.iter().any(|(name, _)| *name == class.word())
}

/// Whether a failure of this class may be how the end of another process is felt.
pub(super) fn is_felt(class: LogClass) -> bool {
    FELT.iter().any(|(name, _)| *name == class.word())
}

/// Events of an adapter that are no trouble.
const GOOD: &[&str] = include!(concat!(env!("OUT_DIR"), "/roles.good.rs"));

/// The role that an event alone has.
pub(super) fn role(class: LogClass, fields: &Fields<'_>, message: &str) -> Role {
    use LogClass as C;
    if is_retry(message) {
        return Role::Benign;
    }
    match class {
        // Flushed: the queue was in error before.
        C::Completion if fields.status == Some(5) => Role::Consequence,
        C::Completion => Role::Failure,
        C::Uncatalogued => Role::Unknown,
        C::ProcessEnded if message.contains("Killed") || message.contains("egmentation") => {
            Role::Failure
        }
        C::ProcessEnded => match fields.status {
            // Aborted by itself, terminated by a launcher, ended with an ordinary failure: something failed before.
            Some(1 | 6 | 15 | 134 | 143) | None => Role::Consequence,
            Some(_) => Role::Failure,
        },
        C::Async => {
            let is_good = |detail: &str| GOOD.iter().any(|good| detail.contains(good));
            match fields.detail.is_some_and(is_good) {
                true => Role::Benign,
                false => Role::Warning,
            }
        }
        _ => {
            let roles = [
                (CONSEQUENCE, Role::Consequence),
                (WARNING, Role::Warning),
                (BENIGN, Role::Benign),
            ];
            let fits = |(name, needles): &(&str, &[&str])| {
                *name == class.word() && needles.iter().all(|needle| message.contains(needle))
            };
            let role = roles.iter().find(|(rows, _)| rows.iter().any(fits));
            role.map_or(Role::Failure, |(_, role)| *role)
        }
    }
}

/// Whether glog's letter before the line says that it is a warning or less: `[W430 03:57:13.288 socket.cpp:752] [c10d] …`.
pub(super) fn is_retry(message: &str) -> bool {
    ["[W", "[I"].iter().any(|letter| {
        message.split(letter).skip(1).any(|rest| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let place = rest.get(digits..).unwrap_or("");
            place.starts_with(' ')
                && place
                    .split(']')
                    .next()
                    .is_some_and(|at| at.contains(".cpp:"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row whose class does not exist would leave a failure where a warning is meant.
    #[test]
    fn each_row_of_a_role_has_a_class() {
        let rows = [CONSEQUENCE, WARNING, BENIGN, ORIGIN, FELT]
            .into_iter()
            .flatten();
        let wrong = rows.filter(|(name, _)| LogClass::from_word(name).is_none());
        assert_eq!(wrong.count(), 0);
    }
}
