//! HLD, the HADES list-mode data file: a plain concatenation of events between a start and a stop event.
//!
//! ```text
//! +0   size       bytes of header and padded sub-events
//! +4   decoding   0x00030001
//! +8   id         31 data error · 30 incomplete (ours) · 15..12 version · 3..0 trigger type
//! +12  sequence   running number
//! +16  date       (year - 1900) << 16 | month, from 0 << 8 | day, UTC
//! +20  time       hour << 16 | minute << 8 | second, UTC
//! +24  run        seconds since 2008-01-10T21:20:00Z
//! +28  pad        experiment id or 0
//! ```
//!
//! The header is in the order of the host that wrote it (little-endian on x86), the sub-events stay as they
//! were received (big-endian from hardware): a normal file is mixed.

use core::fmt;
use core::ops::Range;

use crate::Error;
use crate::subevent::SubEvents;
use crate::unit::{ALIGNMENT_BYTES, ByteOrder, UnitHeader, alignment_bytes};

/// Bytes of an event's header; start and stop events are just these.
pub const EVENT_HEADER_BYTES: usize = 32;
/// Decoding word of an event: its sub-events are padded to 8 bytes.
pub const EVENT_DECODING: u32 = 0x0003_0001;
/// Decoding word of an event in files from before the alignment.
pub const EVENT_DECODING_OLD: u32 = 1;
/// Unix time of run number 0.
pub const RUN_EPOCH_UNIX_S: i64 = 1_200_000_000;

mod place {
    use core::ops::Range;

    pub(super) const ID: Range<usize> = 8..12;
    pub(super) const SEQUENCE: Range<usize> = 12..16;
    pub(super) const DATE: Range<usize> = 16..20;
    pub(super) const TIME: Range<usize> = 20..24;
    pub(super) const RUN: Range<usize> = 24..28;
    pub(super) const PAD: Range<usize> = 28..32;
}

/// The id word of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EventId(pub u32);

impl EventId {
    /// The first event of a file.
    pub const START: Self = Self(0x0001_0002);
    /// The last event of a file.
    pub const STOP: Self = Self(0x0001_0003);
    /// Version 2 of the event's layout, in bits 15..12.
    pub const VERSION: u32 = 2 << 12;
    /// Bit 31: a sub-event has its data-error bit set, or (with bit 30) sub-events are missing.
    pub const DATA_ERROR_BIT: u32 = 1 << 31;
    /// Bit 30, reserved in the format: Forebay sets it together with bit 31 when sources are missing from the event.
    pub const INCOMPLETE_BIT: u32 = 1 << 30;

    /// A data event of version 2 with a trigger type of 4 bits.
    pub const fn data(trigger_type: u8) -> Self {
        Self(Self::VERSION | (trigger_type & 0xf) as u32)
    }

    /// The same with the data-error bit set or not.
    #[must_use]
    pub const fn with_data_error(self, error: bool) -> Self {
        if error {
            Self(self.0 | Self::DATA_ERROR_BIT)
        } else {
            Self(self.0 & !Self::DATA_ERROR_BIT)
        }
    }

    /// The same marked as incomplete: bits 31 and 30.
    #[must_use]
    pub const fn with_incomplete(self) -> Self {
        Self(self.0 | Self::DATA_ERROR_BIT | Self::INCOMPLETE_BIT)
    }

    /// The trigger type: 1 to 5 real triggers, 9 MDC calibration, 0xD begin of run or calibration pulser, 0xE end of run.
    pub const fn trigger_type(self) -> u8 {
        (self.0 & 0xf) as u8
    }

    /// The version of the event's layout.
    pub const fn version(self) -> u8 {
        ((self.0 >> 12) & 0xf) as u8
    }

    /// Bit 31.
    pub const fn has_data_error(self) -> bool {
        self.0 & Self::DATA_ERROR_BIT != 0
    }

    /// Bits 31 and 30: sources are missing from this event (Forebay's own mark).
    pub const fn is_incomplete(self) -> bool {
        let both = Self::DATA_ERROR_BIT | Self::INCOMPLETE_BIT;
        self.0 & both == both
    }
}

/// A moment of the calendar, as the date and time words hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventTime {
    /// Year of our calendar.
    pub year: u16,
    /// 1 to 12 (the file counts from 0).
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
}

