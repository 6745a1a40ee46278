//! What is to be measured: the flags of `bench data`, as both ends know them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Which way messages go, as the client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client.
    #[default]
    Up,
    /// To the client.
    Down,
    /// At the same time.
    Both,
}

impl Direction {
    /// The client sends.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::Both)
    }

    /// The server sends.
    pub const fn is_down(self) -> bool {
        matches!(self, Self::Down | Self::Both)
    }

    /// As on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

/// A test. Both ends are told all of it; sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Which way messages go.
    pub direction: Direction,
    /// How long they go.
    pub time_ms: u64,
    /// How often figures are taken.
    pub interval_ms: u64,
    /// Bytes of a message.
    pub message_size: usize,
    /// A sender stops when its channel has so much waiting,
    pub high_water: usize,
    /// and goes on when it fell to this.
    pub low_water: usize,
    /// The receive window of SCTP, fixed; `None` lets it grow as needed.
    pub window: Option<u32>,
    /// Channels in parallel.
    pub channels: u16,
    /// Messages may overtake each other.
    pub unordered: bool,
    /// Send a message again so often at the most.
    pub max_retransmits: Option<u32>,
    /// Try to bring a message over for so long at the most.
    pub max_lifetime_ms: Option<u64>,
    /// `aes-128-gcm`, `aes-256-gcm` or `chacha20-poly1305`; `None` takes what is fastest here.
    pub cipher: Option<String>,
    /// Who decides how much is sent; `None` is the default of data channels.
    pub congestion: Option<String>,
    /// Buffers of the UDP sockets to ask for; `None` leaves the system's.
    pub udp_buffer: Option<usize>,
    /// Hand datagrams to the kernel one by one (no GSO, no GRO).
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

/// An hour: longer is no benchmark, and a stranger may ask for it.
const TIME_MS_MAX: u64 = 3_600_000;
const INTERVALS_MAX: u64 = 36_000;
/// The largest message that our ends take.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
const WATER_BYTES_MAX: usize = 64 << 20;
const WINDOW_RANGE: std::ops::RangeInclusive<u32> = 16_384..=(1 << 30);
const CHANNELS_MAX: u16 = 256;
const UDP_BUFFER_MAX: usize = 1 << 30;

impl Plan {
    /// Says what is wrong with it, by the names of the flags.
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

    /// How long messages go.
    pub const fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms)
    }

    /// How often figures are taken.
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
        // A page tells only what differs.
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
