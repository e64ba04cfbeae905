//! A small deterministic random generator (SplitMix64), so that a seed repeats a campaign's choices.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A stream of its own for one part of a campaign, so that parts do not disturb each other's choices.
    pub(crate) fn for_part(seed: u64, part: &str) -> Random {
        let mix = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut random = Random::new(part.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, mix));
        random.next_number();
        random
    }

    fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next_number() % bound.max(1) as u64) as usize
    }

    /// A duration between `from_ms` and `to_ms` milliseconds.
    pub(crate) fn duration(&mut self, from_ms: usize, to_ms: usize) -> Duration {
        let micros = self.below((to_ms - from_ms) * 1000);
        Duration::from_millis(from_ms as u64) + Duration::from_micros(micros as u64)
    }
}
