//! What an event of a thread's poll is about, and the token that says so.

use mio::Token;

use crate::runtime::Key;

/// Listeners that a thread can tell apart: plain, and inside TLS.
const LISTENERS_MAX: usize = 4;

/// Marks the other halves of tunnels: generations of keys stay far below.
const TUNNEL_BIT: usize = 1 << (usize::BITS - 1);

const WAKER: usize = usize::MAX - 1;
const UDP_MEDIA: usize = usize::MAX - 2;
const UDP_CONTROL: usize = usize::MAX - 3;
/// The first of the listeners; further ones go down from here.
const LISTENERS: usize = usize::MAX - 16;

/// The owner of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventSource {
    /// Another thread woke this one.
    Waker,
    /// The UDP port for media.
    UdpMedia,
    /// The UDP port for reports.
    UdpControl,
    /// A listener, by its index.
    Listener(usize),
    /// The connection from client to server of a tunnel.
    Tunnel(Key),
    /// A client's connection.
    Client(Key),
}

impl EventSource {
    pub(super) fn token(self) -> Token {
        Token(match self {
            Self::Waker => WAKER,
            Self::UdpMedia => UDP_MEDIA,
            Self::UdpControl => UDP_CONTROL,
            Self::Listener(index) => {
                debug_assert!(index < LISTENERS_MAX, "a listener for each way to come");
                LISTENERS - index
            }
            Self::Tunnel(key) => TUNNEL_BIT | bits(key),
            Self::Client(key) => bits(key),
        })
    }

    pub(super) fn of(token: Token) -> Self {
        let Token(token) = token;
        let listener = LISTENERS.checked_sub(token);
        match token {
            WAKER => Self::Waker,
            UDP_MEDIA => Self::UdpMedia,
            UDP_CONTROL => Self::UdpControl,
            _ => match listener.filter(|index| *index < LISTENERS_MAX) {
                Some(index) => Self::Listener(index),
                None if token & TUNNEL_BIT != 0 => {
                    Self::Tunnel(Key::from_bits((token & !TUNNEL_BIT) as u64))
                }
                None => Self::Client(Key::from_bits(token as u64)),
            },
        }
    }
}

fn bits(key: Key) -> usize {
    // 64 bits: a server of clients by the thousand runs on nothing smaller.
    usize::try_from(key.to_bits()).unwrap_or(usize::MAX - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_found_by_its_token() {
        let key = Key::from_bits(7 << 32 | 3);
        let sources = [
            EventSource::Waker,
            EventSource::UdpMedia,
            EventSource::UdpControl,
            EventSource::Listener(0),
            EventSource::Listener(1),
            EventSource::Tunnel(key),
            EventSource::Client(key),
            EventSource::Client(Key::from_bits(0)),
        ];
        for source in sources {
            assert_eq!(EventSource::of(source.token()), source);
        }
    }
}
