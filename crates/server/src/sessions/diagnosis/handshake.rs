//! Connections whose DTLS handshake did not finish.

use glassline_events::failures::Stage;
use glassline_webrtc::{ConnectionReport, Flight};

use super::ice::hosts;
use super::{Diagnosis, Evidence};

/// Most SRTP profiles that a sentence names.
const PROFILES_NAMED_MAX: usize = 4;

pub(super) fn wrong_fingerprint() -> Diagnosis {
    Diagnosis::new(
        Stage::Handshake,
        "DTLS: the client's certificate does not match the fingerprint in its offer",
        "something between client and server changes the offer, or intercepts the connection: try without \
         it",
    )
}

/// Says that the handshake is done, and has no profile for the keys of media.
pub(super) fn no_srtp_profile(report: &ConnectionReport) -> Diagnosis {
    let seen = match report.handshake.srtp_offered.as_deref() {
        _ if report.is_dtls_client => {
            "the client, which is the DTLS server, chose no SRTP profile of those in the server's ClientHello"
                .to_owned()
        }
        Some([]) => "the client's ClientHello has no SRTP profile (use_srtp)".to_owned(),
        Some(offered) => format!(
            "the client's ClientHello has no SRTP profile (use_srtp) besides {}, and the server has none of \
             these",
            profile_names(offered)
        ),
        None => "client and server have no SRTP profile (use_srtp) in common".to_owned(),
    };
    Diagnosis::new(
        Stage::Handshake,
        format!("DTLS: {seen}, so that media cannot be encrypted"),
        "let the client offer SRTP_AEAD_AES_256_GCM, SRTP_AEAD_AES_128_GCM or SRTP_AES128_CM_SHA1_80; no key of \
         the server adds another profile",
    )
}

/// Returns the names of SRTP profiles (IANA, "DTLS-SRTP Protection Profiles").
fn profile_names(numbers: &[u16]) -> String {
    let name = |number: &u16| match number {
        0x0002 => "SRTP_AES128_CM_SHA1_32".to_owned(),
        0x0005 => "SRTP_NULL_SHA1_80".to_owned(),
        0x0006 => "SRTP_NULL_SHA1_32".to_owned(),
        0x0009 => "DOUBLE_AEAD_AES_128_GCM_AEAD_AES_128_GCM".to_owned(),
        0x000a => "DOUBLE_AEAD_AES_256_GCM_AEAD_AES_256_GCM".to_owned(),
        other => format!("0x{other:04x}"),
    };
    let names: Vec<String> = numbers.iter().take(PROFILES_NAMED_MAX).map(name).collect();
    match numbers.len().saturating_sub(PROFILES_NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Says that the client ended the handshake with a fatal alert.
pub(super) fn alert(number: u8) -> Diagnosis {
    let name = alert_name(number);
    let remedy = match number {
        42..=46 | 48 => {
            "the client refuses the server's certificate: the answer must reach it unchanged, and it must \
             take certificates with ECDSA keys"
        }
        40 | 47 | 70 | 71 => {
            "the client must speak DTLS 1.2 with ECDHE-ECDSA and AES-GCM or ChaCha20-Poly1305"
        }
        _ => "the log of the client says more",
    };
    Diagnosis::new(
        Stage::Handshake,
        format!("DTLS: the client ended the handshake with the alert {number} ({name})"),
        remedy,
    )
}

/// Says that this end gave the handshake up.
pub(super) fn failed(why: &str) -> Diagnosis {
    Diagnosis::new(
        Stage::Handshake,
        format!("DTLS: the handshake failed: {why}"),
        "the client must speak DTLS 1.2 with ECDHE-ECDSA and AES-GCM or ChaCha20-Poly1305, and show a \
         certificate",
    )
}

pub(super) fn closed_by_client() -> Diagnosis {
    Diagnosis::new(
        Stage::Handshake,
        "DTLS: the client closed the connection during the handshake",
        "the log of the client says why",
    )
}

/// Says that connectivity checks passed, and no handshake followed.
pub(super) fn not_begun(evidence: &Evidence<'_>) -> Diagnosis {
    let report = evidence.report;
    let (checks, within) = (report.checks, evidence.within());
    let from = hosts(&report.sources);
    if report.is_dtls_client {
        return Diagnosis::new(
            Stage::Handshake,
            format!(
                "DTLS: no answer to our ClientHello {within}, although {checks} connectivity checks \
                 arrived from {from}"
            ),
            "the client must answer as the DTLS server, since its offer says a=setup:passive",
        );
    }
    Diagnosis::new(
        Stage::Handshake,
        format!(
            "DTLS: the client sent no ClientHello {within}, although {checks} connectivity checks arrived \
             from {from}"
        ),
        "the client must begin DTLS, since the answer says a=setup:passive; its log says why it did not",
    )
}

/// Says which flight got no answer.
pub(super) fn unfinished(evidence: &Evidence<'_>) -> Diagnosis {
    let trace = &evidence.report.handshake;
    let within = evidence.within();
    if trace.latest_received == Some(Flight::ClientKeyExchange) {
        return Diagnosis::new(
            Stage::Handshake,
            format!("DTLS: the client's certificate and key arrived only in part {within}"),
            "lower the MTU of the client, or of the tunnel between: larger datagrams are lost",
        );
    }
    let Some(flight) = trace.latest_sent else {
        return Diagnosis::new(
            Stage::Handshake,
            format!("DTLS: the client's ClientHello arrived only in part {within}"),
            "lower the MTU of the client, or of the tunnel between: larger datagrams are lost",
        );
    };
    let (sent, bytes) = (trace.sent, trace.largest_bytes);
    Diagnosis::new(
        Stage::Handshake,
        format!(
            "DTLS: no answer to our {} {within}; it was sent in {sent} datagrams of at most {bytes} bytes",
            flight.as_str()
        ),
        "look for a firewall or tunnel that loses datagrams of this size (its MTU), and at the client's log: it \
         may have given up",
    )
}

/// Returns the name of an alert (RFC 5246 §7.2.2).
const fn alert_name(number: u8) -> &'static str {
    match number {
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        90 => "user_canceled",
        110 => "unsupported_extension",
        _ => "unknown",
    }
}
