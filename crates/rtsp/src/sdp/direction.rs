//! Directions of media, and which track is a back channel.

use glassline_media::{Kind, TrackIndex};

use super::{Description, Media};

/// Direction of media (RFC 8866 §6.7), as written.
///
/// RTSP servers disagree about whose view counts. ONVIF writes the client's (Streaming
/// Specification §5.3), so that `sendonly` is what the client sends; others write their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `a=sendonly`: one end sends, which is the writer's or the reader's.
    SendOnly,
    /// `a=recvonly`: the opposite of [`Self::SendOnly`].
    ReceiveOnly,
    /// `a=sendrecv`, or no attribute: both ends send.
    Both,
    /// `a=inactive`: neither end sends.
    Inactive,
}

impl Direction {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "sendonly" => Self::SendOnly,
            "recvonly" => Self::ReceiveOnly,
            "sendrecv" => Self::Both,
            "inactive" => Self::Inactive,
            _ => return None,
        })
    }
}

impl Description {
    /// Returns whether a track says that the server receives it: ONVIF's back channel, which a
    /// client that talks sets up.
    ///
    /// Only audio can be one. Its direction is the server's view if that of a video is `sendonly`,
    /// since no client sends video; otherwise it is the client's view. Without the requirement of
    /// a back channel in the request the direction alone proves nothing; see
    /// [`Description::choose`].
    pub fn is_back_channel(&self, media: &Media) -> bool {
        let sends = |media: &Media| media.direction == Some(Direction::SendOnly);
        let is_video = |media: &&Media| media.kind() == Some(Kind::Video);
        let is_servers_view = self.tracks.iter().filter(is_video).any(sends);
        let received = match is_servers_view {
            true => Direction::ReceiveOnly,
            false => Direction::SendOnly,
        };
        media.kind() == Some(Kind::Audio) && media.direction == Some(received)
    }

    /// Returns the tracks that [the server receives](Description::is_back_channel), each with its
    /// index.
    pub fn back_channels(&self) -> impl Iterator<Item = (TrackIndex, &Media)> {
        let tracks = TrackIndex::enumerate(&self.tracks);
        tracks.filter(|(_, media)| self.is_back_channel(media))
    }
}
