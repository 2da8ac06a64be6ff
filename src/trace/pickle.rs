//! Pickles as PyTorch's flight recorder writes them (protocol 2, `torch/csrc/jit/serialization/pickler.cpp`).
//!
//! A pickle is a program. Only the instructions that push numbers, texts, lists and dictionaries are
//! followed; one that could name, build or call an object ends the reading.

use super::TraceError;
use super::tree::{Node, Place, Tree};

/// Entries of the memo that a dump may have.
const MEMO: usize = 1 << 20;
/// Items that may wait on the stack.
const STACK: usize = 1 << 20;

/// What is on the stack.
#[derive(Clone, Copy, Debug)]
enum Item {
    Mark,
    Value(Place),
}

/// Reads a pickle.
pub(super) fn read(bytes: &[u8]) -> Result<Tree, TraceError> {
    let mut machine = Machine {
        bytes,
        stack: Vec::new(),
        memo: Vec::new(),
        tree: Tree::default(),
    };
    while !machine.step()? {}
    let Some(Item::Value(root)) = machine.stack.pop() else {
        return Err(TraceError::Damaged);
    };
    machine.tree.root = root;
    Ok(machine.tree)
}

struct Machine<'b> {
    /// What is still to be read.
    bytes: &'b [u8],
    stack: Vec<Item>,
    memo: Vec<Option<Place>>,
    tree: Tree,
}

