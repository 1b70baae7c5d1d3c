//! Agents that speak the Agent Client Protocol, started, watched and landed by jit (G4, G5, G8, G10, F9): scripted ones
//! that misbehave, and the real claude-agent-acp, offline, with a model that says what a script says.

use std::path::{Path, PathBuf};
use std::process::Command;

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::{ModelApi, ModelTurn};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

struct Yard {
    world: World,
}

impl Yard {
    fn new() -> Self {
        let world = World::with_jit(env!("CARGO_BIN_EXE_jit"));
        let _ = world.jit(["worktree", "create", "u"]).ok();
        Self { world }
    }

    fn tree(&self) -> PathBuf {
        self.world.root().join("repo-worktrees/u")
    }

    fn command(&self, more: &[&str], program: &[&str]) -> Command {
        let mut command = self.world.jit_command(&self.world.repo());
        command.args([
            "worktree",
            "dispatch",
            "u",
            "--wait",
            "--prompt",
            "do the work 4711",
        ]);
        command
            .args(more)
            .args(["--agent", "acp", "--command"])
            .args(program);
        command
    }

    /// An agent that does what a script for bash says. `hear` waits for a line and keeps it, `say` says one, `begin` is all
    /// up to the work, `ask` asks leave to edit a path, `finish` ends the turn.
    fn scripted(&self, more: &[&str], script: &str) -> Ran {
        let file = self.world.home().join("agent.sh");
        let jit = self.world.program().display().to_string();
        let heard = self.heard_file().display().to_string();
        let text = format!("jit='{jit}' heard='{heard}'\n{PRELUDE}\n{script}\n");
        std::fs::write(&file, text).expect("a script");
        let file = file.display().to_string();
        self.world.run(self.command(more, &["bash", &file]))
    }

    fn heard_file(&self) -> PathBuf {
        self.world.home().join("heard")
    }

    /// What the agent was told, in order.
    fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.heard_file()).expect("it heard something");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// What it was answered to its questions, by their ids.
    fn answer(&self, id: &str) -> String {
        let all = self.heard();
        let one = all
            .iter()
            .find(|line| line["id"] == id && line["method"].is_null())
            .unwrap_or_else(|| panic!("no answer to {id}: {all:#?}"));
        let outcome = &one["result"]["outcome"];
        let word = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
        word.unwrap_or("error").to_owned()
    }

    fn unit(&self) -> Value {
        self.world.jit(["worktree", "status", "u", "--json"]).ok().json()
    }
}

const PRELUDE: &str = r#"
hear() { IFS= read -r line || exit 9; printf '%s\n' "$line" >> "$heard"; }
say() { printf '%s\n' "$1"; }
hello() { hear; say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'; hear; }
begin() { hello; say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"theirs"}}'; hear; }
options='[{"optionId":"forever","kind":"allow_always","name":"a"},{"optionId":"yes","kind":"allow_once","name":"b"},{"optionId":"no","kind":"reject_once","name":"c"}]'
question() { printf '{"jsonrpc":"2.0","id":"%s","method":"session/request_permission","params":{"sessionId":"%s","toolCall":{"toolCallId":"t-%s","kind":"edit","title":"Edit","locations":[{"path":"%s"}]},"options":%s}}\n' "$1" "$2" "$1" "$3" "$options"; }
ask() { question "$1" theirs "$2"; hear; }
work() { echo work > work.txt; git add work.txt; git commit -q -m 'by the agent'; }
finish() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":{\"stopReason\":\"end_turn\"}}"; }
"#;

