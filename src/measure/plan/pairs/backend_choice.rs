//! Whether pairs are measured with RDMA writes or with sockets.

use serde::{Deserialize, Serialize};

use super::{Memory, Silent, Why};
use crate::measure::plan::run::Backend;

/// Which backend is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendRequest {
    /// RDMA writes where each node has a port that works, else sockets.
    #[default]
    Auto,
    /// RDMA writes: a node that cannot is named.
    Verbs,
    /// Sockets.
    Tcp,
}

/// What a node asks for, and whether it can use RDMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAbility {
    /// Rank 0's request counts.
    pub request: BackendRequest,
    /// The memories of the data, in turn.
    pub memory: Vec<Memory>,
    /// Why it cannot use RDMA; absent if it can.
    #[serde(default)]
    pub unable: Option<String>,
}

/// The backend of all nodes, and why. Rank 0's request counts; if that leaves the choice, RDMA
/// takes that all nodes can use it.
pub fn choose_backend(nodes: &[(String, NodeAbility)]) -> (Backend, Why) {
    let request = nodes
        .first()
        .map_or(BackendRequest::Tcp, |(_, ability)| ability.request);
    let unable = |(host, ability): &(String, NodeAbility)| {
        let (host, why) = (host.clone(), ability.unable.clone()?);
        Some(Why::Without(Silent { host, why }))
    };
    match request {
        BackendRequest::Tcp => (Backend::Tcp, Why::AskedFor),
        BackendRequest::Verbs => (Backend::Verbs, Why::AskedFor),
        BackendRequest::Auto => match nodes.iter().find_map(unable) {
            Some(why) => (Backend::Tcp, why),
            None => (Backend::Verbs, Why::AllCan),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::pairs::host_only;

    fn node(name: &str, request: BackendRequest, unable: Option<&str>) -> (String, NodeAbility) {
        let unable = unable.map(str::to_owned);
        let memory = host_only();
        let ability = NodeAbility {
            request,
            memory,
            unable,
        };
        (name.to_owned(), ability)
    }

    #[test]
    fn rdma_is_used_where_all_can() {
        let can = node("n1", BackendRequest::Auto, None);
        let all = [can.clone(), node("n2", BackendRequest::Auto, None)];
        assert_eq!(choose_backend(&all), (Backend::Verbs, Why::AllCan));
        let one = [
            can,
            node("n2", BackendRequest::Auto, Some("mlx5_0/1: no library")),
        ];
        let (backend, why) = choose_backend(&one);
        assert_eq!(backend, Backend::Tcp);
        assert_eq!(
            why.words(),
            "n2 has no RDMA port that works: mlx5_0/1: no library"
        );
        let forced = [
            node("n1", BackendRequest::Verbs, None),
            node("n2", BackendRequest::Tcp, Some("x")),
        ];
        assert_eq!(choose_backend(&forced).0, Backend::Verbs);
        let forced = [
            node("n1", BackendRequest::Tcp, None),
            node("n2", BackendRequest::Auto, None),
        ];
        assert_eq!(choose_backend(&forced).0, Backend::Tcp);
    }
}
