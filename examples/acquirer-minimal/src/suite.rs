//! The public suite, run against the bank: a `Rig` is the adapter and a look into the books behind it.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

use std::sync::Arc;

use unavez_core::identity::OperationId;
use unavez_payments::acquirer::conformance::{Rig, Wanted};
use unavez_payments::acquirer::{Acquirer, BoxFuture};

use unavez_core::time::Time;

use crate::adapter::Bank;
use crate::bank::Books;
use crate::open;

struct BankRig {
    books: Books,
    bank: Bank,
}

impl Rig for BankRig {
    fn acquirer(&self) -> &dyn Acquirer {
        &self.bank
    }

    /// It approves whatever is put before it.
    fn method(&self, wanted: Wanted) -> Option<Box<str>> {
        (wanted == Wanted::Approved).then(|| "any".into())
    }

    fn executed(&self, operation: OperationId) -> BoxFuture<'_, u64> {
        let books = self.books.lock().unwrap();
        let executed = books.iter().filter(|entry| entry.id == operation.to_string()).count() as u64;
        Box::pin(std::future::ready(executed))
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn now(&self) -> Time {
        Time::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}

async fn rig() -> BankRig {
    let books = Books::default();
    BankRig { bank: open(Arc::clone(&books)).await.unwrap(), books }
}

fn at(base: &str) -> Arc<dyn Acquirer> {
    Arc::new(Bank::at(base.parse().unwrap()).unwrap())
}

mod in_front_of_its_bank {
    unavez_payments::acquirer_conformance!(super::rig());
}

mod on_a_bad_line {
    unavez_payments::acquirer_http_conformance!(super::at, "any");
}
