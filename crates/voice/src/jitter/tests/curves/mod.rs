//! What the buffer does on eight paths, kept as text beside the code: a change of a decision
//! shows as a readable difference.
//!
//! Each row is a tenth of a second. `target` and `delay` are those of the report, `waits` is
//! decoded audio, all in tenths of a millisecond; `queue` is in packets. Frames that were
//! concealed, of comfort noise, removed and inserted (in speech and silence, then in silence)
//! are those of the row, and so are the counts of packets. `level` is the root mean square and
//! `slope` the mean difference of neighboring samples of what was heard, in millionths of full
//! scale. `n`, `l` and `r` are packets whose first sample was played: in time, late and from a
//! copy; then the sums of their waits and offsets in tenths of a millisecond, and the packets
//! that were accepted and left out.
//!
//! The signal and the codec compute with sums and products only, so that the text is the same
//! on every processor.
//!
//! After an intended change: `UPDATE_CURVES=1 cargo test -p glassline-voice`.

use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;

use super::*;
use crate::stamps::Operation;
use codec::{BROKEN, Codec, Features, REPEATS, SILENCE};
use voice::Voice;

mod codec;
mod voice;

/// Length of a curve.
const LENGTH: Duration = Duration::from_secs(12);
/// Length of a row.
const ROW: Duration = Duration::from_millis(100);

/// The events on the way, by the number of the packet.
type Happens = fn(u64) -> bool;

fn never(_: u64) -> bool {
    false
}

/// A path, and what lies at its ends.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    format: (u32, usize),
    clock_rate: Option<u32>,
    packet_ms: u32,
    pull_us: u32,
    config: Config,
    features: Features,
    family: Family,
    loss: f64,
    /// Time that is added to the delay of a packet, in ms.
    later_ms: fn(u64) -> u64,
    /// The sender says that it falls silent, and numbers what follows as if nothing was left out.
    is_left_out: Happens,
    repeats: Happens,
    is_broken: Happens,
    is_twice: Happens,
    is_padding: Happens,
    /// Whether packets carry copies of the one before.
    has_copies: bool,
    /// The number of the packet at which another stream begins.
    restarts: Option<u64>,
    /// Pulls that the device leaves out.
    is_away: Happens,
    /// Time that the device's call is late, in ms.
    is_late: fn(u64) -> u64,
    period: Option<Duration>,
}

const PLAIN: Scenario = Scenario {
    name: "",
    format: (48_000, 1),
    clock_rate: None,
    packet_ms: 10,
    pull_us: 10_000,
    config: Config {
        clock_rate: None,
        late_share: 0.000_55,
        delay_min: Duration::ZERO,
        delay_max: Duration::from_millis(500),
        pace: Pace::Even,
        stall_max: Duration::from_millis(80),
    },
    features: Features::None,
    family: Family::Clean,
    loss: 0.0,
    later_ms: |_| 0,
    is_left_out: never,
    repeats: never,
    is_broken: never,
    is_twice: never,
    is_padding: never,
    has_copies: false,
    restarts: None,
    is_away: never,
    is_late: |_| 0,
    period: None,
};

fn scenarios() -> Vec<Scenario> {
    let paced = |pace| Config {
        pace,
        ..PLAIN.config
    };
    vec![
        Scenario {
            name: "spikes-even",
            family: Family::Spikes,
            loss: 0.02,
            ..PLAIN
        },
        Scenario {
            name: "swings-swift",
            format: (16_000, 2),
            packet_ms: 20,
            pull_us: 2_500,
            config: paced(Pace::Swift),
            family: Family::Ar90,
            is_twice: |packet| packet % 7 == 3,
            ..PLAIN
        },
        Scenario {
            name: "long-packets-steady",
            format: (8_000, 1),
            packet_ms: 60,
            config: paced(Pace::Steady),
            family: Family::Mixed,
            loss: 0.03,
            ..PLAIN
        },
        Scenario {
            name: "other-clock",
            format: (16_000, 1),
            clock_rate: Some(8_000),
            packet_ms: 20,
            config: paced(Pace::Steady),
            family: Family::Ar98,
            is_padding: |packet| packet % 11 == 5,
            ..PLAIN
        },
        Scenario {
            name: "codec-loses",
            packet_ms: 20,
            pull_us: 5_000,
            config: Config {
                delay_min: Duration::from_millis(45),
                ..PLAIN.config
            },
            features: Features::All,
            family: Family::Independent,
            loss: 0.08,
            repeats: |packet| packet % 3 != 0,
            is_broken: |packet| packet % 41 == 9,
            ..PLAIN
        },
        Scenario {
            name: "codec-falls-silent",
            format: (16_000, 1),
            packet_ms: 20,
            features: Features::All,
            family: Family::Mixed,
            is_left_out: |packet| packet % 60 > 35,
            ..PLAIN
        },
        Scenario {
            name: "copies",
            packet_ms: 20,
            config: Config {
                delay_min: Duration::from_millis(30),
                ..paced(Pace::Swift)
            },
            family: Family::Ar98,
            loss: 0.15,
            has_copies: true,
            ..PLAIN
        },
        Scenario {
            name: "devices-stall",
            format: (16_000, 1),
            packet_ms: 20,
            config: Config {
                delay_max: Duration::from_millis(300),
                ..PLAIN.config
            },
            features: Features::All,
            family: Family::Clean,
            later_ms: |packet| match packet {
                150..250 => 350,
                // The path keeps the order.
                140..150 => 35 * (packet - 140),
                _ => 0,
            },
            restarts: Some(420),
            is_away: |pull| (640..700).contains(&pull),
            is_late: |pull| {
                if (300..310).contains(&pull) {
                    10 * (310 - pull)
                } else {
                    0
                }
            },
            period: Some(Duration::from_millis(20)),
            ..PLAIN
        },
    ]
}

