//! A viewer without transport feedback that names a layer.

use glassline_hub::{Subscription, Wake};
use glassline_media::{Codec, Layer, LayerAbsence};

use super::*;

const BEST: TrackLayer = of_encoding(0);
const NAMED: TrackLayer = of_encoding(1);

const fn of_encoding(place: u8) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex(1 + place),
    }
}

/// A reader that polls.
struct Unwoken;

impl Wake for Unwoken {
    fn wake(&self) {}
}

/// Returns the description of both layers, of which the named one may be absent.
fn described(absence: Option<LayerAbsence>) -> Vec<Track> {
    let named = Layer {
        absence,
        ..Layer::default()
    };
    vec![Track::new(Codec::Vp8).with_layers(vec![Layer::default(), named])]
}

/// The stream of both layers, and a viewer's sender that named the lower one.
fn named() -> (Scene, StreamSender) {
    let receive = Kinds {
        audio: false,
        ..Kinds::ALL
    };
    let scene = Scene::streaming(described(None), receive);
    let mut sender = scene.sender();
    let request = LayerRequest {
        pin: Some(NAMED.layer),
        ..LayerRequest::default()
    };
    sender.set_request(request, scene.at(0));
    (scene, sender)
}

/// Publishes a frame of one packet, and returns the number of packets that leave then.
fn offer(
    scene: &mut Scene,
    sender: &mut StreamSender,
    of: TrackLayer,
    ms: u64,
    key: bool,
) -> usize {
    let mut unit = unit(VIDEO, scene.at(ms), ms, key, &[500]);
    unit.layer = of.layer;
    let unit = scene.publisher.push(unit, scene.at(ms)).expect("announced");
    let unit = unit.expect("the source");
    sender.offer(&unit, scene.at(ms), &scene.stream);
    scene.flush(sender, ms).1.len()
}

#[test]
fn the_named_layer_is_left_while_it_has_failed() {
    let (mut scene, mut sender) = named();
    for layer in [BEST, NAMED] {
        offer(&mut scene, &mut sender, layer, 0, true);
    }
    scene.publisher.prefer(BEST);
    scene.start(&mut sender, 10);
    sender.choose(&scene.session, &scene.stream, scene.at(10));
    let layers = |sender: &StreamSender| sender.layers().collect::<Vec<_>>();
    assert_eq!(layers(&sender), [NAMED]);
    let mut reader: Subscription = scene.stream.subscribe(Arc::new(Unwoken));
    let mut describe = |scene: &mut Scene, sender: &mut StreamSender, absence, ms| {
        let known = reader.preference();
        let tracks = described(absence);
        scene.publisher.describe(&tracks).expect("the same tracks");
        reader.poll(&mut Vec::new());
        if reader.preference() != known {
            sender.choose(&scene.session, &scene.stream, scene.at(ms));
        }
    };
    let failed = Some(LayerAbsence::Failed("it ended".to_owned()));
    describe(&mut scene, &mut sender, failed, 40);
    assert_eq!(layers(&sender), [BEST], "the source goes on");
    describe(&mut scene, &mut sender, None, 60);
    assert_eq!(layers(&sender), [BEST, NAMED], "it comes again");
    offer(&mut scene, &mut sender, NAMED, 66, true);
    assert_eq!(layers(&sender), [NAMED]);
}

#[test]
fn another_layer_comes_until_the_named_one_has_frames() {
    let (mut scene, mut sender) = named();
    scene.start(&mut sender, 10);
    scene.publisher.prefer(BEST);
    sender.choose(&scene.session, &scene.stream, scene.at(20));
    assert!(scene.publisher.wanted_keyframes().has(NAMED.layer));
    assert_eq!(offer(&mut scene, &mut sender, BEST, 30, false), 0);
    let wanted = scene.publisher.wanted_keyframes();
    assert!(wanted.has(BEST.layer), "the named one may not come");
    assert_eq!(offer(&mut scene, &mut sender, BEST, 60, true), 1);
    assert_eq!(offer(&mut scene, &mut sender, BEST, 90, false), 1);
    assert_eq!(offer(&mut scene, &mut sender, NAMED, 92, true), 1);
    assert_eq!(offer(&mut scene, &mut sender, BEST, 120, false), 0);
    assert_eq!(offer(&mut scene, &mut sender, NAMED, 122, false), 1);
}
