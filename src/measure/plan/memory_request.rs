//! `--memory`: whether RDMA writes go between hosts' memory or between GPUs.

use super::collective::Collective;
use super::pairs;
use super::run::{Backend, Point};

/// Which memory holds the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryRequest {
    /// The host's.
    #[default]
    Host,
    /// That of GPUs: GPUDirect RDMA.
    Gpu,
    /// First the host's, then that of GPUs, over the same ports.
    Both,
}

impl MemoryRequest {
    /// Whether ranks have GPUs.
    pub fn on_gpus(self) -> bool {
        self != MemoryRequest::Host
    }

    /// Checks that the backend can have the data of this operation there.
    ///
    /// # Errors
    ///
    /// Why it cannot, in words.
    pub fn check(self, collective: Collective, backend: Option<Backend>) -> Result<(), String> {
        if !self.on_gpus() {
            return Ok(());
        }
        if backend != Some(Backend::Verbs) {
            return Err(
                "--memory: only --backend verbs has the choice; NCCL's data is always on GPUs, that of sockets never"
                    .into(),
            );
        }
        if collective.reduces() {
            return Err(format!(
                "--memory: {} puts together what arrives, which the processor does in the host's memory; \
                 what GPUDirect RDMA carries tells `rdma-doctor bench send-recv --backend verbs --memory both`",
                collective.word()
            ));
        }
        Ok(())
    }

    /// The memories between which pairs are measured, in their order.
    pub fn of_pairs(self) -> Vec<pairs::Memory> {
        match self {
            MemoryRequest::Host => vec![pairs::Memory::Host],
            MemoryRequest::Gpu => vec![pairs::Memory::Gpu],
            MemoryRequest::Both => vec![pairs::Memory::Host, pairs::Memory::Gpu],
        }
    }

    /// Places the data of these operations. GPUs come last: arms are compared by the last
    /// operation.
    pub fn place(self, points: Vec<Point>) -> Vec<Point> {
        let on_gpus = points.iter().map(|point| Point {
            gpu_memory: true,
            ..point.clone()
        });
        let on_gpus: Vec<Point> = on_gpus.collect();
        match self {
            MemoryRequest::Host => points,
            MemoryRequest::Gpu => on_gpus,
            MemoryRequest::Both => points.into_iter().chain(on_gpus).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adds_up_stays_in_the_hosts_memory() {
        let goes = |memory: MemoryRequest, collective, backend| memory.check(collective, backend);
        let verbs = Some(Backend::Verbs);
        assert!(goes(MemoryRequest::Host, Collective::AllReduce, None).is_ok());
        assert!(goes(MemoryRequest::Both, Collective::SendRecv, verbs).is_ok());
        let why = goes(MemoryRequest::Gpu, Collective::AllReduce, verbs).unwrap_err();
        assert!(
            why.contains("send-recv --backend verbs --memory both"),
            "{why}"
        );
        let why = goes(MemoryRequest::Gpu, Collective::SendRecv, None).unwrap_err();
        assert!(why.contains("--backend verbs"), "{why}");
        assert!(
            goes(
                MemoryRequest::Gpu,
                Collective::SendRecv,
                Some(Backend::Nccl)
            )
            .is_err()
        );
    }
}
