//! Command lines, and the guard's decision about each.

mod bounds;

use super::super::ground::tests::land;
use super::*;

const STRICT: Rules = Rules {
    most: RuleMode::Deny,
    outside_worktree: RuleMode::Deny,
    stash: RuleMode::Deny,
    destructive_git: RuleMode::Deny,
};

fn seen(ground: &Ground, rules: &Rules, text: &str) -> (HookDecision, Seen) {
    let root = ground
        .own
        .ancestors()
        .nth(3)
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    let mut verdict = HookDecision::default();
    let text = text.replace('@', &root);
    let seen = judge(ground, rules, &text, &ground.own, &mut verdict);
    (verdict, seen)
}

fn judged(ground: &Ground, rules: &Rules, text: &str) -> (HookDecision, Vec<PathBuf>) {
    let (verdict, seen) = seen(ground, rules, text);
    (verdict, seen.writes)
}

#[test]
fn f9_the_shared_stash_is_refused_wherever_it_stands() {
    let (_folder, ground) = land();
    for text in [
        "git stash",
        "git stash push -m x",
        "git  stash\tpop",
        "true && git stash",
        "true; git stash -u",
        "ls | git stash",
        "(git stash)",
        "echo $(git stash)",
        "echo \"`git stash`\"",
        "env X=1 git stash",
        "X=1 Y=2 git stash",
        "git -C . stash",
        "git -c a.b=c --no-pager stash drop",
        "sh -c 'git stash'",
        "bash -lc \"cd . && git stash\"",
        "eval git stash",
        "/usr/bin/git stash",
        "sudo -u me git stash",
        "timeout 5 git stash",
        "nohup nice -n 5 git stash &",
        "if true; then git stash; fi",
        "for f in a b; do git stash; done",
        "f() { git stash; }; f",
        "xargs git stash < x",
        "git \\\n stash",
        "g'i't st\"as\"h",
        "eval \"$X git stash\"",
        "cat <<E | sh\ngit stash\nE\necho git stash | sh -s $X stash",
        "cat <<E\n$(git stash)\nE",
        "git -c alias.s=stash s",
        "git stash create",
        "git stash store x",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}: {verdict:?}");
        let said = verdict.text().expect("a reason");
        assert!(said.contains("stash"), "{text}: {said}");
    }
}

#[test]
fn f9_ordinary_work_passes() {
    let (_folder, ground) = land();
    for text in [
        "git stash list",
        "git stash show -p",
        "echo git stash",
        "echo 'a; git stash'",
        "git commit -m 'drop the git stash'",
        "git commit -m \"$(cat <<'EOF'\nDon't git stash; it's shared\nEOF\n)\"",
        "# git stash",
        "git log --grep stash",
        "cat stash.txt && grep -rn 'git stash' .",
        "cargo test && git add -A && git commit -q -m x",
        "git push origin own",
        "git push --force origin own",
        "git push --force-with-lease",
        "git branch -D mine",
        "git branch -m better",
        "git checkout -B mine",
        "git reset --hard HEAD~1",
        "git rebase -i main",
        "git merge main",
        "git fetch origin main:refs/remotes/origin/main",
        "cat @/main/README.md",
        "git -C @/main log --oneline | head",
        "git -C @/main status && git diff main",
        "cd @/main && ls && git log",
        "(cd @/main && ls); touch a",
        "cp @/main/.env .env",
        "diff -r @/main/src src",
        "echo x > /dev/null 2>&1",
        "echo x > /tmp/notes.txt",
        "for f in *.rs; do echo \"$f\"; done",
        "python3 -c 'print(1)'",
        "make -j$(nproc)",
        "",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert_eq!(verdict.text(), None, "{text}");
    }
}

