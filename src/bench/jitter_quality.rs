//! `bench jitter --quality`: the buffers play speech, and a Python program scores what is heard.
//!
//! ```text
//! voice_scores.py make ─► speech ─► Opus ─► every buffer ─► files ─► voice_scores.py score
//! ```

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use glassline_lab::jitter::quality::{self, Coding, Concealment, Player, Purpose};
use glassline_lab::jitter::report::Figures;
use glassline_lab::jitter::report::quality::{Judged, JudgedTrace, QualityReport, Scores};
use glassline_lab::jitter::{Ours, Stream};
use glassline_media::Bitrate;
use glassline_sim::Delays;
use serde_json::Value;

use super::interrupt::is_stopped;
use super::quantity;
use crate::exit::Failure;

/// The program that makes speech and scores what was heard.
const SCORES: &str = include_str!("../../peers/voice_scores.py");

/// Python of `cargo xtask voice-quality`, seen from a checkout.
const ENVIRONMENT: &str = "target/peers/voice-quality/bin/python";

/// How to get the environment.
const REMEDY: &str = "`cargo xtask voice-quality` installs numpy, scipy, pesq and speechmos with \
                      their Python, and espeak-ng; --python names another Python";

/// Scores by their names in JSON and in tables.
const NAMES: [(&str, &str); 2] = [("pesq_wb", "PESQ-WB"), ("plcmos", "PLCMOS")];

// Speech through the buffers. (A doc comment here would replace the command's help.)
#[derive(Debug, Args)]
pub(super) struct QualityOptions {
    /// Score each buffer's speech by PESQ-WB and PLCMOS; takes minutes. `cargo xtask voice-quality`
    /// installs both.
    #[arg(long)]
    quality: bool,
    /// Speak this WAV file (mono, 16 bits) instead of espeak-ng's voices. Repeatable.
    #[arg(long, value_name = "FILE", requires = "quality")]
    speech: Vec<PathBuf>,
    /// Python with the scores' packages [default: that of `cargo xtask voice-quality`, or python3].
    #[arg(long, value_name = "PROGRAM", requires = "quality")]
    python: Option<PathBuf>,
    /// Encoding: for few bits, or for the least delay.
    #[arg(long, value_enum, default_value_t = Purposes::Voip, requires = "quality")]
    coding: Purposes,
    /// Bitrate of the speech [default: 32k, of low-delay 48k].
    #[arg(long, value_name = "RATE", value_parser = quantity::bitrate, requires = "quality")]
    bitrate: Option<u64>,
    /// Expect this share of losses and add in-band FEC (voip only).
    #[arg(long, value_name = "PERCENT", value_parser = quantity::percentage, requires = "quality")]
    fec: Option<f64>,
    /// Add a whole copy of each packet to the next one (RFC 2198), for our buffer.
    #[arg(long, requires = "quality")]
    red: bool,
    /// Conceal losses by Opus's neural network.
    #[arg(long, requires = "quality")]
    deep: bool,
}

/// Purposes of Opus by their names in flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Purposes {
    Voip,
    LowDelay,
}

impl QualityOptions {
    /// Whether buffers play speech.
    pub(super) const fn is_wanted(&self) -> bool {
        self.quality
    }

    fn coding(&self) -> Coding {
        let (purpose, bps) = match self.coding {
            Purposes::Voip => (Purpose::Voip, 32_000),
            Purposes::LowDelay => (Purpose::LowDelay, 48_000),
        };
        Coding {
            purpose,
            bitrate: Bitrate::from_bps(self.bitrate.unwrap_or(bps)),
            expected_loss: self.fec.unwrap_or(0.0) / 100.0,
            repeats: self.red,
            concealment: match self.deep {
                true => Concealment::Deep,
                false => Concealment::Classic,
            },
        }
    }
}

/// The played stream, its player, and its judge.
pub(super) struct Judgement<'a> {
    /// Names and delays of the traces.
    pub(super) traces: &'a [(&'a str, Delays)],
    /// Time between two packets.
    pub(super) interval: Duration,
    pub(super) ours: Ours,
    pub(super) options: &'a QualityOptions,
}

