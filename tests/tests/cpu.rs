//! Every property, on CPU ranks.

use std::sync::{PoisonError, RwLock};

use allfold_tests::machine::CpuMachine;
use allfold_tests::properties::ALL;
use allfold_tests::suite::Bench;

/// Calls of the stress property.
const STRESS_CALLS: u64 = 2000;

/// Properties that look at the whole process, and so run alone.
const ALONE: [&str; 3] = ["b33_b40_b96_made_and_dropped", "b61_b71_come_and_go", "b118_idle"];
static PROCESS: RwLock<()> = RwLock::new(());

fn check(name: &str) {
    let property = ALL.iter().find(|property| property.name == name).expect("a property of this name");
    let machine = CpuMachine;
    let bench = Bench::new(&machine, true, STRESS_CALLS);
    let verdict = if ALONE.contains(&name) {
        let _alone = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
        bench.check(property)
    } else {
        let _beside_others = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        bench.check(property)
    };
    match verdict {
        Ok(Ok(checks)) => println!("{name}: {checks} checked"),
        Ok(Err(why)) => println!("{name}: SKIPPED {why}"),
        Err(error) => panic!("{name}: {error:#}"),
    }
}

macro_rules! on_cpu {
    ($name:ident) => {
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    };
}

allfold_tests::for_each_property!(on_cpu);
