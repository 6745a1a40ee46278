//! Tests of layouts written by hand from the RFCs, of one packet as Chromium sends it, and
//! of malformed chunks.

use super::parameter::{
    ERROR_DETECTION_DTLS, Extensions, OutgoingReset, Parameter, Parameters, ReConfigResult,
    Response, StreamList,
};
use super::*;
use crate::packet::{Checksum, HEADER_BYTES, Header};
use crate::sequence::{Mid, Ssn, Tsn};

const HEADER: Header = Header {
    source_port: 5000,
    destination_port: 5000,
    verification_tag: 0x0102_0304,
};

/// Returns the bytes that `write` writes for one chunk, without the packet's header.
fn written(write: impl FnOnce(&mut PacketBuilder<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut out = [0xaa; 2000];
    let mut builder = PacketBuilder::new(&mut out, HEADER).expect("room for a header");
    write(&mut builder).expect("room for the chunk");
    let len = builder.finish(Checksum::Zero);
    out[HEADER_BYTES..len].to_vec()
}

/// Checks that the chunk in `bytes` is parsed as `expected`, and written as the same bytes.
#[track_caller]
fn assert_both_ways(bytes: &[u8], expected: Chunk<'_>) {
    let mut chunks = Chunks::new(bytes, 0);
    let parsed = chunks.next().expect("one chunk").expect("a valid chunk");
    assert_eq!(parsed, expected);
    assert!(chunks.next().is_none());
    assert_eq!(written(|packet| parsed.write(packet)), bytes);
    assert_eq!(written(|packet| expected.write(packet)), bytes);
}

#[test]
fn chromiums_init_says_what_it_can_do() {
    // 20 bytes of INIT with 5 MiB of window, then 0xC000, then 0x8008 {82, C0}.
    let bytes = [
        1, 0, 0, 30, 0x7c, 0x11, 0x22, 0x33, 0x00, 0x50, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x9a,
        0x01, 0x02, 0x03, 0xc0, 0x00, 0, 4, 0x80, 0x08, 0, 6, 0x82, 0xc0, 0, 0,
    ];
    let Some(Ok(Chunk::Init(init))) = Chunks::new(&bytes, 0).next() else {
        panic!("an INIT");
    };
    assert_eq!(init.initiate_tag, 0x7c11_2233);
    assert_eq!(init.a_rwnd, 5 << 20);
    assert_eq!(
        (init.outbound_streams, init.inbound_streams),
        (65535, 65535)
    );
    assert_eq!(init.initial_tsn, Tsn(0x9a01_0203));
    let parameters: Vec<_> = init.parameters.collect::<Result<_, _>>().expect("valid");
    assert_eq!(
        parameters,
        [
            Parameter::ForwardTsnSupported,
            Parameter::SupportedExtensions(&[0x82, 0xc0])
        ]
    );
    assert_eq!(
        init.parameters.extensions(),
        Extensions {
            forward_tsn: true,
            re_config: true,
            ..Extensions::default()
        }
    );
    let own = Init {
        parameters: Parameters::NONE,
        ..init
    };
    assert_eq!(written(|packet| own.write_with(&parameters, packet)), bytes);
    assert_both_ways(&bytes, Chunk::Init(init));
}

#[test]
fn data_is_laid_out_as_in_rfc_9260_3_3_1() {
    let bytes = [
        0, 0x0b, 0, 19, 0x11, 0x22, 0x33, 0x44, 0, 5, 0, 9, 0, 0, 0, 51, b'a', b'b', b'c', 0,
    ];
    assert_both_ways(
        &bytes,
        Chunk::Data(Data {
            flags: DataFlags::WHOLE | DataFlags::IMMEDIATE,
            tsn: Tsn(0x1122_3344),
            stream: 5,
            ssn: Ssn(9),
            ppid: 51,
            payload: b"abc",
        }),
    );
    // The last chunk of a packet may come without its padding.
    assert!(matches!(
        Chunks::new(&bytes[..19], 0).next(),
        Some(Ok(Chunk::Data(_)))
    ));
}

#[test]
fn i_data_says_its_protocol_first_and_then_its_fragment() {
    let first = [
        0x40, 6, 0, 21, 0, 0, 0, 1, 0, 5, 0, 0, 0, 0, 0, 7, 0, 0, 0, 53, 9, 0, 0, 0,
    ];
    let mut chunk = IData {
        flags: DataFlags::BEGIN | DataFlags::UNORDERED,
        tsn: Tsn(1),
        stream: 5,
        mid: Mid(7),
        ppid: 53,
        fsn: 0,
        payload: &[9],
    };
    assert_both_ways(&first, Chunk::IData(chunk));
    let mut second = first;
    second[1] = 5;
    chunk.flags = DataFlags::END | DataFlags::UNORDERED;
    (chunk.ppid, chunk.fsn) = (0, 53);
    assert_both_ways(&second, Chunk::IData(chunk));
}

#[test]
fn a_sack_lists_what_came_beyond_the_hole_and_what_came_twice() {
    let bytes = [
        3, 0, 0, 28, 0, 0, 0, 12, 0, 0, 0x12, 0x6e, 0, 2, 0, 1, 0, 2, 0, 3, 0, 5, 0, 5, 0, 0, 0, 11,
    ];
    let gaps = [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }];
    let Some(Ok(Chunk::Sack(sack))) = Chunks::new(&bytes, 0).next() else {
        panic!("a SACK");
    };
    assert!(sack.gaps.eq(gaps));
    assert!(sack.duplicates.eq([Tsn(11)]));
    assert_both_ways(&bytes, Chunk::Sack(sack));
    let fitting = written(|packet| {
        let counts = Sack::write_fitting(Tsn(12), 0x126e, gaps, [Tsn(11)], packet)?;
        assert_eq!(counts, (2, 1));
        Ok(())
    });
    assert_eq!(fitting, bytes);
}

