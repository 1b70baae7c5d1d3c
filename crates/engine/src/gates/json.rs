//! JSON files in a worktree's `.jit/gates`.
//!
//! Invariants:
//! - The files come with the repository, so they are not trusted. Each is a regular file of limited size, no link and
//!   no device, and every key in it is known. Anything else is refused with file, line and key.
//! - Nothing is written through a symbolic link.
//! - A writer holds the lock on the folder from before it reads the file until after it has written it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Details, Refusal};
use jit_os::{file, io_refusal};
use jit_store::Outcome;
use rustix::fs::{Mode, OFlags};
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The format version of all these files.
pub(super) const SCHEMA: u32 = 1;

#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

/// Reads a file; `None` if it does not exist.
pub(super) fn load<T: DeserializeOwned>(path: &Path, most: u64) -> Outcome<Option<T>> {
    let bytes = match read(path, most) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(malformed(format!("{}: {error}", path.display()), None));
        }
        Err(error) => return Err(io_refusal("read", path, &error)),
    };
    decode(path, &bytes).map(Some)
}

/// Parses the content of a file of that name.
pub(super) fn decode<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Outcome<T> {
    if let Ok(version) = serde_json::from_slice::<Version>(bytes)
        && version.schema_version > SCHEMA
    {
        let message = format!(
            "{} has format {}, and this jit knows formats up to {SCHEMA}",
            path.display(),
            version.schema_version
        );
        return Err(Box::new(
            Refusal::new(Code::Newer, message).help("install a newer jit"),
        ));
    }
    parse(bytes).map_err(|(line, why)| malformed(format!("{}, line {line}{why}", path.display()), Some(line)))
}

/// Returns the value, or the line and the reason if the content does not fit.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, (usize, String)> {
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner());
        let place = format!(" at line {} column {}", inner.line(), inner.column());
        let whole = inner.to_string();
        let what = whole.strip_suffix(&place).unwrap_or(&whole);
        let what = match path.as_str() {
            "." => format!(": {what}"),
            _ => format!(", `{path}`: {what}"),
        };
        (inner.line(), what)
    })?;
    match source.end() {
        Ok(()) => Ok(value),
        Err(error) => Err((error.line(), ": more follows after the end".to_owned())),
    }
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Does not wait for a pipe without a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    let too_large = || io::Error::new(io::ErrorKind::InvalidData, format!("larger than {most} bytes"));
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file"));
    }
    if meta.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= most) {
        Ok(bytes)
    } else {
        Err(too_large())
    }
}

fn malformed(message: String, line: Option<usize>) -> Box<Refusal> {
    let mut refusal = Refusal::new(Code::Config, message);
    if let Some(line) = line {
        refusal = refusal.details(Details::Counts(vec![("line", u64::try_from(line).ok())]));
    }
    Box::new(refusal.help("correct the file, or take the committed one: git restore <file>"))
}

/// Writes a file that [`load`] will read. Its folder must exist.
pub(super) fn save<T: Serialize>(path: &Path, most: u64, value: &T) -> Outcome<()> {
    let bytes = encode(path, most, value)?;
    file::replace_here(path, &bytes).map_err(|error| io_refusal("write", path, &error))
}

/// Returns the text of such a file.
pub(super) fn encode<T: Serialize>(path: &Path, most: u64, value: &T) -> Outcome<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        Box::new(Refusal::new(Code::Invalid, message))
    })?;
    bytes.push(b'\n');
    if u64::try_from(bytes.len()).is_ok_and(|len| len <= most) {
        Ok(bytes)
    } else {
        let message = format!("{} would grow larger than {most} bytes", path.display());
        Err(Box::new(Refusal::new(Code::Invalid, message)))
    }
}

/// Creates the folders below `jit` (a worktree's `.jit`, which is created too) and locks the last one until the
/// result is dropped.
pub(super) fn lock(jit: &Path, below: &[&str]) -> Outcome<(PathBuf, File)> {
    let mut folder = jit.to_owned();
    let made =
        |folder: &Path| file::ensure_real_dir(folder).map_err(|error| io_refusal("create", folder, &error));
    made(&folder)?;
    for name in below {
        folder.push(name);
        made(&folder)?;
    }
    let held = file::lock_folder(&folder).map_err(|error| io_refusal("lock", &folder, &error))?;
    file::sweep(&folder);
    Ok((folder, held))
}

/// Reads a map without duplicate keys: of two gates with one name a reader would see only one.
pub(super) fn unique<'de, D, K, V>(source: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    struct Unique<K, V>(PhantomData<(K, V)>);

    impl<'de, K, V> Visitor<'de> for Unique<K, V>
    where
        K: Deserialize<'de> + Ord + fmt::Display,
        V: Deserialize<'de>,
    {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(key) = access.next_key::<K>()? {
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format!("`{key}` is there twice")));
                }
                map.insert(key, access.next_value()?);
            }
            Ok(map)
        }
    }

    source.deserialize_map(Unique(PhantomData))
}
