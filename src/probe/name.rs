//! Names of hosts that a job of several nodes has to resolve.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::setting::{Variables, launch, parse};
use super::{Ask, Probe};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Seconds, Subject, known, node, setting};
use crate::source::{Errno, Question};

/// The probe.
// A name server that does not answer is asked twice, for five seconds each.
pub const PROBE: Probe = Probe::new("name", run).within(Duration::from_secs(11));

/// The variables that name the host of rank 0.
const MASTERS: [&str; 2] = ["MASTER_ADDR", "PET_MASTER_ADDR"];

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let wanted: Vec<&str> = launch::VARIABLES.iter().chain(&MASTERS).copied().collect();
    let variables = match ask.read::<Variables>(Question::env(&wanted)) {
        Fact::Known(variables, _) => variables,
        Fact::Unknown(gap) => {
            facts.set(node, node::NAME_RESOLVES, Fact::Unknown(gap));
            return;
        }
    };
    // Nobody asks for the names of a job of one node, and a name server may take its time.
    if launch::job_nodes(&variables) < 2 {
        return;
    }
    let own = addresses(ask, "hostname");
    facts.set(
        node,
        node::NAME_RESOLVES,
        own.map(|found| !found.all.is_empty()),
    );
    for name in MASTERS {
        let Some(value) = variables.get(name) else {
            continue;
        };
        let is_name = parse::is_host_name(value);
        let addresses = if is_name {
            addresses(ask, name)
        } else {
            of_itself(name, value)
        };
        let resolves = addresses.clone().map(|found| !found.all.is_empty());
        // What is asked does not depend on other probes.
        let is_found = resolves.known() != Some(&false);
        let routes = is_found.then(|| PeerRoutes::ask(ask, name));
        let Some(id) = facts.find(Subject::Setting, node, name) else {
            continue;
        };
        facts.set(id, setting::RESOLVES, resolves);
        if let Some(routes) = routes {
            routes.state(facts, id);
        }
        if let Fact::Known(found, origin) = &addresses
            && let Some(took) = found.took
        {
            facts.know(id, setting::LOOKUP_TIME, took, origin);
        }
        facts.set(id, setting::ADDRESSES, addresses.map(|found| found.all));
    }
}

/// The kernel's ways to the addresses of the host that a variable names.
struct PeerRoutes {
    routes: Fact<Vec<PeerRoute>>,
    origin: Origin,
}

impl PeerRoutes {
    fn ask(ask: &Ask<'_>, variable: &str) -> Self {
        let question = Question::call("peer_route", [("of", variable.into())]);
        let origin = Origin::Asked(question.clone());
        let said = ask.value(question);
        let failed = said.known().and_then(|value| value.get("failed")?.as_str());
        let routes = if let Some(failed) = failed {
            Fact::Unknown(Gap::not_said(failed, origin.clone()))
        } else {
            said.and_then(|value| {
                let routes = value.get("routes").cloned().unwrap_or_default();
                serde_json::from_value(routes).map_err(|_| "the reply has no routes".to_owned())
            })
        };
        PeerRoutes { routes, origin }
    }

    fn state(self, facts: &mut Facts, id: Id) {
        let routes = match self.routes {
            Fact::Known(routes, _) => routes,
            Fact::Unknown(gap) => {
                facts.set(id, setting::ROUTE_REFUSED, Fact::Unknown(gap));
                return;
            }
        };
        // Who connects tries one address after the other.
        let usable = routes.iter().find(|route| route.errno.is_none());
        let Some(chosen) = usable.or(routes.first()) else {
            return;
        };
        let mut set = |key, text: &str| facts.know(id, key, text.into(), &self.origin);
        let refused = chosen.errno.as_deref().map_or("none".to_owned(), |name| {
            Errno::from_name(name).map_or(name.to_owned(), |errno| errno.meaning().to_string())
        });
        set(setting::ROUTE_REFUSED, &refused);
        set(setting::PEER, &chosen.address.to_string());
        if let Some(interface) = &chosen.interface {
            set(setting::PEER_INTERFACE, interface);
        }
    }
}

/// The kernel's way to an address.
#[derive(Deserialize)]
struct PeerRoute {
    address: IpAddr,
    /// Why it sends nothing there.
    errno: Option<Arc<str>>,
    interface: Option<Arc<str>>,
}

/// What became of a name.
#[derive(Clone)]
struct ResolvedName {
    /// None if it does not exist.
    all: Arc<[Arc<str>]>,
    /// How long it took; older recordings do not say.
    took: Option<Seconds>,
}

/// An address needs no name server.
fn of_itself(name: &str, value: &Arc<str>) -> Fact<ResolvedName> {
    let all = [Arc::clone(value)].into();
    Fact::derived(
        ResolvedName { all, took: None },
        format!("{name} is an address"),
    )
}

/// The addresses of a name. That a name server does not answer says nothing of them.
fn addresses(ask: &Ask<'_>, of: &str) -> Fact<ResolvedName> {
    let question = Question::call("name_lookup", [("of", of.into())]);
    let origin = Origin::Asked(question.clone());
    let silent = |said: &str| Gap::not_said(said, origin.clone());
    let value = known!(ask.value(question));
    match (value.get("addresses"), value.get("failed")) {
        (Some(Value::Array(found)), _) => {
            let all = found
                .iter()
                .filter_map(Value::as_str)
                .map(Arc::from)
                .collect();
            let took_ms = value.get("took_ms").and_then(Value::as_f64);
            let took = took_ms.map(|ms| Seconds(ms / 1000.0));
            Fact::Known(ResolvedName { all, took }, origin.clone())
        }
        (_, Some(Value::String(said))) => Fact::Unknown(silent(said)),
        _ => Fact::Unknown(silent("the reply has neither addresses nor a failure")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::run;

    fn resolves(reply: &str) -> Option<bool> {
        let wanted: Vec<&str> = launch::VARIABLES.iter().chain(&MASTERS).copied().collect();
        let wanted = serde_json::to_string(&wanted).unwrap();
        let env = format!(
            r#"{{"q":{{"env":{wanted}}},"value":{{"WORLD_SIZE":"16","LOCAL_WORLD_SIZE":"8"}}}}"#
        );
        let reply = format!(r#"{{"q":{{"call":"name_lookup","of":"hostname"}},"value":{reply}}}"#);
        let (facts, node) = run(&PROBE, &[&env, &reply]);
        facts.known(node, node::NAME_RESOLVES)
    }

    #[test]
    fn a_silent_name_server_says_nothing_of_a_name() {
        assert_eq!(resolves(r#"{"addresses":["10.0.0.1"]}"#), Some(true));
        assert_eq!(resolves(r#"{"addresses":[]}"#), Some(false));
        let silent = r#"{"failed":"Temporary failure in name resolution"}"#;
        assert_eq!(resolves(silent), None);
    }
}