#[test]
fn f9_writes_into_other_checkouts_are_refused_with_the_place_to_write_instead() {
    let (_folder, ground) = land();
    for text in [
        "echo x > @/main/a.txt",
        "echo x >> ../../a.txt",
        "cat <<'E' > @/other/a.txt\nx\nE",
        "cd @/main && echo x > a.txt",
        "cd @/main; make > log.txt",
        "pushd @/other && echo x > a",
        "git mv a.txt @/main/a.txt",
        "git -C @/main commit -m x",
        "git --git-dir=@/main/.git --work-tree=@/main add a",
        "GIT_WORK_TREE=@/main git checkout .",
        "cd @/main && git checkout -b x",
        "sh -c 'echo x > @/main/a'",
        "echo x > @/main/$NAME",
        "echo x > @/main/.git/config",
        "bash -c \"sh -c 'echo x > @/main/a'\"",
        "git --git-dir=.git --work-tree=@/other reset --hard",
        "git --git-dir=.git --work-tree=../../../other checkout .",
        "GIT_DIR=.git GIT_WORK_TREE=../../../other git checkout .",
        "export GIT_WORK_TREE=@/other; git checkout .",
        "jit -C @/other issue export --output q1",
        "jit -C ../.. man --output .",
        "jit -C .. -C.. graph -o g.svg",
        "jit issue export --output q1 -C @/other",
        "cd / && jit -C @/other migrate a",
        // The literal paths of git.
        "git bundle create @/other/b HEAD",
        "git bundle create -q ../../b HEAD",
        "git checkout-index -a --prefix=@/other/",
        "cd sub && git checkout-index -a --prefix=../../",
        "cd sub && git read-tree --index-output=../../index HEAD",
        "git read-tree --index-output @/other/i HEAD",
        "git fast-export --export-marks=@/other/m HEAD",
        "git archive -o @/other/a.tar HEAD",
        "git archive --output=@/other/a.tar HEAD",
        "git format-patch -o @/other main",
        "git format-patch --output-dir @/other main",
        "git log -p --output=@/other/a",
        "git worktree add @/main/x",
        "git worktree add -b new ../x HEAD",
        "git worktree add --reas why @/main/x",
        "git init @/other/new",
        "git init --separate-git-dir=@/other/new .",
        "git clone -q https://example.org/x @/other/x",
        "git config -f @/other/x user.name x",
        // Git's folder is not for tools.
        "echo x > @/main/.git/worktrees/own/HEAD",
        "echo x > @/main/.GIT/packed-refs",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}");
    }
    let (verdict, _) = judged(&ground, &STRICT, "echo x > @/main/sub/a.txt");
    let said = verdict.text().expect("a reason");
    let instead = ground.own.join("sub/a.txt");
    assert!(
        said.contains("the main checkout") && said.contains(&*instead.to_string_lossy()),
        "{said}"
    );
}

#[test]
fn f9_branches_that_others_work_on_are_left_alone() {
    let (_folder, mut ground) = land();
    ground.held.push(("held".to_owned(), "agent:bob".to_owned()));
    for text in [
        "git branch -D other",
        "git branch -d mine other",
        "git branch -M other mine",
        "git branch -f main HEAD",
        "git branch --delete --force held",
        "git checkout -B main origin/main",
        "git switch -C held",
        "git worktree add -B other ../x",
        "git worktree remove --force @/other",
        "git push --force origin main",
        "git push -f origin HEAD:held",
        "git push origin +HEAD:main",
        "git push origin --delete other",
        "git push origin :refs/heads/other",
        "git push --mirror origin",
        "git push --force origin $BRANCH",
        "git update-ref refs/heads/main HEAD",
        "git update-ref -d refs/heads/other",
        "git update-ref --stdin",
        "git update-ref refs/jit/rescue/x HEAD",
        "git filter-branch --all",
        "git reflog expire --expire=now --all",
        "git gc --prune=now",
        "git fetch . +own:main",
        "git push --forc origin main",
        "git checkout --ignore-other-worktrees other",
        "git switch --ignore-other main",
        "git worktree add -f /tmp/x other",
        "git worktree add --force /tmp/other",
        "git worktree add --forc /tmp/x held",
        "git fast-import",
        "eval \"git branch -D $X\"",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}");
    }
    let (verdict, _) = judged(&ground, &STRICT, "git branch -D held");
    assert!(
        verdict
            .text()
            .expect("a reason")
            .contains("agent:bob works on it")
    );
}

