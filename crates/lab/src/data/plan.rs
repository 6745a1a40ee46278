//! Plan of a test: the flags of `bench data`, as both ends know them.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Direction of the messages, as the client sees it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, derive_more::Display,
)]
#[display("{}", self.as_str())]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the server.
    #[default]
    Up,
    /// From the server to the client.
    Down,
    /// In both directions at the same time.
    Both,
}

impl Direction {
    /// Whether the client sends.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::Both)
    }

    /// Whether the server sends.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Down | Self::Both)
    }

    /// Name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        }
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Up, Self::Down, Self::Both]
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or_else(|| format!("{text:?} is not up, down or both"))
    }
}

/// Plan of a test, which both ends know. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Direction of the messages.
    pub direction: Direction,
    /// Duration of the transfer, in ms.
    pub time_ms: u64,
    /// Interval between samples, in ms.
    pub interval_ms: u64,
    /// Bytes of a message.
    pub message_size: usize,
    /// High-water mark: a sender pauses when this many bytes wait in its channel.
    pub high_water: usize,
    /// Low-water mark: a paused sender resumes when this many bytes wait in its channel.
    pub low_water: usize,
    /// Fixed receive window of SCTP; `None` lets it grow with the path.
    pub window: Option<u32>,
    /// Number of channels in parallel.
    pub channels: u16,
    /// Whether messages are delivered as they arrive (unordered channels).
    pub unordered: bool,
    /// Most retransmissions of a message; `None` for no limit.
    pub max_retransmits: Option<u32>,
    /// Longest time to deliver a message, in ms; `None` for no limit.
    pub max_lifetime_ms: Option<u64>,
    /// Name of the cipher: `aes-128-gcm`, `aes-256-gcm` or `chacha20-poly1305`; `None` for the
    /// fastest on this machine.
    pub cipher: Option<String>,
    /// Name of the congestion control; `None` for the default of data channels.
    pub congestion: Option<String>,
    /// Buffer size to ask for, for each UDP socket; `None` for the system's default.
    pub udp_buffer: Option<usize>,
    /// Whether datagrams are handed to the kernel one by one, without GSO and GRO.
    pub no_offload: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            direction: Direction::Up,
            time_ms: 10_000,
            interval_ms: 1000,
            message_size: 64 << 10,
            high_water: 1 << 20,
            low_water: 256 << 10,
            window: None,
            channels: 1,
            unordered: false,
            max_retransmits: None,
            max_lifetime_ms: None,
            cipher: None,
            congestion: None,
            udp_buffer: Some(4 << 20),
            no_offload: false,
        }
    }
}

/// Longest transfer: an hour. A server must bound it, since strangers may ask for tests.
const TIME_MS_MAX: u64 = 3_600_000;
const INTERVALS_MAX: u64 = 36_000;
/// Largest message that our ends accept, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
const WATER_BYTES_MAX: usize = 64 << 20;
const WINDOW_RANGE: std::ops::RangeInclusive<u32> = 16_384..=(1 << 30);
const CHANNELS_MAX: u16 = 256;
const UDP_BUFFER_MAX: usize = 1 << 30;

impl Plan {
    /// Checks the plan. The error names the flag that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let range = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("{name} is {value}; it must be {least} to {most}"))
        };
        range("--time in ms", self.time_ms, 100, TIME_MS_MAX)?;
        range("--interval in ms", self.interval_ms, 10, TIME_MS_MAX)?;
        let intervals = self.time_ms / self.interval_ms.max(1);
        range("--time over --interval", intervals, 0, INTERVALS_MAX)?;
        let bytes = |bytes: usize| bytes as u64;
        range(
            "--message-size",
            bytes(self.message_size),
            1,
            bytes(MESSAGE_BYTES_MAX),
        )?;
        range(
            "--high-water",
            bytes(self.high_water),
            1,
            bytes(WATER_BYTES_MAX),
        )?;
        range(
            "--low-water",
            bytes(self.low_water),
            0,
            bytes(self.high_water),
        )?;
        range("--channels", self.channels.into(), 1, CHANNELS_MAX.into())?;
        if let Some(window) = self.window {
            let (least, most) = (*WINDOW_RANGE.start(), *WINDOW_RANGE.end());
            range("--window", window.into(), least.into(), most.into())?;
        }
        if let Some(buffer) = self.udp_buffer {
            range("--udp-buffer", bytes(buffer), 1024, bytes(UDP_BUFFER_MAX))?;
        }
        if self.max_retransmits.is_some() && self.max_lifetime_ms.is_some() {
            return Err("--max-retransmits and --max-lifetime exclude each other".to_owned());
        }
        Ok(())
    }

    /// Duration of the transfer.
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// Returns the interval between two samples.
    pub const fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_run_and_told() {
        let plan = Plan::default();
        assert_eq!(plan.check(), Ok(()));
        let text = serde_json::to_string(&plan).expect("plain data");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("the same"), plan);
        // A page sends only the fields that differ from the defaults.
        let some: Plan = serde_json::from_str(r#"{"direction":"down"}"#).expect("defaults");
        assert_eq!(some.direction, Direction::Down);
        assert!(serde_json::from_str::<Plan>(r#"{"tiem_ms":1}"#).is_err());
    }

    #[test]
    fn what_a_stranger_may_not_ask_for_is_named() {
        type Edit = fn(&mut Plan);
        let plans: [(&str, Edit); 6] = [
            ("--time", |plan| plan.time_ms = u64::MAX),
            ("--interval", |plan| plan.interval_ms = 0),
            ("--message-size", |plan| plan.message_size = 1 << 30),
            ("--low-water", |plan| plan.low_water = plan.high_water + 1),
            ("--window", |plan| plan.window = Some(1)),
            ("exclude", |plan| {
                plan.max_retransmits = Some(0);
                plan.max_lifetime_ms = Some(1);
            }),
        ];
        for (word, spoil) in plans {
            let mut plan = Plan::default();
            spoil(&mut plan);
            let error = plan.check().expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }
}
