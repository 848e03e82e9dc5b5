//! Which fields of a JSON text count: chosen by JSON Pointer (RFC 6901).

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

use super::reader;

/// Which fields of a JSON body the fingerprint covers. Other bodies are always covered whole.
///
/// A repeat that differs in an uncovered field only is answered with the first one's result, so leave out
/// what says nothing about the operation (a client's clock, a trace id) and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fields {
    /// Everything.
    #[default]
    All,
    /// Only what stands at the pointers. The arrays and objects on the way to them are kept as brackets.
    Only(Pointers),
    /// Everything but what stands at the pointers.
    Except(Pointers),
}

impl Fields {
    /// Only what stands at these JSON Pointers.
    ///
    /// # Errors
    /// A pointer is not of RFC 6901.
    pub fn only<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        Pointers::parse(pointers).map(Self::Only)
    }

    /// Everything but what stands at these JSON Pointers.
    ///
    /// # Errors
    /// A pointer is not of RFC 6901.
    pub fn except<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        Pointers::parse(pointers).map(Self::Except)
    }

    /// What the fields say about the outermost value.
    pub(super) fn root(&self) -> Choice<'_> {
        match self {
            Self::All => Choice::Whole,
            Self::Only(Pointers(node)) if node.chosen => Choice::Whole,
            Self::Only(Pointers(node)) => Choice::OnlyIn(node),
            Self::Except(Pointers(node)) if node.chosen => Choice::Nothing,
            Self::Except(Pointers(node)) => Choice::ExceptIn(node),
        }
    }
}

/// A set of JSON Pointers, as the tree of their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointers(Node);

impl Pointers {
    fn parse<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        let mut root = Node::default();
        for pointer in pointers {
            let mut node = &mut root;
            for token in tokens(pointer)? {
                node = node.child_or_insert(&token);
            }
            node.chosen = true;
        }
        Ok(Self(root))
    }
}

fn tokens(pointer: &str) -> Result<Vec<String>, PointerError> {
    let refuse = || PointerError { pointer: pointer.into() };
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = pointer.strip_prefix('/').ok_or_else(refuse)?;
    tokens.split('/').map(|token| unescape_token(token).ok_or_else(refuse)).collect()
}

/// `~1` is a slash and `~0` a tilde; a tilde before anything else is an error.
fn unescape_token(token: &str) -> Option<String> {
    let mut pieces = token.split('~');
    let mut text = String::from(pieces.next()?);
    for piece in pieces {
        let (tail, escaped) = match piece.split_at_checked(1)? {
            ("0", tail) => (tail, '~'),
            ("1", tail) => (tail, '/'),
            _ => return None,
        };
        text.push(escaped);
        text.push_str(tail);
    }
    Some(text)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    chosen: bool,
    children: Vec<Child>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Child {
    /// The name as the canonical form spells it, so that members are found without unescaping.
    spelled: Box<[u8]>,
    /// The token as an array index, if it is one.
    index: Option<usize>,
    node: Node,
}

impl Node {
    fn child_or_insert(&mut self, token: &str) -> &mut Self {
        let spelled = reader::spell(token);
        let at = self.children.iter().position(|child| *child.spelled == *spelled).unwrap_or_else(|| {
            let index = token.parse().ok().filter(|_| is_index(token));
            self.children.push(Child { spelled: spelled.into(), index, node: Self::default() });
            self.children.len() - 1
        });
        &mut self.children[at].node
    }
}

/// RFC 6901: digits without a leading zero.
fn is_index(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'))
}

/// What of one value is chosen.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    Whole,
    Nothing,
    OnlyIn(&'a Node),
    ExceptIn(&'a Node),
}

impl Choice<'_> {
    pub(super) fn of_member(self, spelled: &[u8]) -> Self {
        self.of_child(|child| *child.spelled == *spelled)
    }

    pub(super) fn of_element(self, index: usize) -> Self {
        self.of_child(|child| child.index == Some(index))
    }

    fn of_child(self, is_it: impl Fn(&Child) -> bool) -> Self {
        match self {
            Self::Whole | Self::Nothing => self,
            Self::OnlyIn(node) => match node.children.iter().find(|child| is_it(child)) {
                None => Self::Nothing,
                Some(child) if child.node.chosen => Self::Whole,
                Some(child) => Self::OnlyIn(&child.node),
            },
            Self::ExceptIn(node) => match node.children.iter().find(|child| is_it(child)) {
                None => Self::Whole,
                Some(child) if child.node.chosen => Self::Nothing,
                Some(child) => Self::ExceptIn(&child.node),
            },
        }
    }
}

/// A text is no JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerError {
    pointer: Box<str>,
}

impl fmt::Display for PointerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no JSON pointer: it begins with `/`, and `~` stands only in `~0` and `~1`",
            self.pointer
        )
    }
}

impl core::error::Error for PointerError {}
