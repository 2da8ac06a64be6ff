//! This node's pairs of one round: each end has a thread, and the first end sends first.

use std::sync::PoisonError;

use serde_json::Value;

use super::{Carried, PAIR, PairRounds, counters};
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::{Extent, Flow, Memory, PairDirection};
use crate::measure::plan::run::Backend;
use crate::measure::run::pairs;
use crate::measure::run::pairs::rdma_pair::RdmaPair;

impl PairRounds<'_> {
    /// Measures this node's pairs of a round: all its rails at once, the first end's sending first.
    pub(super) fn round(
        &self,
        name: &str,
        memory: Memory,
        round: &[(End, End)],
        may: &(dyn Fn(PairDirection) -> Result<(), String> + Sync),
    ) -> Vec<Carried> {
        let own = round
            .iter()
            .filter(|(a, b)| a.0 == self.own || b.0 == self.own);
        std::thread::scope(|scope| {
            let pairs: Vec<_> = own
                .map(|pair| scope.spawn(move || self.pair(name, memory, *pair, may)))
                .collect();
            let done = pairs.into_iter().filter_map(|pair| pair.join().ok());
            done.collect()
        })
    }

    fn pair(
        &self,
        name: &str,
        memory: Memory,
        (a, b): (End, End),
        may: &(dyn Fn(PairDirection) -> Result<(), String> + Sync),
    ) -> Carried {
        let is_first = a.0 == self.own;
        let way = if is_first {
            PairDirection { from: a, to: b }
        } else {
            PairDirection { from: b, to: a }
        };
        let name = format!("{name} {}/{} {}/{}", a.0, a.1, b.0, b.1);
        let flow = match self.backend {
            Backend::Verbs => self.by_rdma(name, memory, (way, is_first), may(way)),
            _ => self.by_sockets(&name, way, is_first, may(way)),
        };
        (way, flow)
    }

    fn by_rdma(
        &self,
        name: String,
        memory: Memory,
        (way, is_first): (PairDirection, bool),
        may: Result<(), String>,
    ) -> Flow {
        let members = [way.from, way.to].map(|end| self.nodes[end.0].rank);
        let ends = RdmaPair {
            session: self.session,
            members,
            other: members[1],
            name,
            is_first,
            flow: self.times.flow,
            memory,
            steps_down: self.times.extent == Extent::Neighbours,
        };
        let station = self.stations.get(way.from.1);
        let mut station = station.map(|s| s.lock().unwrap_or_else(PoisonError::into_inner));
        let rail = self.nodes[self.own].contact.rails.get(way.from.1);
        let count = || rail.map(counters).unwrap_or_default();
        ends.measure(station.as_deref_mut(), may, &count)
    }

    fn by_sockets(
        &self,
        name: &str,
        way: PairDirection,
        is_first: bool,
        may: Result<(), String>,
    ) -> Flow {
        let members = [way.from, way.to].map(|end| self.nodes[end.0].rank);
        // The other end is told when its turn is; where it is gone, the flow says so.
        let meet = |half: &str| {
            let step = format!("{name} {half}");
            let wait = 2 * self.times.flow + PAIR;
            let _ =
                (self.session).exchange(&step, &members, StepAudience::Everyone, wait, Value::Null);
        };
        meet("begin");
        if !is_first {
            meet("turn");
        }
        let flow = match (self.post(way.from, way.to), may) {
            (Some((from, tcp, _)), Ok(())) => {
                let token = &self.nodes[way.to.0].contact.token;
                pairs::measure_flow(from, tcp, token, self.times.flow)
            }
            (Some(_), Err(why)) => Flow::failed(why),
            (None, _) => Flow::failed("it has no address"),
        };
        if is_first {
            meet("turn");
        }
        flow
    }
}
