//! The message integrity of STUN: HMAC-SHA1 under the ICE password (RFC 8489 §14.5).

use aws_lc_rs::hmac;
use is::stun::StunMessage;

use super::priority;

/// STUN's MESSAGE-INTEGRITY computed by aws-lc (RFC 8489 §14.5).
#[derive(Debug)]
pub(super) struct HmacSha1;

impl is::Sha1HmacProvider for HmacSha1 {
    fn sha1_hmac(&self, key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
        let mut context = hmac::Context::with_key(&key);
        for payload in payloads {
            context.update(payload);
        }
        let mut tag = [0; 20];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

/// The provider of message integrity for every agent.
pub(super) static HMAC_SHA1: HmacSha1 = HmacSha1;

/// Returns whether a STUN message has the right MESSAGE-INTEGRITY for the password `pwd`
/// (RFC 8489 §14.5): the receiver's for a request, the sender's for a response.
pub fn stun_is_authentic(datagram: &[u8], pwd: &str) -> bool {
    let hmac =
        |key: &[u8], payloads: &[&[u8]]| is::Sha1HmacProvider::sha1_hmac(&HMAC_SHA1, key, payloads);
    StunMessage::parse(datagram).is_ok_and(|message| message.verify(pwd.as_bytes(), hmac))
        || priority::complete(datagram, pwd).is_some()
}
