//! What voices and transcoding take of a core.

use crate::figures::recipe::{Need, Recipe, Work};

pub(super) const CALL: Recipe = Recipe {
    name: "call",
    page: "speech",
    about: "one leg of a call, by purpose, frame and device",
    work: CALL_WORK,
    turns: 3,
    needs: &[Need::Quiet],
    on_page: &["Ms10, 48000 Hz"],
    ..Recipe::BASE
};

const CALL_WORK: Work = Work::Bench {
    package: "glassline-voice",
    target: "call",
    arguments: "",
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
    ..Recipe::BASE
};

const TRANSCODE_WORK: Work = Work::Bench {
    package: "glassline-transcode",
    target: "transcode",
    arguments: "",
};

pub(super) const AAC: Recipe = Recipe {
    name: "aac",
    page: "transcoding",
    about: "our AAC encoder for cameras",
    work: Work::Bench {
        package: "glassline-transcode",
        target: "aac",
        arguments: "",
    },
    minutes: (0.3, 0.3),
    turns: 3,
    needs: &[Need::Quiet, Need::Peer("FFmpeg")],
    on_page: &[", 8000 Hz, 32", ", 16000 Hz, 48", ", 48000 Hz, 96"],
    ..Recipe::BASE
};
