//! Workflows as others see them (G11).

pub mod view;
