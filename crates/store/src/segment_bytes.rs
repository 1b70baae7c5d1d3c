//! A segment of the log as bytes, wherever they are: a file, memory, or a compressed file.

use std::io;

use crate::disk::{DiskFile, read_range};

/// The bytes of a segment: a file, or its content as it would be after a repair.
pub trait SegmentBytes {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>>;
    fn size(&self) -> io::Result<u64>;
}

impl SegmentBytes for &dyn DiskFile {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        read_range(*self, at, len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.meta()?.len)
    }
}

impl SegmentBytes for Box<dyn DiskFile> {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        read_range(&**self, at, len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.meta()?.len)
    }
}

impl SegmentBytes for Vec<u8> {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(Vec::len(self));
        let to = from.saturating_add(len).min(Vec::len(self));
        Ok(self[from..to].to_vec())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(Vec::len(self) as u64)
    }
}
