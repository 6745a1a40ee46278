//! What jitter buffers do to speech: every buffer plays the same packets with their audio, for a
//! judge of speech who stands outside.

use std::fmt;
use std::time::Duration;

use glassline_voice::opus::{self, Frame};
pub use glassline_voice::opus::{Concealment, Purpose};
use glassline_voice::{Bitrate, Encoder as _, Format};

use super::{Contender as _, EncodedSpeech, NetEq, Ours, Pace, PlayedSpeech, Stream, Version};

/// Sample rate of what the buffers play, in Hz: wide-band PESQ is defined at it.
pub const HEARD_HZ: u32 = 16_000;

/// Sample rate of the speech that is encoded, in Hz.
pub const SPEECH_HZ: u32 = 48_000;

/// How speech is encoded into packets, and what the receiver does about missing ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coding {
    /// Purpose that Opus optimizes for.
    pub purpose: Purpose,
    /// Bit rate of the speech, without headers and copies.
    pub bitrate: Bitrate,
    /// Share of the packets that Opus expects to be lost, 0 to 1; above 0, packets may carry
    /// in-band FEC.
    pub expected_loss: f64,
    /// Whether each packet carries a copy of the one before (RFC 2198). The models of NetEq do
    /// not use the copies.
    pub repeats: bool,
    /// Concealment of the decoder.
    pub concealment: Concealment,
}

impl Default for Coding {
    fn default() -> Self {
        Self {
            purpose: Purpose::Voip,
            bitrate: Bitrate::from_bps(32_000),
            expected_loss: 0.0,
            repeats: false,
            concealment: Concealment::Classic,
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = match self.purpose {
            Purpose::Voip => "VoIP",
            Purpose::LowDelay => "low delay",
        };
        write!(f, "Opus, {purpose}, {} kbit/s", self.bitrate.bps() / 1_000)?;
        if self.expected_loss > 0.0 {
            write!(f, ", FEC for {} %", self.expected_loss * 100.0)?;
        }
        if self.repeats {
            f.write_str(", RED")?;
        }
        if self.concealment == Concealment::Deep {
            f.write_str(", deep concealment")?;
        }
        Ok(())
    }
}

/// A buffer whose sound is judged.
#[derive(Clone, Copy, Debug)]
pub enum Player {
    /// The real buffer with its configuration, as it runs in a call.
    Ours(Ours),
    /// The decisions of NetEq with our decoder, stretching and expansion.
    NetEq(NetEq),
}

impl Player {
    /// All buffers that are compared: `ours` first, then NetEq M98 and 2026, then our other paces.
    pub fn all(ours: Ours) -> Vec<Self> {
        let neteq = |version| {
            Self::NetEq(NetEq {
                version,
                ..NetEq::default()
            })
        };
        let mut all = vec![Self::Ours(ours), neteq(Version::M98), neteq(Version::Y2026)];
        let others = Pace::ALL.into_iter().filter(|it| *it != ours.config.pace);
        all.extend(others.map(|pace| {
            let mut other = ours;
            other.config.pace = pace;
            Self::Ours(other)
        }));
        all
    }

    /// Name of the row in tables.
    pub fn name(&self) -> String {
        match self {
            Self::Ours(ours) => ours.name(),
            Self::NetEq(neteq) => neteq.name(),
        }
    }

