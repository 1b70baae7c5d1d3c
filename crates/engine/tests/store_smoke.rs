//! The store on a real disk, from creation to sealing: the plain path, before anything goes wrong.
use std::sync::Arc;
use std::time::Duration;

use jit_core::command::{Command, NewIssue, Reply, Target};
use jit_core::ids::{IssueId, LeaseId, RequestId};
use jit_core::issue::{Priority, State};
use jit_core::lease::Actor;
use jit_core::policy::TtlPolicy;
use jit_core::time::{BootId, Now, Wall};
use jit_engine::store::disk::RealDisk;
use jit_engine::store::file::FileStore;
use jit_engine::store::{Ask, Clock, Done, Outcome, Store};

#[derive(Debug)]
struct Fixed;
impl Clock for Fixed {
    fn now(&self) -> std::io::Result<Now> {
        Ok(Now {
            wall: Wall::from_ms(1_700_000_000_000),
            boot: BootId("boot".into()),
            ticks: 1000,
        })
    }
}

fn ask(store: &FileStore, n: u128, command: &Command) -> Outcome<Done> {
    let actor = Actor {
        agent_id: "agent:a".parse().expect("id"),
        worktree_id: None,
    };
    let ttl = TtlPolicy::default();
    store.transact(&mut Ask {
        command,
        actor: &actor,
        branch: None,
        fresh_lease: LeaseId::generate(1_700_000_000_000, n),
        ttl: &ttl,
        agents_may_evict: false,
        request: RequestId::make_up(1, n),
        repeatable: false,
        prepare: &mut |_| Ok(()),
    })
}

fn create(id: &str) -> Command {
    Command::CreateIssue(NewIssue {
        ids: vec![id.parse::<IssueId>().expect("id")],
        chosen: true,
        title: "t".into(),
        kind: "task".into(),
        state: State::Ready,
        priority: Priority::Normal,
        parent: None,
        labels: vec![],
        depends_on: vec![],
        gates: vec![],
    })
}

#[test]
fn b2_claims_survive_compaction_and_sealing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let actor = Actor {
        agent_id: "agent:a".parse().expect("id"),
        worktree_id: None,
    };
    let open = || {
        let disk = Arc::new(RealDisk::open(dir.path()).expect("disk"));
        FileStore::new(disk, Arc::new(Fixed), Duration::from_secs(5)).with_segment_limit(200_000)
    };
    assert!(open().create(&actor).expect("create"));
    assert!(!open().create(&actor).expect("create again"));
    for n in 0..1000u128 {
        let id = format!("ISSUE-{n:04}");
        ask(&open(), n, &create(&id)).expect("create");
        let done = ask(
            &open(),
            10_000 + n,
            &Command::Acquire {
                issue: id.parse().expect("id"),
                ttl_secs: None,
                note: None,
                on_behalf_of: None,
            },
        )
        .expect("acquire");
        assert!(done.notices.is_empty(), "{:?}", done.notices);
        if n % 3 == 0 {
            let released = ask(
                &open(),
                20_000 + n,
                &Command::Release {
                    target: Target::parse(&id).expect("id"),
                },
            )
            .expect("release");
            assert!(matches!(released.reply, Reply::Released(ref l) if l.len() == 1));
        }
    }
    let store = open();
    let view = store.view().expect("view");
    let leases = jit_core::state::leases(&*view.table).expect("leases");
    assert_eq!(leases.len(), 666);
    assert_eq!(jit_core::state::active_count(&*view.table), Ok(666));
    let report = store.validate(&actor).expect("validate");
    assert_eq!(report.problems, vec![], "{report:?}");
    assert!(report.segments > 3, "{report:?}");
}
