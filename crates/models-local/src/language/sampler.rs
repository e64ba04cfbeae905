//! Picks the next token from a model's scores. Deterministic: the same scores, options and seed give the same token.

/// Number of recent answer tokens that the repetition penalty applies to.
const REPEAT_WINDOW_TOKENS: usize = 64;
/// Mild: enough to get a small model out of a loop, too little to forbid a word that has to be repeated.
const REPEAT_PENALTY: f32 = 1.1;

/// Sampling state of one answer.
pub(crate) struct Sampler {
    temperature: f64,
    top_p: f64,
    random: u64,
    recent: Vec<u32>,
}

impl Sampler {
    /// A `temperature` of 0 always selects the most likely token.
    pub(crate) fn new(temperature: f64, top_p: f64, seed: u64) -> Sampler {
        Sampler { temperature, top_p, random: seed, recent: Vec::new() }
    }

    /// Chooses a token and records it. Modifies `scores`.
    pub(crate) fn next_token(&mut self, scores: &mut [f32]) -> u32 {
        self.apply_repeat_penalty(scores);
        let token = if self.temperature <= 0.0 { likeliest_token(scores) } else { self.draw_token(scores) };
        self.recent.push(token);
        token
    }

    fn apply_repeat_penalty(&self, scores: &mut [f32]) {
        let start = self.recent.len().saturating_sub(REPEAT_WINDOW_TOKENS);
        let mut seen: Vec<u32> = self.recent[start..].to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(score) = scores.get_mut(token as usize) {
                *score = if *score > 0.0 { *score / REPEAT_PENALTY } else { *score * REPEAT_PENALTY };
            }
        }
    }

    fn draw_token(&mut self, scores: &[f32]) -> u32 {
        let best = f64::from(scores.iter().fold(f32::NEG_INFINITY, |best, score| best.max(*score)));
        // Tokens a billion times less likely than the best are not worth sorting.
        let floor = best - 20.0 * self.temperature;
        let mut order: Vec<u32> =
            (0..scores.len() as u32).filter(|token| f64::from(scores[*token as usize]) >= floor).collect();
        order.sort_unstable_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b)));
        let weight = |token: &u32| ((f64::from(scores[*token as usize]) - best) / self.temperature).exp();
        let total: f64 = order.iter().map(weight).sum();
        // Nucleus sampling: the fewest most likely tokens that together reach `top_p`.
        let mut kept_mass = 0.0;
        let mut count = 0;
        for token in &order {
            kept_mass += weight(token);
            count += 1;
            if kept_mass >= self.top_p * total {
                break;
            }
        }
        let mut point = next_unit_float(&mut self.random) * kept_mass;
        for token in &order[..count] {
            point -= weight(token);
            if point <= 0.0 {
                return *token;
            }
        }
        order.first().copied().unwrap_or(0)
    }
}

fn likeliest_token(scores: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (index, score) in scores.iter().enumerate() {
        if *score > best.1 {
            best = (index as u32, *score);
        }
    }
    best.0
}

/// SplitMix64, as a number in [0, 1).
fn next_unit_float(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_temperature_takes_the_likeliest_and_avoids_repeating_it_forever() {
        let mut sampler = Sampler::new(0.0, 1.0, 0);
        assert_eq!(sampler.next_token(&mut [0.5, 1.0, 0.95]), 1);
        assert_eq!(sampler.next_token(&mut [0.5, 1.0, 0.95]), 2);
    }

    #[test]
    fn the_same_seed_gives_the_same_tokens() {
        let run = |seed| {
            let mut sampler = Sampler::new(1.0, 0.95, seed);
            (0..20).map(|_| sampler.next_token(&mut [1.0, 1.1, 0.9, 1.05])).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_small_nucleus_keeps_only_the_likeliest() {
        let mut sampler = Sampler::new(1.0, 0.01, 3);
        assert_eq!(sampler.next_token(&mut [0.0, 5.0, 4.0]), 1);
    }
}
