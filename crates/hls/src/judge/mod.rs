//! Judge of playlists by draft-pantos-hls-rfc8216bis-22.
//!
//! ```text
//! Reading ───► media, multivariant, version ─┐
//! reloads ───► Follower: what may change ────┼──► Findings: rule, section, line, what, what to do
//! answers ───► reload: directives, delta ────┤
//! bytes ─────► boxes: fragments, init ───────┘
//! ```
//!
//! The caller loads a playlist, and gives each answer with its time. A MUST of the text is an error,
//! a SHOULD a warning.

mod boxes;
#[cfg(test)]
mod delta_tests;
mod finding;
mod media;
mod multivariant;
mod reload;
pub mod rules;
mod sequence;
#[cfg(test)]
pub(crate) mod test_playlist;
#[cfg(test)]
mod tests;
mod version;

pub use boxes::{Fragment, judge_fragment, judge_init};
pub use finding::{Finding, Findings, Rule, Severity};
pub use media::judge_media;
pub use multivariant::{Member, judge_members, judge_multivariant};
pub use reload::{Directive, ReloadAnswer, judge_delta, judge_reload};
pub use sequence::{Follower, Load};

use std::time::Duration;

/// Tolerance for durations: half of the last digit that servers write.
const ROUNDING: Duration = Duration::from_micros(500);
