//! `forebay net sub` and `forebay net recv`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use forebay_run::{Host, Stop, System};
use forebay_run_net::bus::Bus;
use forebay_run_net::hops::NET;
use forebay_run_net::{
    Address, Delivered, Entry, NetError, NetRecord, NetSummary, Receiver, Settings, Subscriber,
    Untaken,
};

use super::manner::{CommonArgs, END_LIMIT, SlowArg, tag, tell_people};
use super::sink::{Became, Sink, SinkArgs};
use crate::output::{Format, note_line};
use crate::record::{To, carry_out};

/// One wait: an order to end costs this much.
const WAIT: Duration = Duration::from_millis(20);

/// The reason for a wait for a publisher is told after so long.
const TELL: Duration = Duration::from_secs(1);

/// The same while something is not written: it is written, and its senders told so, soon after.
const WAIT_PENDING: Duration = Duration::from_millis(5);

/// What comes is written at the latest so long after, however much comes.
const FLUSH: Duration = Duration::from_millis(100);

/// Subscribes to tags and writes what comes.
///
/// Connects to the publishers, and again when a connection is lost or there is no publisher yet. Ends by Ctrl-C, after --count messages, or with
/// --once when the publishers end.
#[derive(Debug, clap::Args)]
#[command(after_help = with_exit_codes!("Example: forebay net sub tcp://127.0.0.1:7100 --tag 42 --once"))]
pub(crate) struct SubArgs {
    /// Where the publishers listen.
    #[arg(required_unless_present = "bus")]
    addresses: Vec<Address>,
    /// A bus to find them on: dir:PATH or tcp://HOST:PORT of `forebay net bus`. Publishers of the tags are connected to as they come.
    #[arg(long, value_name = "BUS", conflicts_with = "addresses")]
    bus: Option<Bus>,
    /// Tags to subscribe to, or a pattern TAG/MASK: those that equal TAG where MASK has ones. All, when there is none.
    #[arg(long = "tag", value_name = "TAG[/MASK]", value_delimiter = ',', value_parser = entry)]
    tags: Vec<Entry>,
    /// What becomes of messages for which this subscriber is too slow.
    #[arg(long, value_enum, default_value_t)]
    slow: SlowArg,
    #[command(flatten)]
    end: EndArgs,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Receives messages of any number of senders and writes them.
///
/// Listens. Ends by Ctrl-C, after --count messages, or with --once when the senders have ended.
#[derive(Debug, clap::Args)]
#[command(
    after_help = with_exit_codes!("Example: forebay net recv tcp://127.0.0.1:7100 --output data.raw --as raw --once")
)]
pub(crate) struct RecvArgs {
    /// Where to listen.
    address: Address,
    #[command(flatten)]
    end: EndArgs,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct EndArgs {
    /// Ends after so many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Ends when the publishers have ended in order (one that is lost is waited for), or when the senders have gone, however they went.
    #[arg(long)]
    once: bool,
}

fn entry(text: &str) -> Result<Entry, String> {
    match text.split_once('/') {
        Some((bits, mask)) => Ok(Entry {
            tag: tag(bits)?,
            mask: tag(mask)?,
        }),
        None => tag(text).map(Entry::one),
    }
}

/// Where messages come from.
trait In {
    fn take(&mut self, most: Duration, on: &mut dyn FnMut(Delivered<'_>))
    -> Result<bool, NetError>;
    /// Does all but take more.
    fn stay(&mut self) -> Result<(), NetError>;
    fn has_ended(&self) -> bool;
    fn peers(&self) -> usize;
    fn begin_end(&mut self);
    fn account(&mut self, became: &Became);
    /// Why nobody has been there yet, where this side looks for somebody.
    fn is_missing(&self) -> Option<String>;
}

macro_rules! messages_from {
    ($end_point:ident, $peers:ident, $missing:expr) => {
        impl In for $end_point {
            fn take(
                &mut self,
                most: Duration,
                on: &mut dyn FnMut(Delivered<'_>),
            ) -> Result<bool, NetError> {
                self.poll(most, on)
            }

            fn stay(&mut self) -> Result<(), NetError> {
                $end_point::stay(self)
            }

            fn has_ended(&self) -> bool {
                $end_point::has_ended(self)
            }

            fn peers(&self) -> usize {
                self.$peers()
            }

            fn begin_end(&mut self) {
                $end_point::begin_end(self);
            }

            fn is_missing(&self) -> Option<String> {
                $missing(self)
            }

            fn account(&mut self, became: &Became) {
                let Became {
                    written,
                    not_wanted,
                    not_written,
                    removed,
                    removed_files,
                } = became;
                self.acknowledge().taken(written.messages, written.bytes);
                // In the order in which they came: what nobody asked for comes last.
                for (why, sum) in [
                    (Untaken::NotWritten, not_written),
                    (Untaken::NotWanted, not_wanted),
                ] {
                    self.acknowledge().untaken(why, sum.messages, sum.bytes);
                }
                if *removed_files > 0 {
                    let gone = self.acknowledge();
                    gone.removed(*removed_files, removed.messages, removed.bytes);
                }
            }
        }
    };
}

messages_from!(Receiver, senders, |_| None);
messages_from!(Subscriber, publishers, |end: &Subscriber| {
    (end.connections_made() == 0).then(|| end.trouble())
});

/// Messages on their way to a sink.
struct Flow<'a, I> {
    from: &'a mut I,
    sink: &'a mut Sink,
    /// How many are still wanted.
    left: u64,
    flushed: Instant,
    begun: Instant,
    told: bool,
}

impl<I: In> Flow<'_, I> {
    /// One turn.
    fn turn(&mut self, wait: Duration) -> Result<(), NetError> {
        if self.sink.is_behind() {
            return self.wait_for_output(wait);
        }
        let (sink, left) = (&mut *self.sink, &mut self.left);
        let wait = if sink.is_pending() {
            wait.min(WAIT_PENDING)
        } else {
            wait
        };
        let busy = self.from.take(wait, &mut |delivered| {
            if *left > 0 {
                sink.write(delivered.message.tag, delivered.message.payload);
                *left -= 1;
            } else {
                sink.decline(delivered.message.payload);
            }
        });
        let idle = busy.as_ref().is_ok_and(|busy| !busy);
        if idle || self.sink.has_much() || self.flushed.elapsed() >= FLUSH {
            self.sink.flush();
            self.flushed = Instant::now();
        }
        self.sink.look();
        self.from.account(&self.sink.became());
        busy.map(drop)
    }

    /// The output takes little or nothing: what comes waits with its senders, which are told that somebody is here.
    fn wait_for_output(&mut self, wait: Duration) -> Result<(), NetError> {
        self.from.stay()?;
        self.sink.wait(wait);
        self.sink.look();
        self.from.account(&self.sink.became());
        Ok(())
    }

    /// Says once that nobody is there yet.
    fn tell(&mut self) {
        if self.told || self.begun.elapsed() < TELL {
            return;
        }
        self.told = true;
        if let Some(why) = self.from.is_missing() {
            note_line(format_args!(
                "forebay: no publisher yet, still trying: {why}"
            ));
        }
    }

    /// Until the end that was asked for.
    fn carry(&mut self, once: bool, stop: &Stop) -> Result<()> {
        while !stop.is_asked() && self.left > 0 && !(once && self.from.has_ended()) {
            self.turn(WAIT)?;
            self.tell();
            if !self.sink.check()? {
                break;
            }
        }
        Ok(())
    }

    /// Ends in order: what is on its way comes, and what is written counts as taken.
    fn end(&mut self, stop: &Stop) -> Result<(), NetError> {
        let (begun, stops) = (Instant::now(), stop.urgency());
        self.from.begin_end();
        let (mut waits_since, mut told) = (begun, false);
        while stop.urgency().is_still(stops) {
            if self.sink.is_behind() {
                // Nothing is read meanwhile: the peer that sent it is not late.
                waits_since = Instant::now();
            }
            if self.from.peers() > 0 && waits_since.elapsed() < END_LIMIT {
                self.turn(WAIT)?;
            } else if self.sink.is_pending() {
                self.wait_for_output(WAIT)?;
            } else {
                break;
            }
            if !told && self.sink.is_pending() && begun.elapsed() >= END_LIMIT {
                told = true;
                note_line(format_args!(
                    "forebay: waiting for the output to take what has come; Ctrl-C gives it up"
                ));
            }
        }
        self.sink.abandon();
        self.sink.finish();
        self.from.account(&self.sink.became());
        // A peer that still waits for that is told, if it is there.
        self.from.stay()
    }
}

/// Carries messages until the end that was asked for, and ends in order; what went wrong meanwhile.
fn carry(from: &mut impl In, sink: &mut Sink, end: &EndArgs, stop: &Stop) -> Result<Result<()>> {
    let mut flow = Flow {
        from,
        sink,
        left: end.count.unwrap_or(u64::MAX),
        flushed: Instant::now(),
        begun: Instant::now(),
        told: false,
    };
    let carried = flow.carry(end.once, stop);
    flow.end(stop)?;
    Ok(carried.and_then(|()| sink.check().map(drop)))
}

/// What this side is told: the books hold what the sink has not written.
fn settings(common: &CommonArgs, host: &Host) -> Result<Settings> {
    Ok(Settings {
        gathers: true,
        ..common.hosted(host)?
    })
}

/// A subscriber, or a receiver, whose messages go to a sink.
struct Incoming<'a, A> {
    args: &'a A,
    sink: Sink,
    /// What went wrong with the sink.
    carried: &'a mut Result<()>,
}

impl System for Incoming<'_, SubArgs> {
    const HOPS: &'static [&'static str] = NET;
    type Summary = NetSummary;
    type Error = anyhow::Error;

    fn run(mut self, host: &Host) -> Result<NetRecord> {
        let args = self.args;
        let mut settings = settings(&args.common, host)?;
        settings.messages.slow = args.slow.into();
        let mut subscriber = match &args.bus {
            Some(bus) => Subscriber::find(bus, &settings)?,
            None => Subscriber::connect(&args.addresses, &settings)?,
        };
        let all = [Entry { tag: 0, mask: 0 }];
        subscriber.subscribe(if args.tags.is_empty() {
            &all
        } else {
            &args.tags
        });
        *self.carried = carry(&mut subscriber, &mut self.sink, &args.end, &host.stop)?;
        // The publishers that were there have gone, or had their time.
        subscriber.acknowledge().decline();
        Ok(subscriber.finish(Duration::ZERO, |_| {})?)
    }
}

