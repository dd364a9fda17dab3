//! A ledger with known numbers, looked at twice, two seconds apart.

use std::time::{Duration, Instant};

use forebay_evb::Reject;
use forebay_ledger::{
    Condition, GroupWriter, HistogramWriter, LedgerReader, Reason, RunWriter, Supervisor, Words,
    audit,
};
use forebay_run_evb::books::Books;
use forebay_run_evb::books::ReceiverDrop;
use forebay_run_evb::presets;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::page::{self, Wish};
use super::rows::Order;
use super::sample::Sample;
use super::screen::{Action, Screen};
use super::view::{State, View, Watch};

/// A run of three sources and a file sink.
struct World {
    books: Books,
    words: Words,
    run: RunWriter,
    reader: LedgerReader,
    start: Instant,
}

const START_NS: u64 = 1_000_000_000_000;

impl World {
    fn new() -> Self {
        let local = [127, 0, 0, 1].into();
        let mut plan = presets::plan("night-7", "there".as_ref(), local, 50000, 3);
        plan.sinks = vec![
            presets::file_sink("there".into(), "be"),
            presets::null_sink(),
        ];
        let books = Books::declare(&plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        let run = RunWriter::format(&books.schema, &words, 4711, START_NS).unwrap();
        run.set_condition(Condition::Running, Reason::None);
        let reader = LedgerReader::open(&words).unwrap();
        Self {
            books,
            words,
            run,
            reader,
            start: Instant::now(),
        }
    }

    /// Gives each source `events` messages of one sub-event of 100 bytes, all built; the second loses `lost` datagrams.
    fn run_to(&self, events: u64, lost: u64) {
        for (index, port) in self.books.ports.iter().enumerate() {
            let mut writer =
                GroupWriter::attach(&self.books.schema, &self.words, port.group).unwrap();
            let mut book = writer.restore();
            let queue = &port.sources[0];
            for tally in [queue.receiver.incoming, queue.receiver.outgoing] {
                book.set(tally.items, events);
                book.set(tally.bytes, events * 116);
            }
            for tally in [queue.queue.incoming, queue.queue.outgoing, queue.published] {
                book.set(tally.items, events);
                book.set(tally.bytes, events * 100);
            }
            book.set(queue.capacity, 1 << 20);
            book.set(queue.tail, events * 160);
            book.set(port.buffer_capacity, 2 << 20);
            book.set(port.buffer_fill, 1000 * index as u64);
            if index == 1 {
                book.set(port.kernel_drops, lost);
                book.set(queue.receiver.incoming.items, events + 1);
                book.set(queue.receiver.incoming.bytes, events * 116 + 9);
                let lost = queue.receiver.lost(ReceiverDrop::First(Reject::Short));
                book.set(lost.items, 1);
                book.set(lost.bytes, 9);
            }
            writer.commit(&book);
        }
        self.build(events);
    }

    fn build(&self, events: u64) {
        let builder = &self.books.builder;
        let mut writer =
            GroupWriter::attach(&self.books.schema, &self.words, builder.group).unwrap();
        let mut book = writer.restore();
        for source in &builder.sources {
            for tally in [
                source.account.incoming,
                source.account.outgoing,
                source.taken,
            ] {
                book.set(tally.items, events);
                book.set(tally.bytes, events * 100);
            }
            // The last fifth still lies in the rings.
            book.set(source.released, events * 128);
            book.set(source.last, events + 1);
        }
        // Nothing came from it since a second before the last event.
        let source = &builder.sources[2];
        book.set(source.silent, 1);
        book.set(source.heard, START_NS + 4_000_000_000);
        book.set(source.last_seen, START_NS + 4_000_000_000);
        book.set(source.last, 4_001);
        book.set(source.unheard, 1_234);
        book.set(source.events_without, 1_236);
        for tally in [builder.events.incoming, builder.events.outgoing] {
            book.set(tally.items, events);
            book.set(tally.bytes, events * 340);
        }
        book.set(builder.complete, events - 10);
        book.set(builder.partial, 10);
        for offer in &self.books.offers {
            for tally in [
                offer.account.incoming,
                offer.account.outgoing,
                offer.published,
            ] {
                book.set(tally.items, events);
                book.set(tally.bytes, events * 340);
            }
            book.set(offer.tail, events * 340);
        }
        book.set(self.books.span[0], START_NS + 1_000_000_000);
        book.set(self.books.span[1], START_NS + 5_000_000_000);
        writer.commit(&book);
        for (index, sink) in self.books.sinks.iter().enumerate() {
            let mut writer =
                GroupWriter::attach(&self.books.schema, &self.words, sink.group).unwrap();
            let mut book = writer.restore();
            for tally in [sink.account.incoming, sink.account.outgoing, sink.taken] {
                book.set(tally.items, events);
                book.set(tally.bytes, events * 340);
            }
            if index == 0 {
                book.set(sink.capacity, 64 << 20);
                book.set(sink.head, events * 340);
            }
            writer.commit(&book);
        }
        let schema = &self.books.schema;
        let mut latency = HistogramWriter::attach(schema, &self.words, self.books.latency).unwrap();
        latency.record(1_000_000);
    }

    fn sample(&self, seconds: u64, life: Supervisor) -> Sample {
        let snapshot = self.reader.snapshot().unwrap();
        Sample {
            at: self.start + Duration::from_secs(seconds),
            now_ns: START_NS + seconds * 1_000_000_000,
            verdict: audit(&snapshot, life),
            snapshot,
        }
    }

    /// The view at 4 s, after one at 2 s.
    fn view(&self) -> View {
        let mut watch = Watch::default();
        self.run_to(1000, 0);
        watch.view(self.sample(2, Supervisor::Alive));
        self.run_to(5000, 40);
        watch.view(self.sample(4, Supervisor::Alive))
    }
}

fn drawn(screen: &mut Screen, view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame, view)).unwrap();
    terminal.backend().to_string()
}

