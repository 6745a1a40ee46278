//! The reply subject of a message that a consumer delivers: its place in the stream and in the
//! delivery (ADR-15).

use thiserror::Error;

/// Place of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Number of the message in the stream: the version of the record.
    pub stream_sequence: u64,
    /// Number of the message in this delivery, from 1 without gaps.
    pub consumer_sequence: u64,
    /// Messages that are still to come.
    pub pending: u64,
}

/// The subject is none that a consumer of JetStream makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the reply subject of a delivered message is not one of JetStream")]
pub struct DeliveryError;

impl Delivery {
    /// Parses `$JS.ACK.STREAM.CONSUMER.DELIVERED.SSEQ.CSEQ.TIME.PENDING`, or its second form, which
    /// has domain and account before the stream, and may have a token at its end.
    ///
    /// # Errors
    /// Returns [`DeliveryError`] for every other subject.
    pub fn parse(subject: &str) -> Result<Self, DeliveryError> {
        let rest = subject.strip_prefix("$JS.ACK.").ok_or(DeliveryError)?;
        let tokens: Vec<&str> = rest.splitn(12, '.').collect();
        let numbers = match tokens.len() {
            7 => &tokens[2..],
            // Domain, account, stream, consumer, the five numbers, and perhaps a token.
            9 | 10 => &tokens[4..9],
            _ => return Err(DeliveryError),
        };
        let number = |at: usize| {
            let text = numbers[at];
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let value = is_plain.then(|| text.parse().ok()).flatten();
            value.ok_or(DeliveryError)
        };
        // The number of deliveries and the time are checked, and not used.
        let (_, _): (u64, u64) = (number(0)?, number(3)?);
        Ok(Self {
            stream_sequence: number(1)?,
            consumer_sequence: number(2)?,
            pending: number(4)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_are_read() {
        let wanted = Delivery {
            stream_sequence: 22,
            consumer_sequence: 3,
            pending: 5,
        };
        for subject in [
            "$JS.ACK.KV_a.c.1.22.3.1700000000000000000.5",
            "$JS.ACK._.AB12.KV_a.c.1.22.3.1700000000000000000.5",
            "$JS.ACK.hub.AB12.KV_a.c.1.22.3.1700000000000000000.5.x9",
        ] {
            assert_eq!(Delivery::parse(subject), Ok(wanted), "{subject}");
        }
    }

    #[test]
    fn every_other_subject_is_refused() {
        for subject in [
            "",
            "_INBOX.a.b",
            "$JS.ACK.a.c.1.2.3.4",
            "$JS.ACK.a.c.1.2.3.4.5.6",
            "$JS.ACK.a.c.1.-2.3.4.5",
            "$JS.ACK.a.c.1.+2.3.4.5",
            "$JS.ACK.a.c.1..3.4.5",
            "$JS.ACK.a.c.1.99999999999999999999.3.4.5",
        ] {
            assert_eq!(Delivery::parse(subject), Err(DeliveryError), "{subject}");
        }
    }

    proptest! {
        #[test]
        fn no_subject_panics(subject in "(\\$JS\\.ACK\\.)?[a-z0-9.$]{0,60}") {
            let _ = Delivery::parse(&subject);
        }

        #[test]
        fn what_was_written_is_read(s: u64, c: u64, p: u64, time: u64) {
            let subject = format!("$JS.ACK.KV_a.c.1.{s}.{c}.{time}.{p}");
            let read = Delivery::parse(&subject).expect("a delivery");
            prop_assert_eq!((read.stream_sequence, read.consumer_sequence, read.pending), (s, c, p));
        }
    }
}
