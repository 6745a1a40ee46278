//! The sound of the fake camera.

use std::time::Duration;

use super::media::aac_frames;
use super::quirk::Sound;

/// A track of sound, ready to be sent.
pub(crate) struct SoundTrack {
    pub(crate) payload_type: u8,
    sound: Sound,
    /// Access units of AAC, or packets of G.711, which are repeated.
    frames: Vec<Vec<u8>>,
}

/// Samples of an access unit of AAC.
const AAC_SAMPLES: u64 = 1_024;

/// Packets of G.711 a second.
const G711_RATE: u64 = 50;

/// The parameters of AAC-LC at 16 kHz in one channel (RFC 3640 §4.1).
const AAC_PARAMETERS: &str = "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;\
                              indexlength=3;indexdeltalength=3;config=1408";

impl SoundTrack {
    pub(crate) fn make(sound: Sound) -> Result<SoundTrack, String> {
        let frames = match sound {
            Sound::Alaw8 | Sound::Alaw16 => {
                let samples = (sound.clock() / G711_RATE) as usize;
                // A square wave.
                let wave = |at: usize| {
                    if (at / 16).is_multiple_of(2) {
                        0x85
                    } else {
                        0x05
                    }
                };
                vec![(0..samples).map(wave).collect()]
            }
            Sound::Linear16 => {
                let samples = (sound.clock() / G711_RATE) as usize;
                let wave = |at: usize| {
                    if (at / 16).is_multiple_of(2) {
                        0x10
                    } else {
                        0xf0
                    }
                };
                vec![(0..samples).flat_map(|at| [wave(at), 0]).collect()]
            }
            Sound::AacOfFiles => {
                let frames = aac_frames()?.into_iter();
                frames
                    .map(|frame| [&adts(&frame)[..], &frame].concat())
                    .collect()
            }
            _ => aac_frames()?,
        };
        Ok(SoundTrack {
            payload_type: sound.payload_type(),
            sound,
            frames,
        })
    }

    fn units_per_packet(&self) -> u64 {
        match self.sound {
            Sound::AacInFours => 4,
            _ => 1,
        }
    }

    fn samples_per_packet(&self) -> u64 {
        match self.sound {
            sound if sound.is_of_samples() => sound.clock() / G711_RATE,
            _ => AAC_SAMPLES * self.units_per_packet(),
        }
    }

    /// Time at which packet `number` is due.
    pub(crate) fn due(&self, number: u64) -> Duration {
        let samples = number * self.samples_per_packet();
        Duration::from_nanos(samples * 1_000_000_000 / self.sound.clock())
    }

    pub(crate) fn timestamp(&self, number: u64) -> u32 {
        (number * self.samples_per_packet()) as u32
    }

    pub(crate) fn marker(&self, number: u64) -> bool {
        match self.sound {
            sound if sound.is_of_samples() => number == 0,
            _ => true,
        }
    }

    pub(crate) fn payload(&self, number: u64) -> Vec<u8> {
        let frame = |index: u64| &self.frames[index as usize % self.frames.len()];
        if self.sound.is_of_samples() {
            return frame(number).clone();
        }
        let units = self.units_per_packet();
        let frames: Vec<_> = (0..units).map(|it| frame(number * units + it)).collect();
        // The lengths of the headers in bits, then of each access unit in bytes (RFC 3640 §3.2.1).
        let (bits, index) = match self.sound {
            Sound::AacOfSizes => (13, 0),
            Sound::AacCounted => (16, number as u16 & 7),
            _ => (16, 0),
        };
        let mut payload = (bits * units as u16).to_be_bytes().to_vec();
        let lengths = frames.iter().map(|it| (it.len() as u16) << 3 | index);
        payload.extend(lengths.flat_map(u16::to_be_bytes));
        frames.iter().for_each(|it| payload.extend_from_slice(it));
        payload
    }
}

/// The ADTS header of a frame of AAC-LC at 16 kHz in one channel (ISO/IEC 13818-7 §6.2).
fn adts(frame: &[u8]) -> [u8; 7] {
    let length = frame.len() as u16 + 7;
    let [high, low] = (length << 5).to_be_bytes();
    [
        0xff,
        0xf1,
        0x60,
        0x40 | (length >> 11) as u8,
        high,
        low | 0x1f,
        0xfc,
    ]
}

impl Sound {
    /// Whether packets have samples, and not access units.
    fn is_of_samples(self) -> bool {
        matches!(self, Sound::Alaw8 | Sound::Alaw16 | Sound::Linear16)
    }

    fn clock(self) -> u64 {
        match self {
            Sound::Alaw8 => 8_000,
            _ => 16_000,
        }
    }

    fn payload_type(self) -> u8 {
        match self {
            Sound::Alaw8 => 8,
            Sound::Alaw16 | Sound::Linear16 => 97,
            _ => 104,
        }
    }

    /// The lines of the track in a session description.
    pub(crate) fn described(self) -> String {
        let number = self.payload_type();
        let coding = match self {
            Sound::Alaw8 => "PCMA/8000",
            Sound::Alaw16 => "PCMA/16000",
            Sound::Linear16 => "L16/16000",
            Sound::AacOfTwoChannels => "MPEG4-GENERIC/16000/2",
            _ => "MPEG4-GENERIC/16000",
        };
        let named = if self == Sound::AacOfOtherType {
            97
        } else {
            number
        };
        let parameters = match self {
            sound if sound.is_of_samples() => String::new(),
            Sound::AacOfSizes => {
                format!("a=fmtp:{named} streamtype=3;mode=AAC-hbr;config=1408;sizeLength=13\r\n")
            }
            _ => format!("a=fmtp:{named} {AAC_PARAMETERS}\r\n"),
        };
        format!(
            "m=audio 0 RTP/AVP {number}\r\na=rtpmap:{number} {coding}\r\n{parameters}\
             a=control:trackID=1\r\n"
        )
    }
}
