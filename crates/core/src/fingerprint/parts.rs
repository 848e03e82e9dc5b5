//! Short digests of a request's parts, kept to name what differs when a key is reused (P6).
//!
//! The full digest alone decides whether two requests are equal; these only say where to look. Each is the
//! first 8 bytes of a digest over the part's name and value.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::unescape;

pub(super) type Short = [u8; 8];

/// Names of the four parts beside the body, in stored order. `:type` stands for content type and encoding.
pub(super) const REQUEST: [&str; 4] = [":method", ":path", ":query", ":type"];
const BODY: &str = ":body";

/// Objects with more members are kept as one digest: a record stays small whatever its caller sends.
const MEMBERS_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 64;
/// As many names as a person reads.
const NAMES_MAX: usize = 20;

/// The short digests of one request; empty where they are switched off.
///
/// Stored form: nothing, or the four digests of [`REQUEST`], a byte with the number of members, and for
/// each of them the length of its name, the name as the canonical form spells it, and its digest. The
/// number [`WHOLE`] means that one digest of the whole body follows instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(Vec<u8>);

const WHOLE: u8 = u8::MAX;

pub(super) enum Body<'a> {
    Whole(Short),
    Members(Vec<(&'a [u8], Short)>),
}

/// Whether an object's members are few and short enough to be kept one by one.
pub(super) fn kept_by_member<'a>(mut names: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    names.len() <= MEMBERS_MAX && names.all(|name| name.len() <= NAME_BYTES_MAX)
}

impl Parts {
    pub(super) fn new(request: [Short; 4]) -> Self {
        let mut bytes = Vec::with_capacity(128);
        request.iter().for_each(|short| bytes.extend_from_slice(short));
        Self(bytes)
    }

    pub(super) fn with_whole_body(mut self, short: Short) -> Self {
        self.0.push(WHOLE);
        self.0.extend_from_slice(&short);
        self
    }

    /// For names that pass [`kept_by_member`].
    pub(super) fn with_members<'a>(
        mut self,
        members: impl ExactSizeIterator<Item = (&'a [u8], Short)>,
    ) -> Self {
        self.0.push(length_byte(members.len()));
        for (name, short) in members {
            self.0.push(length_byte(name.len()));
            self.0.extend_from_slice(name);
            self.0.extend_from_slice(&short);
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let parts = Self(bytes.to_owned());
        (bytes.is_empty() || parts.read().is_some()).then_some(parts)
    }

    /// `None` where there is nothing, or not the stored form.
    fn read(&self) -> Option<([Short; 4], Body<'_>)> {
        let mut rest = self.0.as_slice();
        let mut request = [Short::default(); 4];
        for short in &mut request {
            *short = take_short(&mut rest)?;
        }
        let body = match *rest.split_off_first()? {
            WHOLE => Body::Whole(take_short(&mut rest)?),
            count => {
                let member = |_| {
                    let length = usize::from(*rest.split_off_first()?);
                    Some((rest.split_off(..length)?, take_short(&mut rest)?))
                };
                Body::Members((0..count).map(member).collect::<Option<_>>()?)
            }
        };
        rest.is_empty().then_some((request, body))
    }

    /// The names of the parts that differ: `:method` and its like first, then members by name. Nothing where
    /// one side has no parts.
    pub(super) fn differs(&self, other: &Self) -> Vec<String> {
        let (Some((ours, our_body)), Some((theirs, their_body))) = (self.read(), other.read()) else {
            return Vec::new();
        };
        let unequal =
            REQUEST.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs);
        let mut names: Vec<String> = unequal.map(|(name, _)| (*name).to_owned()).collect();
        match (our_body, their_body) {
            (Body::Members(ours), Body::Members(theirs)) => names.extend(unequal_members(&ours, &theirs)),
            (Body::Whole(ours), Body::Whole(theirs)) if ours == theirs => {}
            _ => names.push(BODY.to_owned()),
        }
        names.truncate(NAMES_MAX);
        names
    }
}

fn unequal_members(ours: &[(&[u8], Short)], theirs: &[(&[u8], Short)]) -> BTreeSet<String> {
    let missing_in = |others: &[(&[u8], Short)], member| !others.contains(member);
    let only_ours = ours.iter().filter(|member| missing_in(theirs, member));
    let only_theirs = theirs.iter().filter(|member| missing_in(ours, member));
    only_ours.chain(only_theirs).map(|(name, _)| displayed(name)).collect()
}

/// A member's name as it is shown: unescaped, and with a second colon where it begins with one, so that no
/// member passes for a part of the request.
fn displayed(spelled: &[u8]) -> String {
    let name = unescape(spelled);
    if name.starts_with(':') { [":", &name].concat() } else { name }
}

fn take_short(bytes: &mut &[u8]) -> Option<Short> {
    bytes.split_off(..8)?.try_into().ok()
}

fn length_byte(length: usize) -> u8 {
    u8::try_from(length).expect("names and numbers of members are limited")
}
