//! Bytes in a request or a reply, and files whose content may travel with the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::path::ApiPath;

/// Bytes in JSON: a string, or `{"bytes": "<base64>"}` where they are not UTF-8.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Written {
    Text(String),
    Bytes {
        /// The bytes in base64.
        bytes: String,
    },
}

impl From<Vec<u8>> for Written {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(e) => Self::Bytes {
                bytes: STANDARD.encode(e.as_bytes()),
            },
        }
    }
}

impl TryFrom<Written> for Vec<u8> {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(text) => Ok(text.into_bytes()),
            Written::Bytes { bytes } => STANDARD
                .decode(&bytes)
                .map_err(|e| format!("the bytes are not base64: {e}")),
        }
    }
}

/// Content, exactly as it is, whatever its bytes are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct ApiBytes(Vec<u8>);

impl ApiBytes {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for ApiBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<ApiBytes> for Written {
    fn from(bytes: ApiBytes) -> Self {
        bytes.0.into()
    }
}

impl TryFrom<Written> for ApiBytes {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        Vec::try_from(written).map(Self)
    }
}

/// A file for the engine to read. The caller's standard input is a file whose content comes along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSource {
    /// The file, and its name in messages.
    pub path: ApiPath,
    /// The content, if the caller has read it already.
    #[serde(default)]
    pub content: Option<ApiBytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_a_string_or_base64() {
        for (bytes, text) in [
            (&b"a\0b"[..], r#""a\u0000b""#),
            (b"\xff", r#"{"bytes":"/w=="}"#),
            (b"", r#""""#),
        ] {
            let bytes = ApiBytes::from(bytes.to_vec());
            assert_eq!(serde_json::to_string(&bytes).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<ApiBytes>(text).expect("bytes"), bytes);
        }
        assert!(serde_json::from_str::<ApiBytes>(r#"{"bytes":"?"}"#).is_err());
    }
}
