//! Elements whose bits are written down, and where they end.

use super::raw_data_block::{Element, RawDataBlock, Unreadable};
use crate::aac::bands::Bands;

/// An identifier and tag 5 of a single channel, its gain, and a long window of no bands.
const CHANNEL: &str = "000 0101 00000000 0 00 0 000000 0 ";
/// No pulses, no noise shaping, no gain control.
const PLAIN: &str = "000 ";

/// Reads bits, written as digits, at 48 kHz.
fn parse(bits: &str) -> Result<RawDataBlock, Unreadable> {
    let digits: Vec<u8> = bits.bytes().filter(|it| *it != b' ').collect();
    let byte = |digits: &[u8]| {
        let digits = digits.iter().enumerate();
        digits.fold(0, |byte, (at, digit)| byte | (digit - b'0') << (7 - at))
    };
    let frame: Vec<u8> = digits.chunks(8).map(byte).collect();
    RawDataBlock::parse(&frame, &Bands::at(48_000))
}

fn length(bits: &str) -> usize {
    bits.bytes().filter(|it| *it != b' ').count()
}

/// A channel with a long window of so many bands.
fn long(bands: usize, rest: &str) -> String {
    format!("000 0101 00000000 0 00 0 {bands:06b} 0 {rest}")
}

/// A channel with eight short windows of so many bands in these groups.
fn short(bands: usize, groups: &str, rest: &str) -> String {
    format!("000 0101 00000000 0 10 0 {bands:04b} {groups} {rest}")
}

#[test]
fn channels_end_behind_their_last_bit() {
    let zeros = |count: usize| "0".repeat(count);
    let ninth = "000000001 ";
    for bits in [
        format!("{CHANNEL}{PLAIN}"),
        // Pulses: one and four.
        format!("{CHANNEL} 1 00 111111 {ninth} 00"),
        format!("{CHANNEL} 1 11 111111 {} 00", ninth.repeat(4)),
        // Filters of noise shaping: none, of order 0, of three and four bits, and compressed.
        format!("{CHANNEL} 01 00 0"),
        format!("{CHANNEL} 01 01 1 111111 00000 0"),
        format!("{CHANNEL} 01 01 0 111111 00010 1 0 111 111 0"),
        format!("{CHANNEL} 01 01 1 111111 00010 1 0 1111 1111 0"),
        format!("{CHANNEL} 01 01 1 111111 00001 1 1 111 0"),
        format!("{CHANNEL} 01 10 0 111111 00000 111111 00001 0 1 11 0"),
        // Bands without codes: 3, 31, 40 and all 49 of them.
        long(3, &format!("0000 00011 {PLAIN}")),
        long(31, &format!("0000 11111 00000 {PLAIN}")),
        long(40, &format!("0000 11111 01001 {PLAIN}")),
        long(49, &format!("0000 11111 10010 {PLAIN}")),
        long(3, &format!("0000 00001 0000 00010 {PLAIN}")),
        // Noise has one level of nine bits; then come codes of one bit.
        long(3, &format!("1101 00011 111111111 00 {PLAIN}")),
        long(2, &format!("1110 00001 1111 00001 00 {PLAIN}")),
        // Codebook 1 has four values in a code, and codebook 11 two with their signs.
        long(3, &format!("0001 00011 000 {PLAIN} 000")),
        long(
            11,
            &format!("0001 01011 {} {PLAIN} {}", zeros(11), zeros(12)),
        ),
        long(1, &format!("1011 00001 0 {PLAIN} 0001 11 0000")),
        long(2, &format!("0000 00001 0001 00001 0 {PLAIN} 0")),
        // Eight windows in one group, in two, and each in its own.
        short(1, "1111111", &format!("0001 001 0 {PLAIN} {}", zeros(8))),
        short(
            2,
            "1110111",
            &format!("0001 010 0001 010 {} {PLAIN} {}", zeros(4), zeros(16)),
        ),
        short(1, "0000000", &format!("{} {PLAIN}", "0000 001 ".repeat(8))),
        short(14, "1111111", &format!("0000 111 111 000 {PLAIN}")),
        short(7, "1111111", &format!("0000 111 000 {PLAIN}")),
        short(0, "1111111", PLAIN),
        // Noise shaping in two of the eight windows.
        short(
            0,
            "1111111",
            "01 0 0 1 1 1111 001 0 0 1111 0 0 1 0 1111 000 0 0 0",
        ),
    ] {
        let block = parse(&format!("{bits} 111")).unwrap_or_else(|it| panic!("{bits}: {it}"));
        let element = Element {
            is_pair: false,
            is_low_frequency: false,
            tag: 5,
            bits: 0..length(&bits),
        };
        assert_eq!(block.elements, [element], "{bits}");
        assert_eq!(block.program, None);
    }
}

