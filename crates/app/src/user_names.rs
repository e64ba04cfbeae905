//! The names of users.

/// Maximum length of the name of a user, in characters.
const MAX_USER_CHARS: usize = 256;

/// A text that is not the name of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the name of a user: it has 1 to {MAX_USER_CHARS} characters, no blanks around them, and no slashes"
)]
pub struct InvalidUserName(String);

/// The name of a user that a person or a client gives. Fails if it cannot be one.
pub fn check_user_name(name: &str) -> Result<String, InvalidUserName> {
    let is_odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
    let is_valid = !name.is_empty() && name.trim() == name && !name.contains(is_odd);
    match is_valid && name.chars().count() <= MAX_USER_CHARS {
        true => Ok(name.to_owned()),
        false => Err(InvalidUserName(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_user_is_one_word_or_several() {
        for name in ["ann", "user_999", "ann@example.com", "Ann Lee", "安娜"] {
            assert_eq!(check_user_name(name).as_deref(), Ok(name));
        }
        for name in ["", " ", " ann", "../x", "a\nb", &"x".repeat(257)] {
            assert!(check_user_name(name).is_err(), "{name:?}");
        }
    }
}