#[test]
fn f9_each_rule_has_a_mode_of_its_own() {
    let (_folder, ground) = land();
    let rules = Rules {
        most: RuleMode::Deny,
        outside_worktree: RuleMode::Off,
        stash: RuleMode::Warn,
        destructive_git: RuleMode::Deny,
    };
    let (verdict, _) = judged(&ground, &rules, "git stash; echo x > @/main/a");
    assert!(!verdict.is_denied());
    assert!(verdict.text().is_some_and(|text| !text.contains("checkout")));
    let (verdict, _) = judged(&ground, &rules, "git stash; git branch -D main");
    assert!(verdict.is_denied());
    let off = Rules {
        most: RuleMode::Off,
        stash: RuleMode::Off,
        destructive_git: RuleMode::Off,
        ..rules
    };
    let (verdict, _) = judged(&ground, &off, "git stash; git branch -D main; echo 'open");
    assert_eq!(verdict, HookDecision::default());
    let (verdict, _) = judged(&ground, &STRICT, "echo 'open");
    assert!(verdict.is_denied());
}

#[test]
fn f9_the_files_a_command_line_writes_are_seen() {
    let (_folder, ground) = land();
    let text =
        "echo x > a.txt; cd sub && make > b.txt 2> c.txt; (git rm d.txt); cat f.txt; cat < g.txt >> h.txt";
    let (_, writes) = judged(&ground, &STRICT, text);
    let below: Vec<_> = writes
        .iter()
        .filter_map(|path| path.strip_prefix(&ground.own).ok())
        .collect();
    let expected = ["a.txt", "sub/b.txt", "sub/c.txt", "sub/d.txt", "sub/h.txt"];
    assert_eq!(below, expected.map(Path::new));
}

/// Returns the written paths below the own worktree, joined by blanks; `*` for the whole worktree.
fn shown(ground: &Ground, text: &str) -> String {
    let (_, seen) = seen(ground, &STRICT, text);
    let below = |path: &PathBuf| {
        path.strip_prefix(&ground.own)
            .map_or(path.clone(), Path::to_owned)
    };
    let mut out: Vec<String> = seen
        .writes
        .iter()
        .map(|path| below(path).display().to_string())
        .collect();
    out.extend(seen.whole_tree.map(|_| "*".to_owned()));
    out.join(" ")
}

