//! Who may import whom: the rooms of ARCHITECTURE.md, held over the imports of `src/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// A room, and the rooms or modules that its code may import besides itself and the leaves. Tests may import more.
pub(crate) const ROOMS: [(&str, &[&str]); 17] = [
    // An origin is a question, and a gap is a refusal: the words of `source` in which a fact says where it comes from.
    ("fact", &["source::question", "source::refusal"]),
    // Host names in the lines of a log are found by the reader of these lines, so that they are redacted.
    ("source", &["nccl_log", "trace"]),
    ("nccl_log", &["tool_output", "trace"]),
    ("trace", &[]),
    ("tool_output", &[]),
    // A run is a question: what makes the questions also reads the replies, so that both agree.
    ("measure::plan", &["source", "fact"]),
    // A log is read in bounded memory only by what knows which lines matter.
    (
        "live",
        &["source", "fact", "measure::plan", "nccl_log", "trace"],
    ),
    (
        "probe",
        &[
            "source",
            "fact",
            "nccl_log",
            "tool_output",
            "trace",
            "measure::plan",
        ],
    ),
    ("derive", &["fact", "measure::plan"]),
    ("check", &["fact"]),
    ("cluster", &["live"]),
    (
        "measure::run",
        &[
            "source",
            "fact",
            "live",
            "cluster",
            "nccl_log",
            "measure::plan",
        ],
    ),
    ("diagnosis", &["check", "fact"]),
    ("whole", &["diagnosis", "check", "derive", "fact"]),
    (
        "report",
        &[
            "whole",
            "diagnosis",
            "check",
            "derive",
            "fact",
            "measure::plan",
        ],
    ),
    (
        "examine",
        &[
            "source",
            "measure::plan",
            "live",
            "probe",
            "derive",
            "check",
            "cluster",
            "measure::run",
            "whole",
            "report",
            "fact",
        ],
    ),
    (
        "cli",
        &[
            "source",
            "nccl_log",
            "measure::plan",
            "live",
            "probe",
            "derive",
            "check",
            "cluster",
            "measure::run",
            "diagnosis",
            "report",
            "fact",
            "examine",
        ],
    ),
];

/// Modules without a subject of their own, which any room may import; what they may import besides each other.
const LEAVES: [(&str, &[&str]); 11] = [
    ("catch_panic", &[]),
    ("cpu_list", &[]),
    ("exit", &[]),
    ("launch", &[]),
    ("left_out", &[]),
    ("nccl_rules", &["fact"]),
    ("network", &[]),
    ("nodeset", &[]),
    ("sentence", &[]),
    ("small_sort", &[]),
    ("terminal", &[]),
];

/// The layers of `examine`: a module imports only what is in layers below its own.
const LAYERS: [&[&str]; 10] = [
    &["sink", "recording_text"],
    &["unusable", "ways_message", "found_files"],
    &["recorded_input"],
    &["given", "fresh_recordings"],
    &["one"],
    &["baseline", "live_job", "log"],
    &["budget"],
    &["examination", "many"],
    &["hosts", "launch", "plan"],
    &["inputs", "job_on_hosts"],
];

/// A module by the names of its path, without `crate`.
pub(crate) type Module = Vec<String>;

/// The import of one module by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    from: Module,
    to: Module,
}

/// Collects the paths of a file that begin with `crate`, `super` or `self`.
struct Paths {
    module: Module,
    found: Vec<Module>,
}

impl Paths {
    fn add(&mut self, path: Vec<String>) {
        let mut at = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                _ => at.push(part),
            }
        }
        self.found.push(at);
    }

    fn tree(&mut self, tree: &syn::UseTree, mut above: Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.tree(&path.tree, above);
            }
            syn::UseTree::Name(name) => {
                above.push(name.ident.to_string());
                self.add(above);
            }
            syn::UseTree::Rename(rename) => {
                above.push(rename.ident.to_string());
                self.add(above);
            }
            syn::UseTree::Glob(_) => self.add(above),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, above.clone());
                }
            }
        }
    }

    /// Paths in the tokens of a macro's call, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add(std::mem::take(&mut path));
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.add(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.add(path);
    }
}

pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |tokens: &syn::MetaList| tokens.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if is_for_tests(attributes) {
            return;
        }
        match item {
            syn::Item::Mod(inner) => {
                self.module.push(inner.ident.to_string());
                syn::visit::visit_item(self, item);
                self.module.pop();
            }
            _ => syn::visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(
            path.segments
                .iter()
                .map(|part| part.ident.to_string())
                .collect(),
        );
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

/// The files of `src/` with the modules that they are; those of tests are left out.
pub(crate) fn files() -> BTreeMap<Module, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open = vec![root.clone()];
    let mut files = BTreeMap::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(&root).unwrap().with_extension("");
            let module: Module = inside
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            let is_test = |part: &String| matches!(part.as_str(), "tests" | "testing");
            let is_rust = path.extension().is_some_and(|e| e == "rs");
            if is_rust && !module.iter().any(is_test) {
                files.insert(module, path);
            }
        }
    }
    files
}

/// Which module of the tree a path names, its items left out.
fn module_of(files: &BTreeMap<Module, PathBuf>, path: &[String]) -> Module {
    let mut path = path.to_vec();
    while !path.is_empty() && !files.contains_key(&path) {
        path.pop();
    }
    path
}

