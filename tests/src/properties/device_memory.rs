//! Device memory that is not `cuMemAlloc`'s: of pools, and mapped piece by piece.

use allfold::{Algorithm, CallOptions, Dtype, Error, RankBuffers, ReduceOp, Registered, Span};
use anyhow::{Result, ensure};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;

use super::registered::{Bed, ELEMS, STEP_BYTES, STEPS};
use crate::machine::pieces::{OFFSET_BYTES, PIECE_BYTES, Pieces};
use crate::numbers::{decode, read};
use crate::suite::{Bench, Outcome};

pub(super) fn b65_pools(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks have no pools".into()));
    }
    let world = bench.machine.most_ranks();
    let mut bed = Bed::new(bench, world)?;
    let mut buffers = Vec::new();
    for rank in bed.comm.local_ranks() {
        let stream = bench.machine.streams(rank, 1)?.remove(0);
        // SAFETY: bytes of any value are bytes; the stream is waited for below.
        let mut buffer = unsafe { DeviceBuffer::<u8>::uninitialized_async(STEPS * STEP_BYTES, &stream) }?;
        // SAFETY: as above.
        unsafe { buffer.set_8_async(FILL, &stream) }?;
        stream.synchronize()?;
        buffers.push((buffer, stream));
    }
    let address = |buffer: &DeviceBuffer<u8>| buffer.as_device_ptr().as_raw();
    let spans: Vec<_> =
        buffers.iter().map(|(it, _)| Span { address: address(it), bytes: (STEPS * STEP_BYTES) as u64 }).collect();
    // SAFETY: the buffers live until the name is given back.
    let name = unsafe { bed.comm.register(&spans) };
    if bench.machine.in_processes() {
        ensure!(matches!(name, Err(Error::NotShareable { rank: 0, .. })), "{name:?}");
    } else {
        let name = name?;
        let options = CallOptions {
            algorithm: Some(Algorithm::OnePass),
            registered: Registered::By { input: name, output: name },
            ..CallOptions::default()
        };
        let of = |(buffer, stream): &(DeviceBuffer<u8>, Stream)| {
            let (input, output) = (address(buffer), address(buffer) + STEP_BYTES as u64);
            // SAFETY: both are inside the buffer, which lives until the stream has been waited for.
            unsafe { RankBuffers::<f32>::device_raw(input, output, ELEMS as u64, stream.as_inner().cast()) }
        };
        bed.comm.all_reduce_with(&buffers.iter().map(of).collect::<Vec<_>>(), ReduceOp::Sum, &options)?;
        let term = f32::from_bits(u32::from_ne_bytes([FILL; 4]));
        let want = (1..world).fold(term, |sum, _| sum + term);
        for (rank, (buffer, stream)) in buffers.iter().enumerate() {
            stream.synchronize()?;
            bench.machine.make_current(rank)?;
            let mut bytes = vec![0; STEPS * STEP_BYTES];
            buffer.copy_to(&mut bytes)?;
            let got = decode(Dtype::F32, read(Dtype::F32, &bytes[STEP_BYTES..], ELEMS - 1)) as f32;
            ensure!(got == want, "rank {rank}: {got}, not {want}");
        }
        bed.comm.release(name)?;
        bed.comm.finish()?;
    }
    for (rank, (buffer, stream)) in bed.comm.local_ranks().zip(buffers) {
        bench.machine.make_current(rank)?;
        buffer.drop_async(&stream)?;
        stream.synchronize()?;
    }
    // Whatever was refused, the next one is not.
    let whole = bed.register(0, STEPS * STEP_BYTES)?;
    bed.fill()?;
    bed.call(0, STEP_BYTES, Registered::By { input: whole, output: whole })?;
    bed.holds(0, 1)?;
    bench.count(2);
    Ok(Outcome::Holds)
}

/// What each byte of a pool's memory is.
const FILL: u8 = 0x3f;

