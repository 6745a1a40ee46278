//! Loading and reading of one playlist.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glassline_client::hls::{Ask, Fetched, Fetcher, parameters_of, with_parameters};
use glassline_hls::judge::{Directive, Findings, rules};
use glassline_hls::reader::{MediaPlaylist, Playlist, Reading, Surroundings, read};
use url::Url;

/// Longest time for a playlist that is there.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Variables of the multivariant playlist.
pub(super) type Variables = BTreeMap<String, String>;

/// An answer to a request of a playlist.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) status: u16,
    /// Address that answered, to which URIs in the playlist are relative.
    pub(super) url: Url,
    pub(super) at: Instant,
    pub(super) took: Duration,
    /// The playlist; `None` if the answer is none.
    pub(super) playlist: Option<Playlist>,
    /// The reason why the answer is no playlist.
    pub(super) problem: Option<String>,
}

impl Loaded {
    /// The media playlist of the answer.
    pub(super) fn media(&self) -> Option<&MediaPlaylist> {
        match &self.playlist {
            Some(Playlist::Media(playlist)) => Some(playlist),
            _ => None,
        }
    }
}

/// Loads a playlist and notes the faults of its text. The error is a sentence with the address.
pub(super) fn load(
    fetcher: &Fetcher,
    url: &Url,
    directive: Directive,
    patience: Duration,
    variables: Option<&Variables>,
    findings: &mut Findings,
) -> Result<Loaded, String> {
    let asked = with_parameters(url, &directive.parameters());
    let fetched = fetcher
        .get(&asked, Ask::within(patience))
        .map_err(|error| error.to_string())?;
    Ok(read_answer(fetched, variables, findings))
}

/// Reads the playlist in an answer.
pub(super) fn read_answer(
    fetched: Fetched,
    variables: Option<&Variables>,
    findings: &mut Findings,
) -> Loaded {
    let Fetched {
        status,
        url,
        kind,
        body,
        at,
        took,
        ..
    } = fetched;
    let loaded = |playlist, problem| Loaded {
        status,
        url: url.clone(),
        at,
        took,
        playlist,
        problem,
    };
    if status != 200 {
        return loaded(None, Some(format!("the server answers {status}")));
    }
    let query = parameters_of(&url);
    let surroundings = Surroundings {
        variables,
        query: &query,
    };
    let Reading { playlist, faults } = match read(&body, surroundings) {
        Ok(reading) => reading,
        Err(fault) => {
            let problem = fault.to_string();
            findings.add_faults(&[fault]);
            return loaded(None, Some(problem));
        }
    };
    findings.add_faults(&faults);
    let has_type = matches!(
        kind.as_str(),
        "application/vnd.apple.mpegurl" | "audio/mpegurl"
    );
    let has_name = [".m3u8", ".m3u"].iter().any(|it| url.path().ends_with(it));
    if !has_type && !has_name {
        let what = format!("the path does not end in .m3u8, and the content type is '{kind}'");
        findings.add(&rules::NOT_IDENTIFIED, 0, what);
    }
    loaded(Some(playlist), None)
}
