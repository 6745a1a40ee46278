//! Publishes an MPEG transport stream that comes by UDP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_demux::{Error, Frame, PushedDemuxer};
use glassline_hub::{SourceNote, State, Stream};
use glassline_media::{LayerIndex, Temporal};
use glassline_rtp::units::TimedUnit;
use glassline_runtime::{Panicked, Part, Supervisor};
use tokio::net::UdpSocket;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::live_publisher::{Destination, LivePublisher};
use crate::publishing::HubRefusal;

/// Time without a datagram after which the sender counts as gone.
const SILENCE: Duration = Duration::from_secs(5);

/// Largest datagram that UDP has.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Publishes what arrives at `address` into `stream` until `stopped` turns true.
pub(super) async fn run(
    address: SocketAddr,
    stream: Arc<Stream>,
    supervisor: Arc<Supervisor>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut backoff = Backoff::new();
    loop {
        let receiving = async {
            let socket = UdpSocket::bind(address).await.map_err(Failure::Bind)?;
            receive(&socket, &stream).await
        };
        // Bytes that make the server panic end this sender, like bytes that are damaged.
        let receiving = supervisor.catch_task(Part::Source, receiving);
        let end = tokio::select! {
            end = receiving => end.map_err(Failure::from).flatten(),
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        if let Err(failure) = end {
            let detail = format!("udp://{address}: {failure}");
            tracing::warn!(stream = %stream.name(), detail, "source down");
            stream.set_state(State::Down { detail });
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause()) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

/// Publishes what one sender sends until that ends.
async fn receive(socket: &UdpSocket, stream: &Arc<Stream>) -> Result<(), Failure> {
    let mut demuxer = PushedDemuxer::transport_stream(&PathBuf::from("MPEG-TS by UDP"));
    let mut live: Option<LivePublisher> = None;
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let received = tokio::time::timeout(SILENCE, socket.recv(&mut datagram)).await;
        let count = match received {
            Ok(received) => received.map_err(Failure::Receive)?,
            // Nobody has sent anything yet.
            Err(_) if live.is_none() => continue,
            Err(_) => return Err(Failure::Silent),
        };
        let now = Instant::now();
        demuxer.push(&datagram[..count])?;
        while let Some(frame) = demuxer.next_frame() {
            let live = live.get_or_insert_with(|| publisher(stream, &mut demuxer));
            live.publish(unit(frame, now), LayerIndex::BASE, now);
            live.refused()?;
        }
    }
}

/// Prepares to publish the tracks that the stream turned out to have.
fn publisher(stream: &Arc<Stream>, demuxer: &mut PushedDemuxer) -> LivePublisher {
    let warnings = demuxer.take_warnings();
    let note = SourceNote {
        protocol: "udp",
        left_out: warnings.iter().map(ToString::to_string).collect(),
    };
    let destination = Destination::Stream(Arc::clone(stream));
    LivePublisher::new(destination, note, demuxer.tracks().to_vec())
}

fn unit(frame: Frame, now: Instant) -> TimedUnit {
    TimedUnit {
        track: frame.track,
        time: frame.time,
        decode_time: Some(frame.decode_time),
        keyframe: frame.keyframe,
        after_loss: frame.after_loss,
        temporal: Temporal::default(),
        data: frame.data.into(),
        received: now,
    }
}

/// The reason why nothing is received for now.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the port is not free: {0}; name another one, or end the program that has it")]
    Bind(std::io::Error),
    #[error("the socket fails: {0}")]
    Receive(std::io::Error),
    #[error("no datagram for {} s", SILENCE.as_secs())]
    Silent,
    #[error(transparent)]
    Demux(#[from] Error),
    #[error(transparent)]
    Hub(#[from] HubRefusal),
    #[error("reading the stream: {0}")]
    Panicked(#[from] Panicked),
}
