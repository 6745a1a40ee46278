//! Binding requests without PRIORITY (RFC 8445 §7.1.1 requires it), as FFmpeg 8.0 sends them.
//!
//! The `is` crate takes no request without the attribute. An authentic one is therefore completed
//! here before the crate sees it. The value does not matter to a lite agent, which forms no
//! candidate pairs of its own.

use aws_lc_rs::hmac;

use super::check::{
    BINDING_REQUEST, HEADER_BYTES, INTEGRITY_BYTES, MAGIC_COOKIE, MESSAGE_INTEGRITY,
    PEER_REFLEXIVE, PRIORITY, attribute, seal, set_length,
};

/// Longest request that is completed, in bytes. User name and integrity take less than half.
const REQUEST_BYTES_MAX: usize = 1200;

/// Returns the request with PRIORITY, sealed anew under the password `pwd`. `None` for all other
/// messages, for requests that have the attribute, and for those that are not authentic.
pub(super) fn complete(datagram: &[u8], pwd: &str) -> Option<Vec<u8>> {
    let signed = signed_without_priority(datagram)?;
    let tag = datagram.get(signed + 4..signed + INTEGRITY_BYTES)?;
    let mut out = datagram.get(..signed)?.to_vec();
    set_length(&mut out, INTEGRITY_BYTES);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, pwd.as_bytes());
    hmac::verify(&key, &out, tag).ok()?;
    attribute(&mut out, PRIORITY, &[&PEER_REFLEXIVE.to_be_bytes()]);
    seal(&mut out, pwd);
    Some(out)
}

/// Returns the offset of MESSAGE-INTEGRITY in a binding request that has no PRIORITY.
fn signed_without_priority(datagram: &[u8]) -> Option<usize> {
    let is_request = (HEADER_BYTES..=REQUEST_BYTES_MAX).contains(&datagram.len())
        && datagram[..2] == BINDING_REQUEST.to_be_bytes()
        && datagram[4..8] == MAGIC_COOKIE.to_be_bytes()
        && usize::from(u16::from_be_bytes([datagram[2], datagram[3]])) + HEADER_BYTES
            == datagram.len();
    let mut at = is_request.then_some(HEADER_BYTES)?;
    loop {
        let header: [u8; 4] = datagram.get(at..at + 4)?.try_into().ok()?;
        let kind = u16::from_be_bytes([header[0], header[1]]);
        let bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
        match kind {
            PRIORITY => return None,
            MESSAGE_INTEGRITY => return (bytes + 4 == INTEGRITY_BYTES).then_some(at),
            _ => at += 4 + bytes.next_multiple_of(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use is::stun::StunMessage;
    use proptest::prelude::*;

    use super::*;
    use crate::ice::check::write_request;
    use crate::ice::stun_is_authentic;
    use crate::sdp::IceCredentials;

    const PWD: &str = "aPasswordOfTwentyTwoCh";
    const USERNAME: u16 = 0x0006;
    const USE_CANDIDATE: u16 = 0x0025;

    /// A request as FFmpeg 8.0 sends it: user name, USE-CANDIDATE, integrity, fingerprint.
    fn request() -> Vec<u8> {
        let mut out = BINDING_REQUEST.to_be_bytes().to_vec();
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&MAGIC_COOKIE.to_be_bytes());
        out.extend_from_slice(&[7; 12]);
        attribute(&mut out, USERNAME, &[b"sErV:ffmp"]);
        attribute(&mut out, USE_CANDIDATE, &[]);
        seal(&mut out, PWD);
        out
    }

    #[test]
    fn a_request_without_priority_is_completed_if_it_is_authentic() {
        let request = request();
        assert!(
            StunMessage::parse(&request).is_err(),
            "the crate takes it by now"
        );
        let completed = complete(&request, PWD).expect("authentic");
        let message = StunMessage::parse(&completed).expect("complete");
        assert_eq!(message.prio(), Some(PEER_REFLEXIVE));
        assert_eq!(message.split_username(), Some(("sErV", "ffmp")));
        assert!(message.use_candidate());
        assert!(stun_is_authentic(&completed, PWD) && stun_is_authentic(&request, PWD));
        assert!(!stun_is_authentic(&request, "anotherPasswordOf22Chr"));
        assert_eq!(complete(&request, "anotherPasswordOf22Chr"), None);
        assert_eq!(complete(&completed, PWD), None, "it has the attribute");
    }

    #[test]
    fn a_request_with_priority_is_left_as_it_is() {
        let credentials = |ufrag: &str| IceCredentials {
            ufrag: ufrag.to_owned(),
            pwd: PWD.to_owned(),
        };
        let mut out = Vec::new();
        write_request(
            &mut out,
            [1; 12],
            &credentials("a5ae"),
            &credentials("b5bf"),
            1,
        );
        assert_eq!(complete(&out, PWD), None);
        assert!(stun_is_authentic(&out, PWD));
    }

    proptest! {
        #[test]
        fn damage_never_panics_and_never_passes(at in 0usize..84, value: u8, cut in 0usize..90) {
            let mut damaged = request();
            let at = at.min(damaged.len() - 1);
            let is_same = damaged[at] == value;
            // FINGERPRINT is behind what the integrity covers, and not looked at.
            let is_behind = at >= damaged.len() - 8;
            damaged[at] = value;
            let passes = complete(&damaged, PWD).is_some();
            prop_assert!(!passes || is_same || is_behind);
            let _ = complete(&damaged[..cut.min(damaged.len())], PWD);
        }
    }
}
