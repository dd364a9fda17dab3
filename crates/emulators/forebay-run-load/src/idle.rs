//! How idle the host was (`/proc/stat`, proc(5)).

use std::fs;

/// Time of all CPUs since the start of the host, in units of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) idle: u64,
    pub(crate) total: u64,
}

impl CpuTicks {
    /// Those of now; 0 where the kernel does not tell.
    pub(crate) fn now() -> Self {
        fs::read_to_string("/proc/stat").map_or(Self::default(), |text| Self::of(&text))
    }

    /// The first line has user, nice, system, idle, waiting for I/O, interrupts (2), and what a hypervisor took.
    fn of(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let numbers = line.split_whitespace().skip(1);
        let ticks: Vec<u64> = numbers.map_while(|it| it.parse().ok()).take(8).collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            total: ticks.iter().sum(),
        }
    }

    /// Since an earlier reading.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            idle: self.idle.saturating_sub(before.idle),
            total: self.total.saturating_sub(before.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read() {
        let text = "cpu  10 1 20 300 5 2 3 4 9 9\ncpu0 1 1 1 1\n";
        let ticks = CpuTicks::of(text);
        assert_eq!(
            ticks,
            CpuTicks {
                idle: 305,
                total: 345
            }
        );
        let later = CpuTicks {
            idle: 400,
            total: 545,
        };
        assert_eq!(
            later.since(ticks),
            CpuTicks {
                idle: 95,
                total: 200
            }
        );
        assert_eq!(CpuTicks::of("cpu what"), CpuTicks::default());
    }
}
