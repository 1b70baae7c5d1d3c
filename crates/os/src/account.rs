//! The account of this process's user, as the system knows it. No variable can change it.
//!
//! Limitations: only `/etc/passwd` is read. Accounts of a directory service have no home folder here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// The home folder of this process's user by `/etc/passwd`, whatever `HOME` says; `None` if it is not listed there.
pub fn home() -> Option<PathBuf> {
    let passwd = crate::file::read_systems("/etc/passwd").ok()?;
    home_of_uid(&passwd, rustix::process::getuid().as_raw())
}

/// The fields of a line are name, password, uid, gid, comment, home folder and shell.
fn home_of_uid(passwd: &[u8], uid: u32) -> Option<PathBuf> {
    passwd.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.split(|b| *b == b':').skip(2);
        let listed: u32 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let home = fields.nth(2).filter(|_| listed == uid)?;
        let home = PathBuf::from(OsString::from_vec(home.to_vec()));
        home.is_absolute().then_some(home)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_the_home_folder_comes_from_passwd() {
        let passwd =
            b"root:x:0:0:r:/root:/bin/sh\nbroken\nzo\xeb:x:8:8::/h\xff:\nrel:x:9:9::home:/bin/sh\nx:x:7";
        let home = |uid| home_of_uid(passwd, uid);
        assert_eq!(home(0), Some(PathBuf::from("/root")));
        assert_eq!(
            home(8),
            Some(PathBuf::from(OsString::from_vec(b"/h\xff".to_vec())))
        );
        assert_eq!((home(9), home(7), home(1)), (None, None, None));
    }
}
