//! A6: layers, mistakes that are named with file, line and key, and edits that leave everything else alone.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use jit_core::model::policy::{Enforce, Policy};
use jit_engine::config::keys::{self, Value};
use jit_engine::config::{Config, ConfigError, Mode, Origin, Sources, set};

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("folder"),
        }
    }

    fn user(&self) -> PathBuf {
        self.folder.path().join("user.toml")
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repo.toml")
    }

    fn load(&self, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::load(&Sources {
            user: Some(self.user()),
            repository: Some(self.repository()),
            env: env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Sources::default()
        })
    }
}

fn repository(text: &str) -> Result<Config, ConfigError> {
    let files = Files::new();
    fs::write(files.repository(), text).expect("write");
    files.load(&[])
}

fn from(file: PathBuf, line: usize) -> Origin {
    Origin::File {
        file: file.into(),
        line,
        column: 1,
    }
}

#[test]
fn a6_defaults() {
    let config = Files::new().load(&[]).expect("no files is fine");
    assert_eq!(config, Config::default());
    assert_eq!(config.mode(), Mode::Auto);
    assert_eq!(config.enforce_leases(), Enforce::Strict);
    assert_eq!(config.default_ttl_secs(), 600);
    assert_eq!(config.heartbeat_interval_secs(), 30);
    assert_eq!(config.lease_renewal_threshold_pct(), 10);
    assert_eq!(config.lock_timeout_secs(), 30);
    assert_eq!(config.max_ttl_secs(), 30 * 86_400);
    assert!(config.require_main_history() && config.allowed_branches().is_empty());
    assert!(config.agent_kinds().is_empty() && !config.may_force_evict());
    assert!(
        config
            .show()
            .all(|(_, setting)| setting.origin == Origin::Default)
    );
}

#[test]
fn b5_lease_lengths_by_type_and_holder() {
    let config = repository("[coordination]\ndefault_ttl_secs = \"15m\"\n[coordination.ttl]\nepic = { agent = \"2h\" }\ntask.agent = 60\n")
        .expect("valid");
    for (issue_type, holder, secs) in [
        (Some("activity"), "human", 28_800),
        (Some("activity"), "agent", 3_600),
        (Some("task"), "human", 14_400),
        (Some("task"), "agent", 60),
        (Some("epic"), "agent", 7_200),
        (Some("epic"), "human", 28_800),
        (Some("epic"), "ci", 900),
        (None, "human", 28_800),
        (None, "agent", 900),
    ] {
        assert_eq!(
            config.ttl_secs(issue_type, holder),
            secs,
            "{issue_type:?} {holder}"
        );
    }
}

#[test]
fn a6_each_layer_beats_the_one_before_and_says_so() {
    let files = Files::new();
    fs::write(files.user(), "# mine\n[coordination]\ndefault_ttl_secs = 100\nheartbeat_interval_secs = 5\nlock_timeout_secs = 1\n")
        .expect("write");
    fs::write(
        files.repository(),
        "[coordination]\n\nheartbeat_interval_secs = \"1m\"\nlock_timeout_secs = 2\n",
    )
    .expect("write");
    let config = files
        .load(&[
            ("JIT_CONFIG_COORDINATION__LOCK_TIMEOUT_SECS", "3"),
            ("PATH", "/bin"),
        ])
        .expect("valid");
    let seen = |key: &str| {
        let setting = config.get(key).expect("known");
        (setting.value.clone(), setting.origin.clone())
    };
    assert_eq!(
        seen("coordination.default_ttl_secs"),
        (Value::Int(100), from(files.user(), 3))
    );
    assert_eq!(
        seen("coordination.heartbeat_interval_secs"),
        (Value::Int(60), from(files.repository(), 3))
    );
    let variable = "JIT_CONFIG_COORDINATION__LOCK_TIMEOUT_SECS".to_owned();
    assert_eq!(
        seen("coordination.lock_timeout_secs"),
        (Value::Int(3), Origin::Env { variable })
    );
    assert_eq!(config.lock_timeout_secs(), 3);
    assert_eq!(config.origin("worktree.mode").expect("known"), &Origin::Default);

    let names: Vec<&str> = config.show().map(|(key, _)| key).collect();
    let known = keys::KEYS.len() + keys::TTL_DEFAULTS.len();
    assert!(names.is_sorted() && names.len() == known, "{names:?}");
}