/// When a packet arrives, and the earlier payloads that it carries.
type Arrival = (Instant, Packet, Vec<(u32, Bytes)>);

impl Scenario {
    /// Packets in the order in which they arrive.
    fn packets(&self, start: Instant) -> Vec<Arrival> {
        let (rate, channels) = self.format;
        let interval = Duration::from_millis(u64::from(self.packet_ms));
        let count = (LENGTH.as_millis() / interval.as_millis()) as usize;
        let delays = Delays::of_family(self.family, 3, count, interval).losing(self.loss, 4);
        let clock_rate = self.clock_rate.unwrap_or(rate);
        let ticks = clock_rate / 1_000 * self.packet_ms;
        let mut voice = Voice::new(rate);
        // Both wrap within the first second.
        let (mut sequence, mut timestamp) = (65_500u16, u32::MAX - 10 * ticks);
        let mut before: Option<Bytes> = None;
        let mut packets = Vec::new();
        for (number, delay) in (0u64..).zip(delays.packets()) {
            let frames = rate / 1_000 * self.packet_ms;
            let samples: Vec<f32> = (0..frames)
                .flat_map(|_| {
                    let sample = voice.sample();
                    (0..channels).map(move |channel| sample / (1 + channel) as f32)
                })
                .collect();
            let is_left_out = (self.is_left_out)(number);
            let mut flags = if is_left_out { SILENCE } else { 0 };
            flags |= if (self.repeats)(number) { REPEATS } else { 0 };
            flags |= if (self.is_broken)(number) { BROKEN } else { 0 };
            let payload: Bytes = [vec![flags], L16::encode(&samples)].concat().into();
            if self.restarts == Some(number) {
                (sequence, timestamp) = (20_000, 1 << 30);
            }
            // The first packet of the silence announces it.
            let is_sent = !is_left_out || !(self.is_left_out)(number - 1);
            if is_sent {
                let packet = Packet {
                    sequence,
                    timestamp,
                    payload: payload.clone(),
                };
                let copies = before.clone().filter(|_| self.has_copies);
                let copies: Vec<_> = copies.map(|it| (ticks, it)).into_iter().collect();
                if let Some(delay) = delay {
                    let sent = start + interval * number as u32;
                    let at = sent + *delay + Duration::from_millis((self.later_ms)(number));
                    packets.push((at, packet.clone(), copies.clone()));
                    if (self.is_twice)(number) {
                        packets.push((at + 2 * interval, packet, copies));
                    }
                    if (self.is_padding)(number) {
                        sequence = sequence.wrapping_add(1);
                        let padding = Packet {
                            sequence,
                            timestamp,
                            payload: Bytes::new(),
                        };
                        packets.push((at, padding, Vec::new()));
                    }
                }
                sequence = sequence.wrapping_add(1);
            }
            timestamp = timestamp.wrapping_add(ticks);
            before = Some(payload);
        }
        packets.sort_by_key(|(at, ..)| *at);
        packets
    }

