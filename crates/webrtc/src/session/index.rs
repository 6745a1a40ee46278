//! Indices of a session's senders and receivers.

/// Index of a sender in [`Session::senders`](super::Session::senders).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderIndex(pub usize);

/// Index of a receiver in [`Session::receivers`](super::Session::receivers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverIndex(pub usize);

impl From<usize> for SenderIndex {
    fn from(place: usize) -> Self {
        Self(place)
    }
}

impl From<usize> for ReceiverIndex {
    fn from(place: usize) -> Self {
        Self(place)
    }
}

/// Index of a simulcast layer of a receiver, in the order of [`Receiver::rids`](super::Receiver::rids);
/// 0 without simulcast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerIndex(pub usize);

/// The content of a packet, by its payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadKind {
    /// Media of the codec with this index in the receiver's list.
    Media(usize),
    /// A retransmission of media of the codec with this index.
    Rtx(usize),
    /// Parity of media (FlexFEC).
    Fec,
}
