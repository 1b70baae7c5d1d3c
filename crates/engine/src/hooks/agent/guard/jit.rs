//! jit's own commands: the files that they write, and the agent that they act as.

use jit_agents::hooks::decision::Objection;
use jit_agents::hooks::shell::Word;

use super::{Cwd, Judge, Scope, options};

/// Options whose value is a file or folder that jit writes, whatever the command.
const OUTPUTS: &[&str] = &["--output", "-o", "--export"];

impl Judge<'_> {
    pub(super) fn jit(&mut self, args: &[Word], scope: &Scope) {
        self.acts_as(args, scope);
        let cwd = &self.started_in(args, &scope.cwd);
        for file in options::values(args, OUTPUTS) {
            self.operand(&file, cwd);
        }
        // `jit migrate FILE` replaces that file.
        let free = options::free(args, &["-C"]);
        let migrated = free.iter().skip_while(|word| word.text != "migrate").skip(1);
        for file in migrated {
            self.operand(file, cwd);
        }
    }

    /// Returns the folder in which `jit -C` runs. Each one is relative to the one before.
    fn started_in(&self, args: &[Word], cwd: &Cwd) -> Cwd {
        let is_output = |word: &&Word| word.text.len() > 2 && word.text.starts_with("-o");
        let args: Vec<Word> = args.iter().filter(|word| !is_output(word)).cloned().collect();
        options::values(&args, &["-C"])
            .iter()
            .fold(cwd.clone(), |cwd, word| match word.known {
                true => self.below(&cwd, &word.text),
                false => None,
            })
    }

    /// Objects if an agent calls jit under another agent's id.
    fn acts_as(&mut self, args: &[Word], scope: &Scope) {
        let Some(own) = self.ground.agent.as_deref() else {
            return;
        };
        let option = options::values(args, &["--agent-id"]).into_iter().next();
        let Some(other) = option.or_else(|| scope.agent.clone()) else {
            return;
        };
        // Passing on its own variable is not another id.
        let same = [own, "$JIT_AGENT_ID", "${JIT_AGENT_ID}"].contains(&other.text.as_str());
        if !same {
            let what = format!("You are {own}, and this calls jit as {}.", other.text);
            let instead = "Leave the agent id out: jit knows you.";
            self.verdict.add(self.rules.most, Objection::new(what, instead));
        }
    }
}
