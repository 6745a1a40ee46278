use std::time::Duration;

/// Most bytes of an open fragment, unless a rule says otherwise.
const BYTES_MAX: usize = 32 << 20;

/// Longest time between two units that is no discontinuity, unless a rule says otherwise.
const GAP_MAX: Duration = Duration::from_secs(10);

/// Longest time for which the parameters of a track are waited for, unless a rule says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a run of units is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutRule {
    /// Longest fragment. Only a sample that lasts longer by itself makes a longer one.
    pub fragment: Duration,
    /// Shortest fragment that is cut as soon as the next sample seems too long for it. A shorter one waits
    /// for the true duration of that sample.
    pub shortest: Duration,
    /// Shortest segment: the next one begins at the first sync sample of the ruling track behind this
    /// time. With [`Duration::MAX`], segments begin only where they are asked for.
    pub segment: Duration,
    /// Whether a keyframe begins a fragment when the open one has at least half of its length, so that
    /// most seeks find the start of a fragment.
    pub aligns_to_keyframes: bool,
    /// Whether each fragment states its wall-clock time in a `prft` box.
    pub states_wall_clock: bool,
    /// Whether each segment begins with a `styp` box.
    pub states_segment_type: bool,
    /// Most bytes of an open fragment; it is cut before the unit that would exceed them.
    pub bytes_max: usize,
    /// Longest time between two units of a track that is no discontinuity.
    pub gap_max: Duration,
    /// Longest time for which the parameters of a track are waited for. The run then begins without
    /// the track, and a new header follows when it comes.
    pub patience: Duration,
}

impl CutRule {
    /// Returns the rule of playlists: parts never longer than `part`, nor shorter than 85 % of it where
    /// the samples allow that (draft-pantos-hls-rfc8216bis §4.4.4.9), and segments of at least `segment`.
    pub const fn parts(part: Duration, segment: Duration) -> Self {
        Self {
            fragment: part,
            shortest: part
                .saturating_mul(17)
                .checked_div(20)
                .expect("not by zero"),
            segment,
            aligns_to_keyframes: false,
            states_wall_clock: false,
            states_segment_type: true,
            bytes_max: BYTES_MAX,
            gap_max: GAP_MAX,
            patience: PATIENCE,
        }
    }

    /// Returns the rule of recordings: fragments of about `fragment`, each with its wall-clock time, and
    /// files of at least `file`.
    pub const fn recording(fragment: Duration, file: Duration) -> Self {
        Self {
            fragment,
            shortest: Duration::ZERO,
            segment: file,
            aligns_to_keyframes: true,
            states_wall_clock: true,
            states_segment_type: false,
            bytes_max: BYTES_MAX,
            gap_max: GAP_MAX,
            patience: PATIENCE,
        }
    }
}
