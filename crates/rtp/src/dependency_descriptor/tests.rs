use proptest::prelude::*;

use super::*;

/// Writes fields that are not aligned to bytes.
#[derive(Debug, Default)]
struct Writer(Vec<bool>);

impl Writer {
    fn put(&mut self, value: u32, count: u32) {
        let bits = (0..count).rev().map(|bit| value >> bit & 1 == 1);
        self.0.extend(bits);
    }

    /// Writes a number below `values` (`ns(n)`).
    fn put_below(&mut self, value: u32, values: u32) {
        let width = u32::BITS - values.leading_zeros();
        let short = (1 << width) - values;
        match value < short {
            true => self.put(value, width - 1),
            false => self.put(value + short, width),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| {
            let set = bits.iter().enumerate().filter(|(_, is_set)| **is_set);
            set.map(|(place, _)| 0x80 >> place).sum::<u8>()
        };
        self.0.chunks(8).map(byte).collect()
    }
}

/// A structure as a publisher describes it.
#[derive(Clone, Debug)]
struct Described {
    first: u32,
    targets: u32,
    /// `next_layer_idc` behind each template but the last.
    steps: Vec<u32>,
    /// Meanings and distances of each template.
    templates: Vec<(Vec<u32>, Vec<u32>)>,
    chains: u32,
    has_resolutions: bool,
}

/// Fields of a frame.
#[derive(Clone, Debug, Default)]
struct Frame {
    template: u32,
    number: u16,
    active: Option<u32>,
    meanings: Option<Vec<u32>>,
    distances: Option<Vec<u32>>,
}

impl Described {
    /// One spatial layer with three temporal layers (L1T3, appendix A.9).
    fn l1t3() -> Self {
        let template = |meanings: [u32; 3], distances: &[u32]| (meanings.into(), distances.into());
        Self {
            first: 60,
            targets: 3,
            steps: vec![0, 1, 1, 0],
            templates: vec![
                template([2, 2, 2], &[]),
                template([2, 2, 2], &[4]),
                template([0, 1, 2], &[2]),
                template([0, 0, 1], &[1]),
                template([0, 0, 1], &[1]),
            ],
            chains: 1,
            has_resolutions: true,
        }
    }

    /// Returns the spatial and the temporal layer of each template.
    fn layers(&self) -> Vec<(u32, u32)> {
        let mut layers = vec![(0, 0)];
        for step in &self.steps {
            let (spatial, temporal) = layers[layers.len() - 1];
            layers.push(match step {
                0 => (spatial, temporal),
                1 => (spatial, temporal + 1),
                _ => (spatial + 1, 0),
            });
        }
        layers
    }

    fn write(&self, out: &mut Writer) {
        out.put(self.first, 6);
        out.put(self.targets - 1, 5);
        self.steps.iter().for_each(|step| out.put(*step, 2));
        out.put(3, 2);
        for (meanings, _) in &self.templates {
            meanings.iter().for_each(|it| out.put(*it, 2));
        }
        for (_, distances) in &self.templates {
            distances.iter().for_each(|it| out.put(16 | (it - 1), 5));
            out.put(0, 1);
        }
        out.put_below(self.chains, self.targets + 1);
        if self.chains > 0 {
            (0..self.targets).for_each(|it| out.put_below(it % self.chains, self.chains));
            (0..self.templates.len() as u32 * self.chains).for_each(|it| out.put(it & 15, 4));
        }
        out.put(self.has_resolutions.into(), 1);
        if self.has_resolutions {
            let spatial = self.layers().last().map_or(0, |it| it.0);
            (0..=spatial).for_each(|layer| out.put(0x027f_0167 << layer, 32));
        }
    }

