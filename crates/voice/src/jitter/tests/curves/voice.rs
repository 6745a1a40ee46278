use glassline_sim::Rng;

/// A voice of triangles: syllables whose pitch glides from 100 to 200 Hz, with pauses.
pub(super) struct Voice {
    rng: Rng,
    rate: u32,
    phase: f64,
    pitch: f64,
    level: f64,
    /// Frames that are left of the syllable or the pause.
    left: u32,
    is_pause: bool,
}

impl Voice {
    pub(super) fn new(rate: u32) -> Self {
        Self {
            rng: Rng::new(7),
            rate,
            phase: 0.0,
            pitch: 100.0,
            level: 0.0,
            left: 0,
            is_pause: true,
        }
    }

    pub(super) fn sample(&mut self) -> f32 {
        if self.left == 0 {
            self.is_pause = !self.is_pause;
            let ms = match self.is_pause {
                true => 60 + self.rng.below(500) as u32,
                false => 120 + self.rng.below(400) as u32,
            };
            self.left = self.rate / 1_000 * ms;
            self.level = match self.is_pause {
                true => 0.001,
                false => 0.1 + 0.5 * self.rng.unit(),
            };
            self.pitch = 100.0 + 100.0 * self.rng.unit();
        }
        self.left -= 1;
        self.phase += self.pitch / f64::from(self.rate);
        self.phase -= self.phase.floor();
        let triangle = 4.0 * (self.phase - 0.5).abs() - 1.0;
        let noise = self.rng.unit() - 0.5;
        (self.level * (0.9 * triangle + 0.05 * noise)) as f32
    }
}
