//! What a caller of the API may name as a source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_config::ApiSources;
use glassline_ingest::{AddressLimits, Input, Reach};

/// Longest time that a camera's name has to be resolved before its source is taken as it is. Its
/// addresses are checked whenever it is dialled.
const RESOLVING: Duration = Duration::from_secs(2);

/// The names that a caller may use: addresses, and folders of files.
#[derive(Clone, Debug)]
pub(super) struct Permitted {
    addresses: AddressLimits,
    folders: Vec<PathBuf>,
}

/// The reason why a source must not be named over the API.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NotPermitted {
    /// The camera's address is one of those that callers may not reach.
    #[error("{0}")]
    Address(String),
    /// The source is a program.
    #[error("programs (exec:, ffmpeg:, /dev/video0) can be sources of the configuration alone")]
    Program,
    /// No folder is configured.
    #[error(
        "files cannot be named over the API: `admin.sources.folders` has no folder that they may be in"
    )]
    NoFolder,
    /// The file is in none of the folders, or does not exist.
    #[error(
        "{} is no file of a folder in `admin.sources.folders`", .0.display()
    )]
    File(PathBuf),
}

impl Permitted {
    pub(super) fn new(limits: &ApiSources) -> Self {
        Self {
            addresses: AddressLimits {
                private: limits.private,
                loopback: limits.loopback,
            },
            folders: limits.folders.clone(),
        }
    }

    /// Returns the limits of addresses.
    pub(super) fn addresses(&self) -> AddressLimits {
        self.addresses
    }

    /// Checks what a caller names now: as [`limit`](Self::limit), and with the present addresses of a
    /// camera's name, so that the caller learns at once what is wrong.
    ///
    /// # Errors
    /// Returns [`NotPermitted`] with what is named and must not be.
    pub(super) async fn check(&self, input: Input) -> Result<Input, NotPermitted> {
        let input = self.limit(input).await?;
        if let Some(camera) = input.camera() {
            let (host, port) = camera.host_and_port();
            let resolving = camera.reach.resolve(host, port);
            // A camera that is switched off, or a name that is not known yet, is no mistake.
            if let Ok(Err(error)) = tokio::time::timeout(RESOLVING, resolving).await
                && error.kind() == std::io::ErrorKind::PermissionDenied
            {
                return Err(NotPermitted::Address(error.to_string()));
            }
        }
        Ok(input)
    }

    /// Limits `input` to what may be dialled and read, and returns it.
    ///
    /// # Errors
    /// Returns [`NotPermitted`] with a file that must not be named.
    pub(super) async fn limit(&self, mut input: Input) -> Result<Input, NotPermitted> {
        if input.command().is_some() {
            return Err(NotPermitted::Program);
        }
        if let Some(camera) = input.camera_mut() {
            camera.reach = Reach::Within(self.addresses);
        }
        let folders = self.folders.clone();
        let limiting = super::CHANGING.run(move || {
            for path in input.paths_mut() {
                *path = within(&folders, path)?;
            }
            Ok(input)
        });
        limiting
            .await
            .unwrap_or_else(|_| Err(NotPermitted::File(PathBuf::new())))
    }
}

