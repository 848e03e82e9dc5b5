//! Places in the life of an operation at which a test can have the process die.
//!
//! 1. Without the feature `crash-points` there are none: [`reached`] does nothing, and the variable is not even read.
//!    Released binaries are built without it, and the gate looks into the binary to make sure.
//! 2. With it, `UNAVEZ_CRASH_AT=POINT:N` ends the process when that point is reached for the N-th time. Nothing is
//!    unwound, flushed or answered: what is left is what was on disk, as after SIGKILL.
//! 3. A variable that names no point ends the process at the first one, so that no test waits for a death that cannot
//!    come.
//!
//! `cargo xtask crash` is the user of it: it kills the service and its acquirer at every point and audits what is left.

/// A place to die at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The request is read; nothing is written.
    BeforeClaim,
    /// T1 is written and not committed.
    DuringClaim,
    /// T1 is committed.
    AfterClaim,
    /// The next thing is the first byte.
    BeforeSend,
    /// The acquirer has answered.
    AfterSend,
    /// T2 has begun.
    BeforeFinish,
    /// T2 is written and not committed.
    DuringFinish,
    /// T2 is committed, and the caller has not heard of it.
    AfterFinish,
    /// A question found a result, which is written and not committed.
    DuringRecovery,
    /// An event has taken effect, which is written and not committed.
    DuringWebhook,
    /// An event's effect is committed, and its sender has not heard of it.
    AfterWebhook,
    /// The sandbox has read a request.
    BeforeExecution,
    /// The sandbox has executed it, which is written and not committed.
    DuringExecution,
    /// The execution is committed, and nobody has heard of it.
    AfterExecution,
    /// The sandbox is about to send a webhook.
    BeforeDelivery,
    /// A webhook is delivered, which is not noted yet.
    AfterDelivery,
}

/// Dies here, if this is the point and the time.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) const fn reached(_: Point) {}

#[cfg(feature = "crash-points")]
pub(crate) use armed::reached;

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Point;

    /// Names the point, and how often it is survived less one: `after-send:1` dies at once.
    const VARIABLE: &str = "UNAVEZ_CRASH_AT";

    static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
        let text = std::env::var_os(VARIABLE)?;
        let plan = text.to_str().and_then(Plan::parse);
        Some(plan.unwrap_or_else(|| die(&format!("{VARIABLE} is {text:?}, expected POINT:N"))))
    });

    struct Plan {
        point: Point,
        left: AtomicU32,
    }

    impl Plan {
        fn parse(text: &str) -> Option<Self> {
            let (name, times) = text.split_once(':')?;
            let point = Point::ALL.into_iter().find(|point| point.name() == name)?;
            let left = times.parse().ok().filter(|times| *times > 0)?;
            Some(Self { point, left: AtomicU32::new(left) })
        }

        /// Whether this is the time. True once.
        fn is_due(&self, point: Point) -> bool {
            point == self.point && self.left.fetch_sub(1, Ordering::AcqRel) == 1
        }
    }

    /// Dies here, if this is the point and the time.
    pub(crate) fn reached(point: Point) {
        if PLAN.as_ref().is_some_and(|plan| plan.is_due(point)) {
            die(&format!("died at {}, as asked by {VARIABLE}", point.name()));
        }
    }

    fn die(why: &str) -> ! {
        eprintln!("{why}");
        std::process::abort()
    }

    impl Point {
        const ALL: [Self; 16] = [
            Self::BeforeClaim,
            Self::DuringClaim,
            Self::AfterClaim,
            Self::BeforeSend,
            Self::AfterSend,
            Self::BeforeFinish,
            Self::DuringFinish,
            Self::AfterFinish,
            Self::DuringRecovery,
            Self::DuringWebhook,
            Self::AfterWebhook,
            Self::BeforeExecution,
            Self::DuringExecution,
            Self::AfterExecution,
            Self::BeforeDelivery,
            Self::AfterDelivery,
        ];

        const fn name(self) -> &'static str {
            match self {
                Self::BeforeClaim => "before-claim",
                Self::DuringClaim => "during-claim",
                Self::AfterClaim => "after-claim",
                Self::BeforeSend => "before-send",
                Self::AfterSend => "after-send",
                Self::BeforeFinish => "before-finish",
                Self::DuringFinish => "during-finish",
                Self::AfterFinish => "after-finish",
                Self::DuringRecovery => "during-recovery",
                Self::DuringWebhook => "during-webhook",
                Self::AfterWebhook => "after-webhook",
                Self::BeforeExecution => "before-execution",
                Self::DuringExecution => "during-execution",
                Self::AfterExecution => "after-execution",
                Self::BeforeDelivery => "before-delivery",
                Self::AfterDelivery => "after-delivery",
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_plan_is_due_once_at_its_point_and_time() {
            let plan = Plan::parse("after-send:2").unwrap();
            assert!(!plan.is_due(Point::AfterSend));
            assert!(!plan.is_due(Point::BeforeSend));
            assert!(plan.is_due(Point::AfterSend));
            assert!(!plan.is_due(Point::AfterSend));
        }

        #[test]
        fn what_names_no_point_and_time_is_refused() {
            for text in ["", "after-send", "after-send:", "after-send:0", "after-send:x", "nowhere:1"] {
                assert!(Plan::parse(text).is_none(), "{text:?}");
            }
            for point in Point::ALL {
                assert!(Plan::parse(&format!("{}:1", point.name())).is_some());
            }
        }
    }
}
