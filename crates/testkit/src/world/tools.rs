//! System tools that some tests need (strace, libfaketime, mount namespaces), and helpers that such tests share.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Ran, World};

/// Whether `JIT_TEST_LONG` asks for the large versions of tests.
pub fn long() -> bool {
    std::env::var_os("JIT_TEST_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Prints a line into the test's output.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether `JIT_TEST_WITHOUT` excludes the tests that use this tool. Fails if the tool is simply not installed: a test must
/// not pass unnoticed because of that.
#[track_caller]
pub fn without(tool: &str) -> bool {
    let left_out = std::env::var("JIT_TEST_WITHOUT").unwrap_or_default();
    if left_out.split_whitespace().any(|name| name == tool) {
        say(&format!("left out: JIT_TEST_WITHOUT names {tool}"));
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    assert!(
        std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()),
        "this test needs {tool}; to go without it: JIT_TEST_WITHOUT={tool}"
    );
    false
}

/// The command that starts a program in its own mount namespace. `None`, with a line of output, if that is not permitted.
pub fn own_mounts() -> Option<Vec<&'static str>> {
    for words in [vec!["unshare", "-m"], vec!["unshare", "-rm"]] {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["sh", "-c", "mount -t tmpfs none /mnt"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            return Some(words);
        }
    }
    say("left out: this machine does not permit mount namespaces");
    None
}

/// Runs the test `name` of `module` (its `module_path!()`) of this binary once more, in its own mount namespace. Returns
/// whether this is that second run.
#[track_caller]
pub fn inside_own_mounts(module: &str, name: &str) -> bool {
    if std::env::var_os("JIT_TEST_INSIDE").is_some() {
        return true;
    }
    if let Some(way) = own_mounts() {
        let module = module.split_once("::").map_or("", |(_, module)| module);
        let output = Command::new(way[0])
            .args(&way[1..])
            .arg(std::env::current_exe().expect("this binary"))
            .args(["--exact", &format!("{module}::{name}"), "--nocapture"])
            .env("JIT_TEST_INSIDE", "1")
            .output()
            .expect("unshare");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // The runner accepts a name that no test has; here it is a failure.
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    false
}

/// The boot id after a reboot, for [`World::after_reboot`].
pub const OTHER_BOOT: &str = "11111111-2222-4333-8444-555555555555";

/// Waits until `ready` returns true; fails after `patience`.
#[track_caller]
pub fn wait_until(what: &str, patience: Duration, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !ready() {
        assert!(Instant::now() < end, "waited {patience:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The strings of one field in a list of objects.
pub fn field<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item[name].as_str()).collect()
}

/// A copy of a folder in memory: every file with its content, every symbolic link, every mode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    entries: BTreeMap<PathBuf, (u32, FolderEntry)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FolderEntry {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
}

impl Folder {
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut folder = Self::default();
        folder.visit(path, Path::new(""))?;
        Ok(folder)
    }

    fn visit(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = root.join(below);
        let meta = fs::symlink_metadata(&path)?;
        let kept = if meta.is_dir() {
            FolderEntry::Folder
        } else if meta.is_symlink() {
            FolderEntry::Link(fs::read_link(&path)?)
        } else {
            FolderEntry::File(fs::read(&path)?)
        };
        self.entries
            .insert(below.to_owned(), (meta.permissions().mode() & 0o7777, kept));
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                self.visit(root, &below.join(entry?.file_name()))?;
            }
        }
        Ok(())
    }

    /// Restores the folder at `path`.
    pub fn restore(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(path)?,
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        for (below, (mode, kept)) in &self.entries {
            // Joining an empty path would add a slash.
            let place = if below.as_os_str().is_empty() {
                path.to_owned()
            } else {
                path.join(below)
            };
            match kept {
                FolderEntry::Folder => fs::create_dir(&place)?,
                FolderEntry::File(content) => fs::write(&place, content)?,
                FolderEntry::Link(target) => {
                    std::os::unix::fs::symlink(target, &place)?;
                    continue;
                }
            }
            fs::set_permissions(&place, fs::Permissions::from_mode(*mode))?;
        }
        Ok(())
    }

    /// Every path with whether it is a folder, and its permissions.
    pub fn modes(&self) -> impl Iterator<Item = (&Path, bool, u32)> {
        self.entries
            .iter()
            .map(|(path, (mode, kept))| (path.as_path(), *kept == FolderEntry::Folder, *mode))
    }
}

