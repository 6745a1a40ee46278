//! Our jitter buffer as it runs in a call: linear samples through queue, playout buffer,
//! stretching and concealment, in virtual time. No `glassline_sim::Simulation` is needed: a
//! buffer has no timers and sends nothing, so the device's calls are the clock.

use std::time::Duration;

use bytes::Bytes;
use glassline_sim::Clock;
use glassline_voice::jitter::{Buffer, Config, Packet};
use glassline_voice::{Decoder, Format, L16};

use super::outcome::{Moment, Outcome};
use super::speech::speech;
use super::speech_run::{EncodedSpeech, PlayedSpeech};
use super::{Contender, Stream};

/// Sample rate in Hz. It changes the processor time of stretching, not its result.
const RATE: u32 = 16_000;

/// Glassline's jitter buffer as a contender.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// Configuration of the buffer.
    pub config: Config,
    /// Time between two calls of the device.
    pub pull: Duration,
    /// Whether the speaker pauses between phrases.
    pub has_pauses: bool,
}

impl Default for Ours {
    fn default() -> Self {
        Self {
            config: Config::default(),
            pull: Duration::from_micros(2_500),
            has_pauses: true,
        }
    }
}

impl Contender for Ours {
    fn name(&self) -> String {
        format!("glassline {}", self.config.pace)
    }

    fn play(&self, stream: &Stream<'_>) -> Outcome {
        let format = Format::new(RATE, 1).expect("a voice's");
        let per_packet = stream.samples_per_packet(RATE);
        let audio = speech(RATE, 1, self.has_pauses);
        let payload = |packet: usize| {
            let from = packet * per_packet % (audio.len() - per_packet);
            L16::encode(&audio[from..from + per_packet]).into()
        };
        self.run(stream, L16::new(format), payload, false, |_| ())
    }
}

impl Ours {
    /// Plays `spoken`; [`Contender::play`] plays synthetic speech.
    pub fn play_speech<D: Decoder>(
        &self,
        stream: &Stream<'_>,
        spoken: &EncodedSpeech<D>,
    ) -> PlayedSpeech {
        let mut samples = Vec::new();
        let payload = |packet: usize| spoken.payloads[packet].clone();
        let (decoder, repeats) = ((spoken.make)(), spoken.repeats);
        let outcome = self.run(stream, decoder, payload, repeats, |played| {
            samples.extend_from_slice(played);
        });
        PlayedSpeech { outcome, samples }
    }

    fn run<D: Decoder>(
        &self,
        stream: &Stream<'_>,
        decoder: D,
        payload: impl Fn(usize) -> Bytes,
        repeats: bool,
        mut listen: impl FnMut(&[f32]),
    ) -> Outcome {
        let rate = decoder.format().rate();
        let per_packet = stream.samples_per_packet(rate);
        let mut buffer = Buffer::new(self.config, decoder);
        let mut clock = Clock::new();
        let start = clock.now();
        let mut arrivals = stream.arrivals().into_iter().peekable();
        let first = arrivals.peek().map_or(Duration::ZERO, |it| it.0);
        let end = stream.end();
        let mut outcome = Outcome::new(stream);
        let mut out = vec![0.0; (f64::from(rate) * self.pull.as_secs_f64()).round() as usize];
        clock.advance(first);
        let mut pulled = 0u32;
        while clock.elapsed() < end {
            while let Some((at, packet)) = arrivals.next_if(|it| it.0 <= clock.elapsed()) {
                let before = packet.checked_sub(1).filter(|_| repeats);
                let copy = before.map(|before| (per_packet as u32, payload(before)));
                let packet = Packet {
                    sequence: packet as u16,
                    timestamp: (packet * per_packet) as u32,
                    payload: payload(packet),
                };
                // Refused packets are in the buffer's counts.
                let _ = buffer.insert_with(packet, copy.as_slice(), start + at);
            }
            buffer.pull(clock.now(), &mut out);
            listen(&out);
            while let Some(played) = buffer.poll_played() {
                let at_s = clock.elapsed().as_secs_f64();
                let wait_ms = played.wait.as_secs_f64() * 1e3;
                outcome.moments.push(Moment { at_s, wait_ms });
            }
            pulled += 1;
            clock.advance_to(start + first + self.pull * pulled);
        }
        let report = buffer.report(clock.now());
        outcome.concealed_ratio = report.concealed_ratio();
        outcome.stretched_ratio = report.stretched_ratio();
        outcome.late = report.counts.late + report.counts.cut;
        outcome
    }
}

impl Stream<'_> {
    fn samples_per_packet(&self, rate: u32) -> usize {
        (f64::from(rate) * self.interval.as_secs_f64()).round() as usize
    }
}
