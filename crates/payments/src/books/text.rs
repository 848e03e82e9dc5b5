//! Text of others, as it is kept: one line, of bounded length, and nothing in it that acts on a terminal.

use std::borrow::Cow;

/// More than any message of ours.
const CHARACTERS_MAX: usize = 1_000;

/// The text without what a terminal would obey, and cut where it is too long.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.len() <= CHARACTERS_MAX && !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut characters = text.chars();
    let mut kept: String =
        characters.by_ref().take(CHARACTERS_MAX).map(|it| if acts(it) { '\u{fffd}' } else { it }).collect();
    if characters.next().is_some() {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// Whether a character moves the cursor, starts a sequence, or turns the direction of what is read.
#[must_use]
pub fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_kept() {
        assert_eq!(plain("answered 500 böse"), "answered 500 böse");
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{202e}d\u{9b}e"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e");
        let long = plain(&"x".repeat(2_000)).into_owned();
        assert_eq!((long.chars().count(), long.ends_with('…')), (1_001, true));
    }
}
