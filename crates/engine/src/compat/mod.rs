//! Files that jit shares with other programs: lock files of activities, the registries of version 2, and the
//! changelog. They follow from the log, and some of them feed it.

pub mod changelog;
pub mod lock_file_format;
pub mod lock_files;
pub mod registry;
