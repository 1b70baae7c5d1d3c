//! A sealed segment, compressed: `events/control-<first>.jsonl.gz`.
//!
//! # Format
//!
//! A row of gzip members, so that `zcat` prints the segment. Each member holds `MEMBER` bytes of the plain file, the last
//! one what is left, and begins with `HEADER`, its length after that header, and the length of its text. A reader skips
//! members without reading them, and damage costs the lines of one member.
//!
//! # Invariants
//!
//! - A place in a segment (an offset, a line) is a place in its text, whether the file is plain or compressed.
//! - The plain file counts while it is there. A crash leaves the plain file, or the compressed one, or both with the same text.
//! - The plain file is removed only after the compressed one was synced, read back and found to be the same, and after its
//!   name was synced. The last steps (rename, remove) are made under the store's lock, and only if the plain file is
//!   still the one that was read: a recovery may have moved it away.
//! - A reader that does not find the plain file opens the compressed one, which has its name by then. A reader that has
//!   the plain file open keeps it.
//! - A member counts if its header, its checksum and its lengths are right. The text ends before the first one that does
//!   not, and a sealed segment that ends too early is damage.
//!
//! The command that folds the journal into runs compresses one segment, the oldest plain one, when its change is durable
//! and without the store's lock (`file::write`). A log of an earlier program is compressed in the same way.
//!
//! Gzip, because every system can read it; `flate2` with `miniz_oxide`, because that is Rust without `unsafe`, and the log
//! shrinks to a tenth as with slower formats.

use std::cell::RefCell;
use std::io::{self, Read, Write};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use crate::disk::{DiskFile, read_range, write_all_at};
use crate::segment_bytes::SegmentBytes;

/// How many bytes of text a member has.
const MEMBER: usize = 1 << 18;
/// A tenth of the size for 8 ms a megabyte. The levels above take twice the time for a twentieth less.
const LEVEL: u32 = 3;
/// Magic, deflate, an extra field, no time, no system; then a field `jt` of eight bytes.
const HEADER: [u8; 16] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 12, 0, b'j', b't', 8, 0];
/// The header with the two lengths.
const HEAD: usize = HEADER.len() + 8;
/// Checksum and length at the end of a member.
const TRAILER: usize = 8;
/// Deflate makes nothing longer than this, however little it finds: more is damage and must not fill the memory.
const LONGEST: usize = MEMBER + MEMBER / 8;

/// Writes the compressed form of `text` into an empty file.
pub fn write(text: &dyn SegmentBytes, file: &dyn DiskFile) -> io::Result<()> {
    let (mut from, mut to) = (0, 0);
    loop {
        let piece = text.read(from, MEMBER)?;
        if piece.is_empty() {
            return Ok(());
        }
        let member = encode(&piece)?;
        write_all_at(file, &member, to)?;
        from += piece.len() as u64;
        to += member.len() as u64;
    }
}

/// Whether both have the same text.
pub fn same_text(one: &dyn SegmentBytes, other: &dyn SegmentBytes) -> io::Result<bool> {
    let mut at = 0;
    loop {
        let piece = one.read(at, MEMBER)?;
        if piece != other.read(at, MEMBER)? {
            return Ok(false);
        }
        if piece.is_empty() {
            return Ok(true);
        }
        at += piece.len() as u64;
    }
}

/// The text of every member that can be read, for a salvage. The lines on both sides of a gap are cut off by a newline.
pub fn readable(bytes: &[u8]) -> Vec<u8> {
    let (mut text, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let body = Lengths::of(&bytes[at..]).and_then(|lengths| {
            let end = at + HEAD + lengths.body;
            Some((decode(bytes.get(at + HEAD..end)?, lengths)?, end))
        });
        match body {
            Some((piece, end)) => {
                text.extend_from_slice(&piece);
                at = end;
            }
            None => {
                text.push(b'\n');
                let next = bytes[at + 1..].windows(HEADER.len()).position(|w| w == HEADER);
                at = next.map_or(bytes.len(), |next| at + 1 + next);
            }
        }
    }
    text
}

fn encode(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut member = HEADER.to_vec();
    member.extend_from_slice(&[0; 8]);
    let mut encoder = DeflateEncoder::new(member, Compression::new(LEVEL));
    encoder.write_all(text)?;
    let mut member = encoder.finish()?;
    let mut crc = Crc::new();
    crc.update(text);
    let length = (text.len() as u32).to_le_bytes();
    member.extend_from_slice(&crc.sum().to_le_bytes());
    member.extend_from_slice(&length);
    let body = (member.len() - HEAD) as u32;
    member[HEADER.len()..HEADER.len() + 4].copy_from_slice(&body.to_le_bytes());
    member[HEADER.len() + 4..HEAD].copy_from_slice(&length);
    Ok(member)
}

/// The lengths in the header of a member: what comes after the header, and its text.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    body: usize,
    text: usize,
}