#[test]
fn pairs_hold_two_channels() {
    let own = "00000000 0 00 0 000000 0 000";
    let shared = "00000000 000";
    let three = "00000000 0000 00011 000";
    let six = "00000000 0000 011 0000 011 000";
    for bits in [
        format!("001 1001 0 {own} {own}"),
        format!("001 1001 1 0 00 0 000000 0 00 {shared} {shared}"),
        format!("001 1001 1 0 00 0 000011 0 10 {three} {three}"),
        // A flag for each band, in each group of windows.
        format!("001 1001 1 0 00 0 000011 0 01 111 {three} {three}"),
        format!("001 1001 1 0 10 0 0011 1110111 01 111111 {six} {six}"),
    ] {
        let element = Element {
            is_pair: true,
            is_low_frequency: false,
            tag: 9,
            bits: 0..length(&bits),
        };
        let block = parse(&format!("{bits} 111")).unwrap_or_else(|it| panic!("{bits}: {it}"));
        assert_eq!(block.elements, [element], "{bits}");
    }
}

#[test]
fn what_is_no_audio_is_read_past() {
    let low = "011 0001 00000000 0 00 0 000000 0 000";
    let bytes = |count: usize| "11111111".repeat(count);
    for before in [
        // Data: none, two bytes, two bytes from the next whole byte on, and 256 bytes.
        "100 0000 0 00000000".to_owned(),
        format!("100 0000 0 00000010 {}", bytes(2)),
        format!("100 0000 1 00000010 {}", bytes(2)),
        format!("110 0000 100 0000 1 00000001 0 {}", bytes(1)),
        format!("100 0000 0 11111111 00000001 {}", bytes(256)),
        // Fill bytes: none, 14, 15 and 20.
        "110 0000".to_owned(),
        format!("110 1110 {}", bytes(14)),
        format!("110 1111 00000001 {}", bytes(15)),
        format!("110 1111 00000110 {}", bytes(20)),
    ] {
        let start = length(&before);
        let block = parse(&format!("{before} {low} 111"));
        let block = block.unwrap_or_else(|it| panic!("{before}: {it}"));
        let element = Element {
            is_pair: false,
            is_low_frequency: true,
            tag: 1,
            bits: start..start + length(low),
        };
        assert_eq!(block.elements, [element], "{before}");
    }
}

#[test]
fn a_program_is_read_with_its_comment() {
    // One pair in front, and a comment of two bytes from the next whole byte on.
    let program = "101 0000 01 0011 0001 0000 0000 00 000 0000 000 1 0000 000000 00000010";
    let bits = format!("{program} {} {CHANNEL}{PLAIN} 111", "1".repeat(16));
    let block = parse(&bits).expect("a program and a channel");
    assert_eq!(block.program.map(|it| it.channels()), Some(2));
    assert_eq!(block.elements[0].bits.start, 72);
}

#[test]
fn what_is_damaged_or_unknown_is_named() {
    for (bits, reason) in [
        ("010".to_owned(), Unreadable::Coupling),
        (
            format!("{CHANNEL} 001"),
            Unreadable::Profile("gain control"),
        ),
        (
            "000 0000 00000000 0 00 0 000000 1".to_owned(),
            Unreadable::Profile("prediction"),
        ),
        (long(50, "0000 11111 10011 000"), Unreadable::Damaged),
        (
            short(15, "1111111", "0000 111 111 001 000"),
            Unreadable::Damaged,
        ),
        (
            short(0, "1111111", "1 00 000000 000000000 00"),
            Unreadable::Damaged,
        ),
        (long(3, "0000 00100 000"), Unreadable::Damaged),
        (long(1, "1100 00001 0 000"), Unreadable::Damaged),
        (
            "001 0000 1 0 00 0 000000 0 11 00000000 000 00000000 000".to_owned(),
            Unreadable::Damaged,
        ),
        ("000 0101 0000".to_owned(), Unreadable::Damaged),
    ] {
        assert_eq!(parse(&format!("{bits} 111")), Err(reason), "{bits}");
    }
    let many = |count: usize| parse(&(format!("{CHANNEL}{PLAIN}").repeat(count) + "111"));
    assert_eq!(many(8).map(|block| block.elements.len()), Ok(8));
    assert_eq!(many(9), Err(Unreadable::Elements));
}
