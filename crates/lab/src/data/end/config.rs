//! Settings of the association and of DTLS records, from the plan of a test.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_sctp::channel::Limits;
use glassline_sctp::{Config as SctpConfig, Reliability};
use glassline_webrtc::DataConfig;
use glassline_webrtc::dtls::{Cipher, CipherChoice};

use crate::data::control::TEXT_BYTES_MAX as CONTROL_BYTES_MAX;
use crate::data::plan::Plan;

/// Builds the configuration of an end's association and records.
///
/// # Errors Names the flag of a cipher or a congestion control that does not exist.
pub(in crate::data) fn data_config(plan: &Plan) -> Result<DataConfig, String> {
    static FASTEST: OnceLock<Cipher> = OnceLock::new();
    let cipher = match &plan.cipher {
        None => CipherChoice::Prefer(*FASTEST.get_or_init(|| Cipher::fastest(Instant::now))),
        Some(name) => {
            let cipher = name.parse().map_err(|error| format!("--cipher: {error}"))?;
            CipherChoice::Only(cipher)
        }
    };
    let mut association = SctpConfig {
        // A window must hold whole messages, so the announced message size is its lower bound.
        max_message_size: plan.message_size.max(CONTROL_BYTES_MAX),
        ..SctpConfig::default()
    };
    if let Some(name) = &plan.congestion {
        association.congestion = congestion(name)?;
    }
    if let Some(window) = plan.window {
        association.receive_window_min = window;
        association.receive_window_max = window;
    }
    // Waiting bytes are bounded by the water marks; bytes in flight are bounded by windows.
    let waiting = plan.high_water * usize::from(plan.channels) + 2 * plan.message_size;
    association.send_buffer_max = SEND_BUFFER_MIN + waiting.min(SEND_BUFFER_MIN);
    Ok(DataConfig {
        cipher,
        association,
        limits: Limits::default(),
    })
}

/// Least size of the send buffer: one gigabit per second over 500 ms.
const SEND_BUFFER_MIN: usize = 64 << 20;

fn congestion(name: &str) -> Result<Algorithm, String> {
    if name == "standard" {
        return Ok(Algorithm::Rfc9260Reno);
    }
    let known = Algorithm::ALL.into_iter().find(|it| it.as_str() == name);
    known.ok_or_else(|| {
        let names = Algorithm::ALL.map(Algorithm::as_str).join(", ");
        format!("--congestion: {name:?} is none of standard, {names}")
    })
}

/// Reliability of the channels that carry messages.
pub(super) fn reliability(plan: &Plan) -> Reliability {
    match (plan.max_retransmits, plan.max_lifetime_ms) {
        (Some(retransmissions), _) => Reliability::Limited { retransmissions },
        (None, Some(ms)) => Reliability::Timed {
            lifetime: Duration::from_millis(ms),
        },
        (None, None) => Reliability::Reliable,
    }
}
