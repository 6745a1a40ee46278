//! The source of a poll event, encoded in the event's token.

use glassline_runtime::Key;
use mio::Token;

/// Most listeners that a thread can tell apart: plain ones, and ones within TLS.
const LISTENERS_MAX: usize = 4;

/// Bit that marks the second connections of tunnels; generations of keys stay far below it.
const TUNNEL_BIT: usize = 1 << (usize::BITS - 1);

const WAKER: usize = usize::MAX - 1;
const UDP_MEDIA: usize = usize::MAX - 2;
const UDP_CONTROL: usize = usize::MAX - 3;
/// Token of the first listener; those of further listeners go down from here.
const LISTENERS: usize = usize::MAX - 16;

/// The source of a poll event.
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
    /// A tunnel's connection from client to server.
    Tunnel(Key),
    /// The connection of the client with this key.
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
    // Keys have 64 bits; machines with smaller pointers do not serve thousands of clients.
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
