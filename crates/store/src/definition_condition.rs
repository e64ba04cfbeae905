//! Conditions of changes: two people who edit the same definition do not overwrite each other's content unnoticed.

use crate::error::StoreError;

/// Which current content a definition must have so that it may be changed. The default accepts every content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionCondition {
    /// The definition must exist with one of these contents.
    pub required: Option<ContentTags>,
    /// The definition must not exist with one of these contents.
    pub excluded: Option<ContentTags>,
}

/// A set of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentTags {
    /// Every content.
    Any,
    /// The contents with these tags, as [`content_tag`] makes them.
    OneOf(Vec<String>),
}

impl ContentTags {
    fn contains(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (ContentTags::Any, Some(_)) => true,
            (ContentTags::OneOf(tags), Some(tag)) => tags.iter().any(|other| other == tag),
        }
    }
}

/// The tag of one version of a definition. Storing a former content again is another version with another tag.
pub fn content_tag(hash: &str, version: u32) -> String {
    format!("{hash}-{version}")
}

impl DefinitionCondition {
    /// Whether a definition with this content meets the condition; `None` if there is no definition.
    pub(crate) fn is_met(&self, tag: Option<&str>) -> bool {
        let is_required = self.required.as_ref().is_none_or(|set| set.contains(tag));
        is_required && !self.excluded.as_ref().is_some_and(|set| set.contains(tag))
    }

    /// The error of a change to a definition that does not meet the condition.
    pub(crate) fn to_error(&self, kind: &'static str, id: &str) -> StoreError {
        match (&self.required, &self.excluded) {
            (None, Some(ContentTags::Any)) => StoreError::DefinitionExists { kind, id: id.to_owned() },
            _ => StoreError::ConditionFailed { kind, id: id.to_owned() },
        }
    }
}
