//! Memory use of two kinds of processes: one that mostly sleeps, and one that lists ten thousand issues and exits.
//!
//! Finding five hundred small pages takes the kernel ten times as long as finding one large one of the same size; for ten
//! thousand issues that is longer than what a list does with them.

/// The allocator of the system, but for large blocks, which are mapped one by one, aligned so that they can be in large
/// pages. The size of a block says which kind it is: nothing is written beside it.
#[derive(Debug)]
pub struct Allocator;

#[cfg(target_os = "linux")]
mod linux {
    #![expect(
        unsafe_code,
        reason = "an allocator; and there is no safe interface to what the kernel is told here"
    )]

    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::Allocator;

    const LARGE_PAGE: usize = 2 << 20;
    const LARGE_BLOCK: usize = 256 << 10;
    /// Every mapping is aligned to at least this, on every machine.
    const PAGE: usize = 4096;

    static IN_LARGE_PAGES: AtomicBool = AtomicBool::new(false);

    fn is_large(size: usize, align: usize) -> bool {
        size >= LARGE_BLOCK && align <= PAGE
    }

    /// How much is mapped for a block. What is not used of it is never found.
    fn mapped(size: usize) -> Option<usize> {
        size.checked_next_multiple_of(LARGE_PAGE)
    }

    /// # Safety
    /// The mapping is the caller's, and may be moved.
    unsafe fn moved(from: Option<(*mut u8, usize)>, to: usize) -> *mut u8 {
        let Some(len) = mapped(to) else { return null_mut() };
        // SAFETY: either a new mapping of nobody else's, or one that is the caller's.
        let at = unsafe {
            match from {
                None => libc::mmap(
                    null_mut(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                ),
                Some((at, size)) => {
                    libc::mremap(at.cast(), mapped(size).unwrap_or(size), len, libc::MREMAP_MAYMOVE)
                }
            }
        };
        if at == libc::MAP_FAILED {
            return null_mut();
        }
        if IN_LARGE_PAGES.load(Ordering::Relaxed) {
            // SAFETY: how it is found is all that changes. A kernel without large pages says no.
            unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
        }
        at.cast()
    }

    // SAFETY: blocks are the system's or mappings of their own, by their size and alignment alone, which whoever gives one
    // back has to name as they were. A mapping is aligned to a page and holds nothing but zeros at first.
    unsafe impl GlobalAlloc for Allocator {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            match is_large(layout.size(), layout.align()) {
                // SAFETY: as the caller says.
                false => unsafe { System.alloc(layout) },
                // SAFETY: a new one.
                true => unsafe { moved(None, layout.size()) },
            }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            match is_large(layout.size(), layout.align()) {
                // SAFETY: as the caller says.
                false => unsafe { System.alloc_zeroed(layout) },
                // SAFETY: a new one.
                true => unsafe { moved(None, layout.size()) },
            }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            match is_large(layout.size(), layout.align()) {
                // SAFETY: as the caller says.
                false => unsafe { System.dealloc(block, layout) },
                // SAFETY: mapped for this block, which nobody uses any more.
                true => {
                    let len = mapped(layout.size()).unwrap_or(layout.size());
                    unsafe { libc::munmap(block.cast(), len) };
                }
            }
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            let align = layout.align();
            match (is_large(layout.size(), align), is_large(size, align)) {
                // SAFETY: as the caller says.
                (false, false) => unsafe { System.realloc(block, layout, size) },
                (true, true) if mapped(layout.size()) == mapped(size) => block,
                // SAFETY: mapped for this block, which is the caller's.
                (true, true) => unsafe { moved(Some((block, layout.size())), size) },
                // SAFETY: the old one is as the caller says, the new one is as long as asked for and another.
                _ => unsafe {
                    let new = self.alloc(Layout::from_size_align_unchecked(size, align));
                    if !new.is_null() {
                        new.copy_from_nonoverlapping(block, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    new
                },
            }
        }
    }

    /// For a program that gives one answer and ends: large blocks are found in large pages from now on.
    pub fn use_large_pages() {
        IN_LARGE_PAGES.store(true, Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
pub use linux::use_large_pages;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    #![expect(unsafe_code, reason = "an allocator")]

    use std::alloc::{GlobalAlloc, Layout, System};

    // SAFETY: nothing but the system's.
    unsafe impl GlobalAlloc for super::Allocator {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: as the caller says.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: as the caller says.
            unsafe { System.dealloc(block, layout) }
        }
    }

    pub fn use_large_pages() {}
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::use_large_pages;

/// Unmaps the pages of the program's code. Pages that are needed again come from the page cache, which all processes of
/// this program share. Without this, code that ran only at the start would count for as long as the process lives.
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

/// Does nothing on other systems.
#[cfg(not(target_os = "linux"))]
pub fn let_go_of_code() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(unsafe_code, reason = "an allocator is tried out")]

    use std::alloc::{GlobalAlloc as _, Layout};

    use super::Allocator;

    /// Blocks keep what they hold when they grow and shrink across the border between the two kinds, with and without
    /// large pages.
    #[test]
    fn e8_a_block_keeps_what_it_holds() {
        const SIZES: [usize; 9] = [
            100,
            262_143,
            262_144,
            5 << 20,
            (2 << 20) + 1,
            2 << 20,
            300_000,
            10,
            3 << 20,
        ];
        for large in [false, true] {
            if large {
                super::use_large_pages();
            }
            let mut layout = Layout::from_size_align(1, 8).expect("a layout");
            // SAFETY: blocks are as long as their layouts say, and are given back once.
            unsafe {
                let mut block = Allocator.alloc(layout);
                block.write(7);
                let mut filled = 1;
                for size in SIZES {
                    block = Allocator.realloc(block, layout, size);
                    assert!(!block.is_null());
                    layout = Layout::from_size_align(size, 8).expect("a layout");
                    filled = filled.min(size);
                    for n in [0, filled / 2, filled - 1] {
                        assert_eq!(block.add(n).read(), 7, "{size} {n}");
                    }
                    block.write_bytes(7, size);
                    filled = size;
                }
                Allocator.dealloc(block, layout);
                let zeros = Layout::from_size_align(3 << 20, 4096).expect("a layout");
                let block = Allocator.alloc_zeroed(zeros);
                assert_eq!(block.add((3 << 20) - 1).read(), 0);
                Allocator.dealloc(block, zeros);
            }
        }
    }
}
