//! One line of results.

use forebay_report::conditions::Conditions;
use forebay_report::statistics::Spread;

/// Less than this is not told.
const STOLEN_TOLD: f64 = 0.001;

/// A goal that the project set itself.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At least so much.
    AtLeast(f64),
    /// At most so much.
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(goal) => value >= goal,
            Self::AtMost(goal) => value <= goal,
        }
    }
}

/// A result beside its reference.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// The result.
    pub value: Spread,
    /// What it is compared with, of the same run, in the same unit.
    pub reference: Option<Reference>,
    /// The goal, if there is one; for `Ratio` lines it is the ratio's.
    pub goal: Option<Goal>,
    /// Whether the goal is the ratio's.
    pub goal_is_ratio: bool,
    /// Whether the goal is met; nothing without a goal, or when the numbers do not tell.
    pub met: Option<bool>,
    /// Load average before the measurement.
    pub load_before: f64,
    /// Part of the CPUs' time with work at hand that a hypervisor took away meanwhile.
    pub stolen: f64,
    /// What else must be known.
    pub note: String,
}

/// Something else measured in the same run.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Reference {
    /// What it is.
    pub what: String,
    /// How much.
    pub value: Spread,
    /// Result over reference, of the medians.
    pub ratio: f64,
}

impl Line {
    /// A line without reference and goal.
    #[must_use]
    pub fn new(what: impl Into<String>, unit: &'static str, value: Spread) -> Self {
        let load_before = Conditions::load();
        Self {
            what: what.into(),
            unit,
            value,
            reference: None,
            goal: None,
            goal_is_ratio: false,
            met: None,
            load_before,
            stolen: 0.0,
            note: String::new(),
        }
    }

    /// Sets a reference beside it.
    #[must_use]
    pub fn beside(mut self, what: impl Into<String>, value: Spread) -> Self {
        self.reference = Some(Reference {
            what: what.into(),
            value,
            ratio: self.value.median / value.median,
        });
        self
    }

    /// Sets a goal for the value.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self.met = Some(goal.is_met(self.value.median));
        self
    }

    /// Sets a goal for the ratio to the reference.
    #[must_use]
    pub fn ratio_goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self.goal_is_ratio = true;
        self.met = self
            .reference
            .as_ref()
            .map(|reference| goal.is_met(reference.ratio));
        self
    }

    /// The numbers do not tell whether the goal is met.
    #[must_use]
    pub fn undecided(mut self) -> Self {
        self.met = None;
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// For people, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let Spread {
            median,
            low,
            high,
            runs,
        } = self.value;
        let mut text = format!(
            "{}: {} {} ({}..{}, {runs} runs)",
            self.what,
            number(median),
            self.unit,
            number(low),
            number(high)
        );
        if let Some(Reference { what, value, ratio }) = &self.reference {
            text += &format!(
                "; {what} {} {}, ratio {ratio:.2}",
                number(value.median),
                self.unit
            );
        }
        if let Some(goal) = self.goal {
            let goal = match goal {
                Goal::AtLeast(goal) => format!("≥ {}", number(goal)),
                Goal::AtMost(goal) => format!("≤ {}", number(goal)),
            };
            let of = if self.goal_is_ratio {
                " of the reference"
            } else {
                ""
            };
            let met = match self.met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "undecided",
            };
            text += &format!("; goal {goal}{of}: {met}");
        }
        if !self.note.is_empty() {
            text += &format!("; {}", self.note);
        }
        text += &format!("; load {:.1}", self.load_before);
        if self.stolen >= STOLEN_TOLD {
            let percent = self.stolen * 100.0;
            text += &format!("; a hypervisor took {percent:.1} % of the time with work at hand");
        }
        text
    }
}

/// Three digits, or all before the point.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// All lines with their conditions.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// The conditions.
    pub conditions: Conditions,
    /// Few short runs only.
    pub quick: bool,
    /// What makes the numbers doubtful.
    pub warnings: Vec<String>,
    /// The results.
    pub lines: Vec<Line>,
    /// Parts that did not come to their end.
    pub failed: Vec<Failed>,
    /// Ended by Ctrl-C or SIGTERM: the lines that the part at hand had not given yet are missing, and the parts after it.
    pub interrupted: bool,
}

/// A part that did not come to its end.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Failed {
    /// Its name.
    pub part: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_report::statistics::spread;

    #[test]
    fn a_missed_ratio_is_said() {
        let (Some(ours), Some(theirs)) = (spread([70.0]), spread([100.0])) else {
            panic!("values")
        };
        let line = Line::new("x", "1/s", ours)
            .beside("bare", theirs)
            .ratio_goal(Goal::AtLeast(0.8));
        assert_eq!(line.met, Some(false));
        assert!(
            line.text()
                .contains("ratio 0.70; goal ≥ 0.80 of the reference: MISSED"),
            "{}",
            line.text()
        );
        let line = line.undecided();
        assert_eq!(line.met, None);
        assert!(line.text().contains("undecided"), "{}", line.text());
    }
}
