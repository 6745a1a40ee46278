//! NUT, the container between this process and a decoder beside it: coded frames in, pictures out, each
//! with its time.
//!
//! ```text
//! file id, main header, stream header, syncpoint, frame, frame, …
//! frame: code, time (its lowest bits), length, checksum, bytes
//! ```
//!
//! NUT is what FFmpeg both reads and writes with exact times and without looking ahead: a frame is
//! complete with its last byte. Source: the NUT specification (`nut.txt`), versions 3 and 4.

mod reader;
mod writer;

pub(super) use reader::{Broken, Frame, Reader};
pub(super) use writer::{Codec, Writer};

/// Ticks of a second, in which times are written.
pub(super) const TICKS: u64 = 10_000;

/// The text with which each file begins.
const FILE_ID: &[u8] = b"nut/multimedia container\0";

/// First byte of each start code, which no frame code has.
const MARK: u8 = b'N';

const MAIN: u64 = 0x4e4d_7a56_1f5f_04ad;
const STREAM: u64 = 0x4e53_1140_5bf2_f9db;
const SYNCPOINT: u64 = 0x4e4b_e4ad_eeca_4569;

/// Flags of a frame.
mod flag {
    pub(super) const KEY: u64 = 1;
    pub(super) const CODED_TIME: u64 = 8;
    pub(super) const STREAM_ID: u64 = 16;
    pub(super) const SIZE_MSB: u64 = 32;
    pub(super) const CHECKSUM: u64 = 64;
    pub(super) const RESERVED: u64 = 128;
    pub(super) const SIDE_DATA: u64 = 256;
    pub(super) const HEADER: u64 = 1_024;
    pub(super) const MATCH_TIME: u64 = 2_048;
    pub(super) const CODED: u64 = 4_096;
    pub(super) const INVALID: u64 = 8_192;
}

/// Returns the checksum of headers: CRC-32 of polynomial 0x04C11DB7, first bit first, from 0.
fn checksum(bytes: &[u8]) -> u32 {
    static CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_MPEG_2);
    let mut digest = CRC.digest_with_initial(0);
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests;
