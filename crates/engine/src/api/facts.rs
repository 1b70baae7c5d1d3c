//! Facts about a request: whether it writes, and what it needs before it is carried out.
//!
//! Every variant of a request states its facts beside itself, see the macros below. `handle` reads them and nothing
//! else: it knows no request by name.

use jit_core::model::ids::IssuePrefix;

use crate::worktree_identity::identity::Need;

/// Facts about one request.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Whether it may change anything: the log, files, git, or what runs on this machine.
    pub writes: bool,
    /// Whether the worktree must have an identity.
    pub identity: bool,
    /// The part of the tree whose changes are imported first.
    pub tree: TreeScope,
    /// Whether it depends on leases: lock files of other programs are imported first.
    pub leases: bool,
    /// Whether it is carried out even if the settings cannot be read. Their valid part counts.
    pub despite_settings: bool,
}

/// The part of the tree that a request needs to have checked.
#[derive(Debug, Clone)]
pub enum TreeScope {
    Nothing,
    /// Only if git has moved.
    IfMoved,
    /// These issues, by name.
    Named(Vec<IssuePrefix>),
    All,
    /// All issues with their long texts.
    Texts,
}

/// A request that only reads.
pub(crate) fn reads(tree: TreeScope) -> Facts {
    Facts {
        writes: false,
        identity: false,
        tree,
        leases: false,
        despite_settings: false,
    }
}

/// A request that may write.
pub(crate) fn writes(tree: TreeScope) -> Facts {
    Facts {
        writes: true,
        identity: true,
        ..reads(tree)
    }
}

/// These issues, by name. A name that cannot be one of an issue names none.
pub(crate) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> TreeScope {
    TreeScope::Named(names.into_iter().filter_map(|name| name.parse().ok()).collect())
}

impl Facts {
    /// Whether the worktree must have an identity.
    pub fn need(&self) -> Need {
        match self.identity {
            true => Need::Write,
            false => Need::Read,
        }
    }

    /// The request writes, but nothing that belongs to the worktree.
    pub(crate) fn without_identity(self) -> Self {
        Self {
            identity: false,
            ..self
        }
    }

    /// The request depends on leases.
    pub(crate) fn on_leases(self) -> Self {
        Self { leases: true, ..self }
    }

    /// Broken settings do not stop the request.
    pub(crate) fn despite_settings(self) -> Self {
        Self {
            despite_settings: true,
            ..self
        }
    }

    /// The request writes only if this holds.
    pub(crate) fn writes_if(self, writes: bool) -> Self {
        Self {
            writes,
            identity: writes,
            ..self
        }
    }
}

/// Defines the requests of one noun. Behind each variant are its facts, an expression that sees the variant's fields.
macro_rules! requests {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident
                $( { $( $(#[$field_doc:meta])* $field:ident : $type:ty ),* $(,)? } )?
                $( ( $inner:ident : $inner_type:ty ) )?
                => $facts:expr
            ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        pub enum $name {
            $(
                $(#[$doc])*
                $variant $( { $( $(#[$field_doc])* $field : $type ),* } )? $( ( $inner_type ) )?
            ),*
        }

        impl $name {
            pub fn facts(&self) -> $crate::api::facts::Facts {
                match self {
                    $(
                        Self::$variant $( { $( $field ),* } )? $( ( $inner ) )? => {
                            // Most facts do not depend on the fields.
                            $( $( let _ = $field; )* )?
                            $( let _ = $inner; )?
                            $facts
                        }
                    ),*
                }
            }
        }
    };
}
pub(crate) use requests;

/// Defines the replies of one noun. Every reply is one value; `--json` prints that value alone.
macro_rules! replies {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $( $(#[$doc:meta])* $variant:ident ( $type:ty ) ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $( $(#[$doc])* $variant ( $type ) ),*
        }

        impl $name {
            /// Serializes the value alone, without the name of its variant.
            pub fn serialize_value<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$variant(value) => serde::Serialize::serialize(value, to) ),*
                }
            }
        }
    };
}
pub(crate) use replies;
