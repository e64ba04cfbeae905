//! The random choices of a schedule. All of them come from its seed, in the order in which they are made.

use parking_lot::Mutex;

/// A seeded generator (SplitMix64), shared by everything that chooses.
pub(crate) struct Choices {
    state: Mutex<u64>,
}

impl Choices {
    /// The choices of a seed.
    pub(crate) fn from_seed(seed: u64) -> Choices {
        // Neighbouring seeds must not make similar choices.
        let choices = Choices { state: Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03) };
        choices.next_number();
        choices
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if the limit is 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next_number() % limit }
    }

    /// An index of a list with `length` items.
    pub(crate) fn index(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True with a probability of one in `count`; never if `count` is 0.
    pub(crate) fn one_in(&self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }
}
