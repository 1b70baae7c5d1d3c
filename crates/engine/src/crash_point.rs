//! Crash points for tests.

/// Kills this process like a power cut if a test requests it at this point. Not part of release builds.
pub(crate) fn step(_name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os("JIT_TEST_DIE_AT").is_some_and(|at| at == _name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