#[test]
fn a_sack_takes_what_fits_gaps_before_duplicates() {
    let gaps = (1..=100).map(|at| GapBlock {
        start: at * 2,
        end: at * 2,
    });
    for (room, expected) in [
        (16, (0, 0)),
        (24, (2, 0)),
        (416, (100, 0)),
        (424, (100, 2)),
        (1000, (100, 3)),
    ] {
        let mut out = vec![0; HEADER_BYTES + room];
        let mut packet = PacketBuilder::new(&mut out, HEADER).expect("room");
        let duplicates = [Tsn(1), Tsn(2), Tsn(3)];
        let counts = Sack::write_fitting(Tsn(9), 1, gaps.clone(), duplicates, &mut packet);
        assert_eq!(counts, Ok(expected));
        let len = packet.finish(Checksum::Zero);
        let Some(Ok(Chunk::Sack(sack))) = Chunks::new(&out[..len], HEADER_BYTES).next() else {
            panic!("a SACK");
        };
        assert_eq!((sack.gaps.len(), sack.duplicates.len()), expected);
    }
    let mut out = [0; HEADER_BYTES + 12];
    let mut packet = PacketBuilder::new(&mut out, HEADER).expect("room");
    assert_eq!(
        Sack::write_fitting(Tsn(9), 1, [], [], &mut packet),
        Err(NoRoom)
    );
}

#[test]
fn a_sack_with_more_blocks_than_bytes_is_an_error() {
    let mut bytes = [
        3, 0, 0, 20, 0, 0, 0, 12, 0, 0, 0x12, 0x6e, 0, 1, 0, 1, 0, 2, 0, 3,
    ];
    let error = Chunks::new(&bytes, 0).next().expect("something");
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("SACK blocks at byte 16 needs 8 bytes, 4 are there".into())
    );
    bytes[15] = 0;
    assert!(matches!(Chunks::new(&bytes, 0).next(), Some(Ok(_))));
    bytes[12..16].fill(0xff);
    assert!(matches!(Chunks::new(&bytes, 0).next(), Some(Err(_))));
}

#[test]
fn small_chunks_are_laid_out_as_in_their_rfcs() {
    assert_both_ways(
        &[4, 0, 0, 11, 0, 1, 0, 7, 1, 2, 3, 0],
        Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3] }),
    );
    assert_both_ways(
        &[5, 0, 0, 8, 0, 1, 0, 4],
        Chunk::HeartbeatAck(HeartbeatAck { info: &[] }),
    );
    assert_both_ways(
        &[7, 0, 0, 8, 1, 2, 3, 4],
        Chunk::Shutdown(Shutdown {
            cumulative_tsn: Tsn(0x0102_0304),
        }),
    );
    assert_both_ways(&[8, 0, 0, 4], Chunk::ShutdownAck(ShutdownAck));
    assert_both_ways(
        &[14, 1, 0, 4],
        Chunk::ShutdownComplete(ShutdownComplete {
            reflected_tag: true,
        }),
    );
    assert_both_ways(
        &[10, 0, 0, 6, 8, 9, 0, 0],
        Chunk::CookieEcho(CookieEcho { cookie: &[8, 9] }),
    );
    assert_both_ways(&[11, 0, 0, 4], Chunk::CookieAck(CookieAck));
    assert_both_ways(
        &[0x84, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0],
        Chunk::Pad(Pad { len: 5 }),
    );
    assert_both_ways(
        &[0x3f, 7, 0, 5, 1, 0, 0, 0],
        Chunk::Unknown(Unknown {
            kind: 0x3f,
            flags: 7,
            body: &[1],
            whole: &[0x3f, 7, 0, 5, 1],
        }),
    );
}

