//! The loudspeaker's thread: plays received packets when the device asks.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use glassline_voice::{
    DuplicateReason, DuplicateRecord, Format, Listener, PlayoutStamps, jitter, listener,
};

use super::device::PlayoutTime;
use super::network::Incoming;
use super::stamping::Stamp;
use super::{BoundedSender, CallError, Config, Shared};

/// Most packets that wait for the loudspeaker: five seconds of 10 ms.
pub(super) const PACKETS_MAX: usize = 512;
/// Time between two updates of the call's figures.
const REPORT: Duration = Duration::from_millis(100);

pub(super) struct Listening {
    listener: Listener,
    device: Format,
    shared: Arc<Shared>,
    packets: Receiver<Incoming>,
    stamps: Stamps,
    rendered: BoundedSender<Vec<f32>>,
    report_at: Instant,
}

/// Queues for records of packets.
pub(super) struct Stamps {
    pub(super) played: Stamp<PlayoutStamps>,
    pub(super) duplicates: Stamp<DuplicateRecord>,
}

impl Listening {
    pub(super) fn new(
        shared: Arc<Shared>,
        config: &Config,
        device: Format,
        packets: Receiver<Incoming>,
        stamps: Stamps,
        rendered: BoundedSender<Vec<f32>>,
    ) -> Result<Self, CallError> {
        let config = listener::Config {
            jitter: config.jitter,
            ..listener::Config::new(device)
        };
        let listener =
            Listener::new(config).map_err(|error| CallError::Engine(error.to_string()))?;
        Ok(Self {
            listener,
            device,
            shared,
            packets,
            stamps,
            rendered,
            report_at: Instant::now(),
        })
    }

    pub(super) fn play(&mut self, out: &mut [f32], time: PlayoutTime) {
        let PlayoutTime { called, plays } = time;
        for incoming in self.packets.try_iter() {
            let Incoming {
                ssrc,
                is_redundant,
                packet,
                received,
            } = incoming;
            let timestamp = packet.timestamp;
            let taken = match is_redundant {
                true => self.listener.receive_red(ssrc, packet, received),
                false => self.listener.receive(ssrc, packet, received),
            };
            // The listener counts other refusals.
            if let Err(listener::Refused::Packet(refused)) = taken
                && let Some(why) = duplicate_reason(refused)
            {
                self.stamps.duplicates.push(DuplicateRecord {
                    ssrc,
                    timestamp,
                    at: received.arrived,
                    why,
                });
            }
        }
        let delay = plays.saturating_duration_since(called);
        self.listener.set_device(self.device, delay);
        self.listener.play(out, called, &mut Instant::now);
        let mut rendered = Vec::new();
        self.listener.take_rendered(&mut rendered);
        if !rendered.is_empty() {
            self.rendered.push(rendered);
        }
        while let Some(stamps) = self.listener.poll_playout_stamps() {
            self.stamps.played.push(stamps);
        }
        while let Some(unplayed) = self.listener.poll_unplayed() {
            self.stamps.duplicates.push(unplayed);
        }
        if called >= self.report_at {
            self.report_at = called + REPORT;
            for voice in self.shared.gone().drain(..) {
                self.listener.remove(voice);
            }
            let report = self.listener.report(called);
            self.shared.figures().listening = Some(report);
        }
    }
}

/// Reason for the record of a refused packet, if it arrived before or too late.
const fn duplicate_reason(refused: jitter::Refused) -> Option<DuplicateReason> {
    match refused {
        jitter::Refused::Duplicate => Some(DuplicateReason::Duplicate),
        jitter::Refused::Late => Some(DuplicateReason::Late),
        _ => None,
    }
}
