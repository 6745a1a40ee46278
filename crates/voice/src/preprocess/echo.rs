//! Echo cancellation: AEC3 works on blocks of 4 ms, three bands each.

use sonora_aec3::block::Block;
use sonora_aec3::block_processor::{BlockProcessor, BlockProcessorMetricsOutput};
use sonora_aec3::common::BLOCK_SIZE;
use sonora_aec3::config::EchoCanceller3Config;

use super::bands::{BANDS, Bands};
use crate::opus::RATE;

/// Amplitude from which a microphone counts as overdriven; full scale is 32,768.
const OVERDRIVEN: f32 = 32_700.0;

/// Echo canceller for 1 or 2 channels of a microphone and one of a loudspeaker.
#[derive(derive_more::Debug)]
#[debug("Echo {{ metrics: {:?}, .. }}", self.metrics())]
pub(super) struct Echo {
    processor: BlockProcessor,
    rendered: Blocks,
    captured: Blocks,
    cleaned: Blocks,
    render_block: Block,
    capture_block: Block,
}

impl Echo {
    pub(super) fn new(channels: usize) -> Self {
        let config = EchoCanceller3Config::default();
        let mut cleaned = Blocks::new(channels);
        cleaned.delay();
        Self {
            processor: BlockProcessor::new(&config, RATE as usize, 1, channels),
            rendered: Blocks::new(1),
            captured: Blocks::new(channels),
            cleaned,
            render_block: Block::new(BANDS, 1),
            capture_block: Block::new(BANDS, channels),
        }
    }

    pub(super) fn set_delay_ms(&mut self, ms: i32) {
        self.processor.set_audio_buffer_delay(ms);
    }

    /// Takes 10 ms of what goes to the loudspeaker.
    pub(super) fn render(&mut self, bands: &Bands) {
        self.rendered.push(0, bands);
        while self.rendered.pop_block(&mut self.render_block) {
            self.processor.buffer_render(&self.render_block);
        }
    }

    /// Whether a frame of the full band is overdriven.
    pub(super) fn is_overdriven(frame: &[f32]) -> bool {
        frame.iter().any(|it| it.abs() >= OVERDRIVEN)
    }

    /// Removes the echo from 10 ms of all channels.
    pub(super) fn cancel(&mut self, channels: &mut [Bands], is_overdriven: bool) {
        for (channel, bands) in channels.iter().enumerate() {
            self.captured.push(channel, bands);
        }
        while self.captured.pop_block(&mut self.capture_block) {
            let block = &mut self.capture_block;
            self.processor
                .process_capture(false, is_overdriven, None, block);
            self.cleaned.push_block(block);
        }
        for (channel, bands) in channels.iter_mut().enumerate() {
            self.cleaned.pop(channel, bands);
        }
    }

    pub(super) fn metrics(&self) -> BlockProcessorMetricsOutput {
        self.processor.get_metrics()
    }
}

/// Buffer between frames of 10 ms and blocks of 4 ms.
struct Blocks {
    /// Samples that wait, by channel, then by band.
    waiting: Vec<[Vec<f32>; BANDS]>,
}

impl Blocks {
    fn new(channels: usize) -> Self {
        Self {
            waiting: vec![Default::default(); channels],
        }
    }

    /// Inserts a block of silence: a frame is no whole number of blocks, so output is a block
    /// later.
    fn delay(&mut self) {
        for waiting in self.waiting.iter_mut().flatten() {
            waiting.resize(BLOCK_SIZE, 0.0);
        }
    }

    fn push(&mut self, channel: usize, bands: &Bands) {
        for (waiting, band) in self.waiting[channel].iter_mut().zip(bands) {
            waiting.extend_from_slice(band);
        }
    }

    /// Takes as many samples as `bands` holds, which are available.
    fn pop(&mut self, channel: usize, bands: &mut Bands) {
        for (waiting, band) in self.waiting[channel].iter_mut().zip(bands) {
            take(waiting, band);
        }
    }

    fn push_block(&mut self, block: &Block) {
        for (channel, bands) in self.waiting.iter_mut().enumerate() {
            for (band, waiting) in bands.iter_mut().enumerate() {
                waiting.extend_from_slice(block.view(band, channel));
            }
        }
    }

    /// Takes a block; returns false, and takes nothing, while no block is complete.
    fn pop_block(&mut self, block: &mut Block) -> bool {
        let is_whole = |it: &[Vec<f32>; BANDS]| it[0].len() >= BLOCK_SIZE;
        if !self.waiting.iter().all(is_whole) {
            return false;
        }
        for (channel, bands) in self.waiting.iter_mut().enumerate() {
            for (band, waiting) in bands.iter_mut().enumerate() {
                take(waiting, block.view_mut(band, channel));
            }
        }
        true
    }
}

/// Moves the first samples of `waiting` to `out`.
fn take(waiting: &mut Vec<f32>, out: &mut [f32]) {
    out.copy_from_slice(&waiting[..out.len()]);
    waiting.drain(..out.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_overdriven_if_a_sample_of_either_sign_reaches_the_limit() {
        let frame = |sample| Echo::is_overdriven(&[0.0, sample, 100.0]);
        let samples = [OVERDRIVEN - 1.0, OVERDRIVEN, -OVERDRIVEN, 1.0 - OVERDRIVEN];
        assert_eq!(samples.map(frame), [false, true, true, false]);
    }

    #[test]
    fn frames_become_blocks_in_order_and_blocks_become_frames_a_block_later() {
        let (mut blocks, mut later) = (Blocks::new(2), Blocks::new(2));
        later.delay();
        let mut block = Block::new(BANDS, 2);
        // Sample n of band b of channel c is n + b / 10 + c / 100, counted over all frames.
        let value = |channel: usize, band: usize, at: usize| {
            at as f32 + band as f32 / 10.0 + channel as f32 / 100.0
        };
        let (mut taken, mut given) = (0, 0);
        for number in 0..10 {
            assert!(!blocks.pop_block(&mut block), "less than a block waits");
            for channel in 0..2 {
                let bands: Bands = std::array::from_fn(|band| {
                    std::array::from_fn(|at| value(channel, band, number * 160 + at))
                });
                blocks.push(channel, &bands);
                assert!(channel == 1 || !blocks.pop_block(&mut block), "one of two");
            }
            while blocks.pop_block(&mut block) {
                for channel in 0..2 {
                    for band in 0..BANDS {
                        let samples = block.view(band, channel);
                        assert_eq!(samples.len(), BLOCK_SIZE);
                        for (at, sample) in samples.iter().enumerate() {
                            assert_eq!(*sample, value(channel, band, taken + at));
                        }
                    }
                }
                taken += BLOCK_SIZE;
                later.push_block(&block);
            }
            for channel in 0..2 {
                let mut bands: Bands = [[0.0; 160]; BANDS];
                later.pop(channel, &mut bands);
                for (band, samples) in bands.iter().enumerate() {
                    for (at, sample) in samples.iter().enumerate() {
                        let wanted = (given + at).checked_sub(BLOCK_SIZE);
                        let wanted = wanted.map_or(0.0, |it| value(channel, band, it));
                        assert_eq!(*sample, wanted, "{channel}, {band}, {at}");
                    }
                }
            }
            given += 160;
        }
        assert_eq!((taken, given), (1_600, 1_600));
    }
}
