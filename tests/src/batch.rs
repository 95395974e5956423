//! Calls, one after another on one communicator with nothing in between, and the check of all that they wrote.
//!
//! The buffers of all calls of a batch lie in one memory a rank, with a guard zone before and after each. What every byte
//! must be afterwards is known in advance: outputs as the oracle says, inputs as they were, guards untouched.

use allfold::{CallOptions, Communicator, MAX_RANKS, ReduceOp, Registered, Registration, Span};
use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::call::{Call, GUARD_BYTES, MOST_SHIFT};
use crate::machine::{MEMORY_ALIGN_BYTES, Machine, Memory, raw_buffers};
use crate::numbers::{decode, read, same, write};
use crate::oracle;

/// What guard zones hold.
pub const GUARD: u8 = 0xa5;
/// What outputs hold before a call: finite in every dtype, so that a NaN that must be there is not mistaken for it.
pub const POISON: u8 = 0xc3;
/// What a spoilt input holds: a NaN, or -1.
pub const SPOILT: u8 = 0xff;
/// Elements that one thread adds up.
const CHUNK_ELEMS: usize = 1 << 17;
/// Byte offsets of a call's buffers in a rank's memory.
#[derive(Clone, Copy)]
struct Place {
    input: usize,
    output: usize,
}

/// Where the buffers of `calls` lie on `rank`, and the bytes of it all.
fn lay_out(calls: &[Call], rank: usize) -> (Vec<Place>, usize) {
    let mut end = 0;
    let mut take = |call: &Call, shift: usize| {
        let aligned = (end + GUARD_BYTES).next_multiple_of(MEMORY_ALIGN_BYTES);
        // The room for a shift is the same on all ranks.
        end = aligned + MOST_SHIFT * call.dtype.bytes() + call.bytes();
        aligned + shift * call.dtype.bytes()
    };
    let mut place = |call: &Call| {
        let (input_shift, output_shift) = call.shifts(rank);
        let input = take(call, input_shift);
        Place { input, output: if call.in_place { input } else { take(call, output_shift) } }
    };
    let places = calls.iter().map(&mut place).collect();
    (places, end + GUARD_BYTES)
}

/// A rank's memory, what was put there and what must be there in the end.
struct RankImage {
    places: Vec<Place>,
    memory: Box<dyn Memory>,
    image: Vec<u8>,
}

/// Runs `calls` and checks every byte; returns the output of each call on each rank of this process, `[call][rank]`. Where
/// ranks are in several processes, all make the same calls.
///
/// # Errors
/// The library refused or gave up, or something is not as it must be: the first difference, by rank and element.
pub fn run(machine: &dyn Machine, comm: &mut Communicator, calls: &[Call]) -> Result<Vec<Vec<Vec<u8>>>> {
    let mut ranks = prepare(machine, calls, comm.world())?;
    let names = Names::of(machine, comm, calls, &ranks)?;
    for (index, call) in calls.iter().enumerate() {
        let options = CallOptions { registered: names.calls[index], ..call.options };
        issue(machine, comm, &mut ranks, index, call, &options)
            .with_context(|| format!("call {index} of {}: {call:?}", calls.len()))?;
    }
    ranks[comm.local_ranks()].iter().try_for_each(|rank| rank.memory.synchronize())?;
    comm.check().context("a wait was given up")?;
    names.given.into_iter().try_for_each(|name| comm.release(name)).context("releasing buffers")?;

    let sums =
        calls.iter().enumerate().map(|(index, call)| expected(&ranks, call, index)).collect::<Result<Vec<_>>>()?;
    let mut outputs = vec![Vec::new(); calls.len()];
    for (number, rank) in comm.local_ranks().zip(&mut ranks[comm.local_ranks()]) {
        let mut got = vec![0; rank.image.len()];
        rank.memory.download(&mut got)?;
        for (index, call) in calls.iter().enumerate() {
            let Place { input, output } = rank.places[index];
            let output = output..output + call.bytes();
            compare(call, &sums[index], &got[output.clone()])
                .with_context(|| format!("rank {number}, call {index} of {}: {call:?}", calls.len()))?;
            if call.spoil && !call.in_place {
                rank.image[input..input + call.bytes()].fill(SPOILT);
            }
            rank.image[output.clone()].copy_from_slice(&got[output.clone()]);
            outputs[index].push(got[output].to_vec());
        }
        if let Some(at) = (0..got.len()).find(|&at| got[at] != rank.image[at]) {
            bail!("rank {number}: {}", stray(calls, rank, at, got[at]));
        }
    }
    Ok(outputs)
}

