//! The flags of every command that starts agents, and the announcement of an agent with its limits.
//!
//! What must hold: an option of jit after the name of the agent's program is refused, unless `--` follows that name.

use jit_core::model::plan::Settings;
use jit_store::Outcome;

use crate::invocation::invalid;
use crate::render::clean_line;

// Settings of an agent, for every command that starts one. No doc comment: clap would use it as help of those commands.
#[derive(Debug, Default, clap::Args)]
pub struct RunFlags {
    /// Which one: claude, codex, gemini, acp for a program that speaks that protocol, command for any other
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Which of several accounts of the agent, in one word of yours
    #[arg(long, value_name = "WORD", value_parser = account)]
    account: Option<String>,
    /// The program and its arguments, for --agent command and acp; all that follows belongs to it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    command: Option<Vec<String>>,
    /// Of the agent's models
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// So many turns at most
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,
    /// So many dollars at most, for all attempts together
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// So many tokens at most, for all attempts together
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// So long at most
    #[arg(long, value_name = "D")]
    timeout: Option<String>,
    /// Permission mode, in the agent's own word
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// One answer at its end instead of a conversation, for --agent claude
    #[arg(long)]
    one_shot: bool,
    /// Tool that it may use without asking; may be repeated
    #[arg(long = "allow", value_name = "TOOL")]
    allow: Vec<String>,
}

fn account(text: &str) -> Result<String, String> {
    match jit_core::model::account::is_word(text) {
        true => Ok(text.to_owned()),
        false => Err("an account is a word of at most 39 letters, digits, '-', '_' and '.'".to_owned()),
    }
}

/// Options of jit's commands that start agents. Behind the name of a program, such an option is probably meant for jit.
const OURS: &[&str] = &[
    "--account",
    "--agent",
    "--allow",
    "--budget",
    "--detach",
    "--dry-run",
    "--force",
    "--json",
    "--max",
    "--one-shot",
    "--prompt",
    "--quiet",
    "--ready",
    "--timeout",
    "--wait",
    "--writes",
];

/// Returns the words of a program. Refuses an option of jit among them, unless `--` follows the program's name.
fn own_words(mut words: Vec<String>) -> Outcome<Vec<String>> {
    if words.get(1).is_some_and(|word| word == "--") {
        words.remove(1);
        return Ok(words);
    }
    let named = |word: &&String| OURS.contains(&word.split('=').next().unwrap_or_default());
    match words.iter().skip(1).find(named) {
        None => Ok(words),
        Some(flag) => Err(invalid(format!(
            "{flag} would be given to {:?}: jit's own options come before --command; for an option of the program's, write -- \
             after its name",
            words[0]
        ))),
    }
}

impl RunFlags {
    /// Returns the settings for an agent kind that another flag names. Refuses an `--agent` that differs from it.
    pub fn for_kind(mut self, kind: &str) -> Outcome<Settings> {
        if let Some(other) = self.agent.as_deref().filter(|other| *other != kind) {
            return Err(invalid(format!(
                "the agent is {kind:?}, and --agent says {other:?}"
            )));
        }
        self.agent = Some(kind.to_owned());
        self.settings()
    }

    pub fn settings(self) -> Outcome<Settings> {
        if self.budget.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) || self.budget_tokens == Some(0) {
            return Err(invalid(
                "a budget is a number of US dollars such as 2.50, or of tokens, and more than none; without one, that of \
                 the configuration holds",
            ));
        }
        let agent = match (&self.agent, &self.command) {
            (None, Some(_)) => Some("command".to_owned()),
            _ => self.agent,
        };
        Ok(Settings {
            agent,
            account: self.account,
            command: self.command.map(own_words).transpose()?,
            model: self.model,
            allowed_tools: Some(self.allow).filter(|tools| !tools.is_empty()),
            permission_mode: self.permission_mode,
            one_shot: Some(true).filter(|_| self.one_shot),
            max_turns: self.max_turns,
            budget_usd: self.budget,
            budget_tokens: self.budget_tokens,
            timeout: self.timeout,
            ..Settings::default()
        })
    }
}

/// Returns the agent and its limits, to be printed before money is spent.
pub fn announce(run: &Settings) -> String {
    let money = match run.budget() {
        Some(usd) => format!("{} at most", money(usd.0)),
        None => "any amount of money".to_owned(),
    };
    format!(
        "{}, {} at most, {money}",
        clean_line(run.agent.as_deref().unwrap_or("-")),
        run.timeout.as_deref().unwrap_or("-")
    )
}

/// Formats millionths of a dollar as dollars.
pub fn money(micro: u64) -> String {
    format!("${:.2}", micro as f64 / 1e6)
}