#[test]
fn g15_a_scripted_agent_gets_files_of_its_worktree_that_nobody_has_and_no_others() {
    let yard = Yard::new();
    let tree = yard.tree();
    let _ = yard
        .world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    std::os::unix::fs::symlink("locked.txt", tree.join("link")).expect("a link");
    std::os::unix::fs::symlink(yard.world.home(), tree.join("out")).expect("a link");
    let main = yard.world.repo().join("elsewhere.txt").display().to_string();
    let git = tree.join(".git").display().to_string();
    let ran = yard.scripted(
        &[],
        &format!(
            r#"begin
            ask fine "$PWD/fine.txt"; ask relative below/fine.txt
            ask locked "$PWD/locked.txt"; ask link "$PWD/link"; ask dots "$PWD/../u/locked.txt"
            ask out "$PWD/out/x"; ask root /etc/passwd; ask main '{main}'; ask git '{git}'
            question other theirs-not "$PWD/fine.txt"; hear
            "$jit" lock list --json > "$HOME/held"
            rm link out; work; finish 3
            hear; finish 4"#
        ),
    );
    let _ = ran.ok();
    for id in ["fine", "relative"] {
        assert_eq!(yard.answer(id), "yes", "{id}");
    }
    for id in ["locked", "link", "dots", "out", "root", "main", "git"] {
        assert_eq!(yard.answer(id), "no", "{id}");
    }
    assert_eq!(yard.answer("other"), "error");
    // The model is told why, once its turn has ended.
    let heard = yard.heard();
    let last = heard.last().expect("words")["params"]["prompt"][0]["text"].to_string();
    assert!(last.contains("locked by agent:bob"), "{last}");
    let held = std::fs::read_to_string(yard.world.home().join("held")).expect("locks");
    assert!(
        held.contains("fine.txt"),
        "what it edits is locked for it: {held}"
    );
    let locks = yard.world.jit(["lock", "list", "--json"]).ok().stdout;
    assert!(!locks.contains("fine.txt"), "until it has ended: {locks}");
    assert_eq!(yard.unit()["state"], "COMPLETED");
}

#[test]
fn g8_messages_of_any_size_and_shape_do_not_stop_an_agent() {
    let yard = Yard::new();
    let ran = yard.scripted(
        &[],
        r#"begin
        say 'Debugger attached.'; say '{'; say 'null'; say '[]'; printf '\377\376\n'
        say '{"jsonrpc":"2.0","method":"brand/new","params":{"sessionId":"theirs"}}'
        say '{"jsonrpc":"2.0","id":99,"result":{"stopReason":"refusal"}}'
        say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"another"}}'
        printf '{"jsonrpc":"2.0","id":"huge","method":"session/request_permission","params":{"sessionId":"theirs","toolCall":{"toolCallId":"h","rawInput":"'
        head -c 10000000 /dev/zero | tr '\0' x
        say '"},"options":[]}}'; hear
        say '{"jsonrpc":"2.0","id":"file","method":"fs/write_text_file","params":{"sessionId":"theirs","path":"/etc/x","content":"y"}}'; hear
        work; finish 3; hear; finish 4"#,
    );
    let unit = yard.unit();
    assert_eq!(unit["state"], "COMPLETED", "{unit} {}", ran.stdout);
    assert_eq!(unit["session_id"], "theirs", "{unit}");
    assert_eq!(yard.answer("huge"), "cancelled");
    assert_eq!(yard.answer("file"), "error");
}

#[test]
fn g10_an_agent_that_is_cut_off_in_the_middle_is_gone_on_with_by_its_own_session() {
    let yard = Yard::new();
    let ran = yard.scripted(&[], "begin; ask a \"$PWD/a.txt\"; exit 0").exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "error", "{unit} {}", ran.stdout);
    assert_eq!(unit["session_id"], "theirs", "{unit}");
    std::fs::remove_file(yard.heard_file()).expect("forgotten");
    let old = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"theirs","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"words of old"}}}}"#;
    let script = format!(
        "hello; say '{old}'; say '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}'; hear; work; finish 3"
    );
    let ran = yard.scripted(&["--resume"], &script).ok();
    assert!(!ran.stdout.contains("words of old"), "{}", ran.stdout);
    let heard = yard.heard();
    assert_eq!(heard[1]["method"], "session/load");
    assert_eq!(heard[1]["params"]["sessionId"], "theirs");
    let unit = yard.unit();
    assert_eq!(
        (&unit["state"], &unit["attempt"]),
        (&json!("COMPLETED"), &json!(2)),
        "{unit}"
    );
}

