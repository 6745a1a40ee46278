//! The streams of events that are open.

use std::future::ready;

use futures_util::stream::{Stream, StreamExt as _};
use glassline_access::auth::OperatorId;
use glassline_runtime::{FairPlace, FairPlaces, SourcePrefix};

use super::super::operators::Visitor;

/// The streams of events that are open at the same time: at most half of the connections of operators,
/// so that the others are left for requests. Each operator and each address has a share, and no stream is
/// refused: the oldest ends, of the same operator or address, or of the operator with the most. A page
/// whose stream ended asks for it again.
#[derive(Clone, Debug)]
pub(in crate::http) struct EventStreams {
    by_operator: FairPlaces<Option<OperatorId>>,
    by_address: FairPlaces<SourcePrefix>,
}

/// The places of one stream of events.
struct Listener {
    of_operator: FairPlace<Option<OperatorId>>,
    of_address: FairPlace<SourcePrefix>,
}

impl EventStreams {
    /// Allows streams for half of `connections`: an eighth of them for an operator, a quarter for an
    /// address.
    pub(in crate::http) fn within(connections: usize) -> Self {
        Self {
            by_operator: FairPlaces::new(connections / 2, connections / 8),
            by_address: FairPlaces::new(connections / 2, connections / 4),
        }
    }

    /// Returns `events` for a visitor, until its operator loses its role or another stream needs the place.
    pub(super) fn admit<S>(
        &self,
        visitor: Visitor,
        events: S,
    ) -> impl Stream<Item = S::Item> + Send + use<S>
    where
        S: Stream<Item: Send> + Send,
    {
        let operator = visitor.caller().map(|it| it.operator().id());
        let listener = Listener {
            of_operator: self.by_operator.admit_newest(&operator),
            of_address: self.by_address.admit_newest(&visitor.source()),
        };
        let events = events.take_while(move |_| ready(visitor.may_go_on()));
        events.take_until(listener.displaced())
    }
}

impl Listener {
    async fn displaced(self) {
        tokio::select! {
            () = self.of_operator.displaced() => {}
            () = self.of_address.displaced() => {}
        }
    }
}
