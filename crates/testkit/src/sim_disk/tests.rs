use std::sync::mpsc;

use jit_store::disk::{read_range, write_all_at};

use super::*;

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(30);

fn write(disk: &SimDisk, path: &str, bytes: &[u8], at: u64) -> Box<dyn DiskFile> {
    let file = disk.open(path, OpenMode::Write).expect("open");
    write_all_at(&*file, bytes, at).expect("write");
    file
}

/// All contents that some power loss leaves of `path`.
fn outcomes(disk: &SimDisk, path: &str, tries: u64) -> BTreeSet<Option<Vec<u8>>> {
    let crash = |seed| disk.crash(&mut Rng::new(seed)).read(path);
    (0..tries).map(crash).collect()
}

fn pages(of: &str) -> Vec<u8> {
    of.bytes().flat_map(|b| [b; PAGE]).collect()
}

/// One character a page: its byte, `0` for zeros, `!` when it is not all the same.
fn sketch(bytes: &[u8]) -> String {
    let page = |page: &[u8]| match page.iter().all(|b| *b == page[0]) {
        true if page[0] == 0 => '0',
        true => char::from(page[0]),
        false => '!',
    };
    bytes.chunks(PAGE).map(page).collect()
}

#[test]
fn files_are_read_as_they_were_written() {
    let disk = SimDisk::new();
    disk.make_dir("events").expect("dir");
    let file = write(&disk, "events/log", b"hello", 3);
    assert_eq!(read_range(&*file, 0, 100).expect("read"), b"\0\0\0hello");
    assert_eq!(read_range(&*file, 6, 100).expect("read"), b"lo");
    assert_eq!(read_range(&*file, 60, 100).expect("read"), b"");
    file.set_len(5).expect("cut");
    assert_eq!(file.meta().expect("meta").len, 5);
    assert_eq!(disk.read("events/log").as_deref(), Some(&b"\0\0\0he"[..]));

    let refused = |r: io::Result<Box<dyn DiskFile>>| r.expect_err("refused").kind();
    assert_eq!(
        refused(disk.open("none", OpenMode::Read)),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        refused(disk.open("none", OpenMode::Existing)),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        refused(disk.open("none/x", OpenMode::Write)),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        refused(disk.open("events", OpenMode::Write)),
        io::ErrorKind::IsADirectory
    );
    assert!(
        disk.open("events/log", OpenMode::Read)
            .expect("open")
            .write_at(b"x", 0)
            .is_err()
    );
    assert_eq!(disk.meta("none").expect("meta"), None);
    assert_eq!(disk.list("none").expect("list"), Vec::<String>::new());
    assert_eq!(disk.list("events").expect("list"), ["log"]);
    assert_eq!(disk.list(".").expect("list"), Vec::<String>::new());
    drop(disk.open("events/log", OpenMode::Fresh).expect("open"));
    assert_eq!(disk.read("events/log"), Some(vec![]));
}

#[test]
fn open_files_survive_renaming_and_removal() {
    let disk = SimDisk::new();
    let old = write(&disk, "a", b"old", 0);
    let new = write(&disk, "tmp", b"new", 0);
    let inode = disk.meta("tmp").expect("meta").expect("there").inode;
    disk.rename("tmp", "a").expect("rename");
    assert_eq!(disk.meta("a").expect("meta").expect("there").inode, inode);
    assert_eq!(read_range(&*old, 0, 9).expect("read"), b"old");
    disk.remove("a").expect("remove");
    assert_eq!(read_range(&*new, 0, 9).expect("read"), b"new");
    assert_eq!(disk.files().len(), 0);
    drop((old, new));
    disk.settle();
    disk.state().collect();
    assert!(disk.state().inodes.is_empty());
}

