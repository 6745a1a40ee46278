/// Wakes a subscriber whenever its stream has something new: a unit, another description of the
/// tracks, or the end of its source. A reader of [`StreamEvents`](crate::StreamEvents) is woken after
/// each event.
///
/// [`wake`](Self::wake) runs on the publisher's thread while the stream is locked: it must
/// neither block nor call the stream. It only signals another thread or task, which then polls
/// its [`Subscription`](crate::Subscription).
pub trait Wake: Send + Sync {
    /// Signals that units or events are waiting.
    fn wake(&self);
}
