//! `jit worktree cleanup` and `abandon` (T11, T13), and `jit rescue` (H7).
//!
//! Steps of a removal: examine (may refuse), save, record, move the git folder, move the worktree, delete the branch,
//! end the unit.
//!
//! What must hold: the git folder is moved before the worktree. While it is in its place, a `git worktree prune` could
//! delete what a half-removed worktree still needs.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use jit_core::log::state;
use jit_core::model::ids::UnitId;
use jit_core::model::lease::Resource;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Wall;
use jit_core::model::unit::{self, Facts, Failure, Phase, Unit, UnitInput};
use jit_git::{refs, worktrees};
use jit_os::io_refusal;
use jit_store::Outcome;

use crate::api::rescue::Cleaned;
use crate::api::rescue::Force;
use crate::api::rescue::Kind;
use crate::api::rescue::RescueId;
use crate::api::rescue::RescueReply;
use crate::api::rescue::RescueRequest;
use crate::api::rescue::RescueView;
use crate::api::rescue::Stage;
use crate::api::rescue::{DroppedRescue, PrunedRescues, Rescues};
use crate::api::{Answer, Reply};
use crate::attempts::dispatch::Starting;
use crate::context::Context;
use crate::context::calling_agent::require_may_decide;
use crate::crash_point::step;
use crate::identity::process_binding as bound;
use crate::landing::obstacles;
use crate::refusals::refuse;
use crate::worktrees::rescue::evidence;
use crate::worktrees::rescue::evidence::Evidence;
use crate::worktrees::rescue::raw;
use crate::worktrees::rescue::raw::{shown, unshown};
use crate::worktrees::rescue::restore::restore;
use crate::worktrees::rescue::save;
use crate::worktrees::rescue::site::Site;
use crate::worktrees::rescue::trash::{ADMIN, Manifest, TREE, Trash};
use crate::worktrees::rescue::walk::Walk;

/// Maximum number of pieces of work in a list or a refusal.
const FEW: usize = 10;
const DAY: u64 = 86_400;

pub(crate) fn rescue(cx: &Context, asked: RescueRequest) -> Outcome<Answer> {
    let reply = match asked {
        RescueRequest::Cleanup { unit, force } => {
            let view = crate::write_path::view(cx)?;
            let unit = crate::units::service::find_unit(cx, &view, unit.as_deref())?;
            require_may_decide(cx, &view, &unit, "jit worktree cleanup")?;
            drop(view);
            RescueReply::Cleaned(Box::new(cleanup_unit(cx, &unit.id, force)?))
        }
        RescueRequest::Abandon { unit, reason, force } => {
            let view = crate::write_path::view(cx)?;
            let unit = crate::units::service::find_unit(cx, &view, unit.as_deref())?;
            require_may_decide(cx, &view, &unit, "jit worktree abandon")?;
            drop(view);
            RescueReply::Cleaned(Box::new(abandon_unit(cx, &unit.id, &reason, force)?))
        }
        RescueRequest::List => {
            let mut rescues = Vec::new();
            let trash = trash(cx)?;
            for one in trash.filled()? {
                let mut view = rescue_view(&trash, one, false);
                view.work.truncate(FEW);
                view.aside.truncate(FEW);
                rescues.push(view);
            }
            RescueReply::List(Rescues { rescues })
        }
        RescueRequest::Show { id } => {
            let trash = trash(cx)?;
            let manifest = trash.require(&id)?;
            let next = crate::worktrees::rescue_commands::ways_back(cx, &manifest).unwrap_or_default();
            let view = rescue_view(&trash, manifest, true);
            RescueReply::One(Box::new(RescueView { next, ..view }))
        }
        RescueRequest::Restore { id, to, branch } => {
            let trash = trash(cx)?;
            let manifest = trash.require(&id)?;
            let _turn = cleanup_turn(cx, &manifest.unit)?;
            let to = to.map(|to| jit_git::files::plain(&cx.place.start.join(to)));
            let mut restored = restore(
                &trash,
                crate::units::service::common(cx)?,
                trash.require(&id)?,
                to,
                branch,
            )?;
            // The restore succeeded, even if this fails.
            restored.next =
                crate::worktrees::rescue_commands::ways_to_land(cx, &manifest, &restored).unwrap_or_default();
            RescueReply::Restored(restored)
        }
        RescueRequest::Prune { older_than_secs } => prune_rescues(cx, older_than_secs)?,
        RescueRequest::Drop { id } => drop_rescue(cx, &id)?,
    };
    Ok(Answer {
        reply: Reply::Rescue(reply),
        warnings: cx.warnings.clone(),
    })
}