#[test]
fn what_was_synced_survives_and_nothing_else_must() {
    let disk = SimDisk::new();
    let file = write(&disk, "log", b"one\n", 0);
    file.sync().expect("sync");
    write_all_at(&*file, b"two\n", 4).expect("write");
    assert_eq!(
        disk.crash_losing_all().read("log").as_deref(),
        Some(&b"one\n"[..])
    );
    assert_eq!(
        disk.crash_losing_nothing().read("log").as_deref(),
        Some(&b"one\ntwo\n"[..])
    );
    assert_eq!(disk.read_durable("log").as_deref(), Some(&b"one\n"[..]));
    let seen = outcomes(&disk, "log", 300);
    assert!(
        seen.iter()
            .all(|c| c.as_ref().is_some_and(|c| c.starts_with(b"one\n")))
    );
    for expected in [&b"one\n"[..], b"one\ntwo\n", b"one\ntw", b"one\n\0\0\0\0"] {
        assert!(
            seen.contains(&Some(expected.to_vec())),
            "{expected:?} of {seen:?}"
        );
    }
    file.sync().expect("sync");
    assert_eq!(outcomes(&disk, "log", 50).len(), 1);
}

#[test]
fn later_pages_may_survive_where_earlier_ones_do_not() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", &pages("ab"), 0);
    file.sync().expect("sync");
    write_all_at(&*file, &pages("ABCD"), 0).expect("write");
    let seen: BTreeSet<String> = outcomes(&disk, "f", 2000)
        .into_iter()
        .map(|c| sketch(&c.expect("the name was synced with the file")))
        .collect();
    for expected in ["ab", "ABCD", "aBCD", "ab0D", "abCD", "AB", "abC0", "ab00", "Ab0D"] {
        assert!(seen.contains(expected), "{expected} of {seen:?}");
    }
    assert!(seen.iter().all(|s| !s.contains('!')), "no page is torn: {seen:?}");
}

#[test]
fn pages_may_be_found_as_they_were_in_between() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", &pages("a"), 0);
    file.sync().expect("sync");
    write_all_at(&*file, &pages("b"), 0).expect("write");
    write_all_at(&*file, &pages("c"), 0).expect("write");
    let seen: BTreeSet<String> = outcomes(&disk, "f", 200)
        .into_iter()
        .map(|c| sketch(&c.expect("there")))
        .collect();
    assert_eq!(seen.into_iter().collect::<String>(), "abc");
}

#[test]
fn torn_pages_and_garbage_only_when_asked_for() {
    let disk = SimDisk::with(Options {
        torn_pages: true,
        garbage: true,
        ..Options::default()
    });
    let file = write(&disk, "f", &pages("a"), 0);
    file.sync().expect("sync");
    write_all_at(&*file, &pages("bc"), 0).expect("write");
    let seen = outcomes(&disk, "f", 300);
    let torn = |c: &Option<Vec<u8>>| {
        let page = &c.as_deref().unwrap_or_default()[..PAGE];
        let sectors: Vec<u8> = page.chunks(SECTOR).map(|s| s[0]).collect();
        assert!(page.chunks(SECTOR).all(|s| s.iter().all(|b| *b == s[0])));
        sectors.contains(&b'a') && sectors.contains(&b'b')
    };
    assert!(seen.iter().any(torn));
    let odd = |c: &Option<Vec<u8>>| {
        let new = &c.as_deref().unwrap_or_default()[PAGE..];
        new.iter().any(|b| *b != 0 && *b != b'c')
    };
    assert!(seen.iter().any(odd));
}

#[test]
fn a_lost_cut_brings_the_old_end_back() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", b"0123456789", 0);
    file.sync().expect("sync");
    file.set_len(4).expect("cut");
    write_all_at(&*file, b"xy", 4).expect("write");
    let seen = outcomes(&disk, "f", 300);
    for expected in [&b"0123456789"[..], b"0123", b"0123xy", b"0123\0\0"] {
        assert!(
            seen.contains(&Some(expected.to_vec())),
            "{expected:?} of {seen:?}"
        );
    }
    file.sync().expect("sync");
    assert_eq!(
        outcomes(&disk, "f", 50),
        BTreeSet::from([Some(b"0123xy".to_vec())])
    );
}

