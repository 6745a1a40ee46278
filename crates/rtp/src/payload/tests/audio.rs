//! Audio: several frames in a packet, and a frame in several.

use super::*;

#[test]
fn several_units_of_audio_in_one_packet_get_their_times() {
    let units = |codec, payload: &[u8]| {
        let mut depacketizer = Depacketizer::new(&track(codec)).expect("known");
        depacketizer.push(1, u32::MAX - 99, true, payload);
        std::iter::from_fn(move || depacketizer.poll())
            .map(|unit| (unit.timestamp.wrapping_add(100), unit.data))
            .collect::<Vec<_>>()
    };
    // RFC 3640 §3.3.6: three AUs of 1, 2 and 3 bytes.
    let aac = [0, 48, 0, 1 << 3, 0, 2 << 3, 0, 3 << 3, 1, 2, 2, 3, 3, 3];
    let expected = vec![(0, vec![1]), (1024, vec![2, 2]), (2048, vec![3, 3, 3])];
    assert_eq!(units(Codec::Aac, &aac), expected);
    // RFC 4867 §4.5.1: two frames, of comfort noise and of nothing.
    let amr = [0xf0, 0xc4, 0x7c, 1, 2, 3, 4, 5];
    let expected = vec![(0, vec![0x44, 1, 2, 3, 4, 5]), (160, vec![0x7c])];
    assert_eq!(units(Codec::Amr, &amr), expected);
    // Two frames of 72 bytes: MPEG-2 layer III, 24 kHz, 24 kbit/s, 24 ms each.
    let frame = [&[0xff, 0xf3, 0x34, 0xc4][..], &[7; 68]].concat();
    let payload = [&[0; 4], &frame[..], &frame].concat();
    assert_eq!(
        units(Codec::MpegAudio, &payload),
        vec![(0, frame.clone()), (2160, frame)]
    );
    // Two frames of 128 bytes: AC-3, 48 kHz, 32 kbit/s.
    let frame = [&[0x0b, 0x77, 0, 0, 0, 0x40][..], &[7; 122]].concat();
    let payload = [&[0, 2], &frame[..], &frame].concat();
    assert_eq!(
        units(Codec::Ac3, &payload),
        vec![(0, frame.clone()), (1536, frame)]
    );
}

/// Returns the units of AAC with these format parameters in a payload.
fn aac(parameters: &str, payload: &[u8]) -> Vec<Vec<u8>> {
    let track = Track::new(Codec::Aac).with_format_parameters(parameters);
    let mut depacketizer = Depacketizer::new(&track).expect("known");
    depacketizer.push(1, 0, true, payload);
    std::iter::from_fn(|| depacketizer.poll().map(|unit| unit.data)).collect()
}

#[test]
fn headers_of_aac_without_indices_are_known_by_their_length() {
    // bluenviron/gortsplib#118: `sizeLength=13` alone, and headers of 13 bits.
    let told = "mode=AAC-hbr;config=1190;sizeLength=13";
    assert_eq!(aac(told, &[0, 13, 0, 2 << 3, 7, 8]), [[7, 8]]);
    // Two sizes of 13 bits: 1 and 2.
    assert_eq!(
        aac(told, &[0, 26, 0, 8, 0, 0x80, 6, 7, 8]),
        [&[6][..], &[7, 8]]
    );
    // The same description, and headers of 16 bits.
    assert_eq!(aac(told, &[0, 16, 0, 2 << 3, 7, 8]), [[7, 8]]);
    assert_eq!(aac("", &[0, 32, 0, 8, 0, 8, 7, 8]), [[7], [8]]);
    let named = "sizelength=13;indexlength=0;indexdeltalength=0";
    assert_eq!(aac(named, &[0, 13, 0, 2 << 3, 7, 8]), [[7, 8]]);
}

#[test]
fn indices_of_aac_are_not_looked_at() {
    let usual = "sizelength=13;indexlength=3;indexdeltalength=3";
    let counted = [0, 32, 0, 1 << 3 | 1, 0, 1 << 3 | 2, 1, 2];
    assert_eq!(aac(usual, &counted), [[1], [2]]);
}

#[test]
fn units_of_aac_with_a_header_of_files_are_bare() {
    let adts = |length: u8, second: u8| [0xff, second, 0x50, 0x80, 0, length << 5, 0xfc];
    let packet = |unit: &[u8]| [&[0, 16, 0, (unit.len() as u8) << 3][..], unit].concat();
    // Seven bytes of header and one more wrap to zero in three bits, so the length is in both bytes.
    let mut unit = [&adts(1, 0xf1)[..], &[0x21, 9]].concat();
    unit[4] = 1;
    assert_eq!(aac("", &packet(&unit)), [[0x21, 9]]);
    let mut unit = [&adts(3, 0xf0)[..], &[1, 2, 0x21, 9]].concat();
    unit[4] = 1;
    assert_eq!(aac("", &packet(&unit)), [[0x21, 9]], "with a checksum");
    let other = [&adts(1, 0xf1)[..], &[0x21, 9, 9]].concat();
    assert_eq!(aac("", &packet(&other)), [other], "of another length");
}

#[test]
fn audio_is_bounded_to_the_byte_and_a_loss_within_a_frame_is_counted() {
    let mut whole = Depacketizer::bounded(&track(Codec::Opus), 8).expect("known");
    whole.push(1, 0, false, &[0xf8; 8]);
    assert_eq!(whole.poll().expect("as long as allowed").data.len(), 8);
    whole.push(2, 960, false, &[0xf8; 9]);
    assert_eq!((whole.poll(), whole.counters().oversized), (None, 1));

    // Half of a frame of AAC, then a gap.
    let mut cut = Depacketizer::new(&track(Codec::Aac)).expect("known");
    cut.push(1, 0, false, &[0, 16, 0, 8 << 3, 1, 2, 3, 4]);
    cut.push(3, 1024, true, &[0, 16, 0, 1 << 3, 9]);
    assert_eq!(cut.counters().damaged, 1, "{:?}", cut.counters());
    let next = cut.poll().expect("the frame behind the gap");
    assert_eq!((next.timestamp, next.after_loss), (1024, true));
    assert_eq!(&next.data[..], [9]);

    // A gap between whole frames cuts none.
    let mut between = Depacketizer::new(&track(Codec::Aac)).expect("known");
    between.push(1, 0, true, &[0, 16, 0, 1 << 3, 9]);
    between.push(3, 2048, true, &[0, 16, 0, 1 << 3, 9]);
    assert_eq!(between.counters().damaged, 0);
}
