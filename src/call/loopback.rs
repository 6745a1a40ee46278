//! Both ends of a call in this process, to measure every stage from mouth to ear.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use glassline_client::call::{
    Devices, Format, Microphone, VirtualDeviceState, VirtualLoudspeaker, VirtualMicrophone,
};
use glassline_lab::call::report::svg;
use glassline_lab::call::{Marks, Pair, Report, Stage, Table};
use parking_lot::Mutex;

use super::options::Options;
use super::terminal::Terminal;
use crate::bench::files::Outputs;
use crate::bench::interrupt;
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};

/// Duration of the call without `--time`.
const TIME: Duration = Duration::from_secs(20);
/// Time between two polls of the call.
const POLL: Duration = Duration::from_millis(100);
/// Played audio that is kept to search for chirps, in seconds: ten minutes.
const PLAYED_MAX_S: usize = 600;
/// Longest delay at which a chirp is searched for.
const DELAY_MAX: Duration = Duration::from_millis(900);

pub(super) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let mut outputs = Outputs::open(&options.tables.files)?;
    let stop = interrupt::listen()?;
    let terminal = Terminal::new(quiet);
    let audio = Audio::open(options)?;
    let Audio {
        devices,
        marks,
        began,
        played_audio,
    } = audio;
    let config = options.config();
    let pair = Pair::start(&config, options.impair.as_ref(), devices);
    let mut pair = pair.map_err(Failure::runtime)?;
    follow(&mut pair, options.time.unwrap_or(TIME), &stop, &terminal);
    let source = options.impair.as_ref().map_or_else(
        || "a call over loopback".to_owned(),
        |it| format!("a call over loopback, {it}"),
    );
    let reports = pair.finish(&source);
    let [mut report, _] = reports.map_err(Failure::runtime)?;
    if let Some(marks) = marks {
        let played_audio = played_audio.lock();
        let note = chirp_note(&report, marks, &began, &played_audio, options.format());
        report.notes.extend(note);
    }
    report.notes.extend(lost_note(&began));
    if options.tables.report {
        outputs.print(|color| report.to_text(color))?;
    } else if !quiet {
        outputs.print(|_| brief(&report))?;
    }
    outputs.write(
        || report.to_json(),
        || report.to_csv(),
        || svg::draw(&report),
    )?;
    let by_stage: BTreeMap<&str, &Table> = report
        .stages
        .iter()
        .map(|table| (table.stage.as_str(), table))
        .collect();
    let misses = options
        .tables
        .fail_if
        .iter()
        .filter_map(|it| it.miss(&by_stage));
    let misses: Vec<String> = misses.collect();
    for miss in &misses {
        eprintln!("{miss}");
    }
    Ok(match misses.as_slice() {
        _ if interrupt::is_stopped(&stop) => ExitCode::from(INTERRUPTED),
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(THRESHOLD_MISSED),
    })
}

/// Runs the call until `time` is over, the user stops it, or one end has ended it.
#[expect(clippy::disallowed_methods, reason = "a command may wait")]
fn follow(pair: &mut Pair, time: Duration, stop: &AtomicBool, terminal: &Terminal) {
    let mut connected = None;
    while !interrupt::is_stopped(stop) {
        let ends = pair.ends();
        if ends.iter().any(|end| end.ended().is_some()) {
            return;
        }
        let figures = ends[1].figures();
        if figures.is_connected {
            connected.get_or_insert_with(Instant::now);
        }
        let since = connected.map(|at| at.elapsed());
        if since.is_some_and(|since| since >= time) {
            return;
        }
        pair.poll();
        let whole = [0.5, 0.99].map(|share| pair.mouth_to_ear_ms(share));
        terminal.show(&figures, since, false, None, whole);
        std::thread::sleep(POLL);
    }
}

/// Devices of both ends: the first end speaks, the second one plays.
struct Audio {
    devices: [Devices; 2],
    /// Chirps in the spoken signal; `None` where the signal comes from a WAV file.
    marks: Option<Marks>,
    began: [VirtualDeviceState; 2],
    played_audio: Arc<Mutex<Vec<f32>>>,
}

