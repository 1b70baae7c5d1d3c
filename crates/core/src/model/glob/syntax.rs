//! From text to nodes and back.

use super::chars::{self, Chars};
use super::{MAX_ALTERNATIVES, MAX_DEPTH, MAX_LITERAL, MAX_STARS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Char(char),
    Class(Chars),
    /// `*`
    Star,
    /// `**`
    Any,
    /// `**/` at the beginning of a part.
    AnyParts,
    Either(Vec<Vec<Node>>),
}

/// The nodes of a pattern, and whether it is a directory. No nodes: everything.
pub(super) fn parse(text: &str) -> Result<(Vec<Node>, bool), String> {
    check(text)?;
    let mut reader = Reader {
        rest: text.chars().peekable(),
        stars: 0,
        alternatives: 0,
    };
    let (nodes, _) = reader.sequence(0, true)?;
    tidy(nodes)
}

/// The same for a path without wildcards.
pub(super) fn literal(path: &str) -> Result<(Vec<Node>, bool), String> {
    check(path)?;
    tidy(path.chars().map(Node::Char).collect())
}

fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty; '.' is the whole worktree".to_owned());
    }
    if text.len() > MAX_LITERAL {
        return Err(format!("it is longer than {MAX_LITERAL} bytes"));
    }
    if text.contains('\0') {
        return Err("it contains a NUL".to_owned());
    }
    if text.starts_with('/') {
        return Err(
            "it must be relative to the root of the worktree, without a '/' at the beginning".to_owned(),
        );
    }
    Ok(())
}

/// Leaves out parts that are empty or `.`, and takes the last `/` off.
fn tidy(nodes: Vec<Node>) -> Result<(Vec<Node>, bool), String> {
    let slash = Node::Char('/');
    let mut dir = nodes.last() == Some(&slash);
    let mut out: Vec<Node> = Vec::with_capacity(nodes.len());
    for part in nodes.split(|node| *node == slash) {
        // `**/` has its own slash.
        let (any, name) = match part {
            [Node::AnyParts, name @ ..] => (true, name),
            name => (false, name),
        };
        let still = name.is_empty() || name == [Node::Char('.')];
        if name == [Node::Char('.'), Node::Char('.')] {
            return Err("'..' leads out of the worktree or is of no use".to_owned());
        }
        let joined = out.last().is_none_or(|last| *last == Node::AnyParts);
        if !joined && (any || !still) {
            out.push(slash.clone());
        }
        // Twice is no more than once.
        if any && out.last() != Some(&Node::AnyParts) {
            out.push(Node::AnyParts);
        }
        if !still {
            out.extend_from_slice(name);
        }
    }
    // `a/**/` is whatever is below `a`.
    if out.last() == Some(&Node::AnyParts) {
        out.pop();
        out.push(Node::Any);
        dir = false;
    }
    Ok((out, dir))
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    stars: usize,
    alternatives: usize,
}

