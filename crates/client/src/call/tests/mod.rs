//! Both ends of a call in this process, over loopback, with devices that count samples.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;
use in_time::judge_in_time;

mod in_time;
mod signalled;
mod stamps;

/// Longest wait. It is generous, for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest delay of a mark over loopback.
const LONGEST: Duration = Duration::from_millis(400);

/// Configuration that costs little, so that a busy machine keeps up; the engine's own tests
/// cover processing and encoding.
fn light() -> Config {
    Config {
        preprocess: preprocess::Config::OFF,
        opus: opus::Config {
            complexity: 2,
            ..opus::Config::default()
        },
        ..Config::default()
    }
}

/// One end of a call, and the records that it made.
struct End {
    call: Call,
    microphone: VirtualDeviceState,
    loudspeaker: VirtualDeviceState,
    heard_file: PathBuf,
    files: Vec<PathBuf>,
    records: Records,
}

/// Configuration of an end's devices.
#[derive(Clone, Copy)]
struct Audio {
    rate: u32,
    marks: Option<Marks>,
    microphone: Timing,
    loudspeaker: Timing,
}

const QUIET: Audio = Audio {
    rate: 48_000,
    marks: None,
    microphone: Timing {
        period: 480,
        drift_ppm: 0.0,
        jitter: Duration::ZERO,
        seed: 1,
    },
    loudspeaker: Timing {
        period: 480,
        drift_ppm: 0.0,
        jitter: Duration::ZERO,
        seed: 2,
    },
};

impl End {
    fn start(name: &str, transport: MediaTransport, config: &Config, audio: Audio) -> Self {
        let file = |what: &str| {
            let file = format!("glassline-call-{}-{name}-{what}.wav", std::process::id());
            std::env::temp_dir().join(file)
        };
        let (spoken_file, heard_file) = (file("spoken"), file("heard"));
        let format = Format::new(audio.rate, 1).expect("a voice's");
        let microphone = match audio.marks {
            None => VirtualMicrophone::silent(format, audio.microphone),
            Some(marks) => {
                write(
                    &spoken_file,
                    audio.rate,
                    &marks.signal(audio.rate, PATIENCE),
                );
                VirtualMicrophone::wav(&spoken_file, audio.microphone)
            }
        };
        let microphone = microphone.expect("a microphone");
        let loudspeaker = VirtualLoudspeaker::wav(&heard_file, format, audio.loudspeaker);
        let loudspeaker = loudspeaker.expect("a loudspeaker");
        let began = (microphone.state(), loudspeaker.state());
        let devices = Devices {
            microphone: Box::new(microphone),
            loudspeaker: Box::new(loudspeaker),
        };
        Self {
            call: Call::start(transport, config.clone(), devices).expect("threads"),
            microphone: began.0,
            loudspeaker: began.1,
            files: vec![spoken_file, heard_file.clone()],
            heard_file,
            records: Records::default(),
        }
    }