impl System for Incoming<'_, RecvArgs> {
    const HOPS: &'static [&'static str] = NET;
    type Summary = NetSummary;
    type Error = anyhow::Error;

    fn run(mut self, host: &Host) -> Result<NetRecord> {
        let args = self.args;
        let mut receiver = Receiver::listen(&args.address, &settings(&args.common, host)?)?;
        host.say(format_args!("listening on {}", receiver.address()?));
        *self.carried = carry(&mut receiver, &mut self.sink, &args.end, &host.stop)?;
        receiver.acknowledge().decline();
        Ok(receiver.finish(Duration::ZERO, |_| {})?)
    }
}

pub(crate) fn subscribe(args: &SubArgs) -> Result<ExitCode> {
    carry_to_sink(args, &args.sink, args.common.format)
}

pub(crate) fn receive(args: &RecvArgs) -> Result<ExitCode> {
    carry_to_sink(args, &args.sink, args.common.format)
}

/// Runs a subscriber or a receiver.
fn carry_to_sink<A>(args: &A, sink: &SinkArgs, format: Format) -> Result<ExitCode>
where
    for<'a> Incoming<'a, A>: System<Summary = NetSummary, Error = anyhow::Error>,
{
    let sink = sink.open()?;
    let to = To::beside(sink.is_stdout());
    let mut carried = Ok(());
    let incoming = Incoming {
        args,
        sink,
        carried: &mut carried,
    };
    let code = carry_out(incoming, format, to, tell_people)?;
    carried.map(|()| code)
}
