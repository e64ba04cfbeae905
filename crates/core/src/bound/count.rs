//! Numbers that may have no bound.

use serde::{Serialize, Serializer};

/// An upper bound; `None` if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub Option<u64>);

impl Default for Count {
    fn default() -> Count {
        Count::ZERO
    }
}

impl Count {
    /// Nothing.
    pub const ZERO: Count = Count(Some(0));
    /// Once.
    pub const ONE: Count = Count(Some(1));
    /// Any number.
    pub const UNBOUNDED: Count = Count(None);

    /// This and that. A sum beyond 64 bits has no bound.
    pub fn plus(self, other: Count) -> Count {
        Count(self.0.zip(other.0).and_then(|(a, b)| a.checked_add(b)))
    }

    /// This as often as `times`. Nothing stays nothing, however often.
    pub fn times(self, times: Count) -> Count {
        if self == Count::ZERO || times == Count::ZERO {
            return Count::ZERO;
        }
        Count(self.0.zip(times.0).and_then(|(a, b)| a.checked_mul(b)))
    }

    /// The larger one.
    pub fn max(self, other: Count) -> Count {
        Count(self.0.zip(other.0).map(|(a, b)| a.max(b)))
    }

    /// Whether a number stays within the bound.
    pub fn allows(self, number: u64) -> bool {
        self.0.is_none_or(|bound| number <= bound)
    }

    /// Whether there is a bound.
    pub fn is_bounded(self) -> bool {
        self.0.is_some()
    }
}

impl From<u64> for Count {
    fn from(number: u64) -> Count {
        Count(Some(number))
    }
}

/// A number, or `null` without a bound.
impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
