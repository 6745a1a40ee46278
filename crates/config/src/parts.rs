//! Values that are checked while the file is parsed, so that an error points at its line.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

const SHARDS_MAX: usize = 256;
/// Largest configurable message in KiB. A message must be complete before it is passed on.
const MESSAGE_KIB_MAX: usize = 16 << 10;
const CHANNELS_MAX: usize = 256;

/// Parses a whole number of at least one.
pub(super) fn positive<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialEq + Default,
{
    let value = T::deserialize(deserializer)?;
    if value == T::default() {
        return Err(D::Error::custom("must be at least 1"));
    }
    Ok(value)
}

/// Least number of connections that one address may have unless the configuration says otherwise:
/// a video wall, or an office behind one address.
const PER_ADDRESS_MIN: usize = 32;

/// Returns the most connections of one address: the `configured` number, or a quarter of all, which
/// are `max`.
pub(super) fn per_address(configured: Option<usize>, max: usize) -> usize {
    let usual = (max / 4).max(PER_ADDRESS_MIN);
    configured.unwrap_or(usual).min(max)
}

pub(super) fn positive_or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialEq + Default,
{
    match Option::<T>::deserialize(deserializer)? {
        Some(value) if value == T::default() => {
            Err(D::Error::custom("must be at least 1, or null"))
        }
        value => Ok(value),
    }
}

pub(super) fn message_kib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, MESSAGE_KIB_MAX)
}

pub(super) fn channels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, CHANNELS_MAX)
}

/// Bitrates of an Opus channel in kbit/s.
const OPUS_KBPS: std::ops::RangeInclusive<u32> = 6..=255;

pub(super) fn opus_kbps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = u32::deserialize(deserializer)?;
    if OPUS_KBPS.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (OPUS_KBPS.start(), OPUS_KBPS.end());
    Err(D::Error::custom(format!("must be {least} to {most}")))
}

pub(super) fn file_minutes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    up_to_60(from)
}

pub(super) fn sync_s<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    up_to_60(from)
}

/// Parses a whole number of minutes or seconds from 1 to 60.
fn up_to_60<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 60).map(|it| it as u64)
}

/// Parses a whole number from 1 to `max`.
fn within<'de, D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<usize, D::Error> {
    let value = usize::deserialize(deserializer)?;
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(D::Error::custom(format!("must be 1 to {max}")))
}

pub(super) fn shards<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<usize>, D::Error> {
    let shards = Option::<usize>::deserialize(deserializer)?;
    match shards {
        Some(count) if !(1..=SHARDS_MAX).contains(&count) => Err(D::Error::custom(format!(
            "must be 1 to {SHARDS_MAX}, or null for one per core"
        ))),
        shards => Ok(shards),
    }
}
