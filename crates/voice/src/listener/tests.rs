use std::time::{Duration, Instant};

use glassline_media::Ssrc;

use super::{Config, Listener, Refused};
use crate::codec::{Format, L16};
use crate::jitter::Packet;
use crate::stamps::Received;

/// Packets of 10 ms at 48 kHz.
const FRAMES: u32 = 480;

/// A listener with room for two voices, and what each voice says.
struct Room {
    listener: Listener<L16>,
    now: Instant,
    packets: u32,
}

impl Room {
    fn new() -> Self {
        let config = Config {
            streams_max: 2,
            ..Config::new(Format::new(48_000, 1).expect("a device's"))
        };
        let make = |format, _| Ok(L16::new(format));
        Self {
            listener: Listener::with_decoder(config, make).expect("a listener"),
            now: Instant::now(),
            packets: 0,
        }
    }

    /// Runs for `time` in which voices 0, 1, … have the given `levels`; returns which voices
    /// were refused a packet.
    fn run(&mut self, time: Duration, levels: &[f32]) -> Vec<bool> {
        let mut refused = vec![false; levels.len()];
        for _ in 0..time.as_millis() / 10 {
            for (voice, level) in levels.iter().enumerate() {
                let samples: Vec<f32> = (0..FRAMES)
                    .map(|at| if at % 96 < 48 { *level } else { -level })
                    .collect();
                let packet = Packet {
                    sequence: self.packets as u16,
                    timestamp: self.packets * FRAMES,
                    payload: L16::encode(&samples).into(),
                };
                let ssrc = Ssrc(voice as u32);
                let taken = self.listener.receive(ssrc, packet, Received::at(self.now));
                refused[voice] |= matches!(taken, Err(Refused::Streams));
            }
            let mut out = [0.0; FRAMES as usize];
            let now = self.now;
            self.listener.play(&mut out, now, &mut || now);
            self.packets += 1;
            self.now += Duration::from_millis(10);
        }
        refused
    }

    fn voices(&self) -> Vec<u32> {
        let report = self.listener.report(self.now);
        let mut voices: Vec<u32> = report.streams.iter().map(|it| it.ssrc.0).collect();
        voices.sort_unstable();
        voices
    }
}

#[test]
fn who_says_nothing_makes_room_for_who_comes() {
    let mut room = Room::new();
    let second = Duration::from_secs(1);
    assert_eq!(room.run(second, &[0.3, 0.0]), [false, false]);
    // Both may still begin to speak.
    assert_eq!(room.run(second, &[0.3, 0.0, 0.2]), [false, false, true]);
    assert_eq!(room.voices(), [0, 1]);
    assert!(room.listener.report(room.now).refused >= 100);
    // The silent one came six seconds ago.
    room.run(4 * second, &[0.3, 0.0, 0.2]);
    assert_eq!(room.voices(), [0, 2]);
    // Nobody who speaks makes room, however long.
    let refused = room.run(10 * second, &[0.3, 0.1, 0.2]);
    assert_eq!(refused, [false, true, false]);
    assert_eq!(room.voices(), [0, 2]);
}

#[test]
fn a_voice_that_left_is_forgotten_once() {
    let mut room = Room::new();
    room.run(Duration::from_millis(100), &[0.1]);
    assert!(!room.listener.remove(Ssrc(7)), "never heard");
    assert!(room.listener.remove(Ssrc(0)));
    assert!(!room.listener.remove(Ssrc(0)));
}
