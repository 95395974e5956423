//! Cells of one communicator over all GPUs of this process: streams that come late, GPUs that others keep busy, blocks that find no
//! room, calls on other streams.
//!
//! Long: the kinds that only GPUs have, each beside how it is brought about.

use std::time::{Duration, Instant};

use allfold::cuda::{RawStream, Stream};
use allfold::{Algorithm, Dtype, Error, InputMode};
use anyhow::{Context, Result, bail, ensure};

use super::busy::Busy;
use super::judge::in_full;
use super::kinds::LONG;
use super::one::{Came, One};
use super::rank::Call;
use super::{Facts, RankMemory, Report, Watchdog, now};
use crate::soft;

/// How calls are done.
const FORMS: [(Algorithm, InputMode); 6] = [
    (Algorithm::OneShotPush, InputMode::Registered),
    (Algorithm::OneShot, InputMode::Copied),
    (Algorithm::TwoShot, InputMode::Registered),
    (Algorithm::TwoShotPush, InputMode::Registered),
    (Algorithm::OneShot, InputMode::Registered),
    (Algorithm::TwoShot, InputMode::Copied),
];

/// What goes wrong, or is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The victim's stream has something else to do first, and not for too long.
    LateStream,
    /// For too long.
    AbsentStream,
    /// Another kernel has a part of the victim's GPU, or all of it; ranks wait long enough, or not.
    Busy { all: bool, long: bool },
    /// Another communicator waits with all its blocks.
    Beside,
    /// Another communicator holds all blocks.
    NotResident,
    /// A grid of more blocks than are held.
    LargeGrid,
    /// The victim's call comes on another stream than its last.
    OtherStream,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::LateStream => "stream late",
            Kind::AbsentStream => "stream absent",
            Kind::Busy { all: false, long: true } => "a busy kernel, long to wait",
            Kind::Busy { all: false, long: false } => "a busy kernel, 50 ms to wait",
            Kind::Busy { all: true, long: true } => "a full GPU, long to wait",
            Kind::Busy { all: true, long: false } => "a full GPU, 50 ms to wait",
            Kind::Beside => "another one waits",
            Kind::NotResident => "no block is left",
            Kind::LargeGrid => "a grid too large",
            Kind::OtherStream => "another stream",
        }
    }

    fn timeout(self) -> Duration {
        match self {
            Kind::AbsentStream | Kind::Beside => millis(100),
            Kind::Busy { long: false, .. } => millis(50),
            Kind::LateStream
            | Kind::Busy { long: true, .. }
            | Kind::NotResident
            | Kind::LargeGrid
            | Kind::OtherStream => LONG,
        }
    }
}

/// A time, longer where GPUs are of software.
fn millis(number: u64) -> Duration {
    Duration::from_millis(if soft::installed() { 4 * number } else { number })
}

/// A fault at a place.
#[derive(Clone, Copy, Debug)]
struct Single {
    kind: Kind,
    victim: usize,
    form: (Algorithm, InputMode),
}

fn cells(world: usize) -> Vec<Single> {
    let busy = [(false, true), (true, true), (false, false), (true, false)];
    let busy = busy.map(|(all, long)| Kind::Busy { all, long });
    let others = [Kind::LateStream, Kind::AbsentStream, Kind::OtherStream, Kind::Beside, Kind::LargeGrid];
    let kinds: Vec<_> = others.into_iter().chain(busy).chain([Kind::NotResident]).collect();
    let mut cells = Vec::new();
    for number in 0..FORMS.len() {
        for (at, &kind) in kinds.iter().enumerate() {
            let few = matches!(kind, Kind::NotResident | Kind::LargeGrid | Kind::Beside);
            for victim in (0..world).filter(|_| !few || number < 2) {
                cells.push(Single { kind, victim, form: FORMS[(number + at) % FORMS.len()] });
            }
        }
    }
    cells
}

/// Runs all cells on ranks of `gpus`, which may be named more than once, until `end`.
///
/// # Errors
/// There is nothing to keep the GPUs busy with.
pub fn single(gpus: &[u32], end: Instant, report: &Report, watchdog: &Watchdog) -> Result<()> {
    let mut busy = Vec::<(u32, Busy)>::new();
    for &gpu in gpus {
        if busy.iter().all(|(known, _)| *known != gpu) {
            let made = watchdog.during("measuring what keeps a GPU busy", || Busy::new(gpu))?;
            report.note(format!("GPU {gpu} is kept busy by {}", made.says()));
            busy.push((gpu, made));
        }
    }
    let cells = cells(gpus.len());
    for (number, cell) in cells.iter().enumerate() {
        if Instant::now() > end || report.gives_up() {
            report.not_run(cells.len() - number);
            break;
        }
        let named = format!("{cell:?}");
        let at = busy.iter().position(|(gpu, _)| *gpu == gpus[cell.victim]).context("no such GPU")?;
        report.run(watchdog, cell.kind.name(), &named, || cell.run(gpus, &mut busy[at].1));
    }
    Ok(())
}