impl Lengths {
    fn of(head: &[u8]) -> Option<Self> {
        let lengths = head.get(..HEAD)?.strip_prefix(&HEADER)?;
        let number = |at: usize| Some(u32::from_le_bytes(lengths.get(at..at + 4)?.try_into().ok()?) as usize);
        let found = Self {
            body: number(0)?,
            text: number(4)?,
        };
        ((TRAILER..=LONGEST).contains(&found.body) && (1..=MEMBER).contains(&found.text)).then_some(found)
    }
}

/// The text of a member, from what comes after its header.
fn decode(body: &[u8], lengths: Lengths) -> Option<Vec<u8>> {
    let (deflated, trailer) = body.split_at_checked(body.len().checked_sub(TRAILER)?)?;
    let mut text = Vec::with_capacity(lengths.text);
    let mut decoder = DeflateDecoder::new(deflated).take(MEMBER as u64 + 1);
    decoder.read_to_end(&mut text).ok()?;
    let mut crc = Crc::new();
    crc.update(&text);
    let expected = [crc.sum().to_le_bytes(), (lengths.text as u32).to_le_bytes()].concat();
    (text.len() == lengths.text && trailer == expected).then_some(text)
}

/// A compressed segment that reads like the plain one.
#[derive(Debug)]
pub struct Compressed {
    file: Box<dyn DiskFile>,
    /// The member that was read last. Readers go forward, so one is enough.
    member: RefCell<Member>,
}

#[derive(Debug, Default)]
struct Member {
    /// Where its text begins and ends.
    start: u64,
    end: u64,
    /// Empty if the member was skipped.
    text: Vec<u8>,
    /// Where the next member begins in the file.
    next: u64,
}

impl Member {
    /// Goes on to the next member, and reads it if its text has the byte at `wanted`. `false` at the end of what can be read.
    fn advance(&mut self, file: &dyn DiskFile, wanted: u64) -> io::Result<bool> {
        let Some(lengths) = Lengths::of(&read_range(file, self.next, HEAD)?) else {
            return Ok(false);
        };
        let end = self.end + lengths.text as u64;
        let text = if end <= wanted {
            Vec::new()
        } else {
            match decode(&read_range(file, self.next + HEAD as u64, lengths.body)?, lengths) {
                Some(text) => text,
                None => return Ok(false),
            }
        };
        *self = Self {
            start: self.end,
            end,
            text,
            next: self.next + (HEAD + lengths.body) as u64,
        };
        Ok(true)
    }
}

impl Compressed {
    pub fn new(file: Box<dyn DiskFile>) -> Self {
        Self {
            file,
            member: RefCell::default(),
        }
    }
}

impl SegmentBytes for Compressed {
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut member = self.member.borrow_mut();
        let mut found = Vec::new();
        while found.len() < len {
            let wanted = at + found.len() as u64;
            let skipped = member.text.is_empty() && wanted < member.end;
            if wanted < member.start || skipped {
                *member = Member::default();
            }
            if wanted >= member.end {
                if !member.advance(&*self.file, wanted)? {
                    break;
                }
                continue;
            }
            let rest = &member.text[(wanted - member.start) as usize..];
            found.extend_from_slice(&rest[..rest.len().min(len - found.len())]);
        }
        Ok(found)
    }

    fn size(&self) -> io::Result<u64> {
        let mut member = Member::default();
        while member.advance(&*self.file, u64::MAX)? {}
        Ok(member.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &[u8]) -> Vec<Vec<u8>> {
        text.chunks(MEMBER)
            .map(|piece| encode(piece).expect("a member"))
            .collect()
    }

    fn lines(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|n| format!("{{\"sequence\":{n}}}\n").into_bytes())
            .collect()
    }

    #[test]
    fn d1_a_damaged_member_costs_only_its_own_lines() {
        let text = lines(60_000);
        let mut members = members(&text);
        assert_eq!(members.len(), 5);
        assert_eq!(readable(&members.concat()), text);
        members[2][HEAD + 100] ^= 1;
        // Its lengths are damaged too: the next member is found by its header.
        members[2][HEADER.len()] ^= 0x55;
        let mut kept = text[..2 * MEMBER].to_vec();
        kept.push(b'\n');
        kept.extend_from_slice(&text[3 * MEMBER..]);
        assert_eq!(readable(&members.concat()), kept);
    }

    #[test]
    fn d1_the_compressed_form_is_what_gzip_reads() {
        let text = lines(60_000);
        let mut read = Vec::new();
        flate2::read::MultiGzDecoder::new(&members(&text).concat()[..])
            .read_to_end(&mut read)
            .expect("gzip");
        assert_eq!(read, text);
    }

    #[test]
    fn d1_bytes_without_a_pattern_fit_a_member() {
        let mut seed = 1u64;
        let text: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        })
        .take(MEMBER)
        .collect();
        assert_eq!(readable(&encode(&text).expect("a member")), text);
    }
}