#[test]
fn names_survive_in_order() {
    let disk = SimDisk::new();
    for name in ["a", "b", "c"] {
        write(&disk, name, b"", 0);
    }
    disk.rename("a", "d").expect("rename");
    let seen: BTreeSet<String> = (0..300)
        .map(|seed| {
            disk.crash(&mut Rng::new(seed))
                .files()
                .into_keys()
                .collect::<String>()
        })
        .collect();
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["", "a", "ab", "abc", "bcd"]
    );
    disk.sync_dir("").expect("sync");
    assert_eq!(disk.crash_losing_all().files().len(), 3);
}

#[test]
fn names_in_no_order_when_asked_for() {
    let disk = SimDisk::with(Options {
        names: Names::Subset,
        ..Options::default()
    });
    disk.make_dir("x").expect("dir");
    for name in ["a", "b", "x/c"] {
        write(&disk, name, b"", 0);
    }
    let keys = |disk: SimDisk| disk.files().into_keys().collect::<Vec<_>>().join(" ");
    let seen: BTreeSet<String> = (0..300)
        .map(|seed| keys(disk.crash(&mut Rng::new(seed))))
        .collect();
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["", "a", "a b", "a b x/c", "a x/c", "b", "b x/c", "x/c"]
    );
    disk.sync_dir("x").expect("sync");
    assert_eq!(
        keys(disk.crash_losing_all()),
        "",
        "the folder itself is in its parent"
    );
    disk.sync_dir(".").expect("sync");
    assert_eq!(keys(disk.crash_losing_all()), "a b x/c");
}

#[test]
fn replaying_old_changes_does_not_undo_what_was_synced() {
    let options = Options {
        names: Names::Subset,
        ..Options::default()
    };
    let disk = SimDisk::with(options);
    write(&disk, "a", b"old", 0).sync().expect("sync");
    disk.settle();
    write(&disk, "tmp", b"between", 0);
    disk.rename("tmp", "a").expect("rename");
    disk.remove("a").expect("remove");
    write(&disk, "a", b"new", 0).sync().expect("sync");
    assert_eq!(outcomes(&disk, "a", 200), BTreeSet::from([Some(b"new".to_vec())]));
}

#[test]
fn syncing_a_new_file_keeps_its_name_unless_strict() {
    for (sync_keeps_name, survives) in [(true, true), (false, false)] {
        let disk = SimDisk::with(Options {
            sync_keeps_name,
            ..Options::default()
        });
        disk.make_dir("d").expect("dir");
        let file = write(&disk, "d/f", b"x", 0);
        assert_eq!(disk.crash_losing_all().read("d/f"), None);
        file.sync().expect("sync");
        assert_eq!(disk.crash_losing_all().read("d/f").is_some(), survives);
        disk.sync_dir("d").expect("sync");
        disk.sync_dir(".").expect("sync");
        assert_eq!(disk.crash_losing_all().read("d/f").as_deref(), Some(&b"x"[..]));
        // A rename is not saved by syncing the file.
        disk.rename("d/f", "d/g").expect("rename");
        file.sync().expect("sync");
        assert_eq!(disk.crash_losing_all().read("d/g"), None);
        disk.sync_dir("d").expect("sync");
        assert_eq!(disk.crash_losing_all().read("d/g").as_deref(), Some(&b"x"[..]));
    }
}

#[test]
fn a_replaced_file_is_found_old_or_new() {
    let disk = SimDisk::new();
    write(&disk, "f", b"old", 0).sync().expect("sync");
    write(&disk, "tmp", b"new", 0).sync().expect("sync");
    disk.rename("tmp", "f").expect("rename");
    let seen = outcomes(&disk, "f", 100);
    assert_eq!(
        seen,
        BTreeSet::from([Some(b"new".to_vec()), Some(b"old".to_vec())])
    );
    disk.remove("f").expect("remove");
    assert!(outcomes(&disk, "f", 100).contains(&Some(b"old".to_vec())));
}

