//! The shop's rows and its outbox, in one file.

use serde::Deserialize;
use serde_json::{Value, json};
use unavez_client::outbox::rusqlite::{Connection, Error, OptionalExtension, TransactionBehavior, params};
use unavez_client::outbox::{Outbox, OutboxError, OutboxLimits, Standing};
use unavez_client::{Operation, derive};

pub(crate) struct Shop {
    db: Connection,
    outbox: Outbox,
    charges: String,
    path: String,
}

/// An order as it comes in.
#[derive(Deserialize, PartialEq)]
pub(crate) struct Order {
    id: String,
    amount: i64,
    currency: String,
    payment_method: String,
}

pub(crate) enum Accepted {
    /// It is on the disk and will be charged, or it is already.
    Charging,
    /// Its id belongs to another order.
    Differs,
    /// It can never be charged.
    Invalid,
}

impl Shop {
    pub(crate) fn open(path: &str, charges: &str) -> Result<Self, OutboxError> {
        let outbox = Outbox::open(path, OutboxLimits::default())?;
        let failed = |source| OutboxError::Database { doing: "opening", path: path.into(), source };
        let db = Connection::open(path).map_err(failed)?;
        db.pragma_update(None, "synchronous", "full").map_err(failed)?;
        db.execute_batch(include_str!("order.sql")).map_err(failed)?;
        Ok(Self { db, outbox, charges: charges.to_owned(), path: path.to_owned() })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Order and charge are one commit. An order that is here already changes nothing.
    pub(crate) fn accept(&mut self, order: &Order) -> Result<Accepted, OutboxError> {
        let failed =
            |source| OutboxError::Database { doing: "writing", path: self.path.clone().into(), source };
        if let Some(known) = find(&self.db, &order.id).map_err(failed)? {
            return Ok(if known == *order { Accepted::Charging } else { Accepted::Differs });
        }
        let Some(charge) = order.charge(&self.charges) else { return Ok(Accepted::Invalid) };
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let columns = params![order.id, order.amount, order.currency, order.payment_method];
        tx.execute("insert into orders values (?1, ?2, ?3, ?4)", columns).map_err(failed)?;
        self.outbox.put_in(&tx, &charge)?;
        tx.commit().map_err(failed)?;
        self.outbox.wake();
        Ok(Accepted::Charging)
    }

    /// The order, and what the outbox knows of its charge.
    pub(crate) fn show(&self, id: &str) -> Result<Option<Value>, OutboxError> {
        let failed =
            |source| OutboxError::Database { doing: "reading", path: self.path.clone().into(), source };
        let Some(order) = find(&self.db, id).map_err(failed)? else { return Ok(None) };
        let key = derive("charge", &[id]).ok();
        let standing = key.map(|key| self.outbox.find_in(&self.db, &key)).transpose()?.flatten();
        let (state, detail) = match standing {
            Some(Standing::Done(answer)) => ("charged", document(answer.body())),
            Some(Standing::Refused(answer)) => ("refused", document(answer.body())),
            Some(Standing::Waiting(waiting)) => ("charging", waiting.last.into()),
            Some(Standing::Unknown { reason, .. }) => ("unknown", reason.into()),
            // Settled so long ago that the outbox has purged it; the service still knows the key.
            _ => ("settled", Value::Null),
        };
        Ok(Some(json!({ "id": id, "amount": order.amount, "state": state, "charge": detail })))
    }
}

fn document(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

fn find(db: &Connection, id: &str) -> Result<Option<Order>, Error> {
    let sql = "select id, amount, currency, payment_method from orders where id = ?1";
    db.query_row(sql, [id], |row| {
        let (id, amount) = (row.get(0)?, row.get(1)?);
        Ok(Order { id, amount, currency: row.get(2)?, payment_method: row.get(3)? })
    })
    .optional()
}

impl Order {
    /// The same for ever: the key is made of the order's id, the body of its row. `None`: it is none.
    fn charge(&self, charges: &str) -> Option<Operation> {
        if self.amount < 1 || self.id.len() > 64 {
            return None;
        }
        let body = json!({
            "order_id": self.id,
            "amount": self.amount,
            "currency": self.currency,
            "payment_method": self.payment_method,
        });
        let key = derive("charge", &[&self.id]).ok()?;
        Some(Operation::post(charges).ok()?.with_key(key).with_json(body.to_string()))
    }
}
