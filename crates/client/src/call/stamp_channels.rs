//! The data channels of a call: our records go to the far end, and its records come in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use glassline_sctp::Reliability;
use glassline_sctp::channel::{ChannelId, Channels, Event, Init, Message};
use glassline_voice::Record;
use glassline_voice::far::{CLOCK_LABEL, Channel, FarEnd, PROTOCOL, RECORDS_LABEL, RemoteRecord};
use glassline_webrtc::Session;

use super::{BoundedSender, Shared};

/// Most bytes of records that wait in the association; further ones wait, and age, in
/// [`FarEnd`].
const BUFFERED_BYTES_MAX: usize = 32 << 10;

/// Data channels of a session for records and clock messages.
pub(super) struct StampChannels {
    far: FarEnd,
    shared: Arc<Shared>,
    /// Whether we made the offer, so that we open the channels.
    opens: bool,
    records: Option<ChannelId>,
    clock: Option<ChannelId>,
    /// Records that this end sends to the other end.
    own: Receiver<Record>,
    /// Queue for the far end's records.
    remote: BoundedSender<RemoteRecord>,
}

impl StampChannels {
    pub(super) fn new(
        shared: Arc<Shared>,
        wants_records: bool,
        epoch: Instant,
        own: Receiver<Record>,
        remote: BoundedSender<RemoteRecord>,
    ) -> Self {
        let opens = shared.transport().offered;
        Self {
            far: FarEnd::new(epoch, wants_records),
            shared,
            opens,
            records: None,
            clock: None,
            own,
            remote,
        }
    }

    /// Takes messages from the datagram that arrived at `arrived`.
    pub(super) fn receive(&mut self, session: &mut Session, arrived: Instant) {
        let Some(channels) = session.channels_mut() else {
            return;
        };
        while let Some(event) = channels.poll_event(arrived) {
            match event {
                Event::Connected if self.opens => open(channels, arrived),
                Event::Opened { channel, .. } => self.opened(channels, channel),
                Event::Message { channel, message } => {
                    let from = match Some(channel) {
                        it if it == self.records => Channel::Records,
                        it if it == self.clock => Channel::Clock,
                        // A channel of another protocol.
                        _ => continue,
                    };
                    if let Err(error) = self.far.receive(from, &message.data, arrived) {
                        tracing::debug!(%error, "stamps");
                    }
                }
                Event::Closed { channel, .. } => {
                    self.records.take_if(|it| *it == channel);
                    self.clock.take_if(|it| *it == channel);
                }
                _ => {}
            }
        }
    }

    /// Notes an open channel. The first of each kind counts, whichever end opened it.
    fn opened(&mut self, channels: &Channels, channel: ChannelId) {
        let Some(init) = channels.info(channel).map(|it| &it.init) else {
            return;
        };
        match (init.label.as_str(), init.protocol.as_str()) {
            (RECORDS_LABEL, PROTOCOL) => self.records.get_or_insert(channel),
            (CLOCK_LABEL, PROTOCOL) => self.clock.get_or_insert(channel),
            _ => return,
        };
    }

    /// Sends records that are due, and passes on those that were converted to our clock.
    pub(super) fn work(&mut self, session: &mut Session, now: Instant) {
        for record in self.own.try_iter() {
            self.far.push(&record, now);
            self.shared.send_to_legs(&record);
        }
        self.send(session, now);
        while let Some(remote) = self.far.poll_remote(now) {
            self.remote.push(remote);
        }
        let report = self.far.report();
        let is_requested = report.is_requested || self.shared.is_requested_by_a_leg();
        self.shared
            .is_requested
            .store(is_requested, Ordering::Relaxed);
        if self.records.is_some() {
            self.shared.figures().far = Some(report);
        }
    }

    fn send(&mut self, session: &mut Session, now: Instant) {
        let (Some(records), Some(clock)) = (self.records, self.clock) else {
            return;
        };
        let Some(channels) = session.channels_mut() else {
            return;
        };
        // A message is refused if the association is ending, or full because nothing is
        // acknowledged. Such a message is lost, as it would be on the path.
        while let Some(message) = self.far.poll_clock(now) {
            let _ = channels.send(clock, Message::binary(message), now);
        }
        while channels.buffered_amount(records) < BUFFERED_BYTES_MAX {
            let Some(message) = self.far.poll_records(now) else {
                break;
            };
            let _ = channels.send(records, Message::binary(message), now);
        }
    }

    /// Sends the last records at the end of the call.
    pub(super) fn finish(&mut self, session: &mut Session, now: Instant) {
        self.far.flush();
        self.work(session, now);
    }

    /// When [`Self::work`] next has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.far.poll_timeout().filter(|_| self.clock.is_some())
    }
}

/// Opens both channels. A failure is logged; without channels nothing is exchanged.
fn open(channels: &mut Channels, now: Instant) {
    let init = |label: &str| Init {
        label: label.to_owned(),
        protocol: PROTOCOL.to_owned(),
        ..Init::default()
    };
    let clock = Init {
        ordered: false,
        reliability: Reliability::Limited { retransmissions: 0 },
        ..init(CLOCK_LABEL)
    };
    for init in [init(RECORDS_LABEL), clock] {
        if let Err(error) = channels.open(init, now) {
            tracing::debug!(%error, "stamps");
        }
    }
}
