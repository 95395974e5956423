//! Splits: communicators over some of the ranks of another one.

use allfold::{Communicator, Dtype, Options, Preset, RankBuffers, ReduceOp};
use anyhow::{Context, Result, ensure};

use crate::data::mix;
use crate::machine::{Memory, buffers};
use crate::suite::{Bench, Outcome};

/// A color and a key for each rank.
type Seats = Vec<(Option<u32>, i32)>;

const ELEMS: usize = 600;
const BYTES: usize = ELEMS * size_of::<f32>();

/// An element of `rank`: of such sizes that a sum tells in which order it was taken.
fn element(rank: usize, elem: usize) -> f32 {
    let random = mix(1, rank as u64, elem as u64);
    (random % 4001) as f32 * f32::from_bits((110 + (random >> 32) as u32 % 30) << 23) - 1.0
}

/// A part of the ranks, in its own order, with its communicator if this process has one of them.
struct Part {
    ranks: Vec<usize>,
    comm: Option<Communicator>,
}

/// `comm` split as `seats` say, by those of this process; `ranks` are its ranks as the machine counts them.
fn split(comm: &mut Communicator, ranks: &[usize], seats: &Seats) -> Result<Vec<Part>> {
    let local = comm.local_ranks();
    let mut comms = comm.split_each(&seats[local.clone()])?.into_iter();
    let mut colors: Vec<_> = seats.iter().filter_map(|seat| seat.0).collect();
    colors.sort_unstable();
    colors.dedup();
    let mut parts = Vec::new();
    for color in colors {
        let mut members: Vec<_> = (0..seats.len()).filter(|&rank| seats[rank].0 == Some(color)).collect();
        members.sort_by_key(|&rank| seats[rank].1);
        let own: Vec<_> = (0..members.len()).filter(|&index| local.contains(&members[index])).collect();
        let comm = if own.is_empty() { None } else { Some(comms.next().context("a part is missing")?) };
        if let Some(comm) = &comm {
            ensure!(comm.world() == members.len(), "{comm:?} of {members:?}");
            ensure!(comm.local_ranks().collect::<Vec<_>>() == own, "{comm:?} of {members:?}");
        }
        parts.push(Part { ranks: members.into_iter().map(|rank| ranks[rank]).collect(), comm });
    }
    ensure!(comms.next().is_none(), "a part too many");
    Ok(parts)
}

/// Memories of all ranks, with [`element`] at their start, and room for an output behind.
fn memories(bench: &Bench, world: usize) -> Result<Vec<Box<dyn Memory>>> {
    let memory = |rank: usize| {
        let mut memory = bench.machine.memory(rank, 2 * BYTES)?;
        let input: Vec<_> = (0..ELEMS).map(|elem| element(rank, elem)).collect();
        memory.upload(bytemuck::cast_slice(&[input, vec![f32::NAN; ELEMS]].concat()))?;
        Ok(memory)
    };
    (0..world).map(memory).collect()
}

/// A call of `part` from the inputs to the outputs.
fn call(part: &mut Part, memories: &[Box<dyn Memory>]) -> Result<()> {
    let Some(comm) = &mut part.comm else { return Ok(()) };
    let local = part.ranks[comm.local_ranks()].iter();
    // SAFETY: nobody touches the memories until `check` has waited for them, or the same streams go on.
    let buffers: Vec<RankBuffers<'_, f32>> =
        local.map(|&rank| unsafe { buffers(&*memories[rank], 0, BYTES, ELEMS) }).collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    Ok(())
}

/// Checks that the last call's outputs are sums in the order of `part`.
fn check(bench: &Bench, part: &Part, memories: &[Box<dyn Memory>]) -> Result<()> {
    let Some(comm) = &part.comm else { return Ok(()) };
    for &rank in &part.ranks[comm.local_ranks()] {
        let mut got = vec![0.0_f32; 2 * ELEMS];
        memories[rank].download(bytemuck::cast_slice_mut(&mut got))?;
        for (elem, got) in got[ELEMS..].iter().enumerate() {
            let want = part.ranks.iter().map(|&rank| element(rank, elem)).reduce(|sum, x| sum + x).unwrap_or(f32::NAN);
            ensure!(got.to_bits() == want.to_bits(), "ranks {:?}: element {elem} is {got}, not {want}", part.ranks);
        }
    }
    comm.check()?;
    bench.count(1);
    Ok(())
}