#[test]
fn g10_an_agent_is_asked_to_stop_before_it_is_ended() {
    let yard = Yard::new();
    let ran = yard
        .scripted(
            &[],
            r#"begin
            "$jit" worktree stop u --reason 'the test' >/dev/null 2>&1 &
            hear
            say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'
            IFS= read -r line; echo '"its input was closed"' >> "$heard""#,
        )
        .exits(6);
    let heard = yard.heard();
    assert_eq!(heard[3]["method"], "session/cancel", "{heard:#?} {}", ran.stdout);
    assert_eq!(heard[4], "its input was closed");
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "stopped", "{unit}");
    assert_eq!(unit["session_id"], "theirs", "{unit}");
}

#[test]
fn g8_who_never_answers_is_hung_and_who_wants_a_login_is_not_tried_again() {
    let yard = Yard::new();
    let _ = yard.world.jit(["config", "set", "dispatch.idle_secs", "1"]).ok();
    let _ = yard.scripted(&[], "hear; exec sleep 600").exits(6);
    assert_eq!(yard.unit()["error"]["reason"], "hung", "{}", yard.unit());
    let yard = Yard::new();
    let login = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}"#;
    let _ = yard
        .scripted(&[], &format!("hello; say '{login}'; sleep 5"))
        .exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "authentication", "{unit}");
    let message = unit["error"]["message"].as_str().expect("words");
    assert!(message.contains("log in"), "{message}");
}

#[test]
fn g4_acp_without_a_program_is_refused_with_what_to_do() {
    let yard = Yard::new();
    let ran = yard
        .world
        .jit(["worktree", "dispatch", "u", "--prompt", "x", "--agent", "acp"])
        .exits(2);
    assert!(
        ran.stderr.contains("--agent acp --command <program>"),
        "{}",
        ran.stderr
    );
}

/// With the real one.
struct Real {
    bench: Bench,
    /// What its program is called with.
    args: &'static [&'static str],
    yard: Yard,
}

impl Real {
    fn new() -> Option<Self> {
        Self::of(Agent::ClaudeAcp, &[])
    }

    fn of(agent: Agent, args: &'static [&'static str]) -> Option<Self> {
        let bench = Bench::of(agent)?;
        Some(Self {
            bench,
            args,
            yard: Yard::new(),
        })
    }

    fn dispatch(&self, model: &ModelApi, more: &[&str]) -> Ran {
        let wrapper = self.bench.wrapper(&self.yard.world).display().to_string();
        let program: Vec<&str> = std::iter::once(wrapper.as_str())
            .chain(self.args.iter().copied())
            .collect();
        let command = self.yard.command(more, &program);
        self.bench.run_beside(&self.yard.world, command, model)
    }
}

fn write(path: &Path, content: &str) -> ModelTurn {
    ModelTurn::tool("Write", json!({ "file_path": path, "content": content }))
}

fn commit(file: &str) -> ModelTurn {
    ModelTurn::bash(&format!("git add {file} && git commit -q -m 'by the agent'"))
}

#[test]
fn g5_claude_agent_acp_does_a_task_and_it_lands() {
    let Some(real) = Real::new() else { return };
    let yard = &real.yard;
    let model = real.bench.model(vec![
        write(&yard.tree().join("hello.txt"), "hello\n"),
        commit("hello.txt"),
        ModelTurn::text("finished"),
    ]);
    let ran = real.dispatch(&model, &[]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit}\n{}\n{}",
        ran.stdout, ran.stderr
    );
    assert!(unit["cost_usd"].as_f64().expect("a cost") > 0.0, "{unit}");
    assert!(unit["turns"].as_u64().expect("turns") >= 3, "{unit}");
    assert!(model.read().contains("do the work 4711"));
    let _ = yard.world.jit(["finish", "u"]).ok();
    let shown = yard.world.git(&yard.world.repo(), ["show", "main:hello.txt"]);
    assert_eq!(shown.trim(), "hello");
}