impl Machine<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(TraceError::Cut)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn take_slice(&mut self, length: usize) -> Result<&[u8], TraceError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(TraceError::Cut)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn push(&mut self, node: Node) -> Result<(), TraceError> {
        let place = self.tree.add(node)?;
        self.hold(Item::Value(place))
    }

    fn hold(&mut self, item: Item) -> Result<(), TraceError> {
        if self.stack.len() >= STACK {
            return Err(TraceError::Parts(STACK));
        }
        self.stack.push(item);
        Ok(())
    }

    fn pop(&mut self) -> Result<Place, TraceError> {
        match self.stack.pop() {
            Some(Item::Value(place)) => Ok(place),
            _ => Err(TraceError::Damaged),
        }
    }

    fn top(&self) -> Result<Place, TraceError> {
        match self.stack.last() {
            Some(Item::Value(place)) => Ok(*place),
            _ => Err(TraceError::Damaged),
        }
    }

    /// The values above the last mark, which goes with them.
    fn pop_to_mark(&mut self) -> Result<Vec<Place>, TraceError> {
        let is_mark = |item: &Item| matches!(item, Item::Mark);
        let mark = self
            .stack
            .iter()
            .rposition(is_mark)
            .ok_or(TraceError::Damaged)?;
        let above = self.stack.drain(mark..);
        let values = above.filter_map(|item| match item {
            Item::Value(place) => Some(place),
            Item::Mark => None,
        });
        Ok(values.collect())
    }

    fn pop_tuple(&mut self, length: usize) -> Result<(), TraceError> {
        let mut values = Vec::with_capacity(length);
        for _ in 0..length {
            values.push(self.pop()?);
        }
        values.reverse();
        self.push_list(&values)
    }

    fn push_list(&mut self, values: &[Place]) -> Result<(), TraceError> {
        let list = self.tree.add(Node::List(Vec::new()))?;
        self.tree.extend(list, values)?;
        self.hold(Item::Value(list))
    }

    fn put(&mut self, at: usize) -> Result<(), TraceError> {
        if at >= MEMO {
            return Err(TraceError::Parts(MEMO));
        }
        let place = self.top()?;
        if self.memo.len() <= at {
            self.memo.resize(at + 1, None);
        }
        self.memo[at] = Some(place);
        Ok(())
    }

    fn get(&mut self, at: usize) -> Result<(), TraceError> {
        let found = self.memo.get(at).copied().flatten();
        self.hold(Item::Value(found.ok_or(TraceError::Damaged)?))
    }

    /// Follows one instruction; whether it was the last one.
    fn step(&mut self) -> Result<bool, TraceError> {
        let [instruction] = self.take()?;
        match instruction {
            // PROTO
            0x80 => {
                self.take::<1>()?;
            }
            b'.' => return Ok(true),
            b'(' => self.hold(Item::Mark)?,
            b'N' => self.push(Node::None)?,
            // NEWTRUE, NEWFALSE
            0x88 => self.push(Node::Bool(true))?,
            0x89 => self.push(Node::Bool(false))?,
            // BININT1, BININT2, BININT, LONG1
            b'K' => {
                let [number] = self.take()?;
                self.push(Node::Number(number.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.take()?);
                self.push(Node::Number(number.into()))?;
            }
            b'J' => {
                let number = i32::from_le_bytes(self.take()?);
                self.push(Node::Number(number.into()))?;
            }
            0x8a => self.long()?,
            // BINFLOAT
            b'G' => {
                self.take::<8>()?;
                self.push(Node::Fraction)?;
            }
            // BINUNICODE
            b'X' => {
                let length = u32::from_le_bytes(self.take()?) as usize;
                let text = String::from_utf8_lossy(self.take_slice(length)?).into_owned();
                self.push(Node::Text(text))?;
            }
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b']' | b')' => self.push(Node::List(Vec::new()))?,
            // APPENDS, APPEND, SETITEMS, SETITEM
            b'e' | b'u' => {
                let values = self.pop_to_mark()?;
                let place = self.top()?;
                self.tree.extend(place, &values)?;
            }
            b'a' => {
                let value = self.pop()?;
                let place = self.top()?;
                self.tree.extend(place, &[value])?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                let place = self.top()?;
                self.tree.extend(place, &[key, value])?;
            }
            // TUPLE, TUPLE1, TUPLE2, TUPLE3
            b't' => {
                let values = self.pop_to_mark()?;
                self.push_list(&values)?;
            }
            0x85..=0x87 => self.pop_tuple(usize::from(instruction) - 0x84)?,
            // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
            b'q' => {
                let [at] = self.take()?;
                self.put(at.into())?;
            }
            b'r' => {
                let at = u32::from_le_bytes(self.take()?);
                self.put(at as usize)?;
            }
            b'h' => {
                let [at] = self.take()?;
                self.get(at.into())?;
            }
            b'j' => {
                let at = u32::from_le_bytes(self.take()?);
                self.get(at as usize)?;
            }
            other => return Err(TraceError::Instruction(other)),
        }
        Ok(false)
    }

    /// A whole number of up to 8 bytes; a longer one is none that a dump has.
    fn long(&mut self) -> Result<(), TraceError> {
        let [length] = self.take()?;
        let bytes = self.take_slice(length.into())?;
        let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut number = [if is_negative { 0xff } else { 0 }; 8];
        let place = number.get_mut(..bytes.len()).ok_or(TraceError::Damaged)?;
        place.copy_from_slice(bytes);
        self.push(Node::Number(i64::from_le_bytes(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_build_an_object_is_not_followed() {
        // GLOBAL "os" "system": what a hostile pickle begins with.
        assert_eq!(
            read(b"\x80\x02cos\nsystem\n."),
            Err(TraceError::Instruction(b'c'))
        );
        for instruction in [b'R', b'b', b'i', b'o', 0x81, b'P', b'Q', 0x93, 0x95] {
            let pickle = [0x80, 2, b'}', instruction, b'.'];
            assert_eq!(read(&pickle), Err(TraceError::Instruction(instruction)));
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_an_error() {
        let whole = b"\x80\x02}q\0(X\x01\0\0\0aq\x01K\x07u.";
        let tree = read(whole).unwrap();
        assert_eq!(tree.number(tree.root, "a"), Some(7));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), Err(TraceError::Cut), "{end}");
        }
        for damaged in [
            b"\x80\x02.".as_slice(),
            b"\x80\x02(.",
            b"\x80\x02h\x05.",
            b"\x80\x02K\x01K\x02a.",
        ] {
            assert_eq!(read(damaged), Err(TraceError::Damaged));
        }
    }

    #[test]
    fn a_list_that_holds_itself_or_doubles_takes_no_memory() {
        // A list whose element it is.
        let tree = read(b"\x80\x02]q\0h\0a.").unwrap();
        assert_eq!(tree.list(tree.root), [tree.root]);
        // Each list holds the one before it twice: 2^40 leaves by their names, 40 nodes.
        let mut doubling = b"\x80\x02]q\0".to_vec();
        for at in 0..40u8 {
            doubling.extend([b']', b'q', at + 1, b'(', b'h', at, b'h', at, b'e']);
        }
        doubling.push(b'.');
        assert!(read(&doubling).is_ok());
        let mut endless = b"\x80\x02]q\0".to_vec();
        endless.extend(b"h\0a".repeat(5 << 20));
        endless.push(b'.');
        assert!(matches!(read(&endless), Err(TraceError::Parts(_))));
    }

    #[test]
    fn numbers_have_their_signs() {
        for (bytes, number) in [
            (b"\x80\x02\x8a\0.".as_slice(), 0),
            (b"\x80\x02\x8a\x01\xff.", -1),
            (b"\x80\x02\x8a\x02\xff\0.", 255),
            (b"\x80\x02J\xff\xff\xff\xff.", -1),
            (b"\x80\x02M\xff\xff.", 65535),
        ] {
            let tree = read(bytes).unwrap();
            assert_eq!(tree.node(tree.root), &Node::Number(number));
        }
        let long = [b"\x80\x02\x8a\x09".as_slice(), &[1; 9], b"."].concat();
        assert_eq!(read(&long), Err(TraceError::Damaged));
    }
}