#[test]
fn what_was_given_up_is_listed_by_stream() {
    let bytes = [0xc0, 0, 0, 16, 0, 0, 1, 0, 0, 3, 0, 9, 0, 4, 0, 1];
    let skipped = [(3, 9), (4, 1)].map(|(stream, ssn)| SkippedStream {
        stream,
        ssn: Ssn(ssn),
    });
    let Some(Ok(Chunk::ForwardTsn(forward))) = Chunks::new(&bytes, 0).next() else {
        panic!("a FORWARD TSN");
    };
    assert_eq!(forward.new_cumulative_tsn, Tsn(256));
    assert!(forward.skipped.eq(skipped));
    assert_both_ways(&bytes, Chunk::ForwardTsn(forward));
    let own = written(|packet| ForwardTsn::write_streams(Tsn(256), skipped, packet));
    assert_eq!(own, bytes);

    let bytes = [
        0xc2, 0, 0, 24, 0, 0, 1, 0, 0, 3, 0, 1, 0, 0, 0, 9, 0, 4, 0, 0, 0, 0, 0, 1,
    ];
    let skipped = [(3, true, 9), (4, false, 1)].map(|(stream, unordered, mid)| SkippedMessage {
        stream,
        unordered,
        mid: Mid(mid),
    });
    let Some(Ok(Chunk::IForwardTsn(forward))) = Chunks::new(&bytes, 0).next() else {
        panic!("an I-FORWARD-TSN");
    };
    assert!(forward.skipped.eq(skipped));
    assert_both_ways(&bytes, Chunk::IForwardTsn(forward));
    let own = written(|packet| IForwardTsn::write_messages(Tsn(256), skipped, packet));
    assert_eq!(own, bytes);
}

#[test]
fn resets_and_their_answers_are_laid_out_as_in_rfc_6525() {
    // The outgoing reset is padded before the response; its length leaves that out.
    let bytes = [
        0x82, 0, 0, 36, 0, 13, 0, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 5, 0, 0, 0, 16, 0, 12,
        0, 0, 0, 9, 0, 0, 0, 1,
    ];
    let parameters = [
        Parameter::OutgoingReset(OutgoingReset {
            request: 1,
            response: 2,
            last_tsn: Tsn(3),
            streams: StreamList::Own(&[5]),
        }),
        Parameter::Response(Response {
            response: 9,
            result: ReConfigResult::PERFORMED,
            next_tsns: None,
        }),
    ];
    let Some(Ok(Chunk::ReConfig(parsed))) = Chunks::new(&bytes, 0).next() else {
        panic!("a RE-CONFIG");
    };
    assert!(parsed.parameters.eq(parameters.map(Ok)));
    assert_both_ways(&bytes, Chunk::ReConfig(parsed));
    let own = written(|packet| ReConfig::write_parameters(&parameters, packet));
    assert_eq!(own, bytes);
}

#[test]
fn an_abort_says_why() {
    let bytes = [
        6, 1, 0, 22, 0, 12, 0, 7, b'b', b'y', b'e', 0, 0, 2, 0, 10, 0, 0, 0, 1, 0, 7, 0, 0,
    ];
    let Some(Ok(Chunk::Abort(abort))) = Chunks::new(&bytes, 0).next() else {
        panic!("an ABORT");
    };
    assert!(abort.reflected_tag);
    let causes: Vec<_> = abort.causes.collect::<Result<_, _>>().expect("valid");
    assert_eq!(causes[0], Cause::UserInitiatedAbort(b"bye"));
    let Cause::MissingParameters(missing) = causes[1] else {
        panic!("missing parameters");
    };
    assert!(missing.eq([7]));
    assert_both_ways(&bytes, Chunk::Abort(abort));
    let own = Abort {
        causes: Causes::NONE,
        ..abort
    };
    assert_eq!(written(|packet| own.write_with(&causes, packet)), bytes);
}