#[test]
fn a6_variables() {
    let load = |name: &str, value: &str| Files::new().load(&[(name, value)]);
    assert_eq!(
        load("JIT_CONFIG_WORKTREE__MODE", "off").expect("valid").mode(),
        Mode::Off
    );
    let config = load("JIT_CONFIG_COORDINATION__TTL__TASK__HUMAN", "5m").expect("valid");
    assert_eq!(config.ttl_secs(Some("task"), "human"), 300);
    for list in ["main, release/1", "[\"main\", \"release/1\"]"] {
        let config = load("JIT_CONFIG_GLOBAL_OPERATIONS__ALLOWED_BRANCHES", list).expect("valid");
        assert_eq!(config.allowed_branches(), ["main", "release/1"]);
    }
    for (name, value, says) in [
        ("JIT_CONFIG_WORKTREE__MOD", "off", "did you mean `worktree.mode`"),
        ("JIT_CONFIG_", "x", "no key"),
        ("JIT_CONFIG_WORKTREE__MODE", "sometimes", "one of auto, on, off"),
        ("JIT_CONFIG_AGENTS__MAY_FORCE_EVICT", "yes", "true or false"),
        ("JIT_CONFIG_AGENTS__KINDS", "[1]", "list of words"),
        ("JIT_CONFIG_AGENTS__KINDS", "[\"a\"]\ny = 1", "list of words"),
        ("JIT_CONFIG_COORDINATION__DEFAULT_TTL_SECS", "-1", "duration"),
    ] {
        let error = load(name, value).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains(says), "{error}");
    }
    let strange = Sources {
        env: vec![(
            "JIT_CONFIG_WORKTREE__MODE".into(),
            OsString::from_vec(b"\xff".to_vec()),
        )],
        ..Sources::default()
    };
    assert!(Config::load(&strange).is_err());
}