pub(super) fn b64_remapped(bench: &Bench) -> Result<Outcome> {
    let Some(&[ordinal]) = bench.machine.devices().filter(|_| bench.machine.in_processes()) else {
        return Ok(Outcome::Skipped("for processes with a GPU each".into()));
    };
    let mut bed = Bed::new(bench, bench.machine.most_ranks())?;
    bench.machine.make_current(0)?;
    let pieces = Pieces::new(ordinal, 3 * PIECE_BYTES - OFFSET_BYTES)?;
    let span = Span { address: pieces.address(), bytes: (3 * PIECE_BYTES - OFFSET_BYTES) as u64 };
    let stream = bench.machine.streams(0, 1)?.remove(0);
    // SAFETY: the pieces live until all names have been given back; what is replaced meanwhile no call uses.
    let register = |bed: &mut Bed| unsafe { bed.comm.register(&[span]) };
    let first = register(&mut bed)?;
    // Keeps what the first has mapped.
    let second = register(&mut bed)?;
    bed.comm.release(first)?;
    pieces.replace_second()?;
    let third = register(&mut bed)?;
    // Inside the piece that is new, and behind it.
    let (input, output) = ((PIECE_BYTES - OFFSET_BYTES) as u64 + 4096, (2 * PIECE_BYTES - OFFSET_BYTES) as u64 + 4096);
    let value = bed.comm.local_ranks().start as f32 + 1.0;
    pieces.fill(input, ELEMS, value)?;
    let options = CallOptions {
        algorithm: Some(Algorithm::OnePass),
        registered: Registered::By { input: third, output: third },
        ..CallOptions::default()
    };
    let [input, at] = [input, output].map(|offset| pieces.address() + offset);
    // SAFETY: both are inside the pieces, which live until the stream has been waited for.
    let buffers = unsafe { RankBuffers::<f32>::device_raw(input, at, ELEMS as u64, stream.as_inner().cast()) };
    bed.comm.all_reduce_with(&[buffers], ReduceOp::Sum, &options)?;
    let (got, want) = (pieces.get(output)?, (1..=bed.comm.world()).sum::<usize>() as f32);
    ensure!(got == want, "{got}, not {want}: a peer reads what was there before");
    // The second is of what was there before.
    let error = bed.comm.check();
    ensure!(matches!(error, Err(Error::BufferFreed { .. })), "{error:?}");
    bed.comm.release(second)?;
    bed.comm.check()?;
    bed.comm.release(third)?;
    bench.count(1);
    Ok(Outcome::Holds)
}

pub(super) fn b64_mapped(bench: &Bench) -> Result<Outcome> {
    let Some(devices) = bench.machine.devices().filter(|_| !bench.machine.in_processes()) else {
        return Ok(Outcome::Skipped("for GPUs of one process".into()));
    };
    let world = bench.machine.most_ranks();
    let mut bed = Bed::new(bench, world)?;
    let bytes = 3 * PIECE_BYTES - OFFSET_BYTES;
    // In two pieces each; only the GPU that has them has access.
    let (input, output) = ((PIECE_BYTES - OFFSET_BYTES) as u64 - 4096, (2 * PIECE_BYTES - OFFSET_BYTES) as u64 - 4096);
    let elems = 2 * 4096 / size_of::<f32>();
    let (mut all, mut streams) = (Vec::new(), Vec::new());
    for (rank, &ordinal) in devices.iter().enumerate() {
        bench.machine.make_current(rank)?;
        let pieces = Pieces::new(ordinal, bytes)?;
        pieces.fill(input, elems, rank as f32 + 1.0)?;
        all.push(pieces);
        streams.extend(bench.machine.streams(rank, 1)?);
    }
    let spans: Vec<_> = all.iter().map(|it| Span { address: it.address(), bytes: bytes as u64 }).collect();
    // SAFETY: the pieces live until the name has been given back.
    let name = unsafe { bed.comm.register(&spans) }?;
    let options = CallOptions {
        algorithm: Some(Algorithm::OnePass),
        registered: Registered::By { input: name, output: name },
        ..CallOptions::default()
    };
    let of = |(pieces, stream): (&Pieces, &Stream)| {
        let [input, output] = [input, output].map(|offset| pieces.address() + offset);
        // SAFETY: both are inside the pieces, which live until the streams have been waited for.
        unsafe { RankBuffers::<f32>::device_raw(input, output, elems as u64, stream.as_inner().cast()) }
    };
    bed.comm.all_reduce_with(&all.iter().zip(&streams).map(of).collect::<Vec<_>>(), ReduceOp::Sum, &options)?;
    bed.comm.finish()?;
    bed.comm.check()?;
    let want = (1..=world).sum::<usize>() as f32;
    for (rank, pieces) in all.iter().enumerate() {
        bench.machine.make_current(rank)?;
        for elem in [0, elems / 2, elems - 1] {
            let got = pieces.get(output + (elem * size_of::<f32>()) as u64)?;
            ensure!(got == want, "rank {rank}, element {elem}: {got}, not {want}");
        }
        bench.count(1);
    }
    bed.comm.release(name)?;
    Ok(Outcome::Holds)
}
