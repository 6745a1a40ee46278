//! Frames written and read again, and what FFmpeg writes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A frame as the tests compare it.
type Plain = (u64, Vec<u8>);

fn written(frames: &[Plain]) -> Vec<u8> {
    let mut writer = Writer::new(Codec(*b"HEVC"));
    let mut out = Vec::new();
    for (place, (ticks, data)) in frames.iter().enumerate() {
        writer.frame(*ticks, place % 3 == 0, data, &mut out);
    }
    out
}

/// Reads bytes that come in pieces of the given lengths, which repeat.
fn read(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Plain>, Broken> {
    let mut reader = Reader::new(1 << 20);
    let (mut read, mut rest) = (Vec::new(), bytes);
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(rest.len().min(*piece));
        rest = after;
        reader.push(piece);
        while let Some(frame) = reader.next()? {
            assert_eq!((frame.width, frame.height), (16, 16));
            read.push((frame.ticks, frame.data.to_vec()));
        }
    }
    Ok(read)
}

proptest! {
    /// Times jump by more than the bits that a frame has of its time, and back.
    #[test]
    fn frames_come_out_as_they_went_in(
        frames in vec((0_u64..1 << 40, vec(any::<u8>(), 0..6_000)), 1..8),
        pieces in vec(1_usize..5_000, 1..6),
    ) {
        prop_assert_eq!(read(&written(&frames), &pieces), Ok(frames));
    }

    #[test]
    fn damaged_bytes_never_panic(
        at in 0_usize..400,
        bytes in vec(any::<u8>(), 1..40),
        pieces in vec(1_usize..300, 1..4),
    ) {
        let mut file = written(&[(100_000, vec![1; 200]), (100_400, vec![2; 90])]);
        let end = (at + bytes.len()).min(file.len());
        let start = at.min(end);
        let len = end - start;
        file[start..end].copy_from_slice(&bytes[..len]);
        let mut reader = Reader::new(1 << 16);
        for piece in file.chunks(pieces[0]) {
            reader.push(piece);
            while let Ok(Some(frame)) = reader.next() {
                prop_assert!(frame.data.len() <= 1 << 16);
            }
        }
    }
}

#[test]
fn other_programs_and_frames_that_are_too_long_are_named() {
    let reason = |bytes: &[u8]| {
        let mut reader = Reader::new(64);
        reader.push(bytes);
        reader.next().map(|frame| frame.is_some())
    };
    assert_eq!(
        reason(b"#!/bin/sh"),
        Err(Broken("its output does not begin as NUT"))
    );
    assert_eq!(reason(&FILE_ID[..7]), Ok(false));
    assert_eq!(reason(&written(&[(1, vec![0; 64])])), Ok(true));
    assert_eq!(
        reason(&written(&[(1, vec![0; 65])])),
        Err(Broken("a picture is longer than its size allows"))
    );
    let unknown = [FILE_ID, &[7]].concat();
    assert_eq!(
        reason(&unknown),
        Err(Broken("a frame comes before its header"))
    );
}

/// The first frame code has its time from a delta, and sizes of two in its low bits.
#[test]
fn times_by_delta_and_sizes_by_code_are_those_of_the_header() {
    // FFmpeg's main headers have such codes for streams with constant frames.
    let mut reader = Reader::new(1 << 10);
    let mut file = FILE_ID.to_vec();
    let packet = |startcode: u64, content: &[u8]| {
        let mut packet = startcode.to_be_bytes().to_vec();
        packet.push(content.len() as u8 + 4);
        packet.extend_from_slice(content);
        packet.extend_from_slice(&checksum(content).to_be_bytes());
        packet
    };
    // Version 3, one stream, distance, one time base of 1/25.
    let mut main = vec![3, 1, 100, 1, 1, 25];
    // Codes 0 to 3: a delta of 1, multiplier 4, and lengths of 0 to 3 in their low bits.
    main.extend_from_slice(&[flag::SIZE_MSB as u8, 2, 1, 4]);
    // All others are invalid.
    main.extend_from_slice(&[0xc0, 0x00, 6, 0, 1, 0, 0, 0, 0x81, 0x7b]);
    file.extend(packet(MAIN, &main));
    file.extend(packet(
        STREAM,
        &[0, 0, 1, b'x', 0, 7, 0, 0, 0, 0, 2, 1, 0, 0, 0],
    ));
    // At 50/25 s.
    file.extend(packet(SYNCPOINT, &[50, 0]));
    file.extend_from_slice(&[1, 1, b'a', b'b', b'c', b'd', b'e', 2, 0, b'f', b'g']);
    reader.push(&file);
    let frame = reader.next().expect("valid").expect("a frame");
    assert_eq!((frame.ticks, frame.data), (20_400, &b"abcde"[..]));
    assert_eq!((frame.width, frame.height), (2, 1));
    let frame = reader.next().expect("valid").expect("a frame");
    assert_eq!((frame.ticks, frame.data), (20_800, &b"fg"[..]));
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn the_checksum_is_that_of_the_specification() {
    // CRC-32 of polynomial 0x04C11DB7 without reflection and inversion, as in MPEG's tables.
    assert_eq!(checksum(b""), 0);
    assert_eq!(checksum(b"123456789"), 0x89a1_897f);
}