    fn draw(&self) -> String {
        let (rate, channels) = self.format;
        let format = Format::new(rate, channels).expect("a voice's");
        let config = Config {
            clock_rate: self.clock_rate,
            ..self.config
        };
        let codec = Codec {
            linear: L16::new(format),
            features: self.features,
            last: vec![0.0; channels],
        };
        let mut buffer = Buffer::new(config, codec);
        let start = Clock::new().now();
        let mut packets = self.packets(start).into_iter().peekable();
        if let Some(period) = self.period {
            buffer.set_period(period);
        }
        let mut text = String::from(HEAD);
        let pull = Duration::from_micros(u64::from(self.pull_us));
        let frames = (u64::from(rate) * u64::from(self.pull_us) / 1_000_000) as usize;
        let pulls = (LENGTH.as_micros() / pull.as_micros()) as u64;
        let per_row = (ROW.as_micros() / pull.as_micros()) as u64;
        let mut row = Row::default();
        for number in 0..pulls {
            let late = Duration::from_millis((self.is_late)(number));
            let now = start + pull * number as u32 + late;
            while let Some((at, packet, copies)) = packets.next_if(|it| it.0 <= now) {
                // What is refused is counted.
                let _ = buffer.insert_with(packet, &copies, at);
            }
            let mut out = vec![0.0; frames * channels];
            if !(self.is_away)(number) {
                buffer.pull(now, &mut out);
                row.heard.extend(out);
            }
            if number % per_row == per_row - 1 {
                let at = start + pull * (number as u32 + 1);
                row.write(&mut text, at - start, &mut buffer, at);
            }
        }
        text
    }
}

const HEAD: &str = "    ms target delay waits queue | concealed comfort removed silent inserted silent | \
lost late cut recovered repeated undecodable overflowed strays restarts duplicates empty packets | \
level slope | n l r waits offsets unplayed\n";

/// The events since the last row.
#[derive(Default)]
struct Row {
    heard: Vec<f32>,
    counts: Counts,
}

impl Row {
    fn write(&mut self, text: &mut String, ms: Duration, buffer: &mut Buffer<Codec>, now: Instant) {
        let report = buffer.report(now);
        let (was, is) = (self.counts, report.counts);
        let tenths = |time: Duration| (time.as_secs_f64() * 1e4).round();
        let heard = &self.heard;
        let count = heard.len().max(1) as f64;
        let power: f64 = heard.iter().map(|it| f64::from(it * it)).sum();
        let slope = heard.windows(2).map(|it| f64::from((it[1] - it[0]).abs()));
        let slope = slope.sum::<f64>();
        let (mut kinds, mut waits, mut offsets) = ([0; 3], Duration::ZERO, Duration::ZERO);
        while let Some(played) = buffer.poll_played() {
            kinds[match played.operation {
                Operation::Normal => 0,
                Operation::Late => 1,
                Operation::Repeated => 2,
            }] += 1;
            waits += played.wait;
            offsets += played.offset;
        }
        let unplayed = std::iter::from_fn(|| buffer.poll_unplayed()).count();
        let [normal, late, repeated] = kinds;
        writeln!(
            text,
            "{:6} {:6} {:5} {:5} {:5} | {} {} {} {} {} {} | {} {} {} {} {} {} {} {} {} {} {} {} | {:.0} {:.0} | {normal} {late} {repeated} {:.0} {:.0} {unplayed}",
            ms.as_millis(),
            tenths(report.target),
            tenths(report.delay),
            tenths(report.waiting),
            report.packets,
            is.frames_concealed - was.frames_concealed,
            is.frames_comfort - was.frames_comfort,
            is.frames_removed - was.frames_removed,
            is.frames_removed_in_silence - was.frames_removed_in_silence,
            is.frames_inserted - was.frames_inserted,
            is.frames_inserted_in_silence - was.frames_inserted_in_silence,
            is.lost - was.lost,
            is.late - was.late,
            is.cut - was.cut,
            is.recovered - was.recovered,
            is.repeated - was.repeated,
            is.undecodable - was.undecodable,
            is.overflowed - was.overflowed,
            is.strays - was.strays,
            is.restarts - was.restarts,
            is.duplicates - was.duplicates,
            is.empty - was.empty,
            is.packets - was.packets,
            (power / count).sqrt() * 1e6,
            slope / count * 1e6,
            tenths(waits),
            tenths(offsets),
        )
        .expect("a string takes all");
        self.counts = is;
        self.heard.clear();
    }
}

#[test]
fn the_curves_are_those_beside_the_code() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("curves");
    let update = std::env::var_os("UPDATE_CURVES").is_some();
    let mut changed = Vec::new();
    for scenario in scenarios() {
        let drawn = scenario.draw();
        let file = folder.join(format!("{}.txt", scenario.name));
        if update {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&file, &drawn).expect("written");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        let differs = kept.lines().zip(drawn.lines()).find(|(a, b)| a != b);
        if let Some((before, after)) = differs {
            changed.push(format!("{}\n  - {before}\n  + {after}", scenario.name));
        } else if kept.lines().count() != drawn.lines().count() {
            changed.push(format!("{}: no curve in {}", scenario.name, file.display()));
        }
    }
    assert!(
        changed.is_empty(),
        "curves changed (UPDATE_CURVES=1 keeps the new ones): {changed:#?}"
    );
}
