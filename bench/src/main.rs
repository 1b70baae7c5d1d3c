//! Measures `jit` against what the machine can do at all, and prints ratios.
//!
//! `bench/run [filter]` builds everything and runs this. Absolute times say more about the machine and its neighbours than
//! about the program, so each figure is a ratio of medians from one run, of programs that were started in turn. A limit
//! that is not kept makes the exit code 1.
//!
//! Limitations: whole processes are timed, nothing inside them; the file system is the one that `target` is on; the
//! yardsticks are programs as cargo links them, `jit` is linked as `build/lean_link.rs` can.
#![expect(clippy::print_stdout, reason = "the table is the point of this program")]

mod agents;
mod contend;
mod fill;
mod issues;
mod landing;
mod report;
mod scratch;
mod spawn;
mod stats;
mod units;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use contend::{Crowd, contend};
use fill::History;
use report::{Limit, Report};
use scratch::{Repo, Scratch, Tools};
use spawn::Program;
use stats::Summary;

const USAGE: &str = "usage: bench [filter] [--jit PATH] [--dir DIR] [--pairs N] [--seconds N] [--workers N]

  filter     part of a section's name: start, claim, contend, scale, hooks, issues, units, landing, agents, size
  --jit      the program to measure (default: jit beside this one)
  --dir      where to make the scratch repositories (default: the folder this program's folder is in)
  --pairs    how often each program is started in turn (default 300)
  --seconds  how long each round of contention lasts (default 2)
  --workers  how many processes contend (default 64)";

struct Options {
    filter: String,
    jit: Option<PathBuf>,
    dir: Option<PathBuf>,
    pairs: usize,
    round: Duration,
    workers: usize,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut o = Self {
            filter: String::new(),
            jit: None,
            dir: None,
            pairs: 300,
            round: Duration::from_secs(2),
            workers: 64,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let number = |text: String| match text.parse() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("{text:?} is not a number above 0")),
            };
            match arg.as_str() {
                "--jit" => o.jit = Some(value()?.into()),
                "--dir" => o.dir = Some(value()?.into()),
                "--pairs" => o.pairs = number(value()?)?,
                "--seconds" => o.round = Duration::from_secs(number(value()?)? as u64),
                "--workers" => o.workers = number(value()?)?,
                flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
                filter => o.filter = filter.to_owned(),
            }
        }
        if !SECTIONS.iter().any(|(name, _)| name.contains(&o.filter)) {
            return Err(format!("no section is called {:?}", o.filter));
        }
        Ok(o)
    }
}

struct Bench<'a> {
    options: &'a Options,
    tools: &'a Tools,
    scratch: &'a Scratch,
    report: Report,
}

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            let _ = writeln!(io::stderr(), "error: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let own = std::env::current_exe()?.canonicalize()?;
    let beside = own.parent().unwrap_or(Path::new("."));
    let tools = find_tools(options, beside)?;
    let parent = match &options.dir {
        Some(dir) => dir.canonicalize()?,
        None => beside.parent().unwrap_or(beside).to_owned(),
    };
    if scratch::in_memory(&parent) {
        let why = "is in memory, where a sync costs nothing: name a folder on a disk with --dir";
        return Err(io::Error::other(format!("{} {why}", parent.display())));
    }
    let mut scratch = Scratch::create(&parent)?;
    match measure(options, &tools, &scratch) {
        Ok(report) => Ok(report.close()),
        Err(e) => {
            scratch.keep();
            Err(io::Error::other(format!(
                "{e}\nleft for inspection: {}",
                scratch.root().display()
            )))
        }
    }
}

fn find_tools(options: &Options, beside: &Path) -> io::Result<Tools> {
    let present = |path: PathBuf| match path.canonicalize() {
        Ok(full) => Ok(full),
        Err(e) => Err(io::Error::other(format!(
            "{}: {e} (bench/run builds what is needed)",
            path.display()
        ))),
    };
    Ok(Tools {
        jit: present(options.jit.clone().unwrap_or_else(|| beside.join("jit")))?,
        git: spawn::on_path("git").ok_or_else(|| io::Error::other("git is not on the PATH"))?,
        floor: present(beside.join("floor"))?,
        hello: present(beside.join("hello"))?,
        read_issues: present(beside.join("read_issues"))?,
        speaker: present(beside.join("speaker"))?,
    })
}

