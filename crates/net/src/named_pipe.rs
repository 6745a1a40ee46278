use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a named pipe for reading, without waiting for a writer. Reads return `WouldBlock` while a
/// writer has written nothing, and no bytes while nobody has the pipe open for writing.
///
/// # Errors
/// Returns the system's error, `InvalidInput` if `path` is no named pipe, or `Unsupported` where the
/// system has none.
pub fn open_named_pipe(path: &Path) -> io::Result<File> {
    sys::open(path)
}

/// Returns whether `path` is a named pipe.
pub fn is_named_pipe(path: &Path) -> bool {
    sys::is_pipe(path)
}

#[cfg(unix)]
mod sys {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    use std::path::Path;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        // Asked of what was opened: the path may have been replaced meanwhile.
        if file.metadata()?.file_type().is_fifo() {
            Ok(file)
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "is no longer a named pipe",
            ))
        }
    }

    pub(super) fn is_pipe(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
    }
}

#[cfg(not(unix))]
mod sys {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn open(_: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) const fn is_pipe(_: &Path) -> bool {
        false
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_named_pipe_opens_without_a_writer_and_tells_when_it_has_one() {
        let path = std::env::temp_dir().join(format!("glassline-fifo-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        assert!(is_named_pipe(&path) && !is_named_pipe(Path::new("/")));
        let mut pipe = open_named_pipe(&path).expect("a pipe");
        let mut bytes = [0; 8];
        assert_eq!(pipe.read(&mut bytes).expect("nobody writes"), 0);
        let mut writer = File::options().write(true).open(&path).expect("a reader");
        let error = pipe.read(&mut bytes).expect_err("nothing was written");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        writer.write_all(b"media").expect("room");
        assert_eq!(pipe.read(&mut bytes).expect("bytes"), 5);
        drop(writer);
        assert_eq!(pipe.read(&mut bytes).expect("the end"), 0);
        let _ = std::fs::remove_file(&path);
        let error = open_named_pipe(Path::new("/")).expect_err("a folder");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
