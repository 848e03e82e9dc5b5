//! What an API key allows.

use std::fmt;

/// One thing a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Charge, and cancel keys.
    Charge,
    /// Give money back.
    Refund,
    /// Look at charges, the ledger and keys.
    Read,
    /// Metrics and the console, and whatever looking around takes.
    Operator,
}

impl Role {
    const ALL: [Self; 4] = [Self::Charge, Self::Refund, Self::Read, Self::Operator];

    /// The word in the key file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Read => "read",
            Self::Operator => "operator",
        }
    }

    /// The reverse of [`Role::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of roles, never empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// All of them.
    pub const ALL: Self = Self(0b1111);

    /// Reads `role[,role]`.
    ///
    /// # Errors
    /// The first word that is no role.
    pub fn parse(list: &str) -> Result<Self, UnknownRole> {
        list.split(',').try_fold(Self(0), |roles, word| match Role::parse(word) {
            Some(role) => Ok(Self(roles.0 | role.bit())),
            None => Err(UnknownRole(word.into())),
        })
    }

    /// Whether `role` is among them.
    #[must_use]
    pub const fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = Role::ALL.into_iter().filter(|role| self.has(*role)).map(Role::as_str).collect();
        f.write_str(&words.join(","))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roles({self})")
    }
}

/// A word that is no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRole(Box<str>);

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role is {:?}, allowed: charge, refund, read, operator", self.0)
    }
}

impl std::error::Error for UnknownRole {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_read_back_in_one_order() {
        assert_eq!(Roles::parse("operator,charge,charge").unwrap().to_string(), "charge,operator");
        assert_eq!(Roles::parse("charge,refund,read,operator"), Ok(Roles::ALL));
        for list in ["", "charge,", "Charge", "charge, read"] {
            assert!(Roles::parse(list).is_err(), "{list:?}");
        }
    }
}
