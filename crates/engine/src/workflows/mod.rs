//! Workflows as others see them (G11).

pub mod overlap;
pub mod service;
pub mod snapshot;
pub mod view;
