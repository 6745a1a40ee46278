use std::sync::Arc;

use crate::layout::TrackLayout;
use crate::{State, Status, StreamName};

/// Number of a stream among all streams that its hub has made. A stream that is made under the name of
/// one that was removed has another incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub(super) u64);

/// Number of a source among those that published a stream. A source that comes later has a higher
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNumber(pub(crate) u64);

/// An event of a hub, as [`StreamEvents::poll`](crate::StreamEvents::poll) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// Every stream that the hub lists, in the order of their names. Earlier knowledge is void. A
    /// reader gets this event first, and again after it fell behind.
    Present(Vec<Arc<StreamSummary>>),
    /// A change of one stream.
    Changed {
        /// The change that has happened.
        change: StreamChange,
        /// The stream after the change.
        stream: Arc<StreamSummary>,
    },
}

/// A change of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamChange {
    /// The hub lists the stream from now on.
    Listed,
    /// The source with this number publishes.
    Ready(SourceNumber),
    /// The source with this number publishes no more. [`StreamSummary::state`] says why.
    Gone(SourceNumber),
    /// The source has sent nothing for 8 s.
    Silent,
    /// The source that was silent has sent a unit.
    Resumed,
    /// Another track layout began: the stream has tracks with other codecs than before.
    Layout(TrackLayout),
    /// A source that is away is in another state, which [`StreamSummary::state`] has with its reason.
    State,
    /// Something began or ceased to be published in place of the source.
    StandIn,
    /// A request may wait for something else than before while the stream has no tracks.
    Prospect,
    /// The stream has its first viewer.
    FirstViewer,
    /// The stream has no viewer any more.
    LastViewer,
    /// The hub lists the stream no more. No later event has this incarnation, unless the stream is
    /// listed again.
    Removed,
}

/// A stream at the time of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Name of the stream.
    pub name: StreamName,
    /// Incarnation of the stream, which tells a removed stream from a later one of the same name.
    pub incarnation: Incarnation,
    /// State of the source, with the reason of a failure or an end.
    pub state: State,
    /// Status of the stream. A source is known to hang within a second.
    pub status: Status,
    /// Number of the source that publishes; `None` without one.
    pub source: Option<SourceNumber>,
    /// Protocol of the present or latest source, like `whip`, if the source says that.
    pub protocol: Option<&'static str>,
    /// Whether units are published, by the source or in its place.
    pub is_published: bool,
    /// Layout of the tracks.
    pub layout: TrackLayout,
    /// Number of viewers. Viewers between the first and the last one are no event.
    pub viewers: usize,
    /// Rises with each event of the stream.
    pub(crate) revision: u64,
}

impl StreamSummary {
    /// Returns the number of bytes that an event with this summary takes in a queue.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.name.as_str().len() + self.state.detail().map_or(0, str::len);
        size_of::<Self>() + texts
    }
}
