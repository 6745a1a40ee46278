//! Patterns of streams by what may be done to them.

use glassline_rooms as rooms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Pattern};

/// Streams by what may be done to them: names, `cam*`, `site/**`, or `**`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StreamRights {
    /// Streams that may be read.
    pub read: Vec<Pattern>,
    /// Streams that may be published.
    pub publish: Vec<Pattern>,
    /// Streams whose cameras may be moved.
    pub ptz: Vec<Pattern>,
    /// Streams whose recordings may be watched.
    pub playback: Vec<Pattern>,
    /// Streams whose recording may be started, stopped and marked.
    pub record: Vec<Pattern>,
    /// Streams whose recordings may be exported as files.
    pub export: Vec<Pattern>,
}

/// The lists of a [`StreamRights`], each with its name in files and in the API.
pub type RightLists<'a> = [(&'static str, &'a [Pattern]); 6];

impl StreamRights {
    /// Returns the lists in their order.
    pub fn lists(&self) -> RightLists<'_> {
        [
            ("read", &self.read),
            ("publish", &self.publish),
            ("ptz", &self.ptz),
            ("playback", &self.playback),
            ("record", &self.record),
            ("export", &self.export),
        ]
    }

    /// Returns whether there is no right to any stream.
    pub fn is_empty(&self) -> bool {
        self.patterns() == 0
    }

    /// Returns the number of all patterns.
    pub fn patterns(&self) -> usize {
        self.lists().iter().map(|(_, list)| list.len()).sum()
    }

    /// Returns the rights of both.
    pub(super) fn and(mut self, other: &Self) -> Self {
        for (own, others) in [
            (&mut self.read, &other.read),
            (&mut self.publish, &other.publish),
            (&mut self.ptz, &other.ptz),
            (&mut self.playback, &other.playback),
            (&mut self.record, &other.record),
            (&mut self.export, &other.export),
        ] {
            own.extend_from_slice(others);
        }
        self
    }

    /// Returns the list that has the streams of `action`; `None` for a room, which takes two.
    pub(super) fn list_mut(&mut self, action: Action) -> Option<&mut Vec<Pattern>> {
        match action {
            Action::Read => Some(&mut self.read),
            Action::Publish => Some(&mut self.publish),
            Action::Ptz => Some(&mut self.ptz),
            Action::Playback => Some(&mut self.playback),
            Action::Record => Some(&mut self.record),
            Action::Export => Some(&mut self.export),
            Action::Call => None,
        }
    }
}

/// Returns whether `lists` give the right to `action` for `name`, a stream or the room of a call.
pub(super) fn grants_access(lists: &RightLists<'_>, action: Action, name: &str) -> bool {
    let has = |right: &str, stream: &str| {
        let mut named = lists.iter().filter(|(name, _)| *name == right);
        named.any(|(_, list)| list.iter().any(|it| it.matches(stream)))
    };
    match action {
        Action::Call => {
            // The name of some voice of the room.
            let voice = rooms::voices_of(name).replace('*', "0");
            has("read", &voice) && has("publish", &voice)
        }
        other => has(other.as_str(), name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_a_list_of_its_own() {
        for action in Action::ALL {
            let mut rights = StreamRights::default();
            let Some(list) = rights.list_mut(action) else {
                continue;
            };
            list.push(Pattern::parse("cam").expect("a pattern"));
            for other in Action::ALL {
                let given = grants_access(&rights.lists(), other, "cam");
                assert_eq!(given, other == action, "{action:?} and {other:?}");
            }
            assert_eq!(rights.patterns(), 1);
            assert_eq!(rights.clone().and(&rights).patterns(), 2);
        }
    }
}
