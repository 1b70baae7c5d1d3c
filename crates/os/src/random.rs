//! Random bytes from the kernel.
//!
//! Invariant: a buffer is either filled completely or an error is returned; there is no fallback to something weaker.

use std::io;

/// Fills `buffer` with unpredictable bytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn fill(buffer: &mut [u8]) -> io::Result<()> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match getrandom(rest, GetRandomFlags::empty()) {
            Ok(0) => return Err(io::Error::other("the kernel gave no random bytes")),
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills `buffer` with unpredictable bytes. Not run here: on Apple systems and the BSDs this device never
/// blocks and never runs dry.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn fill(buffer: &mut [u8]) -> io::Result<()> {
    use std::io::Read as _;
    std::fs::File::open("/dev/urandom")?.read_exact(buffer)
}

pub fn u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub fn u128() -> io::Result<u128> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fills_all_of_it_and_differs_each_time() {
        let mut big = vec![0u8; 1000];
        super::fill(&mut big).expect("random");
        assert!(big[..500].iter().any(|b| *b != 0) && big[500..].iter().any(|b| *b != 0));
        assert_ne!(super::u128().expect("random"), super::u128().expect("random"));
        assert_ne!(super::u64().expect("random"), super::u64().expect("random"));
        super::fill(&mut []).expect("nothing to fill");
    }
}
