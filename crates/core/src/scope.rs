//! Where a file lock counts.

use crate::issue::words;

words! {
    /// Where a file lock counts, the narrower first.
    Scope, "lock scope", { Worktree = "worktree", Global = "global" }
}
