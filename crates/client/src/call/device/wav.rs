//! WAV files as microphones and loudspeakers.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use glassline_net::is_named_pipe;
use glassline_voice::Format;
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

use super::DeviceError;

/// A WAV file that is read as its samples are needed; silence after its end.
pub(super) struct Source {
    path: PathBuf,
    reader: WavReader<BufReader<File>>,
    format: Format,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, DeviceError> {
        let reader = opened(path).and_then(|file| WavReader::new(BufReader::new(file)));
        let reader = reader.map_err(|error| failure(path, &error))?;
        let spec = reader.spec();
        let unsuited = |what: &str| DeviceError::File {
            path: path.to_owned(),
            reason: format!("{what}; give 8 to 48 kHz, mono or stereo, 16-bit or float samples"),
        };
        let format =
            Format::new(spec.sample_rate, usize::from(spec.channels)).ok_or_else(|| {
                let (rate, channels) = (spec.sample_rate, spec.channels);
                unsuited(&format!("{rate} Hz, {channels} channels"))
            })?;
        match (spec.sample_format, spec.bits_per_sample) {
            (SampleFormat::Int, 8..=32) | (SampleFormat::Float, 32) => Ok(Self {
                path: path.to_owned(),
                reader,
                format,
            }),
            (kind, bits) => Err(unsuited(&format!("{kind:?} samples of {bits} bits"))),
        }
    }

    pub(super) const fn format(&self) -> Format {
        self.format
    }

    /// Fills `out`; after the file's end with silence.
    pub(super) fn read(&mut self, out: &mut [f32]) -> Result<(), DeviceError> {
        let spec = self.reader.spec();
        let error = |error: hound::Error| failure(&self.path, &error);
        out.fill(0.0);
        match spec.sample_format {
            SampleFormat::Float => {
                let samples = self.reader.samples::<f32>();
                for (place, sample) in out.iter_mut().zip(samples) {
                    *place = sample.map_err(error)?;
                }
            }
            SampleFormat::Int => {
                let full = (1u64 << (spec.bits_per_sample - 1)) as f32;
                let samples = self.reader.samples::<i32>();
                for (place, sample) in out.iter_mut().zip(samples) {
                    *place = sample.map_err(error)? as f32 / full;
                }
            }
        }
        Ok(())
    }
}

/// A WAV file of 16-bit samples whose header is updated every second, so that it is valid
/// whatever happens.
pub(super) struct Sink {
    path: PathBuf,
    writer: WavWriter<BufWriter<File>>,
    format: Format,
    unflushed: usize,
}

impl Sink {
    pub(super) fn create(path: &Path, format: Format) -> Result<Self, DeviceError> {
        let spec = WavSpec {
            channels: u16::try_from(format.channels()).expect("1 or 2"),
            sample_rate: format.rate(),
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let created = match is_named_pipe(path) {
            // The header gets the length at the end, and a pipe does not go back.
            true => Err(invalid("it is a pipe, to which no WAV file can be written").into()),
            false => WavWriter::create(path, spec),
        };
        let writer = created.map_err(|error| failure(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            format,
            unflushed: 0,
        })
    }

    pub(super) fn write(&mut self, samples: &[f32]) -> Result<(), DeviceError> {
        for sample in samples {
            let value = (sample * 32_767.0).round().clamp(-32_768.0, 32_767.0);
            let written = self.writer.write_sample(value as i16);
            written.map_err(|error| failure(&self.path, &error))?;
        }
        self.unflushed += samples.len();
        if self.unflushed >= self.format.rate() as usize * self.format.channels() {
            self.unflushed = 0;
            let flushed = self.writer.flush();
            flushed.map_err(|error| failure(&self.path, &error))?;
        }
        Ok(())
    }

    /// Writes the final length.
    pub(super) fn finish(self) -> Result<(), DeviceError> {
        let path = self.path;
        self.writer
            .finalize()
            .map_err(|error| failure(&path, &error))
    }
}

/// Opens a regular file: the thread that plays waits for no pipe, and a device has no end.
fn opened(path: &Path) -> hound::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => Ok(File::open(path)?),
        false => Err(invalid("it is no regular file").into()),
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn failure(path: &Path, error: &hound::Error) -> DeviceError {
    DeviceError::File {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_then_there_is_silence() {
        let path = std::env::temp_dir().join(format!("glassline-{}.wav", std::process::id()));
        for channels in [1, 2] {
            let format = Format::new(16_000, channels).expect("a voice's");
            let samples: Vec<f32> = (0..20_000)
                .map(|at| (at as f32 / 9.0).sin() * 0.5)
                .collect();
            let mut sink = Sink::create(&path, format).expect("a file");
            sink.write(&samples).expect("written");
            sink.finish().expect("finished");
            let mut source = Source::open(&path).expect("a file");
            assert_eq!(source.format(), format);
            let mut out = vec![1.0; 30_000];
            source.read(&mut out).expect("read");
            for (at, (got, want)) in out.iter().zip(&samples).enumerate() {
                assert!((got - want).abs() < 1e-4, "{at}: {got} {want}");
            }
            assert!(out[20_000..].iter().all(|it| *it == 0.0));
            source.read(&mut out).expect("silence");
            assert!(out.iter().all(|it| *it == 0.0));
        }
        std::fs::remove_file(&path).expect("ours");
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let pipe = std::env::temp_dir().join(format!("glassline-wav-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [&*pipe, Path::new("/dev/zero")] {
            let refused = Source::open(path).err().expect("no file").to_string();
            assert!(refused.contains("no regular file"), "{refused}");
        }
        let format = Format::new(16_000, 1).expect("a voice's");
        let refused = Sink::create(&pipe, format).err().expect("a pipe");
        assert!(refused.to_string().contains("it is a pipe"), "{refused}");
        std::fs::remove_file(&pipe).expect("ours");
    }

    #[test]
    fn what_is_no_voice_is_named_with_what_would_be() {
        let path = std::env::temp_dir().join(format!("glassline-{}-96k.wav", std::process::id()));
        let spec = WavSpec {
            channels: 6,
            sample_rate: 96_000,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let mut writer = WavWriter::create(&path, spec).expect("a file");
        for _ in 0..6 {
            writer.write_sample(0i16).expect("written");
        }
        writer.finalize().expect("finished");
        let text = match Source::open(&path) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("six channels"),
        };
        assert!(
            text.contains("96000 Hz, 6 channels") && text.contains("mono"),
            "{text}"
        );
        std::fs::write(&path, b"RIFF\0\0\0\0").expect("written");
        assert!(Source::open(&path).is_err());
        std::fs::remove_file(&path).expect("ours");
        let missing = Source::open(Path::new("/nowhere/a.wav")).err();
        let text = missing.expect("missing").to_string();
        assert!(text.starts_with("/nowhere/a.wav: "), "{text}");
    }
}