impl EventTime {
    /// The UTC calendar time of a unix time; times before 1970 count as 1970, times after year 65535 as its end.
    pub const fn from_unix_s(unix_s: i64) -> Self {
        const LAST: i64 = 2_005_949_145_599;
        let unix_s = if unix_s < 0 {
            0
        } else if unix_s > LAST {
            LAST
        } else {
            unix_s
        };
        let (year, month, day) = civil_from_days(unix_s / 86_400);
        let second = unix_s % 86_400;
        Self {
            year,
            month,
            day,
            hour: (second / 3_600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
        }
    }

    /// Reads the two words; values outside of their ranges are kept as they are.
    pub const fn from_words(date: u32, time: u32) -> Self {
        Self {
            year: ((date >> 16) as u16).saturating_add(1900),
            month: ((date >> 8) as u8).saturating_add(1),
            day: date as u8,
            hour: (time >> 16) as u8,
            minute: (time >> 8) as u8,
            second: time as u8,
        }
    }

    /// The date word.
    pub const fn date_word(self) -> u32 {
        ((self.year.saturating_sub(1900) as u32) << 16)
            | ((self.month.saturating_sub(1) as u32) << 8)
            | self.day as u32
    }

    /// The time word.
    pub const fn time_word(self) -> u32 {
        ((self.hour as u32) << 16) | ((self.minute as u32) << 8) | self.second as u32
    }

    /// `true` when all parts are within their ranges.
    pub const fn is_plausible(self) -> bool {
        matches!(self.month, 1..=12)
            && matches!(self.day, 1..=31)
            && self.hour < 24
            && self.minute < 60
            && self.second <= 60
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// The calendar day of a count of days since 1970-01-01 (years from 1 March, in eras of 400 years).
const fn civil_from_days(days: i64) -> (u16, u8, u8) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    (year as u16, month as u8, day as u8)
}

/// An event's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// Bytes of header and padded sub-events; at least 32.
    pub size: u32,
    /// [`EVENT_DECODING`] in all files of today.
    pub decoding: u32,
    /// Flags, version and trigger type.
    pub id: EventId,
    /// Running number.
    pub sequence: u32,
    /// Date word, see [`EventTime`].
    pub date: u32,
    /// Time word, see [`EventTime`].
    pub time: u32,
    /// Run number: seconds since [`RUN_EPOCH_UNIX_S`].
    pub run: u32,
    /// Experiment id (two letters) or 0.
    pub pad: u32,
    /// The header's byte order.
    pub order: ByteOrder,
}

impl EventHeader {
    /// A data event's header in the host's order, made at a unix time; the caller sets size, id and sequence.
    pub const fn new(id: EventId, unix_s: i64, run: u32) -> Self {
        let at = EventTime::from_unix_s(unix_s);
        Self {
            size: EVENT_HEADER_BYTES as u32,
            decoding: EVENT_DECODING,
            id,
            sequence: 0,
            date: at.date_word(),
            time: at.time_word(),
            run,
            pad: 0,
            order: ByteOrder::NATIVE,
        }
    }

    /// Reads a header in the order that its decoding word reveals.
    ///
    /// # Errors
    /// [`Error::Decoding`], [`Error::NotAnEvent`], [`Error::SizeBelowHeader`].
    #[inline]
    pub fn parse(head: &[u8; EVENT_HEADER_BYTES]) -> Result<Self, Error> {
        let unit = UnitHeader::parse(head.first_chunk().unwrap_or(&[0; 8]))?;
        let (size, decoding, order) = (unit.size, unit.decoding, unit.order);
        if decoding != EVENT_DECODING && decoding != EVENT_DECODING_OLD {
            return Err(Error::NotAnEvent { decoding });
        }
        if size < EVENT_HEADER_BYTES as u32 {
            return Err(Error::SizeBelowHeader {
                size,
                least: EVENT_HEADER_BYTES as u32,
            });
        }
        let word = |place: core::ops::Range<usize>| {
            let bytes = head[place].first_chunk().copied();
            order.u32(bytes.unwrap_or_default())
        };
        Ok(Self {
            size,
            decoding,
            id: EventId(word(place::ID)),
            sequence: word(place::SEQUENCE),
            date: word(place::DATE),
            time: word(place::TIME),
            run: word(place::RUN),
            pad: word(place::PAD),
            order,
        })
    }

