//! A hand-made connectivity check, for what the project's own ICE agent never does: nominate on
//! command, from any socket.

use aws_lc_rs::hmac;
use glassline_webrtc::IceCredentials;
use is::stun::{StunMessage, TransId};

/// A STUN binding request of a controlling agent (RFC 8445 §7.2.2).
pub(crate) fn binding_request(
    server: &IceCredentials,
    client: &IceCredentials,
    nominate: bool,
) -> Vec<u8> {
    let username = format!("{}:{}", server.ufrag, client.ufrag);
    let priority = 0x6e00_01ff;
    let request = StunMessage::binding_request(
        &username,
        TransId::new(),
        true,
        u64::MAX,
        priority,
        nominate,
    );
    let mut out = vec![0; 512];
    let bytes = request
        .to_bytes(Some(server.pwd.as_bytes()), &mut out, sha1_hmac)
        .expect("512 bytes hold a request");
    out.truncate(bytes);
    out
}

fn sha1_hmac(key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    let mut context = hmac::Context::with_key(&key);
    for payload in payloads {
        context.update(payload);
    }
    let mut tag = [0; 20];
    tag.copy_from_slice(context.sign().as_ref());
    tag
}
