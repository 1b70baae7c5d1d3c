//! Agents that claim to be people: the commands that are not for agents stay closed to them (L3, A4, E6, A8).

use std::fs;
use std::path::Path;
use std::time::Duration;

use jit_testkit::world::tools::{inside_own_mounts, own_mounts, wait_until};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// Commands that are not for agents, each with a lease, a gate and an approval of a person to act on.
const RESTRICTED: &[&str] = &[
    "claim force-evict WI-1 --reason x",
    "gate pass WI-1 review",
    "trust --yes",
    "trust --revoke",
    "config set worktree.enforce_leases off",
    "config set --user agents.may_trust true",
    "hooks uninstall",
];

fn world() -> World {
    let world = World::with_jit(JIT);
    for line in [
        "issue create One --id WI-1",
        "gate define review --manual",
        "gate define build --command true",
        "gate define more --command true --agent-id agent:z",
        "gate add WI-1 review",
        "claim acquire WI-1 --agent-id human:ann",
    ] {
        let _ = world.jit(line.split(' ')).ok();
    }
    world
}

/// A line of shell in which `jit` is the program under test, in a shell with these variables.
fn shell(world: &World, variables: &[(&str, &str)], line: &str) -> Ran {
    let mut command = world.command("sh", &world.repo());
    // Without the second command the shell would become the first one.
    let script = format!("jit() {{ '{JIT}' \"$@\"; }}; {line}; exit $?");
    command.envs(variables.iter().copied()).args(["-c", &script]);
    world.run(command)
}

