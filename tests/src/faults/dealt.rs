//! An order in which a part of many is spread over all of them.

/// All numbers below `count`, in an order in which the first of them are far apart.
pub fn dealt(count: usize) -> impl Iterator<Item = usize> {
    let step = (count * 5 / 8..).find(|&step| gcd(step, count) == 1).unwrap_or(1);
    (0..count).map(move |number| number * step % count.max(1))
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_are_dealt_once_and_the_first_of_them_far_apart() {
        for count in 1..300 {
            let mut order: Vec<_> = dealt(count).collect();
            let first = order.iter().take(count.div_ceil(4));
            assert!(
                count < 20 || first.clone().any(|&at| at < count / 3) && first.clone().any(|&at| at > count / 3 * 2)
            );
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count), "{count}");
        }
    }
}
