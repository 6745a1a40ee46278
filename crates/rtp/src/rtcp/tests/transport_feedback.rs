use super::*;

pub(super) fn feedback(base: u16, arrivals: &[Option<i64>]) -> Vec<u8> {
    let first = arrivals.iter().flatten().next().copied().unwrap_or(0);
    let mut builder = TransportFeedbackBuilder::new(base, first, 1 << 17);
    for &arrival in arrivals {
        assert!(builder.push(arrival));
    }
    let mut out = Vec::new();
    builder.write(Ssrc(1), Ssrc(2), 3, &mut out);
    out
}

pub(super) fn arrivals(bytes: &[u8]) -> Vec<(u16, Option<i64>)> {
    let Packet::TransportFeedback(feedback) = only(bytes) else {
        panic!("transport feedback");
    };
    let reference = i64::from(feedback.reference_time) * TICKS_PER_REFERENCE;
    feedback
        .statuses()
        .map(|(sequence, ticks)| (sequence, ticks.map(|ticks| reference + i64::from(ticks))))
        .collect()
}

#[test]
fn transport_feedback_reads_the_chunks_drawn_in_the_draft() {
    // A run of three small deltas (§3.1.3), then a vector of two-bit symbols
    // (§3.1.4): none, large, small ×3, none, none.
    let mut bytes = vec![0x8f, 205, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([0, 100, 0, 10, 0xff, 0xff, 0xff, 5]);
    bytes.extend([0x20, 0x03, 0b1100_1001, 0b0101_0000]);
    bytes.extend([1, 2, 3, 0xff, 0xfe, 4, 5, 6]);
    assert_eq!(bytes.len(), 32);
    let Packet::TransportFeedback(feedback) = only(&bytes) else {
        panic!("transport feedback");
    };
    assert_eq!(feedback.reference_time, -1);
    assert_eq!(feedback.feedback_count, 5);
    assert_eq!(
        feedback.statuses().collect::<Vec<_>>(),
        [
            (100, Some(1)),
            (101, Some(3)),
            (102, Some(6)),
            (103, None),
            (104, Some(4)),
            (105, Some(8)),
            (106, Some(13)),
            (107, Some(19)),
            (108, None),
            (109, None),
        ]
    );
    assert_eq!(bytes_of(&Packet::TransportFeedback(feedback)), bytes);
}

#[test]
fn transport_feedback_short_of_chunks_or_deltas_is_an_error() {
    let good = feedback(7, &[Some(0), None, Some(10), Some(5000), Some(5001)]);
    assert!(parse(&good).next().expect("one").is_ok());
    for words in 4..good.len() / 4 - 1 {
        let mut short = good[..4 + words * 4].to_vec();
        short[3] = words as u8;
        assert!(
            matches!(
                parse(&short).next(),
                Some(Err(ParseError::Truncated { .. }))
            ),
            "{words} words"
        );
    }
}

#[test]
fn the_reserved_symbol_is_an_error() {
    for chunk in [[0x60, 1], [0xf0, 0]] {
        let mut bytes = vec![0x8f, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0]);
        bytes.extend(chunk);
        bytes.extend([0, 0]);
        assert!(matches!(
            parse(&bytes).next(),
            Some(Err(ParseError::Value { .. }))
        ));
    }
}

#[test]
fn a_run_without_length_describes_no_packet() {
    let mut bytes = vec![0x8f, 205, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2];
    bytes.extend([0, 9, 0, 2, 0, 0, 0, 0]);
    bytes.extend([0x20, 0, 0, 0, 0x20, 2, 5, 6]);
    let expected = [(9, Some(5)), (10, Some(11))];
    assert_eq!(arrivals(&bytes), expected);
}

#[test]
fn bytes_beyond_the_last_delta_belong_to_nothing() {
    // libwebrtc pads to whole words and includes the padding in the length.
    let mut padded = vec![0xaf, 205, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2];
    padded.extend([0, 9, 0, 1, 0, 0, 0, 0]);
    padded.extend([0x20, 1, 5, 77, 77, 77, 77, 1]);
    let packet = only(&padded);
    let written = bytes_of(&packet);
    assert_eq!(written.len(), 24);
    assert_eq!(only(&written), packet);
    assert_eq!(arrivals(&written), [(9, Some(5))]);
}

#[test]
fn a_long_loss_is_one_run() {
    let mut list = vec![Some(0)];
    list.extend([None; 8000]);
    list.push(Some(100));
    let bytes = feedback(0, &list);
    // Vector of the first 14 or run, run of the losses, vector of the end.
    assert!(bytes.len() <= 20 + 3 * 2 + 2 + 4, "{} bytes", bytes.len());
    assert_eq!(arrivals(&bytes).len(), 8002);
}

#[test]
fn a_builder_refuses_what_does_not_fit() {
    let mut builder = TransportFeedbackBuilder::new(0, 0, 100);
    let added = (0..1000)
        .take_while(|i| builder.push(Some(i * 300)))
        .count();
    let mut out = Vec::new();
    builder.write(Ssrc(1), Ssrc(2), 0, &mut out);
    assert!((30..40).contains(&added), "{added}");
    assert!(out.len() <= 100);
    let mut builder = TransportFeedbackBuilder::new(0, 0, 1000);
    assert!(builder.push(Some(0)));
    assert!(!builder.push(Some(32_768)), "a delta beyond 16 bits");
    assert!(builder.push(Some(32_767)));
}
