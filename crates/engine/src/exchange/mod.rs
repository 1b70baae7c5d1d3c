//! Files of other trackers.

pub mod read;
