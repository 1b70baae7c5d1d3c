//! The store from creation to sealing: the plain path, before anything goes wrong.

use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::CommandReply;
use jit_core::log::state;
use jit_store::Store;
use jit_store::disk::{Disk, RealDisk};
use jit_store::file::FileStore;
use jit_testkit::store_commands::{acquire, actor, ask, create, release};
use jit_testkit::{ManualClock, SimDisk};

/// Every issue is claimed, every third one is given back.
fn claims_survive(disk: &dyn Fn() -> Arc<dyn Disk>, issues: usize) {
    let (who, clock) = (actor("agent:a", 1), ManualClock::new());
    let open = || {
        FileStore::new(disk(), Arc::new(clock.clone()), Duration::from_secs(5))
            .with_segment_limit(100_000)
            .with_journal_limit(30_000)
    };
    assert!(open().create(&who).expect("create"));
    assert!(!open().create(&who).expect("create again"));
    for n in 0..issues {
        let id = format!("ISSUE-{n:04}");
        ask(&open(), &who, &create(&id), n as u128).expect("create");
        // Agents with few leases each, as agents are.
        let holder = actor(&format!("agent:{}", n / 8), 1);
        let done = ask(&open(), &holder, &acquire(&id, 600), (10_000 + n) as u128).expect("acquire");
        assert!(done.notices.is_empty(), "{:?}", done.notices);
        if n % 3 == 0 {
            let released = ask(&open(), &holder, &release(&id), (20_000 + n) as u128).expect("release");
            assert!(matches!(released.reply, CommandReply::Released(ref l) if l.len() == 1));
        }
    }
    let store = open();
    let view = store.view().expect("view");
    let left = issues - issues.div_ceil(3);
    assert_eq!(state::leases(&*view.table).expect("leases").len(), left);
    assert_eq!(state::active_count(&*view.table), Ok(left as u64));
    let report = store.validate(&who).expect("validate");
    assert_eq!(report.problems, vec![], "{report:?}");
    assert!(report.segments > 2, "{report:?}");
}

#[test]
fn b2_claims_survive_compaction_and_sealing() {
    let dir = tempfile::tempdir().expect("temp dir");
    claims_survive(&|| Arc::new(RealDisk::open(dir.path()).expect("disk")), 150);
}

/// So many that the index is no longer written by every command.
#[test]
fn b2_many_claims_survive_compaction_and_sealing() {
    let disk = SimDisk::new();
    claims_survive(&|| Arc::new(disk.another_process()), 780);
}
