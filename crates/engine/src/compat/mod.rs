//! Files of other programs that follow from the log and feed it: lock files of activities, the registries of version 2, the changelog.

pub mod changelog;
pub mod lock_file_format;
pub mod lock_files;
pub mod registry;
