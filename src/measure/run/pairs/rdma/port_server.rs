//! The process's side: the open port, its memory, and the measured connection.

use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;

use super::connection::{Connection, ConnectionEnd, ENOUGH_TO_SEE, MemoryRegion};
use super::{OpenedPort, PortCommand, PortReply, Purpose};
use crate::live::environment::variable;
use crate::live::failure::Failure;
use crate::live::verbs::address::Address;
use crate::live::verbs::failure::LibraryCall;
use crate::live::verbs::gpu::Gpu;
use crate::live::verbs::library::domain::Domain;
use crate::live::verbs::library::pair::{LocalEndpoint, MEASURED, TRIED};
use crate::live::verbs::port::Port;
use crate::live::verbs::port_request::PortRequest;
use crate::live::verbs::registered_memory::RegisteredMemory;
use crate::measure::plan::pairs::Memory;
use crate::measure::plan::reply::GpuMemory;
use crate::measure::plan::run::RankPlacement;

/// How many of the received bytes are checked.
const LOOKED_AT: u64 = 128 << 10;
/// How often to check, and the pause in between: acknowledged data may still be on its way to
/// memory.
const LOOKS: u32 = 50;
const APART: Duration = Duration::from_millis(4);

/// The state of the process. The connection is dropped before the memory and port that it uses.
#[derive(Default)]
pub(super) struct PortServer {
    connection: Option<Connection>,
    open: Option<OpenPort>,
}

/// An open port, and the memory that writes use.
struct OpenPort {
    port: Port,
    near: LocalEndpoint,
    address: Address,
    domain: Rc<Domain>,
    host: RegisteredMemory,
    /// GPU memory, if a GPU was opened.
    gpu: Option<RegisteredMemory>,
    /// Which of the two the connection uses.
    of: Memory,
    purpose: Purpose,
    /// What packets carry at most, in bytes, where that was limited.
    most: Option<u64>,
}

impl OpenPort {
    fn memory(&mut self) -> Result<&mut RegisteredMemory, Failure> {
        match self.of {
            Memory::Host => Ok(&mut self.host),
            Memory::Gpu => self
                .gpu
                .as_mut()
                .ok_or_else(|| Failure::new("verbs", "no GPU is open")),
        }
    }
}

fn unopened() -> Failure {
    Failure::new("verbs", "no port is open")
}

impl PortServer {
    /// Runs a command.
    pub(super) fn run_command(&mut self, told: &PortCommand) -> PortReply {
        let said = match told {
            PortCommand::Open {
                device,
                gid_index,
                purpose,
            } => self.open(device, *gid_index, *purpose),
            PortCommand::Limit(bytes) => self.limit(*bytes).map(|()| PortReply::Done),
            PortCommand::Gpu(pci) => self.open_gpu(pci),
            PortCommand::Pair(of) => self.pair(*of),
            PortCommand::Connect(far) => self.connect(far).map(PortReply::Connected),
            PortCommand::Greet => self.connected().map(|c| PortReply::Greeted(c.greet())),
            PortCommand::Write(ms) => self.write(Duration::from_millis(*ms)),
            PortCommand::Check(bytes) => self.check(*bytes).map(|()| PortReply::Done),
            PortCommand::Ask(ms) => self
                .connected()
                .and_then(|c| c.measure_latency(Duration::from_millis(*ms)))
                .map(PortReply::Asked),
            PortCommand::Answer => self
                .connected()
                .and_then(Connection::answer)
                .map(|()| PortReply::Done),
        };
        said.unwrap_or_else(|failure| PortReply::Failed(failure.to_string()))
    }

    fn open(
        &mut self,
        device: &str,
        gid_index: Option<u64>,
        purpose: Purpose,
    ) -> Result<PortReply, Failure> {
        self.connection = None;
        let place = RankPlacement {
            gid_index,
            ..RankPlacement::default()
        };
        let wish = PortRequest::new(&place, variable)?;
        let port = Port::open(Some(device), &wish, variable)?;
        let domain = Domain::new(&port.context).in_call("ibv_alloc_pd", "")?;
        let domain = Rc::new(domain);
        let host = RegisteredMemory::new_host(&domain, Connection::MEMORY)?;
        let address = Address::of(&port)?;
        let near = port.near(&wish, address.first_packet);
        let opened = OpenedPort {
            port: port.describe(),
            gid: port.gid.to_string(),
        };
        self.open = Some(OpenPort {
            port,
            near,
            address,
            domain,
            host,
            gpu: None,
            of: Memory::Host,
            purpose,
            most: None,
        });
        // Fails early if the device gives this user no queue pair.
        self.pair(Memory::Host)?;
        self.connection = None;
        Ok(PortReply::Opened(opened))
    }

