//! What is tried, each within a time limit: copies, the self-test and calls of two ranks, the first use.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use allfold::cuda::{Context, Device, DeviceHandle, DeviceMemory, DriverError, Event, Stream};
use allfold::{Algorithm, CallOptions, Communicator, Dtype, Error, Options, ReduceOp, SelfTest};
use anyhow::{Result, bail};

use super::findings::Outcome;
use crate::bench::case::{Bed, Case, Repeats};
use crate::bench::cpu::CpuBed;
use crate::bench::cuda::CudaBed;
use crate::bench::timing::How;
use crate::gpus::Gpus;
use crate::here;
use crate::stats::{algorithm_bandwidth, median, slowest_rank};

const LIMIT: Duration = Duration::from_secs(20);
/// How long a rank waits for the other.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A page, and enough to pass every cache on the way.
const COPY_BYTES: [usize; 2] = [4 << 10, 64 << 20];
const TIMED_COPIES: usize = 8;
const CALL_BYTES: usize = 64 << 10;
const CALLS: Repeats = Repeats { warmup: 5, timed: 50 };
/// The dtype whose kernels' first use is measured.
pub const FIRST_USE_DTYPE: Dtype = Dtype::Bf16;

/// Runs `probe` on a thread that is left alone when it takes longer than the limit: a driver call cannot be broken off.
fn within_limit<T: Send + 'static>(probe: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody listens any more where the limit has passed.
        let _ = answer.send(probe());
    });
    match answered.recv_timeout(LIMIT) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("no answer within {} s", LIMIT.as_secs()),
        Err(mpsc::RecvTimeoutError::Disconnected) => bail!("the probe panicked"),
    }
}

