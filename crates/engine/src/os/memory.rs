//! What a process that mostly sleeps needs to keep in memory.

/// Lets go of the program's code: what runs next is mapped again, from the cache that all processes of this program share.
/// Starting, and whatever is done once in a while, touches most of it, and would count for as long as the process lives.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe interface")]
pub fn let_go_of_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    for line in maps.lines() {
        // `from-to r-xp offset device inode path`
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, "r-xp", _, _, inode, ..] = words.as_slice() else {
            continue;
        };
        let address = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = range
            .split_once('-')
            .map(|(from, to)| (address(from), address(to)));
        if let Some((Some(from), Some(to))) = range
            && *inode != "0"
            && from < to
        {
            // SAFETY: a mapping of a file that is read and run and was never written to: what it holds is what the file
            // holds, and is read from there again.
            unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
        }
    }
}

/// Not needed elsewhere: nobody has asked there.
#[cfg(not(target_os = "linux"))]
pub fn let_go_of_code() {}
