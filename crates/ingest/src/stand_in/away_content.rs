use std::path::{Path, PathBuf};
use std::sync::Arc;

use glassline_runtime::small_file;
use glassline_transcode::{NoStill, Placeholder};

use crate::{Away, PlaceholderKind};

/// Largest image that is read.
const IMAGE_BYTES_MAX: u64 = 16 << 20;

/// The stand-in for a source, with the image that was read for it.
#[derive(Clone, Debug)]
pub(crate) struct AwayContent {
    pub away: Away,
    /// The image to show, as a JPEG file.
    pub(super) image: Option<Arc<[u8]>>,
}

/// The reason why the image of a placeholder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error that the system returned.
        source: std::io::Error,
    },
    /// The file is too large, or no image.
    #[error("{path}: {source}")]
    NoImage {
        /// Path of the file.
        path: PathBuf,
        /// The fault of the file.
        source: NoStill,
    },
}

impl AwayContent {
    /// Reads the image that `away` names, and encodes it once, so that a broken one is found at start.
    ///
    /// # Errors
    /// Returns [`ImageError`].
    pub(crate) fn load(away: Away) -> Result<Self, ImageError> {
        let image = match &away.placeholder {
            Some(PlaceholderKind::Image(path)) => Some(load_image(path)?),
            _ => None,
        };
        Ok(Self { away, image })
    }
}

fn load_image(path: &Path) -> Result<Arc<[u8]>, ImageError> {
    let refused = |source| ImageError::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = small_file::read(path, IMAGE_BYTES_MAX).map_err(refused)?;
    let made = Placeholder::of_jpeg(&bytes, None);
    made.map_err(|source| ImageError::NoImage {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes.into())
}
