//! Both ends of a call in this process: the stages add up to the delay of the audio itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_client::call::{
    Config, Devices, Format, Timing, VirtualDeviceState, VirtualLoudspeaker, VirtualMicrophone,
    opus, preprocess,
};
use glassline_client::impairment::Impairment;
use parking_lot::Mutex;

use super::{Frame, Marks, Pair, Report, Stage};
use in_time::judge_in_time;

#[path = "../../../client/src/call/tests/in_time.rs"]
mod in_time;

/// Long, for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const RATE: u32 = 48_000;

/// Settings that cost little processor time, so that a busy machine keeps up.
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

/// Devices whose microphone records chirps and whose loudspeaker's output is kept.
struct Ears {
    microphone: VirtualDeviceState,
    loudspeaker: VirtualDeviceState,
    heard: Arc<Mutex<Vec<f32>>>,
}

fn devices() -> (Devices, Ears) {
    let format = Format::new(RATE, 1).expect("a voice's");
    let timing = Timing {
        period: 480,
        ..Timing::default()
    };
    let marks = Box::new(|at_s: f64| Marks::default().sample(at_s) as f32);
    let microphone = VirtualMicrophone::signal(format, timing, marks).expect("in range");
    let heard: Arc<Mutex<Vec<f32>>> = Arc::default();
    let kept = Arc::clone(&heard);
    let loudspeaker = VirtualLoudspeaker::silent(format, timing).expect("in range");
    let loudspeaker = loudspeaker.tapped(Box::new(move |samples| {
        kept.lock().extend_from_slice(samples);
    }));
    let ears = Ears {
        microphone: microphone.state(),
        loudspeaker: loudspeaker.state(),
        heard,
    };
    let devices = Devices {
        microphone: Box::new(microphone),
        loudspeaker: Box::new(loudspeaker),
    };
    (devices, ears)
}

impl Ears {
    /// Delays of the chirps of `speaker`, in ms.
    fn delays(&self, speaker: &Self) -> Vec<Option<f64>> {
        let spoke = speaker.microphone.at().expect("it ran");
        let played = self.loudspeaker.at().expect("it ran");
        let begun_s = match played.checked_duration_since(spoke) {
            Some(later) => later.as_secs_f64(),
            None => -(spoke - played).as_secs_f64(),
        };
        let heard = self.heard.lock();
        let longest = Duration::from_millis(600);
        let found = Marks::default().find(&heard, RATE, begun_s, longest);
        found.into_iter().map(|(_, delay)| delay).collect()
    }
}

/// Tests of sound in real time, which need a machine that has nothing else to do.
mod alone {
    use super::*;

    #[test]
    fn the_stages_of_a_call_add_up_to_what_is_heard() {
        let (late, outcome) = stages_and_chirps(None);
        judge_in_time(late, outcome);
    }

    #[test]
    fn over_a_path_like_the_studys_they_do_too() {
        let path = "delay=40ms jitter=ar98 loss=1% seed=5"
            .parse()
            .expect("known");
        let (late, outcome) = stages_and_chirps(Some(&path));
        judge_in_time(late, outcome);
    }
}

/// Median difference in ms between a chirp's measured delay and the sum of stages at the chirp's
/// middle.
fn chirps_against_frames(report: &Report, delays: &[Option<f64>]) -> Option<f64> {
    let marks = Marks::default();
    let mut off: Vec<f64> = Vec::new();
    for (number, delay) in delays.iter().enumerate() {
        let Some(delay) = delay else { continue };
        let middle = marks.first + marks.every * number as u32 + Duration::from_millis(125);
        // The first joined frame is one of the first that were sent, and delays of neighboring
        // frames are similar.
        let away = |it: &Frame| (it.at_s - middle.as_secs_f64()).abs();
        let nearest = report.frames.iter().filter(|it| away(it) < 0.05);
        let nearest = nearest.min_by(|a, b| away(a).total_cmp(&away(b)));
        off.extend(nearest.map(|it| (it.mouth_to_ear_ms - delay).abs()));
    }
    off.sort_by(f64::total_cmp);
    println!("stamps and chirps differ by {off:?} ms");
    off.get(off.len() / 2).copied()
}

fn stages_and_chirps(path: Option<&Impairment>) -> (u64, Result<(), String>) {
    let (first, spoke) = devices();
    let (second, heard) = devices();
    let config = light();
    let mut pair = Pair::start(&config, path, [first, second]).expect("loopback");
    let until = Instant::now() + PATIENCE;
    while pair.ends()[1]
        .figures()
        .speaking
        .is_none_or(|it| it.frames < 900)
    {
        pair.poll();
        assert!(Instant::now() < until, "{:?}", pair.ends()[1].figures());
        std::thread::sleep(Duration::from_millis(100));
    }
    let [report, back] = pair.finish("a test").expect("no trouble");
    let delays = heard.delays(&spoke);
    let mut found: Vec<f64> = delays.iter().flatten().copied().collect();
    found.sort_by(f64::total_cmp);
    let late = heard.loudspeaker.underruns();
    if found.len() < 4 {
        return (late, Err(format!("{delays:?}")));
    }
    let middle = found[found.len() / 2];
    let whole = report.table(Stage::MouthToEar).expect("frames were joined");
    let stamped = whole.p50_ms.expect("some");
    println!("{middle:.2} ms heard, {stamped:.2} ms accounted for, {delays:?}");
    // Frames of a chirp waited longer than others, by a few ms and not by a stage.
    let off = chirps_against_frames(&report, &delays);
    if off.is_none_or(|off| off > 4.0) {
        return (
            late,
            Err(format!(
                "{middle} heard, {stamped} accounted for, {off:?} off"
            )),
        );
    }
    if path.is_some() {
        let network = report.table(Stage::Network).expect("frames were joined");
        let p50 = network.p50_ms.expect("some");
        assert!(p50 > 40.0, "the path is in it: {p50} ms");
        assert!(network.lost > 0, "one in a hundred is lost");
    }
    for frame in &report.frames {
        let sum = frame.stages_ms.sum() as f64 / 1e6;
        assert!((sum - frame.mouth_to_ear_ms).abs() < 1.0, "{frame:?}");
    }
    for report in [&report, &back] {
        for stage in [
            Stage::CaptureInterval,
            Stage::Encode,
            Stage::SendQueue,
            Stage::Network,
            Stage::JitterBuffer,
            Stage::Mix,
            Stage::PlayoutInterval,
        ] {
            let table = report.table(stage);
            assert!(table.is_some_and(|it| it.count > 100), "{stage}");
        }
    }
    (late, Ok(()))
}