/// The outcome of a probe that answers with a figure, and with what is wrong if something is.
fn outcome(probe: impl FnOnce() -> Result<(f64, Option<String>)> + Send + 'static) -> Outcome {
    match within_limit(probe) {
        Ok((figure, None)) => works(figure),
        Ok((_, Some(wrong))) => Outcome::Wrong(wrong),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn works(figure: f64) -> Outcome {
    Outcome::Works((figure * 100.0).round() / 100.0)
}

/// The GPUs' contexts: while somebody has them, no probe waits for the driver to make them.
pub fn contexts(devices: &[Device]) -> Vec<Context> {
    devices.iter().filter_map(|device| context(device).ok()).collect()
}

fn context(device: &Device) -> Result<Context, DriverError> {
    DeviceHandle::get(device.ordinal).and_then(Context::retain)
}

/// A copy from one GPU to another, verified; in GB/s for the larger size. Through the host where there is no access.
pub fn copy(from: &Device, to: &Device, access: bool) -> Outcome {
    let (from, to) = (from.clone(), to.clone());
    outcome(move || {
        let (from, to) = (context(&from)?, context(&to)?);
        if access {
            from.enable_peer_access(&to)?;
        }
        let mut bandwidth = 0.0;
        for bytes in COPY_BYTES {
            let (source, sink) = (DeviceMemory::alloc(&from, bytes)?, DeviceMemory::alloc(&to, bytes)?);
            let seed = here::fresh_seed();
            let pattern: Vec<u8> = (0..bytes).map(|i| crate::mix::mix(seed, i as u64) as u8).collect();
            let mut got = vec![0; bytes];
            // SAFETY: both are allocations of `bytes` bytes that nothing else uses, and each call waits.
            unsafe {
                from.copy_to_device(source.address(), &pattern)?;
                to.memset(sink.address(), 0, bytes)?;
                from.copy_to_peer(&to, sink.address(), source.address(), bytes)?;
                to.copy_to_host(&mut got, sink.address())?;
            }
            let wrong = got.iter().zip(&pattern).filter(|(got, sent)| got != sent).count();
            if wrong > 0 {
                return Ok((0.0, Some(format!("{wrong} of {bytes} bytes arrived wrong"))));
            }
            let (stream, start, end) = (Stream::new(&from)?, Event::new(&from, true)?, Event::new(&from, true)?);
            start.record(stream.raw())?;
            for _ in 0..TIMED_COPIES {
                // SAFETY: as above; the stream is waited for before the memory is freed.
                unsafe { from.copy_to_peer_async(&to, sink.address(), source.address(), bytes, stream.raw()) }?;
            }
            end.record(stream.raw())?;
            stream.synchronize()?;
            bandwidth = algorithm_bandwidth((bytes * TIMED_COPIES) as u64, end.micros_since(&start)?);
        }
        Ok((bandwidth, None))
    })
}

/// One-shot and two-shot between a rank on each of two GPUs, verified; in µs a call. Kernels store flags to each other's
/// memory and load each other's data, so both directions are tried.
pub fn together(gpus: &[Device; 2]) -> [Outcome; 2] {
    [Algorithm::OneShot, Algorithm::TwoShot].map(|algorithm| {
        let gpus = gpus.clone();
        outcome(move || {
            let options = options(algorithm);
            let comm = &mut Communicator::cuda_with(&[gpus[0].ordinal, gpus[1].ordinal], options)?;
            let streams = Gpus::new(&gpus)?;
            let call = CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
            let call = (ReduceOp::Sum, call);
            verified(&mut CudaBed::<f32>::new(comm, &streams, call, How::Eager(CALLS), CALL_BYTES, false)?)
        })
    })
}

/// The self-test of a rank on each of two GPUs, by every algorithm: from the first to the second, and back; in ms for both.
pub fn paths(gpus: &[Device; 2]) -> [Outcome; 2] {
    let ordinals = [gpus[0].ordinal, gpus[1].ordinal];
    both_ways(move |options| Communicator::cuda_with(&ordinals, options))
}

/// The same of two CPU ranks.
pub fn cpu_paths() -> [Outcome; 2] {
    both_ways(|options| Communicator::cpu_with(2, options))
}

fn both_ways(make: impl FnOnce(Options) -> allfold::Result<Communicator> + Send + 'static) -> [Outcome; 2] {
    let options =
        Options { algorithms: Algorithm::ALL.to_vec(), self_test: SelfTest::Always, ..options(Algorithm::OneShot) };
    match within_limit(move || Ok(make(options))) {
        Ok(Ok(comm)) => {
            let took = comm.self_test_took().map_or_else(
                || Outcome::Failed("there was no self-test".to_owned()),
                |took| works(took.as_secs_f64() * 1e3),
            );
            [took.clone(), took]
        }
        Ok(Err(Error::SelfTest { pairs, what, hint })) => [(0, 1), (1, 0)].map(|pair| match pairs.contains(&pair) {
            true => Outcome::Wrong(format!("{what}; {hint}")),
            false => Outcome::Failed("not known, since the other way does not work".to_owned()),
        }),
        Ok(Err(error)) => [(); 2].map(|()| Outcome::Failed(error.to_string())),
        Err(error) => [(); 2].map(|()| Outcome::Failed(error.to_string())),
    }
}

/// A call between two CPU ranks, verified; in µs.
pub fn cpu_ranks() -> Outcome {
    outcome(|| {
        let comm = &mut Communicator::cpu_with(2, options(Algorithm::OneShot))?;
        verified(&mut CpuBed::<f32>::new(comm, (ReduceOp::Sum, CallOptions::default()), CALLS, CALL_BYTES, false))
    })
}

fn options(algorithm: Algorithm) -> Options {
    Options {
        dtypes: vec![Dtype::F32],
        algorithms: vec![algorithm],
        capacity_bytes: CALL_BYTES as u64,
        timeout: Some(TIMEOUT),
        stamps: true,
        // It is looked at by itself.
        self_test: SelfTest::Never,
        ..Options::default()
    }
}

fn verified(bed: &mut impl Bed) -> Result<(f64, Option<String>)> {
    let case = Case { op: ReduceOp::Sum, world: 2, bytes: CALL_BYTES, in_place: false, seed: here::fresh_seed() };
    let measured = case.run::<f32, _>(bed, |_| {})?;
    let wrong = (measured.wrong > 0).then(|| format!("{} elements were wrong", measured.wrong));
    Ok((slowest_rank(&measured.samples, median), wrong))
}

/// Milliseconds that the first communicator takes on these GPUs, for one dtype and the default protocol.
pub fn first_use_ms(ordinals: &[u32]) -> Result<f64> {
    // What every CUDA program pays is not counted.
    let contexts = ordinals.iter().map(|&ordinal| DeviceHandle::get(ordinal).and_then(Context::retain));
    let _contexts = contexts.collect::<Result<Vec<_>, _>>()?;
    // Paths are tried by themselves.
    let self_test = SelfTest::Never;
    let options = Options { dtypes: vec![FIRST_USE_DTYPE], capacity_bytes: 1 << 20, self_test, ..Options::default() };
    let start = Instant::now();
    let _comm = Communicator::cuda_with(ordinals, options)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// [`first_use_ms`] in this process, with whatever the driver has in its cache.
pub fn first_use(ordinals: &[u32]) -> Outcome {
    let ordinals = ordinals.to_vec();
    outcome(move || Ok((first_use_ms(&ordinals)?, None)))
}

/// The same in a process whose driver has its cache off.
pub fn cold_first_use() -> Outcome {
    outcome(|| {
        let program = std::env::current_exe()?;
        let mut command = std::process::Command::new(program);
        let done = command.args(["doctor", "--load-only"]).env("CUDA_CACHE_DISABLE", "1").output()?;
        let printed = String::from_utf8_lossy(&done.stdout);
        match printed.trim().parse() {
            Ok(ms) if done.status.success() => Ok((ms, None)),
            _ => bail!("{}", String::from_utf8_lossy(&done.stderr).trim()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ranks_work() {
        assert!(cpu_ranks().works());
        assert!(cpu_paths().iter().all(Outcome::works));
    }

    #[test]
    fn b92_b93_a_self_test_that_fails_is_an_outcome_of_the_way_that_it_names() {
        let failed = |pairs| Error::SelfTest { pairs, what: "a flag".into(), hint: "ACS".into() };
        let of = |error| both_ways(|_| Err(error));
        let wrong = || Outcome::Wrong("a flag; ACS".into());
        assert_eq!(of(failed(vec![(0, 1), (1, 0)])), [wrong(), wrong()]);
        let [there, back] = of(failed(vec![(1, 0)]));
        assert!(matches!(there, Outcome::Failed(_)) && back == wrong());
        let [there, back] = of(Error::NoPeerAccess { from: 0, to: 1 });
        assert!(matches!(&there, Outcome::Failed(why) if why.contains("no peer access")) && there == back);
    }

    #[test]
    fn a_probe_that_panics_or_fails_is_an_outcome() {
        assert_eq!(outcome(|| Ok((1.234, None))), Outcome::Works(1.23));
        assert_eq!(outcome(|| bail!("no")), Outcome::Failed("no".into()));
        assert_eq!(outcome(|| Ok((1.0, Some("2 bytes".into())))), Outcome::Wrong("2 bytes".into()));
        assert_eq!(outcome(|| panic!("planted")), Outcome::Failed("the probe panicked".into()));
    }
}
