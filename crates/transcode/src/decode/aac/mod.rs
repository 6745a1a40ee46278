//! AAC of several channels, mixed down to left and right.
//!
//! The decoder takes one or two channels. So each element of a frame becomes a frame of its own:
//!
//! ```text
//! frame ─► RawDataBlock ─► single channel, pair, pair, low frequencies
//!                           └─► a decoder each ─► samples ─► Mixdown ─► left and right
//! ```

pub(crate) mod raw_data_block;

use glassline_media::Bits;
use glassline_media::aac::{Program, ProgramElement};
use symphonia_codec_aac::AacDecoder;

use self::raw_data_block::{Element, RawDataBlock};
use super::mixdown::Mixdown;
use super::{Format, Undecodable};
use crate::aac::bands::Bands;

/// Frames between two changes of the elements. Frames that change more often are damaged, and each
/// change makes all decoders anew.
const FRAMES_BETWEEN_CHANGES: u32 = 25;

/// Identifier of the end of a frame, in three bits.
const END: u8 = 0b111;

/// Decodes AAC frames of any elements.
#[derive(derive_more::Debug)]
#[debug("SurroundDecoder {{ rate: {rate:?}, program: {program:?}, .. }}")]
pub(super) struct SurroundDecoder {
    rate: u32,
    bands: Bands,
    /// The program that the track's description or the latest frame with one states.
    program: Program,
    decoders: Vec<ElementDecoder>,
    mixdown: Option<Mixdown>,
    /// Frames since the elements changed last.
    steady: u32,
    /// Buffers that are empty between frames and kept for their capacity.
    frame: Vec<u8>,
    samples: Vec<f32>,
}

/// The decoder of one element.
struct ElementDecoder {
    element: ProgramElement,
    decoder: Box<AacDecoder>,
}

impl SurroundDecoder {
    /// Creates a decoder of frames at `rate` Hz whose elements are those of `program`.
    pub(super) fn new(rate: u32, program: Program) -> Self {
        Self {
            rate,
            bands: Bands::at(rate),
            program,
            decoders: Vec::new(),
            mixdown: None,
            steady: FRAMES_BETWEEN_CHANGES,
            frame: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Decodes one frame. Appends its samples to `mixed`: left and right, interleaved.
    pub(super) fn decode(
        &mut self,
        frame: &[u8],
        mixed: &mut Vec<f32>,
    ) -> Result<Format, Undecodable> {
        let block = RawDataBlock::parse(frame, &self.bands);
        let block = block.map_err(|reason| Undecodable(reason.to_string()))?;
        self.steady = self.steady.saturating_add(1);
        let is_new_program = block.program.is_some_and(|it| it != self.program);
        let is_same = self.decoders.len() == block.elements.len()
            && (self.decoders.iter().zip(&block.elements))
                .all(|(decoder, element)| is_of(decoder.element, element));
        if is_new_program || !is_same {
            self.begin(&block)?;
        }
        let Some(mixdown) = &self.mixdown else {
            return Err(Undecodable("the frame has no audio".to_owned()));
        };
        let mut first = 0;
        for (decoder, element) in self.decoders.iter_mut().zip(&block.elements) {
            let format = Format {
                rate: self.rate,
                channels: 1 + usize::from(element.is_pair),
            };
            cut_out(frame, element, &mut self.frame);
            self.samples.clear();
            super::run(decoder.decoder.as_mut(), &self.frame, &mut self.samples)?;
            let samples = self.samples.len() / format.channels;
            mixed.resize(mixed.len().max(2 * samples), 0.0);
            mixdown.add(first, format.channels, &self.samples, mixed);
            first += format.channels;
        }
        Ok(Format {
            rate: self.rate,
            channels: 2,
        })
    }

    /// Makes the decoders of a frame's elements.
    fn begin(&mut self, block: &RawDataBlock) -> Result<(), Undecodable> {
        if self.steady < FRAMES_BETWEEN_CHANGES {
            return Err(Undecodable("its channels change all the time".to_owned()));
        }
        let program = block.program.unwrap_or(self.program);
        let Some(elements) = placed(&block.elements, &program) else {
            return Err(Undecodable(
                "its channels are not those of its configuration".to_owned(),
            ));
        };
        self.steady = 0;
        self.program = program;
        self.decoders.clear();
        self.mixdown = Some(Mixdown::of_elements(&elements));
        for element in elements {
            let decoder = super::aac_of_one_element(Format {
                rate: self.rate,
                channels: 1 + usize::from(element.is_pair),
            })?;
            self.decoders.push(ElementDecoder {
                element,
                decoder: Box::new(decoder),
            });
        }
        Ok(())
    }
}

/// Returns whether an element of a frame is the one that a decoder was made for.
fn is_of(made_for: ProgramElement, element: &Element) -> bool {
    made_for.is_pair == element.is_pair && made_for.tag == Some(element.tag)
}

/// Returns for each element of a frame its place in the program, with the tag of the frame. `None`
/// if the program lacks it, or if there are no elements.
fn placed(elements: &[Element], program: &Program) -> Option<Vec<ProgramElement>> {
    use glassline_media::aac::Placement::LowFrequency;
    let mut left: Vec<_> = program.elements().to_vec();
    let placed = elements.iter().map(|element| {
        let fits = |listed: &ProgramElement| {
            listed.is_pair == element.is_pair
                && (listed.placement == LowFrequency) == element.is_low_frequency
                && listed.tag.is_none_or(|tag| tag == element.tag)
        };
        let place = left.iter().position(fits)?;
        Some(ProgramElement {
            tag: Some(element.tag),
            ..left.remove(place)
        })
    });
    let placed: Vec<_> = placed.collect::<Option<_>>()?;
    (!placed.is_empty()).then_some(placed)
}

/// Replaces `cut` by a frame of one element of `frame`.
fn cut_out(frame: &[u8], element: &Element, cut: &mut Vec<u8>) {
    cut.clear();
    let mut bits = Bits::new(frame);
    bits.skip(element.bits.start);
    let mut left = element.bits.len() as u32;
    while left >= 8 {
        cut.push(bits.take(8).unwrap_or(0) as u8);
        left -= 8;
    }
    // Behind the last bits, 0 to 7 of them, come the end's three bits.
    let last = bits.take(left).unwrap_or(0) << (16 - left) | u32::from(END) << (13 - left);
    cut.extend_from_slice(&(last as u16).to_be_bytes());
}

#[cfg(test)]
mod element_tests;
#[cfg(test)]
mod tests;