#[test]
fn a_stopped_process_leaves_its_writes_to_the_next() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", b"one", 0);
    disk.stop_after(2);
    write_all_at(&*file, b"two", 3).expect("the first call works");
    for _ in 0..2 {
        let e = file.write_at(b"three", 6).expect_err("stopped");
        assert!(is_killed(&e) && e.to_string() == "killed");
    }
    assert!(is_killed(&disk.open("f", OpenMode::Read).expect_err("stopped")));
    assert!(disk.is_dead() && disk.clone().is_dead());
    let next = disk.another_process();
    let file = next.open("f", OpenMode::Read).expect("alive");
    assert_eq!(read_range(&*file, 0, 9).expect("read"), b"onetwo");
}

#[test]
fn a_write_can_be_cut_by_death() {
    for (bytes, left) in [(0, ""), (2, "he"), (5, "hell"), (50, "hell")] {
        let disk = SimDisk::new();
        let file = write(&disk, "f", b"", 0);
        disk.stop_mid_write(1, bytes);
        assert!(is_killed(&file.write_at(b"hello", 0).expect_err("stopped")));
        assert_eq!(disk.read("f").as_deref(), Some(left.as_bytes()));
    }
}

#[test]
fn each_call_can_be_made_to_fail_and_is_counted() {
    let run = |disk: &SimDisk| -> io::Result<()> {
        disk.make_dir("d")?;
        let mut guard = disk.lock("d/lock", SOON)?;
        let file = disk.open("d/f", OpenMode::Fresh)?;
        write_all_at(&*file, b"x", 0)?;
        file.set_len(0)?;
        file.meta()?;
        file.sync()?;
        file.read_at(&mut [0], 0)?;
        disk.rename("d/f", "d/g")?;
        disk.sync_dir("d")?;
        disk.list("d")?;
        disk.meta("d/g")?;
        guard.release()?;
        disk.remove("d/g")
    };
    let disk = SimDisk::new();
    run(&disk).expect("no fault");
    let calls = disk.calls();
    assert_eq!((calls.syncs(), calls.flushes(), calls.writes()), (1, 2, 1));
    assert_eq!(calls.count_on(DiskCall::Sync, "d/f"), 1);
    assert!(DiskCall::ALL.iter().all(|kind| calls.count(*kind) >= 1));
    for n in 1..=calls.total() {
        let disk = SimDisk::new();
        disk.inject(Fault::nth(n, Errno::ACCESS));
        let e = run(&disk).expect_err("call n fails");
        assert_eq!(e.kind(), io::ErrorKind::PermissionDenied, "call {n}");
        assert_eq!(disk.calls().total(), n);
        assert!(
            disk.calls()
                .0
                .iter()
                .all(|call| !call.failed || *call == disk.calls().0[n as usize - 1])
        );
        run(&disk).expect("once only");
        let disk = SimDisk::new();
        disk.stop_after(n);
        assert!(is_killed(&run(&disk).expect_err("stopped")));
        run(&disk.another_process()).expect("the next one works, locks are free");
    }
}

#[test]
fn faults_can_be_aimed_and_can_last() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", b"x", 0);
    disk.inject(Fault::nth(2, Errno::IO).on(DiskCall::Sync).lasting());
    file.sync().expect("the first");
    for _ in 0..3 {
        assert!(file.sync().is_err());
    }
    disk.heal();
    file.sync().expect("healed");
    disk.inject(Fault::read_only());
    assert_eq!(
        file.write_at(b"y", 0).expect_err("refused").kind(),
        io::ErrorKind::ReadOnlyFilesystem
    );
    assert!(disk.remove("f").is_err() && disk.make_dir("d").is_err());
    assert!(
        disk.open("new", OpenMode::Write).is_err(),
        "nothing can be made where nothing can change"
    );
    assert!(disk.open("f", OpenMode::Fresh).is_err());
    file.read_at(&mut [0], 0).expect("reading is allowed");
    disk.open("f", OpenMode::Read).expect("reading is allowed");
    disk.another_process()
        .remove("f")
        .expect("another process' fault");
    disk.heal();
    disk.inject(Fault::always(Errno::ACCESS).at("secret"));
    assert!(disk.open("secret", OpenMode::Write).is_err());
    disk.open("other", OpenMode::Write).expect("not meant");
}

