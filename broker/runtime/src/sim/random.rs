//! The seeded generator of a simulation (xoshiro256**, seeded by SplitMix64): the same on every machine.

/// A stream of numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: [u64; 4],
}

impl SeededRandom {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut next = seed;
        let state = std::array::from_fn(|_| {
            next = next.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(next)
        });
        Self { state }
    }

    /// Another stream, of its own seed taken from this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let answer = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        answer
    }

    /// A number below `bound`; zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is below 2^-32 for the small bounds a simulation asks for.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Spreads every bit of `value` over the whole word (SplitMix64's finalizer).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_and_bounds_hold() {
        let draw = |seed| {
            let mut random = SeededRandom::new(seed);
            (0..64).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..10).all(|value| draw(1).contains(&value)));
        let mut random = SeededRandom::new(3);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(5, 5), 5);
    }
}
