//! The structure of a stream, which its keyframes carry (`template_dependency_structure`, A.8.3).

use glassline_media::{Bits, Temporal};

use super::DescriptorError;

/// Most templates of a structure, since six bits name them.
const TEMPLATES_MAX: usize = 64;

/// Highest spatial layer that a descriptor can name.
const SPATIAL_LAYER_MAX: u8 = 3;

/// `next_layer_idc` of a template that belongs to the layer of the one before.
const SAME_LAYER: u32 = 0;
const NEXT_TEMPORAL_LAYER: u32 = 1;
const NEXT_SPATIAL_LAYER: u32 = 2;

/// The kinds of frames of a stream, and the decode targets, which are sets of layers.
#[derive(Debug)]
pub(super) struct Structure {
    /// Number of the first template.
    first: u8,
    templates: Vec<Template>,
    /// Highest temporal layer of each decode target.
    target_layers: Vec<u8>,
}

/// A kind of frames.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) temporal_layer: u8,
    pub(super) indications: Indications,
    /// Distances to the frames to which a frame refers, in frame numbers.
    pub(super) distances: Vec<u8>,
}

/// Meaning of a frame for one decode target (`decode_target_indication`, A.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indication {
    NotPresent,
    Discardable,
    Switch,
    Required,
}

/// Meanings of a frame for all decode targets, two bits each, the first target in the lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Indications(u64);

impl Indications {
    /// Reads the meanings for `targets` decode targets, at most 32.
    pub(super) fn read(bits: &mut Bits<'_>, targets: u8) -> Option<Self> {
        let of_target = |sum: u64, target| Some(sum | u64::from(bits.take(2)?) << (2 * target));
        (0..targets).try_fold(0, of_target).map(Self)
    }

    fn of(self, target: usize) -> Indication {
        match self.0 >> (2 * target) & 3 {
            0 => Indication::NotPresent,
            1 => Indication::Discardable,
            2 => Indication::Switch,
            _ => Indication::Required,
        }
    }
}

impl Structure {
    pub(super) fn read(
        bits: &mut Bits<'_>,
        short: DescriptorError,
    ) -> Result<Self, DescriptorError> {
        let mut take = |count| bits.take(count).ok_or(short);
        let first = u8::try_from(take(6)?).unwrap_or_default();
        let targets = u8::try_from(take(5)? + 1).unwrap_or_default();
        let mut templates = Vec::new();
        let spatial_layer = read_layers(bits, short, &mut templates)?;
        let mut target_layers = vec![0; targets.into()];
        for template in &mut templates {
            template.indications = Indications::read(bits, targets).ok_or(short)?;
            for (target, layer) in target_layers.iter_mut().enumerate() {
                if template.indications.of(target) != Indication::NotPresent {
                    *layer = template.temporal_layer.max(*layer);
                }
            }
        }
        for template in &mut templates {
            while bits.bit().ok_or(short)? {
                let distance = bits.take(4).ok_or(short)? + 1;
                let distance = u8::try_from(distance).unwrap_or_default();
                template.distances.push(distance);
            }
        }
        pass_chains(bits, targets.into(), templates.len()).ok_or(short)?;
        if bits.bit().ok_or(short)? {
            bits.skip(32 * (usize::from(spatial_layer) + 1));
        }
        Ok(Self {
            first,
            templates,
            target_layers,
        })
    }

    /// Number of decode targets.
    pub(super) fn targets(&self) -> u8 {
        u8::try_from(self.target_layers.len()).unwrap_or_default()
    }

    /// Returns the template that a frame names.
    pub(super) fn template(&self, number: u8) -> Result<&Template, DescriptorError> {
        let template = number.wrapping_sub(self.first) & 0x3f;
        let templates = self.templates.len();
        let found = self.templates.get(usize::from(template));
        found.ok_or(DescriptorError::Template {
            template,
            templates,
        })
    }

    /// Returns the highest temporal layer of which all later frames can be decoded by whoever decodes a
    /// frame of these meanings.
    pub(super) fn opened_by(&self, indications: Indications) -> u8 {
        let is_opened = |layer: &u8| {
            let targets = self.target_layers.iter().enumerate();
            let of_layer = targets.filter(|(_, it)| *it == layer);
            let mut meanings = of_layer
                .map(|(target, _)| indications.of(target))
                .filter(|it| *it != Indication::NotPresent)
                .peekable();
            meanings.peek().is_some() && meanings.all(|it| it == Indication::Switch)
        };
        let mut layers = (1..=Temporal::LAYER_MAX).rev();
        layers.find(is_opened).unwrap_or(0)
    }

    /// Returns whether no decode target needs a frame of these meanings.
    pub(super) fn is_discardable(&self, indications: Indications) -> bool {
        let targets = 0..self.target_layers.len();
        let mut present = targets
            .map(|target| indications.of(target))
            .filter(|it| *it != Indication::NotPresent)
            .peekable();
        present.peek().is_some() && present.all(|it| it == Indication::Discardable)
    }
}

/// Reads the layers of the templates, of which each appends one. Returns the highest spatial layer.
fn read_layers(
    bits: &mut Bits<'_>,
    short: DescriptorError,
    templates: &mut Vec<Template>,
) -> Result<u8, DescriptorError> {
    let (mut temporal, mut spatial) = (0, 0);
    loop {
        if templates.len() == TEMPLATES_MAX {
            return Err(DescriptorError::Templates);
        }
        templates.push(Template {
            temporal_layer: temporal,
            indications: Indications::default(),
            distances: Vec::new(),
        });
        match bits.take(2).ok_or(short)? {
            SAME_LAYER => {}
            NEXT_TEMPORAL_LAYER => temporal += 1,
            NEXT_SPATIAL_LAYER => (temporal, spatial) = (0, spatial + 1),
            _ => return Ok(spatial),
        }
        if temporal > Temporal::LAYER_MAX || spatial > SPATIAL_LAYER_MAX {
            return Err(DescriptorError::Layers { temporal, spatial });
        }
    }
}

/// Passes over the chains (`template_chains`).
fn pass_chains(bits: &mut Bits<'_>, targets: u32, templates: usize) -> Option<()> {
    let chains = non_symmetric(bits, targets + 1)?;
    if chains > 0 {
        for _ in 0..targets {
            non_symmetric(bits, chains)?;
        }
        bits.skip(4 * templates * usize::try_from(chains).ok()?);
    }
    Some(())
}

/// Reads a number below `values` in the fewest bits (`ns(n)`, A.8.1).
fn non_symmetric(bits: &mut Bits<'_>, values: u32) -> Option<u32> {
    let width = u32::BITS - values.leading_zeros();
    let short = (1 << width) - values;
    let number = bits.take(width - 1)?;
    match number < short {
        true => Some(number),
        false => Some((number << 1) - short + bits.take(1)?),
    }
}
