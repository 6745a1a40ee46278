//! Questions to a server beside the reloads: delivery directives at their limits, delta updates, the bytes
//! of segments and parts, compression and HTTP/2.

use std::time::{Duration, Instant};

use glassline_client::hls::{Ask, Fetcher};
use glassline_client::probe::tls::negotiates_http2;
use glassline_client::trust::Trust;
use glassline_hls::judge::{
    Directive, Findings, Fragment, ReloadAnswer, judge_delta, judge_fragment, judge_init,
    judge_reload, rules,
};
use glassline_hls::reader::{ByteRange, MediaPlaylist, Playlist, Surroundings, read};
use url::Url;

use super::load::{PATIENCE, load};
use super::presentation::{MediaMember, Presentation};

/// How far ahead of the last segment a request is that must be refused.
const FAR_AHEAD: u64 = 50;

/// Asks all questions about one playlist. What does not come before `until` is not judged.
pub(super) fn ask(all: &Presentation, member: &MediaMember, fetcher: &Fetcher, until: Instant) {
    media(member, fetcher);
    if member.first.is_ended || Instant::now() >= until {
        return;
    }
    if member.first.can_block() {
        let next = member.first.next_sequence();
        directive(all, member, fetcher, until, |_| Directive {
            sequence: None,
            part: Some(0),
        });
        directive(all, member, fetcher, until, |it| {
            Directive::segment(it.next_sequence() + FAR_AHEAD)
        });
        directive(all, member, fetcher, until, |it| {
            Directive::segment(it.media_sequence)
        });
        if next > 0 {
            directive(all, member, fetcher, until, |it| {
                Directive::segment(it.next_sequence())
            });
        }
    }
    let control = member.first.server_control.as_ref();
    if control.is_some_and(|it| it.can_skip_until.is_some()) {
        delta(all, member, fetcher);
    }
}

/// Asks with a directive, which is made from the playlist as it is now.
fn directive(
    all: &Presentation,
    member: &MediaMember,
    fetcher: &Fetcher,
    until: Instant,
    make: impl Fn(&MediaPlaylist) -> Directive,
) {
    let mut findings = Findings::default();
    let variables = all.variables();
    let Ok(now) = load(
        fetcher,
        &member.url,
        Directive::default(),
        PATIENCE,
        variables,
        &mut findings,
    ) else {
        return;
    };
    let Some(before) = now.media().filter(|it| !it.is_ended) else {
        return;
    };
    let directive = make(before);
    let target = before.target_duration.unwrap_or(Duration::from_secs(6));
    let left = until.saturating_duration_since(Instant::now());
    let patience = (4 * target).min(left);
    let began = Instant::now();
    let answer = load(
        fetcher,
        &member.url,
        directive,
        patience,
        variables,
        &mut findings,
    );
    if answer.is_err() && Instant::now() >= until {
        return;
    }
    let loaded = answer.as_ref().ok();
    let answer = ReloadAnswer {
        directive,
        // No answer at all counts as the one of a gateway that waited in vain.
        status: loaded.map_or(504, |it| it.status),
        waited: loaded.map_or_else(|| began.elapsed(), |it| it.took),
        playlist: loaded.and_then(|it| it.media()),
        before,
    };
    judge_reload(answer, &mut member.findings.lock());
}

/// Asks for a delta update, and compares it with the playlist.
fn delta(all: &Presentation, member: &MediaMember, fetcher: &Fetcher) {
    let mut findings = Findings::default();
    let mut plain = |directive| {
        let loaded = load(
            fetcher,
            &member.url,
            directive,
            PATIENCE,
            all.variables(),
            &mut findings,
        )
        .ok()?;
        loaded.media().cloned()
    };
    let Some(known) = plain(Directive::default()) else {
        return;
    };
    let mut url = member.url.clone();
    let mut parameters: Vec<String> = url
        .query()
        .unwrap_or_default()
        .split('&')
        .map(str::to_owned)
        .collect();
    parameters.retain(|it| !it.is_empty());
    parameters.push("_HLS_skip=YES".to_owned());
    parameters.sort_unstable();
    url.set_query(Some(&parameters.join("&")));
    let Ok(fetched) = fetcher.get(&url, Ask::within(PATIENCE)) else {
        return;
    };
    let surroundings = Surroundings {
        variables: all.variables(),
        query: &[],
    };
    let reading = read(&fetched.body, surroundings);
    let (Ok(reading), Some(full)) = (reading, plain(Directive::default())) else {
        return;
    };
    let mut findings = member.findings.lock();
    findings.add_faults(&reading.faults);
    if let Playlist::Media(delta) = reading.playlist {
        judge_delta(&delta, &known, &full, &mut findings);
    }
}

