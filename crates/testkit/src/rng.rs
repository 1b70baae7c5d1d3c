//! A small random number generator that can be started again from the same seed.
//!
//! Tests run over seeds with [`each_seed`]; the seed of a failing run is printed, and `JIT_TEST_SEED=<seed>` runs
//! that one alone. `JIT_TEST_LONG=1` runs twenty times as many.

/// The variable that picks one seed.
pub const SEED_VAR: &str = "JIT_TEST_SEED";
/// The variable that asks for more cases.
pub const LONG_VAR: &str = "JIT_TEST_LONG";
/// The default seed.
pub const DEFAULT_SEED: u64 = 0x6a69_7400;

/// SplitMix64: one addition and three mixes a number, every seed a good one.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// For ids made of more than 64 random bits.
    pub fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }

    /// A number of `from..to`; `from` if the range is empty.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        match to.checked_sub(from) {
            None | Some(0) => from,
            // The high half of the product: negligible bias, and no division.
            Some(width) => from + ((u128::from(self.next_u64()) * u128::from(width)) >> 64) as u64,
        }
    }

    /// An index below `len`; zero when that is zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.range(0, len as u64) as usize
    }

    /// True with probability `p`.
    pub fn bool(&mut self, p: f64) -> bool {
        ((self.next_u64() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// One of the items.
    ///
    /// # Panics
    /// If there is none.
    pub fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        assert!(!of.is_empty(), "nothing to choose from");
        &of[self.index(of.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    /// An independent generator, for a part of the test that may draw any amount of numbers.
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

/// The seed in the environment, decimal or `0x…`, if there is one.
///
/// # Panics
/// If the variable has another value: a typing error must not pass as a green run.
pub fn seed_in_env(var: &str) -> Option<u64> {
    let text = std::env::var(var).ok()?;
    let seed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Some(seed.unwrap_or_else(|_| panic!("{var}={text} is not a number")))
}

/// The seed in the environment, else the default one.
pub fn seed_from_env(var: &str) -> u64 {
    seed_in_env(var).unwrap_or(DEFAULT_SEED)
}

/// The number of cases to run: `normally`, or twenty times that with `JIT_TEST_LONG`.
pub fn cases(normally: u32) -> u32 {
    match std::env::var_os(LONG_VAR) {
        Some(_) => normally.saturating_mul(20),
        None => normally,
    }
}

/// Prints how to repeat a run, if it panics while this value exists.
#[derive(Debug)]
pub struct SeedOnPanic(pub u64);

impl Drop for SeedOnPanic {
    #[expect(clippy::print_stderr, reason = "the test harness shows it beside the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to see it again: {SEED_VAR}={:#x}", self.0);
        }
    }
}

/// Runs `test` on many seeds, or on the one in the environment.
pub fn each_seed(normally: u32, mut test: impl FnMut(&mut Rng)) {
    let seeds: Vec<u64> = match seed_in_env(SEED_VAR) {
        Some(seed) => vec![seed],
        None => (0..u64::from(cases(normally)))
            .map(|n| DEFAULT_SEED + n)
            .collect(),
    };
    for seed in seeds {
        let _says = SeedOnPanic(seed);
        test(&mut Rng::new(seed));
    }
}

/// Runs `test` on each seed, in parallel on all cores. After a panic no further seed is started.
pub fn side_by_side(seeds: &[u64], test: impl Fn(u64) + Sync) {
    let many = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = std::sync::Mutex::new(seeds.iter());
    let take = || next.lock().map_or(None, |mut rest| rest.next().copied());
    std::thread::scope(|scope| {
        for _ in 0..many.min(seeds.len()) {
            scope.spawn(|| {
                while let Some(seed) = take() {
                    let on_panic = StopOnPanic(&next);
                    test(seed);
                    drop(on_panic);
                }
            });
        }
    });
}

/// Removes the remaining seeds when it is dropped in a panic.
struct StopOnPanic<'a, 'b>(&'a std::sync::Mutex<std::slice::Iter<'b, u64>>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut rest) = self.0.lock()
        {
            *rest = [].iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        // The reference values of SplitMix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ranges_hold_their_ends_and_reach_them() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.range(3, 8) as usize - 3] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!((rng.range(7, 7), rng.range(9, 2), rng.index(0)), (7, 9, 0));
        assert_eq!((0..1000).filter(|_| rng.bool(0.0)).count(), 0);
        assert_eq!((0..1000).filter(|_| rng.bool(1.0)).count(), 1000);
        let heads = (0..1000).filter(|_| rng.bool(0.5)).count();
        assert!((400..600).contains(&heads), "{heads}");
    }

    #[test]
    fn shuffling_loses_nothing() {
        let mut rng = Rng::new(2);
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