fn whole(bench: &Bench, world: usize) -> Result<Part> {
    // Few blocks: there is room for all parts beside it, also where all ranks share a GPU.
    let options = Options { dtypes: vec![Dtype::F32], max_blocks: Some(4), ..bench.options(Preset::Allfold, BYTES) };
    let comm = bench.communicator(world, options)?;
    Ok(Part { ranks: (0..world).collect(), comm: Some(comm) })
}

/// Splits the ranks of `part` further.
fn split_part(part: &mut Part, seats: &Seats) -> Result<Vec<Part>> {
    match &mut part.comm {
        Some(comm) => split(comm, &part.ranks, seats),
        None => Ok(Vec::new()),
    }
}

/// Every way to divide `world` ranks, with ranks that are left out; some of them where ranks are many. Keys keep the order, turn
/// it round, or mix it.
fn divisions(world: usize) -> Vec<Seats> {
    let mut all: Vec<Vec<u32>> = vec![Vec::new()];
    for _ in 0..world {
        let longer = |colors: &Vec<u32>| {
            let next = colors.iter().max().map_or(0, |most| most + 1).max(1);
            let colors = colors.clone();
            (0..=next).map(move |color| [&colors[..], &[color]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    let step = all.len().div_ceil(60);
    let seats = |(number, colors): (usize, Vec<u32>)| {
        let key = |rank: usize| match number % 3 {
            0 => 0,
            1 => -(rank as i32),
            _ => mix(2, number as u64, rank as u64) as i32,
        };
        // Of no color are those of the first.
        let color = |color: u32| color.checked_sub(1).map(|color| u32::MAX - color);
        colors.into_iter().enumerate().map(|(rank, of)| (color(of), key(rank))).collect()
    };
    all.into_iter().step_by(step).enumerate().map(seats).collect()
}

pub(super) fn b24_parts(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut whole = whole(bench, world)?;
        let memories = memories(bench, world)?;
        let step = if bench.on_cpu() { 1 } else { 4 };
        for seats in divisions(world).into_iter().step_by(step) {
            let mut parts = split_part(&mut whole, &seats).with_context(|| format!("{seats:?}"))?;
            for part in &mut parts {
                call(part, &memories)?;
                check(bench, part, &memories)?;
            }
        }
        call(&mut whole, &memories)?;
        check(bench, &whole, &memories)?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn parts_in_turn(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut whole = whole(bench, world)?;
        let memories = memories(bench, world)?;
        let seats = (0..world).map(|rank| (Some(rank as u32 % 2), -(rank as i32))).collect();
        let mut parts = split_part(&mut whole, &seats)?;
        for turn in 0..200 {
            call(&mut whole, &memories)?;
            if turn % 20 == 0 {
                check(bench, &whole, &memories)?;
            }
            parts.iter_mut().try_for_each(|part| call(part, &memories))?;
        }
        parts.iter().try_for_each(|part| check(bench, part, &memories))?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn parts_of_parts(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut whole = whole(bench, world)?;
        let memories = memories(bench, world)?;
        // All but the last, if there are several; then the first half of those, turned round.
        let most = (world - 1).max(1);
        let mut parts = split_part(&mut whole, &(0..world).map(|rank| ((rank < most).then_some(5), 0)).collect())?;
        call(&mut whole, &memories)?;
        check(bench, &whole, &memories)?;
        drop(whole);
        let half = |rank: usize| (Some((2 * rank >= most).into()), -(rank as i32));
        let mut halves = split_part(&mut parts[0], &(0..most).map(half).collect())?;
        call(&mut parts[0], &memories)?;
        check(bench, &parts[0], &memories)?;
        drop(parts);
        for half in &mut halves {
            call(half, &memories)?;
            check(bench, half, &memories)?;
        }
    }
    Ok(Outcome::Holds)
}