/// The control plane and `.jit/` at one moment, so that a test can repeat a command from the same start.
#[derive(Debug, Clone)]
pub struct Snapshot {
    control: Folder,
    tree: Folder,
}

/// A system call in a trace: its name, its number among calls of that name, and the line.
#[derive(Debug, Clone)]
pub struct TracedCall {
    pub name: String,
    pub nth: usize,
    pub line: String,
}

impl World {
    /// `jit` as this agent in the main worktree.
    pub fn jit_as<A: AsRef<OsStr>>(&self, agent: &str, args: impl IntoIterator<Item = A>) -> Ran {
        self.jit_as_in(agent, &self.repo(), args)
    }

    pub fn jit_as_in<A: AsRef<OsStr>>(
        &self,
        agent: &str,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Ran {
        let mut command = self.jit_command(dir);
        command.env("JIT_AGENT_ID", agent).args(args);
        self.run(command)
    }

    /// The program under test.
    pub fn program(&self) -> &Path {
        &self.jit
    }

    /// `jit` as this agent, started by another program (strace, unshare, setpriv, …) with its options.
    pub fn jit_by_way_of<W: AsRef<OsStr>, A: AsRef<OsStr>>(
        &self,
        way: &[W],
        agent: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let (first, rest) = way.split_first().expect("a program");
        let mut command = self.command(first, &self.repo());
        command
            .env("JIT_AGENT_ID", agent)
            .args(rest)
            .arg(&self.jit)
            .args(args);
        command
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            control: Folder::read(&self.control()).expect("a control plane"),
            tree: Folder::read(&self.repo().join(".jit")).expect("a .jit folder"),
        }
    }

    pub fn restore(&self, snapshot: &Snapshot) {
        snapshot
            .control
            .restore(&self.control())
            .expect("a control plane");
        snapshot
            .tree
            .restore(&self.repo().join(".jit"))
            .expect("a .jit folder");
    }

    /// Every event of the log.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        match self.jit(["events", "--json"]).ok().json()["events"].take() {
            Value::Array(events) => events,
            other => panic!("not a list: {other}"),
        }
    }

    /// The number of transactions with this request id.
    #[track_caller]
    pub fn effects_of(&self, request: &str) -> usize {
        let events = self.events();
        let carries = |event: &&Value| event["request"]["id"] == request && event["tx"][0] == 1;
        events.iter().filter(carries).count()
    }

    /// Fails unless all files that are derived from the log agree with it.
    #[track_caller]
    pub fn validates(&self) -> Value {
        let report = self.jit(["validate", "--json"]).ok().json();
        assert_eq!(report["ok"], true, "{report}");
        report
    }

    /// The system calls of `jit` with these arguments, in order, from its start to its end.
    #[track_caller]
    pub fn trace<A: AsRef<OsStr>>(
        &self,
        agent: &str,
        args: impl IntoIterator<Item = A>,
    ) -> (Ran, Vec<TracedCall>) {
        let out = self.root().join("trace");
        let way: [OsString; 6] = [
            "strace".into(),
            "-f".into(),
            "-qq".into(),
            "-s256".into(),
            "-o".into(),
            out.clone().into(),
        ];
        let ran = self.run(self.jit_by_way_of(&way, agent, args));
        let text = String::from_utf8_lossy(&fs::read(&out).expect("a trace")).into_owned();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut calls = Vec::new();
        for line in text.lines() {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
            let Some((name, _)) = rest.split_once('(') else {
                continue;
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                continue;
            }
            let nth = counts.entry(name.to_owned()).or_default();
            *nth += 1;
            calls.push(TracedCall {
                name: name.to_owned(),
                nth: *nth,
                line: rest.to_owned(),
            });
        }
        (ran, calls)
    }

    /// The command that starts a program with another boot id, as after a reboot.
    pub fn after_reboot(&self, own_mounts: &[&str], boot_id: &str) -> Vec<OsString> {
        let file = self.root().join(format!("boot-{boot_id}"));
        fs::write(&file, format!("{boot_id}\n")).expect("a file");
        let script = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
        let mut way: Vec<OsString> = own_mounts.iter().map(OsString::from).collect();
        way.extend(["sh".into(), "-c".into(), script.into(), file.into()]);
        way
    }
}
