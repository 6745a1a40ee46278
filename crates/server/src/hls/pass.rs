//! Passes: who asks for a stream with a right to read it gets a part of a path, which opens the stream for
//! everybody who knows it, and for a few minutes.
//!
//! ```text
//! /cam/hls/index.m3u8?token=…            the right is checked
//!   └► P5986.xxxx/video0.m3u8?token=…    a pass for playlists, and the right again once it has ended
//!        └► ../F5986.xxxx/video0/s1.m4s  a pass for files, which opens no playlist
//! /cam/hls/dvr.m3u8 ─► R5986.xxxx/…     a pass for recordings: no other opens them, and it nothing else
//! ```
//!
//! A pass is the same for all viewers of its window, so that caches answer all of them with one copy.
//! Playlists name the files by the pass for files of the window in which they came to be. A right that is
//! taken away ends with the windows of both: after 15 minutes at most, and a client that never had one
//! cannot go on from what it reads.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Time after which passes change. A pass is valid in its own window and the next one.
pub(super) const WINDOW: Duration = Duration::from_secs(300);

/// The text in front of all that is signed; the signature is one of nothing else.
const PURPOSE: &[u8] = b"glassline hls 1";

/// Bytes of a signature: 128 bits of HMAC-SHA256.
const MAC_BYTES: usize = 16;

/// The requests that a pass opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    Playlists,
    Files,
    /// Everything that was recorded.
    Past,
}

impl Opens {
    const fn letter(self) -> char {
        match self {
            Self::Playlists => 'P',
            Self::Files => 'F',
            Self::Past => 'R',
        }
    }
}

/// The key with which passes are signed. Servers of a cluster have one key, from their secret.
#[derive(Clone, Debug)]
pub(super) struct PassKey(hmac::Key);

impl PassKey {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the pass of the window at `unix`, as a segment of a path.
    pub(super) fn issue(&self, stream: &str, opens: Opens, unix: Duration) -> String {
        self.of_window(stream, opens, window(unix))
    }

    /// Returns whether `pass` is valid at `unix`.
    pub(super) fn is_valid(&self, pass: &str, stream: &str, opens: Opens, unix: Duration) -> bool {
        let number = pass.get(1..).and_then(|it| it.split('.').next());
        let Some(shown) = number.and_then(|it| it.parse::<u64>().ok()) else {
            return false;
        };
        let now = window(unix);
        if shown != now && Some(shown) != now.checked_sub(1) {
            return false;
        }
        let expected = self.of_window(stream, opens, shown);
        // The time of the comparison tells nothing of the key.
        aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_bytes(), pass.as_bytes())
            .is_ok()
    }

    fn of_window(&self, stream: &str, opens: Opens, window: u64) -> String {
        let letter = opens.letter();
        // The name is last: nothing else has a length of its own.
        let message = format!("{letter}{window}.{stream}");
        let mac = hmac::sign(&self.0, &[PURPOSE, message.as_bytes()].concat());
        let mac = URL_SAFE_NO_PAD.encode(&mac.as_ref()[..MAC_BYTES]);
        format!("{letter}{window}.{mac}")
    }
}

/// Returns the number of the window at `unix`.
pub(super) const fn window(unix: Duration) -> u64 {
    unix.as_secs() / WINDOW.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_for_its_stream_its_kind_and_two_windows() {
        let (key, other) = (PassKey::new(b"one"), PassKey::new(b"two"));
        let at = |windows: u32| WINDOW * 1000 + WINDOW * windows + Duration::from_secs(7);
        let pass = key.issue("cam", Opens::Playlists, at(0));
        let is_valid = |name, opens, windows| key.is_valid(&pass, name, opens, at(windows));
        assert!(is_valid("cam", Opens::Playlists, 0));
        assert!(is_valid("cam", Opens::Playlists, 1));
        assert!(!is_valid("cam", Opens::Playlists, 2));
        assert!(!is_valid("cam", Opens::Files, 0));
        assert!(!is_valid("cam", Opens::Past, 0));
        assert!(!is_valid("cam2", Opens::Playlists, 0));
        assert!(!other.is_valid(&pass, "cam", Opens::Playlists, at(0)));
        assert!(!key.is_valid("", "cam", Opens::Playlists, at(0)));
        assert_eq!(pass, key.issue("cam", Opens::Playlists, at(0)), "for all");
        assert!(
            pass.bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"._-".contains(&it))
        );
    }
}
