//! Opens streams of messages, at the server that pulls a stream.

use std::sync::Arc;

use super::message_stream::{
    self, MessageReceiver, MessageSender, MessageStream, MessageStreamError,
};
use super::transport::Link;

/// Opens streams of messages with the server that a stream is pulled from.
#[derive(Clone, derive_more::Debug)]
#[debug("MessageOpener {{ name: {name:?}, .. }}")]
pub struct MessageOpener {
    name: String,
    link: Arc<Link>,
}

impl MessageOpener {
    pub(super) const fn new(name: String, link: Arc<Link>) -> Self {
        Self { name, link }
    }

    /// Returns whether both open streams on the same session.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link) && self.name == other.name
    }

    /// Asks for the messages of the stream, from now on.
    ///
    /// # Errors
    /// [`MessageStreamError::Ended`] if the session is over. A refusal is reported by the first read.
    pub async fn open(&self) -> Result<(MessageSender, MessageReceiver), MessageStreamError> {
        let opened = self.link.open_bi().await;
        let (send, receive) = opened.map_err(|_| MessageStreamError::Ended)?;
        let (mut sender, receiver) = MessageStream::new(send, receive).split();
        sender
            .write(&mut [message_stream::header(&self.name)])
            .await?;
        Ok((sender, receiver))
    }
}
