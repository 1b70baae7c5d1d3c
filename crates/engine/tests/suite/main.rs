//! The engine, used from outside. One binary: each further one links the whole engine again.

mod config;
mod gates;
mod identity;
mod in_memory;
mod trust;