#[test]
fn a6_mistakes_name_file_line_and_key() {
    for (text, line, says) in [
        (
            "[worktree]\nmod = \"on\"",
            2,
            "no key `worktree.mod`; did you mean `worktree.mode`?",
        ),
        (
            "\n\n[worktrees]\nmode = \"on\"",
            3,
            "no key `worktrees`; did you mean `worktree`?",
        ),
        ("mode = 1", 1, "no key `mode`; did you mean `worktree.mode`?"),
        (
            "[worktree]\n# x\nmode = 1",
            3,
            "`worktree.mode` takes one of auto, on, off, not integer",
        ),
        (
            "[worktree]\nmode = \"maybe\"",
            2,
            "`worktree.mode`: \"maybe\" is not one of auto, on, off",
        ),
        ("worktree = 3", 1, "`worktree` takes a table, not integer"),
        (
            "[[worktree]]\nmode = \"on\"",
            1,
            "`worktree` takes a table, not array",
        ),
        ("[coordination]\ndefault_ttl_secs = 0", 2, "at least 1s"),
        ("[coordination]\ndefault_ttl_secs = -1", 2, "not a duration"),
        ("[coordination]\ndefault_ttl_secs = 1.5", 2, "not float"),
        ("[coordination]\ndefault_ttl_secs = true", 2, "not boolean"),
        (
            "[coordination]\ndefault_ttl_secs = 9223372036854775807",
            2,
            "hundred years",
        ),
        (
            "[coordination]\ndefault_ttl_secs = \"31d\"",
            2,
            "longer than coordination.max_ttl_secs",
        ),
        ("[coordination]\nlease_renewal_threshold_pct = 101", 2, "0 to 100"),
        (
            "[coordination]\nlease_renewal_threshold_pct = \"10\"",
            2,
            "not string",
        ),
        (
            "[coordination.ttl]\ntask = { humna = \"4h\" }",
            2,
            "did you mean `coordination.ttl.task.human`?",
        ),
        ("[coordination.ttl]\ntask = \"4h\"", 2, "takes a table"),
        ("[coordination.ttl]\n\"Big Task\" = { human = 3 }", 2, "no key"),
        (
            "[global_operations]\nallowed_branches = \"main\"",
            2,
            "a list of branch names, not string",
        ),
        (
            "[global_operations]\nallowed_branches = [\"main\", 3]",
            2,
            "a list of branch names, not integer",
        ),
        (
            "[global_operations]\nallowed_branches = [\"a b\"]",
            2,
            "not a branch name",
        ),
        ("[agents]\nkinds = [\"Bot\"]", 2, "not a lower-case word"),
        ("\"worktree.mode\" = \"on\"", 1, "no key"),
        ("[worktree]\nmode = \"on\"\nmode = \"off\"", 3, "duplicate"),
        ("[worktree]\nmode = ", 2, ""),
        ("x = 1\n[worktree]\nmode = 3", 1, "no key `x`"),
    ] {
        let error = repository(text).expect_err(text).to_string();
        let place = format!("repo.toml, line {line}, column ");
        assert!(error.contains(&place), "{text:?}: {error}");
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let files = Files::new();
    fs::write(files.repository(), b"# ok\n# \xff\n").expect("write");
    assert!(
        files
            .load(&[])
            .expect_err("bytes")
            .to_string()
            .contains("line 2, column 3: this is not UTF-8")
    );
    fs::remove_file(files.repository()).expect("remove");
    fs::create_dir(files.repository()).expect("folder");
    assert!(matches!(files.load(&[]), Err(ConfigError::Read { .. })));
}

#[test]
fn a6_the_longest_lease_bounds_all_others_and_shows_it() {
    let config = repository("[coordination]\nmax_ttl_secs = \"5m\"\n").expect("built-in ones are lowered");
    assert_eq!(
        config.get("coordination.default_ttl_secs").expect("known").value,
        Value::Int(300)
    );
    assert_eq!(config.ttl_secs(Some("activity"), "human"), 300);
    assert_eq!(
        config
            .get("coordination.ttl.activity.human")
            .expect("known")
            .value,
        Value::Int(300)
    );
}

#[test]
fn a4_configured_kinds_may_have_leases_of_their_own() {
    let config =
        repository("[agents]\nkinds = [\"bot\"]\n[coordination.ttl]\ntask = { bot = 7 }\n").expect("valid");
    assert_eq!(config.ttl_secs(Some("task"), "bot"), 7);
}

#[test]
fn a6_get_refuses_what_is_not_there() {
    let error = Config::default().get("worktree.mdoe").expect_err("unknown");
    assert!(
        error.to_string().contains("did you mean `worktree.mode`?"),
        "{error}"
    );
    assert!(Config::default().origin("coordination.ttl.epic.human").is_err());
}

fn after_set(before: &str, key: &str, text: &str) -> String {
    let files = Files::new();
    fs::write(files.repository(), before).expect("write");
    set(&files.repository(), key, text).expect("set");
    files.load(&[]).expect("still valid");
    fs::read_to_string(files.repository()).expect("read")
}

#[test]
fn a6_set_leaves_everything_else_alone() {
    for (before, key, text, after) in [
        ("", "worktree.mode", "off", "[worktree]\nmode = \"off\"\n"),
        (
            "# top\n[worktree] # here\n  mode   =  \"on\"  # why\n\n# end\n",
            "worktree.mode",
            "off",
            "# top\n[worktree] # here\n  mode   =  \"off\"  # why\n\n# end\n",
        ),
        (
            "[worktree]\nmode = \"on\"\n",
            "coordination.default_ttl_secs",
            "10m",
            "[worktree]\nmode = \"on\"\n\n[coordination]\ndefault_ttl_secs = \"10m\"\n",
        ),
        (
            "[worktree]\nmode = \"on\"\n# base = \"x\"\n\n# More of it.\n",
            "coordination.default_ttl_secs",
            "10m",
            "[worktree]\nmode = \"on\"\n# base = \"x\"\n\n# More of it.\n\n[coordination]\ndefault_ttl_secs = \"10m\"\n",
        ),
        (
            "[coordination]\nmax_ttl_secs = \"5h\"\n\n[worktree]\nmode = \"on\"\n# end\n",
            "coordination.ttl.task.agent",
            "5m",
            "[coordination]\nmax_ttl_secs = \"5h\"\n\n[worktree]\nmode = \"on\"\n# end\n\n[coordination.ttl.task]\nagent = \"5m\"\n",
        ),
        (
            "[coordination]\n",
            "coordination.default_ttl_secs",
            "900",
            "[coordination]\ndefault_ttl_secs = 900\n",
        ),
        (
            "[coordination.ttl]\ntask = { human = \"4h\" } # x\n",
            "coordination.ttl.task.agent",
            "5m",
            "[coordination.ttl]\ntask = { human = \"4h\" , agent = \"5m\" } # x\n",
        ),
        (
            "worktree.mode = \"on\"\n",
            "worktree.mode",
            "auto",
            "worktree.mode = \"auto\"\n",
        ),
        (
            "",
            "agents.kinds",
            "bot,robot",
            "[agents]\nkinds = [\"bot\", \"robot\"]\n",
        ),
        (
            "",
            "agents.may_force_evict",
            "true",
            "[agents]\nmay_force_evict = true\n",
        ),
        (
            "",
            "coordination.ttl.task.agent",
            "5m",
            "[coordination.ttl.task]\nagent = \"5m\"\n",
        ),
    ] {
        let got = after_set(before, key, text);
        let plain = |text: &str| text.replace(" ,", ",");
        assert_eq!(plain(&got), plain(after), "{key} in {before:?}");
    }
}

#[test]
fn a6_set_refuses_and_leaves_the_file_as_it_was() {
    let files = Files::new();
    let path = files.repository();
    for (before, key, text) in [
        ("[worktree]\n", "worktree.mode", "maybe"),
        ("[worktree]\n", "worktree.mdoe", "on"),
        ("[worktree\n", "worktree.mode", "on"),
        ("worktree = 1\n", "worktree.mode", "on"),
        ("[other]\nx = 1\n", "worktree.mode", "on"),
        (
            "[coordination]\nmax_ttl_secs = 60\n",
            "coordination.default_ttl_secs",
            "61",
        ),
        ("", "coordination.default_ttl_secs", "0"),
        ("", "coordination.ttl.task.nobody", "5m"),
        ("", "worktree", "on"),
    ] {
        fs::write(&path, before).expect("write");
        assert!(set(&path, key, text).is_err(), "{key} = {text} in {before:?}");
        assert_eq!(fs::read_to_string(&path).expect("read"), before);
    }
    let nowhere = Path::new("/proc/no/config.toml");
    assert!(matches!(
        set(nowhere, "worktree.mode", "on"),
        Err(ConfigError::Write { .. })
    ));
}

#[test]
fn a6_set_makes_the_file_and_two_at_once_are_both_kept() {
    let files = Files::new();
    let path = files.folder.path().join("new/folder/config.toml");
    set(&path, "worktree.mode", "on").expect("made");
    std::thread::scope(|scope| {
        for n in 0..12 {
            let path = &path;
            scope.spawn(move || set(path, &format!("coordination.ttl.type{n}.agent"), "5m").expect("set"));
        }
    });
    let config = Config::load(&Sources {
        repository: Some(path),
        ..Sources::default()
    })
    .expect("valid");
    assert!((0..12).all(|n| config.ttl_secs(Some(&format!("type{n}")), "agent") == 300));
    assert_eq!(config.mode(), Mode::On);
}

proptest::proptest! {
    #[test]
    fn a6_no_file_and_no_value_panics(text in "\\PC*", key in "[a-z_.]{0,40}") {
        let _ = repository(&text);
        let _ = repository(&format!("[worktree]\n{key} = {text}"));
        let _ = jit_engine::config::keys::nearest(&key);
        for known in jit_engine::config::keys::KEYS {
            let _ = known.from_text(&text);
        }
    }
}

#[test]
fn l1_only_the_users_own_file_sets_what_starts_programs() {
    let text = "[agents]\nmay_trust = true\n[notify]\ncommand = [\"x\"]\n";
    let config = repository(text).expect("valid");
    assert!(!config.may_trust(None) && config.notifying().command.is_empty());
    let left_out: Vec<&str> = config.left_out().iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left_out, ["agents.may_trust", "notify.command"]);
    // The same text counts where it is the user's own.
    let files = Files::new();
    fs::write(files.user(), text).expect("write");
    let config = files.load(&[]).expect("valid");
    assert!(config.may_trust(None) && config.left_out().is_empty());
    // A mistake is one all the same.
    assert!(repository("[agents]\nmay_trust = 3\n").is_err());
}