#[test]
fn unknown_chunks_say_by_their_high_bits_what_becomes_of_the_rest() {
    for (kind, stop, report) in [
        (0x3f, true, false),
        (0x7f, true, true),
        (0xbf, false, false),
        (0xff, false, true),
    ] {
        let bytes = [kind, 0, 0, 4, 11, 0, 0, 4];
        let chunks: Vec<_> = Chunks::new(&bytes, 0).collect();
        let Ok(Chunk::Unknown(unknown)) = chunks[0] else {
            panic!("unknown");
        };
        assert_eq!(unknown.action(), Unrecognized { stop, report });
        let expected: &[_] = if stop {
            &[]
        } else {
            &[Ok(Chunk::CookieAck(CookieAck))]
        };
        assert_eq!(&chunks[1..], expected);
    }
}

#[test]
fn unknown_parameters_say_so_too() {
    for (kind, goes_on) in [(0x3f, false), (0x7f, false), (0xbf, true), (0xff, true)] {
        let bytes = [kind, 0xff, 0, 5, 1, 0, 0, 0, 0xc0, 0, 0, 4];
        let parameters = Parameters::new(&bytes, 0);
        assert_eq!(parameters.count(), 1 + usize::from(goes_on));
        assert_eq!(parameters.extensions().forward_tsn, goes_on);
    }
}

