/// Told once whenever a stream it subscribed to has something new, or lost its source.
///
/// Called on the publisher's thread with the stream locked: it must neither
/// block nor call back into the stream.
pub trait Wake: Send + Sync {
    /// Something new is there.
    fn wake(&self);
}
