//! STUN binding requests of an ICE-lite end, and the responses to them.

use aws_lc_rs::hmac;
use crc::{CRC_32_ISO_HDLC, Crc, NoTable};

use crate::sdp::IceCredentials;

/// Number that ties a response to its request (RFC 8489 §5).
pub(super) type TransactionId = [u8; 12];

/// Message type of a binding request.
pub(super) const BINDING_REQUEST: u16 = 0x0001;
/// Message type of a binding success response.
const BINDING_SUCCESS: u16 = 0x0101;
/// Magic cookie in the header of every STUN message.
pub(super) const MAGIC_COOKIE: u32 = 0x2112_a442;
/// Length of STUN's fixed header in bytes.
pub(super) const HEADER_BYTES: usize = 20;
/// Attribute types (RFC 8489 §18.3, RFC 8445 §16.1).
const USERNAME: u16 = 0x0006;
pub(super) const MESSAGE_INTEGRITY: u16 = 0x0008;
pub(super) const PRIORITY: u16 = 0x0024;
const FINGERPRINT: u16 = 0x8028;
const ICE_CONTROLLED: u16 = 0x8029;
const ICE_CONTROLLING: u16 = 0x802a;
/// Priority that a peer-reflexive candidate would have (RFC 8445 §5.1.2.1): type preference 110,
/// highest local preference, first component.
pub(super) const PEER_REFLEXIVE: u32 = (110 << 24) | (0xffff << 8) | 255;
/// Length of MESSAGE-INTEGRITY with its attribute header, in bytes.
pub(super) const INTEGRITY_BYTES: usize = 24;
/// Length of FINGERPRINT with its attribute header, in bytes.
const FINGERPRINT_BYTES: usize = 8;
/// Value that the checksum of FINGERPRINT is combined with (RFC 8489 §14.7).
const FINGERPRINT_MASK: u32 = 0x5354_554e;

/// Writes a binding request of a controlled agent over `out` (RFC 8445 §7.2.2).
pub(super) fn write_request(
    out: &mut Vec<u8>,
    transaction: TransactionId,
    local: &IceCredentials,
    remote: &IceCredentials,
    tie_breaker: u64,
) {
    write(out, transaction, local, remote, ICE_CONTROLLED, tie_breaker);
}

/// Returns a connectivity check that nominates nothing: a binding request of a controlling agent to
/// one with the credentials `remote` (RFC 8445 §7.2.2). An agent that answers it can be reached, and
/// goes on as before.
///
/// ```
/// use glassline_webrtc::{IceCredentials, is_stun_response, stun_check};
///
/// let credentials = |name: &str| IceCredentials {
///     ufrag: name.to_owned(),
///     pwd: "0123456789abcdef012345".to_owned(),
/// };
/// let check = stun_check([7; 12], &credentials("here"), &credentials("there"), 1);
/// assert!(check.len() < 120 && !is_stun_response(&check));
/// ```
pub fn stun_check(
    transaction: [u8; 12],
    local: &IceCredentials,
    remote: &IceCredentials,
    tie_breaker: u64,
) -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &mut out,
        transaction,
        local,
        remote,
        ICE_CONTROLLING,
        tie_breaker,
    );
    out
}

/// Writes a binding request with the attribute `role` over `out`.
fn write(
    out: &mut Vec<u8>,
    transaction: TransactionId,
    local: &IceCredentials,
    remote: &IceCredentials,
    role: u16,
    tie_breaker: u64,
) {
    out.clear();
    out.extend_from_slice(&BINDING_REQUEST.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&MAGIC_COOKIE.to_be_bytes());
    out.extend_from_slice(&transaction);
    let username = [remote.ufrag.as_bytes(), b":", local.ufrag.as_bytes()];
    attribute(out, USERNAME, &username);
    attribute(out, PRIORITY, &[&PEER_REFLEXIVE.to_be_bytes()]);
    attribute(out, role, &[&tie_breaker.to_be_bytes()]);
    seal(out, &remote.pwd);
}