/// The names of the buffers that are registered.
struct Names {
    /// As what each call's are.
    calls: Vec<Registered>,
    /// All of them.
    given: Vec<Registration>,
}

impl Names {
    /// Where ranks are processes, all calls whose ranks use each other's buffers need it; elsewhere every other one has it.
    fn of(machine: &dyn Machine, comm: &mut Communicator, calls: &[Call], ranks: &[RankImage]) -> Result<Names> {
        let mut names = Names { calls: vec![Registered::No; calls.len()], given: Vec::new() };
        let mut whole = None;
        for (index, call) in calls.iter().enumerate() {
            let CallOptions { algorithm, input, .. } = call.options;
            let uses = algorithm.is_some_and(|it| !it.pushes()) && input.is_some_and(|it| !it.staged());
            if !uses || !machine.in_processes() && index % 2 == 0 {
                continue;
            }
            let local = &ranks[comm.local_ranks()];
            let mut register = |spans: Vec<Span>| {
                // SAFETY: the memory lives until the names have been given back.
                let name = unsafe { comm.register(&spans) }.context("registering buffers")?;
                names.given.push(name);
                anyhow::Ok(name)
            };
            let bytes = call.bytes() as u64;
            let [input, output] = match call.skew {
                // At the same place in the memory of each rank.
                0 => {
                    let name = match whole {
                        Some(name) => name,
                        None => *whole.insert(register(local.iter().map(|rank| rank.memory.span()).collect())?),
                    };
                    [name; 2]
                }
                _ => {
                    let at = |place: fn(&Place) -> usize| {
                        let address = |rank: &RankImage| rank.memory.address() + place(&rank.places[index]) as u64;
                        local.iter().map(|rank| Span { address: address(rank), bytes }).collect()
                    };
                    let input = register(at(|place| place.input))?;
                    [input, if call.in_place { input } else { register(at(|place| place.output))? }]
                }
            };
            names.calls[index] = Registered::By { input, output };
        }
        Ok(names)
    }
}

/// What a rank's memory holds before the calls.
fn image(calls: &[Call], rank: usize) -> (Vec<Place>, Vec<u8>) {
    let (places, bytes) = lay_out(calls, rank);
    let mut image = vec![GUARD; bytes];
    for (call, place) in calls.iter().zip(&places) {
        image[place.output..place.output + call.bytes()].fill(POISON);
        let input = &mut image[place.input..place.input + call.bytes()];
        for elem in 0..call.elems {
            write(call.dtype, input, elem, call.data.bits(call.dtype, rank, elem));
        }
    }
    (places, image)
}

fn prepare(machine: &dyn Machine, calls: &[Call], world: usize) -> Result<Vec<RankImage>> {
    let images = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..world).map(|rank| scope.spawn(move || image(calls, rank))).collect();
        makers.into_iter().map(|maker| maker.join()).collect::<Vec<_>>()
    });
    let upload = |(rank, made): (usize, std::thread::Result<_>)| {
        let (places, image) = made.map_err(|_| anyhow!("an input could not be made"))?;
        let mut memory = machine.memory(rank, Vec::len(&image))?;
        memory.upload(&image)?;
        Ok(RankImage { places, memory, image })
    };
    images.into_iter().enumerate().map(upload).collect()
}