/// One section of the table.
type Section = (&'static str, fn(&mut Bench<'_>) -> io::Result<()>);

const SECTIONS: [Section; 10] = [
    ("start", |b| b.start()),
    ("claim", |b| b.claim()),
    ("contend", |b| b.contend()),
    ("scale", |b| b.scale()),
    ("hooks", |b| b.hooks()),
    ("issues", |b| b.issues()),
    ("units", |b| b.units()),
    ("landing", |b| b.landing()),
    ("agents", |b| b.agents()),
    ("size", |b| b.size()),
];

fn measure(options: &Options, tools: &Tools, scratch: &Scratch) -> io::Result<Report> {
    let mut bench = Bench {
        options,
        tools,
        scratch,
        report: Report::default(),
    };
    for (name, section) in SECTIONS {
        if name.contains(&options.filter) {
            section(&mut bench)?;
        }
    }
    Ok(bench.report)
}

impl Bench<'_> {
    fn times<const N: usize>(
        &self,
        programs: &[Program; N],
        pairs: &[(usize, usize)],
    ) -> io::Result<[Summary; N]> {
        let samples = spawn::interleave(programs, pairs, self.options.pairs, &self.scratch.complaints)?;
        let all: Option<Vec<_>> = samples.iter().map(|s| Summary::of(s)).collect();
        all.and_then(|v| v.try_into().ok())
            .ok_or_else(|| io::Error::other("no samples"))
    }

    /// How long a process takes to start and end when it has nothing to do.
    fn start(&mut self) -> io::Result<()> {
        let repo = Repo::create(self.scratch, self.tools, "start")?;
        let [hello, jit, git] = self.times(
            &[repo.hello(), repo.jit(&["--version"]), repo.git(&["--version"])],
            &[],
        )?;
        let r = &mut self.report;
        r.section(&format!("start: {} of each, in turn", self.options.pairs));
        r.header();
        r.times("hello", &hello);
        r.against("jit --version", &jit, "hello", &hello, Some(Limit::AtMost(1.5)));
        r.against("git --version", &git, "hello", &hello, None);
        Ok(())
    }

    /// The time that one agent waits for its claim.
    fn claim(&mut self) -> io::Result<()> {
        let repo = Repo::create(self.scratch, self.tools, "claim")?;
        let log = self.scratch.dir("claim-floor")?;
        let [acquire, release] = repo.issue(1)?;
        let [floor, acquire, inside, release, git] = self.times(
            &[
                repo.floor(&[], &log),
                acquire,
                repo.floor(&["--sync-inside"], &log),
                release,
                repo.git(&["rev-parse", "HEAD"]),
            ],
            &[(1, 3)],
        )?;
        let r = &mut self.report;
        r.section(&format!("claim: {} of each, in turn", self.options.pairs));
        r.header();
        r.times("floor", &floor);
        r.against(
            "jit claim acquire",
            &acquire,
            "floor",
            &floor,
            Some(Limit::AtMost(1.5)),
        );
        r.against(
            "jit claim release",
            &release,
            "floor",
            &floor,
            Some(Limit::AtMost(1.5)),
        );
        r.against("floor --sync-inside", &inside, "floor", &floor, None);
        r.against("git rev-parse HEAD (reads only)", &git, "floor", &floor, None);
        Ok(())
    }

    /// Many agents at once, each acquiring and releasing its own issue: they contend for the store's lock.
    fn contend(&mut self) -> io::Result<()> {
        const TURNS: usize = 5;
        let workers = self.options.workers;
        let repo = Repo::create(self.scratch, self.tools, "contend")?;
        let log = self.scratch.dir("contend-floor")?;
        let claims: Vec<Vec<Program>> = (1..=workers)
            .map(|n| repo.issue(n).map(Vec::from))
            .collect::<io::Result<_>>()?;
        let floors = vec![vec![repo.floor(&[], &log); 2]; workers];
        let (mut jit, mut floor) = (Crowd::default(), Crowd::default());
        for _ in 0..TURNS {
            floor = floor.and(contend(&floors, self.options.round, &self.scratch.complaints)?);
            jit = jit.and(contend(&claims, self.options.round, &self.scratch.complaints)?);
        }
        let r = &mut self.report;
        r.section(&format!(
            "contend: {workers} workers, {TURNS} x {:?} each, in turn",
            self.options.round
        ));
        r.figure("floor", floor.per_second(), "/s", None);
        r.figure("jit acquire and release", jit.per_second(), "/s", None);
        r.figure(
            "throughput, jit / floor",
            jit.per_second() / floor.per_second(),
            "x",
            Some(Limit::AtLeast(0.6)),
        );
        // A starving worker waits for about the whole run and gets next to nothing. Some unevenness comes from the
        // scheduler: the floor, which is only the kernel's own queue, shows how much.
        for (name, crowd, limits) in [
            ("floor", &floor, [None, None]),
            (
                "jit",
                &jit,
                [Some(Limit::AtMost(0.5)), Some(Limit::AtLeast(0.25))],
            ),
        ] {
            let worst = format!("of the run ({:.0} ms)", crowd.worst.as_secs_f64() * 1e3);
            r.figure(
                &format!("{name}: longest wait of one process"),
                crowd.worst_share,
                &worst,
                limits[0],
            );
            r.figure(
                &format!("{name}: least lucky worker"),
                crowd.least_share(),
                "of the average",
                limits[1],
            );
        }
        Ok(())
    }

    /// The same claim with a long history.
    fn scale(&mut self) -> io::Result<()> {
        const HISTORY: History = History {
            records: 1_000_000,
            leases: 10_000,
        };
        let empty = Repo::create(self.scratch, self.tools, "scale-empty")?;
        let full = Repo::create(self.scratch, self.tools, "scale-full")?;
        self.report.section("scale: a long history against an empty one");
        if let Err(why) = fill::fill(&full.dir, HISTORY) {
            self.report.not_measured("claim cost at scale", &why);
            return Ok(());
        }
        let ([empty_acquire, empty_release], [full_acquire, full_release]) =
            (empty.issue(1)?, full.issue(1)?);
        let [ea, fa, er, fr] = self.times(
            &[empty_acquire, full_acquire, empty_release, full_release],
            &[(0, 2), (1, 3)],
        )?;
        let r = &mut self.report;
        r.header();
        r.times("acquire, empty log", &ea);
        r.against("acquire, long log", &fa, "empty", &ea, Some(Limit::AtMost(1.5)));
        r.times("release, empty log", &er);
        r.against("release, long log", &fr, "empty", &er, Some(Limit::AtMost(1.5)));
        Ok(())
    }

    /// The delay of the hooks before each edit and each commit.
    fn hooks(&mut self) -> io::Result<()> {
        const STAGED: usize = 1000;
        let repo = Repo::create(self.scratch, self.tools, "hooks")?;
        repo.jit(&["hooks", "install", "--quiet"]).run()?;
        let about = |name: &str, file: &str| -> io::Result<PathBuf> {
            let path = repo.dir.with_extension(name);
            let cwd = repo.dir.display();
            let text = format!(
                r#"{{"session_id":"bench","transcript_path":"","cwd":"{cwd}","hook_event_name":"PreToolUse","permission_mode":"default","tool_name":"Write","tool_input":{{"file_path":"{cwd}/{file}","content":"x"}},"tool_use_id":"t"}}"#
            );
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let held = about("held.json", "held.txt")?;
        let start = about("start.json", "start.txt")?;
        let hook = |event: &str, input: &Path| {
            repo.jit(&["hooks", "agent", "claude", event, "--agent-id", "agent:bench"])
                .input(input)
        };
        hook("SessionStart", &start).run()?;
        hook("PreToolUse", &held).run()?;
        std::fs::create_dir(repo.dir.join("many"))?;
        for n in 0..STAGED {
            std::fs::write(repo.dir.join(format!("many/{n}.txt")), n.to_string())?;
        }
        repo.git(&["add", "many"]).run()?;
        let [git, pre_tool, pre_commit, state] = self.times(
            &[
                repo.git(&["rev-parse", "HEAD"]),
                hook("PreToolUse", &held),
                repo.jit(&["hooks", "run", "pre-commit"]),
                repo.jit(&["lock", "list"]),
            ],
            &[],
        )?;
        let r = &mut self.report;
        r.section(&format!("hooks: {} of each, in turn", self.options.pairs));
        r.header();
        r.times("git rev-parse HEAD", &git);
        r.against("jit lock list (one read of the state)", &state, "git", &git, None);
        r.against("PreToolUse, file held", &pre_tool, "git", &git, None);
        let staged = format!("pre-commit, {STAGED} files staged");
        r.against(&staged, &pre_commit, "git", &git, None);
        // The floor of both: asking git for its folders, and reading the state once.
        let both = (git.median + state.median).as_secs_f64();
        for (name, hook) in [("PreToolUse", &pre_tool), ("pre-commit", &pre_commit)] {
            let ratio = hook.median.as_secs_f64() / both;
            r.figure(
                &format!("{name} / (git + one read)"),
                ratio,
                "x",
                Some(Limit::AtMost(2.0)),
            );
        }
        Ok(())
    }

    /// Worktrees and branches of a large repository, against git doing the same.
    fn units(&mut self) -> io::Result<()> {
        let repo = Repo::create(self.scratch, self.tools, "units")?;
        units::fill(&repo)?;
        // A checkout of this size takes seconds.
        let rounds = (self.options.pairs / 60).max(3);
        let summary =
            |samples: &[Duration]| Summary::of(samples).ok_or_else(|| io::Error::other("no samples"));
        let complaints = &self.scratch.complaints;
        let r = &mut self.report;
        r.section(&format!(
            "units: {} files, {rounds} of each, in turn",
            units::FILES
        ));
        r.header();
        let [git_add, create] = units::create(&repo, rounds, complaints)?;
        let (git_add, create) = (summary(&git_add)?, summary(&create)?);
        r.times("git worktree add", &git_add);
        r.against(
            "jit worktree create",
            &create,
            "git",
            &git_add,
            Some(Limit::AtMost(1.1)),
        );
        let [one_each, together] = units::pairs(&repo, rounds.min(3), complaints)?;
        let (one_each, together) = (summary(&one_each)?, summary(&together)?);
        r.times("git merge-tree, a process a pair", &one_each);
        let asked = format!("jit conflicts, {} branches", units::BRANCHES);
        r.against(&asked, &together, "git", &one_each, None);
        r.figure(
            "all pairs, git / jit",
            one_each.ratio(&together),
            "x",
            Some(Limit::AtLeast(8.0)),
        );
        let saves = units::saves(&repo, 2 * rounds, complaints)?;
        r.figure(
            &format!("after a save, {} worktrees", units::WORKTREES),
            summary(&saves)?.median.as_secs_f64() * 1e3,
            "ms",
            Some(Limit::AtMost(100.0)),
        );
        Ok(())
    }

    /// Landing and removing finished work, and the answer about one pair.
    fn landing(&mut self) -> io::Result<()> {
        let small = Repo::create(self.scratch, self.tools, "landing")?;
        landing::fill(&small)?;
        let r = &mut self.report;
        r.section("landing: processor time of a batch, and removals and one pair, in turn");
        if cfg!(target_os = "linux") {
            let [_, few] = landing::batch(&small, landing::FEW)?;
            let [git, many] = landing::batch(&small, landing::BATCH)?;
            r.figure(
                &format!("merge --all of {} / git merges", landing::BATCH),
                many / git,
                "x",
                Some(Limit::AtMost(5.0)),
            );
            r.figure(
                &format!("a unit of {} / one of {}", landing::BATCH, landing::FEW),
                many / few * landing::FEW as f64 / landing::BATCH as f64,
                "x",
                Some(Limit::AtMost(1.3)),
            );
        } else {
            r.not_measured("merge --all", "what children used is known on Linux only");
        }
        let rounds = (self.options.pairs / 10).max(5);
        self.remove_and_look(&small, landing::FILES, rounds)?;
        let large = Repo::create(self.scratch, self.tools, "landing-large")?;
        units::fill(&large)?;
        self.remove_and_look(&large, units::FILES, (rounds / 6).max(3))
    }

    fn remove_and_look(&mut self, repo: &Repo<'_>, files: usize, rounds: usize) -> io::Result<()> {
        let summary =
            |samples: &[Duration]| Summary::of(samples).ok_or_else(|| io::Error::other("no samples"));
        let [tree, branch, jit] = landing::remove(repo, rounds, &self.scratch.complaints)?;
        let (tree, branch, jit) = (summary(&tree)?, summary(&branch)?, summary(&jit)?);
        let [a, b] = [1, 2].map(units::branch);
        let [git_pair, jit_pair] = self.times(
            &[
                repo.git(&["merge-tree", "--write-tree", &a, &b]),
                repo.jit(&["conflicts", &a, &b, "--json"]),
            ],
            &[],
        )?;
        let r = &mut self.report;
        println!("  {files} files:");
        r.header();
        r.times("git worktree remove", &tree);
        r.against("and git branch -d", &branch, "git", &tree, None);
        r.against(
            "jit worktree cleanup",
            &jit,
            "git",
            &tree,
            Some(Limit::AtMost(1.5)),
        );
        r.times("git merge-tree", &git_pair);
        r.against(
            "jit conflicts, one pair",
            &jit_pair,
            "git",
            &git_pair,
            Some(Limit::AtMost(3.0)),
        );
        Ok(())
    }

    /// The cost of watching many agents, and the delay until the first one starts.
    fn agents(&mut self) -> io::Result<()> {
        if !cfg!(target_os = "linux") {
            self.report
                .not_measured("agents", "what a process uses is known on Linux only");
            return Ok(());
        }
        let repo = Repo::create(self.scratch, self.tools, "agents")?;
        let complaints = &self.scratch.complaints;
        let rounds = (self.options.pairs / 30).max(3);
        let [create, begin] = agents::first(&repo, &self.tools.speaker, rounds, complaints)?;
        let summary =
            |samples: &[Duration]| Summary::of(samples).ok_or_else(|| io::Error::other("no samples"));
        let (create, begin) = (summary(&create)?, summary(&begin)?);
        let counted = self.options.round * 3;
        let watched = agents::watch(&repo, &self.tools.speaker, counted, complaints)?;
        let r = &mut self.report;
        r.section(&format!(
            "agents: {} at once, {} events a second each, counted for {} s",
            agents::AGENTS,
            agents::EACH,
            counted.as_secs()
        ));
        r.header();
        r.times("jit worktree create", &create);
        r.against("jit run, to its agent", &begin, "create", &create, None);
        let beyond = begin.median.saturating_sub(create.median).as_secs_f64() * 1e3;
        r.figure("beyond the worktree", beyond, "ms", Some(Limit::AtMost(150.0)));
        r.figure("events", watched.events_per_second, "/ s", None);
        r.figure("coordinator", watched.coordinator_percent, "% of a core", None);
        r.figure("all shims", watched.shims_percent, "% of a core", None);
        r.figure(
            "coordinator and shims",
            watched.percent(),
            "% of a core",
            Some(Limit::AtMost(10.0)),
        );
        r.figure("an event", watched.micros_per_event(), "µs", None);
        r.figure(
            "memory of a shim (PSS)",
            watched.pss,
            "MB",
            Some(Limit::AtMost(4.0)),
        );
        r.figure("memory of a shim (RSS)", watched.rss, "MB", None);
        Ok(())
    }

    /// The cost of many issues: lists against git and against reading every file, single issues against few.
    fn issues(&mut self) -> io::Result<()> {
        const MANY: usize = 10_000;
        let few = Repo::create(self.scratch, self.tools, "issues-few")?;
        let many = Repo::create(self.scratch, self.tools, "issues-many")?;
        issues::fill(&few, 10)?;
        issues::fill(&many, MANY)?;
        let rounds = (self.options.pairs / 10).max(5);
        let lists = [
            many.git(&["status"]),
            many.read_issues(),
            many.jit(&["ready"]),
            many.jit(&["issue", "list"]),
            many.jit(&["status"]),
            many.jit(&["ready", "--json"]),
            many.jit(&["issue", "list", "--json"]),
        ];
        let samples = spawn::interleave(&lists, &[], rounds, &self.scratch.complaints)?;
        let times: Vec<Summary> = samples.iter().filter_map(|s| Summary::of(s)).collect();
        // Measured alone: it takes as long as a hundred lists, and freeing its memory afterwards would count as theirs.
        let whole = [many.jit(&["validate"]), few.jit(&["validate"])];
        let samples = spawn::interleave(&whole, &[], 5, &self.scratch.complaints)?;
        let validates: Vec<Summary> = samples.iter().filter_map(|s| Summary::of(s)).collect();
        let ([git, read, ready, list, status, ready_json, list_json], [validate, validate_few]) =
            (&times[..], &validates[..])
        else {
            return Err(io::Error::other("no samples"));
        };
        let r = &mut self.report;
        r.section(&format!("issues: {MANY} of them, {rounds} of each list, in turn"));
        r.header();
        r.times("git status", git);
        r.times("reading and parsing every issue.json", read);
        for (name, one, limited) in [
            ("jit ready", ready, true),
            ("jit issue list", list, true),
            ("jit status", status, true),
            ("jit ready --json", ready_json, false),
            ("jit issue list --json", list_json, false),
        ] {
            let limit = |most: f64| limited.then_some(Limit::AtMost(most));
            r.against(name, one, "git status", git, limit(2.0));
            r.against(name, one, "reading", read, limit(0.2));
        }
        // Half a second where reading takes 60 ms.
        r.against(
            "jit validate",
            validate,
            "reading",
            read,
            Some(Limit::AtMost(8.0)),
        );
        r.against("jit validate", validate, "10 issues", validate_few, None);
        if let Some(peer) = issues::peer(&many, self.scratch, MANY)? {
            let programs = [peer, many.jit(&["ready"])];
            let samples = spawn::interleave(&programs, &[], 5, &self.scratch.complaints)?;
            let times: Vec<Summary> = samples.iter().filter_map(|s| Summary::of(s)).collect();
            if let [peer, ready] = &times[..] {
                r.times("backlog task list", peer);
                r.against("jit ready", ready, "backlog task list", peer, None);
            }
        }
        self.singles(&few, &many)?;
        self.words(&many)
    }

    fn singles(&mut self, few: &Repo<'_>, many: &Repo<'_>) -> io::Result<()> {
        let each = |repo: &Repo<'_>| -> io::Result<[Program; 5]> {
            let [acquire, release] = repo.issue(1)?;
            Ok([
                repo.jit(&["issue", "create", "one more", "--json"]),
                repo.jit(&["issue", "show", "ISSUE-000005", "--json"]),
                repo.jit(&["issue", "update", "ISSUE-000006", "--description", "x", "--json"]),
                acquire,
                release,
            ])
        };
        let ([c, s, u, a, r], [mc, ms, mu, ma, mr]) = (each(few)?, each(many)?);
        let programs = [c, mc, s, ms, u, mu, a, ma, r, mr];
        let [c, mc, s, ms, u, mu, a, ma, _, _] = self.times(&programs, &[(6, 8), (7, 9)])?;
        let r = &mut self.report;
        for (name, of_few, of_many) in [
            ("issue create", &c, &mc),
            ("issue show", &s, &ms),
            ("issue update", &u, &mu),
            ("claim acquire", &a, &ma),
        ] {
            r.times(&format!("{name}, 10 issues"), of_few);
            r.against(
                &format!("{name}, many"),
                of_many,
                "10 issues",
                of_few,
                Some(Limit::AtMost(1.2)),
            );
        }
        Ok(())
    }

    /// Agents pay for every word that they read. A token is about four bytes of such text.
    fn words(&mut self, many: &Repo<'_>) -> io::Result<()> {
        const ASKED: &str = "100";
        let fields = [
            "ready",
            "--json",
            "--limit",
            ASKED,
            "--fields",
            "id,title,priority,labels",
        ];
        let bytes = many.jit(&fields).output()?;
        let tokens = bytes.len() as f64 / 4.0 / 100.0;
        self.report.figure(
            "ready --json --fields: tokens an issue",
            tokens,
            "",
            Some(Limit::AtMost(60.0)),
        );
        Ok(())
    }

    fn size(&mut self) -> io::Result<()> {
        let megabytes = |path: &Path| path.metadata().map(|m| m.len() as f64 / 1e6);
        let (jit, hello) = (megabytes(&self.tools.jit)?, megabytes(&self.tools.hello)?);
        let r = &mut self.report;
        r.section("size");
        r.figure("hello", hello, "MB", None);
        r.figure("jit", jit, "MB", Some(Limit::AtMost(16.0)));
        Ok(())
    }
}
