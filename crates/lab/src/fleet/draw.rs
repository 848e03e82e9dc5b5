//! The orders of a fleet and what the network will do to them, drawn before anything is sent.
//!
//! Drawing first, in order, is what makes a run with concurrency give the same table as one without.

use super::{Intent, Options};
use crate::random::PythonRandom;

/// Smallest and largest price of an order, in whole dollars.
const PRICES: (u32, u32) = (10, 500);

/// One order and its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// Whole dollars.
    pub(crate) amount: u32,
    /// How many of its first responses are lost. When this equals the attempts, no response ever arrives.
    pub(crate) lost: u32,
}

/// Draws the orders: amounts from `seed`, losses from `seed + 1`, attempt by attempt until one gets through.
pub(crate) fn draw(options: &Options) -> Vec<Order> {
    let seed = u128::from(options.seed);
    let mut amounts = PythonRandom::new(seed);
    let mut losses = PythonRandom::new(seed + 1);
    (0..options.orders)
        .map(|_| Order {
            amount: amounts.randint(PRICES.0, PRICES.1),
            lost: lost_responses(&mut losses, options.loss.share(), options.attempts),
        })
        .collect()
}

fn lost_responses(losses: &mut PythonRandom, loss: f64, attempts: u32) -> u32 {
    let mut lost = 0;
    while lost < attempts && losses.random() < loss {
        lost += 1;
    }
    lost
}

/// What the orders are meant to cost.
pub(crate) fn intent(orders: &[Order]) -> Intent {
    Intent { charges: orders.len() as u64, total: orders.iter().map(|order| u64::from(order.amount)).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::percent;

    /// The published figures of one fleet, before and after, as they follow from the draws alone.
    struct Published {
        seed: u64,
        loss: &'static str,
        intent: u64,
        requests: u64,
        charged_before: u64,
        overcharge: u64,
        percent: f64,
        charged_twice: usize,
        unconfirmed: usize,
    }

    const PUBLISHED: [Published; 4] = [
        Published {
            seed: 42,
            loss: "0.15",
            intent: 256_979,
            requests: 1_184,
            charged_before: 305_118,
            overcharge: 48_139,
            percent: 18.7,
            charged_twice: 146,
            unconfirmed: 0,
        },
        Published {
            seed: 42,
            loss: "0.30",
            intent: 256_979,
            requests: 1_401,
            charged_before: 364_315,
            overcharge: 107_336,
            percent: 41.8,
            charged_twice: 283,
            unconfirmed: 3,
        },
        Published {
            seed: 42,
            loss: "0.90",
            intent: 256_979,
            requests: 3_450,
            charged_before: 885_212,
            overcharge: 628_233,
            percent: 244.5,
            charged_twice: 901,
            unconfirmed: 663,
        },
        Published {
            seed: 7,
            loss: "0.15",
            intent: 247_660,
            requests: 1_173,
            charged_before: 291_378,
            overcharge: 43_718,
            percent: 17.7,
            charged_twice: 149,
            unconfirmed: 0,
        },
    ];

    #[test]
    fn the_published_figures_follow_from_the_draws() {
        for published in PUBLISHED {
            let options = Options {
                seed: published.seed,
                loss: published.loss.parse().expect("a share"),
                ..Options::default()
            };
            let orders = draw(&options);
            let attempts = |order: &Order| (order.lost + 1).min(options.attempts);
            let before: u64 = orders.iter().map(|order| u64::from(order.amount * attempts(order))).sum();

            assert_eq!(intent(&orders), Intent { charges: 1_000, total: published.intent });
            assert_eq!(
                orders.iter().map(|order| u64::from(attempts(order))).sum::<u64>(),
                published.requests
            );
            assert_eq!(before, published.charged_before);
            assert_eq!(before - published.intent, published.overcharge);
            assert_eq!(percent(published.overcharge, published.intent), published.percent);
            assert_eq!(orders.iter().filter(|order| attempts(order) > 1).count(), published.charged_twice);
            assert_eq!(
                orders.iter().filter(|order| order.lost == options.attempts).count(),
                published.unconfirmed
            );
        }
    }

    #[test]
    fn nothing_is_lost_at_zero_and_everything_at_one() {
        let lost = |loss: &str| {
            let options = Options { orders: 50, loss: loss.parse().expect("a share"), ..Options::default() };
            draw(&options).iter().map(|order| order.lost).collect::<Vec<_>>()
        };
        assert_eq!(lost("0"), [0; 50]);
        assert_eq!(lost("1"), [4; 50]);
    }

    #[test]
    fn the_largest_seed_has_a_successor() {
        let options = Options { seed: u64::MAX, orders: 3, ..Options::default() };
        assert_eq!(draw(&options).len(), 3);
    }

    #[test]
    fn no_orders_mean_no_money() {
        let options = Options { orders: 0, ..Options::default() };
        assert_eq!(intent(&draw(&options)), Intent { charges: 0, total: 0 });
    }
}
