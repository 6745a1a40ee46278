//! The speaking thread: opens the devices once there is a connection, and sends what the
//! microphone captures.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use glassline_voice::{SendStamps, Speaker, speaker};
use glassline_webrtc::SenderIndex;

use super::device::CaptureTime;
use super::listening::{self, Listening};
use super::network::{Agreed, Incoming, Sends};
use super::stamping::{Stamp, Stamping};
use super::{BoundedSender, CallError, Config, Devices, Shared};

/// Data that a call's audio needs.
pub(super) struct Audio {
    pub(super) shared: Arc<Shared>,
    pub(super) config: Config,
    pub(super) devices: Devices,
    pub(super) packets: Receiver<Incoming>,
    /// Whether packets come from other sessions too.
    pub(super) has_legs: bool,
    pub(super) stamping: Stamping,
}

/// A period of a microphone.
struct Period {
    samples: Vec<f32>,
    time: CaptureTime,
}

/// Most periods that wait for the speaking thread: a third of a second at 2.5 ms each.
const PERIODS_MAX: usize = 128;
/// Most played periods that wait for the echo canceller.
const RENDERED_MAX: usize = 128;
/// Age at which a captured period is dropped, as a sound card drops audio that nobody reads:
/// sent now it would be late at the other end, and delay all that follows.
const AGE_MAX: Duration = Duration::from_millis(100);
/// Longest delay until a request of another thread is followed.
const IDLE: Duration = Duration::from_millis(20);
/// Time between two updates of the call's figures.
const REPORT: Duration = Duration::from_millis(100);
/// Buffer for a datagram, with room for its encryption.
const DATAGRAM_BYTES: usize = 2048;

impl Audio {
    /// Runs until the call is over.
    pub(super) fn run(self, agreed: &Agreed) {
        let shared = Arc::clone(&self.shared);
        if let Err(error) = self.run_devices(agreed) {
            shared.end(Err(error));
        }
    }

    fn run_devices(self, agreed: &Agreed) -> Result<(), CallError> {
        let Devices {
            microphone,
            loudspeaker,
        } = self.devices;
        let Stamping {
            sent,
            played,
            duplicates,
            capture_calls,
            playout_calls,
        } = self.stamping;
        let (rendered_sender, rendered) = BoundedSender::new(RENDERED_MAX, &self.shared);
        let (periods_sender, periods) = BoundedSender::<Period>::new(PERIODS_MAX, &self.shared);
        let (microphone_delay, format) = (microphone.delay(), microphone.format());
        let playing = match agreed.receives || self.has_legs {
            false => None,
            true => {
                let mut listening = Listening::new(
                    Arc::clone(&self.shared),
                    &self.config,
                    loudspeaker.format(),
                    self.packets,
                    listening::Stamps { played, duplicates },
                    rendered_sender,
                )?;
                let playing = loudspeaker.start(Box::new(move |out, time| {
                    playout_calls.push(time.called);
                    listening.play(out, time);
                }))?;
                Some(playing)
            }
        };
        let mut captured = None;
        if agreed.sends.is_some() {
            captured = Some(microphone.start(Box::new(move |samples, time| {
                capture_calls.push(time.called);
                let samples = samples.to_vec();
                periods_sender.push(Period { samples, time });
            }))?);
        }
        let watched = [playing.as_ref(), captured.as_ref()];
        let failure = || watched.iter().flatten().find_map(|it| it.failure());
        match agreed.sends {
            Some(sends) => {
                let config = speaker::Config {
                    device_delay: microphone_delay,
                    ..configured(&self.config, &sends, format)
                };
                let redundant = config.red.is_some();
                self.shared
                    .transport()
                    .session
                    .set_redundant(SenderIndex(0), redundant);
                let speaker = Speaker::new(config);
                let speaker = speaker.map_err(|error| CallError::Engine(error.to_string()))?;
                let mut speaking = Speaking {
                    speaker,
                    shared: Arc::clone(&self.shared),
                    sent,
                    rendered,
                    lost_256: 0,
                    report_at: Instant::now(),
                    out: vec![0; DATAGRAM_BYTES],
                };
                speaking.run(&periods, failure)
            }
            None => {
                // Nothing uses the played audio.
                drop(rendered);
                while !self.shared.stop.load(Ordering::Relaxed) {
                    if let Some(error) = failure() {
                        return Err(error.into());
                    }
                    std::thread::sleep(IDLE);
                }
                Ok(())
            }
        }
    }
}

