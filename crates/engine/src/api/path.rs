//! A path in a request or a reply: a string, or `{"bytes": "<base64>"}` where it is not UTF-8.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::Written;

/// A path, exactly as it is, whatever its bytes are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct ApiPath(OsString);

impl ApiPath {
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    pub fn as_os_str(&self) -> &std::ffi::OsStr {
        &self.0
    }
}

impl AsRef<Path> for ApiPath {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl From<OsString> for ApiPath {
    fn from(path: OsString) -> Self {
        Self(path)
    }
}

impl From<PathBuf> for ApiPath {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl From<&str> for ApiPath {
    fn from(path: &str) -> Self {
        Self(path.into())
    }
}

impl From<String> for ApiPath {
    fn from(path: String) -> Self {
        Self(path.into())
    }
}

impl From<ApiPath> for Written {
    fn from(path: ApiPath) -> Self {
        path.0.into_vec().into()
    }
}

impl TryFrom<Written> for ApiPath {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let path = Vec::try_from(written)?;
        match path.contains(&0) {
            true => Err("a path contains a zero byte".to_owned()),
            false => Ok(Self(OsString::from_vec(path))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn json(path: &[u8]) -> String {
        serde_json::to_string(&ApiPath(OsString::from_vec(path.to_vec()))).expect("JSON")
    }

    #[test]
    fn a_path_is_a_string_or_its_bytes() {
        assert_eq!(json("a/ü".as_bytes()), r#""a/ü""#);
        assert_eq!(json(b"a/\xff"), r#"{"bytes":"YS//"}"#);
        for path in [&b"a/b"[..], b"", b"a/\xff", b"\xf0\x9f"] {
            let back: ApiPath = serde_json::from_str(&json(path)).expect("a path");
            assert_eq!(back.as_os_str().as_bytes(), path);
        }
        for bad in [r#"{"bytes":"?"}"#, r#""a\u0000b""#, "{}", "7"] {
            assert!(serde_json::from_str::<ApiPath>(bad).is_err(), "{bad}");
        }
    }
}
