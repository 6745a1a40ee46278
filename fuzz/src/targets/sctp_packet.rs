//! SCTP packets: whatever parses is written and parsed again to the same, through every
//! list, parameter and error cause; and DCEP messages.

use glassline_sctp::channel::Dcep;
use glassline_sctp::chunk::parameter::Parameter;
use glassline_sctp::chunk::{Causes, Chunk, InitAck, Parameters};
use glassline_sctp::packet::{Checksum, Packet, PacketBuilder};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(Dcep::Open(open)) = Dcep::parse(bytes) {
        let again = Dcep::Open(open).to_bytes();
        assert_eq!(Dcep::parse(&again).map(|dcep| dcep.to_bytes()), Ok(again));
    }
    // Few inputs would have a right checksum; zero replaces it.
    let mut bytes = bytes.to_vec();
    bytes.get_mut(8..12).unwrap_or_default().fill(0);
    let Ok(packet) = Packet::parse(&bytes, true) else {
        return;
    };
    let mut out = vec![0xaa; bytes.len() + 4];
    let mut builder = PacketBuilder::new(&mut out, packet.header).expect("a header came in");
    let mut chunks = Vec::new();
    for chunk in packet.chunks().flatten() {
        assert!(entries(&chunk) <= bytes.len());
        // A chunk is never larger than what it came from.
        chunk.write(&mut builder).expect("room");
        chunks.push(chunk);
    }
    let len = builder.finish(Checksum::Crc32c);
    let again = Packet::parse(&out[..len], false).expect("we wrote it");
    assert_eq!(again.header, packet.header);
    let mut again = again.chunks();
    for chunk in &chunks {
        let written = again.next().expect("we wrote one").expect("we wrote it");
        if let (Chunk::Unknown(written), Chunk::Unknown(chunk)) = (&written, chunk) {
            assert_eq!((written.kind, written.body), (chunk.kind, chunk.body));
        } else if !matches!(chunk, Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_)) {
            assert_eq!(&written, chunk);
        }
    }
}

/// Reads everything in a chunk; returns the number of entries.
fn entries(chunk: &Chunk<'_>) -> usize {
    match *chunk {
        Chunk::Init(init) | Chunk::InitAck(InitAck(init)) => {
            let _ = init.parameters.extensions();
            parameters(init.parameters)
        }
        Chunk::ReConfig(re_config) => parameters(re_config.parameters),
        Chunk::Abort(abort) => causes(abort.causes),
        Chunk::Error(error) => causes(error.causes),
        Chunk::Sack(sack) => sack.gaps.count() + sack.duplicates.count(),
        Chunk::ForwardTsn(forward) => forward.skipped.count(),
        Chunk::IForwardTsn(forward) => forward.skipped.count(),
        _ => 0,
    }
}

fn parameters(parameters: Parameters<'_>) -> usize {
    let streams = |parameter| match parameter {
        Parameter::OutgoingReset(reset) => 1 + reset.streams.iter().count(),
        Parameter::IncomingReset(reset) => 1 + reset.streams.iter().count(),
        _ => 1,
    };
    parameters.flatten().map(streams).sum()
}

fn causes(causes: Causes<'_>) -> usize {
    causes.flatten().count()
}
