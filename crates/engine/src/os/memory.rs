//! What a process that mostly sleeps needs to keep in memory, and room that one that lists ten thousand issues fills at once.

/// Adds one of many. The kernel finds the pages for the next few hundred in one go; otherwise each page would be asked for
/// when it is first written to, which takes longer than what a list does with the issues on it.
pub fn push<T>(list: &mut Vec<T>, one: T) {
    const AHEAD: usize = 512;
    if list.len().is_multiple_of(AHEAD) && !list.is_empty() {
        list.reserve(AHEAD);
        let room = list.spare_capacity_mut();
        let room = room.get_mut(..AHEAD).unwrap_or_default();
        populate(room.as_mut_ptr().cast(), size_of_val(room));
    }
    list.push(one);
}

/// Has the pages found for the room that a text has, which is about to be filled.
pub fn fill_room(text: &mut String) {
    // SAFETY: nothing is written: what is text stays text.
    #[expect(unsafe_code, reason = "only to find where its room is")]
    let room = unsafe { text.as_mut_vec() }.spare_capacity_mut();
    populate(room.as_mut_ptr().cast(), room.len());
}

#[cfg(target_os = "linux")]
fn populate(from: *mut u8, len: usize) {
    const PAGE: usize = 4096;
    // Only whole pages, and only where it is worth a call.
    let begin = from.addr().next_multiple_of(PAGE);
    let end = (from.addr() + len) / PAGE * PAGE;
    if end.saturating_sub(begin) < 16 * PAGE {
        return;
    }
    let begin = from.wrapping_add(begin - from.addr());
    let len = end - begin.addr();
    // SAFETY: memory of ours that holds nothing yet. Its pages are made to be there and keep what they hold; a kernel that
    // does not know how to (before 5.14) says no, and they come one by one.
    #[expect(unsafe_code, reason = "there is no safe interface")]
    unsafe {
        libc::madvise(begin.cast(), len, libc::MADV_POPULATE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
fn populate(_: *mut u8, _: usize) {}

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
