//! Requests about settings: shown, read and changed (A6).
//!
//! What must hold:
//! - Agents cannot change the settings that restrain agents. This is a guard rail, not a fence.
//! - A setting is shown as it holds for the caller: for an agent, without values that are not committed.
//! - A setting that is changed here counts as approved by the caller, if the caller may approve.

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::config::{ChangedSetting, ConfigReply, ConfigRequest, SettingView, Settings};
use crate::config::classes::{class, is_users_own};
use crate::config::keys::Value;
use crate::config::{self, Config, ConfigError, Origin, Setting, Sources};
use crate::context::Surroundings;
use crate::refusals::refuse;
use crate::worktree_identity::identity::Need;

/// Prefixes of settings that restrain agents.
const GUARDED: &[&str] = &[
    "agents.",
    "dispatch.",
    "global_operations.",
    "hooks.",
    "merge.",
    "notify.",
    "worktree.",
];

/// Carries out a request about settings.
pub(crate) fn handle(options: &Options, request: ConfigRequest) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    match request {
        ConfigRequest::Show => {
            let (config, mut warnings) = for_caller(found, options)?;
            let settings = config.show().map(|(key, setting)| view(key, setting)).collect();
            warnings.extend(config.left_out().iter().map(|(key, at)| left_out(key, at)));
            Ok(Answer {
                reply: ConfigReply::Settings(Settings { settings }).into(),
                warnings,
            })
        }
        ConfigRequest::Get { key } => {
            let own = Sources::from_process(&found.place).repository;
            let (config, mut warnings) = for_caller(found, options)?;
            let setting = config.get(&key).map_err(|e| refused(&e))?;
            let is_own =
                matches!(&setting.origin, Origin::File { file, .. } if Some(&**file) == own.as_deref());
            warnings.extend(caveat(&key, &setting.value).filter(|_| is_own));
            let unread = config.left_out().iter().filter(|(name, _)| *name == key);
            warnings.extend(unread.map(|(key, at)| left_out(key, at)));
            Ok(Answer {
                reply: ConfigReply::Setting(view(&key, setting)).into(),
                warnings,
            })
        }
        ConfigRequest::Set { key, value, user } => set(&found, key, &value, user),
    }
}

/// Returns the settings that hold for the caller, and warnings about values that do not.
fn for_caller(found: Surroundings, options: &Options) -> Outcome<(Config, Vec<String>)> {
    // Only an agent is bound by what is committed. Without a log nothing binds yet, and none is made to look.
    if found.asking_agent().is_none() || !found.config.is_loose() || !found.place.control_dir.is_dir() {
        let warnings = found.whoami.warnings.clone();
        return Ok((found.config, warnings));
    }
    let cx = crate::opening::within(found, options, Need::Read)?;
    let (config, said) = crate::gates::committed_policy::settings_for_caller(&cx);
    let mut warnings = cx.warnings;
    warnings.extend(said);
    Ok((config, warnings))
}

/// Returns a warning about a key in the repository's file that counts only in the user's own.
fn left_out(key: &str, at: &Origin) -> String {
    format!("{key} ({at}) does not count: only your own settings decide that (jit config set --user {key} …)")
}

fn view(key: &str, setting: &Setting) -> SettingView {
    SettingView {
        key: key.to_owned(),
        value: (&setting.value).into(),
        origin: setting.origin.to_string(),
        class: class(key),
    }
}

fn set(found: &Surroundings, key: String, value: &str, user: bool) -> Outcome<Answer> {
    if GUARDED.iter().any(|guarded| key.starts_with(guarded)) && found.asking_agent().is_some() {
        let message = format!("{key} is not for agents to change");
        let refusal = Refusal::new(Code::NotAllowed, message);
        let help = format!("ask a person to run: jit config set {key} {value}");
        return Err(Box::new(refusal.help(help)));
    }
    let sources = Sources::from_process(&found.place);
    let account = sources
        .account
        .clone()
        .filter(|_| sources.user != sources.account);
    let (file, none) = if user {
        (sources.user, "no home folder is known")
    } else {
        (
            sources.repository,
            "there is no worktree here whose .jit/config.toml could be changed",
        )
    };
    let file = file.ok_or_else(|| refuse(Code::Invalid, none))?;
    let set = match user {
        true => config::set,
        false => config::set_in_repository,
    };
    let value = set(&file, &key, value).map_err(|e| refused(&e))?;
    // The setting is written already. If its approval fails now, the user can approve it later.
    let failed = found.approve_setting(&key, &value).err().map(|refusal| {
        let why = refusal.message;
        format!("it is set, but not approved, so it is not run before: jit trust ({why})")
    });
    let caveat = caveat(&key, &value).and_then(|caveat| match (user, account) {
        (false, _) => Some(caveat),
        (true, Some(file)) => Some(format!("this counts for agents in {} only", file.display())),
        (true, None) => None,
    });
    Ok(Answer {
        reply: ConfigReply::Changed(ChangedSetting {
            key,
            value: (&value).into(),
            file: file.display().to_string(),
        })
        .into(),
        warnings: failed.into_iter().chain(caveat).collect(),
    })
}

/// Returns a caveat for a value that does not count at once from the repository's own file, because anybody could have
/// written it there.
fn caveat(key: &str, value: &Value) -> Option<String> {
    if is_users_own(key) {
        return Some(format!(
            "this counts only in your own settings, not in the repository's own file: jit config set --user {key} …"
        ));
    }
    let is_right = matches!(key, "agents.may_pass_gates" | "agents.may_force_evict");
    (is_right && *value == Value::Flag(true))
        .then(|| "this counts for agents once it is committed, here and on the target".to_owned())
}

fn refused(e: &ConfigError) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Config, e.to_string()).help("jit config show --origin"))
}
