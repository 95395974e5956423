//! The spans that a communicator opens, as a subscriber of this test sees them: their names, and what they say.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use allfold::{Algorithm, CallOptions, Communicator, Memory, RankBuffers, ReduceOp, rendezvous};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Spans of allfold, each as a line: level, name and fields.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    /// Those since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no span panics"))
    }
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("allfold")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let level = if *span.metadata().level() == Level::TRACE { "trace" } else { "debug" };
        let mut line = format!("{level} {}", span.metadata().name());
        span.record(&mut Fields(&mut line));
        let mut seen = self.0.lock().expect("no span panics");
        seen.push(line);
        Id::from_u64(seen.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_communicator_in_one_process_says_what_it_does() {
    let seen = Seen::default();
    tracing::subscriber::with_default(seen.clone(), || {
        let mut ranks = Communicator::cpu(2).expect("two ranks");
        assert_eq!(seen.take(), [r#"debug create backend="CPU ranks" world=2"#, "debug self_test rank=0 world=2"]);
        drop(Communicator::cpu(2).expect("two ranks"));
        assert_eq!(seen.take(), [r#"debug create backend="CPU ranks" world=2"#], "they have passed");

        let mut data = [[1.0_f32; 100]; 2];
        let buffers: Vec<_> = data.iter_mut().map(|data| RankBuffers::in_place(data)).collect();
        let call = CallOptions { algorithm: Some(Algorithm::TwoShot), blocks: Some(1), ..CallOptions::default() };
        ranks.all_reduce_with(&buffers, ReduceOp::Sum, &call).expect("it can be");
        let plan = r#"trace plan dtype="f32" op="sum" elems=100 bytes=400 in_place=true"#;
        let launch =
            r#"trace launch algorithm="two_shot" input="registered" blocks=1 threads=1 dtype="f32" op="sum" bytes=400"#;
        assert_eq!(seen.take(), [plan, launch]);

        // What is refused is not launched.
        let call = CallOptions { blocks: Some(9), ..call };
        ranks.all_reduce_with(&buffers, ReduceOp::Sum, &call).expect_err("one block is there");
        assert_eq!(seen.take(), [plan]);

        let call = CallOptions { blocks: None, ..call };
        let record = |ranks: &mut Communicator| ranks.all_reduce_with(&buffers, ReduceOp::Sum, &call).map(drop);
        let captured = ranks.capture(&[], record).expect("it can be");
        // SAFETY: of this communicator, and the buffers are there.
        unsafe { ranks.replay(&captured, &[]) }.expect("it can be");
        assert_eq!(seen.take(), ["debug capture rank=0", plan, launch, "trace replay rank=0"]);
        let parts = ranks.split_each(&[(Some(0), 0), (None, 0)]).expect("one part");
        assert_eq!(parts.len(), 1);
        assert_eq!(
            seen.take(),
            ["debug split rank=0 world=2", r#"debug create backend="CPU ranks" world=1"#],
            "a part is made as any other"
        );
    });
}

#[test]
fn a_rank_that_is_connected_says_so() {
    let seen = Seen::default();
    tracing::subscriber::with_default(seen.clone(), || {
        let seat = rendezvous::local(1).expect("one rank").remove(0);
        let mut ranks = Communicator::connect_cpu(&seat).expect("it is alone");
        assert_eq!(seen.take(), [r#"debug connect backend="CPU ranks" rank=0 world=1"#]);
        let memory = Memory::host(4096).expect("a page");
        // SAFETY: the memory lives until it is released.
        let name = unsafe { ranks.register(&[memory.span()]) }.expect("it can be shared");
        ranks.finish_capture().expect("nothing was captured");
        ranks.release(name).expect("it was registered");
        assert_eq!(
            seen.take(),
            ["debug register rank=0 bytes=4096", "debug finish_capture rank=0", "debug release rank=0"]
        );
    });
}