#[test]
fn f9_each_command_writes_what_it_is_known_to_write() {
    let (_folder, ground) = land();
    std::fs::create_dir_all(ground.own.join("src")).expect("a folder");
    std::fs::write(ground.own.join("src/f1.rs"), "x").expect("a file");
    let mut wrong = Vec::new();
    for (text, expected) in [
        // git: named files, and the whole worktree.
        ("git checkout -- src/f1.rs", "src/f1.rs"),
        ("git checkout HEAD~1 -- src/f1.rs", "src/f1.rs"),
        ("git checkout HEAD~1 src/f1.rs", "src/f1.rs"),
        ("git checkout src/f1.rs", "src/f1.rs"),
        ("git checkout .", "*"),
        ("git checkout HEAD~1", "*"),
        ("git checkout -", "*"),
        ("git checkout -b x", ""),
        ("git checkout -b x main", "*"),
        ("git checkout", ""),
        ("git switch x", "*"),
        ("git switch -c x", ""),
        ("git switch -c x main", "*"),
        ("git restore src", "src"),
        ("git restore .", "*"),
        ("git restore :/", "*"),
        ("git restore -s HEAD~1 src/f1.rs", "src/f1.rs"),
        ("git restore --staged src", ""),
        ("git reset --hard", "*"),
        ("git reset --soft HEAD~1", ""),
        ("git apply p.diff", "*"),
        ("git apply --check p.diff", ""),
        ("git am x.mbox", "*"),
        ("git am", "*"),
        ("git merge main", "*"),
        ("git rebase main", "*"),
        ("git pull", "*"),
        ("git cherry-pick x", "*"),
        ("git revert x", "*"),
        ("git clean -fd", "*"),
        ("git clean -fd src", "src"),
        ("git clean -nd", ""),
        ("git clean -fd -- -n", "-n"),
        ("git bundle create b HEAD", "b"),
        ("git bundle create - HEAD", ""),
        ("cd src && git fast-export --export-marks=m HEAD", "m"),
        ("cd src && git log --output=l", "src/l"),
        ("git worktree add new main", "new"),
        ("git init sub", "sub"),
        ("git clone -b main x y", "y"),
        ("git config -f x user.name y", "x"),
        ("git config -f x --get user.name", ""),
        ("git --git-dir=.git commit -m x", ""),
        ("git -C /tmp reset --hard", ""),
        ("git rm src/f1.rs", "src/f1.rs"),
        ("git add -A && git commit -m x", ""),
        ("git diff --output=src/f1.rs", "src/f1.rs"),
        ("git archive -o src/f1.rs HEAD", "src/f1.rs"),
        ("git restore 'src/*.rs'", "src"),
        ("git restore src/{f1,f2}.rs", "*"),
        ("find src -exec git restore {} +", "*"),
        ("ls | xargs git restore", "*"),
        // jit: the files that its own commands write.
        ("jit issue export --output all.jsonl", "all.jsonl"),
        ("jit issue export --output=all.jsonl", "all.jsonl"),
        ("cd src && jit --json graph -o g.svg", "src/g.svg"),
        ("jit graph -og.svg", "g.svg"),
        ("env X=1 jit man --output man/man1", "man/man1"),
        ("jit man --output .", "*"),
        ("jit uninstall --export all.jsonl", "all.jsonl"),
        ("jit migrate --dry-run src/f1.rs", "src/f1.rs"),
        ("jit -C src graph -o g.svg", "src/g.svg"),
        ("jit -C $X graph -o g.svg", "*"),
        ("jit graph", ""),
        // Redirections.
        ("ls | cat > src/f1.rs", "src/f1.rs"),
        ("echo x >> src/f1.rs 2>&1", "src/f1.rs"),
        ("echo x > '~x'", "~x"),
        ("echo x > $F", "*"),
        ("echo x > \"src/$F\"", "*"),
        ("F=a; echo x > $F", "*"),
        ("for f in a b; do echo x > \"$f\"; done", "*"),
        ("make > >(cat)", ""),
        ("bash <<< 'echo > a'", "a"),
        ("bash <<'E'\necho > a\nE", "a"),
        ("bash -c 'echo > a' b", "a"),
        ("eval echo '>' a", "a"),
        ("trap 'echo > a' EXIT", "a"),
        ("cd $X && echo > a", "*"),
        ("cd $X && cat a", ""),
        ("echo x > /nowhere/$NAME.log", ""),
        // Nothing guesses what other programs write.
        ("rm src/f1.rs; touch a; sed -i s/a/b/ src/f1.rs", ""),
        ("python3 x.py src/f1.rs && $X a && cat x | sh", ""),
    ] {
        let written = shown(&ground, text);
        if written != expected {
            wrong.push(format!("{text}: {written:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn f9_wrappers_hide_nothing_that_is_refused() {
    let (_folder, ground) = land();
    for text in [
        "env X=1 nice -n 5 git stash",
        "strace -f git stash",
        "$SUDO git stash",
        "{git,stash} git stash",
        "bash <<< 'git stash'",
        "su -c 'git stash' me",
        "bash <<E\ngit stash\nE",
        "echo git stash | sh",
        "cat <<E | sh\ngit stash\nE",
        "trap 'git stash' EXIT",
        "X=stash; git $X",
        "for x in list pop; do git stash $x; done",
        "find . -exec cat {} \\; -exec git stash \\;",
        "git submodule foreach git stash",
        "git submodule foreach --recursive 'git stash'",
        "git rebase -x 'git stash' main",
        "git symbolic-ref HEAD refs/heads/other",
        "git diff --output=@/main/a",
        "git branch -D {main,x}",
        "ls | xargs git branch -D",
        "git $VERB --all",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}");
    }
    for text in [
        "git symbolic-ref HEAD",
        "git symbolic-ref --short HEAD",
        "find @/main -exec cat {} +",
        "rm -r git && mkdir jit && cd git",
        "trap - EXIT",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert_eq!(verdict.text(), None, "{text}");
    }
}

#[test]
fn l5_settings_of_git_are_read_and_only_harmless_ones_are_set() {
    let (_folder, ground) = land();
    for text in [
        "git config core.hooksPath /dev/null",
        "git config --global core.hookspath x",
        "git config --unset core.hooksPath",
        "git config set core.hooksPath x",
        "git config unset core.hooksPath",
        "git config core.fsmonitor evil",
        "git config include.path x",
        "git config diff.external evil",
        "git config alias.x '!sh'",
        "git config -f x.cfg x.y z",
        "git config -fl x.y z",
        "git config --fil user.name core.fsmonitor evil",
        "git config --comment --list core.fsmonitor evil",
        "git config -- core.fsmonitor --list",
        "git config --add filter.x.clean evil",
        "git config --rename-section user core",
        "git config rename-section color.x core",
        "git config --edit",
        "git config edit",
        "git config $KEY",
        "git config $KEY x",
        "git --git-dir=.git config core.pager evil",
        "git --config-env=core.fsmonitor=X commit -m x",
        "git --config-env core.fsmonitor=X commit -m x",
        "git -c core.fsmonitor=evil status",
        "git -c core.sshCommand=evil fetch",
        "git -c core.hooksPath=/dev/null commit -m x",
        "git -c $X commit -m x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=x git commit -m x",
        "env GIT_CONFIG_KEY_0=$K git status",
        "export GIT_CONFIG_GLOBAL=x; git status",
        "GIT_CONFIG_PARAMETERS=\"'core.pager=x'\" sh -c 'git log'",
        "eval \"git config $X y\"",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}: {verdict:?}");
    }
    for text in [
        "git config core.hooksPath",
        "git config --get core.hooksPath",
        "git config --global --get-all $KEY",
        "git config get core.hooksPath",
        "git config --list --show-origin",
        "git config -l",
        "git config list",
        "git config --bool core.bare",
        "git config user.name x",
        "git config --global user.email \"$MAIL\"",
        "git config set user.name x",
        "git config --unset user.name",
        "git config advice.detachedHead false",
        "git -c user.name=x -c user.email=y commit -m x",
        "git -c color.ui=always -c Core.QuotePath=off diff",
        "git --config-env=user.name=NAME commit -m x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=x git commit -m x",
        "GIT_AUTHOR_NAME=x GIT_EDITOR=true git rebase --continue",
    ] {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert_eq!(verdict.text(), None, "{text}");
    }
}

#[test]
fn f9_an_agent_calls_jit_in_no_other_name() {
    let (_folder, mut ground) = land();
    let others = [
        "jit --agent-id agent:bob claim next",
        "jit claim next --agent-id=agent:bob",
        "JIT_AGENT_ID=agent:bob jit status",
        "env JIT_AGENT_ID=agent:bob jit status",
        "export JIT_AGENT_ID=agent:bob; jit status",
        "X=agent:bob; jit --agent-id $X status",
        "jit --agent-id $X status",
    ];
    let own = [
        "jit status",
        "jit --agent-id agent:ann status",
        "JIT_AGENT_ID=agent:ann jit status",
        "JIT_AGENT_ID=$JIT_AGENT_ID jit status",
        "JIT_AGENT_ID=agent:bob ls",
    ];
    for text in others.iter().chain(&own) {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert_eq!(verdict.text(), None, "nobody is known: {text}");
    }
    ground.agent = Some("agent:ann".to_owned());
    for text in others {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert!(verdict.is_denied(), "{text}");
        assert!(
            verdict.text().expect("a reason").contains("You are agent:ann"),
            "{text}"
        );
    }
    for text in own {
        let (verdict, _) = judged(&ground, &STRICT, text);
        assert_eq!(verdict.text(), None, "{text}");
    }
}
