//! Many processes at one lock: measures throughput and fairness.
//!
//! Each worker is a thread that starts processes one after the other until the time is up, so there are always about as
//! many processes alive as there are workers. The run is bounded by time and not by count, because then a starved worker
//! shows as a small share and not only as a late end.

use std::fs::File;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::spawn::Program;

#[derive(Debug, Default)]
pub struct Crowd {
    pub done: usize,
    pub took: Duration,
    /// The longest that one process lived, its wait for the lock included.
    pub worst: Duration,
    /// The same as a share of the run it happened in.
    pub worst_share: f64,
    /// The rounds of the slowest worker.
    pub least: usize,
    pub workers: usize,
}

impl Crowd {
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }

    /// The rounds of the slowest worker, as a share of the average.
    pub fn least_share(&self) -> f64 {
        self.least as f64 * self.workers as f64 / self.done.max(1) as f64
    }

    /// Combines two runs of the same measurement.
    pub fn and(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            took: self.took + other.took,
            worst: self.worst.max(other.worst),
            worst_share: self.worst_share.max(other.worst_share),
            least: self.least + other.least,
            workers: self.workers.max(other.workers),
        }
    }
}

/// Runs one worker for each list. A worker repeats its list and always finishes it, so that it releases every lease.
pub fn contend(lists: &[Vec<Program>], time: Duration, complaints: &File) -> io::Result<Crowd> {
    let gate = Barrier::new(lists.len());
    let one = |list: &Vec<Program>| -> io::Result<(usize, Duration)> {
        gate.wait();
        let end = Instant::now() + time;
        let (mut done, mut worst) = (0, Duration::ZERO);
        while Instant::now() < end {
            for program in list {
                worst = worst.max(program.time(complaints)?);
                done += 1;
            }
        }
        Ok((done, worst))
    };
    let start = Instant::now();
    let results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = lists.iter().map(|list| scope.spawn(|| one(list))).collect();
        workers
            .into_iter()
            .map(|w| w.join().map_err(|_| io::Error::other("a worker panicked"))?)
            .collect()
    });
    let mut crowd = Crowd {
        took: start.elapsed(),
        least: usize::MAX,
        workers: lists.len(),
        ..Crowd::default()
    };
    for result in results {
        let (done, worst) = result?;
        crowd.done += done;
        crowd.worst = crowd.worst.max(worst);
        crowd.least = crowd.least.min(done);
    }
    crowd.worst_share = crowd.worst.as_secs_f64() / crowd.took.as_secs_f64();
    Ok(crowd)
}
