//! What the flags of a test ask of its association and records.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_sctp::channel::Limits;
use glassline_sctp::{Config as SctpConfig, Reliability};
use glassline_webrtc::DataConfig;
use glassline_webrtc::dtls::{Cipher, CipherChoice};

use crate::data::control::TEXT_BYTES_MAX as CONTROL_BYTES_MAX;
use crate::data::plan::Plan;

/// What an end's association and records shall be like.
///
/// # Errors
/// A cipher or a congestion control that does not exist, by the name of its flag.
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
        // A window must hold whole messages, so what is announced bounds it from below.
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
    // What waits is bounded by the water marks; what is on its way by windows.
    let waiting = plan.high_water * usize::from(plan.channels) + 2 * plan.message_size;
    association.send_buffer_max = SEND_BUFFER_MIN + waiting.min(SEND_BUFFER_MIN);
    Ok(DataConfig {
        cipher,
        association,
        limits: Limits::default(),
    })
}

/// A gigabit a second over 500 ms.
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

/// How hard messages of the test are tried.
pub(super) fn reliability(plan: &Plan) -> Reliability {
    match (plan.max_retransmits, plan.max_lifetime_ms) {
        (Some(retransmissions), _) => Reliability::Limited { retransmissions },
        (None, Some(ms)) => Reliability::Timed {
            lifetime: Duration::from_millis(ms),
        },
        (None, None) => Reliability::Reliable,
    }
}
