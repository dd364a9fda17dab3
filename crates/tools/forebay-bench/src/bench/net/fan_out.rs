//! One publisher: many tags, many subscribers.

use anyhow::Result;

use super::{Bench, Goal, Line, Pattern, Perf, RATE, Turn};

const MESSAGE_BYTES: u32 = 64;
const TAGS: [u64; 3] = [1, 100, 10_000];
const SUBSCRIBERS: [u32; 3] = [1, 10, 100];
/// Buffers of each of many subscribers: memory that a short run touches for the first time would be most of what is measured.
const BUFFERS_EACH: u32 = 8;
/// Share of the rate of one tag that many tags have.
const OF_ONE_TAG: f64 = 0.8;

impl Bench<'_> {
    /// The cost of a message does not grow with the number of tags.
    pub(super) fn tags(&self) -> Result<Vec<Line>> {
        let turns = TAGS.map(|tags| {
            let subscribers = 1;
            let deal_tags = false;
            self.perf(
                "tcp",
                MESSAGE_BYTES,
                Pattern::PubSub {
                    tags,
                    subscribers,
                    deal_tags,
                },
            )
        });
        let found = self.alternate(&turns, RATE, 1.0)?;
        let named = |tags: u64| match tags {
            1 => "1 tag".to_owned(),
            _ => format!("{tags} tags"),
        };
        let one = found[0];
        let lines = TAGS.into_iter().zip(found).filter_map(|(tags, rate)| {
            let what = format!("tcp, 64 B published with {}", named(tags));
            let line = Line::new(what, "1/s", rate?);
            Some(match one {
                Some(one) if tags > 1 => line
                    .beside(named(1), one)
                    .ratio_goal(Goal::AtLeast(OF_ONE_TAG)),
                _ => line,
            })
        });
        Ok(lines.collect())
    }

    /// Copies over all subscribers, of which one process has all.
    pub(super) fn subscribers(&self) -> Result<Vec<Line>> {
        let turns = SUBSCRIBERS.map(|subscribers| {
            let pattern = Pattern::PubSub {
                tags: 1,
                subscribers,
                deal_tags: false,
            };
            Turn::Ours(Perf {
                buffer_count: BUFFERS_EACH,
                ..self.own("tcp", MESSAGE_BYTES, pattern)
            })
        });
        let found = self.alternate(&turns, RATE, 1.0)?;
        let one = found[0];
        let lines = SUBSCRIBERS.into_iter().zip(found);
        let lines = lines.filter_map(|(subscribers, rate)| {
            let plural = if subscribers == 1 { "" } else { "s" };
            let what = format!("tcp, copies of 64 B to {subscribers} subscriber{plural}");
            let line = Line::new(what, "1/s", rate?);
            Some(match one {
                Some(one) if subscribers > 1 => line.beside("to 1 subscriber", one),
                _ => line,
            })
        });
        Ok(lines.collect())
    }
}
