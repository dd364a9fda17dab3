//! A process that is a part of a chain which one command started.

/// Names the process without which a child has nothing to do.
const PARENT: &str = "FOREBAY_PARENT";
/// The process that started this one as a part of its chain.
#[derive(Clone, Copy, Debug)]
pub struct Parent(Option<u32>);

impl Parent {
    /// As the environment says; none for a command that a user has typed.
    #[must_use]
    pub fn from_env() -> Self {
        let named = std::env::var(PARENT).ok();
        Self(named.and_then(|text| text.parse().ok()))
    }

    /// Whether there was one, and it is gone.
    #[must_use]
    pub fn is_gone(self) -> bool {
        self.0
            .is_some_and(|parent| std::os::unix::process::parent_id() != parent)
    }
}
