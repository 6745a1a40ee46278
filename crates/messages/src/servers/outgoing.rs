//! Sends what is posted to one side of a broker to another server.

use std::time::Instant;

use bytes::Bytes;
use glassline_quic::moq::{MessageRefusal, MessageSender, MessageStreamError};
use glassline_runtime::TaskWaker;
use glassline_sctp::Reliability;

use super::{MessageLinks, record};
use crate::{Inbox, Posted, PostedContent};

/// The messages that go to another server.
pub(super) struct Outgoing<'a> {
    pub(super) inbox: &'a Inbox,
    /// Woken when the inbox gets something.
    pub(super) arrival: &'a TaskWaker,
    pub(super) links: &'a MessageLinks,
}

impl Outgoing<'_> {
    /// Sends the messages until the other server ends the stream. A message is left out if nothing
    /// `passes`.
    pub(super) async fn send_all(
        &self,
        to: &mut MessageSender,
        passes: impl Fn() -> bool,
    ) -> MessageStreamError {
        loop {
            let (posted, dropped) = self.inbox.take_one();
            self.links.counters.dropped_slow.add(dropped);
            let Some(posted) = posted else {
                self.arrival.woken().await;
                continue;
            };
            let Some(mut pieces) = pieces(&posted, self.links, passes()) else {
                return MessageRefusal::Off.into();
            };
            if let Err(error) = to.write(&mut pieces).await {
                return error;
            }
        }
    }
}

/// Returns the bytes that are sent for what was posted: nothing for a message of a reliable channel that
/// is too late, so that the other server finds the gap. Returns `None` if data channels are turned off.
pub(super) fn pieces(posted: &Posted, links: &MessageLinks, passes: bool) -> Option<Vec<Bytes>> {
    let policy = links.policy()?;
    let counters = &links.counters;
    let left_out = || vec![record::left_out(posted.first)];
    if !passes {
        return Some(left_out());
    }
    let waited = Instant::now().saturating_duration_since(posted.at);
    let PostedContent::Message { channel, message } = &posted.content else {
        let written = record::write(posted.first, &posted.content, waited);
        return Some(written.map_or_else(left_out, Vec::from));
    };
    if waited > policy.bounds.queue_age {
        counters.dropped_expired.add(1);
        return Some(match channel.reliability {
            Reliability::Reliable => Vec::new(),
            _ => left_out(),
        });
    }
    let Some(written) = record::write(posted.first, &posted.content, waited) else {
        counters.dropped_too_large.add(1);
        return Some(left_out());
    };
    counters.sent.add(1);
    counters.sent_bytes.add(message.data.len() as u64);
    Some(written.into())
}
