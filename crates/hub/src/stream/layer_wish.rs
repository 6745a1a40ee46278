//! The layer of a stream's video that a receiver names: `?layer=`.

use std::str::FromStr;

use glassline_media::{
    Codec, Kind, Layer, LayerAbsence, LayerIndex, Track, TrackIndex, TrackLayer,
};

use super::Stream;

/// Longest name of a layer.
const NAME_BYTES_MAX: usize = 64;

/// A layer as a receiver names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerWish(Named);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Named {
    /// The smallest layer.
    Low,
    /// The best layer that is alive.
    High,
    /// The largest layer of at most so many rows.
    Height(u32),
    /// The layer of this name.
    Rid(String),
}

/// A text that names no layer of any stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer={0}: a layer is named by low, high, a height like 360p, or its own name")]
pub struct LayerWishError(String);

/// The reason why a stream has no layer that a receiver names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchLayer {
    /// The stream carries no video.
    #[error("the stream has no video, and so no layers")]
    NoVideo,
    /// No layer has the name.
    #[error("there is no layer {rid}: {known}; low, high and heights like 360p name layers, too")]
    Unknown {
        /// Name that was asked for.
        rid: String,
        /// The layers of the track.
        known: String,
    },
    /// The layer does not come.
    #[error("the layer {rid} does not come: {detail}")]
    Failed {
        /// Name of the layer.
        rid: String,
        /// The reason why the layer does not come.
        detail: String,
    },
    /// The layer has another codec than its track.
    #[error(
        "the layer {rid} is in {codec}, which only viewers get that do not decode the other layers"
    )]
    OtherCodec {
        /// Name of the layer.
        rid: String,
        /// Codec of the layer.
        codec: Codec,
    },
}

impl FromStr for LayerWish {
    type Err = LayerWishError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) || !text.bytes().all(is_name) {
            return Err(LayerWishError(text.chars().take(NAME_BYTES_MAX).collect()));
        }
        let rows = text.strip_suffix('p').and_then(|it| it.parse().ok());
        Ok(Self(match (text, rows) {
            ("low", _) => Named::Low,
            ("high", _) => Named::High,
            (_, Some(rows)) => Named::Height(rows),
            (rid, None) => Named::Rid(rid.to_owned()),
        }))
    }
}

impl std::fmt::Display for LayerWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Named::Low => f.write_str("low"),
            Named::High => f.write_str("high"),
            Named::Height(rows) => write!(f, "{rows}p"),
            Named::Rid(rid) => f.write_str(rid),
        }
    }
}

impl LayerWish {
    /// Returns the layer of `track` that is meant: the base layer for the best one, and of a track with a
    /// single encoding. Ranks and heights name layers for which `is_of_use` holds.
    fn of(
        &self,
        track: &Track,
        is_of_use: impl Fn(&Layer) -> bool,
    ) -> Result<LayerIndex, NoSuchLayer> {
        let text = self.to_string();
        let is_rid = matches!(self.0, Named::Rid(_));
        let is_named = |it: &Layer| it.rid == text && (is_rid || is_of_use(it));
        if let Some(place) = track.layers.iter().position(is_named) {
            return match &track.layers[place].absence {
                Some(LayerAbsence::Failed(detail)) => Err(NoSuchLayer::Failed {
                    rid: text,
                    detail: detail.clone(),
                }),
                _ => Ok(LayerIndex::of_encoding(place)),
            };
        }
        let of_size = |it: &Layer| it.size.map(|(width, height)| (u32::from(height), width));
        let available = track.layers.iter().enumerate();
        let available = available.filter(|(_, it)| it.is_available() && is_of_use(it));
        let known = available.filter_map(|(place, it)| Some((of_size(it)?, place)));
        let known: Vec<_> = known.collect();
        let place = |found: Option<&((u32, u16), usize)>| {
            found.map_or(LayerIndex::BASE, |(_, place)| {
                LayerIndex::of_encoding(*place)
            })
        };
        match &self.0 {
            Named::Low => Ok(place(known.iter().min())),
            Named::High => Ok(LayerIndex::BASE),
            Named::Height(rows) => {
                let mut fitting = known.iter().filter(|((height, _), _)| height <= rows);
                let is_above = known.iter().any(|((height, _), _)| height > rows);
                Ok(match fitting.by_ref().max() {
                    Some(_) if !is_above => LayerIndex::BASE,
                    Some(found) => place(Some(found)),
                    None => place(known.iter().min()),
                })
            }
            Named::Rid(rid) => {
                let names: Vec<_> = track.layers.iter().map(|it| it.rid.as_str()).collect();
                let known = match names.is_empty() {
                    true => "the video has a single one".to_owned(),
                    false => format!("the stream has {}", names.join(", ")),
                };
                let rid = rid.clone();
                Err(NoSuchLayer::Unknown { rid, known })
            }
        }
    }

    /// Returns the layer of `track` that is meant, of those in its codec.
    fn of_codec(&self, track: &Track) -> Result<LayerIndex, NoSuchLayer> {
        let layer = self.of(track, |it| it.other_codec.is_none())?;
        let place = usize::from(layer.0).checked_sub(1);
        let described = place.and_then(|place| track.layers.get(place));
        match described.and_then(|it| it.other_codec.as_ref()) {
            None => Ok(layer),
            Some(other) => Err(NoSuchLayer::OtherCodec {
                rid: self.to_string(),
                codec: other.codec,
            }),
        }
    }
}

