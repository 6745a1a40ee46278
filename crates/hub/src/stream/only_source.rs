//! Streams whose names belong to a source of the server: no client publishes over a camera.

use super::Stream;
use crate::PublishError;

impl Stream {
    /// Sets the kind of the source that alone publishes the stream, like `camera`; `None` lets clients
    /// publish it, too. Whoever publishes already goes on.
    pub fn set_only_source(&self, kind: Option<&'static str>) {
        self.inner.lock().listing.only_source = kind;
    }

    /// Checks that clients may publish the stream.
    ///
    /// # Errors
    /// [`PublishError::Configured`] if a source of the server alone publishes it.
    pub fn check_client(&self) -> Result<(), PublishError> {
        match self.inner.lock().listing.only_source {
            None => Ok(()),
            Some(kind) => Err(PublishError::Configured {
                name: self.name.clone(),
                kind,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Hub, StreamName};

    #[test]
    fn the_name_of_a_camera_is_refused_with_what_to_do() {
        let hub = Hub::default();
        let name = StreamName::parse("door").expect("good");
        assert_eq!(hub.check_client(&name), Ok(()), "nobody has the name");
        let stream = hub.create(name.clone()).expect("room");
        assert_eq!(hub.check_client(&name), Ok(()));
        let refused = |kind| {
            stream.set_only_source(Some(kind));
            let refused = hub.check_client(&name).expect_err("another has the name");
            refused.to_string()
        };
        assert_eq!(
            refused("camera"),
            "'door' is the name of a configured camera: publish under another name, or set \
             `publishers: allowed` for this source"
        );
        assert_eq!(
            refused("clip"),
            "'door' is the name of a configured clip: publish under another name"
        );
        stream.set_only_source(None);
        assert_eq!(hub.check_client(&name), Ok(()));
    }
}
