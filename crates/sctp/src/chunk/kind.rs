//! Chunk types (RFC 9260 §3.2 and the IANA registry), for the parameter that lists
//! the extensions an end supports.

/// RFC 9260 §3.3.1.
pub const DATA: u8 = 0;
/// RFC 9260 §3.3.2.
pub const INIT: u8 = 1;
/// RFC 9260 §3.3.3.
pub const INIT_ACK: u8 = 2;
/// RFC 9260 §3.3.4.
pub const SACK: u8 = 3;
/// RFC 9260 §3.3.5.
pub const HEARTBEAT: u8 = 4;
/// RFC 9260 §3.3.6.
pub const HEARTBEAT_ACK: u8 = 5;
/// RFC 9260 §3.3.7.
pub const ABORT: u8 = 6;
/// RFC 9260 §3.3.8.
pub const SHUTDOWN: u8 = 7;
/// RFC 9260 §3.3.9.
pub const SHUTDOWN_ACK: u8 = 8;
/// RFC 9260 §3.3.10.
pub const ERROR: u8 = 9;
/// RFC 9260 §3.3.11.
pub const COOKIE_ECHO: u8 = 10;
/// RFC 9260 §3.3.12.
pub const COOKIE_ACK: u8 = 11;
/// RFC 9260 §3.3.13.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// RFC 8260 §2.1.
pub const I_DATA: u8 = 0x40;
/// RFC 6525 §3.1.
pub const RE_CONFIG: u8 = 0x82;
/// RFC 4820 §3.
pub const PAD: u8 = 0x84;
/// RFC 3758 §3.2.
pub const FORWARD_TSN: u8 = 0xc0;
/// RFC 8260 §2.3.1.
pub const I_FORWARD_TSN: u8 = 0xc2;