fn whoami(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn l3_inside_an_agent_program_nobody_has_the_rights_of_a_person() {
    let world = world();
    for (variable, value, agent) in [
        ("CLAUDECODE", "1", "agent:claude"),
        ("CODEX_SANDBOX_NETWORK_DISABLED", "1", "agent:codex"),
        ("GEMINI_CLI", "1", "agent:gemini"),
        ("CURSOR_AGENT", "1", "agent:cursor"),
    ] {
        let inside = [(variable, value)];
        let me = whoami(&shell(&world, &inside, "jit whoami --json").ok());
        assert_eq!(
            (&me["agent_id"], &me["kind"], &me["detected_by"]),
            (&agent.into(), &"agent".into(), &variable.into()),
            "{me}"
        );
    }
    let inside = [("CLAUDECODE", "1")];
    for line in RESTRICTED {
        let _ = shell(&world, &inside, &format!("jit {line}")).exits(5);
        let as_person = format!("jit --agent-id human:ann {line}");
        let _ = shell(&world, &inside, &as_person).exits(5);
        let by_variable = format!("JIT_AGENT_ID=human:ann jit {line}");
        let _ = shell(&world, &inside, &by_variable).exits(5);
    }
    // A person may do all of that.
    for line in RESTRICTED.iter().rev() {
        let _ = shell(&world, &[("CLAUDECODE", "0")], &format!("jit {line}")).ok();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn l3_removing_variables_for_one_command_hides_no_agent() {
    let world = world();
    let inside = [("CLAUDECODE", "1"), ("JIT_AGENT_ID", "agent:w")];
    let hidden = format!("env -u JIT_AGENT_ID -u CLAUDECODE '{JIT}'");
    let me = whoami(&shell(&world, &inside, &format!("{hidden} whoami --json")).ok());
    assert_eq!(
        (&me["agent_id"], &me["detected_by"]),
        (&"agent:w".into(), &"CLAUDECODE".into())
    );
    assert!(me["detected_in"].is_u64(), "{me}");
    for line in RESTRICTED {
        let _ = shell(&world, &inside, &format!("{hidden} {line}")).exits(5);
        let as_person = format!("{hidden} --agent-id human:ann {line}");
        let _ = shell(&world, &inside, &as_person).exits(5);
    }
    let text = shell(&world, &inside, &format!("{hidden} whoami")).ok().stdout;
    assert!(
        text.contains("inside claude (shown by CLAUDECODE in process "),
        "{text}"
    );
}

/// The program shows the agent: neither a shell that replaces itself nor its own variables do.
#[test]
#[cfg(target_os = "linux")]
fn l3_a_shell_that_replaces_itself_hides_no_agent_program() {
    let world = world();
    let program = world.root().join("claude");
    std::os::unix::fs::symlink("/bin/sh", &program).expect("a program");
    let inside = |line: &str| {
        let mut command = world.command(&program, &world.repo());
        let script = format!("CLAUDECODE=1 sh -c \"exec env -u CLAUDECODE '{JIT}' {line}\"; exit $?");
        command.args(["-c", &script]);
        world.run(command)
    };
    let me = whoami(&inside("whoami --json").ok());
    assert_eq!(
        (&me["agent_id"], &me["detected_by"]),
        (&"agent:claude".into(), &"the program claude".into())
    );
    for line in RESTRICTED {
        let _ = inside(line).exits(5);
    }
}

#[test]
fn l3_another_control_folder_hides_no_bound_process() {
    let world = world();
    let line = "jit session start --agent-id agent:a --bind-pid $$ >/dev/null && JIT_DIR=$PWD/other jit";
    let _ = shell(&world, &[], &format!("{line} trust --yes")).exits(5);
    let me = whoami(&shell(&world, &[], &format!("{line} whoami --json")).ok());
    assert_eq!(me["agent_id"], "agent:a");
}

#[test]
fn l3_a_process_that_left_the_tree_is_known_by_its_own_variables() {
    let world = world();
    let answer = world.root().join("answer");
    // Forked twice, in a session of its own: nothing leads from it to the agent.
    let script = format!(
        "jit whoami --json > '{0}~'; jit claim force-evict WI-1 --reason x; echo \\$? > '{0}.code'; mv '{0}~' '{0}'",
        answer.display()
    );
    let script = script.replace("jit ", &format!("{JIT} "));
    let line = format!("(setsid sh -c \"{script}\" >/dev/null 2>&1 &)");
    let _ = shell(&world, &[("GEMINI_CLI", "1")], &line).ok();
    wait_until("it has answered", Duration::from_secs(60), || answer.exists());
    let me: Value = serde_json::from_slice(&fs::read(&answer).expect("an answer")).expect("JSON");
    assert_eq!(me["agent_id"], "agent:gemini");
    let code = fs::read_to_string(answer.with_extension("code")).expect("a code");
    assert_eq!(code.trim(), "5");
}

/// A config folder with these settings, and the command line that uses it in one way or another.
fn chosen(world: &World, text: &str) -> [(&'static str, String); 2] {
    for folder in ["evil/.config/jit", "evil/jit"] {
        let folder = world.root().join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.toml"), text).expect("settings");
    }
    let evil = world.root().join("evil").display().to_string();
    [("XDG_CONFIG_HOME", evil.clone()), ("HOME", evil)]
}

#[test]
fn l3_a_folder_of_settings_that_an_agent_chooses_loosens_nothing() {
    let world = world();
    let settings = "[agents]\nmay_pass_gates = true\nmay_trust = true\nmay_force_evict = true\n\n\
                    [worktree]\nenforce_leases = \"off\"\n";
    for (variable, folder) in chosen(&world, settings) {
        let with = |who: &str, line: &str| {
            let mut command = world.jit_command(&world.repo());
            if variable == "HOME" {
                command.env_remove("XDG_CONFIG_HOME");
            }
            command.env("JIT_AGENT_ID", who).env(variable, &folder);
            world.run({
                command.args(line.split(' '));
                command
            })
        };
        for line in RESTRICTED {
            let _ = with("agent:a", line).exits(5);
        }
        // In a session too, and without an id.
        let bound = format!(
            "export {variable}='{folder}'; jit session start --agent-id agent:a --bind-pid $$ >/dev/null && \
             env -u XDG_CONFIG_HOME {variable}='{folder}' {JIT} gate pass WI-1 review --agent-id human:ann"
        );
        let _ = shell(&world, &[], &bound).exits(5);
        let _ = with("agent:a", "issue update WI-1 --title mine").exits(5);
        let shown = with("agent:a", "config get agents.may_pass_gates").ok();
        assert_eq!(shown.stdout, "false\n");
        assert!(
            shown.stderr.contains("does not count for agents"),
            "{}",
            shown.stderr
        );
        // A person's folder is where that person says.
        assert_eq!(
            with("human:b", "config get agents.may_pass_gates").ok().stdout,
            "true\n"
        );
    }
}

/// Runs jit as an agent whose account has its home folder in this world.
fn at_home(world: &World, mounts: &[&str], line: &str) -> Ran {
    let passwd = world.root().join("passwd");
    let user = rustix::process::getuid().as_raw();
    let text = format!("me:x:{user}:0::{}:/bin/sh\n", world.home().display());
    fs::write(&passwd, text).expect("a file");
    let mut way: Vec<String> = mounts.iter().map(|word| (*word).to_owned()).collect();
    let script = r#"mount --bind "$0" /etc/passwd && exec "$@""#;
    way.extend([
        "sh".into(),
        "-c".into(),
        script.into(),
        passwd.display().to_string(),
    ]);
    world.run(world.jit_by_way_of(&way, "agent:one", line.split(' ')))
}

#[test]
fn l3_settings_in_the_home_folder_of_the_account_count_for_agents() {
    if !inside_own_mounts(
        module_path!(),
        "l3_settings_in_the_home_folder_of_the_account_count_for_agents",
    ) {
        return;
    }
    let Some(mounts) = own_mounts() else { return };
    let world = world();
    for key in ["agents.may_pass_gates", "agents.may_trust"] {
        let _ = world.jit(["config", "set", "--user", key, "true"]).ok();
    }
    let (pass, trust) = ("gate pass WI-1 review", "trust --yes");
    let _ = world.jit_as("agent:one", pass.split(' ')).exits(5);
    let _ = world.jit_as("agent:one", trust.split(' ')).exits(5);
    let _ = at_home(&world, &mounts, pass).ok();
    let _ = at_home(&world, &mounts, trust).ok();
    let _ = at_home(&world, &mounts, "trust --revoke").ok();
}

/// The worktree of a new unit of this caller, with work in it that is committed.
fn unit(world: &World, who: &str, name: &str) -> String {
    let made = world
        .jit_as(who, ["worktree", "create", name, "--json"])
        .ok()
        .json();
    let path = made["worktree_path"].as_str().expect("a path").to_owned();
    fs::write(Path::new(&path).join(name), "work").expect("a file");
    world.git(Path::new(&path), ["add", "-A"]);
    world.git(Path::new(&path), ["commit", "-qm", name]);
    path
}

#[test]
fn l3_an_agent_lands_only_its_own_units() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-qm", "jit"]);
    let half = unit(&world, "human:ann", "half-done");
    let _ = unit(&world, "agent:b", "others");
    let _ = unit(&world, "agent:a", "own");
    let on_main = |name: &str| world.repo().join(name).exists();
    for line in [
        "finish half-done",
        "finish half-done --pr",
        "finish others",
        "worktree merge half-done",
        "worktree merge own half-done",
        "--agent-id human:ann finish half-done",
    ] {
        let mut command = world.jit_command(&world.repo());
        command.env("JIT_AGENT_ID", "agent:a").args(line.split(' '));
        let ran = world.run(command).exits(5);
        assert!(
            ran.stderr.contains("decides only about its own units"),
            "{line}: {}",
            ran.stderr
        );
        assert!(!on_main("half-done") && !on_main("own"), "{line}");
    }
    // Where it stands is not what it may land, nor what a variable says.
    let mut command = world.jit_command(Path::new(&half));
    command.envs([("JIT_AGENT_ID", "agent:a"), ("JIT_UNIT", "half-done")]);
    command.arg("finish");
    let _ = world.run(command).exits(5);
    let _ = world
        .jit_as("agent:a", ["worktree", "merge", "half-done", "--dry-run"])
        .ok();
    let ran = world.jit_as("agent:a", ["worktree", "merge", "--all"]).ok();
    assert!(
        ran.stderr.contains("left out") && ran.stderr.contains("half-done, others"),
        "{}",
        ran.stderr
    );
    assert!(on_main("own") && !on_main("half-done") && !on_main("others"));
    let _ = world.jit_as("agent:b", ["finish", "others"]).ok();
    let _ = world.jit_as("human:bob", ["finish", "half-done"]).ok();
    assert!(on_main("half-done") && on_main("others"));
}

/// A repository whose `.jit/` is committed.
fn committed() -> World {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-qm", "jit"]);
    world
}

#[test]
fn l3_an_agent_lands_no_commits_of_a_unit_that_it_may_not_land() {
    let world = committed();
    let half = unit(&world, "human:ann", "half-done");
    let begin = ["worktree", "create", "thief", "--base", "jit/half-done"];
    let _ = world.jit_as("agent:a", begin).ok();
    let taker = unit(&world, "agent:a", "taker");
    world.git(Path::new(&taker), ["merge", "-q", "--no-edit", "jit/half-done"]);
    for line in [
        "finish thief",
        "finish taker",
        "finish taker --pr",
        "worktree merge taker",
    ] {
        let ran = world.jit_as("agent:a", line.split(' ')).exits(5);
        assert!(
            ran.stderr.contains("has commits of half-done"),
            "{line}: {}",
            ran.stderr
        );
        assert!(!world.repo().join("half-done").exists(), "{line}");
    }
    // A unit that takes in the work of an agent does not stop that work.
    let _ = unit(&world, "agent:a", "own");
    world.git(Path::new(&half), ["merge", "-q", "--no-edit", "jit/own"]);
    let _ = world.jit_as("agent:a", ["finish", "own"]).ok();
    let _ = world.jit_as("human:ann", ["finish", "half-done"]).ok();
    let _ = world.jit_as("agent:a", ["finish", "taker"]).ok();
    assert!(world.repo().join("taker").exists());
}

#[test]
fn l3_an_agent_decides_only_about_its_own_units() {
    let world = committed();
    let _ = unit(&world, "human:ann", "others");
    for line in [
        "worktree dispatch others --agent command --command true",
        "worktree stop others",
        "worktree retry others",
        "worktree cleanup others",
        "worktree abandon others --reason x",
        "handoff others --to command --command true",
        "finish others",
    ] {
        for agent in ["agent:evil", "human:ann"] {
            let mut command = world.jit_command(&world.repo());
            command.env("CLAUDECODE", "1").env("JIT_AGENT_ID", agent);
            let ran = world.run({
                command.args(line.split(' '));
                command
            });
            let ran = ran.exits(5);
            assert!(
                ran.stderr.contains("decides only about its own units"),
                "{line}: {}",
                ran.stderr
            );
            assert!(!ran.stderr.contains("--to human:ann"), "{}", ran.stderr);
        }
    }
    let shown = world.jit(["worktree", "status", "others", "--json"]).ok().json();
    assert_eq!(shown["state"], "READY", "{shown}");
}

#[test]
fn g4_an_agent_starts_no_agent_without_limits() {
    let world = committed();
    let _ = world.jit_as("agent:a", ["worktree", "create", "own"]).ok();
    for mode in ["yolo", "bypassPermissions", "danger-full-access"] {
        let line = format!("worktree dispatch own --agent gemini --permission-mode {mode} --command true");
        let ran = world.jit_as("agent:a", line.split(' ')).exits(5);
        assert!(ran.stderr.contains("without limits"), "{}", ran.stderr);
    }
    let plan = world.root().join("plan.yaml");
    let text = "schema_version: 1\nunits:\n- {id: u, prompt: x, run: {agent: command, command: ['true'], \
                permission_mode: yolo}}\n";
    fs::write(&plan, text).expect("a plan");
    let plan = plan.display().to_string();
    let ran = world.jit_as("agent:a", ["run", &plan]).exits(5);
    assert!(ran.stderr.contains("without limits"), "{}", ran.stderr);
}

const LOOSE: &str = "[agents]\nmay_pass_gates = true\n[worktree]\nenforce_leases = \"off\"\n";

#[test]
fn e6_an_agent_lands_no_change_of_settings() {
    let world = committed();
    let own = unit(&world, "agent:a", "own");
    fs::write(Path::new(&own).join(".jit/config.toml"), LOOSE).expect("settings");
    world.git(Path::new(&own), ["add", "-A"]);
    world.git(Path::new(&own), ["commit", "-qm", "cfg"]);
    let ran = world.jit_as("agent:a", ["finish", "own"]).exits(5);
    for part in [".jit/config.toml", "jit finish own"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert!(!world.repo().join("own").exists());
    let _ = world.jit_as("human:ann", ["finish", "own"]).ok();
    assert!(world.repo().join("own").exists());
}

#[test]
fn e6_an_agent_commits_no_change_of_settings() {
    let world = committed();
    let _ = world.jit(["hooks", "install"]).ok();
    fs::write(world.repo().join(".jit/config.toml"), LOOSE).expect("settings");
    let commit = |who: &str| {
        let mut git = world.command("git", &world.repo());
        git.env("JIT_AGENT_ID", who).args(["commit", "-qam", "cfg"]);
        world.run(git)
    };
    let ran = commit("agent:a");
    assert!(
        ran.code != 0 && ran.stderr.contains("a person commits that"),
        "{}",
        ran.stderr
    );
    let _ = commit("human:ann").ok();
}

#[test]
fn b2_a_lease_of_another_live_session_is_not_the_callers() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let start = "export JIT_AGENT_ID=agent:a; jit session start --bind-pid $$ >/dev/null";
    let lines = [
        "claim renew WI-1",
        "claim release WI-1",
        "claim transfer WI-1 --to agent:b",
        "issue update WI-1 --title stolen",
        "issue delete WI-1",
    ];
    // The second shell works while the first one waits for it.
    let tries: String = lines
        .iter()
        .map(|line| format!("jit {line} 2>&1; echo \"code $?\"; "))
        .collect();
    let line = format!(
        "{start}; jit claim acquire WI-1 >/dev/null; sh -c '{} exit 0'; jit issue update WI-1 --title mine && jit claim renew WI-1",
        format!("{start}; {tries}").replace("jit ", &format!("{JIT} "))
    );
    let said = shell(&world, &[], &line).ok().stdout;
    assert_eq!(said.matches("code 5").count(), lines.len(), "{said}");
    assert_eq!(
        said.matches("another session of this agent").count(),
        lines.len(),
        "{said}"
    );
    // A shell without a session is the agent itself.
    let _ = world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    let shown = world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(shown["title"], "mine");
    world.validates();
}

#[test]
fn b2_of_two_sessions_of_one_agent_in_one_worktree_one_holds_the_lease() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let start = "export JIT_AGENT_ID=agent:a; jit session start --bind-pid $$ --json";
    let acquire = "jit claim acquire WI-1 --json";
    // The second shell works while the first one waits for it; then the first one asks again.
    let line = format!(
        "{start} > first; {acquire} > lease; sh -c '{}; exit $?' > second; echo $? > code; {acquire}",
        format!("{start} >/dev/null; {acquire}").replace("jit ", &format!("{JIT} "))
    );
    let ran = shell(&world, &[], &line).ok();
    let read = |name: &str| fs::read_to_string(world.repo().join(name)).expect("a file");
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let (first, lease) = (json(&read("first")), json(&read("lease")));
    assert_eq!(lease["session_id"], first["session_id"], "{lease}");
    assert_eq!(read("code").trim(), "4");
    let refused = json(&read("second"));
    assert_eq!(refused["error"]["code"], "held");
    let message = refused["error"]["message"].as_str().expect("text");
    assert!(
        message.contains(first["session_id"].as_str().expect("an id")),
        "{message}"
    );
    let again = json(&ran.stdout);
    assert_eq!(
        (&again["existing"], &again["lease_id"]),
        (&true.into(), &lease["lease_id"])
    );
    // The first session is gone: the next one takes over the lease. Without a session nothing is different.
    let ran = shell(&world, &[], &format!("{start} > third; {acquire}")).ok();
    let (third, taken) = (json(&read("third")), json(&ran.stdout));
    assert_eq!(
        (&taken["existing"], &taken["lease_id"], &taken["session_id"]),
        (&true.into(), &lease["lease_id"], &third["session_id"])
    );
    let plain = world
        .jit_as("agent:a", ["claim", "acquire", "WI-1", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&plain["existing"], &plain["lease_id"]),
        (&true.into(), &lease["lease_id"])
    );
    world.validates();
}
