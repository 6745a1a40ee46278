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

use glassline_lab::jitter::quality::{self, Player};
use glassline_lab::jitter::report::Figures;
use glassline_lab::jitter::report::quality::{Difference, Judged, QualityReport, Scores};
use glassline_lab::jitter::{Ours, Stream};
use serde_json::Value;

use super::interrupt::is_stopped;
use crate::exit::Failure;

/// The program that makes speech and scores what was heard.
const SCORES: &str = include_str!("../../peers/voice_scores.py");

/// Python of `cargo xtask voice-quality`, seen from a checkout.
const ENVIRONMENT: &str = "target/peers/voice-quality/bin/python";

/// How to get the environment.
const REMEDY: &str = "`cargo xtask voice-quality` installs it; --python names another Python";

/// Scores by their names in JSON and in tables.
const NAMES: [(&str, &str); 2] = [("pesq_wb", "PESQ-WB"), ("plcmos", "PLCMOS")];

/// What is played, by whom, and who judges.
pub(super) struct Judgement<'a> {
    pub(super) trace: &'a str,
    pub(super) stream: Stream<'a>,
    pub(super) ours: Ours,
    /// WAV files to speak instead of espeak-ng.
    pub(super) speech: &'a [PathBuf],
    pub(super) python: Option<&'a Path>,
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
    /// and the buffer that is next. `None` if `stop` became true.
    pub(super) fn run(
        &self,
        stop: &AtomicBool,
        mut progress: impl FnMut(usize, usize, &str),
    ) -> Result<Option<QualityReport>, Failure> {
        let frame = quality::frame_of(self.stream.interval)
            .ok_or_else(|| Failure::usage("--quality needs --interval 10ms or 20ms"))?;
        let started = glassline_lab::timestamp::now();
        let players = Player::all(self.ours);
        let steps = 2 * players.len() + 1;
        progress(0, steps, "speech");
        let folder = self.folder()?;
        let speech = self.make(&folder.0)?;
        let spoken = quality::encode(&speech, frame).map_err(Failure::runtime)?;
        let mut contenders = Vec::new();
        let mut files = Vec::new();
        for (place, player) in players.iter().enumerate() {
            if is_stopped(stop) {
                return Ok(None);
            }
            progress(1 + place, steps, &player.name());
            let heard = player.play(&self.stream, &spoken);
            let file = folder.0.join(format!("{place}.s16"));
            store(&file, &heard.samples)?;
            files.push(file);
            contenders.push(Judged {
                name: player.name(),
                figures: Figures::from(&heard.outcome),
                scores: Scores::default(),
            });
        }
        let Some(skipped) = self.score(&folder.0, &files, &mut contenders, stop, |done| {
            let name = players.get(done).map(Player::name).unwrap_or_default();
            progress(
                1 + players.len() + done,
                steps,
                &format!("scores of {name}"),
            );
        })?
        else {
            return Ok(None);
        };
        Ok(Some(QualityReport {
            trace: self.trace.to_owned(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            packets: self.stream.delays.packets().len() as u64,
            interval_ms: self.stream.interval.as_secs_f64() * 1e3,
            skipped,
            beside_m98: Difference::of(&contenders[0], &contenders[1]),
            contenders,
        }))
    }

    fn folder(&self) -> Result<Folder, Failure> {
        let name = format!("glassline-quality-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::runtime(format_args!("{}: {error}", folder.display())))?;
        Ok(Folder(folder))
    }

    /// Makes speech for all packets, at 48 kHz.
    fn make(&self, folder: &Path) -> Result<Vec<f32>, Failure> {
        let interval: Duration = self.stream.interval;
        let packets = self.stream.delays.packets().len();
        let seconds = packets as f64 * interval.as_secs_f64();
        let mut command = self.python();
        command.arg("make").arg(folder).arg(seconds.to_string());
        let status = command.args(self.speech).status();
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
        contenders: &mut [Judged],
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
                    if let Some(judged) = contenders.get_mut(at) {
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
        self.check(child.wait(), "no scores were given")?;
        if done < contenders.len() {
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
        match self.python {
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
        Some(format!("{name}: {why}; {REMEDY}"))
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

    #[test]
    fn a_missing_score_is_skipped_by_name() {
        let skipped = missing(r#"{"plcmos": "No module named 'speechmos'"}"#);
        assert_eq!(skipped.len(), 1);
        assert!(skipped[0].starts_with("PLCMOS: No module named 'speechmos'; `cargo xtask"));
        assert!(missing("{}").is_empty());
        let given = scores(r#"{"pesq_wb": 3.25}"#);
        assert_eq!((given.pesq_wb, given.plcmos), (Some(3.25), None));
        assert_eq!(scores(r#"{"pesq_wb": null}"#), Scores::default());
    }
}
