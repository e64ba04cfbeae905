//! Inputs made from seeds: bytes and parts are changed, repeated, removed, and taken from other seeds.

/// Longest input, in bytes. Longer ones only take longer.
const MAX_INPUT_BYTES: usize = 4096;

/// Words that readers treat specially.
const WORDS: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    ",",
    ":",
    "null",
    "-0",
    "1e999",
    "${",
    "{{",
    "}}",
    "<GenText ",
    "/>",
    "---\n",
    "`",
    "*",
    "&a ",
    "*a",
    "\u{0}",
    "\u{202e}",
    "\r\n",
    "%2e",
    "[::1]",
];

/// Makes inputs. The same seed number gives the same inputs.
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    state: u64,
}

impl Mutator {
    /// A mutator of seeds, of which there must be at least one.
    pub fn new(seeds: Vec<Vec<u8>>, number: u64) -> Mutator {
        assert!(!seeds.is_empty(), "there are seeds");
        Mutator { seeds, state: number ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// The next input: a seed with up to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let seed = self.next_below(self.seeds.len());
        let mut input = self.seeds[seed].clone();
        for _ in 0..self.next_below(9) {
            self.change_input(&mut input);
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }

    fn change_input(&mut self, input: &mut Vec<u8>) {
        let at = self.next_below(input.len() + 1);
        let end = (at + self.next_below(32)).min(input.len());
        match self.next_below(6) {
            0 if at < input.len() => input[at] ^= 1 << self.next_below(8),
            1 => {
                let word = WORDS[self.next_below(WORDS.len())];
                input.splice(at..at, word.bytes());
            }
            2 => {
                input.drain(at..end);
            }
            3 => {
                let part = input[at..end].repeat(1 + self.next_below(16));
                input.splice(at..at, part);
            }
            4 => {
                let other = self.next_below(self.seeds.len());
                let other = self.seeds[other].clone();
                let from = self.next_below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => input.insert(at, u8::try_from(self.next_below(256)).unwrap_or_default()),
        }
        input.truncate(MAX_INPUT_BYTES);
    }

    /// A number below `bound`, by xorshift.
    fn next_below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 16).unwrap_or_default() % bound.max(1)
    }
}
