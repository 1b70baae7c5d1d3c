//! Worktree identities: an id for each worktree, and the files of jit that git must ignore.

pub mod exclude;
pub mod identity;
pub mod identity_file;
pub mod list;

pub use exclude::{ensure_excluded, remove_excluded};
pub use identity::{IdentityError, Need, Notice, WorktreeIdentity, load_or_create};
pub use list::list;
