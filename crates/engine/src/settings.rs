//! Requests about settings: shown, read and changed (A6).
//!
//! What must hold:
//! - Agents cannot change the settings that restrain agents. This is a guard rail, not a fence.
//! - A setting that is changed here counts as approved by the caller, if the caller may approve.

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::Options;
use crate::api::config::{ChangedSetting, ConfigReply, ConfigRequest, SettingView, Settings};
use crate::config::keys::Value;
use crate::config::{self, ConfigError, Origin, Setting, Sources};
use crate::context::Surroundings;
use crate::refusals::refuse;

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
            let settings = found
                .config
                .show()
                .map(|(key, setting)| view(key, setting))
                .collect();
            Ok(found.answer(ConfigReply::Settings(Settings { settings })))
        }
        ConfigRequest::Get { key } => {
            let setting = found.config.get(&key).map_err(|e| refused(&e))?;
            let view = view(&key, setting);
            let own = Sources::from_process(&found.place).repository;
            let is_own =
                matches!(&setting.origin, Origin::File { file, .. } if Some(&**file) == own.as_deref());
            let caveat = caveat(&key, &setting.value).filter(|_| is_own);
            let mut answer = found.answer(ConfigReply::Setting(view));
            answer.warnings.extend(caveat);
            Ok(answer)
        }
        ConfigRequest::Set { key, value, user } => set(&found, key, &value, user),
    }
}

fn view(key: &str, setting: &Setting) -> SettingView {
    SettingView {
        key: key.to_owned(),
        value: (&setting.value).into(),
        origin: setting.origin.to_string(),
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
    let value = config::set(&file, &key, value).map_err(|e| refused(&e))?;
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

/// Returns a caveat for a right of agents in the repository's own file, because anybody could have written it there.
fn caveat(key: &str, value: &Value) -> Option<String> {
    let when = match key {
        "agents.may_trust" => "not in the repository's own file: jit config set --user agents.may_trust true",
        "agents.may_pass_gates" | "agents.may_force_evict" => "once it is committed, here and on the target",
        _ => return None,
    };
    (*value == Value::Flag(true)).then(|| format!("this counts for agents {when}"))
}

fn refused(e: &ConfigError) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Config, e.to_string()).help("jit config show --origin"))
}
