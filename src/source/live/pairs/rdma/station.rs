//! An open port, its memory, and the connection that is measured.

use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;

use super::connection::{Connection, End, Region};
use super::{Opened, Said, Told};
use crate::bench::plan::RankPlace;
use crate::source::Refusal;
use crate::source::live::collective::backend::Failure;
use crate::source::live::pages::Memory;
use crate::source::live::verbs::address::Address;
use crate::source::live::verbs::failure::refused;
use crate::source::live::verbs::library::domain::{Domain, Registered};
use crate::source::live::verbs::library::pair::Near;
use crate::source::live::verbs::port::Port;
use crate::source::live::verbs::wish::Wish;

/// What the process has. The connection goes before what it stands on.
#[derive(Default)]
pub(super) struct Station {
    connection: Option<Connection>,
    open: Option<Open>,
}

/// An open port. Its memory is what writes come from and go to: whoever opens it chooses what memory that is.
struct Open {
    port: Port,
    near: Near,
    address: Address,
    domain: Rc<Domain>,
    memory: Registered,
}

fn unopened() -> Failure {
    Failure {
        function: "verbs".to_owned(),
        code: None,
        error: "nothing is open".to_owned(),
    }
}

/// An environment variable.
#[expect(
    clippy::disallowed_methods,
    reason = "the port is chosen by the variables that NCCL has"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Station {
    /// Does what it is told.
    pub(super) fn answer(&mut self, told: &Told) -> Said {
        let said = match told {
            Told::Open(device) => self.open(device),
            Told::Pair => self.pair(),
            Told::Connect(far) => self.connect(far).map(|()| Said::Done),
            Told::Greet => self.connected().map(|c| Said::Greeted(c.greet())),
            Told::Write(ms) => self
                .connected()
                .and_then(|c| c.write_for(Duration::from_millis(*ms)))
                .map(Said::Written),
            Told::Ask(ms) => self
                .connected()
                .and_then(|c| c.ask_for(Duration::from_millis(*ms)))
                .map(Said::Asked),
            Told::Answer => self
                .connected()
                .and_then(Connection::answer)
                .map(|()| Said::Done),
        };
        said.unwrap_or_else(|failure| Said::Failed(failure.to_string()))
    }

    fn open(&mut self, device: &str) -> Result<Said, Failure> {
        self.connection = None;
        let wish = Wish::new(&RankPlace::default(), variable)?;
        let port = Port::open(Some(device), &wish, variable)?;
        let domain = Domain::new(&port.context).map_err(|e| refused("ibv_alloc_pd", "", &e))?;
        let domain = Rc::new(domain);
        let memory = host_memory(&domain, Connection::MEMORY)?;
        let address = Address::of(&port)?;
        let near = port.near(&wish, address.first_packet);
        let opened = Opened {
            port: port.words(),
            gid: port.gid.to_string(),
        };
        self.open = Some(Open {
            port,
            near,
            address,
            domain,
            memory,
        });
        // A device that has no queue pair for this user says so before anybody waits for it.
        self.pair()?;
        self.connection = None;
        Ok(Said::Opened(opened))
    }

    fn pair(&mut self) -> Result<Said, Failure> {
        self.connection = None;
        let open = self.open.as_ref().ok_or_else(unopened)?;
        let region = Region {
            near: open.memory.near(),
            far: open.memory.far(),
        };
        let connection = Connection::new(
            &open.port.context,
            &open.domain,
            region,
            open.near,
            open.address.clone(),
        )?;
        let end = serde_json::to_value(connection.end()).unwrap_or_default();
        self.connection = Some(connection);
        Ok(Said::Paired(end))
    }

    fn connect(&mut self, far: &serde_json::Value) -> Result<(), Failure> {
        let far = End::deserialize(far).map_err(|e| Failure {
            function: "connect".to_owned(),
            code: None,
            error: format!("the other end gave something else than its address: {e}"),
        })?;
        self.connected()?.connect(far)
    }

    fn connected(&mut self) -> Result<&mut Connection, Failure> {
        self.connection.as_mut().ok_or_else(unopened)
    }
}

/// Memory of this process, registered.
fn host_memory(domain: &Rc<Domain>, length: usize) -> Result<Registered, Failure> {
    let what = format!("{length} bytes");
    let memory = Memory::new(length);
    let memory = memory.map_err(|e| refused("mmap", &what, &Refusal::Errno(e)))?;
    Registered::new(domain, memory).map_err(|(e, _)| refused("ibv_reg_mr", &what, &e))
}
