//! BeeGFS's client: its configuration in effect, the lists that it names, and its connections, as the kernel module prints them below
//! /proc/fs/beegfs (client_module/source/filesystem/ProcFsHelper.c).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::at;
use super::parse::{self, Connections, Mount};
use crate::fact::mount;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, Presence};
use crate::probe::{Ask, whole_number};

const CLIENTS: &str = "/proc/fs/beegfs";
/// Where a list may stand to be read: what a configuration names elsewhere may be on a file system that hangs.
const LISTS: [&str; 2] = ["/etc/", "/run/"];

/// States what is known of these mounts' clients.
pub(super) fn establish(ask: &Ask<'_>, facts: &mut Facts, node: Id, mounts: &[Mount]) {
    let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.kind == "beegfs").collect();
    if mounts.is_empty() {
        return;
    }
    let clients = ask.names(CLIENTS);
    let clients = clients.known().into_iter().flat_map(|names| names.iter());
    let clients = clients.map(|name| {
        let dir = format!("{CLIENTS}/{name}");
        (ask.text(format!("{dir}/config")), dir)
    });
    let clients: Vec<(Fact<Arc<str>>, String)> = clients.collect();
    let mut lists = Lists::default();
    for mount in &mounts {
        let id = at(facts, node, mount);
        // One mount, one client; else the configuration's file tells which is whose.
        let file = mount.option("cfgFile");
        let client = match (&clients[..], &mounts[..]) {
            ([one], [_]) => Some(one),
            _ => clients.iter().find(|(config, _)| {
                let named = config.known().map(|c| parse::beegfs_value(c, "cfgFile"));
                matches!((named, file), (Some(Ok(named)), Some(file)) if named == file)
            }),
        };
        let Some((config, dir)) = client else {
            continue;
        };
        let client = Client { config, dir };
        client.buffers(facts, id);
        client.lists(ask, facts, id, &mut lists);
        client.connections(ask, facts, id, &mut lists);
    }
}

/// States a client's connections to its servers, and gives all of them.
pub(super) fn state_connections(
    facts: &mut Facts,
    id: Id,
    storage: Fact<Connections>,
    meta: Fact<Connections>,
) -> Fact<Connections> {
    let tcp = |list: &Fact<Connections>| list.clone().map(|c| c.tcp());
    facts.set(id, mount::STORAGE_TCP, tcp(&storage));
    facts.set(id, mount::META_TCP, tcp(&meta));
    let sum = storage.zip(meta).map(|(a, b)| a.add(b));
    facts.set(id, mount::TRANSPORT, sum.clone().map(|c| c.transport()));
    facts.set(id, mount::TCP_CONNECTIONS, sum.clone().map(|c| c.tcp()));
    facts.set(id, mount::RDMA_CONNECTIONS, sum.clone().map(|c| c.rdma));
    let routes = sum.clone().map(|c| c.fallback_routes);
    facts.set(id, mount::FALLBACK_ROUTES, routes);
    sum
}

/// The files that configurations name, each read once.
#[derive(Default)]
struct Lists(BTreeMap<Arc<str>, Presence<Arc<str>>>);

impl Lists {
    fn read(&mut self, ask: &Ask<'_>, path: &Arc<str>, origin: &Origin) -> Presence<Arc<str>> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let allowed = LISTS.iter().any(|dir| path.starts_with(dir)) && !path.contains("/../");
        let list = match allowed {
            true => ask.text_if_any(Arc::clone(path)),
            false => Presence::Unknown(Gap::misread(
                format!("{path} is outside of /etc"),
                origin.clone(),
            )),
        };
        self.0.insert(Arc::clone(path), list.clone());
        list
    }
}

struct Client<'c> {
    config: &'c Fact<Arc<str>>,
    dir: &'c str,
}