    fn drain(&mut self) {
        self.call.drain(&mut self.records);
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Call) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(&self.call) {
            let figures = self.call.figures();
            assert!(Instant::now() < until, "{what}: {figures:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) -> Result<Ended, CallError> {
        let ended = self.call.hang_up();
        self.drain();
        ended
    }

    /// The delay of each mark of `speaker`, in ms, as this end's loudspeaker has it; marks
    /// are searched up to `longest` after their capture.
    fn delays(
        &self,
        speaker: &Self,
        marks: Marks,
        rate: u32,
        longest: Duration,
    ) -> Vec<Option<f64>> {
        let (spoke, heard) = (speaker.microphone.at(), self.loudspeaker.at());
        let (spoke, heard) = (spoke.expect("it ran"), heard.expect("it ran"));
        let begun = match heard.checked_duration_since(spoke) {
            Some(later) => later.as_secs_f64(),
            None => -(spoke - heard).as_secs_f64(),
        };
        let samples = read(&self.heard_file);
        let found = marks.find(&samples, rate, begun, longest);
        found.into_iter().map(|(_, delay)| delay).collect()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for file in &self.files {
            // It may not have been written.
            let _ = std::fs::remove_file(file);
        }
    }
}

fn write(path: &PathBuf, rate: u32, samples: &[f32]) {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: rate,
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    let mut writer = hound::WavWriter::create(path, spec).expect("a file");
    for sample in samples {
        writer.write_sample(*sample).expect("written");
    }
    writer.finalize().expect("finished");
}

fn read(path: &PathBuf) -> Vec<f32> {
    let mut reader = hound::WavReader::open(path).expect("a file");
    let samples = reader.samples::<i16>();
    samples
        .map(|it| f32::from(it.expect("a sample")) / 32_768.0)
        .collect()
}

/// Transports of two ends, signalled without HTTP.
fn transports(config: &Config) -> [MediaTransport; 2] {
    let loopback = ([127, 0, 0, 1], 9).into();
    let dialling = Dialling::new(loopback, config).expect("loopback");
    let (called, answer) = answer(dialling.offer(), loopback, config).expect("our own offer");
    [dialling.answered(&answer).expect("our own answer"), called]
}

fn other_marks() -> Marks {
    Marks {
        first: Duration::from_millis(2_000),
        ..Marks::default()
    }
}

/// Checks that enough marks were found and, from the third on, all of them with plausible
/// delays; before, buffers settle.
fn all_found(delays: &[Option<f64>], least: usize) -> Result<(), String> {
    let found: Vec<f64> = delays.iter().flatten().copied().collect();
    let is_sane = found.iter().all(|it| (10.0..400.0).contains(it));
    let is_whole = delays.iter().skip(2).all(Option::is_some);
    match found.len() >= least && is_sane && is_whole {
        true => Ok(()),
        false => Err(format!("{delays:?}")),
    }
}

/// Tests of sound in real time, which need a machine that has nothing else to do.
mod alone {
    use super::*;