#[test]
fn l1_the_users_word_about_the_place_of_worktrees_holds() {
    let files = Files::new();
    fs::write(
        files.repository(),
        "[worktree]\npath = \"../{repo}-x/{unit}\"\nbranch = \"a/{unit}\"\n",
    )
    .expect("write");
    let config = files.load(&[]).expect("valid");
    assert_eq!(config.worktree_path(), "../{repo}-x/{unit}");
    fs::write(
        files.user(),
        "[worktree]\npath = \"/disk/{unit}\"\nbranch = \"b/{unit}\"\n",
    )
    .expect("write");
    let config = files.load(&[]).expect("valid");
    assert_eq!(config.worktree_path(), "/disk/{unit}");
    assert_eq!(config.worktree_branch(), "a/{unit}");
    let config = files
        .load(&[("JIT_CONFIG_WORKTREE__PATH", "/v/{unit}")])
        .expect("valid");
    assert_eq!(config.worktree_path(), "/v/{unit}");
}

#[test]
fn l1_a_repositorys_file_is_neither_read_nor_written_through_a_link() {
    let files = Files::new();
    let real = files.folder.path().join("real.toml");
    fs::write(&real, "[worktree]\nmode = \"off\"\n").expect("write");
    std::os::unix::fs::symlink(&real, files.repository()).expect("link");
    let message = files.load(&[]).expect_err("refused").to_string();
    assert!(message.contains("is a symbolic link"), "{message}");
    let written = jit_engine::config::set_in_repository(&files.repository(), "worktree.mode", "on");
    let message = written.expect_err("refused").to_string();
    assert!(message.contains("is a symbolic link"), "{message}");
    assert_eq!(
        fs::read_to_string(&real).expect("read"),
        "[worktree]\nmode = \"off\"\n"
    );
    // A user may keep the own settings elsewhere.
    std::os::unix::fs::symlink(&real, files.user()).expect("link");
    fs::remove_file(files.repository()).expect("removed");
    assert_eq!(files.load(&[]).expect("valid").mode(), Mode::Off);
    set(&files.user(), "worktree.mode", "on").expect("set");
    assert!(fs::read_to_string(&real).expect("read").contains("on"));
    // A pipe is not waited for.
    let made = std::process::Command::new("mkfifo")
        .arg(files.repository())
        .status();
    assert!(made.expect("mkfifo").success());
    assert!(files.load(&[]).is_err());
}