impl Reader<'_> {
    /// Up to the end, or inside braces up to `,` or `}`, which is returned. `fresh`: a part begins here.
    fn sequence(&mut self, depth: usize, mut fresh: bool) -> Result<(Vec<Node>, Option<char>), String> {
        let mut nodes = Vec::new();
        while let Some(c) = self.rest.next() {
            let begins = std::mem::replace(&mut fresh, false);
            match c {
                ',' | '}' if depth > 0 => return Ok((nodes, Some(c))),
                '\\' => match self.rest.next() {
                    Some(c) => {
                        fresh = c == '/';
                        nodes.push(Node::Char(c));
                    }
                    None => return Err("it ends with a '\\' that escapes nothing".to_owned()),
                },
                '/' => {
                    fresh = true;
                    nodes.push(Node::Char('/'));
                }
                '?' => nodes.push(Node::Class(Chars::all())),
                '[' => nodes.push(self.class()?),
                '*' => {
                    self.stars += 1;
                    if self.stars > MAX_STARS {
                        return Err(format!("it has more than {MAX_STARS} stars"));
                    }
                    let mut run = 1;
                    while self.rest.next_if_eq(&'*').is_some() {
                        run += 1;
                    }
                    if run == 1 {
                        nodes.push(Node::Star);
                    } else if begins && self.rest.next_if_eq(&'/').is_some() {
                        fresh = true;
                        // Twice is no more than once.
                        if nodes.last() != Some(&Node::AnyParts) {
                            nodes.push(Node::AnyParts);
                        }
                    } else {
                        nodes.push(Node::Any);
                    }
                }
                '{' => nodes.push(self.either(depth + 1, begins)?),
                c => nodes.push(Node::Char(c)),
            }
        }
        if depth > 0 {
            return Err("a '{' is not closed; write \\{ for the character itself".to_owned());
        }
        Ok((nodes, None))
    }

    fn either(&mut self, depth: usize, fresh: bool) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err(format!("its braces are nested more than {MAX_DEPTH} deep"));
        }
        let mut all = Vec::new();
        loop {
            let (nodes, end) = self.sequence(depth, fresh)?;
            let slash = |node: Option<&Node>| node == Some(&Node::Char('/'));
            if slash(nodes.first()) || slash(nodes.last()) || nodes.last() == Some(&Node::AnyParts) {
                return Err("an alternative in braces must not begin or end with '/'".to_owned());
            }
            all.push(nodes);
            self.alternatives += 1;
            if self.alternatives > MAX_ALTERNATIVES {
                return Err(format!(
                    "it has more than {MAX_ALTERNATIVES} alternatives in braces"
                ));
            }
            if end == Some('}') {
                break;
            }
        }
        if all.len() == 1 {
            return Err("braces with one alternative; write \\{ for the character itself".to_owned());
        }
        Ok(Node::Either(all))
    }

    /// After the `[`.
    fn class(&mut self) -> Result<Node, String> {
        let open = || "a '[' is not closed; write \\[ for the character itself".to_owned();
        let others = self.rest.next_if(|&c| c == '!' || c == '^').is_some();
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            let (c, bare) = self.member().ok_or_else(open)?;
            if bare && c == ']' && !first {
                break;
            }
            first = false;
            let mut to = c;
            // A `-` before the closing bracket is a member.
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                self.rest.next();
                to = self.member().ok_or_else(open)?.0;
            }
            if to < c {
                return Err(format!("the range {c:?} to {to:?} is the wrong way round"));
            }
            ranges.push((c, to));
        }
        let set = Chars::of(ranges);
        let set = if others { set.others() } else { set };
        // `[*]` is how many write the character itself. A class never makes a part `.`, which is left out.
        let only = set.only().filter(|c| *c != '.');
        Ok(only.map_or_else(|| Node::Class(set), Node::Char))
    }

    /// A member of a class, and whether it stood there without `\`.
    fn member(&mut self) -> Option<(char, bool)> {
        match self.rest.next()? {
            '\\' => Some((self.rest.next()?, false)),
            c => Some((c, true)),
        }
    }
}

/// The path, when there are no wildcards.
pub(super) fn plain(nodes: &[Node]) -> Option<String> {
    let char_of = |node: &Node| match node {
        Node::Char(c) => Some(*c),
        _ => None,
    };
    nodes.iter().map(char_of).collect()
}

/// The canonical text.
pub(super) fn print(nodes: &[Node], dir: bool) -> String {
    let mut out = String::new();
    sequence_to(&mut out, nodes, false);
    if dir {
        out.push('/');
    }
    out
}

fn sequence_to(out: &mut String, nodes: &[Node], braced: bool) {
    for node in nodes {
        match node {
            Node::Char(c) => {
                if matches!(c, '*' | '?' | '[' | '{' | '\\') || (braced && matches!(c, ',' | '}')) {
                    out.push('\\');
                }
                out.push(*c);
            }
            Node::Star => out.push('*'),
            Node::Any => out.push_str("**"),
            Node::AnyParts => out.push_str("**/"),
            Node::Class(set) => class_to(out, set),
            Node::Either(all) => {
                for (at, nodes) in all.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    sequence_to(out, nodes, true);
                }
                out.push('}');
            }
        }
    }
}

fn class_to(out: &mut String, set: &Chars) {
    let others = set.others();
    if others.ranges().is_empty() {
        out.push('?');
        return;
    }
    let few = !set.ranges().is_empty() && set.ranges().len() <= others.ranges().len();
    out.push_str(if few { "[" } else { "[!" });
    for &(from, to) in if few { set } else { &others }.ranges() {
        member_to(out, from);
        if from < to {
            out.push('-');
            member_to(out, to);
        }
    }
    out.push(']');
}

fn member_to(out: &mut String, c: char) {
    if matches!(c, '!' | '^' | ']' | '-' | '\\') {
        out.push('\\');
    }
    out.push(c);
}

pub(super) fn folded(nodes: &[Node]) -> Vec<Node> {
    let one = |node: &Node| match node {
        Node::Char(c) => Node::Char(chars::fold(*c)),
        Node::Class(set) => Node::Class(set.folded()),
        Node::Either(all) => Node::Either(all.iter().map(|nodes| folded(nodes)).collect()),
        other => other.clone(),
    };
    nodes.iter().map(one).collect()
}