    #[test]
    fn a_chirp_put_in_at_one_end_is_heard_at_the_other_both_ways_and_accounted_for() {
        let (late, outcome) = chirps_both_ways();
        judge_in_time(late, outcome);
    }
}

fn chirps_both_ways() -> (u64, Result<(), String>) {
    let config = light();
    let [near, far] = transports(&config);
    assert!(near.speaks() && near.listens() && far.speaks() && far.listens());
    let (marks, others) = (Marks::default(), other_marks());
    let mut near = End::start(
        "near",
        near,
        &config,
        Audio {
            marks: Some(marks),
            ..QUIET
        },
    );
    // Another rate, another period, and a clock of its own.
    let far_audio = Audio {
        rate: 44_100,
        marks: Some(others),
        microphone: Timing {
            period: 1_024,
            drift_ppm: -150.0,
            ..QUIET.microphone
        },
        loudspeaker: Timing {
            period: 256,
            drift_ppm: 150.0,
            ..QUIET.loudspeaker
        },
    };
    let mut far = End::start("far", far, &config, far_audio);
    near.wait_until("connected", |call| call.figures().is_connected);
    std::thread::sleep(Duration::from_secs(7));
    assert!(matches!(near.end(), Ok(Ended::ByUs)));
    far.wait_until("the other hung up", |call| call.ended().is_some());
    assert!(matches!(far.end(), Ok(Ended::ByPeer)));
    let heard_far = far.delays(&near, marks, 44_100, LONGEST);
    let heard_near = near.delays(&far, others, 48_000, LONGEST);
    println!("heard far {heard_far:?}, near {heard_near:?}");
    let late = near.loudspeaker.underruns() + far.loudspeaker.underruns();
    let outcome = all_found(&heard_far, 3)
        .and_then(|()| all_found(&heard_near, 3))
        .and_then(|()| accounted(&near, &far, marks, &heard_far));
    (late, outcome)
}

/// Compares the sum of both ends' stamps with the delay of the audio.
fn accounted(near: &End, far: &End, marks: Marks, heard: &[Option<f64>]) -> Result<(), String> {
    let spoke = near.microphone.at().expect("it ran");
    let mut compared = 0;
    for (index, delay) in heard.iter().enumerate() {
        let Some(delay) = delay else { continue };
        // The frame in the chirp's middle.
        let middle = marks.first + marks.every * index as u32 + Duration::from_millis(125);
        let spoken = near.records.sent.iter().find(|it| {
            let from = it.captured.saturating_duration_since(spoke);
            (from..from + it.duration).contains(&middle)
        });
        let Some(spoken) = spoken else { continue };
        let mut played = far.records.played.iter();
        let played = played.find(|it| it.timestamp as u32 == spoken.timestamp as u32);
        let Some(played) = played else { continue };
        let signal = spoken.signal.total() + played.signal.total();
        let whole = played.played.saturating_duration_since(spoken.captured) + signal;
        let off = whole.as_secs_f64() * 1e3 - delay;
        println!("chirp {index}: {delay:.2} ms heard, {whole:?} accounted for");
        // What stretching moves within a chirp is a few milliseconds; the rest is exact.
        if off.abs() > 5.0 {
            return Err(format!("{delay} ms heard, {whole:?} accounted for"));
        }
        compared += 1;
    }
    match compared >= 2 {
        true => Ok(()),
        false => Err(format!("{} records", near.records.sent.len())),
    }
}

#[test]
fn who_is_muted_is_not_heard_until_they_are_not() {
    let config = Config {
        muted: true,
        ..light()
    };
    let [near, far] = transports(&config);
    let marks = Marks {
        first: Duration::from_millis(500),
        every: Duration::from_millis(500),
    };
    let speaking = Audio {
        marks: Some(marks),
        ..QUIET
    };
    let mut near = End::start("muted-near", near, &config, speaking);
    let mut far = End::start("muted-far", far, &light(), QUIET);
    near.wait_until("it speaks", |call| {
        call.figures().speaking.is_some_and(|it| it.frames > 300)
    });
    let muted_until = Instant::now();
    near.call.set_muted(false);
    near.wait_until("more", |call| {
        call.figures().speaking.is_some_and(|it| it.frames > 700)
    });
    near.end().expect("no trouble");
    far.end().expect("no trouble");
    let (spoke, heard) = (near.microphone.at(), far.loudspeaker.at());
    let samples = read(&far.heard_file);
    let until = muted_until - heard.expect("it ran");
    let until = (until.as_secs_f64() * 48_000.0) as usize;
    let loudest = |part: &[f32]| part.iter().fold(0f32, |most, it| most.max(it.abs()));
    let before = loudest(&samples[..until.min(samples.len())]);
    assert!(before < 0.01, "{before} while muted");
    assert!(loudest(&samples[until..]) > 0.05);
    assert!(spoke.is_some());
}

#[test]
fn nobody_there_is_an_error_that_names_them() {
    let config = light();
    let [near, far] = transports(&config);
    drop(far);
    let mut near = End::start("nobody", near, &config, QUIET);
    near.wait_until("it gives up", |call| call.ended().is_some());
    let text = near.end().expect_err("nobody").to_string();
    assert!(text.contains("UDP"), "{text}");
}

#[test]
fn a_device_that_cannot_be_ends_the_call_with_its_name() {
    struct Broken;
    impl Microphone for Broken {
        fn format(&self) -> Format {
            Format::new(48_000, 1).expect("a voice's")
        }
        fn start(self: Box<Self>, _: Deliver) -> Result<Running, DeviceError> {
            Err(DeviceError::System {
                device: "the old headset".to_owned(),
                reason: "it is in the other room".to_owned(),
            })
        }
    }
    let config = light();
    let [near, far] = transports(&config);
    let format = Format::new(48_000, 1).expect("a voice's");
    let loudspeaker = VirtualLoudspeaker::silent(format, Timing::default()).expect("in range");
    let devices = Devices {
        microphone: Box::new(Broken),
        loudspeaker: Box::new(loudspeaker),
    };
    let mut broken = Call::start(near, config.clone(), devices).expect("threads");
    let mut far = End::start("broken-far", far, &config, QUIET);
    far.wait_until("the other is gone", |call| call.ended().is_some());
    assert!(matches!(far.end(), Ok(Ended::ByPeer)));
    let text = broken.hang_up().expect_err("no microphone").to_string();
    assert!(text.contains("the old headset: it is in"), "{text}");
}