impl Audio {
    fn open(options: &Options) -> Result<Self, Failure> {
        let (format, timing) = (options.format(), options.timing());
        let marks = options.audio.wav_in.is_none().then(Marks::default);
        let microphone = match (&options.audio.wav_in, marks) {
            (Some(wav), _) => VirtualMicrophone::wav(wav, timing),
            (None, marks) => {
                let marks = marks.unwrap_or_default();
                let signal = Box::new(move |at_s: f64| marks.sample(at_s) as f32);
                VirtualMicrophone::signal(format, timing, signal)
            }
        };
        let microphone = microphone.map_err(Failure::usage)?;
        let loudspeaker = match &options.audio.wav_out {
            Some(wav) => VirtualLoudspeaker::wav(wav, format, timing),
            None => VirtualLoudspeaker::silent(format, timing),
        };
        let played_audio: Arc<Mutex<Vec<f32>>> = Arc::default();
        let kept = Arc::clone(&played_audio);
        let most = PLAYED_MAX_S * format.rate() as usize;
        let loudspeaker = loudspeaker.map_err(Failure::usage)?;
        let loudspeaker = loudspeaker.tapped(Box::new(move |samples| {
            let mut kept = kept.lock();
            if kept.len() < most {
                kept.extend_from_slice(samples);
            }
        }));
        let began = [microphone.state(), loudspeaker.state()];
        let silent: Box<dyn Microphone> =
            Box::new(VirtualMicrophone::silent(format, timing).map_err(Failure::usage)?);
        let quiet = VirtualLoudspeaker::silent(format, timing).map_err(Failure::usage)?;
        let first = Devices {
            microphone: Box::new(microphone),
            loudspeaker: Box::new(quiet),
        };
        let second = Devices {
            microphone: silent,
            loudspeaker: Box::new(loudspeaker),
        };
        Ok(Self {
            devices: [first, second],
            marks,
            began,
            played_audio,
        })
    }
}

/// Mouth-to-ear delay that the chirps show, beside the one that the stamps show.
fn chirp_note(
    report: &Report,
    marks: Marks,
    began: &[VirtualDeviceState; 2],
    played_audio: &[f32],
    format: Format,
) -> Option<String> {
    let [spoke, played] = [began[0].at()?, began[1].at()?];
    let begun_s = match played.checked_duration_since(spoke) {
        Some(later) => later.as_secs_f64(),
        None => -(spoke - played).as_secs_f64(),
    };
    let found = marks.find(played_audio, format.rate(), begun_s, DELAY_MAX);
    let all = found.len();
    let mut delays: Vec<f64> = found.iter().filter_map(|(_, delay)| *delay).collect();
    delays.sort_by(f64::total_cmp);
    let middle = *delays.get(delays.len() / 2)?;
    let stamped = report.table(Stage::MouthToEar)?.p50_ms?;
    Some(format!(
        "{} of {all} chirps were found in the played audio, p50 {middle:.2} ms after they were \
         spoken; the stages of frames add up to p50 {stamped:.2} ms",
        delays.len()
    ))
}

/// Note on the audio that was lost because this machine did not run the devices' threads in time.
fn lost_note(began: &[VirtualDeviceState; 2]) -> Option<String> {
    let [microphone, loudspeaker] = [began[0].lost(), began[1].lost()];
    (microphone + loudspeaker > 0).then(|| {
        format!(
            "this machine was too busy to run the devices in time: {microphone} periods of the \
             microphone and {loudspeaker} of the loudspeaker were lost"
        )
    })
}

/// A short report: mouth-to-ear delay, and the stages that most of it consists of.
fn brief(report: &Report) -> String {
    let mut out = String::new();
    for stage in [
        Stage::MouthToEar,
        Stage::Send,
        Stage::Network,
        Stage::JitterBuffer,
    ] {
        if let Some(table) = report.table(stage) {
            let figure =
                |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.2}"));
            out += &format!(
                "{:<22} p50 {:>7}  p95 {:>7}  p99 {:>7}  max {:>7} ms  ({} of {})\n",
                stage.title(),
                figure(table.p50_ms),
                figure(table.p95_ms),
                figure(table.p99_ms),
                figure(table.max_ms),
                table.count,
                table.count + table.lost + table.unmatched,
            );
        }
    }
    for note in &report.notes {
        out += note;
        out.push('\n');
    }
    out
}