#[test]
fn full_disks_write_what_fits_first() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(10));
    let file = write(&disk, "f", b"1234567", 0);
    assert_eq!(file.write_at(b"89abcdef", 7).expect("some fits"), 3);
    let full = |e: io::Error| e.kind() == io::ErrorKind::StorageFull;
    assert!(full(file.write_at(b"bcdef", 10).expect_err("full")));
    assert!(full(file.set_len(11).expect_err("full")));
    assert_eq!(file.write_at(b"over", 2).expect("in place"), 4);
    let other = disk.open("g", OpenMode::Write).expect("a name needs no room");
    assert!(full(other.write_at(b"x", 0).expect_err("full")));
    file.set_len(5).expect("shorter");
    assert_eq!(other.write_at(b"x", 0).expect("room again"), 1);
    disk.set_capacity(None);

    disk.inject(Fault::nth(1, Errno::NOSPC).on(DiskCall::Write).short(3));
    let e = write_all_at(&*file, b"hello", 0).expect_err("full");
    assert!(full(e));
    assert!(disk.read("f").expect("there").starts_with(b"hel"));
    disk.inject(Fault::nth(1, Errno::NOSPC).on(DiskCall::Write).short(3));
    assert!(full(file.write_at(b"x", 0).expect_err("too little to be cut")));
    assert_eq!(file.write_at(b"x", 0).expect("over"), 1);
}

#[test]
fn a_failed_sync_saves_nothing_and_the_next_does_not_either() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", &pages("a"), 0);
    file.sync().expect("sync");
    let early = disk.another_process().open("f", OpenMode::Write).expect("open");
    write_all_at(&*file, &pages("bc"), 0).expect("write");
    disk.fail_sync_once();
    assert!(file.sync().is_err());
    let late = disk.another_process().open("f", OpenMode::Write).expect("open");
    file.sync().expect("the failure was told");
    late.sync().expect("opened after the failure was told");
    assert!(early.sync().is_err(), "had it open at the time and was not told");
    early.sync().expect("told now");
    // The size was saved, the pages were not.
    assert_eq!(sketch(&disk.crash_losing_all().read("f").expect("there")), "a0");
    let seen: BTreeSet<String> = outcomes(&disk, "f", 200)
        .into_iter()
        .map(|c| sketch(&c.expect("there")))
        .collect();
    for expected in ["a0", "ac", "b0", "bc"] {
        assert!(seen.contains(expected), "{expected} of {seen:?}");
    }
    // Writing them again does.
    write_all_at(&*file, &pages("b"), 0).expect("write");
    file.sync().expect("sync");
    assert_eq!(sketch(&disk.crash_losing_all().read("f").expect("there")), "b0");
    assert_eq!(sketch(&disk.read("f").expect("there")), "bc");
    disk.drop_cache();
    assert_eq!(sketch(&disk.read("f").expect("there")), "b0");
}

#[test]
fn a_failure_in_the_background_is_told_once() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", b"x", 0);
    disk.fail_writeback("f");
    let later = disk.open("f", OpenMode::Write).expect("open");
    assert!(later.sync().is_err(), "nobody had been told");
    assert!(file.sync().is_err());
    let latest = disk.open("f", OpenMode::Write).expect("open");
    latest.sync().expect("all have been told");
    assert_eq!(disk.crash_losing_all().read("f").as_deref(), Some(&b"\0"[..]));
}