    /// Plays the whole stream. Samples of the result are at [`HEARD_HZ`].
    pub fn play(&self, stream: &Stream<'_>, spoken: &EncodedSpeech<opus::Decoder>) -> PlayedSpeech {
        match self {
            Self::Ours(ours) => {
                let mut ours = *ours;
                // Opus timestamps count at 48 kHz; this stream counts samples at the playout rate.
                ours.config.clock_rate = Some(HEARD_HZ);
                ours.play_speech(stream, spoken)
            }
            Self::NetEq(neteq) => neteq.play_speech(stream, spoken),
        }
    }
}

/// Duration of Opus's frame that lasts `interval`; `None` if Opus is not used with such frames
/// here.
pub fn frame_of(interval: Duration) -> Option<Frame> {
    [Frame::Ms10, Frame::Ms20]
        .into_iter()
        .find(|frame| frame.duration() == interval)
}

/// Encodes `speech`, one channel at [`SPEECH_HZ`], by Opus into packets of one `frame` each.
///
/// # Errors
/// Opus refuses its configuration or a frame.
pub fn encode(
    speech: &[f32],
    frame: Frame,
    coding: &Coding,
) -> Result<EncodedSpeech<opus::Decoder>, Box<dyn std::error::Error>> {
    let mut encoder = opus::Encoder::new(opus::Config {
        purpose: coding.purpose,
        frame,
        bitrate: coding.bitrate,
        fec: coding.expected_loss > 0.0,
        expected_loss: coding.expected_loss,
        ..opus::Config::default()
    })?;
    let mut payloads = Vec::new();
    let mut payload = Vec::new();
    for samples in speech.chunks_exact(encoder.frame_samples()) {
        encoder.encode(samples, &mut payload)?;
        payloads.push(bytes::Bytes::copy_from_slice(&payload));
    }
    let format = Format::new(HEARD_HZ, 1).ok_or("no voice is played at 16 kHz")?;
    let concealment = coding.concealment;
    // It is made once here, so that making it again cannot fail.
    opus::Decoder::new(format, concealment)?;
    let make = move || opus::Decoder::new(format, concealment).expect("Opus made the same before");
    Ok(EncodedSpeech {
        payloads,
        make: Box::new(make),
        rate: HEARD_HZ,
        repeats: coding.repeats,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::speech::speech;
    use glassline_sim::{Delays, Family};

    #[test]
    fn every_buffer_plays_the_speech_that_was_encoded() {
        let said = &speech(SPEECH_HZ, 1, true)[..4 * SPEECH_HZ as usize];
        let interval = Duration::from_millis(20);
        let frame = frame_of(interval).expect("20 ms");
        let spoken = encode(said, frame, &Coding::default()).expect("speech");
        assert_eq!(spoken.payloads.len(), 200);
        let delays = Delays::of_family(Family::Clean, 1, 200, interval);
        let stream = Stream {
            delays: &delays,
            interval,
        };
        let players = Player::all(Ours::default());
        let names: Vec<String> = players.iter().map(Player::name).collect();
        assert_eq!(names.len(), 5);
        assert_eq!(names[0], format!("glassline {}", Pace::default()));
        assert!(names[1].contains("M98"), "{names:?}");
        for player in players {
            let heard = player.play(&stream, &spoken);
            let seconds = heard.samples.len() as f64 / f64::from(HEARD_HZ);
            assert!(
                (3.8..4.2).contains(&seconds),
                "{}: {seconds}",
                player.name()
            );
            let power: f32 = heard.samples.iter().map(|it| it * it).sum();
            let sent: f32 = said.iter().map(|it| it * it).sum::<f32>() / 3.0;
            assert!((0.5..2.0).contains(&(power / sent)), "{}", player.name());
        }
    }

    #[test]
    fn a_coding_says_what_it_adds_and_copies_play_what_is_lost() {
        assert_eq!(Coding::default().to_string(), "Opus, VoIP, 32 kbit/s");
        let coding = Coding {
            purpose: Purpose::LowDelay,
            bitrate: Bitrate::from_bps(48_000),
            expected_loss: 0.05,
            repeats: true,
            concealment: Concealment::Deep,
        };
        assert_eq!(
            coding.to_string(),
            "Opus, low delay, 48 kbit/s, FEC for 5 %, RED, deep concealment"
        );
        let said = &speech(SPEECH_HZ, 1, true)[..8 * SPEECH_HZ as usize];
        let interval = Duration::from_millis(20);
        let delays = Delays::of_family(Family::Clean, 1, 400, interval).losing(0.1, 1);
        let stream = Stream {
            delays: &delays,
            interval,
        };
        let [alone, twice] = [false, true].map(|repeats| {
            let coding = Coding {
                repeats,
                ..Coding::default()
            };
            let spoken = encode(said, Frame::Ms20, &coding).expect("speech");
            let heard = Player::all(Ours::default())[0].play(&stream, &spoken);
            heard.outcome.concealed_ratio
        });
        assert!(twice < 0.5 * alone && alone > 0.05, "{alone} {twice}");
    }

    #[test]
    fn frames_last_as_long_as_packets() {
        assert!(frame_of(Duration::from_millis(10)).is_some());
        assert!(frame_of(Duration::from_millis(7)).is_none());
    }
}
