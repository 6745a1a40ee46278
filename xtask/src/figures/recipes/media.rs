//! What voices and transcoding take of a core.

use crate::figures::recipe::{Need, Recipe, TENTH, Work};

pub(super) const CALL: Recipe = Recipe {
    name: "call",
    page: "speech",
    about: "one leg of a call, by purpose, frame and device",
    work: CALL_WORK,
    quick: None,
    minutes: (1.0, 1.0),
    turns: 3,
    needs: &[Need::Quiet],
    values: &[],
    noise: TENTH,
    is_crypto: false,
    on_page: &["Ms10, 48000 Hz"],
};

const CALL_WORK: Work = Work::Bench {
    package: "glassline-voice",
    target: "call",
    arguments: &[],
};

pub(super) const TRANSCODE: Recipe = Recipe {
    name: "transcode",
    page: "transcoding",
    about: "audio of cameras into Opus, and pictures of a stream",
    work: TRANSCODE_WORK,
    quick: Some(TRANSCODE_WORK),
    minutes: (0.3, 0.3),
    turns: 3,
    needs: &[Need::Quiet],
    values: &[],
    noise: TENTH,
    is_crypto: false,
    on_page: &[],
};

const TRANSCODE_WORK: Work = Work::Bench {
    package: "glassline-transcode",
    target: "transcode",
    arguments: &[],
};

pub(super) const AAC: Recipe = Recipe {
    name: "aac",
    page: "transcoding",
    about: "our AAC encoder for cameras",
    work: Work::Bench {
        package: "glassline-transcode",
        target: "aac",
        arguments: &[],
    },
    quick: None,
    minutes: (0.3, 0.3),
    turns: 3,
    needs: &[Need::Quiet, Need::Peer("FFmpeg")],
    values: &[],
    noise: TENTH,
    is_crypto: false,
    on_page: &[", 8000 Hz, 32", ", 16000 Hz, 48", ", 48000 Hz, 96"],
};