#[test]
fn locks_exclude_time_out_and_come_back() {
    let disk = SimDisk::new();
    let other = disk.another_process();
    let mut guard = disk.lock("lock", SOON).expect("free");
    guard.file().write_at(b"me", 0).expect("its file can be written");
    for wait in [Duration::ZERO, SOON] {
        let e = other.lock("lock", wait).expect_err("held");
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
    }
    assert!(
        disk.lock("lock", Duration::ZERO).is_err(),
        "not even the same process"
    );
    guard.release().expect("release");
    let second = other.lock("lock", Duration::ZERO).expect("released");
    drop(guard);
    assert!(
        disk.lock("lock", Duration::ZERO).is_err(),
        "dropping a released guard frees nobody else's"
    );
    drop(second);
    drop(disk.lock("lock", Duration::ZERO).expect("dropped"));
    let _guard = disk.lock("lock", SOON).expect("free");
    disk.kill();
    other.lock("lock", Duration::ZERO).expect("its holder died");
}

#[test]
fn waiting_is_in_order_and_death_hands_on() {
    let disk = SimDisk::new();
    let first = disk.another_process();
    let guard = first.lock("lock", SOON).expect("free");
    let (say, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (mine, say) = (disk.another_process(), say.clone());
            scope.spawn(move || {
                let got = mine.lock("lock", if n == 1 { SOON } else { LONG });
                say.send((n, got.is_ok())).expect("somebody listens");
                if n == 2 {
                    // Dies with the lock: the next one gets it though the guard lives on.
                    mine.kill();
                    std::mem::forget(got);
                }
            });
            if n == 1 {
                assert_eq!(hear.recv(), Ok((1, false)), "its time is over");
            }
            let waiting = if n == 0 { 1 } else { n };
            while disk.lock_queue("lock") != (waiting, true) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(guard);
        let order: Vec<_> = (0..3).map(|_| hear.recv().expect("three more")).collect();
        assert_eq!(order, [(0, true), (2, true), (3, true)]);
    });
}

#[test]
fn a_killed_waiter_stops_waiting() {
    let disk = SimDisk::new();
    let _guard = disk.lock("lock", SOON).expect("free");
    let waiter = disk.another_process();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.lock("lock", LONG).map(drop));
        while disk.lock_queue("lock").0 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        waiter.kill();
        assert!(is_killed(&waits.join().expect("no panic").expect_err("killed")));
    });
    assert_eq!(disk.lock_queue("lock"), (0, true));
}

#[test]
fn rivals_come_in_between() {
    let disk = SimDisk::new();
    let file = write(&disk, "f", b"mine", 0);
    let rival = disk.another_process();
    disk.before(2, move || drop(write(&rival, "f", b"HERS", 0)));
    assert_eq!(read_range(&*file, 0, 4).expect("read"), b"mine");
    assert_eq!(read_range(&*file, 0, 4).expect("read"), b"HERS");
}

#[test]
fn times_of_change_move_unless_coarse() {
    for (coarse_times, moves) in [(false, true), (true, false)] {
        let disk = SimDisk::with(Options {
            coarse_times,
            ..Options::default()
        });
        let file = write(&disk, "f", b"x", 0);
        let before = file.meta().expect("meta").changed;
        write_all_at(&*file, b"y", 0).expect("write");
        assert_eq!(file.meta().expect("meta").changed != before, moves);
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    let disk = SimDisk::new();
    write(&disk, "f", b"synced", 0).sync().expect("sync");
    write(&disk, "f", b"SYN", 0);
    let copy = disk.copy();
    write(&copy, "f", b"copied", 0).sync().expect("sync");
    assert_eq!(disk.read("f").as_deref(), Some(&b"SYNced"[..]));
    assert_eq!(disk.crash_losing_all().read("f").as_deref(), Some(&b"synced"[..]));
    assert_eq!(copy.crash_losing_all().read("f").as_deref(), Some(&b"copied"[..]));
    copy.put("d/e/g", b"put");
    assert_eq!(
        copy.crash_losing_all().read("d/e/g").as_deref(),
        Some(&b"put"[..])
    );
    assert_eq!(copy.take("d/e/g").as_deref(), Some(&b"put"[..]));
    assert_eq!(copy.read("d/e/g"), None);
}
