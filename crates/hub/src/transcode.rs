/// Viewers whose video is transcoded if browsers cannot show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Display)]
#[display("{}", self.as_str())]
pub enum Transcode {
    /// Viewers who ask for it.
    #[default]
    Auto,
    /// Nobody, even those who ask.
    Never,
    /// Every viewer whose browser cannot show the video as it is.
    Always,
}

impl Transcode {
    /// The choices as they are written, for error texts.
    pub const WANTED: &'static str = "auto, never or always";

    /// Reads a choice as it is written; `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let choices = [Self::Auto, Self::Never, Self::Always];
        choices.into_iter().find(|choice| choice.as_str() == text)
    }

    /// Returns the choice as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "never",
            Self::Always => "always",
        }
    }
}