fn trash(cx: &Context) -> Outcome<Trash> {
    Ok(Trash::at(
        &cx.place.control_dir,
        crate::units::service::common(cx)?,
    ))
}

/// Acquires the lock for removing or restoring the worktree of a unit. One process at a time holds it.
fn cleanup_turn(cx: &Context, unit: &UnitId) -> Outcome<File> {
    let path = cx
        .place
        .control_dir
        .join("locks")
        .join(format!("cleanup-{unit}.lock"));
    let failed = |e: std::io::Error| io_refusal("lock", &path, &e);
    let lock = jit_os::file::open_lock(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Box::new(
            Refusal::new(
                Code::Busy,
                format!("another process is removing or restoring {unit}"),
            )
            .help("run the command again when it is done"),
        )),
        Err(TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// T11: removes the worktree of a landed unit. Work that is not on the target is kept, and needs `force`. Continues an
/// interrupted removal. Does nothing for a unit that is over.
pub fn cleanup_unit(cx: &Context, id: &UnitId, force: Force) -> Outcome<Cleaned> {
    let _turn = cleanup_turn(cx, id)?;
    let unit = crate::units::service::load_unit(cx, id)?;
    match unit.state {
        Phase::Merged | Phase::Cleanup => remove_unit(cx, unit, force),
        Phase::Idle => cleaned(cx, &unit, None, false),
        Phase::Failed | Phase::Ready | Phase::Completed => {
            let conflict = unit.error.as_ref().is_none_or(|e| e.reason == "merge_conflict");
            let next = match unit.state {
                Phase::Failed if !conflict => unit.after_failure(),
                _ => vec![format!("jit worktree merge {id}")],
            };
            let abandon = format!("jit worktree abandon {id} --reason <why>");
            let message = format!("{id} is {}: it has not landed", unit.state);
            let mut refusal = Refusal::new(Code::BadTransition, message);
            refusal.help = next;
            if !refusal.help.contains(&abandon) {
                refusal = refusal.help(abandon);
            }
            Err(Box::new(refusal))
        }
        Phase::Merging => Err(Box::new(
            Refusal::new(
                Code::BadTransition,
                format!("a landing of {id} has begun, and comes to its end first"),
            )
            .help(crate::landing::service::land_again(cx, &unit)),
        )),
        Phase::Provisioning => Err(Box::new(
            Refusal::new(
                Code::BadTransition,
                format!("the worktree of {id} is being made, or that was cut short"),
            )
            .help(format!("jit worktree retry {id}"))
            .help(format!("jit worktree abandon {id} --reason <why>")),
        )),
        Phase::Dispatched | Phase::Running => Err(Box::new(
            Refusal::new(
                Code::BadTransition,
                format!("{id} is {}: it cannot be removed now", unit.state),
            )
            .help(format!("jit worktree status {id}")),
        )),
    }
}

/// Ends an interrupted creation, so that the unit can be abandoned like any other. If nothing was created yet, nothing
/// is left.
fn end_making(cx: &Context, unit: Unit, reason: &str) -> Outcome<Unit> {
    if unit.state != Phase::Provisioning {
        return Ok(unit);
    }
    let _turn = crate::worktrees::provisioning::makers_turn(cx, &unit.id)?;
    let unit = crate::units::service::load_unit(cx, &unit.id)?;
    if unit.state != Phase::Provisioning {
        return Ok(unit);
    }
    if Path::new(&unit.worktree_path).symlink_metadata().is_err() {
        crate::worktrees::provisioning::undo(cx, &unit)?;
        let facts = Facts {
            abandoned: Some(reason.to_owned()),
            ..Facts::default()
        };
        return crate::units::service::advance(cx, &unit.id, UnitInput::RolledBack, facts);
    }
    crate::worktrees::provisioning::ensure_worktree(cx, &unit)?;
    let facts = Facts {
        error: Some(Failure {
            reason: "provisioning".to_owned(),
            message: "its making was cut short".to_owned(),
            exit_code: None,
            output: None,
        }),
        ..Facts::default()
    };
    crate::units::service::advance(cx, &unit.id, UnitInput::ProvisioningFailed, facts)
}

/// T13: abandons a unit. All its work is kept.
pub fn abandon_unit(cx: &Context, id: &UnitId, reason: &str, force: Force) -> Outcome<Cleaned> {
    if reason.trim().is_empty() {
        return Err(refuse(Code::Invalid, "giving a unit up needs a reason"));
    }
    // Its agent may have ended just now.
    let _ = crate::attempts::outcome::settle(cx, id, Starting::Allowed)?;
    let _turn = cleanup_turn(cx, id)?;
    let unit = crate::units::service::load_unit(cx, id)?;
    let begun = unit.state == Phase::Provisioning;
    let mut unit = end_making(cx, unit, reason)?;
    if begun && unit.is_over() {
        return cleaned(cx, &unit, None, true);
    }
    // An interrupted landing either landed, or the unit can be abandoned.
    unit = crate::landing::service::end_landing(cx, unit)?;
    if unit.state == Phase::Merged {
        let message = format!("{id} has landed: there is nothing to give up");
        let help = format!("jit worktree cleanup {id}");
        return Err(Box::new(Refusal::new(Code::BadTransition, message).help(help)));
    }
    if unit.state == Phase::Cleanup {
        // Its removal was interrupted; work that is not on the target is kept in any case.
        return remove_unit(cx, unit, force.max(Force::Work));
    }
    if unit::step(unit.state, UnitInput::Abandon).is_some() {
        may_remove(cx, &unit, force)?;
    }
    let facts = Facts {
        abandoned: Some(reason.to_owned()),
        ..Facts::default()
    };
    unit = crate::units::service::advance(cx, id, UnitInput::Abandon, facts)?;
    remove_unit(cx, unit, force)
}

/// Refuses a worktree that must not be removed, or that is in use.
fn may_remove(cx: &Context, unit: &Unit, force: Force) -> Outcome<Site> {
    let site = Site::find(&cx.place, unit)?;
    if force < Force::Locked {
        site.require_unlocked(unit)?;
    }
    site.require_unmounted()?;
    site.require_unused()?;
    require_nobody_there(cx, unit)?;
    Ok(site)
}

/// Refuses while others have leases or sessions in the unit's worktree.
fn require_nobody_there(cx: &Context, unit: &Unit) -> Outcome<()> {
    let Some(worktree) = &unit.worktree_id else {
        return Ok(());
    };
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    for lease in state::leases(&*view.table).map_err(unreadable)? {
        let own =
            unit.issue_id.as_ref().map(|id| Resource::Issue(id.clone())) == Some(lease.resource.clone());
        let there = lease.worktree_id.as_ref() == Some(worktree) && !lease.expired(&view.now);
        if there && !own && lease.agent_id != cx.actor.agent_id {
            return Err(Box::new(Refusal::held(&lease, &view.now)));
        }
    }
    let alive: Vec<_> = bound::all(&cx.place.control_dir)
        .unwrap_or_default()
        .into_iter()
        .filter(|one| one.process().is_alive().unwrap_or(false))
        .collect();
    let ours = jit_os::process::above().unwrap_or_default();
    for session in state::sessions(&*view.table).map_err(unreadable)? {
        let here = session.is_active() && session.worktree_id.as_ref() == Some(worktree);
        let process = alive.iter().find(|one| one.session_id == session.session_id);
        if let Some(process) = process.filter(|one| here && !ours.contains(&one.process())) {
            let message = format!(
                "{} works there: session {}, process {}",
                session.agent_id, session.session_id, process.pid
            );
            let help = format!("jit session end {}", session.session_id);
            return Err(Box::new(Refusal::new(Code::Held, message).help(help)));
        }
    }
    Ok(())
}

/// Removes a unit. A failure names the command that continues from there.
fn remove_unit(cx: &Context, unit: Unit, force: Force) -> Outcome<Cleaned> {
    let again = match force {
        Force::No => format!("jit worktree cleanup {}", unit.id),
        Force::Work => format!("jit worktree cleanup {} --force", unit.id),
        Force::Locked => format!("jit worktree cleanup {} --force --force", unit.id),
    };
    remove(cx, unit, force).map_err(|mut refusal| {
        if refusal.code == Code::Io {
            match obstacles::lock_in(&refusal.message) {
                Some(lock) => refusal
                    .help
                    .extend([obstacles::help_with_lock(&lock), again.clone()]),
                None => {
                    let help = format!("mend that (is the disk full?), then go on with: {again}");
                    refusal.help.push(help);
                }
            }
        }
        refusal
    })
}

pub(crate) fn remove(cx: &Context, mut unit: Unit, force: Force) -> Outcome<Cleaned> {
    let site = may_remove(cx, &unit, force)?;
    let trash = trash(cx)?;
    let begun = trash.unfinished(&unit.id)?;
    let mut seen = None;
    // If nothing has been moved yet, an agent may have worked there since the last save. Then everything is saved
    // again.
    let whole = site.root_is_there && site.admin.is_some();
    let mut manifest = match begun {
        Some(mut manifest) if manifest.stage == Stage::Moving && !whole => {
            // Changes since then are only in the trash.
            manifest.refs_complete &= !site.root_is_there;
            manifest.disposable &= !site.root_is_there;
            manifest
        }
        begun => {
            let walk = Walk::of(&site.root)?;
            let admin = site.admin.as_deref().map_or(Ok(Walk::default()), Walk::of)?;
            let evidence = evidence::gather(&site, &walk, &admin, cx.config.rescue_ignored())?;
            // An interrupted removal had passed this check, unless the work was restored since. Everything is saved.
            let goes_on = unit.state == Phase::Cleanup && !trash.was_restored(&unit)?;
            let forced = force > Force::No || unit.abandoned.is_some() || goes_on;
            if !evidence.work.is_empty() && !forced {
                return Err(work_left(&unit, &evidence));
            }
            if unit.state == Phase::Merged {
                unit =
                    crate::units::service::advance(cx, &unit.id, UnitInput::BeginCleanup, Facts::default())?;
            }
            // The save of an earlier attempt stays as it is: the files may have been overwritten since.
            if let Some(begun) = begun {
                trash.settle(begun)?;
            }
            let manifest = trash.begin(&unit, &site.root)?;
            let manifest = keep(&site, &trash, &evidence, &walk, &admin, manifest)?;
            seen = Some(walk);
            manifest
        }
    };
    step("removing");
    move_away(&site, &trash, &manifest)?;
    step("removed");
    let branch_stays = drop_branch(&site, &trash, &mut manifest)?;
    step("unnamed");
    let tree = trash.folder(&manifest.id).join(TREE);
    // Deleted only if it is still what was examined.
    if manifest.disposable && (seen.as_ref() == Some(&Walk::of(&tree)?) || !trash.has_tree(&manifest.id)) {
        let whole = manifest.refs.is_empty();
        trash.empty(&mut manifest, whole)?;
    } else {
        manifest.stage = Stage::Kept;
        trash.write(&manifest)?;
    }
    // The parent folder of all worktree git folders is removed with the last one, as git does it.
    let _ = std::fs::remove_dir(site.common.join("worktrees"));
    crate::worktrees::provisioning::leave_folder_of(cx, &site.root);
    // Another process may be working on an entry; the next removal finishes the rest.
    let _ = sweep_trash(cx, &trash, Some(&unit.id));
    let unit = crate::units::service::advance(cx, &unit.id, UnitInput::CleanedUp, Facts::default())?;
    let done = cleaned(cx, &unit, Some(manifest), branch_stays.is_none())?;
    Ok(Cleaned { branch_stays, ..done })
}

/// Finishes interrupted deletions, and removes entries that were begun, are empty, and belong to a unit that is over.
/// Entries that another process is working on are skipped: two processes on one folder would disturb each other. `own`
/// is the unit whose lock this process holds.
fn sweep_trash(cx: &Context, trash: &Trash, own: Option<&UnitId>) -> Outcome<()> {
    trash.sweep_empty();
    let (filled, empty) = trash.parted()?;
    let is_over = |unit: &UnitId| crate::units::service::load_unit(cx, unit).is_ok_and(|unit| unit.is_over());
    let cut_short = filled.into_iter().filter(|one| one.stage == Stage::Removing);
    for mut one in cut_short.chain(empty) {
        let is_begun = one.stage != Stage::Removing;
        if is_begun && !is_over(&one.unit) {
            continue;
        }
        let _turn = match own == Some(&one.unit) {
            true => None,
            false => match cleanup_turn(cx, &one.unit) {
                Ok(turn) => Some(turn),
                Err(_) => continue,
            },
        };
        if !is_begun {
            trash.finish_removal(&one.id)?;
        } else if trash.parted()?.1.iter().any(|empty| empty.id == one.id) {
            // It may have been filled while another process held the lock.
            trash.empty(&mut one, true)?;
        }
    }
    Ok(())
}

/// Saves everything, and records that the folders may be moved.
pub(crate) fn keep(
    site: &Site,
    trash: &Trash,
    evidence: &Evidence,
    walk: &Walk,
    admin: &Walk,
    mut manifest: Manifest,
) -> Outcome<Manifest> {
    manifest.worktree_path = shown(&site.root);
    manifest.admin = site
        .admin
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| shown(Path::new(name)));
    manifest.head.clone_from(&evidence.head);
    if let Some(admin) = &site.admin {
        manifest.head_ref = match worktrees::head(&site.common, admin) {
            Ok((Some(branch), _)) => Some(format!("refs/heads/{branch}")),
            _ => site.git().symbolic_head().map_err(|e| refuse(Code::Io, e))?,
        };
    }
    manifest.branch_tip.clone_from(&evidence.branch_tip);
    manifest.name_work(&evidence.work, &evidence.aside);
    manifest.disposable = evidence.files_are_safe();
    let scratch = trash.folder(&manifest.id);
    save::save(site, evidence, walk, admin, &scratch, &mut manifest)?;
    manifest.stage = Stage::Moving;
    trash.write(&manifest)?;
    Ok(manifest)
}

/// Moves the git folder of a deleted worktree to the trash, so that the worktree can be created again. HEAD and the
/// index may have work that no branch has.
pub(crate) fn put_aside_gone(cx: &Context, unit: &Unit) -> Outcome<()> {
    let site = Site::find(&cx.place, unit)?;
    let Some(folder) = site.admin.as_deref().filter(|_| !site.root_is_there) else {
        return Ok(());
    };
    let (walk, admin) = (Walk::default(), Walk::of(folder)?);
    let evidence = evidence::gather(&site, &walk, &admin, cx.config.rescue_ignored())?;
    let trash = trash(cx)?;
    let manifest = trash.begin(unit, &site.root)?;
    let mut manifest = keep(&site, &trash, &evidence, &walk, &admin, manifest)?;
    trash.take(&manifest.id, folder, ADMIN)?;
    if manifest.refs.is_empty() {
        return trash.empty(&mut manifest, true);
    }
    manifest.stage = Stage::Kept;
    trash.write(&manifest)
}

fn move_away(site: &Site, trash: &Trash, manifest: &Manifest) -> Outcome<()> {
    let root = unshown(&manifest.worktree_path);
    if let Some(name) = &manifest.admin {
        let admin = site.common.join("worktrees").join(unshown(name));
        // Another worktree may have its name by now.
        let ours = match std::fs::read(admin.join("gitdir")) {
            Ok(link) => {
                use std::os::unix::ffi::OsStrExt as _;
                let link = admin.join(OsStr::from_bytes(link.trim_ascii_end()));
                jit_git::files::plain(&link) == root.join(".git")
                    || std::fs::canonicalize(&link).ok() == std::fs::canonicalize(root.join(".git")).ok()
            }
            // Moved already, or being moved.
            Err(_) => admin.symlink_metadata().is_err(),
        };
        if ours {
            trash.take(&manifest.id, &admin, ADMIN)?;
        }
    }
    step("forgotten");
    trash.take(&manifest.id, &root, TREE)?;
    Ok(())
}

/// Deletes the unit's branch, which has landed or is among the rescued refs by now. Returns the reason if it stays: if
/// it is another name for a branch, or a branch is another name for it, deleting it would affect others.
fn drop_branch(site: &Site, trash: &Trash, manifest: &mut Manifest) -> Outcome<Option<String>> {
    let branch = &site.branch;
    if *branch == site.target {
        return Ok(Some("it is the target".to_owned()));
    }
    if site.used_branches.contains(branch) {
        return Ok(Some("it is checked out in another worktree".to_owned()));
    }
    let name = format!("refs/heads/{branch}");
    let git = || raw::git(&site.common, &site.common);
    let failed = |e| refuse(Code::Io, e);
    let short = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
    let names = refs::symbolic_in(&site.common, "refs/heads").map_err(failed)?;
    if let Some(own) = names.iter().find(|one| one.name == name) {
        return Ok(Some(format!("it is another name for {}", short(&own.goal))));
    }
    let tip = refs::commit_of(&site.common, &name).map_err(failed)?;
    if let Some(other) = names.iter().find(|one| one.goal == name && tip.is_some()) {
        return Ok(Some(format!("{} is another name for it", short(&other.name))));
    }
    let Some(tip) = tip else {
        return Ok(None);
    };
    if manifest.branch_tip.as_ref() != Some(&tip) {
        // It was moved after it was examined.
        save::add(&site.common, manifest, "late", &tip)?;
        trash.write(manifest)?;
    }
    git()
        .args(["update-ref", "--no-deref", "-d", &name, &tip])
        .run()
        .map_err(failed)?;
    // Deletes git's settings for the branch; an error means that there were none.
    if may_have_settings(&site.common, branch) {
        let section = format!("branch.{branch}");
        let _ = git()
            .args(["config", "--local", "--remove-section", &section])
            .run();
    }
    Ok(None)
}

/// Whether git's settings may have a section for a branch.
fn may_have_settings(common: &Path, branch: &str) -> bool {
    let text = std::fs::read(common.join("config")).unwrap_or_default();
    let has = |what: &str| text.windows(what.len()).any(|part| part == what.as_bytes());
    // Git escapes these two; a file that is included has settings of its own.
    has(branch) || branch.contains(['"', '\\']) || has("include")
}

fn cleaned(cx: &Context, unit: &Unit, manifest: Option<Manifest>, branch_deleted: bool) -> Outcome<Cleaned> {
    let trash = trash(cx)?;
    let mut entries = trash.all()?;
    // This includes an entry that was finished before a crash.
    entries.retain(|one| one.unit == unit.id && one.created_ms >= unit.created_at.ms());
    let known = entries.pop();
    let manifest = manifest
        .filter(|one| known.as_ref().is_some_and(|known| known.id == one.id))
        .or(known);
    Ok(Cleaned {
        unit: unit.id.clone(),
        state: unit.state,
        worktree_path: unit.worktree_path.clone(),
        branch: unit.branch.clone(),
        branch_deleted,
        branch_stays: None,
        rescue: manifest.as_ref().map(|one| one.id.clone()),
        work: manifest.as_ref().map(|one| one.work.clone()).unwrap_or_default(),
        work_count: manifest.as_ref().map_or(0, |one| one.work_count),
    })
}

/// Deletes old entries from the trash. Their refs stay.
fn prune_rescues(cx: &Context, older_than_secs: Option<u64>) -> Outcome<RescueReply> {
    let keep = cx.config.rescue_keep_days().saturating_mul(DAY);
    let least = older_than_secs.unwrap_or(keep);
    let trash = trash(cx)?;
    sweep_trash(cx, &trash, None)?;
    let (mut pruned, mut freed_bytes) = (Vec::new(), 0);
    for mut one in trash.all()? {
        let over = matches!(one.stage, Stage::Kept | Stage::Restored);
        let old = one.age_secs() >= least && (one.refs_complete || one.age_secs() >= keep);
        // Restored entries have only their manifest in the trash.
        if !over || !old || !trash.has_tree(&one.id) {
            continue;
        }
        let Ok(_turn) = cleanup_turn(cx, &one.unit) else {
            continue;
        };
        freed_bytes += trash.size(&one.id);
        let whole = one.refs.is_empty();
        trash.empty(&mut one, whole)?;
        pruned.push(one.id);
    }
    Ok(RescueReply::Pruned(PrunedRescues { pruned, freed_bytes }))
}

/// Deletes an entry permanently. Not for agents: it is the only command here that can lose work.
fn drop_rescue(cx: &Context, id: &RescueId) -> Outcome<RescueReply> {
    if let Some(agent) = crate::context::calling_agent::asking_agent(cx) {
        let message = format!("{agent} is an agent, and deleting rescued work is not for agents");
        let help = format!("ask a person to run: jit rescue drop {id} --yes");
        return Err(Box::new(Refusal::new(Code::NotAllowed, message).help(help)));
    }
    let trash = trash(cx)?;
    let mut manifest = trash.require(id)?;
    let _turn = cleanup_turn(cx, &manifest.unit)?;
    if matches!(manifest.stage, Stage::Saving | Stage::Moving)
        && !crate::units::service::load_unit(cx, &manifest.unit)?.is_over()
    {
        let message = format!("the removal of {} is not finished", manifest.unit);
        let help = format!("jit worktree cleanup {}", manifest.unit);
        return Err(Box::new(Refusal::new(Code::NotAllowed, message).help(help)));
    }
    trash.drop_refs(id)?;
    manifest.refs.clear();
    trash.empty(&mut manifest, true)?;
    Ok(RescueReply::Dropped(DroppedRescue { dropped: id.clone() }))
}

/// Refuses to remove jit while there is rescued work: no other program knows these entries.
pub(crate) fn refuse_while_rescued(cx: &Context) -> Outcome<()> {
    if cx.place.common_dir.is_none() {
        return Ok(());
    }
    let all = trash(cx)?.filled()?;
    if all.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    let message = format!("there is rescued work: {}", names.join(", "));
    let mut refusal = Refusal::new(Code::NotAllowed, message).help("jit rescue list");
    for name in names.iter().take(5) {
        refusal = refusal.help(format!("jit rescue drop {name} --yes"));
    }
    Err(Box::new(refusal))
}

fn work_left(unit: &Unit, evidence: &Evidence) -> Box<Refusal> {
    let mut lines: Vec<String> = evidence
        .work
        .iter()
        .take(FEW)
        .map(|one| format!("  {}: {}", one.kind.as_str(), one.what))
        .collect();
    if evidence.work.len() > FEW {
        lines.push(format!("  and {} more", evidence.work.len() - FEW));
    }
    let message = format!(
        "the worktree of {} holds work that is not on {} (--force keeps it elsewhere: jit rescue list):\n{}",
        unit.id,
        unit.goes_to(),
        lines.join("\n")
    );
    let names = evidence
        .work
        .iter()
        .map(|one| format!("{}: {}", one.kind.as_str(), one.what));
    let mut refusal = Refusal::new(Code::WorkLeft, message);
    if evidence.work.iter().any(|one| one.kind == Kind::Commit) && unit.state == Phase::Merged {
        refusal = refusal.help(format!("jit finish {}", unit.id));
    }
    Box::new(
        refusal
            .help(format!("jit worktree cleanup {} --force", unit.id))
            .details(Details::Candidates(names.collect())),
    )
}

fn rescue_view(trash: &Trash, manifest: Manifest, whole: bool) -> RescueView {
    let in_trash = trash.has_tree(&manifest.id);
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    RescueView {
        created_at: Wall::from_ms(manifest.created_ms),
        stage: manifest.stage,
        reason: manifest.reason,
        worktree_path: manifest.worktree_path,
        branch: manifest.branch,
        head: manifest.head,
        target: manifest.target,
        work: manifest.work,
        aside: manifest.aside,
        work_count: manifest.work_count,
        refs: manifest
            .refs
            .iter()
            .map(|(name, oid)| (manifest.id.reference(name), oid.clone()))
            .collect(),
        in_trash,
        trash_path: in_trash.then(|| path(trash.folder(&manifest.id).join(TREE))),
        trash_bytes: whole.then(|| trash.size(&manifest.id)),
        restored_to: manifest.restored_to,
        next: Vec::new(),
        unit: manifest.unit,
        id: manifest.id,
    }
}
