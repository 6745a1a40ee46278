//! Gain control: AGC2's adaptive digital gain and its limiter.

use sonora_agc2::adaptive_digital_gain_controller::{AdaptiveDigitalGainController, FrameInfo};
use sonora_agc2::common::{
    ADJACENT_SPEECH_FRAMES_THRESHOLD, SATURATION_PROTECTOR_INITIAL_HEADROOM_DB,
    VAD_RESET_PERIOD_MS, float_s16_to_dbfs,
};
use sonora_agc2::limiter::Limiter;
use sonora_agc2::noise_level_estimator::NoiseLevelEstimator;
use sonora_agc2::saturation_protector::SaturationProtector;
use sonora_agc2::speech_level_estimator::{AdaptiveDigitalConfig, SpeechLevelEstimator};
use sonora_agc2::vad_wrapper::VoiceActivityDetectorWrapper;

use super::FRAME;
use crate::opus::RATE;

/// Gain control of all channels together; the first channel decides what is speech and how
/// loud.
#[derive(derive_more::Debug)]
#[debug("Gain {{ speech_dbfs: {:?}, .. }}", self.speech.level_dbfs())]
pub(super) struct Gain {
    activity: VoiceActivityDetectorWrapper,
    speech: SpeechLevelEstimator,
    noise: NoiseLevelEstimator,
    headroom: SaturationProtector,
    adaptive: AdaptiveDigitalGainController,
    limiter: Limiter,
}

impl Gain {
    pub(super) fn new() -> Self {
        let config = AdaptiveDigitalConfig::default();
        let frames = ADJACENT_SPEECH_FRAMES_THRESHOLD;
        Self {
            activity: VoiceActivityDetectorWrapper::with_reset_period(
                VAD_RESET_PERIOD_MS,
                sonora_simd::detect_backend(),
                RATE as i32,
            ),
            speech: SpeechLevelEstimator::new(&config, frames),
            noise: NoiseLevelEstimator::default(),
            headroom: SaturationProtector::new(SATURATION_PROTECTOR_INITIAL_HEADROOM_DB, frames),
            adaptive: AdaptiveDigitalGainController::new(config, frames),
            limiter: Limiter::new(FRAME),
        }
    }

    /// Brings 10 ms of all channels to the target level; full scale is 32,768.
    pub(super) fn level(&mut self, channels: &mut [Vec<f32>]) {
        let Some(first) = channels.first() else {
            return;
        };
        let speech_probability = self.activity.analyze(first);
        let (peak_dbfs, rms_dbfs) = levels_dbfs(first);
        let views: Vec<&[f32]> = channels.iter().map(Vec::as_slice).collect();
        let noise_rms_dbfs = self.noise.analyze(&views);
        self.speech.update(rms_dbfs, speech_probability);
        let speech_level_dbfs = self.speech.level_dbfs();
        self.headroom
            .analyze(speech_probability, peak_dbfs, speech_level_dbfs);
        let info = FrameInfo {
            speech_probability,
            speech_level_dbfs,
            speech_level_reliable: self.speech.is_confident(),
            noise_rms_dbfs,
            headroom_db: self.headroom.headroom_db(),
            limiter_envelope_dbfs: float_s16_to_dbfs(self.limiter.last_audio_level()),
        };
        let mut views: Vec<&mut [f32]> = channels.iter_mut().map(Vec::as_mut_slice).collect();
        self.adaptive.process(&info, &mut views);
        self.limiter.process(&mut views);
    }
}

/// Peak and root mean square, in dBFS.
fn levels_dbfs(samples: &[f32]) -> (f32, f32) {
    let peak = samples.iter().fold(0.0f32, |peak, it| peak.max(it.abs()));
    let power: f32 = samples.iter().map(|it| it * it).sum::<f32>() / samples.len() as f32;
    (float_s16_to_dbfs(peak), float_s16_to_dbfs(power.sqrt()))
}
