//! The last words of a verdict: every number in them is that of the books.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_ledger::{
    Account, Condition, Counter, DropReason, GroupId, GroupWriter, LedgerReader, LinkSpec,
    NO_SUBSCRIBER, Reason, RunWriter, SchemaBuilder, Supervisor, Unit, Verdict, Words, audit,
    last_words, reasons,
};

reasons! {
    /// The one reason of an account.
    enum Bad {
        One = "bad",
    }
}

reasons! {
    /// The one reason of an account.
    enum Full {
        One = "full",
    }
}

reasons! {
    /// The one reason of an account.
    enum Cut {
        One = "truncated",
    }
}

reasons! {
    /// The one reason of an account.
    enum Unasked {
        One = NO_SUBSCRIBER,
    }
}

/// Accounts of two owners in datagrams, of one in messages (two) and of one in chunks, and a link without a known sender for each of the first two, where the kernel
/// merges up to four datagrams before it drops them.
struct Books {
    words: Words,
    run: RunWriter,
    writer: GroupWriter,
    datagrams: [Account<Bad>; 2],
    messages: Account<Full>,
    chunks: Account<Cut>,
    tags: Account<Unasked>,
    kernel: Counter,
}

fn datagrams(schema: &mut SchemaBuilder, group: GroupId, owner: &str) -> (Account<Bad>, LinkSpec) {
    let (id, account) = schema.account::<Bad>(group, "receiver", owner, Unit::Datagrams);
    (account, LinkSpec::new("socket", owner).to(id))
}

impl Books {
    fn new(foreign: usize) -> Self {
        let mut schema = SchemaBuilder::new("run 7");
        let group = schema.group("all");
        let (one, from_one) = datagrams(&mut schema, group, "one");
        let (two, from_two) = datagrams(&mut schema, group, "two");
        let (_, messages) = schema.account::<Full>(group, "queue", "one", Unit::Messages);
        let (_, chunks) = schema.account::<Cut>(group, "card", "one", Unit::Chunks);
        let (_, tags) = schema.account::<Unasked>(group, "publish", "one", Unit::Messages);
        let kernel = schema.kernel_drop(group);
        let from_one = from_one.merged_kernel_drops("buffer_full", kernel, 4, 10, 90);
        for link in [from_one, from_two].into_iter().take(foreign) {
            schema.link(link);
        }
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        let run = RunWriter::format(&schema, &words, 1, 0).unwrap();
        let writer = GroupWriter::attach(&schema, &words, group).unwrap();
        run.set_condition(Condition::Running, Reason::None);
        Self {
            words,
            run,
            writer,
            datagrams: [one, two],
            messages,
            chunks,
            tags,
            kernel,
        }
    }

    /// So many items and bytes came and are a loss by name.
    fn lose<R: DropReason>(&mut self, account: &Account<R>, items: u64, bytes: u64) {
        let mut book = self.writer.restore();
        book.add_tally(account.incoming, items, bytes);
        for (_, term) in account.losses() {
            book.add_tally(term, items, bytes);
        }
        self.writer.commit(&book);
    }

    /// So many came and are nowhere.
    fn leak<R: DropReason>(&mut self, account: &Account<R>, items: u64, bytes: u64) {
        let mut book = self.writer.restore();
        book.add_tally(account.incoming, items, bytes);
        self.writer.commit(&book);
    }

    fn verdict(&self, supervisor: Supervisor) -> Verdict {
        let snapshot = LedgerReader::open(&self.words).unwrap().snapshot().unwrap();
        audit(&snapshot, supervisor)
    }

    fn closing(&self) -> String {
        self.run.finish(Condition::Ended, Reason::Requested, 9_000);
        self.verdict(Supervisor::Gone).closing(&[])
    }
}

#[test]
fn losses_add_up_by_their_unit() {
    let mut books = Books::new(0);
    assert_eq!(books.closing(), "Nothing came. The books close.\n");
    let [one, two] = books.datagrams.clone();
    let (messages, chunks) = (books.messages.clone(), books.chunks.clone());
    // Bytes that were cut off, and no item.
    books.lose(&chunks, 0, 50);
    assert_eq!(books.closing(), "The books close.\n");
    books.lose(&one, 5, 500);
    books.lose(&two, 7, 700);
    books.lose(&messages, 1_002, 90);
    assert_eq!(
        books.closing(),
        "Lost by name: 12 datagrams, 1,002 messages. All of it is accounted for: the books close.\n"
    );
}

