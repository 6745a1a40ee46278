use super::*;

/// Bytes to a multiple of which the encoder pads its packets.
const BLOCK: usize = 16;

/// sipsorcery#1498, muxshed#19: packets padded to blocks of a cipher, and numbers that wrap soon.
#[test]
fn padded_packets_whose_numbers_wrap_are_all_taken() {
    let start = Instant::now();
    let hub = Arc::new(Hub::default());
    let reservations = Arc::new(Reservations::new(start));
    let name = StreamName::parse("studio").expect("good");
    let reservation = reservations.reserve(name, SessionId::new("session"), false, start);
    let mut session = session(2, start);
    let reservation = reservation.expect("free");
    let contribution = Contribution::new(&session, Arc::clone(&hub), reservation, false, start);
    let (mut contribution, counters) = (contribution.expect("known"), WhipCounters::default());
    let mut kinds = session.receivers().iter().map(|it| it.kind);
    let video = kinds.position(|it| it == Kind::Video).expect("offered");
    let place = (ReceiverIndex(video), LayerIndex(0));
    let payload_type = session.receivers()[video].likely_payload_type();
    for number in 0..100u16 {
        let header = Header {
            marker: true,
            payload_type,
            sequence: number.wrapping_add(65_500),
            timestamp: u32::from(number) * 3000,
            ssrc: glassline_media::Ssrc(7),
        };
        let mut bytes = vec![0; 12];
        write_header(&mut bytes, &header, &[]);
        match number {
            0 => bytes.extend_from_slice(&KEYFRAME),
            _ => bytes.extend_from_slice(&[0x10, 1, 1, 1]),
        }
        let padding = BLOCK - bytes.len() % BLOCK;
        bytes.resize(bytes.len() + padding, 0);
        bytes[0] |= 0x20;
        *bytes.last_mut().expect("padded") = padding as u8;
        let packet = Packet::parse(&bytes).expect("written here");
        let now = start + Duration::from_millis(u64::from(number) * 33);
        contribution.take(&session, place, &packet, now, &counters);
        let served = contribution.serve(&mut session, now, &counters);
        served.expect("published");
    }
    let stream = hub.stream("studio").expect("live");
    assert_eq!(stream.totals().units, 100);
    let frames = stream.since_keyframe(TrackIndex(0));
    let is_bare = |unit: &Arc<MediaUnit>| {
        let length = if unit.keyframe { 10 } else { 3 };
        unit.coded_frame()
            .is_some_and(|it| it.to_vec().len() == length)
    };
    assert!(frames.iter().all(is_bare), "without padding");
}
