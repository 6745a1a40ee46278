//! Tracks of video that are encodings of one: how they are named to servers.

use glassline_media::{Kind, Track, TrackIndex};

/// One encoding of the video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedLayer {
    pub(super) track: TrackIndex,
    /// Rows of the frames, such as `720p`; the place where rows do not tell the layers apart.
    pub(super) name: String,
}

/// Returns the encodings of the video among `tracks`, the best first; none if there is a single one.
pub(super) fn named(tracks: &[Track]) -> Vec<NamedLayer> {
    let videos = TrackIndex::enumerate(tracks).filter(|(_, it)| it.kind() == Kind::Video);
    let videos: Vec<_> = videos.collect();
    let mut rows: Vec<u32> = videos.iter().map(|(_, it)| it.video.height).collect();
    rows.sort_unstable();
    let are_told = rows.windows(2).all(|pair| pair[0] < pair[1]) && rows.first() > Some(&0);
    let named = videos
        .iter()
        .enumerate()
        .map(|(place, (track, it))| NamedLayer {
            track: *track,
            name: match are_told {
                true => format!("{}p", it.video.height),
                false => place.to_string(),
            },
        });
    named.filter(|_| videos.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Codec, VideoParameters};

    #[test]
    fn layers_are_named_by_their_rows_or_by_their_places() {
        let names = |rows: &[u32]| {
            let video = |height: &u32| {
                Track::h264(VideoParameters {
                    height: *height,
                    ..VideoParameters::default()
                })
            };
            let mut tracks: Vec<_> = rows.iter().map(video).collect();
            tracks.insert(1, Track::audio(Codec::Opus, 2));
            let layers = named(&tracks).into_iter();
            layers
                .map(|it| (it.track.get(), it.name))
                .collect::<Vec<_>>()
        };
        let told = |track: usize, name: &str| (track, name.to_owned());
        assert_eq!(names(&[720]), []);
        assert_eq!(names(&[720, 360]), [told(0, "720p"), told(2, "360p")]);
        assert_eq!(names(&[360, 360]), [told(0, "0"), told(2, "1")]);
        assert_eq!(names(&[360, 0]), [told(0, "0"), told(2, "1")]);
    }
}
