//! A recorder: passes questions on, and every reply to a sink, in the order of asking.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::wire::Line;
use super::{Question, Reply, Source};

/// Wraps a source: each question and its reply also go to the sink, as lines of a recording.
pub struct Recorder<S, F> {
    source: S,
    probe: Arc<str>,
    sink: RefCell<F>,
    asked: RefCell<HashMap<Question, u32>>,
}

impl<S: Source, F: FnMut(Line)> Recorder<S, F> {
    /// Records what `probe` asks of `source`.
    pub fn new(source: S, probe: &str, sink: F) -> Self {
        Recorder {
            source,
            probe: probe.into(),
            sink: RefCell::new(sink),
            asked: RefCell::default(),
        }
    }
}

impl<S: Source, F: FnMut(Line)> Source for Recorder<S, F> {
    fn ask(&self, question: &Question) -> Reply {
        let reply = self.source.ask(question);
        let mut asked = self.asked.borrow_mut();
        let times = asked.entry(question.clone()).or_insert(0);
        let repeat = *times;
        *times += 1;
        (self.sink.borrow_mut())(Line::Reply {
            probe: Arc::clone(&self.probe),
            question: question.clone(),
            repeat,
            reply: reply.clone(),
        });
        reply
    }
}