fn press(screen: &mut Screen, code: KeyCode) -> Action {
    screen.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn rates_are_differences_over_the_time_between_two_looks() {
    let view = World::new().view();
    assert_eq!(
        (view.state, view.rates_over_s, view.running_s),
        (State::Live, 2.0, 4.0)
    );
    let events = view.events.unwrap();
    assert_eq!((events.complete, events.partial), (4990, 10));
    assert_eq!(view.messages, None);
    assert_eq!(
        (events.rate_hz, events.data_rate_bytes_per_s),
        (2000.0, 680_000.0)
    );
    let receiver = view
        .places
        .iter()
        .find(|place| place.place == "receiver")
        .unwrap();
    let incoming = receiver.incoming.unwrap();
    assert_eq!(
        (incoming.items, incoming.items_per_s, receiver.owners),
        (15_001, 6000.0, 3)
    );
    let socket = view
        .places
        .iter()
        .find(|place| place.place == "socket")
        .unwrap();
    assert_eq!(
        (socket.link, socket.incoming, socket.dropped.items),
        (true, None, 40)
    );
    let lost = &view.drops[0];
    assert_eq!(
        (lost.place.as_str(), lost.reason.as_str()),
        ("socket", "buffer_full")
    );
    assert_eq!((lost.items, lost.items_per_s), (40, 20.0));
    assert_eq!(lost.most, [("source1".to_owned(), 40)]);
}

#[test]
fn fills_are_what_lies_between_head_and_tail() {
    let view = World::new().view();
    let fill = |stage: &str| view.fills.iter().find(|fill| fill.stage == stage).unwrap();
    let queues = fill("source queues");
    assert_eq!(
        (queues.count, queues.used_bytes, queues.capacity_bytes),
        (3, 3 * 5000 * 32, 3 << 20)
    );
    let sockets = fill("socket buffers");
    assert_eq!(
        (sockets.used_bytes, sockets.fullest_owner.as_str()),
        (3000, "source2")
    );
    assert_eq!(fill("sink queue file").used_bytes, 0);
    assert_eq!(view.fills.len(), 3, "a null sink has no queue");
}

#[test]
fn a_residual_that_stays_is_an_alarm() {
    let world = World::new();
    world.run_to(100, 0);
    let mut writer = GroupWriter::attach(
        &world.books.schema,
        &world.words,
        world.books.ports[2].group,
    )
    .unwrap();
    let mut book = writer.restore();
    book.add(world.books.ports[2].sources[0].receiver.incoming.items, 7);
    writer.commit(&book);
    let mut watch = Watch::default();
    let alarms = |view: View| view.residual.alarms;
    assert!(alarms(watch.view(world.sample(1, Supervisor::Alive))).is_empty());
    let raised = alarms(watch.view(world.sample(2, Supervisor::Alive)));
    assert_eq!(
        raised,
        ["receiver source2: 7 items, 0 bytes unaccounted for since 1 s"]
    );
    let view = watch.view(world.sample(5, Supervisor::Alive));
    assert!(page::text(&view, &Wish::default()).contains("RESIDUAL receiver source2: 7 items"));
    book.add(world.books.ports[2].sources[0].receiver.outgoing.items, 7);
    writer.commit(&book);
    // The account closes again; the link behind it does not know of it.
    assert!(alarms(watch.view(world.sample(6, Supervisor::Alive))).is_empty());
}

#[test]
fn nothing_lost_is_said_of_nothing_lost_only() {
    let world = World::new();
    world.build(5000);
    let builder = &world.books.builder;
    let mut writer = GroupWriter::attach(&world.books.schema, &world.words, builder.group).unwrap();
    let mut book = writer.restore();
    let mut text = |partial, missing, dropped| {
        book.set(builder.partial, partial);
        book.set(builder.triggers_span, 5_107);
        book.set(builder.triggers_missing, missing);
        book.set(builder.triggers_dropped, dropped);
        writer.commit(&book);
        let view = Watch::default().view(world.sample(4, Supervisor::Alive));
        page::text(&view, &Wish::default())
    };
    assert!(text(0, 0, 0).contains("nothing lost"));
    let missing = text(0, 107, 0);
    assert!(missing.contains("of 5107 triggers 107 seen by no source;"));
    assert!(missing.contains("nothing dropped by name; 107 triggers missing"));
    let both = text(10, 100, 7);
    assert!(both.contains("of 5107 triggers 100 seen by no source, 7 dropped by the receiver;"));
    assert!(both.contains("100 triggers missing, 10 events lack sources"));
    for text in [missing, both] {
        assert!(!text.contains("nothing lost"), "{text}");
    }
}

#[test]
fn a_killed_run_and_an_ended_one_say_so() {
    let world = World::new();
    world.run_to(4000, 0);
    world.run.heartbeat(START_NS + 6_000_000_000);
    let killed = Watch::default().view(world.sample(100, Supervisor::Gone));
    assert_eq!((killed.state, killed.running_s), (State::Killed, 6.0));
    assert!(
        page::text(&killed, &Wish::default()).contains("KILLED: interrupted (the supervisor died)")
    );
    world.run.finish(
        Condition::Ended,
        Reason::LimitReached,
        START_NS + 7_000_000_000,
    );
    let ended = Watch::default().view(world.sample(100, Supervisor::Gone));
    assert_eq!((ended.state, ended.running_s), (State::Ended, 7.0));
    // Over the time in which events were built.
    assert_eq!(
        (ended.rates_over_s, ended.events.unwrap().rate_hz),
        (4.0, 1000.0)
    );
    assert!(page::text(&ended, &Wish::default()).contains("ENDED (limit reached)"));
}

#[test]
fn a_step_of_the_wall_clock_does_not_show_in_the_time_that_a_run_has_lasted() {
    let world = World::new();
    world.run_to(4000, 0);
    for wall_s in [3, 3600 * 24 * 365] {
        world.run.heartbeat(START_NS + wall_s * 1_000_000_000);
        world.run.lasted(5_000_000_000);
        for (supervisor, state) in [
            (Supervisor::Alive, State::Live),
            (Supervisor::Gone, State::Killed),
        ] {
            let view = Watch::default().view(world.sample(wall_s, supervisor));
            assert_eq!((view.state, view.running_s), (state, 5.0));
        }
    }
    let set_back_ns = START_NS / 2;
    world
        .run
        .finish(Condition::Ended, Reason::LimitReached, set_back_ns);
    let ended = Watch::default().view(world.sample(100, Supervisor::Gone));
    assert_eq!((ended.state, ended.running_s), (State::Ended, 5.0));
}

#[test]
fn the_screen_in_full() {
    let view = World::new().view();
    insta::assert_snapshot!(drawn(&mut Screen::default(), &view, 124, 34));
}

#[test]
fn the_sources_one_by_one() {
    let view = World::new().view();
    let mut screen = Screen::default();
    press(&mut screen, KeyCode::Tab);
    insta::assert_snapshot!(drawn(&mut screen, &view, 130, 12));
}

/// On the smallest terminal that people have, the silent sources stand above all, and nothing that tells of losses is cut off.
#[test]
fn no_loss_is_cut_off_in_80_cells_of_24_lines() {
    let world = World::new();
    world.run_to(50_000_000, 40_000_000);
    let mut view = Watch::default().view(world.sample(100, Supervisor::Alive));
    // Long names and numbers, and many owners of a loss.
    for lost in &mut view.drops {
        lost.owners += 86;
    }
    for source in &mut view.sources {
        source.name = format!("detector-north-{}", source.name);
        source.missing_events = 12_345_678;
    }
    let wide = page::text(&view, &Wish::default());
    let mut screen = Screen::default();
    let first = drawn(&mut screen, &view, 80, 24);
    for told in [
        "source2 silent for 1.0 s (since trigger 4,000): 1,234 events without it",
        "most of them from",
        "source1 40000000, 86 more",
    ] {
        assert!(first.contains(told), "{told:?} is not in\n{first}");
    }
    press(&mut screen, KeyCode::End);
    let places = drawn(&mut screen, &view, 80, 24);
    for told in ["dropped      held", "  40000000         0"] {
        assert!(places.contains(told), "{told:?} is not in\n{places}");
    }
    assert!(wide.contains("out B/s") && !places.contains("out B/s"));
    press(&mut screen, KeyCode::Tab);
    let sources = drawn(&mut screen, &view, 80, 24);
    for told in [
        "missing   without   dropped",
        "detecto…-source2  100 %  12345678      1236         0  SILENT 1.0 s",
        "detecto…-source1  100 %  12345678         0  40000001  socket.buffer_full",
    ] {
        assert!(sources.contains(told), "{told:?} is not in\n{sources}");
    }
}

#[test]
fn every_size_of_terminal_is_borne() {
    let view = World::new().view();
    for width in [1, 2, 7, 20, 79, 300] {
        for height in 1..30 {
            let mut screen = Screen::default();
            drawn(&mut screen, &view, width, height);
            for code in [
                KeyCode::End,
                KeyCode::PageDown,
                KeyCode::PageUp,
                KeyCode::Tab,
                KeyCode::Down,
            ] {
                press(&mut screen, code);
                drawn(&mut screen, &view, width, height);
            }
        }
    }
}

#[test]
fn keys_do_what_the_footer_says() {
    let view = World::new().view();
    let mut screen = Screen::default();
    let top = drawn(&mut screen, &view, 124, 12);
    assert!(
        top.contains("more lines below") && top.contains("lost at.reason"),
        "{top}"
    );
    press(&mut screen, KeyCode::End);
    let bottom = drawn(&mut screen, &view, 124, 12);
    assert!(
        bottom.contains("event_latency_ns") && !bottom.contains("more lines below"),
        "{bottom}"
    );
    press(&mut screen, KeyCode::Home);
    assert_eq!(drawn(&mut screen, &view, 124, 12), top);
    press(&mut screen, KeyCode::Char('p'));
    assert!(drawn(&mut screen, &view, 124, 12).contains("PAUSED"));
    press(&mut screen, KeyCode::Char('s'));
    assert_eq!(screen.wish.order, Order::Rate);
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.handle_key(interrupt), Action::Quit);
}

#[test]
fn sources_are_sorted_as_asked() {
    let view = World::new().view();
    let first = |order| {
        let wish = Wish {
            sources: true,
            order,
            ..Wish::default()
        };
        page::body(&view, &wish, usize::MAX)[1]
            .to_string()
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(first(Order::Declared), "source0");
    assert_eq!(first(Order::Dropped), "source1");
    assert_eq!(first(Order::default()), "source2", "it is silent");
}

#[test]
fn one_object_holds_everything() {
    let view = World::new().view();
    let object = serde_json::to_value(&view).unwrap();
    assert_eq!(object["state"], "live");
    assert_eq!(object["events"]["rate_hz"], 2000.0);
    assert_eq!(object["sources"][2]["silent"], true);
    assert_eq!(object["silent_sources"][0]["silent_events"], 1234);
    assert_eq!(object["silent_sources"][0]["silent_s"], 1.0);
    assert_eq!(object["silent_sources"][0]["last_trigger"], 4000);
    assert_eq!(object["sources"][1]["reason"], "socket.buffer_full");
    assert_eq!(object["histograms"][0]["count"], 2);
}