    /// Writes the descriptor of a frame, with this structure for a keyframe.
    fn frame(&self, frame: &Frame, is_keyframe: bool) -> Vec<u8> {
        let mut out = Writer::default();
        out.put(0b11, 2);
        out.put((frame.template + self.first) % 64, 6);
        out.put(frame.number.into(), 16);
        let custom = [frame.meanings.is_some(), frame.distances.is_some(), false];
        if is_keyframe || frame.active.is_some() || custom.contains(&true) {
            out.put(is_keyframe.into(), 1);
            out.put(frame.active.is_some().into(), 1);
            custom.iter().for_each(|it| out.put((*it).into(), 1));
        }
        if is_keyframe {
            self.write(&mut out);
        }
        frame
            .active
            .iter()
            .for_each(|it| out.put(*it, self.targets));
        let meanings = frame.meanings.iter().flatten();
        meanings.for_each(|it| out.put(*it, 2));
        if let Some(distances) = &frame.distances {
            for distance in distances {
                let nibbles = [16, 256, 4096].iter().position(|it| distance <= it);
                let nibbles = nibbles.expect("12 bits") as u32 + 1;
                out.put(nibbles, 2);
                out.put(distance - 1, 4 * nibbles);
            }
            out.put(0, 2);
        }
        out.bytes()
    }
}

fn frame(template: u32, number: u16) -> Frame {
    Frame {
        template,
        number,
        ..Frame::default()
    }
}

fn place(layer: u8, needs: u8, opens: u8, discardable: bool) -> Temporal {
    Temporal {
        layer,
        needs,
        opens,
        discardable,
    }
}

#[test]
fn three_temporal_layers_are_read_as_the_specification_describes_them() {
    let (structure, mut reader) = (Described::l1t3(), DescriptorReader::default());
    let mut read = |template, number| {
        let is_keyframe = template == 0;
        reader.read(&structure.frame(&frame(template, number), is_keyframe))
    };
    assert_eq!(read(0, 65_534), Ok(place(0, 0, 2, false)));
    assert_eq!(read(3, 65_535), Ok(place(2, 0, 0, true)));
    assert_eq!(read(2, 0), Ok(place(1, 0, 2, false)));
    assert_eq!(read(4, 1), Ok(place(2, 1, 0, true)));
    assert_eq!(read(1, 2), Ok(place(0, 0, 2, false)));
    // A frame that refers to one of which nothing is known may need its own layer.
    assert_eq!(read(3, 40), Ok(place(2, 2, 0, true)));
    let refused = read(5, 41);
    assert_eq!(
        refused.map_err(|it| it.to_string()),
        Err("a dependency descriptor names template 5 of 5".to_owned())
    );
    assert_eq!(read(1, 42), Ok(place(0, 0, 2, false)), "it goes on");
}

#[test]
fn a_frame_may_differ_from_its_template() {
    let (structure, mut reader) = (Described::l1t3(), DescriptorReader::default());
    assert!(reader.read(&structure.frame(&frame(0, 0), true)).is_ok());
    assert!(reader.read(&structure.frame(&frame(2, 1), false)).is_ok());
    let other = Frame {
        active: Some(7),
        meanings: Some(vec![0, 0, 2]),
        distances: Some(vec![1, 300]),
        ..frame(3, 2)
    };
    let read = reader.read(&structure.frame(&other, false));
    assert_eq!(read, Ok(place(2, 2, 2, false)));
}

#[test]
fn structures_beyond_the_bounds_are_refused_and_the_one_before_stays() {
    let mut reader = DescriptorReader::default();
    let structure = Described::l1t3();
    let later = structure.frame(&frame(1, 4), false);
    assert_eq!(reader.read(&later), Err(DescriptorError::NoStructure));
    assert!(reader.read(&structure.frame(&frame(0, 0), true)).is_ok());
    let with_steps = |steps: Vec<u32>| {
        let templates = vec![(vec![2, 2, 2], vec![]); steps.len() + 1];
        let large = Described {
            steps,
            templates,
            has_resolutions: false,
            ..Described::l1t3()
        };
        large.frame(&frame(0, 1), true)
    };
    let mut refused = |steps: Vec<u32>| reader.read(&with_steps(steps));
    assert!(refused(vec![0; 63]).is_ok(), "64 templates");
    assert_eq!(refused(vec![0; 64]), Err(DescriptorError::Templates));
    let layers = |temporal, spatial| Err(DescriptorError::Layers { temporal, spatial });
    assert_eq!(refused(vec![1; 8]), layers(8, 0));
    assert_eq!(refused(vec![2; 4]), layers(0, 4));
    assert!(reader.read(&later).is_ok(), "the structure of 64 templates");
    for end in 0..later.len() {
        let short = DescriptorError::Short { bytes: end };
        assert_eq!(reader.read(&later[..end]), Err(short));
    }
}

fn structures() -> impl Strategy<Value = Described> {
    let sizes = (
        0_u32..64,
        1_u32..=32,
        prop::collection::vec(0_u32..3, 0..24),
    );
    sizes.prop_flat_map(|(first, targets, mut steps)| {
        let (mut temporal, mut spatial) = (0, 0);
        for step in &mut steps {
            match *step {
                1 if temporal < 7 => temporal += 1,
                2 if spatial < 3 => (temporal, spatial) = (0, spatial + 1),
                _ => *step = 0,
            }
        }
        let meanings = prop::collection::vec(0_u32..4, targets as usize);
        let distances = prop::collection::vec(1_u32..=16, 0..4);
        let templates = prop::collection::vec((meanings, distances), steps.len() + 1);
        (templates, 0..=targets, any::<bool>()).prop_map(
            move |(templates, chains, has_resolutions)| Described {
                first,
                targets,
                steps: steps.clone(),
                templates,
                chains,
                has_resolutions,
            },
        )
    })
}

proptest! {
    #[test]
    fn every_structure_that_is_written_is_read(
        structure in structures(),
        number: u16,
        chosen: prop::sample::Index,
        distances in prop::option::of(prop::collection::vec(1_u32..=4096, 0..4)),
        active: Option<u32>,
        length in 0_usize..900,
    ) {
        let template = chosen.index(structure.templates.len());
        let frame = Frame { active, distances, ..frame(template as u32, number) };
        let written = structure.frame(&frame, true);
        let mut reader = DescriptorReader::default();
        let temporal = reader.read(&written).expect("written by the specification");
        let meanings = &structure.templates[template].0;
        let layer = structure.layers()[template].1;
        prop_assert_eq!(u32::from(temporal.layer), layer);
        let mut present = meanings.iter().filter(|it| **it != 0).peekable();
        let is_present = present.peek().is_some();
        prop_assert_eq!(temporal.discardable, is_present && present.all(|it| *it == 1));
        prop_assert!(temporal.opens == 0 || meanings.contains(&2));
        // The next frame names its template by the structure.
        let next = structure.frame(&Frame { number: number.wrapping_add(1), ..Frame::default() }, false);
        prop_assert!(reader.read(&next).is_ok());
        // What is cut off is refused, or its missing bits have no meaning.
        let _ = DescriptorReader::default().read(&written[..length.min(written.len())]);
    }

    #[test]
    fn bytes_of_strangers_do_no_harm(
        descriptors in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8),
    ) {
        let mut reader = DescriptorReader::default();
        for bytes in descriptors {
            if let Ok(temporal) = reader.read(&bytes) {
                prop_assert!(temporal.needs <= temporal.layer && temporal.layer <= 7);
            }
        }
    }
}
