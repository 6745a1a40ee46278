use clap::Args;
use glassline_access::auth::{Pattern, StreamRights};

/// Rights to streams of a user or token.
#[derive(Clone, Debug, Args)]
pub(crate) struct RightFlags {
    /// Streams to read: a name, 'cam*', 'site/**' for a folder, or '**'. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    read: Vec<Pattern>,
    /// Streams to publish: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    publish: Vec<Pattern>,
    /// Streams whose cameras may be moved: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    ptz: Vec<Pattern>,
    /// Streams whose recordings may be watched: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    playback: Vec<Pattern>,
    /// Streams whose recording may be started, stopped and marked: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    record: Vec<Pattern>,
    /// Streams whose recordings may be exported as files: patterns as of --read. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    export: Vec<Pattern>,
}

impl From<RightFlags> for StreamRights {
    fn from(flags: RightFlags) -> Self {
        Self {
            read: flags.read,
            publish: flags.publish,
            ptz: flags.ptz,
            playback: flags.playback,
            record: flags.record,
            export: flags.export,
        }
    }
}
