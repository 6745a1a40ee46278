//! Simulcast layers that are sent on one `m=` line: RIDs (RFC 8851, RFC 8853).

use super::attribute::Attribute;
use super::attributes::Attributes;
use super::description::MediaDescription;

/// Most layers of one `m=` line. Browsers send three.
pub(super) const RIDS_MAX: usize = 4;

/// Words of the directions (RFC 8853 §5.1).
const SEND: &str = "send";
const RECEIVE: &str = "recv";

/// Longest RID in bytes: the longest header extension of the one-byte form.
const RID_BYTES_MAX: usize = 16;

/// Returns the RIDs of the layers that the peer sends, in its order; of alternatives the first.
/// Without `a=simulcast`, the RIDs of `a=rid` lines count. At most [`RIDS_MAX`] are returned.
pub(super) fn rids(media: &MediaDescription) -> Vec<String> {
    let mut found = all(media, SEND);
    found.truncate(RIDS_MAX);
    found
}

/// Returns the RIDs of our layers in `offered` that the answer receives, in our order.
pub(super) fn agreed(offered: &MediaDescription, answered: &MediaDescription) -> Vec<String> {
    let received = all(answered, RECEIVE);
    let mut ours = all(offered, SEND);
    ours.retain(|rid| received.contains(rid));
    ours
}

/// Returns whether the peer sends more layers than are received.
pub(super) fn has_too_many(media: &MediaDescription) -> bool {
    all(media, SEND).len() > RIDS_MAX
}

/// Appends the answer for these layers: all are received.
pub(super) fn push(attributes: &mut Attributes, rids: &[String]) {
    push_in(attributes, RECEIVE, rids);
}

/// Appends the offer of these layers.
pub(super) fn push_offer(attributes: &mut Attributes, rids: &[String]) {
    push_in(attributes, SEND, rids);
}

fn push_in(attributes: &mut Attributes, direction: &str, rids: &[String]) {
    if rids.is_empty() {
        return;
    }
    for rid in rids {
        attributes.push(other("rid", format!("{rid} {direction}")));
    }
    attributes.push(other(
        "simulcast",
        format!("{direction} {}", rids.join(";")),
    ));
}

fn other(name: &str, value: String) -> Attribute {
    Attribute::Other {
        name: name.to_owned(),
        value: Some(value),
    }
}

/// Returns the RIDs that the description sends or receives, as `direction` says.
fn all(media: &MediaDescription, direction: &str) -> Vec<String> {
    let listed = values(media, "simulcast").next().map(|value| {
        let words: Vec<&str> = value.split_whitespace().collect();
        let sent = words.chunks(2).find(|pair| pair[0] == direction);
        sent.and_then(|pair| pair.get(1))
            .into_iter()
            .flat_map(|layers| layers.split(';'))
            .filter_map(|layer| layer.split(',').next())
            // A paused layer may be resumed later.
            .map(|rid| rid.trim_start_matches('~').to_owned())
            .collect::<Vec<_>>()
    });
    let found = listed.unwrap_or_else(|| {
        let sent = values(media, "rid").filter_map(|value| {
            let mut words = value.split_whitespace();
            let (rid, stated) = (words.next()?, words.next()?);
            (stated == direction).then(|| rid.to_owned())
        });
        sent.collect()
    });
    let mut known: Vec<String> = Vec::new();
    for rid in found {
        if is_rid(&rid) && !known.contains(&rid) {
            known.push(rid);
        }
    }
    known
}

/// Returns whether `text` has the form of a RID (RFC 8851 §10).
fn is_rid(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=RID_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain)
}

fn values<'a>(media: &'a MediaDescription, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    media.attributes.0.iter().filter_map(move |it| match it {
        Attribute::Other { name, value } if name == wanted => value.as_deref(),
        _ => None,
    })
}