/// A folder that is removed at the end of the run.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What the system cleans up anyway may stay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Judgement<'_> {
    /// Plays and scores every buffer. Calls `progress` with the steps that are done, all steps,
    /// and what is next. `None` if `stop` became true.
    pub(super) fn run(
        &self,
        stop: &AtomicBool,
        mut progress: impl FnMut(usize, usize, &str),
    ) -> Result<Option<QualityReport>, Failure> {
        let frame = quality::frame_of(self.interval)
            .ok_or_else(|| Failure::usage("--quality needs --interval 10ms or 20ms"))?;
        let coding = self.options.coding();
        let started = glassline_lab::timestamp::now();
        let players = Player::all(self.ours);
        // Each buffer plays each trace, and is scored on it.
        let runs = players.len() * self.traces.len();
        let steps = 2 * runs + 1;
        progress(0, steps, "speech");
        self.require_a_score()?;
        let folder = self.folder()?;
        let speech = self.make(&folder.0)?;
        let spoken = quality::encode(&speech, frame, &coding).map_err(Failure::runtime)?;
        let mut judged = Vec::new();
        let mut files = Vec::new();
        for (trace, delays) in self.traces {
            let stream = Stream {
                delays,
                interval: self.interval,
            };
            for player in &players {
                if is_stopped(stop) {
                    return Ok(None);
                }
                let step = 1 + files.len();
                progress(step, steps, &format!("{} on {trace}", player.name()));
                let heard = player.play(&stream, &spoken);
                let file = folder.0.join(format!("{step}.s16"));
                store(&file, &heard.samples)?;
                files.push(file);
                judged.push(Judged {
                    name: player.name(),
                    figures: Figures::from(&heard.outcome),
                    scores: Scores::default(),
                });
            }
        }
        let Some(skipped) = self.score(&folder.0, &files, &mut judged, stop, |done| {
            let player = players[done % players.len()].name();
            let trace = self.traces.get(done / players.len());
            let what = trace.map_or(String::new(), |it| {
                format!("scores of {player} on {}", it.0)
            });
            progress(1 + runs + done, steps, &what);
        })?
        else {
            return Ok(None);
        };
        let of_traces = self.traces.iter().zip(judged.chunks(players.len()));
        let traces = of_traces.map(|((trace, delays), judged)| {
            JudgedTrace::new(trace, delays.packets().len() as u64, judged.to_vec())
        });
        Ok(Some(QualityReport::new(
            started,
            self.interval.as_secs_f64() * 1e3,
            coding.to_string(),
            skipped,
            traces.collect(),
        )))
    }

    /// Fails unless the Python can give a score, before anything is played.
    fn require_a_score(&self) -> Result<(), Failure> {
        let mut command = self.python();
        let output = command.arg("check").stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| self.failure(&error.to_string()))?;
        self.check(Ok(output.status), "no scores can be given")?;
        let missing = missing(&String::from_utf8_lossy(&output.stdout));
        match missing.len() < NAMES.len() {
            true => Ok(()),
            false => Err(self.failure(&missing.join("; "))),
        }
    }

    fn folder(&self) -> Result<Folder, Failure> {
        let name = format!("glassline-quality-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::runtime(format_args!("{}: {error}", folder.display())))?;
        Ok(Folder(folder))
    }

    /// Makes speech for the longest trace, at 48 kHz.
    fn make(&self, folder: &Path) -> Result<Vec<f32>, Failure> {
        let packets = self.traces.iter().map(|it| it.1.packets().len()).max();
        let seconds = packets.unwrap_or(0) as f64 * self.interval.as_secs_f64();
        let mut command = self.python();
        command.arg("make").arg(folder).arg(seconds.to_string());
        let status = command.args(&self.options.speech).status();
        self.check(status, "no speech was made")?;
        let path = folder.join("speech.s16");
        let bytes = std::fs::read(&path)
            .map_err(|error| Failure::runtime(format_args!("{}: {error}", path.display())))?;
        let samples = bytes.as_chunks::<2>().0.iter();
        let samples = samples.map(|it| f32::from(i16::from_le_bytes(*it)) / 32_768.0);
        let frames = (seconds * f64::from(quality::SPEECH_HZ)).round() as usize;
        Ok(samples.take(frames).collect())
    }

    /// Fills in the scores, and returns those that were skipped. `None` if `stop` became true.
    fn score(
        &self,
        folder: &Path,
        files: &[PathBuf],
        judged: &mut [Judged],
        stop: &AtomicBool,
        mut progress: impl FnMut(usize),
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut command = self.python();
        command.arg("score").arg(folder.join("reference.s16"));
        let mut child = command
            .args(files)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.failure(&error.to_string()))?;
        let output = child.stdout.take().expect("it is piped");
        let mut skipped = Vec::new();
        let mut done = 0;
        for (place, line) in BufReader::new(output).lines().enumerate() {
            let line = line.map_err(|error| self.failure(&error.to_string()))?;
            match place.checked_sub(1) {
                None => skipped = missing(&line),
                Some(at) => {
                    if let Some(judged) = judged.get_mut(at) {
                        judged.scores = scores(&line);
                    }
                    done = place;
                }
            }
            if is_stopped(stop) {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
            progress(done);
        }
        for it in &mut skipped {
            *it = format!("{it}; {REMEDY}");
        }
        self.check(child.wait(), "no scores were given")?;
        if done < judged.len() {
            return Err(self.failure("scores are missing"));
        }
        Ok(Some(skipped))
    }

    fn python(&self) -> Command {
        let mut command = Command::new(self.interpreter());
        command.arg("-c").arg(SCORES);
        command
    }

    fn interpreter(&self) -> &Path {
        match &self.options.python {
            Some(python) => python,
            None if Path::new(ENVIRONMENT).is_file() => Path::new(ENVIRONMENT),
            None => Path::new("python3"),
        }
    }

    fn check(&self, status: std::io::Result<ExitStatus>, otherwise: &str) -> Result<(), Failure> {
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(self.failure(otherwise)),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    fn failure(&self, why: &str) -> Failure {
        let python = self.interpreter().display();
        Failure::runtime(format_args!("{python}: {why}; {REMEDY}"))
    }
}

/// Reads the first line of the scores: what is missing, by score.
fn missing(line: &str) -> Vec<String> {
    let found: Value = serde_json::from_str(line).unwrap_or_default();
    let named = NAMES.iter().filter_map(|(key, name)| {
        let why = found.get(*key)?.as_str()?;
        Some(format!("{name}: {why}"))
    });
    named.collect()
}

fn scores(line: &str) -> Scores {
    let found: Value = serde_json::from_str(line).unwrap_or_default();
    let score = |key: &str| found.get(key).and_then(Value::as_f64);
    Scores {
        pesq_wb: score("pesq_wb"),
        plcmos: score("plcmos"),
    }
}

fn store(path: &Path, samples: &[f32]) -> Result<(), Failure> {
    let bytes = samples.iter().flat_map(|sample| {
        let value = (sample * 32_767.0).round().clamp(-32_768.0, 32_767.0);
        (value as i16).to_le_bytes()
    });
    std::fs::write(path, bytes.collect::<Vec<u8>>())
        .map_err(|error| Failure::runtime(format_args!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    #[test]
    fn a_missing_score_is_skipped_by_name() {
        let skipped = missing(r#"{"plcmos": "No module named 'speechmos'"}"#);
        assert_eq!(skipped, ["PLCMOS: No module named 'speechmos'"]);
        assert!(missing("{}").is_empty());
        let given = scores(r#"{"pesq_wb": 3.25}"#);
        assert_eq!((given.pesq_wb, given.plcmos), (Some(3.25), None));
        assert_eq!(scores(r#"{"pesq_wb": null}"#), Scores::default());
    }

    #[test]
    fn a_python_that_is_missing_or_gives_no_score_ends_the_run_before_anything_is_played() {
        let interval = Duration::from_millis(20);
        let delays = Delays::of_family("clean".parse().expect("a family"), 1, 100, interval);
        for (python, reason) in [("/nowhere/python3", "No such file"), ("false", "no scores")] {
            let options = ["--quality", "--python", python];
            let options: QualityOptions = test_flags::parse(&options).expect("flags");
            let judgement = Judgement {
                traces: &[("clean", delays.clone())],
                interval,
                ours: Ours::default(),
                options: &options,
            };
            let mut last = 0;
            let found = judgement.run(&AtomicBool::new(false), |step, _, _| last = step);
            let error = found.expect_err("there is no judge").to_string();
            for word in [python, reason, "cargo xtask voice-quality", "pesq"] {
                assert!(error.contains(word), "{error}");
            }
            assert_eq!(last, 0, "nothing was played");
        }
    }

    #[test]
    fn the_coding_follows_from_the_flags() {
        let coding = |flags: &[&str]| {
            let options: QualityOptions = test_flags::parse(flags).expect("flags");
            options.coding()
        };
        assert_eq!(coding(&[]), Coding::default());
        let low = coding(&["--quality", "--coding", "low-delay", "--red", "--deep"]);
        assert_eq!(
            (low.purpose, low.bitrate.bps()),
            (Purpose::LowDelay, 48_000)
        );
        assert!(low.repeats && low.concealment == Concealment::Deep);
        let fec = coding(&["--quality", "--fec", "5%", "--bitrate", "24k"]);
        assert_eq!((fec.expected_loss, fec.bitrate.bps()), (0.05, 24_000));
    }
}