fn imports(files: &BTreeMap<Module, PathBuf>) -> BTreeSet<Import> {
    let mut imports = BTreeSet::new();
    for (module, path) in files {
        let text = std::fs::read_to_string(path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if is_for_tests(&file.attrs) {
            continue;
        }
        let mut paths = Paths {
            // The crate's root has no name of its own.
            module: module
                .iter()
                .filter(|part| *part != "lib")
                .cloned()
                .collect(),
            found: Vec::new(),
        };
        paths.visit_file(&file);
        for found in paths.found {
            let to = module_of(files, &found);
            if !to.is_empty() && to != *module {
                imports.insert(Import {
                    from: module.clone(),
                    to,
                });
            }
        }
    }
    imports
}

/// Whether a module is this one, or below it.
pub(crate) fn is_within(module: &[String], room: &str) -> bool {
    let mut room = room.split("::");
    let mut parts = module.iter();
    room.all(|part| parts.next().is_some_and(|own| own == part))
}

fn is_leaf(module: &[String]) -> bool {
    LEAVES.iter().any(|(leaf, _)| is_within(module, leaf))
}

#[test]
fn each_room_imports_only_what_it_may() {
    let files = files();
    assert!(files.len() > 400, "{} files", files.len());
    let known = |module: &Module| {
        let rooms = ROOMS.iter().chain(&LEAVES);
        rooms.into_iter().any(|(room, _)| is_within(module, room))
            || matches!(module.join("::").as_str(), "lib" | "main" | "measure")
    };
    let homeless: Vec<&Module> = files.keys().filter(|module| !known(module)).collect();
    assert!(homeless.is_empty(), "in no room: {homeless:?}");
    let mut wrong = Vec::new();
    for Import { from, to } in imports(&files) {
        let own = ROOMS
            .iter()
            .chain(&LEAVES)
            .find(|(room, _)| is_within(&from, room));
        let Some((room, may)) = own else { continue };
        let allowed =
            is_within(&to, room) || is_leaf(&to) || may.iter().any(|other| is_within(&to, other));
        if !allowed {
            wrong.push(format!("{} imports {}", from.join("::"), to.join("::")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_a_room_may_import_it_imports() {
    let imports = imports(&files());
    for (room, may) in ROOMS {
        for other in may {
            let used = imports
                .iter()
                .any(|import| is_within(&import.from, room) && is_within(&import.to, other));
            assert!(used, "{room} imports nothing of {other} any more");
        }
    }
}

#[test]
fn rooms_have_no_circle() {
    let mut open: BTreeMap<&str, &[&str]> = ROOMS.into_iter().collect();
    // `fact` takes words of `source` only, whose files import no fact.
    open.insert("fact", &[]);
    while !open.is_empty() {
        let free = open
            .iter()
            .find(|(_, may)| !may.iter().any(|other| open.contains_key(other)))
            .map(|(room, _)| *room);
        let free = free.unwrap_or_else(|| panic!("a circle among {:?}", open.keys()));
        open.remove(free);
    }
}

#[test]
fn what_examines_is_in_layers() {
    let files = files();
    let layer_of = |module: &Module| {
        let [room, part, ..] = module.as_slice() else {
            return None;
        };
        let is_part = |layer: &&[&str]| layer.contains(&part.as_str());
        (room == "examine").then(|| LAYERS.iter().position(is_part))
    };
    let of_examine: BTreeSet<&str> = files
        .keys()
        .filter(|module| layer_of(module).is_some())
        .map(|module| module[1].as_str())
        .collect();
    let in_layers: BTreeSet<&str> = LAYERS.concat().into_iter().collect();
    assert_eq!(of_examine, in_layers);
    let climbs = |import: &Import| {
        let [from, to] = [&import.from, &import.to];
        let is_own = from.get(1) == to.get(1);
        match (layer_of(from).flatten(), is_within(to, "examine")) {
            (Some(own), true) if !is_own => layer_of(to).flatten().is_some_and(|to| to >= own),
            _ => false,
        }
    };
    let wrong: Vec<Import> = imports(&files).into_iter().filter(climbs).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_examines_tells_a_person_through_its_sink() {
    for (module, path) in files() {
        if is_within(&module, "examine") {
            let text = std::fs::read_to_string(&path).unwrap();
            for way in ["terminal::say", "eprint", "stderr"] {
                assert!(!text.contains(way), "{}: {way}", path.display());
            }
        }
    }
}

#[test]
fn unsafe_code_is_in_live_only() {
    for (module, path) in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let lifts = text.contains("expect(unsafe_code") || text.contains("unsafe {");
        assert!(!lifts || is_within(&module, "live"), "{}", path.display());
    }
}

/// Files that still climb more than one module at a time; a path from `crate` is found by a search and survives a move.
const CLIMBERS: [&str; 3] = ["cli", "derive", "measure::plan"];

#[test]
fn paths_climb_one_module_at_most() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let inside = path.strip_prefix(&root).unwrap().with_extension("");
            let module: Module = inside
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if CLIMBERS.iter().any(|climber| is_within(&module, climber)) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("super::super"), "{}", path.display());
        }
    }
}
