//! What decoder and encoder of AAC have in common: the tables of ISO/IEC 14496-3.

pub(crate) mod bands;
pub(crate) mod codebooks;
mod encoder;

pub use encoder::{AAC_FRAME_SAMPLES, AacEncoder, AacSettings, AacSettingsError};
