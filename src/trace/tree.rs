//! A document as nodes in one list: what a pickle names twice is there once, and no walk over it
//! goes deeper than who walks.

use super::TraceError;

/// Parts that a document may have. 2,000 entries with 30 frames each have some 200,000.
pub(super) const PARTS: usize = 4 << 20;

/// A node's place in the list.
pub(super) type Place = u32;

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    None,
    Bool(bool),
    Number(i64),
    /// A fraction; which one nobody needs.
    Fraction,
    Text(String),
    List(Vec<Place>),
    /// Keys and values, one after the other.
    Dict(Vec<Place>),
}

/// A document.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Elements of lists and dictionaries.
    elements: usize,
    pub(super) root: Place,
}

impl Tree {
    /// Adds a node.
    pub(super) fn add(&mut self, node: Node) -> Result<Place, TraceError> {
        if self.nodes.len() + self.elements >= PARTS {
            return Err(TraceError::Parts(PARTS));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as Place - 1)
    }

    /// Adds elements to a list, or keys and values to a dictionary.
    pub(super) fn extend(&mut self, place: Place, more: &[Place]) -> Result<(), TraceError> {
        self.elements += more.len();
        if self.nodes.len() + self.elements > PARTS {
            return Err(TraceError::Parts(PARTS));
        }
        match self.nodes.get_mut(place as usize) {
            Some(Node::List(all)) => all.extend(more),
            Some(Node::Dict(all)) if more.len().is_multiple_of(2) => all.extend(more),
            _ => return Err(TraceError::Damaged),
        }
        Ok(())
    }

    pub(super) fn node(&self, place: Place) -> &Node {
        self.nodes.get(place as usize).unwrap_or(&Node::None)
    }

    /// The value of a key; the last one counts, as in a dictionary.
    pub(super) fn get(&self, dict: Place, key: &str) -> Option<Place> {
        let mut pairs = self.pairs(dict);
        pairs
            .rfind(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// The keys that are texts, with their values.
    pub(super) fn pairs(&self, dict: Place) -> impl DoubleEndedIterator<Item = (&str, Place)> {
        let all: &[Place] = match self.node(dict) {
            Node::Dict(all) => all,
            _ => &[],
        };
        all.chunks_exact(2)
            .filter_map(|pair| match self.node(pair[0]) {
                Node::Text(key) => Some((key.as_str(), pair[1])),
                _ => None,
            })
    }

    pub(super) fn list(&self, place: Place) -> &[Place] {
        match self.node(place) {
            Node::List(all) => all,
            _ => &[],
        }
    }

    pub(super) fn text(&self, dict: Place, key: &str) -> Option<&str> {
        match self.node(self.get(dict, key)?) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn flag(&self, dict: Place, key: &str) -> Option<bool> {
        match self.node(self.get(dict, key)?) {
            Node::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A number; the recorder's JSON writes those of groups as texts.
    pub(super) fn number(&self, dict: Place, key: &str) -> Option<i64> {
        match self.node(self.get(dict, key)?) {
            Node::Number(number) => Some(*number),
            Node::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// A document of JSON. Its depth is bounded by the parser.
pub(super) fn of_json(bytes: &[u8]) -> Result<Tree, TraceError> {
    let value = serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
        true => TraceError::Cut,
        false => TraceError::Json(error.to_string()),
    })?;
    let mut tree = Tree::default();
    tree.root = add_json(&mut tree, value)?;
    Ok(tree)
}

fn add_json(tree: &mut Tree, value: serde_json::Value) -> Result<Place, TraceError> {
    let node = match value {
        serde_json::Value::Null => Node::None,
        serde_json::Value::Bool(flag) => Node::Bool(flag),
        serde_json::Value::Number(number) => number.as_i64().map_or(Node::Fraction, Node::Number),
        serde_json::Value::String(text) => Node::Text(text),
        serde_json::Value::Array(items) => {
            let list = tree.add(Node::List(Vec::new()))?;
            for item in items {
                let element = add_json(tree, item)?;
                tree.extend(list, &[element])?;
            }
            return Ok(list);
        }
        serde_json::Value::Object(members) => {
            let dict = tree.add(Node::Dict(Vec::new()))?;
            for (name, member) in members {
                let pair = [tree.add(Node::Text(name))?, add_json(tree, member)?];
                tree.extend(dict, &pair)?;
            }
            return Ok(dict);
        }
    };
    tree.add(node)
}