/// Appends MESSAGE-INTEGRITY under the password `pwd`, and FINGERPRINT.
pub(super) fn seal(out: &mut Vec<u8>, pwd: &str) {
    set_length(out, INTEGRITY_BYTES);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, pwd.as_bytes());
    let tag = hmac::sign(&key, out);
    attribute(out, MESSAGE_INTEGRITY, &[tag.as_ref()]);
    set_length(out, FINGERPRINT_BYTES);
    let fingerprint = CRC.checksum(out) ^ FINGERPRINT_MASK;
    attribute(out, FINGERPRINT, &[&fingerprint.to_be_bytes()]);
}

/// Returns whether a datagram is a STUN binding success response (RFC 8489 §5). It is not
/// authenticated; the session does that.
pub fn is_stun_response(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER_BYTES
        && datagram[..2] == BINDING_SUCCESS.to_be_bytes()
        && datagram[4..8] == MAGIC_COOKIE.to_be_bytes()
}

/// Returns the transaction of a binding success response; `None` for all other messages. The
/// response is not authenticated by this.
pub(super) fn response_transaction(datagram: &[u8]) -> Option<TransactionId> {
    let header = is_stun_response(datagram).then(|| &datagram[8..HEADER_BYTES])?;
    Some(header.try_into().expect("12 of 20 bytes"))
}

/// Appends an attribute whose value is the concatenation of `parts`, padded to four bytes.
pub(super) fn attribute(out: &mut Vec<u8>, kind: u16, parts: &[&[u8]]) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Sets the length in the header to what is written, and `more` bytes.
pub(super) fn set_length(out: &mut [u8], more: usize) {
    let bytes = u16::try_from(out.len() - HEADER_BYTES + more).unwrap_or(u16::MAX);
    out[2..4].copy_from_slice(&bytes.to_be_bytes());
}

/// The checksum of FINGERPRINT (RFC 8489 §14.7). A request has about 110 bytes and leaves every 5 s, so
/// that a table of 1 KiB would not pay.
const CRC: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);

#[cfg(test)]
mod tests {
    use is::stun::StunMessage;

    use super::*;
    use crate::ice::integrity::stun_is_authentic;

    #[test]
    fn a_request_is_what_a_full_agent_expects() {
        let credentials = |name: &str| IceCredentials {
            ufrag: name.to_owned(),
            pwd: format!("{name}0123456789abcdef0123456"),
        };
        let (local, remote) = (credentials("server"), credentials("peer5"));
        let mut out = vec![7; 3];
        write_request(&mut out, [9; 12], &local, &remote, 0x0102_0304_0506_0708);
        let message = StunMessage::parse(&out).expect("a message with the right fingerprint");
        assert!(message.is_binding_request());
        assert_eq!(message.split_username(), Some(("peer5", "server")));
        assert_eq!(message.ice_controlled(), Some(0x0102_0304_0506_0708));
        assert_eq!(message.prio(), Some(PEER_REFLEXIVE));
        assert!(!message.use_candidate());
        assert!(stun_is_authentic(&out, &remote.pwd));
        assert!(!stun_is_authentic(&out, &local.pwd));
        assert_eq!(response_transaction(&out), None);
        out[..2].copy_from_slice(&[1, 1]);
        assert_eq!(response_transaction(&out), Some([9; 12]));
        assert_eq!(response_transaction(&out[..19]), None);
    }

    #[test]
    fn a_check_of_a_dialing_end_nominates_nothing() {
        let credentials = |name: &str| IceCredentials {
            ufrag: name.to_owned(),
            pwd: format!("{name}0123456789abcdef0123456"),
        };
        let (local, remote) = (credentials("doctor"), credentials("server"));
        let out = stun_check([3; 12], &local, &remote, 5);
        let message = StunMessage::parse(&out).expect("a message with the right fingerprint");
        assert_eq!(message.split_username(), Some(("server", "doctor")));
        assert_eq!(message.ice_controlling(), Some(5));
        assert!(!message.use_candidate() && stun_is_authentic(&out, &remote.pwd));
    }
}
