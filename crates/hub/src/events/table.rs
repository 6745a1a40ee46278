use std::collections::BTreeMap;

use super::{StreamChange, StreamEvent, StreamSummary};
use crate::StreamName;

/// A value for each stream that a reader of events knows, by name.
#[derive(Clone, Debug)]
pub struct StreamTable<T>(BTreeMap<StreamName, T>);

impl<T> Default for StreamTable<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> StreamTable<T> {
    /// Calls `look` for each stream of `event` with the name, the value so far, and the stream, which is
    /// `None` if the hub does not list it any more. The value that `look` returns is kept for a listed
    /// stream.
    ///
    /// After the reader fell behind, these are all listed streams and all streams of the table.
    pub fn follow(
        &mut self,
        event: &StreamEvent,
        mut look: impl FnMut(&StreamName, Option<T>, Option<&StreamSummary>) -> T,
    ) {
        match event {
            StreamEvent::Changed { change, stream } => {
                let (name, known) = (&stream.name, self.0.remove(&stream.name));
                if *change == StreamChange::Removed {
                    look(name, known, None);
                } else {
                    let value = look(name, known, Some(stream));
                    self.0.insert(name.clone(), value);
                }
            }
            StreamEvent::Present(streams) => {
                let mut left = std::mem::take(&mut self.0);
                for stream in streams {
                    let known = left.remove(&stream.name);
                    let value = look(&stream.name, known, Some(stream));
                    self.0.insert(stream.name.clone(), value);
                }
                for (name, value) in left {
                    look(&name, Some(value), None);
                }
            }
        }
    }
}
