use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glassline_hub::StreamName;

use super::{SpecError, seconds, switch};
use crate::stream_names;

/// The media that receivers get while a source is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Stream whose units are published instead.
    pub fallback: Option<StreamName>,
    /// The placeholder if there is no fallback, or the fallback is away, too; `None` for nothing.
    pub placeholder: Option<PlaceholderKind>,
    /// Time after which a source that is not connected counts as away.
    pub after: Duration,
    /// Time without a unit after which a source that is connected counts as away.
    pub silence: Duration,
}

/// The image of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceholderKind {
    /// The source's last keyframe.
    LastKeyframe,
    /// An image in JPEG's format.
    Image(PathBuf),
}

/// Time after which a source that is not connected counts as away, unless the source says otherwise:
/// a camera that was reached again at the first attempts is not.
const AFTER: Duration = Duration::from_secs(2);

/// Time without a unit after which a source that is connected counts as away, unless the source says
/// otherwise: its status is [`Status::Hangs`](glassline_hub::Status::Hangs) from then on.
const SILENCE: Duration = Duration::from_secs(8);

impl Default for Away {
    fn default() -> Self {
        Self {
            fallback: None,
            placeholder: None,
            after: AFTER,
            silence: SILENCE,
        }
    }
}

impl Away {
    /// Whether anything is published while the source is away.
    pub fn is_used(&self) -> bool {
        self.fallback.is_some() || self.placeholder.is_some()
    }

    /// Returns the path of the image to show, if there is one.
    pub(super) fn image_mut(&mut self) -> Option<&mut PathBuf> {
        match &mut self.placeholder {
            Some(PlaceholderKind::Image(path)) => Some(path),
            Some(PlaceholderKind::LastKeyframe) | None => None,
        }
    }

    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match key {
            "fallback" => {
                self.fallback = Some(stream_names::parse(value).map_err(SpecError::Name)?);
            }
            "placeholder" if is_jpeg(value) => {
                self.placeholder = Some(PlaceholderKind::Image(value.into()));
            }
            "placeholder" => {
                let is_on = switch("placeholder", value, "nothing, true, false, or a .jpg file")?;
                self.placeholder = is_on.then_some(PlaceholderKind::LastKeyframe);
            }
            "after_s" => self.after = seconds("after_s", value)?,
            "silent_s" => self.silence = seconds("silent_s", value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes the options that differ from the defaults, with `separator` before the first.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, separator: char) -> fmt::Result {
        self.write_with(f, separator, '&')
    }

    /// Writes the options that differ from the defaults, with `separator` before the first and `next`
    /// before each other one.
    pub(super) fn write_with(
        &self,
        f: &mut fmt::Formatter<'_>,
        mut separator: char,
        next: char,
    ) -> fmt::Result {
        if let Some(fallback) = &self.fallback {
            write!(f, "{separator}fallback={fallback}")?;
            separator = next;
        }
        match &self.placeholder {
            None => {}
            Some(PlaceholderKind::LastKeyframe) => write!(f, "{separator}placeholder")?,
            Some(PlaceholderKind::Image(path)) => {
                write!(f, "{separator}placeholder={}", path.display())?;
            }
        }
        if self.placeholder.is_some() {
            separator = next;
        }
        if self.after != AFTER {
            write!(f, "{separator}after_s={}", self.after.as_secs_f64())?;
            separator = next;
        }
        if self.silence != SILENCE {
            write!(f, "{separator}silent_s={}", self.silence.as_secs_f64())?;
        }
        Ok(())
    }
}

fn is_jpeg(name: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|it| {
        ["jpg", "jpeg"]
            .iter()
            .any(|jpeg| it.eq_ignore_ascii_case(jpeg))
    })
}
