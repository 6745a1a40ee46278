//! Files of a bounded size that an operator names or the server keeps. Whatever else is at such a path,
//! like a pipe that nobody writes to or a device without an end, is an error and holds nothing up.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use glassline_net::{is_named_pipe, open_named_pipe};

/// Time that the writer of a pipe has to write everything, and the interval at which more is looked for.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);
const PIPE_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the content of a regular file.
///
/// # Errors
/// Returns the system's error, `InvalidInput` if something else is at `path`, or `InvalidData` if the
/// file has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    bounded(open(path)?, bytes_max)
}

/// Opens a regular file for reading.
///
/// # Errors
/// Returns the system's error, or `InvalidInput` if something else is at `path`.
pub fn open(path: &Path) -> io::Result<File> {
    // Asked before the file is opened: opening a named pipe waits for somebody who writes to it.
    if !fs::metadata(path)?.is_file() {
        let what = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    File::open(path)
}

/// Returns the text of a regular file.
///
/// # Errors
/// Returns the errors of [`read`], and `InvalidData` if the content is no UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text(read(path, bytes_max)?)
}

/// Returns the text of a file, of a device, or of a pipe, as shells make one for `<(…)`.
///
/// # Errors
/// Returns the errors of [`read_text`], `InvalidInput` for a pipe that nobody writes to, and `TimedOut`
/// for one whose writer does not end within ten seconds.
pub fn read_text_or_pipe(path: &Path, bytes_max: u64) -> io::Result<String> {
    let read = match is_named_pipe(path) {
        true => bounded(PatientPipe::open(path)?, bytes_max)?,
        false => bounded(File::open(path)?, bytes_max)?,
    };
    text(read)
}

/// A pipe whose reads wait for its writer, up to a deadline.
struct PatientPipe {
    pipe: File,
    until: Instant,
    /// Whether a writer was there.
    is_written: bool,
}

impl PatientPipe {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            pipe: open_named_pipe(path)?,
            until: Instant::now() + PIPE_PATIENCE,
            is_written: false,
        })
    }
}

impl Read for PatientPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.pipe.read(buffer);
            let waits = matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if !waits {
                if matches!(read, Ok(0)) && !self.is_written {
                    let what = "it is a pipe that nobody writes to";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
                self.is_written = true;
                return read;
            }
            if Instant::now() >= self.until {
                let what = "it is a pipe whose writer does not end within ten seconds";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            std::thread::sleep(PIPE_INTERVAL);
        }
    }
}

/// Reads to the end. The size that a system states is no bound: a file grows, and devices state none.
fn bounded(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => {
            let what = format!("it has more than {bytes_max} bytes, which are read at most");
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
        false => Ok(bytes),
    }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = format!("glassline-small-file-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            Self(folder)
        }

        fn pipe(&self) -> PathBuf {
            let pipe = self.0.join("pipe");
            let made = Command::new("mkfifo").arg(&pipe).status();
            assert!(made.expect("mkfifo").success());
            pipe
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn kind<T>(read: io::Result<T>) -> Option<io::ErrorKind> {
        read.err().map(|error| error.kind())
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = Folder::new("bound");
        let file = folder.0.join("file");
        assert_eq!(kind(read(&file, 4)), Some(io::ErrorKind::NotFound));
        fs::write(&file, "four").expect("written");
        assert_eq!(read_text(&file, 4).expect("it fits"), "four");
        let invalid = Some(io::ErrorKind::InvalidData);
        assert_eq!(kind(read(&file, 3)), invalid);
        fs::write(&file, [0xff]).expect("written");
        assert_eq!(read(&file, 4).expect("bytes"), [0xff]);
        assert_eq!(kind(read_text(&file, 4)), invalid);
    }

    #[test]
    fn a_pipe_a_device_and_a_folder_hold_nothing_up() {
        let folder = Folder::new("special");
        let pipe = folder.pipe();
        let refused = Some(io::ErrorKind::InvalidInput);
        for path in [&*pipe, Path::new("/dev/zero"), &*folder.0] {
            assert_eq!(kind(read(path, 100)), refused, "{}", path.display());
        }
        assert_eq!(kind(read_text_or_pipe(&pipe, 100)), refused);
        let endless = read_text_or_pipe(Path::new("/dev/zero"), 100);
        assert_eq!(kind(endless), Some(io::ErrorKind::InvalidData));
        let empty = read_text_or_pipe(Path::new("/dev/null"), 100);
        assert_eq!(empty.expect("nothing"), "");
    }

    #[test]
    fn a_pipe_is_read_where_it_may_be_one() {
        let folder = Folder::new("pipe");
        let pipe = folder.pipe();
        // What is written stays in the pipe as long as somebody has it open.
        let _open = open_named_pipe(&pipe).expect("a pipe");
        let mut writer = File::options().write(true).open(&pipe).expect("a reader");
        writer.write_all(b"admin: ").expect("room");
        let reading = std::thread::spawn(move || read_text_or_pipe(&pipe, 100));
        writer.write_all(b"off").expect("room");
        drop(writer);
        let text = reading.join().expect("no panic").expect("a text");
        assert_eq!(text, "admin: off");
    }
}
