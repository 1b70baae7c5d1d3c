//! Numbers out of samples. Medians, because a mean on a shared machine measures the neighbours.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Summary {
    pub median: Duration,
    pub p90: Duration,
    pub min: Duration,
}

impl Summary {
    /// `None` if there is nothing to sum up.
    pub fn of(samples: &[Duration]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| {
            sorted
                .get((sorted.len().saturating_sub(1) * percent + 50) / 100)
                .copied()
        };
        Some(Self {
            median: at(50)?,
            p90: at(90)?,
            min: at(0)?,
        })
    }

    pub fn ratio(&self, base: &Self) -> f64 {
        self.median.as_secs_f64() / base.median.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_takes_the_middle_and_not_the_mean() {
        let samples: Vec<_> = (1..=9).chain([1000]).rev().map(Duration::from_micros).collect();
        let s = Summary::of(&samples).expect("not empty");
        assert_eq!(s.min, Duration::from_micros(1));
        assert_eq!(s.median, Duration::from_micros(6));
        assert_eq!(s.p90, Duration::from_micros(9));
        assert!(Summary::of(&[]).is_none());
    }
}