fn issue(
    machine: &dyn Machine,
    comm: &mut Communicator,
    ranks: &mut [RankImage],
    index: usize,
    call: &Call,
    options: &CallOptions,
) -> Result<()> {
    if let Some(late) = call.late.filter(|late| comm.local_ranks().contains(late)) {
        ranks[late].memory.delay()?;
    }
    // Whichever context is the current one of this thread.
    machine.make_current((5 * index + 3) % comm.world())?;
    let ranks = &mut ranks[comm.local_ranks()];
    let buffers: Vec<_> = ranks
        .iter()
        .map(|rank| {
            let Place { input, output } = rank.places[index];
            // SAFETY: the memory outlives the streams' work, and this call's part of it is used for nothing else.
            unsafe { raw_buffers(call.dtype, &*rank.memory, input, output, call.elems) }
        })
        .collect();
    // SAFETY: as above.
    let plan = unsafe { comm.all_reduce_raw(call.dtype, &buffers, call.op, options) }?;
    drop(buffers);
    let CallOptions { algorithm, input, blocks, threads, registered: _ } = *options;
    // A rank alone only copies.
    let alone = comm.world() == 1;
    ensure!(
        (alone
            || algorithm.is_none_or(|asked| asked == plan.algorithm) && input.is_none_or(|asked| asked == plan.input))
            && blocks.is_none_or(|asked| asked == plan.blocks)
            && threads.is_none_or(|asked| asked == plan.threads),
        "done as {plan:?}, which is not what was asked for"
    );
    if call.late.is_some() {
        // Memory that comes and goes while the others wait: the driver may wait for all that runs.
        machine.memory(0, 1 << 16)?;
    }
    if call.spoil && !call.in_place {
        for rank in ranks {
            rank.memory.fill(rank.places[index].input, call.bytes(), SPOILT)?;
        }
    }
    Ok(())
}

/// What a call makes of its inputs as they were uploaded.
fn expected(ranks: &[RankImage], call: &Call, index: usize) -> Result<Vec<u8>> {
    let inputs: Vec<_> = ranks.iter().map(|rank| &rank.image[rank.places[index].input..]).collect();
    let mut sum = vec![0; call.bytes()];
    let size = call.dtype.bytes();
    std::thread::scope(|scope| {
        let chunks = sum.chunks_mut(CHUNK_ELEMS * size).enumerate();
        let mut adders = Vec::new();
        for (number, chunk) in chunks {
            let inputs: Vec<_> = inputs.iter().map(|input| &input[number * CHUNK_ELEMS * size..]).collect();
            let mut add = move || add(call, &inputs, chunk);
            if call.elems <= CHUNK_ELEMS {
                return add();
            }
            adders.push(scope.spawn(add));
        }
        adders.into_iter().try_for_each(|adder| adder.join().map_err(|_| anyhow!("a sum could not be made"))?)
    })?;
    Ok(sum)
}

/// What the oracles make of `inputs`.
fn add(&Call { dtype, op, .. }: &Call, inputs: &[&[u8]], sum: &mut [u8]) -> Result<()> {
    let mut terms = [0; MAX_RANKS];
    let terms = &mut terms[..inputs.len()];
    for elem in 0..sum.len() / dtype.bytes() {
        terms.iter_mut().zip(inputs).for_each(|(term, input)| *term = read(dtype, input, elem));
        let bits = oracle::reduce(dtype, op, terms);
        // What is found equal to these bits is then near the f64 sum too.
        ensure!(op != ReduceOp::Sum || oracle::plausible(dtype, terms, bits), "the oracles disagree on {terms:x?}");
        write(dtype, sum, elem, bits);
    }
    Ok(())
}

fn compare(call: &Call, sum: &[u8], got: &[u8]) -> Result<()> {
    if sum == got {
        return Ok(());
    }
    for elem in 0..call.elems {
        let [want, got] = [sum, got].map(|bytes| read(call.dtype, bytes, elem));
        if !same(call.dtype, want, got) {
            let [want_value, got_value] = [want, got].map(|bits| decode(call.dtype, bits));
            bail!("element {elem}: expected {want_value:e} ({want:#x}), got {got_value:e} ({got:#x})");
        }
    }
    Ok(())
}

/// What is wrong with byte `at`, which belongs to no output.
fn stray(calls: &[Call], rank: &RankImage, at: usize, got: u8) -> String {
    let wanted = rank.image[at];
    for (index, (call, place)) in calls.iter().zip(&rank.places).enumerate() {
        for (what, start) in [("input", place.input), ("output", place.output)] {
            let end = start + call.bytes();
            let place = match at {
                _ if (start..end).contains(&at) => format!("byte {} of the {what}", at - start),
                _ if (end..end + GUARD_BYTES).contains(&at) => format!("{} bytes after the {what}", at - end),
                _ if (start.saturating_sub(GUARD_BYTES)..start).contains(&at) => {
                    format!("{} bytes before the {what}", start - at)
                }
                _ => continue,
            };
            return format!("{place} of call {index}: {wanted:#x} became {got:#x}; {call:?}");
        }
    }
    format!("byte {at} of its memory: {wanted:#x} became {got:#x}")
}
