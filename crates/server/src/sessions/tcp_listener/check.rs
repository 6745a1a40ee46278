//! The first frame of a TCP connection, which has to be a connectivity check.

use std::io;
use std::time::Duration;

use glassline_webrtc::framing::{FRAME_BYTES_MAX, PREFIX_BYTES};
use glassline_webrtc::{stun_is_authentic, stun_username};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::sessions::record::SessionLocation;
use crate::sessions::registry::Registry;

/// Time for the first frame. Browsers send their first check as soon as they are connected.
const FIRST_FRAME: Duration = Duration::from_secs(5);

/// Length of a STUN header, which no check is shorter than (RFC 8489 §5).
const STUN_HEADER_BYTES: usize = 20;

/// A connection whose first frame is an authentic check.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) stream: TcpStream,
    /// The check, without its frame.
    pub(super) check: Vec<u8>,
    /// The shard that owns the session; `None` if no shard has it yet.
    pub(super) owner: Option<usize>,
}

/// Reads the first frame of a connection and nothing behind it. Returns `None` if that is no
/// authentic check for a session, or does not arrive in time.
pub(super) async fn first_check(mut stream: TcpStream, registry: &Registry) -> Option<Checked> {
    let read = tokio::time::timeout(FIRST_FRAME, read_frame(&mut stream));
    let check = read.await.ok()?.ok()?;
    let (ours, _) = stun_username(&check)?;
    let record = registry.by_ufrag(ours)?;
    let state = record.state();
    if !stun_is_authentic(&check, &state.ice.ours.pwd) {
        return None;
    }
    let owner = match state.location {
        SessionLocation::Shard(owner) => Some(owner),
        SessionLocation::Waiting(_) => None,
        SessionLocation::Gone => return None,
    };
    drop(state);
    Some(Checked {
        stream,
        check,
        owner,
    })
}

async fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; PREFIX_BYTES];
    stream.read_exact(&mut prefix).await?;
    let len = usize::from(u16::from_be_bytes(prefix));
    if !(STUN_HEADER_BYTES..=FRAME_BYTES_MAX).contains(&len) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; len];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}