impl Client<'_> {
    fn value(&self, name: &'static str) -> Fact<Arc<str>> {
        let config = self.config.clone();
        config.and_then(move |text| parse::beegfs_value(&text, name).map(Arc::from))
    }

    /// A key that older clients do not have.
    fn value_if_any(&self, name: &str) -> Fact<Option<Arc<str>>> {
        let value = |text: Arc<str>| parse::beegfs_value(&text, name).ok().map(Arc::from);
        self.config.clone().map(value)
    }

    fn number(&self, name: &'static str) -> Fact<u64> {
        self.value(name).and_then(|text| whole_number(&text))
    }

    fn buffers(&self, facts: &mut Facts, id: Id) {
        let wanted = self.value("connUseRDMA");
        let wanted = wanted.map(|v| &*v == "1" || &*v == "true");
        facts.set(id, mount::RDMA_WANTED, wanted);
        let (size, number) = (
            self.number("connRDMABufSize"),
            self.number("connRDMABufNum"),
        );
        let pages = size.clone().map(|s| s > 0 && s.is_multiple_of(4096));
        facts.set(id, mount::BUFFER_OF_PAGES, pages);
        facts.set(id, mount::BUFFER_SIZE, size.map(Bytes));
        facts.set(id, mount::BUFFERS, number);
    }

    /// The file that a key names, with its entries; `None` if the key names none, or the client is older than it.
    fn list(&self, ask: &Ask<'_>, key: &str, lists: &mut Lists) -> Fact<Option<Listed>> {
        match self.value_if_any(key) {
            Fact::Known(Some(path), origin) if !path.is_empty() => {
                let listed = |entries| {
                    Some(Listed {
                        path: Arc::clone(&path),
                        entries,
                    })
                };
                let text = lists.read(ask, &path, &origin).if_any();
                text.map(|text| listed(text.map(|text| parse::list(&text))))
            }
            Fact::Known(_, origin) => Fact::Known(None, origin),
            Fact::Unknown(gap) => Fact::Unknown(gap),
        }
    }

    fn lists(&self, ask: &Ask<'_>, facts: &mut Facts, id: Id, lists: &mut Lists) {
        let mut absent: Vec<Arc<str>> = Vec::new();
        let mut open: Option<Gap> = None;
        for name in [
            "connInterfacesFile",
            "connRDMAInterfacesFile",
            "connNetFilterFile",
            "connTcpOnlyFilterFile",
        ] {
            let listed = self.list(ask, name, lists).or_open(&mut open).flatten();
            let missing = listed.filter(|listed| listed.entries.is_none());
            absent.extend(missing.map(|listed| listed.path));
        }
        let how = "the files that the client's configuration names";
        let open = open.filter(|_| absent.is_empty());
        let there = Fact::derived(absent.is_empty(), how).unless(open);
        facts.set(id, mount::LISTS_THERE, there);
        facts.derive(id, mount::LISTS_ABSENT, absent.into(), how);
    }

    fn connections(&self, ask: &Ask<'_>, facts: &mut Facts, id: Id, lists: &mut Lists) {
        let tcp_only = self.list(ask, "connTcpOnlyFilterFile", lists);
        let tcp_only = tcp_only.and_then(|listed| match listed {
            None => Ok(Vec::new()),
            Some(Listed { path, entries }) => {
                let entries = entries.ok_or_else(|| format!("{path} is not there"))?;
                entries.iter().map(|net| parse::network(net)).collect()
            }
        });
        let [storage, meta] = ["storage_nodes", "meta_nodes"]
            .map(|list| ask.parse(format!("{}/{list}", self.dir), parse::connections));
        let sum = state_connections(facts, id, storage, meta);
        let unasked = match sum {
            Fact::Known(sum, origin) if sum.tcp() == 0 => Fact::Known(0, origin),
            sum => sum.zip(tcp_only).map(|(sum, nets)| sum.tcp_outside(&nets)),
        };
        facts.set(id, mount::TCP_UNASKED, unasked);
    }
}

/// A file that a configuration names; without entries if it is not there.
struct Listed {
    path: Arc<str>,
    entries: Option<Arc<[Arc<str>]>>,
}