#[test]
fn g10_claude_agent_acp_is_gone_on_with_after_a_stop() {
    let Some(real) = Real::new() else { return };
    let yard = &real.yard;
    let model = real.bench.model(vec![
        write(&yard.tree().join("a.txt"), "a\n"),
        ModelTurn::bash("jit worktree stop u --reason 'the test' --json"),
        // What was cut off may count as a turn of the model.
        commit("a.txt"),
        commit("a.txt"),
        ModelTurn::text("finished"),
    ]);
    let first = real
        .dispatch(&model, &["--allow", "Bash(jit worktree stop *)"])
        .exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "stopped", "{unit} {}", first.stdout);
    let session = unit["session_id"].clone();
    let second = real.dispatch(&model, &["--resume"]).ok();
    let unit = yard.unit();
    assert_eq!(unit["state"], "COMPLETED", "{unit} {}", second.stdout);
    assert_eq!(unit["session_id"], session, "it is the same session");
    assert!(model.read().contains("do the work 4711"));
}

#[test]
fn f9_claude_agent_acp_is_denied_a_locked_file_and_told_why() {
    let Some(real) = Real::new() else { return };
    let yard = &real.yard;
    let _ = yard
        .world
        .jit_as_in("agent:bob", &yard.tree(), ["lock", "acquire", "locked.txt"])
        .ok();
    let model = real.bench.model(vec![
        write(&yard.tree().join("locked.txt"), "mine\n"),
        ModelTurn::text("I could not write it"),
        ModelTurn::text("I see, bob has it"),
    ]);
    let ran = real.dispatch(&model, &[]).exits(6);
    assert!(!yard.tree().join("locked.txt").exists());
    assert!(model.read().contains("locked by agent:bob"), "{}", ran.stdout);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "no_commits", "{unit} {}", ran.stdout);
}

#[test]
fn g8_claude_agent_acp_that_meets_a_limit_is_told_from_one_that_made_a_mistake() {
    let Some(real) = Real::new() else { return };
    let model = real.bench.refusing_model(429);
    let ran = real.dispatch(&model, &[]).exits(6);
    let unit = real.yard.unit();
    assert_eq!(
        unit["error"]["reason"], "rate_limit",
        "{unit} {} {}",
        ran.stdout, ran.stderr
    );
}

/// Gemini CLI speaks the protocol too, in its own words about tools.
#[test]
fn g5_gemini_by_the_protocol_does_a_task_held_back_by_a_lock_and_it_lands() {
    let Some(real) = Real::of(Agent::Gemini, &["--acp"]) else {
        return;
    };
    let yard = &real.yard;
    let _ = yard
        .world
        .jit_as_in("agent:bob", &yard.tree(), ["lock", "acquire", "locked.txt"])
        .ok();
    let write = |file: &str| {
        let path = yard.tree().join(file);
        ModelTurn::tool("write_file", json!({ "file_path": path, "content": "hello\n" }))
    };
    let model = real.bench.model(vec![
        write("locked.txt"),
        write("hello.txt"),
        ModelTurn::tool(
            "run_shell_command",
            json!({ "command": "git add hello.txt && git commit -q -m 'by the agent'", "description": "a step" }),
        ),
        ModelTurn::text("finished"),
        ModelTurn::text("finished"),
    ]);
    let ran = real.dispatch(&model, &[]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit}\n{}\n{}",
        ran.stdout, ran.stderr
    );
    assert!(model.read().contains("do the work 4711"));
    assert!(!yard.tree().join("locked.txt").exists());
    assert!(unit["session_id"].is_string(), "{unit}");
    assert!(unit["turns"].as_u64().expect("turns") >= 3, "{unit}");
    let _ = yard.world.jit(["finish", "u"]).ok();
    let shown = yard.world.git(&yard.world.repo(), ["show", "main:hello.txt"]);
    assert_eq!(shown.trim(), "hello");
}