    /// Writes the header in its order.
    pub fn emit(&self, head: &mut [u8; EVENT_HEADER_BYTES]) {
        let words = [
            self.size,
            self.decoding,
            self.id.0,
            self.sequence,
            self.date,
            self.time,
            self.run,
            self.pad,
        ];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&self.order.bytes(word));
        }
    }

    /// The header's 32 bytes.
    pub fn to_bytes(&self) -> [u8; EVENT_HEADER_BYTES] {
        let mut head = [0; EVENT_HEADER_BYTES];
        self.emit(&mut head);
        head
    }

    /// Gives an event of the host's order, which begins at `event`, another run number: one that goes into several files. Nothing happens where no header fits.
    #[inline]
    pub fn set_run(event: &mut [u8], run: u32) {
        if let Some(place) = event.get_mut(place::RUN) {
            place.copy_from_slice(&ByteOrder::NATIVE.bytes(run));
        }
    }

    /// When the event was built, UTC.
    pub const fn at(&self) -> EventTime {
        EventTime::from_words(self.date, self.time)
    }

    /// The alignment of the sub-events inside, in bytes.
    pub const fn alignment(&self) -> usize {
        match alignment_bytes(self.decoding) {
            Some(bytes) => bytes,
            None => ALIGNMENT_BYTES,
        }
    }
}

impl fmt::Display for EventHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "event {} id {:#06x} size {} run {} at {} {}",
            self.sequence,
            self.id.0,
            self.size,
            self.run,
            self.at(),
            self.order
        )
    }
}

/// Walks over events of this host's order that lie one behind the other, where each begins and ends; up to one whose size cannot be, or that does not
/// end in the memory. What others may write is read once: `word` reads the word at a place.
#[derive(Debug)]
pub struct EventPlaces<F> {
    word: F,
    at: usize,
    end: usize,
}

impl<F: FnMut(usize) -> Option<u32>> EventPlaces<F> {
    /// Over this many bytes.
    pub const fn new(bytes: usize, word: F) -> Self {
        let (at, end) = (0, bytes);
        Self { word, at, end }
    }
}

impl<F: FnMut(usize) -> Option<u32>> Iterator for EventPlaces<F> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let size = (self.word)(self.at)? as usize;
        let end = self.at + size.next_multiple_of(ALIGNMENT_BYTES);
        if size < EVENT_HEADER_BYTES || end > self.end {
            return None;
        }
        Some(core::mem::replace(&mut self.at, end)..end)
    }
}

/// A checked view of one event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    header: EventHeader,
    bytes: &'a [u8],
}