    /// Opens a GPU and registers memory of it. That this is impossible is a reply, not a failure.
    fn open_gpu(&mut self, pci: &str) -> Result<PortReply, Failure> {
        self.connection = None;
        let open = self.open.as_mut().ok_or_else(unopened)?;
        let gpu = Rc::new(Gpu::open(pci)?);
        let mut tried = GpuMemory::default();
        let held =
            RegisteredMemory::new_gpu(&open.domain, &gpu, Connection::MEMORY, |what| tried = what);
        match (held, &tried.no_dma_buf) {
            (Ok(held), _) => open.gpu = Some(held),
            // There was no memory to register.
            (Err(failure), None) => return Err(failure),
            (Err(_), Some(_)) => {}
        }
        Ok(PortReply::Gpu(tried))
    }

    fn pair(&mut self, of: Memory) -> Result<PortReply, Failure> {
        self.connection = None;
        let open = self.open.as_mut().ok_or_else(unopened)?;
        open.of = of;
        let memory = open.memory()?;
        let region = MemoryRegion {
            near: memory.local_target(),
            far: memory.remote_target(),
        };
        let attempts = match open.purpose {
            Purpose::Measure => MEASURED,
            Purpose::Try => TRIED,
        };
        let connection = Connection::new(
            &open.port.context,
            &open.domain,
            region,
            (open.near, attempts),
            open.address.clone().with_mtu(open.most),
        )?;
        let end = serde_json::to_value(connection.end()).unwrap_or_default();
        self.connection = Some(connection);
        Ok(PortReply::Paired(end))
    }

    fn limit(&mut self, bytes: u64) -> Result<(), Failure> {
        let open = self.open.as_mut().ok_or_else(unopened)?;
        open.most = Some(bytes);
        Ok(())
    }

    fn connect(&mut self, far: &serde_json::Value) -> Result<u64, Failure> {
        let far = ConnectionEnd::deserialize(far).map_err(|e| {
            Failure::new(
                "connect",
                format!("the other end gave something else than its address: {e}"),
            )
        })?;
        let bytes = self.connected()?.connect(far)?;
        self.mark()?;
        Ok(bytes)
    }

    /// Fills the memory with this end's byte, so that what arrives from the other end differs.
    fn mark(&mut self) -> Result<(), Failure> {
        let (own, _) = self.connected()?.marks();
        let memory = self.open.as_mut().ok_or_else(unopened)?.memory()?;
        memory.set(Connection::DATA, own)
    }

    fn write(&mut self, window: Duration) -> Result<PortReply, Failure> {
        self.mark()?;
        let open = self.open.as_ref().ok_or_else(unopened)?;
        let most = (open.purpose == Purpose::Try).then_some(ENOUGH_TO_SEE);
        let written = self.connected()?.write_for(window, most);
        written.map(PortReply::Written)
    }

    /// Checks whether the bytes that the other end wrote are in the memory; of many only the first
    /// ones.
    fn check(&mut self, bytes: u64) -> Result<(), Failure> {
        let (_, theirs) = self.connected()?.marks();
        let memory = self.open.as_mut().ok_or_else(unopened)?.memory()?;
        let mut came = vec![0; usize::try_from(bytes.min(LOOKED_AT)).unwrap_or(0)];
        let mut wrong = 0;
        for _ in 0..LOOKS {
            memory.get(0..came.len(), &mut came)?;
            wrong = came.iter().filter(|byte| **byte != theirs).count();
            if wrong == 0 {
                return Ok(());
            }
            std::thread::sleep(APART);
        }
        Err(self.connected()?.mismatch_failure(wrong, came.len()))
    }

    fn connected(&mut self) -> Result<&mut Connection, Failure> {
        self.connection.as_mut().ok_or_else(unopened)
    }
}
