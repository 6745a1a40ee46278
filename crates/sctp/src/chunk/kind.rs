//! Chunk types (RFC 9260 §3.2 and the IANA registry), for the parameter that lists
//! the extensions an end supports.

/// Type of DATA (RFC 9260 §3.3.1).
pub const DATA: u8 = 0;
/// Type of INIT (RFC 9260 §3.3.2).
pub const INIT: u8 = 1;
/// Type of INIT ACK (RFC 9260 §3.3.3).
pub const INIT_ACK: u8 = 2;
/// Type of SACK (RFC 9260 §3.3.4).
pub const SACK: u8 = 3;
/// Type of HEARTBEAT (RFC 9260 §3.3.5).
pub const HEARTBEAT: u8 = 4;
/// Type of HEARTBEAT ACK (RFC 9260 §3.3.6).
pub const HEARTBEAT_ACK: u8 = 5;
/// Type of ABORT (RFC 9260 §3.3.7).
pub const ABORT: u8 = 6;
/// Type of SHUTDOWN (RFC 9260 §3.3.8).
pub const SHUTDOWN: u8 = 7;
/// Type of SHUTDOWN ACK (RFC 9260 §3.3.9).
pub const SHUTDOWN_ACK: u8 = 8;
/// Type of ERROR (RFC 9260 §3.3.10).
pub const ERROR: u8 = 9;
/// Type of COOKIE ECHO (RFC 9260 §3.3.11).
pub const COOKIE_ECHO: u8 = 10;
/// Type of COOKIE ACK (RFC 9260 §3.3.12).
pub const COOKIE_ACK: u8 = 11;
/// Type of SHUTDOWN COMPLETE (RFC 9260 §3.3.13).
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// Type of I-DATA (RFC 8260 §2.1).
pub const I_DATA: u8 = 0x40;
/// Type of RE-CONFIG (RFC 6525 §3.1).
pub const RE_CONFIG: u8 = 0x82;
/// Type of PAD (RFC 4820 §3).
pub const PAD: u8 = 0x84;
/// Type of FORWARD TSN (RFC 3758 §3.2).
pub const FORWARD_TSN: u8 = 0xc0;
/// Type of I-FORWARD-TSN (RFC 8260 §2.3.1).
pub const I_FORWARD_TSN: u8 = 0xc2;