#[test]
fn l3_what_an_agent_can_choose_loosens_nothing_and_what_is_stricter_counts() {
    let files = Files::new();
    let [chosen, account] = ["chosen.toml", "account.toml"].map(|name| files.folder.path().join(name));
    let agent = "agent:a".parse().expect("an id");
    let load = |in_chosen: &str, in_account: &str, in_repository: &str, env: &[(&str, &str)]| {
        fs::write(&chosen, in_chosen).expect("write");
        fs::write(&account, in_account).expect("write");
        fs::write(files.repository(), in_repository).expect("write");
        let sources = Sources {
            user: Some(chosen.clone()),
            account: Some(account.clone()),
            repository: Some(files.repository()),
            env: env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Sources::default()
        };
        let person = Config::load(&sources).expect("valid").policy();
        let config = Config::load(&sources.asked_by(Some(&agent))).expect("valid");
        (config.policy(), person)
    };
    let may = "[agents]\nmay_pass_gates = true\nmay_force_evict = true\n";
    let rights = |policy: &Policy| (policy.agents_may_pass_gates, policy.agents_may_evict);
    let (policy, person) = load(may, "", "", &[]);
    assert_eq!((rights(&policy), rights(&person)), ((false, false), (true, true)));
    let (policy, person) = load("", may, "", &[]);
    // What is missing in the file that counts for people is stricter here.
    assert_eq!(
        (rights(&policy), rights(&person)),
        ((false, false), (false, false))
    );
    assert_eq!(rights(&load(may, may, "", &[]).0), (true, true));
    assert_eq!(rights(&load("", "", may, &[]).0), (true, true));
    // A file of the account that cannot be read gives no right.
    assert_eq!(rights(&load(may, "[agents", "", &[]).0), (false, false));
    let enforce = |word: &str| format!("[worktree]\nenforce_leases = \"{word}\"\n");
    for (in_chosen, in_account, expected) in [
        ("off", "strict", Enforce::Strict),
        ("warn", "strict-explicit", Enforce::StrictExplicit),
        ("strict-explicit", "off", Enforce::StrictExplicit),
        ("off", "warn", Enforce::Warn),
    ] {
        let (policy, _) = load(&enforce(in_chosen), &enforce(in_account), "", &[]);
        assert_eq!(policy.enforce, expected, "{in_chosen} {in_account}");
    }
    // Leaving out what the account says is no way either.
    let (policy, _) = load("", &enforce("strict-explicit"), "", &[]);
    assert_eq!(policy.enforce, Enforce::StrictExplicit);
    let variable = ("JIT_CONFIG_WORKTREE__ENFORCE_LEASES", "off");
    assert_eq!(load("", "", "", &[variable]).0.enforce, Enforce::Strict);
}
