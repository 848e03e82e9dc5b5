//! Who dies where in a round, and what is done meanwhile.

use super::deed::{Deed, any_charge, charge};
use super::dice::Dice;

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Serve,
    Acquirer,
}

/// What must be going on for a point to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Anything,
    /// An answer that never comes.
    Loss,
    /// A decision that takes its time, and is told by a webhook.
    Decision,
    /// No point: SIGKILL at any moment, and an answer that takes its time.
    AnyMoment,
}

/// A place to die at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// As the feature `crash-points` calls it; or that the process is killed from outside.
    pub(crate) name: &'static str,
    pub(crate) victim: Victim,
    needs: Needs,
}

const fn at(victim: Victim, name: &'static str, needs: Needs) -> Point {
    Point { name, victim, needs }
}

/// Every one of them, in the order of an operation's life.
pub(crate) const POINTS: [Point; 18] = [
    at(Victim::Serve, "before-claim", Needs::Anything),
    at(Victim::Serve, "during-claim", Needs::Anything),
    at(Victim::Serve, "after-claim", Needs::Anything),
    at(Victim::Serve, "before-send", Needs::Anything),
    at(Victim::Acquirer, "before-execution", Needs::Anything),
    at(Victim::Acquirer, "during-execution", Needs::Anything),
    at(Victim::Acquirer, "after-execution", Needs::Anything),
    at(Victim::Serve, "after-send", Needs::Anything),
    at(Victim::Serve, "before-finish", Needs::Anything),
    at(Victim::Serve, "during-finish", Needs::Anything),
    at(Victim::Serve, "after-finish", Needs::Anything),
    at(Victim::Serve, "during-recovery", Needs::Loss),
    at(Victim::Acquirer, "before-delivery", Needs::Decision),
    at(Victim::Serve, "during-webhook", Needs::Decision),
    at(Victim::Serve, "after-webhook", Needs::Decision),
    at(Victim::Acquirer, "after-delivery", Needs::Decision),
    at(Victim::Serve, "service-killed", Needs::AnyMoment),
    at(Victim::Acquirer, "acquirer-killed", Needs::AnyMoment),
];

/// How one program dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blow {
    pub(crate) point: Point,
    pub(crate) when: When,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// When the point is reached for that time.
    Reached { times: u64 },
    /// So long after the first requests were sent.
    After { ms: u64 },
}

impl Blow {
    fn draw(point: Point, dice: &mut Dice) -> Self {
        let when = match point.needs {
            Needs::AnyMoment => When::After { ms: dice.below(350) },
            Needs::Anything => When::Reached { times: 1 + dice.below(3) },
            Needs::Loss | Needs::Decision => When::Reached { times: 1 },
        };
        Self { point, when }
    }

    /// What the program is told, if it dies by itself.
    pub(crate) fn crash_at(&self) -> Option<String> {
        match self.when {
            When::Reached { times } => Some(format!("{}:{times}", self.point.name)),
            When::After { .. } => None,
        }
    }
}

/// A new charge, or the next step of one there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Charge(Deed),
    /// A charge of something that an earlier round left to be done, if there is anything.
    Step,
}

/// One round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) blows: Vec<Blow>,
    pub(crate) wishes: Vec<Wish>,
    /// Which of them nobody repeats.
    pub(crate) left_alone: usize,
}

/// Nobody is left alone.
const NOBODY: usize = usize::MAX;

/// Operations of a round: a point that is to be reached for the third time is reached.
const WISHES: u64 = 4;

impl Plan {
    /// A round whose first blow is this, if there is one.
    pub(crate) fn draw(point: Option<Point>, dice: &mut Dice) -> Self {
        let mut blows: Vec<Blow> = point.map(|point| Blow::draw(point, dice)).into_iter().collect();
        let other = dice.pick(&POINTS);
        if dice.one_in(4) && point.is_none_or(|point| point.victim != other.victim) {
            blows.push(Blow::draw(other, dice));
        }
        let mut wishes: Vec<Wish> = blows.iter().filter_map(|blow| what_it_needs(blow.point.needs)).collect();
        while (wishes.len() as u64) < WISHES {
            wishes.push(if dice.one_in(3) { Wish::Step } else { Wish::Charge(any_charge(dice)) });
        }
        let left_alone = usize::try_from(dice.below(WISHES)).expect("a small number");
        Self { blows, wishes, left_alone }
    }

    /// Charges that are approved, and nobody dies.
    pub(crate) fn peaceful() -> Self {
        let wishes = (0..WISHES).map(|_| Wish::Charge(charge("tok_approve"))).collect();
        Self { blows: Vec::new(), wishes, left_alone: NOBODY }
    }

    pub(crate) fn blow_on(&self, victim: Victim) -> Option<&Blow> {
        self.blows.iter().find(|blow| blow.point.victim == victim)
    }
}

fn what_it_needs(needs: Needs) -> Option<Wish> {
    let token = match needs {
        Needs::Anything => return None,
        Needs::Loss => "tok_lost",
        Needs::Decision => "tok_pending",
        Needs::AnyMoment => "tok_slow_200",
    };
    Some(Wish::Charge(charge(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_drawn_by_its_dice_alone() {
        let draw = || Plan::draw(Some(POINTS[11]), &mut Dice::of_lane(42, 0));
        assert_eq!(format!("{:?}", draw()), format!("{:?}", draw()));
    }

    #[test]
    fn what_a_point_needs_is_wished_for() {
        let mut dice = Dice::of_lane(42, 0);
        for point in POINTS {
            let plan = Plan::draw(Some(point), &mut dice);
            assert_eq!(plan.wishes.len() as u64, WISHES);
            assert_eq!(plan.blows[0].point, point);
            assert!(plan.blows.iter().filter(|blow| blow.point.victim == point.victim).count() == 1);
            if let Some(wish) = what_it_needs(point.needs) {
                assert_eq!(plan.wishes[0], wish);
            }
        }
    }
}