/// Configuration of the speaker, limited by what the peer wants.
fn configured(config: &Config, sends: &Sends, device: glassline_voice::Format) -> speaker::Config {
    let mut opus = config.opus;
    opus.fec &= sends.wanted.fec;
    opus.dtx &= sends.wanted.dtx;
    if let Some(bitrate_max) = sends.wanted.bitrate_max {
        let most = glassline_media::Bitrate::from_bps(bitrate_max.into());
        opus.bitrate = opus.bitrate.min(most);
    }
    speaker::Config {
        preprocess: config.preprocess,
        opus,
        red: (config.redundancy && sends.has_redundancy).then_some(speaker::Red {
            payload_type: sends.payload_type,
            copies: 1,
        }),
        timestamp_first: sends.timestamp,
        ..speaker::Config::new(device)
    }
}

struct Speaking {
    speaker: Speaker,
    shared: Arc<Shared>,
    sent: Stamp<SendStamps>,
    rendered: Receiver<Vec<f32>>,
    lost_256: u64,
    report_at: Instant,
    out: Vec<u8>,
}

impl Speaking {
    fn run<E: Into<CallError>>(
        &mut self,
        periods: &Receiver<Period>,
        failure: impl Fn() -> Option<E>,
    ) -> Result<(), CallError> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let due = self.speaker.poll_timeout();
            let wait = due.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            match periods.recv_timeout(wait.min(IDLE)) {
                Ok(period) => {
                    // Audio that was played is in the captured period by now, if at all.
                    for samples in self.rendered.try_iter() {
                        self.speaker.rendered(&samples);
                    }
                    self.capture(&period);
                    for period in periods.try_iter() {
                        self.capture(&period);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The device is gone; `failure` knows why.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(IDLE),
            }
            self.speaker
                .set_muted(self.shared.is_muted.load(Ordering::Relaxed));
            while let Some(outgoing) = self.speaker.poll(&mut Instant::now) {
                self.send(&outgoing);
            }
            while let Some(stamps) = self.speaker.poll_unsent() {
                self.sent.push(stamps);
            }
            if Instant::now() >= self.report_at {
                if let Some(error) = failure() {
                    return Err(error.into());
                }
                self.follow();
            }
        }
        Ok(())
    }

    fn capture(&mut self, period: &Period) {
        let CaptureTime { called, last } = period.time;
        if called.elapsed() > AGE_MAX {
            self.shared.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.speaker.capture_at(&period.samples, last, called);
    }

    /// Seals and sends a packet on this thread, which completes its stamps.
    fn send(&mut self, outgoing: &speaker::Outgoing) {
        let mut stamps = outgoing.stamps;
        stamps.enqueued = Some(Instant::now());
        // No pacer is passed.
        let mut transport = self.shared.transport();
        let dequeued = Instant::now();
        stamps.handed_over = stamps.enqueued;
        stamps.dequeued = Some(dequeued);
        // RTP time wraps at 32 bits.
        let timestamp = outgoing.timestamp as u32;
        let sealed = transport.session.seal(
            SenderIndex(0),
            timestamp,
            outgoing.marker,
            &outgoing.payload,
            dequeued,
            &mut self.out,
        );
        let (peer, socket) = (transport.session.peer(), Arc::clone(&transport.socket));
        drop(transport);
        if let (Some(sealed), Some(peer)) = (sealed, peer) {
            match socket.send(&self.out[..sealed.len], peer.socket) {
                Ok(()) => stamps.sent = Some(Instant::now()),
                Err(error) => {
                    self.shared.figures().unsent += 1;
                    tracing::debug!(%error, %peer, "a packet of voice was not sent");
                }
            }
        }
        self.sent.push(stamps);
    }

    /// Follows the requests of other threads, and updates the call's figures.
    fn follow(&mut self) {
        self.report_at = Instant::now() + REPORT;
        if let Some(bitrate) = self.shared.bitrate() {
            self.speaker.set_bitrate(bitrate);
        }
        let lost = self.shared.lost_256.load(Ordering::Relaxed);
        if lost != self.lost_256 {
            self.lost_256 = lost;
            self.speaker.set_expected_loss(lost as f64 / 256.0);
        }
        let report = self.speaker.report();
        self.shared.figures().speaking = Some(report);
    }
}