#[test]
fn lying_lengths_are_named_and_end_the_packet() {
    let text = |bytes: &[u8]| {
        let items: Vec<_> = Chunks::new(bytes, 0).collect();
        assert_eq!(items.len(), 1);
        items[0].map_err(|error| error.to_string()).unwrap_err()
    };
    assert_eq!(
        text(&[11, 0, 0, 3, 11, 0, 0, 4]),
        "chunk at byte 0 says it is 3 bytes long, header included"
    );
    assert_eq!(
        text(&[11, 0, 0, 12, 11, 0, 0, 4]),
        "chunk at byte 0 needs 12 bytes, 8 are there"
    );
    assert_eq!(
        text(&[11, 0]),
        "chunk header at byte 0 needs 4 bytes, 2 are there"
    );
    let parameters = Parameters::new(&[0x80, 8, 0, 9, 1, 2, 3, 4], 40);
    assert_eq!(
        parameters.last().map(|last| last.unwrap_err().to_string()),
        Some("parameter at byte 40 needs 9 bytes, 8 are there".into())
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Generates the bytes of one chunk with the writers that an association uses.
    fn any_chunk() -> impl Strategy<Value = Vec<u8>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..60);
        let words = || proptest::collection::vec(any::<(u16, u16)>(), 0..20);
        prop_oneof![
            (any::<[u32; 4]>(), any::<u16>(), 0..16u8, bytes()).prop_map(
                |([tsn, ppid, mid, fsn], stream, flags, payload)| {
                    let flags = DataFlags(flags);
                    let begins = flags.has(DataFlags::BEGIN);
                    if mid % 2 == 0 {
                        let data = Data {
                            flags,
                            tsn: Tsn(tsn),
                            stream,
                            ssn: Ssn(fsn as u16),
                            ppid,
                            payload: &payload,
                        };
                        written(|packet| data.write(packet))
                    } else {
                        let data = IData {
                            flags,
                            tsn: Tsn(tsn),
                            stream,
                            mid: Mid(mid),
                            ppid: if begins { ppid } else { 0 },
                            fsn: if begins { 0 } else { fsn },
                            payload: &payload,
                        };
                        written(|packet| data.write(packet))
                    }
                }
            ),
            (any::<[u32; 2]>(), words(), words()).prop_map(|([tsn, window], gaps, twice)| {
                let gaps = gaps.iter().map(|&(start, end)| GapBlock { start, end });
                let twice = twice
                    .iter()
                    .map(|&(a, b)| Tsn(u32::from(a) << 16 | u32::from(b)));
                written(|packet| {
                    Sack::write_fitting(Tsn(tsn), window, gaps, twice, packet).map(drop)
                })
            }),
            (any::<[u32; 3]>(), any::<[u16; 2]>(), bytes(), any::<bool>()).prop_map(
                |([tag, window, tsn], [outbound, inbound], cookie, ack)| {
                    let init = Init {
                        initiate_tag: tag,
                        a_rwnd: window,
                        outbound_streams: outbound,
                        inbound_streams: inbound,
                        initial_tsn: Tsn(tsn),
                        parameters: Parameters::NONE,
                    };
                    let parameters = [
                        Parameter::StateCookie(&cookie),
                        Parameter::ZeroChecksumAcceptable(ERROR_DETECTION_DTLS),
                        Parameter::SupportedExtensions(&cookie),
                        Parameter::Padding(cookie.len()),
                    ];
                    if ack {
                        written(|packet| InitAck(init).write_with(&parameters, packet))
                    } else {
                        written(|packet| init.write_with(&parameters, packet))
                    }
                }
            ),
            (any::<u32>(), words()).prop_map(|(tsn, streams)| {
                let streams = streams.iter().map(|&(stream, ssn)| SkippedStream {
                    stream,
                    ssn: Ssn(ssn),
                });
                written(|packet| ForwardTsn::write_streams(Tsn(tsn), streams, packet))
            }),
            (
                any::<[u32; 4]>(),
                proptest::collection::vec(any::<u16>(), 0..9)
            )
                .prop_map(|([request, response, tsn, result], streams)| {
                    let parameters = [
                        Parameter::OutgoingReset(OutgoingReset {
                            request,
                            response,
                            last_tsn: Tsn(tsn),
                            streams: StreamList::Own(&streams),
                        }),
                        Parameter::Response(Response {
                            response,
                            result: ReConfigResult(result),
                            next_tsns: (result % 2 == 0).then_some((Tsn(tsn), Tsn(request))),
                        }),
                    ];
                    written(|packet| ReConfig::write_parameters(&parameters, packet))
                }),
            (any::<bool>(), bytes()).prop_map(|(reflected_tag, text)| {
                let abort = Abort {
                    reflected_tag,
                    causes: Causes::NONE,
                };
                let causes = [Cause::ProtocolViolation(&text), Cause::NoUserData(Tsn(7))];
                written(|packet| abort.write_with(&causes, packet))
            }),
            (any::<u8>(), any::<u8>(), bytes()).prop_map(|(kind, flags, body)| {
                // Most of these types are known, and the body does not match them.
                written(|packet| packet.chunk(kind, flags, |out| out.put(&body)))
            }),
        ]
    }

    proptest! {
        /// Whatever parses is written as the same bytes, and no length panics.
        #[test]
        fn what_parses_is_written_and_parses_to_the_same(
            chunks in proptest::collection::vec(any_chunk(), 1..6),
            cut: proptest::sample::Index,
        ) {
            let bytes = chunks.concat();
            for chunk in Chunks::new(&bytes, 0).flatten() {
                let again = written(|packet| chunk.write(packet));
                let Some(Ok(parsed)) = Chunks::new(&again, 0).next() else {
                    return Err(TestCaseError::fail("what was written does not parse"));
                };
                prop_assert_eq!(same(&parsed), same(&chunk));
            }
            for chunk in Chunks::new(&bytes[..cut.index(bytes.len())], 0).flatten() {
                let _ = walk(&chunk);
            }
        }

        #[test]
        fn noise_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for chunk in Chunks::new(&bytes, 0).flatten() {
                prop_assert!(walk(&chunk) <= bytes.len());
            }
            prop_assert!(Parameters::new(&bytes, 0).count() <= bytes.len());
            prop_assert!(Causes::new(&bytes, 0).count() <= bytes.len());
        }
    }

    /// Returns the chunk without its position in the packet, which errors inside it would
    /// contain.
    fn same<'a>(chunk: &Chunk<'a>) -> Chunk<'a> {
        match *chunk {
            Chunk::Unknown(unknown) => Chunk::Unknown(Unknown {
                whole: &[],
                ..unknown
            }),
            other => other,
        }
    }

    /// Reads everything in the chunk; returns the number of entries.
    fn walk(chunk: &Chunk<'_>) -> usize {
        match *chunk {
            Chunk::Init(init) | Chunk::InitAck(InitAck(init)) => {
                let _ = init.parameters.extensions();
                let _ = init.parameters.state_cookie();
                init.parameters.count()
            }
            Chunk::Sack(sack) => sack.gaps.count() + sack.duplicates.count(),
            Chunk::Abort(abort) => abort.causes.count(),
            Chunk::Error(error) => error.causes.count(),
            Chunk::ForwardTsn(forward) => forward.skipped.count(),
            Chunk::IForwardTsn(forward) => forward.skipped.count(),
            Chunk::ReConfig(re_config) => re_config
                .parameters
                .flatten()
                .map(|parameter| match parameter {
                    Parameter::OutgoingReset(reset) => reset.streams.iter().count(),
                    Parameter::IncomingReset(reset) => reset.streams.iter().count(),
                    _ => 1,
                })
                .sum(),
            _ => 0,
        }
    }
}