/// What nobody had asked for is no loss, and is said apart from it.
#[test]
fn what_nobody_had_asked_for_is_not_subscribed_and_not_lost() {
    let mut books = Books::new(0);
    let tags = books.tags.clone();
    books.lose(&tags, 1_000, 9_000);
    let said = "Not subscribed: 1,000 messages, nobody had asked for them";
    let close = "All of it is accounted for: the books close.\n";
    assert_eq!(books.closing(), format!("{said}. {close}"));
    let messages = books.messages.clone();
    books.lose(&messages, 7, 70);
    let both = format!("Lost by name: 7 messages; {said}. {close}");
    assert_eq!(books.closing(), both);
}

/// One drop of the kernel is one to four datagrams, and beside them are those that have no interval.
#[test]
fn a_loss_that_is_an_interval_is_told_as_one() {
    let mut books = Books::new(1);
    let [one, _] = books.datagrams.clone();
    books.lose(&one, 5, 500);
    let mut book = books.writer.restore();
    book.add(books.kernel, 3);
    books.writer.commit(&book);
    assert_eq!(
        books.closing(),
        "Lost by name: 8 to 17 datagrams. All of it is accounted for: \
         the books close (1 sender keeps no books: unknown).\n"
    );
    let two = "Nothing came. The books close (2 senders keep no books: unknown).\n";
    assert_eq!(Books::new(2).closing(), two);
}

#[test]
fn a_verdict_says_by_which_rules_the_books_close() {
    let mut books = Books::new(0);
    let live = books.verdict(Supervisor::Alive).closing(&[]);
    assert_eq!(live, "The books are within their bounds.\n");
    let first = ["1 file is gone".to_owned()];
    let live = books.verdict(Supervisor::Alive).closing(&first);
    let said = "1 file is gone. All of it is accounted for: the books are within their bounds.\n";
    assert_eq!(live, said);

    let died = books.verdict(Supervisor::Gone).closing(&[]);
    assert!(died.ends_with("The books close, as of then.\n"), "{died}");
    let account = books.messages.clone();
    let mut book = books.writer.restore();
    book.add_tally(account.incoming, 3, 30);
    book.add_tally(account.held, 3, 30);
    books.writer.commit(&book);
    let died = books.verdict(Supervisor::Gone).closing(&[]);
    let said = "The books close but for what was in flight, as of then.\n";
    assert!(died.ends_with(said), "{died}");
    let began = "The run did not end by itself: it was killed, or its host went down.\nIts last sign of life is of 1970-01-01 00:00:00.000 UTC;";
    assert!(died.starts_with(began), "{died}");
}

/// The sum of a place stands before its lines, the greatest first; a place with one line has none.
#[test]
fn lines_of_one_place_that_do_not_close_are_added_up() {
    let mut books = Books::new(0);
    let [one, two] = books.datagrams.clone();
    let messages = books.messages.clone();
    books.leak(&one, 3, 30);
    books.leak(&two, 4, 50);
    books.leak(&messages, 2, 20);
    assert_eq!(
        books.closing(),
        "THE BOOKS DO NOT CLOSE:\n  \
         receiver (2 owners together): 7 datagrams, 80 bytes unaccounted for\n  \
         receiver two: 4 datagrams, 50 bytes unaccounted for\n  \
         receiver one: 3 datagrams, 30 bytes unaccounted for\n  \
         queue one: 2 messages, 20 bytes unaccounted for\n"
    );
    // What is left inside at the end is another fault of the same place.
    let mut book = books.writer.restore();
    for account in [&one, &two] {
        book.add_tally(account.incoming, 1, 10);
        book.add_tally(account.held, 1, 10);
    }
    books.writer.commit(&book);
    let said = books.closing();
    let sums: Vec<_> = said.lines().filter(|it| it.contains("together")).collect();
    let expected = [
        "  receiver (2 owners together): 7 datagrams, 80 bytes unaccounted for",
        "  receiver (2 owners together): 2 datagrams, 20 bytes still held at the end",
    ];
    assert_eq!(sums, expected, "{said}");
}

#[test]
fn what_no_peer_acknowledged_is_counted_and_not_accounted_for() {
    let lost = "Lost by name: 1 event".to_owned();
    let unconfirmed = "Unconfirmed: 3 messages (30 B) went out".to_owned();
    assert_eq!(last_words(&[], "close"), "The books close.");
    assert_eq!(
        last_words(std::slice::from_ref(&lost), "close"),
        "Lost by name: 1 event. All of it is accounted for: the books close."
    );
    assert_eq!(
        last_words(&[lost, unconfirmed], "close"),
        "Lost by name: 1 event; Unconfirmed: 3 messages (30 B) went out. All of it is counted: the books close."
    );
}