impl<'a> Event<'a> {
    /// Takes the event at the start of `bytes`; what follows it is ignored.
    ///
    /// # Errors
    /// As [`EventHeader::parse`], and [`Error::Truncated`] when bytes are missing.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let have = bytes.len();
        let truncated = |need| Error::Truncated { need, have };
        let head = bytes.first_chunk();
        let header = EventHeader::parse(head.ok_or(truncated(EVENT_HEADER_BYTES))?)?;
        let size = header.size as usize;
        let bytes = bytes.get(..size).ok_or(truncated(size))?;
        Ok(Self { header, bytes })
    }

    /// The header's words.
    pub const fn header(&self) -> EventHeader {
        self.header
    }

    /// Header and sub-events as they came.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The sub-events, each checked as it is reached.
    pub fn sub_events(&self) -> SubEvents<'a> {
        SubEvents::new(self.bytes, EVENT_HEADER_BYTES, self.header.alignment())
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::UnitHeader;

    /// A start event, an event with one little-endian sub-event, both as an x86 host wrote them.
    const START: [u8; 32] = [
        0x20, 0, 0, 0, 0x01, 0, 0x03, 0, 0x02, 0, 0x01, 0, 0, 0, 0,
        0, // size, decoding, id, sequence
        0x15, 0x0a, 0x7e, 0, 0x06, 0x18, 0x13, 0, 0x07, 0x64, 0x7b, 0x23, 0, 0, 0, 0,
    ];

    #[test]
    fn golden_start_event() {
        let header = EventHeader::parse(&START).unwrap();
        assert_eq!(header.id, EventId::START);
        assert_eq!((header.size, header.sequence), (32, 0));
        assert_eq!(header.run, 0x237b_6407);
        assert_eq!(header.order, ByteOrder::Little);
        assert_eq!(std::format!("{}", header.at()), "2026-11-21T19:24:06Z");
        assert_eq!(header.to_bytes(), START);
    }

    #[test]
    fn golden_an_event_of_another_run() {
        let mut event = EventHeader::new(EventId::data(1), 1_800_000_000, 7).to_bytes();
        let before = event;
        EventHeader::set_run(&mut event, 0x0102_0304);
        assert_eq!(event[24..28], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!((&event[..24], &event[28..]), (&before[..24], &before[28..]));
        assert_eq!(EventHeader::parse(&event).unwrap().run, 0x0102_0304);
        let mut short = [0xff; 27];
        EventHeader::set_run(&mut short, 1);
        assert_eq!(short, [0xff; 27]);
    }

    #[test]
    fn golden_event_ids() {
        assert_eq!(EventId::data(0xd).0, 0x200d);
        assert_eq!(EventId::data(1).with_data_error(true).0, 0x8000_2001);
        assert_eq!(EventId::data(1).with_incomplete().0, 0xc000_2001);
        assert!(EventId::data(1).with_incomplete().is_incomplete());
        assert!(!EventId::data(1).with_data_error(true).is_incomplete());
        assert_eq!(EventId::data(0x1d).trigger_type(), 0xd);
    }

    #[test]
    fn golden_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_200_000_000, "2008-01-10T21:20:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-5, "1970-01-01T00:00:00Z"),
            (i64::MAX, "65535-12-31T23:59:59Z"),
        ] {
            let at = EventTime::from_unix_s(unix_s);
            assert_eq!(std::format!("{at}"), text);
            assert!(at.is_plausible());
            assert_eq!(EventTime::from_words(at.date_word(), at.time_word()), at);
        }
    }

    #[test]
    fn made_now_equals_the_golden_bytes() {
        // 2026-11-21T19:24:06Z, the run number of that file.
        let header = EventHeader {
            order: ByteOrder::Little,
            ..EventHeader::new(EventId::START, 1_795_289_046, 0x237b_6407)
        };
        assert_eq!(header.to_bytes(), START);
    }

    #[test]
    fn refuses_what_is_no_event() {
        let with_unit = |size, decoding| {
            let mut head = START;
            let order = ByteOrder::Little;
            UnitHeader {
                size,
                decoding,
                order,
            }
            .emit(head.first_chunk_mut().unwrap());
            EventHeader::parse(&head)
        };
        assert_eq!(
            with_unit(31, EVENT_DECODING),
            Err(Error::SizeBelowHeader {
                size: 31,
                least: 32
            })
        );
        assert_eq!(
            with_unit(32, 0x0003_0062),
            Err(Error::NotAnEvent {
                decoding: 0x0003_0062
            })
        );
        assert_eq!(
            with_unit(32, 0x0002_0001),
            Err(Error::NotAnEvent {
                decoding: 0x0002_0001
            })
        );
        assert!(with_unit(32, 1).is_ok(), "files from before the alignment");
    }

    #[test]
    fn places_of_events_end_at_one_that_cannot_be() {
        // Sizes of 32, 36 (padded to 40), and what comes third.
        let places = |third: u32, bytes: usize| {
            let words = [(0, 32), (32, 36), (72, third)];
            let word = move |at| {
                words
                    .iter()
                    .find(|(of, _)| *of == at)
                    .map(|(_, size)| *size)
            };
            EventPlaces::new(bytes, word).collect::<std::vec::Vec<_>>()
        };
        assert_eq!(places(32, 104), [0..32, 32..72, 72..104]);
        assert_eq!(places(33, 104), [0..32, 32..72], "beyond the memory");
        assert_eq!(places(31, 104), [0..32, 32..72], "below a header");
        assert_eq!(places(u32::MAX, 104), [0..32, 32..72]);
        assert_eq!(
            places(32, 71),
            core::slice::from_ref(&(0..32)),
            "the padding is a part of it"
        );
    }
}