/// Returns the path of an existing file without links and `..`, if one of `folders` has it. A
/// relative path is looked for in each of them.
fn within(folders: &[PathBuf], path: &Path) -> Result<PathBuf, NotPermitted> {
    if folders.is_empty() {
        return Err(NotPermitted::NoFolder);
    }
    for folder in folders {
        let Ok(folder) = folder.canonicalize() else {
            tracing::warn!(folder = %folder.display(), "a folder of `admin.sources.folders` cannot be read");
            continue;
        };
        match folder.join(path).canonicalize() {
            Ok(file) if file.starts_with(&folder) && file.is_file() => return Ok(file),
            _ => {}
        }
    }
    // Whether a file elsewhere exists is not told.
    Err(NotPermitted::File(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn permitted(folders: Vec<PathBuf>) -> Permitted {
        Permitted::new(&ApiSources {
            folders,
            ..ApiSources::default()
        })
    }

    async fn limited(permitted: &Permitted, source: &str) -> Result<String, String> {
        let input = Input::parse(source).expect(source);
        let checked = permitted.check(input).await;
        checked
            .map(|it| it.to_string())
            .map_err(|it| it.to_string())
    }

    #[tokio::test]
    async fn cameras_are_private_or_public_and_never_this_machine_or_a_metadata_service() {
        let usual = permitted(Vec::new());
        for good in [
            "rtsp://192.168.1.20/main",
            "rtsp://[fd12::1]/",
            "rtsp://8.8.8.8:8554/x",
            "http://192.168.1.20/mjpg",
        ] {
            assert!(limited(&usual, good).await.is_ok(), "{good}");
        }
        let bad = [
            "rtsp://127.0.0.1:9997/",
            "rtsp://localhost/",
            "rtsp://[::1]/",
            "rtsp://[::ffff:127.0.0.1]/",
            "rtsp://169.254.169.254/latest",
            "rtsp://[::ffff:a9fe:a9fe]/",
            "rtsp://[64:ff9b::a9fe:a9fe]/",
            "rtsp://0.0.0.0/",
            // Forms that resolvers take for addresses.
            "rtsp://2130706433/",
            "rtsp://0x7f.1/",
            "rtsp://0177.0.0.1/",
            "http://127.0.0.1:9997/",
            "https://localhost/",
            "http://169.254.169.254/latest/meta-data",
            // Programs are no business of the API.
            "exec:cat /etc/passwd",
            "ffmpeg:http://169.254.169.254/",
            "/dev/video0",
        ];
        for bad in bad {
            assert!(limited(&usual, bad).await.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn files_are_below_the_folders_whatever_links_and_dots_say() {
        let root = std::env::temp_dir().join(format!("glassline-permitted-{}", std::process::id()));
        let (inside, outside) = (root.join("inside"), root.join("outside"));
        fs::create_dir_all(inside.join("deep")).expect("ours");
        fs::create_dir_all(&outside).expect("ours");
        for file in [
            inside.join("deep/a.mp4"),
            outside.join("b.mp4"),
            outside.join("b.jpg"),
        ] {
            fs::write(file, "x").expect("ours");
        }
        #[cfg(unix)]
        {
            let link = |to: &Path, name: &str| {
                std::os::unix::fs::symlink(to, inside.join(name)).expect("ours");
            };
            link(&outside.join("b.mp4"), "file.mp4");
            link(&outside, "folder");
        }
        let none = limited(&permitted(Vec::new()), "a.mp4")
            .await
            .expect_err("no folder");
        assert!(none.contains("admin.sources.folders"), "{none}");
        let permitted = permitted(vec![root.join("missing"), inside.clone()]);
        let whole = inside.join("deep/a.mp4");
        for good in [
            "deep/a.mp4",
            "deep/../deep/a.mp4",
            &whole.display().to_string(),
        ] {
            let path = limited(&permitted, good).await.expect(good);
            assert!(path.ends_with("inside/deep/a.mp4"), "{path}");
        }
        let elsewhere = outside.join("b.mp4").display().to_string();
        let bad = [
            "../outside/b.mp4",
            "file.mp4",
            "folder/b.mp4",
            "deep",
            "missing.mp4",
            "/etc/passwd",
            &elsewhere,
            "deep/a.mp4,../outside/b.mp4",
            "publisher?placeholder=../outside/b.jpg",
            "rtsp://192.0.2.1/?placeholder=../outside/b.jpg",
        ];
        for bad in bad {
            assert!(limited(&permitted, bad).await.is_err(), "{bad}");
        }
        fs::remove_dir_all(root).expect("ours");
    }
}
