//! TODO header

/// Ends this process here, as a power cut would, when a test asks for it. Not in what is shipped.
pub(crate) fn step(_name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os("JIT_TEST_DIE_AT").is_some_and(|at| at == _name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
