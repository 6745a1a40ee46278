//! The thread that transcodes a voice for a camera.
//!
//! ```text
//! VoiceQueue, 500 ms ─► ReorderBuffer, 60 ms ─► VoiceTranscoder ─► two frames ─► connection
//! ```
//!
//! Neither the thread that receives the packets nor the task that writes to the camera waits for the
//! work. A camera that reads too slowly stops this thread, and the queue before it drops the oldest.

use std::time::{Duration, Instant};

use glassline_rtp::reorder::{Config, ReceivedPacket, ReorderBuffer};
use glassline_transcode::{VoiceFrame, VoiceTranscoder};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::queue::VoiceReceiver;

/// Frames that wait for the connection.
const FRAMES_MAX: usize = 2;

/// Longest wait for a packet that others overtook.
const REORDERING: Config = Config {
    gap_timeout: Duration::from_millis(60),
    bytes_max: 64 << 10,
};

/// A voice that is transcoded on a thread of its own.
#[derive(Debug)]
pub(super) struct TranscodedVoice {
    frames: mpsc::Receiver<VoiceFrame>,
    thread: JoinHandle<Dropped>,
}

/// Packets that were not transcoded.
#[derive(Clone, Copy, Debug, Default)]
struct Dropped {
    late: u64,
    undecodable: u64,
}

impl TranscodedVoice {
    /// Starts to transcode `voice`.
    pub(super) fn start(voice: VoiceReceiver, transcoder: VoiceTranscoder) -> Self {
        let (sender, frames) = mpsc::channel(FRAMES_MAX);
        let runtime = Handle::current();
        let thread =
            tokio::task::spawn_blocking(move || transcode(&runtime, voice, transcoder, &sender));
        Self { frames, thread }
    }

    /// Waits for the next frame; `None` once the voice has ended. May be dropped while it waits.
    pub(super) async fn recv(&mut self) -> Option<VoiceFrame> {
        self.frames.recv().await
    }

    /// Waits for the end of the thread, which the end of the voice or of its receiver leads to.
    pub(super) async fn end(self) {
        drop(self.frames);
        match self.thread.await {
            Ok(Dropped {
                late: 0,
                undecodable: 0,
            }) => {}
            Ok(Dropped { late, undecodable }) => {
                tracing::info!(late, undecodable, "packets of a talk were not transcoded");
            }
            // The caller counts it.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }
}

/// Transcodes packets in their order, until the voice ends or nobody takes its frames.
fn transcode(
    runtime: &Handle,
    mut voice: VoiceReceiver,
    mut transcoder: VoiceTranscoder,
    sender: &mpsc::Sender<VoiceFrame>,
) -> Dropped {
    let mut reordering = ReorderBuffer::new(REORDERING);
    let mut frames = Vec::new();
    let mut undecodable = 0;
    loop {
        let deadline = reordering.deadline();
        let next = runtime.block_on(async {
            match deadline {
                Some(at) => tokio::time::timeout_at(at.into(), voice.recv()).await.ok(),
                None => Some(voice.recv().await),
            }
        });
        let received = Instant::now();
        let mut take = |packet: ReceivedPacket<'_>| {
            let taken = transcoder.push(packet.timestamp, packet.payload, &mut frames);
            if let Err(error) = taken {
                undecodable += 1;
                tracing::debug!(%error, "a packet of a talk is silence");
            }
        };
        let is_end = match &next {
            Some(Some(packet)) => {
                let packet = ReceivedPacket {
                    sequence: packet.sequence,
                    timestamp: packet.timestamp,
                    marker: false,
                    payload: &packet.payload,
                    received,
                };
                reordering.push(packet, &mut take);
                false
            }
            Some(None) => {
                reordering.restart(&mut take);
                true
            }
            None => {
                reordering.expire(received, &mut take);
                false
            }
        };
        for frame in frames.drain(..) {
            if sender.blocking_send(frame).is_err() {
                return dropped(&reordering, &transcoder, undecodable);
            }
        }
        if is_end {
            return dropped(&reordering, &transcoder, undecodable);
        }
    }
}

fn dropped(reordering: &ReorderBuffer, transcoder: &VoiceTranscoder, undecodable: u64) -> Dropped {
    Dropped {
        late: reordering.late() + transcoder.late(),
        undecodable,
    }
}
