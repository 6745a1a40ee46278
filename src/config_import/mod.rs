//! Configurations of other servers as one of this server.
//!
//! ```text
//! mediamtx.yml ─► mediamtx ─┐
//!                           ├─► Draft: settings, users, sources ─► YAML
//! go2rtc.yaml  ─► go2rtc  ──┘          └► a note on each line that could not be taken
//! ```
//!
//! The treatment of each kind of source is one table, in [`sources`].

mod draft;
mod go2rtc;
mod mediamtx;
mod mediamtx_users;
mod sources;
#[cfg(test)]
mod tests;

use glassline_config::{Config, YamlNode};

use crate::exit::Failure;
use draft::Draft;
pub(crate) use draft::Note;

/// A configuration of this server that was made of another server's.
#[derive(Debug)]
pub(crate) struct Imported {
    /// Name of the other server.
    pub(crate) of: &'static str,
    /// The configuration, as YAML.
    pub(crate) yaml: String,
    /// The lines that could not be taken, in their order.
    pub(crate) notes: Vec<Note>,
    /// The reason why no server starts with the configuration; `None` if one does.
    pub(crate) trouble: Option<String>,
}

/// Makes a configuration of this server of `text`; `name` is the name of the file.
///
/// # Errors
/// Returns [`Failure`] if the text is no YAML, or the configuration of neither server.
pub(crate) fn import(text: &str, name: &str) -> Result<Imported, Failure> {
    let root = YamlNode::parse(text, name).map_err(Failure::usage)?;
    let mut draft = Draft::default();
    let of = if root.get("streams").is_some() {
        go2rtc::take(&root, &mut draft);
        "go2rtc"
    } else if mediamtx::has_keys_of(&root) {
        mediamtx::take(&root, &mut draft);
        "MediaMTX"
    } else {
        return Err(Failure::usage(format_args!(
            "{name}: neither a configuration of MediaMTX, which has `paths`, nor one of go2rtc, which has \
             `streams`"
        )));
    };
    let (yaml, notes) = draft.finish(of);
    Ok(Imported {
        of,
        trouble: trouble(&yaml),
        yaml,
        notes,
    })
}

/// Returns what is wrong with a configuration that was made: ports, for example, that two listeners of the
/// other server do not share.
fn trouble(yaml: &str) -> Option<String> {
    let config = match Config::from_yaml(yaml, "the result") {
        Ok(config) => config,
        Err(error) => return Some(error.to_string()),
    };
    config.check_ports().err().map(|error| error.to_string())
}
