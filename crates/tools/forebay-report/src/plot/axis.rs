//! From numbers to places, and where the ticks stand.

/// How numbers are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal ratios; numbers up to 0 are not drawn.
    Log,
}

/// Numbers from `low` to `high` on pixels from `start` to `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    start: f32,
    end: f32,
}

impl Span {
    /// A span that shows all of `values`, its ends rounded outwards; linear ones begin at 0 when nothing lies below.
    pub(super) fn around(
        scale: Scale,
        values: &[f64],
        fixed: Option<(f64, f64)>,
        (start, end): (f32, f32),
    ) -> Self {
        let usable = |value: &&f64| value.is_finite() && (scale == Scale::Linear || **value > 0.0);
        let low = values
            .iter()
            .filter(usable)
            .copied()
            .fold(f64::INFINITY, f64::min);
        let high = values
            .iter()
            .filter(usable)
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let (low, high) = match (fixed, scale) {
            (Some(range), _) => range,
            (None, Scale::Linear) => {
                let step = step((high - low.min(0.0)).max(1e-9));
                (
                    (low.min(0.0) / step).floor() * step,
                    ((high * 1.02) / step).ceil().max(1.0) * step,
                )
            }
            (None, Scale::Log) => (low / 1.25, high * 1.25),
        };
        Self {
            scale,
            low,
            high,
            start,
            end,
        }
    }

    /// The pixel of `value`, if it is on the axis.
    pub(super) fn place(&self, value: f64) -> Option<f32> {
        let slack = (self.high - self.low).abs() * 1e-9;
        if !value.is_finite() || value < self.low - slack || value > self.high + slack {
            return None;
        }
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        Some(self.start + (self.end - self.start) * share as f32)
    }

    /// Numbers with a tick and a label.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|index| index as f64 * step).collect()
            }
            Scale::Log => self.log_ticks(),
        }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = |steps: &[f64]| -> Vec<f64> {
            let of = |decade: i32| steps.iter().map(move |step| step * 10_f64.powi(decade));
            decades
                .clone()
                .flat_map(of)
                .filter(|tick| (self.low..=self.high).contains(tick))
                .collect()
        };
        let coarse = all(&[1.0]);
        if coarse.len() >= 4 {
            coarse
        } else {
            all(&[1.0, 2.0, 5.0])
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `width` into four to ten parts.
fn step(width: f64) -> f64 {
    let rough = width / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough)
        .unwrap_or(power)
}

/// A tick's label: no more digits than the number needs.
pub(super) fn label(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 10_000.0 {
        let text = format!("{value:.0}");
        let digits = text.len();
        let grouped = text.chars().enumerate().flat_map(|(index, digit)| {
            let gap = index > 0 && (digits - index).is_multiple_of(3);
            gap.then_some('\u{a0}').into_iter().chain([digit])
        });
        return grouped.collect();
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_start_at_zero() {
        let span = Span::around(Scale::Linear, &[3.0, 97.0], None, (0.0, 100.0));
        assert_eq!(span.ticks(), vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(span.place(50.0), Some(50.0));
    }

    #[test]
    fn logarithmic_places_are_ratios() {
        let span = Span::around(Scale::Log, &[0.0], Some((1.0, 100.0)), (0.0, 100.0));
        assert_eq!(span.place(10.0), Some(50.0));
        assert_eq!(span.place(0.0), None);
        assert_eq!(span.ticks(), vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn labels_are_short() {
        let texts = [0.0, 0.5, 20.0, 1475.5, 64000.0, 1_000_000.0].map(label);
        assert_eq!(
            texts,
            [
                "0",
                "0.5",
                "20",
                "1475.5",
                "64\u{a0}000",
                "1\u{a0}000\u{a0}000"
            ]
        );
    }
}
