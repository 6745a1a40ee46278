//! Layouts by hand from the RFCs, one packet as Chromium sends it, and what lies.

use super::parameter::{
    ERROR_DETECTION_DTLS, Extensions, OutgoingReset, Parameter, Parameters, ReConfigResult,
    Response, Streams,
};
use super::*;
use crate::packet::{Checksum, HEADER_BYTES, Header, Packet};
use crate::sequence::{Mid, Ssn};

const HEADER: Header = Header {
    source_port: 5000,
    destination_port: 5000,
    verification_tag: 0x0102_0304,
};

/// What `write` makes of one chunk, without the packet's header.
fn written(write: impl FnOnce(&mut PacketBuilder<'_>) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut out = [0xaa; 2000];
    let mut builder = PacketBuilder::new(&mut out, HEADER).expect("room for a header");
    write(&mut builder).expect("room for the chunk");
    let len = builder.finish(Checksum::Zero);
    out[HEADER_BYTES..len].to_vec()
}

/// The chunk in `bytes` comes out as `expected`, and is written as the same bytes.
#[track_caller]
fn assert_both_ways(bytes: &[u8], expected: Chunk<'_>) {
    let mut chunks = Chunks::new(bytes, 0);
    let parsed = chunks.next().expect("one chunk").expect("a sound chunk");
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
    let parameters: Vec<_> = init.parameters.collect::<Result<_, _>>().expect("sound");
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