impl Stream {
    /// Returns the layer of the video that `wish` names, in whatever codec.
    ///
    /// # Errors
    /// Returns [`NoSuchLayer`] if the stream has none that is meant.
    pub fn named_layer(&self, wish: &LayerWish) -> Result<TrackLayer, NoSuchLayer> {
        self.named(|track| wish.of(track, |_| true))
    }

    /// Returns the layer of the video that `wish` names, for a receiver that can get those in the codec of
    /// the track only.
    ///
    /// # Errors
    /// Returns [`NoSuchLayer`] if the stream has none that is meant.
    pub fn named_layer_of_codec(&self, wish: &LayerWish) -> Result<TrackLayer, NoSuchLayer> {
        self.named(|track| wish.of_codec(track))
    }

    fn named(
        &self,
        meant: impl FnOnce(&Track) -> Result<LayerIndex, NoSuchLayer>,
    ) -> Result<TrackLayer, NoSuchLayer> {
        let tracks = self.tracks();
        let mut videos = TrackIndex::enumerate(tracks.iter());
        let video = videos.find(|(_, it)| it.kind() == Kind::Video);
        let (track, described) = video.ok_or(NoSuchLayer::NoVideo)?;
        let layer = meant(described)?;
        Ok(TrackLayer { track, layer })
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::Codec;

    use super::*;

    fn layer(rid: &str, height: u16) -> Layer {
        Layer {
            rid: rid.to_owned(),
            size: (height > 0).then_some((height * 2, height)),
            ..Layer::default()
        }
    }

    fn named(layers: &[Layer], wish: &str) -> Result<u8, String> {
        let track = Track::new(Codec::Vp8).with_layers(layers.to_vec());
        let wish: LayerWish = wish
            .parse()
            .map_err(|error: LayerWishError| error.to_string())?;
        let layer = wish
            .of(&track, |_| true)
            .map_err(|error| error.to_string())?;
        Ok(layer.0)
    }

    #[test]
    fn layers_are_named_by_their_names_by_rank_and_by_height() {
        let layers = [layer("h", 720), layer("q", 180), layer("m", 360)];
        for (wish, place) in [
            ("h", 1),
            ("q", 2),
            ("low", 2),
            ("high", 0),
            ("360p", 3),
            ("500p", 3),
            ("100p", 2),
            ("720p", 0),
            ("2160p", 0),
        ] {
            assert_eq!(named(&layers, wish), Ok(place), "{wish}");
        }
        assert_eq!(
            named(&[layer("low", 720), layer("x", 90)], "low"),
            Ok(1),
            "its name"
        );
        assert_eq!(
            named(&[layer("a", 0), layer("b", 0)], "low"),
            Ok(0),
            "of unknown size"
        );
        for wish in ["low", "high", "360p"] {
            assert_eq!(named(&[], wish), Ok(0), "a single encoding");
        }
    }

    #[test]
    fn receivers_of_one_codec_get_no_layer_in_another_one() {
        let [sub, rung] = [layer("sub", 360), layer("180p", 180)].map(|it| Layer {
            other_codec: Some(Box::new(Track::new(Codec::H264))),
            ..it
        });
        let track = Track::new(Codec::H265);
        let track = track.with_layers(vec![layer("main", 1080), sub, layer("half", 540), rung]);
        let [of_any, of_codec] = [true, false].map(|is_any| {
            ["low", "360p", "180p", "high", "main"].map(|wish| {
                let wish: LayerWish = wish.parse().expect("a name");
                let layer = match is_any {
                    true => wish.of(&track, |_| true),
                    false => wish.of_codec(&track),
                };
                layer.map(|it| it.0)
            })
        });
        assert_eq!(of_any, [Ok(4), Ok(2), Ok(4), Ok(0), Ok(1)]);
        assert_eq!(of_codec, [Ok(3), Ok(3), Ok(3), Ok(0), Ok(1)]);
        let named: LayerWish = "sub".parse().expect("a name");
        assert_eq!(
            named.of_codec(&track).map_err(|error| error.to_string()),
            Err("the layer sub is in H.264, which only viewers get that do not decode the other layers".into())
        );
    }

    #[test]
    fn a_layer_that_is_not_there_is_refused_with_those_that_are() {
        let mut layers = [layer("main", 1080), layer("sub", 360)];
        let error = named(&layers, "sub3").expect_err("unknown");
        assert!(
            error.starts_with("there is no layer sub3: the stream has main, sub;"),
            "{error}"
        );
        let error = named(&[], "sub").expect_err("unknown");
        assert!(error.contains("the video has a single one"), "{error}");
        layers[1].absence = Some(LayerAbsence::Failed("no answer".to_owned()));
        let error = named(&layers, "sub").expect_err("it failed");
        assert_eq!(error, "the layer sub does not come: no answer");
        assert_eq!(named(&layers, "low"), Ok(1), "of those that come");
        layers[1].absence = Some(LayerAbsence::Paused);
        assert_eq!(named(&layers, "sub"), Ok(2), "it comes when it is read");
        for text in ["", "a b", "ä", &"x".repeat(65)] {
            assert!(named(&layers, text).is_err(), "{text}");
        }
    }
}
