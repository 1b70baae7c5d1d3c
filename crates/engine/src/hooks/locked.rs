//! Files under somebody else's global lock are not committed (C2).

use super::staged::Staged;
use crate::app::App;
use crate::store::Outcome;

/// Refuses a commit of paths that somebody else has locked for everybody. There are no such locks yet, so there is
/// nothing to refuse; whoever builds them looks here at `staged`, every path of the commit.
pub fn refuse_locked_paths(_app: &App, _staged: &[Staged]) -> Outcome<()> {
    Ok(())
}
