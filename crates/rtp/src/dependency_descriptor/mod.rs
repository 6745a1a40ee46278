//! The dependency descriptor, a header extension that says of each frame to which layers it belongs, and
//! to which frames it refers (RTP Payload Format For AV1, appendix A). Publishers send it with every codec.
//!
//! ```text
//! keyframe:    mandatory fields, structure: templates of frames ─► kept
//! each frame:  mandatory fields, number of a template ──────────► Temporal
//! ```
//!
//! Chains and resolutions are passed over: nobody asks for them.

mod structure;

#[cfg(test)]
mod tests;

use glassline_media::{Bits, Temporal};

use structure::{Indications, Structure};

/// Frames before the present one of which the temporal layers are known. Encoders refer to the last 16 or
/// fewer.
const RECENT: usize = 64;

/// Length of a descriptor without extended fields, in bytes.
const SHORT_BYTES: usize = 3;

/// First bit of a descriptor: its packet is the first one of a frame.
const START: u8 = 0x80;

/// The reason why a descriptor says nothing of its frame. All but the second one are faults of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The descriptor ends within a field.
    #[error("a dependency descriptor of {bytes} bytes ends within its fields")]
    Short {
        /// Length of the descriptor.
        bytes: usize,
    },
    /// No structure came before the descriptor.
    #[error("no keyframe with a structure came before a dependency descriptor")]
    NoStructure,
    /// The descriptor names a template that the structure does not have.
    #[error("a dependency descriptor names template {template} of {templates}")]
    Template {
        /// Index of the template.
        template: u8,
        /// Number of templates of the structure.
        templates: usize,
    },
    /// The structure has more templates than 64.
    #[error("the structure of a dependency descriptor has more than 64 templates")]
    Templates,
    /// The structure has more layers than a descriptor can name.
    #[error(
        "the structure of a dependency descriptor has temporal layer {temporal} and spatial layer {spatial}: at most 7 and 3 are possible"
    )]
    Layers {
        /// Number of the temporal layer.
        temporal: u8,
        /// Number of the spatial layer.
        spatial: u8,
    },
}

/// Reads the descriptors of one RTP stream in the order of its frames.
#[derive(Debug)]
pub struct DescriptorReader {
    structure: Option<Structure>,
    /// The latest frames, each at the place that its number has modulo the length.
    recent: [Option<RecentFrame>; RECENT],
}

#[derive(Clone, Copy, Debug)]
struct RecentFrame {
    number: u16,
    layer: u8,
}

/// The fields of every descriptor, with which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mandatory {
    /// Whether the packet is the first one of its frame.
    pub starts_frame: bool,
    template: u8,
    /// Number of the frame, which wraps.
    pub number: u16,
}

impl Mandatory {
    /// Reads the fields; `None` if the descriptor is too short.
    pub fn read(descriptor: &[u8]) -> Option<Self> {
        let &[first, high, low] = descriptor.first_chunk()?;
        Some(Self {
            starts_frame: first & START != 0,
            template: first & 0x3f,
            number: u16::from_be_bytes([high, low]),
        })
    }
}

impl Default for DescriptorReader {
    fn default() -> Self {
        Self {
            structure: None,
            recent: [None; RECENT],
        }
    }
}

impl DescriptorReader {
    /// Reads the descriptor of the first packet of the next frame. Returns the place of the frame among the
    /// temporal layers.
    ///
    /// # Errors
    /// [`DescriptorError`]; the structure stays as it was, and later descriptors are read by it.
    pub fn read(&mut self, descriptor: &[u8]) -> Result<Temporal, DescriptorError> {
        let short = DescriptorError::Short {
            bytes: descriptor.len(),
        };
        let mandatory = Mandatory::read(descriptor).ok_or(short)?;
        let mut bits = Bits::new(&descriptor[SHORT_BYTES..]);
        let custom = match descriptor.len() > SHORT_BYTES {
            true => self.read_extended(&mut bits, short)?,
            false => Custom::default(),
        };
        let structure = self.structure.as_ref();
        let structure = structure.ok_or(DescriptorError::NoStructure)?;
        let template = structure.template(mandatory.template)?;
        let indications = match custom.has_indications {
            true => Indications::read(&mut bits, structure.targets()).ok_or(short)?,
            false => template.indications,
        };
        let layer_of = |distance: u16| {
            let number = mandatory.number.wrapping_sub(distance);
            let frame = self.recent[usize::from(number) % RECENT];
            frame.filter(|it| it.number == number).map(|it| it.layer)
        };
        let mut needs = 0;
        let mut refer = |distance: u16| {
            // A frame of which nothing is known may be one of this layer.
            needs = needs.max(layer_of(distance).unwrap_or(template.temporal_layer));
        };
        match custom.has_distances {
            true => read_distances(&mut bits, &mut refer).ok_or(short)?,
            false => template.distances.iter().for_each(|it| refer((*it).into())),
        }
        let temporal = Temporal {
            layer: template.temporal_layer,
            needs: needs.min(template.temporal_layer),
            opens: structure.opened_by(indications),
            discardable: structure.is_discardable(indications),
        };
        self.recent[usize::from(mandatory.number) % RECENT] = Some(RecentFrame {
            number: mandatory.number,
            layer: temporal.layer,
        });
        Ok(temporal)
    }

    /// Reads the fields up to those of the frame, and keeps a structure among them.
    fn read_extended(
        &mut self,
        bits: &mut Bits<'_>,
        short: DescriptorError,
    ) -> Result<Custom, DescriptorError> {
        let mut flag = || bits.bit().ok_or(short);
        let (has_structure, has_active_targets) = (flag()?, flag()?);
        let custom = Custom {
            has_indications: flag()?,
            has_distances: flag()?,
        };
        let _has_chains = flag()?;
        if has_structure {
            self.structure = Some(Structure::read(bits, short)?);
            self.recent = [None; RECENT];
        }
        if has_active_targets {
            let structure = self.structure.as_ref();
            let targets = structure.ok_or(DescriptorError::NoStructure)?.targets();
            bits.take(targets.into()).ok_or(short)?;
        }
        Ok(custom)
    }
}

/// Fields of a frame that differ from those of its template.
#[derive(Clone, Copy, Debug, Default)]
struct Custom {
    has_indications: bool,
    has_distances: bool,
}

/// Reads distances to the frames to which a frame refers (`frame_fdiffs`, A.8.3).
fn read_distances(bits: &mut Bits<'_>, refer: &mut impl FnMut(u16)) -> Option<()> {
    loop {
        let nibbles = bits.take(2)?;
        if nibbles == 0 {
            return Some(());
        }
        // Twelve bits at most.
        let distance = u16::try_from(bits.take(4 * nibbles)? + 1).ok()?;
        refer(distance);
    }
}