/// Loads the initialization section, a segment and its parts, and looks into them.
fn media(member: &MediaMember, fetcher: &Fetcher) {
    let playlist = &member.first;
    let mut findings = Findings::default();
    let get = |uri: &str, range: Option<ByteRange>, line: usize, findings: &mut Findings| {
        let url = member.url.join(uri).ok()?;
        let ask = Ask {
            range: range.map(|it| (it.offset, Some(it.length))),
            ..Ask::within(PATIENCE)
        };
        let problem = match fetcher.get(&url, ask) {
            Ok(fetched) if fetched.status < 300 => return Some(fetched.body),
            Ok(fetched) => format!("'{uri}' is answered with {}", fetched.status),
            Err(error) => error.to_string(),
        };
        findings.add(&rules::SEGMENT_NOT_SERVED, line, problem);
        None
    };
    // The first segment may be removed before it has come.
    let mut segments = playlist
        .segments
        .iter()
        .filter(|it| !it.is_gap && it.keys.is_empty());
    let Some(segment) = segments.next_back() else {
        return;
    };
    if let Some(map) = &segment.map
        && let Some(bytes) = get(&map.uri, map.byte_range, map.line, &mut findings)
    {
        judge_init(&bytes, &map.uri, map.line, &mut findings);
    }
    let bytes = get(
        &segment.uri,
        segment.byte_range,
        segment.line,
        &mut findings,
    );
    let whole = bytes.and_then(|it| judge_fragment(&it, &segment.uri, segment.line, &mut findings));
    let mut sum = Fragment::default();
    let mut has_all = !segment.parts.is_empty();
    for part in segment.parts.iter().filter(|it| !it.is_gap) {
        let bytes = get(&part.uri, part.byte_range, part.line, &mut findings);
        match bytes.and_then(|it| judge_fragment(&it, &part.uri, part.line, &mut findings)) {
            Some(fragment) => {
                sum.samples += fragment.samples;
                sum.media_bytes += fragment.media_bytes;
            }
            None => has_all = false,
        }
    }
    if let Some(whole) = whole.filter(|it| has_all && it.samples != sum.samples) {
        let what = format!(
            "'{}' has {} samples, and its parts have {}",
            segment.uri, whole.samples, sum.samples
        );
        findings.add(&rules::PARTS_NOT_SEGMENT, segment.line, what);
    }
    member.findings.lock().merge(findings);
}

/// Asks how the server delivers: compressed, and by HTTP/2.
pub(super) fn transport(all: &Presentation, member: &MediaMember, fetcher: &Fetcher, trust: Trust) {
    let ask = Ask {
        takes_gzip: true,
        ..Ask::within(PATIENCE)
    };
    if let Ok(fetched) = fetcher.get(&member.url, ask)
        && fetched.status == 200
        && !fetched.is_compressed
    {
        let what = format!(
            "a playlist of {} bytes is not compressed for a client that takes gzip",
            fetched.body.len()
        );
        all.findings.lock().add(&rules::NOT_COMPRESSED, 0, what);
    }
    if member.url.scheme() == "https" && member.first.has_parts() && !is_http2(&member.url, trust) {
        all.findings.lock().add(
            &rules::NOT_HTTP2,
            0,
            "the server does not choose HTTP/2 (ALPN h2)",
        );
    }
}

/// Whether the server of an address chooses HTTP/2. A server that does not answer has a finding already.
fn is_http2(url: &Url, trust: Trust) -> bool {
    let port = url.port_or_known_default().unwrap_or(443);
    negotiates_http2(url.host_str().unwrap_or_default(), port, trust, PATIENCE).unwrap_or(true)
}