impl Single {
    fn run(&self, gpus: &[u32], busy: &mut Busy) -> Result<Vec<Facts>> {
        let Single { kind, victim, form: (algorithm, input) } = *self;
        let call = Call { dtype: Dtype::F32, elems: 500, algorithm, input, grid: None, planned: false };
        let mut one = One::new(gpus, kind.timeout(), Some(8)).context("making a communicator")?;
        (0..2).try_for_each(|number| one.good(call, number)).context("before the fault")?;
        let begun = Instant::now();
        let came = match kind {
            Kind::LateStream | Kind::AbsentStream => {
                // Others may take the processors of GPUs of software, and all ranks are late then.
                let absent = if crate::soft::installed() { 1500 } else { 300 };
                let long = if kind == Kind::LateStream { 40 } else { absent };
                busy.hold_up(one.memories[victim].stream().context("a stream")?, millis(long))?;
                let begun = Instant::now();
                one.launch(call, 2, None)??;
                one.wait(call, 2, victim, begun)?
            }
            Kind::Busy { all, .. } => {
                busy.fill(all, Duration::from_millis(250))?;
                let begun = Instant::now();
                one.launch(call, 2, None)??;
                let came = one.wait(call, 2, victim, begun)?;
                busy.wait()?;
                came
            }
            Kind::Beside => beside(gpus, victim, busy, &mut one, call)?,
            Kind::NotResident => {
                drop(one);
                return self.facts(&no_room(gpus, call)?);
            }
            Kind::LargeGrid => {
                let blocks = one.comm.limits().max_blocks + 1;
                let done = one.launch(Call { grid: Some((blocks, 32)), ..call }, 2, None)?;
                one.good(call, 3).context("after a refusal")?;
                return self.refused(done, begun, |error| matches!(error, Error::Grid { .. }));
            }
            Kind::OtherStream => {
                let own = one.memories[victim].stream().context("a stream")?;
                let other = Stream::new(own.context())?;
                let done = one.launch(call, 2, Some((victim, &other)))?;
                one.good(call, 3).context("after a refusal")?;
                turned(&mut one, call, victim, &other)?;
                // A call is on that stream; it is done, and the communicator goes before the stream does.
                drop(one);
                return self.refused(
                    done,
                    begun,
                    |error| matches!(error, Error::OtherStream { rank } if *rank as usize == victim),
                );
            }
        };
        self.judge(&came)?;
        one.rebuilt(call)?;
        self.facts(&came)
    }

    fn facts(&self, came: &Came) -> Result<Vec<Facts>> {
        let late = came.took.saturating_sub(self.kind.timeout());
        Ok(vec![Facts { right: came.done.is_ok(), late, at: now(), took: came.took }])
    }

    /// A call that had to be refused at once.
    fn refused(&self, done: allfold::Result<()>, begun: Instant, right: impl Fn(&Error) -> bool) -> Result<Vec<Facts>> {
        ensure!(done.as_ref().is_err_and(right), "got {done:?}");
        self.facts(&Came { done, took: begun.elapsed() })
    }

    fn judge(&self, came: &Came) -> Result<()> {
        let (done, took, timeout) = (&came.done, came.took, self.kind.timeout());
        let timed_out = |error: &Error| {
            let Error::Timeout { waiting_rank, missing, waited, .. } = error else { return false };
            let late = *missing == [self.victim as u32] && *waiting_rank as usize != self.victim;
            // Who comes first where a GPU is full is nobody's to say.
            let right = late || matches!(self.kind, Kind::Busy { long: false, .. });
            right && in_full(*waited, timeout) && in_full(took, timeout)
        };
        let right = match (self.kind, done) {
            (Kind::AbsentStream, done) => done.as_ref().is_err_and(timed_out),
            (Kind::Busy { long: false, .. }, Err(error)) => timed_out(error),
            (_, done) => done.is_ok(),
        };
        ensure!(right, "got {done:?} after {took:?}");
        let limit = timeout + Duration::from_secs(1);
        ensure!(done.is_ok() || took < limit, "got {done:?} after {took:?}, later than {limit:?}");
        Ok(())
    }
}

/// Another communicator waits with all its blocks for a rank that is late; `one` beside it works, and does not wait for it.
fn beside(gpus: &[u32], victim: usize, busy: &Busy, one: &mut One, call: Call) -> Result<Came> {
    let mut other = One::new(gpus, LONG, None).context("another communicator")?;
    let limits = *other.comm.limits();
    let grid = Some((limits.max_blocks, limits.threads_of(Algorithm::OneShot)));
    let large = Call { algorithm: Algorithm::OneShot, input: InputMode::Copied, grid, ..call };
    other.good(large, 0).context("another communicator")?;
    busy.hold_up(other.memories[victim].stream().context("a stream")?, millis(150))?;
    other.launch(large, 1, None)??;
    let begun = Instant::now();
    one.launch(call, 2, None)??;
    let came = one.wait(call, 2, victim, begun)?;
    other.wait(large, 1, victim, begun)?.done.context("another communicator")?;
    Ok(came)
}

/// A communicator that holds all blocks keeps another one from being made, and works; when it is gone there is room.
fn no_room(gpus: &[u32], call: Call) -> Result<Came> {
    let mut all = One::new(gpus, LONG, Some(u32::MAX)).context("a communicator that holds all")?;
    match One::new(gpus, LONG, Some(8)).map(drop) {
        Err(Error::NotResident { .. }) => {}
        other => bail!("got {other:?} where no block is left"),
    }
    all.good(call, 2).context("the one that holds all")?;
    drop(all);
    let mut one = One::new(gpus, LONG, Some(8)).context("after it has gone")?;
    let begun = Instant::now();
    one.launch(call, 2, None)??;
    let came = one.wait(call, 2, 0, begun)?;
    ensure!(came.done.is_ok(), "got {:?} after it has gone", came.done);
    Ok(came)
}

/// Calls go over to another stream of the victim's in order.
fn turned(one: &mut One, call: Call, victim: usize, other: &Stream) -> Result<()> {
    let own: Vec<RawStream<'_>> = one.memories.iter().filter_map(RankMemory::stream).map(Stream::raw).collect();
    let mut to = own.clone();
    to[victim] = other.raw();
    one.comm.change_streams(&own, &to).context("changing streams")?;
    one.launch(call, 4, Some((victim, other)))?.context("on the other stream")?;
    other.synchronize()?;
    one.wait(call, 4, victim, Instant::now())?.done.context("on the other stream")
}
