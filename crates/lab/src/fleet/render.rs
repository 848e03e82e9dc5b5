//! The fleet's table for a terminal.

use comfy_table::Cell;

use super::{Figures, World};
use crate::{
    Lang, Mutation,
    lang::{ATTEMPTS, ORDERS},
    money::{dollars, grouped},
    text::{Mood, bold, cell, number, styled, table, tick},
};

/// One line of the table: its name, how a world shows it, and how that should strike the reader.
struct Line {
    name: String,
    show: fn(&World) -> String,
    mood: fn(&World) -> Mood,
}

impl Figures {
    /// The table, with what was asked above it and what follows from it below. Carries ANSI styles.
    pub fn render(&self, lang: Lang) -> String {
        format!("{}\n\n{}\n\n{}", self.heading(lang), self.table(lang), self.verdict(lang))
    }

    fn heading(&self, lang: Lang) -> String {
        let orders = ORDERS.count(u64::from(self.orders), lang);
        let (worth, loss) = (dollars(self.intent.total), percent_of(self.loss.share()));
        let (attempts, seed) = (ATTEMPTS.count(u64::from(self.attempts), lang), self.seed);
        let first = lang.say(format!("{orders} worth {worth}"), format!("{orders} por {worth}"));
        let rest = lang.say(
            format!(" · {loss} of the responses lost · up to {attempts} · seed {seed}"),
            format!(" · se pierde el {loss} de las respuestas · hasta {attempts} · semilla {seed}"),
        );
        let mut heading = format!("{}{}", bold(&first), styled(&rest, Mood::Quiet));
        if let Some(mutation) = self.mutation {
            heading.push_str(&lang.say(
                format!("\nafter: the lesson server, broken on purpose: {mutation}"),
                format!("\ndespués: el servidor de la lección, roto a propósito: {mutation}"),
            ));
        }
        heading
    }

    fn table(&self, lang: Lang) -> String {
        let before = lang.say("before: no memory", "antes: sin memoria");
        let after = lang.say("after: idempotent", "después: idempotente");
        let worlds: Vec<&World> = self.before.iter().chain([&self.after]).collect();
        let mut head = vec![""];
        head.extend(self.before.as_ref().map(|_| before));
        head.push(after);
        let mut table = table(&head, &[1, 2]);
        for line in lines(lang) {
            let mut row = vec![cell(&line.name, Mood::Plain)];
            row.extend(worlds.iter().map(|world| -> Cell { number((line.show)(world), (line.mood)(world)) }));
            table.add_row(row);
        }
        table.trim_fmt()
    }

    fn verdict(&self, lang: Lang) -> String {
        let intent = dollars(self.intent.total);
        if !self.passed() {
            let (over, under) = (dollars(self.after.overcharge), dollars(self.after.undercharge));
            let said = lang.say(
                format!("{over} too much and {under} too little was charged after."),
                format!("después se cobraron {over} de más y {under} de menos."),
            );
            return format!("{} {said}", tick(false));
        }
        let held = lang.say(
            format!("Every order was charged exactly once: {intent} were meant, {intent} were taken."),
            format!("Cada pedido se cobró exactamente una vez: se pedían {intent} y se cobraron {intent}."),
        );
        let mut verdict = format!("{} {held}", tick(true));
        if let Some(mutation) = self.mutation {
            verdict.push_str("\n  ");
            verdict.push_str(&self.worth_of_the_table(mutation, lang));
        }
        verdict
    }

    /// What right sums are worth when a piece is missing.
    fn worth_of_the_table(&self, mutation: Mutation, lang: Lang) -> String {
        match self.after.unconfirmed - self.after.found_by_key_status {
            0 => looks_perfect(mutation, lang),
            untold => lang.say(
                format!("But for {untold} of them the client was never told, and nobody can tell it."),
                format!("Pero de {untold} el cliente nunca lo supo, y nadie se lo puede decir."),
            ),
        }
    }
}

/// Why a perfect table proves nothing about this missing piece.
fn looks_perfect(mutation: Mutation, lang: Lang) -> String {
    let command = bold(&format!("unavez lab accept --break {mutation}"));
    lang.say(
        format!("A piece is missing, and the table does not show it: it convinces, only tests guarantee.\n  {command}"),
        format!("Falta una pieza y la tabla no lo muestra: convence, pero solo las pruebas garantizan.\n  {command}"),
    )
}

fn lines(lang: Lang) -> Vec<Line> {
    let line = |english: &str, spanish: &str, show, mood| Line {
        name: lang.say(english, spanish).to_owned(),
        show,
        mood,
    };
    let plain: fn(&World) -> Mood = |_| Mood::Plain;
    vec![
        line("requests sent", "solicitudes enviadas", |it| grouped(it.requests), plain),
        line("executed by the server", "ejecutadas por el servidor", |it| grouped(it.executions), plain),
        line("charges in the ledger", "cobros en el libro mayor", |it| grouped(it.ledger_charges), plain),
        line(
            "orders charged twice or more",
            "pedidos cobrados dos veces o más",
            |it| grouped(it.orders_charged_twice),
            |it| Mood::of_unwanted(it.orders_charged_twice),
        ),
        line(
            "orders not charged",
            "pedidos sin cobrar",
            |it| grouped(it.orders_not_charged),
            |it| Mood::of_unwanted(it.orders_not_charged),
        ),
        line("charged in total", "total cobrado", |it| dollars(it.total_charged), plain),
        line(
            "overcharge",
            "cobrado de más",
            |it| dollars(it.overcharge),
            |it| Mood::of_unwanted(it.overcharge),
        ),
        line(
            "overcharge, percent",
            "cobrado de más, en %",
            |it| format!("{:.1} %", it.overcharge_percent),
            |it| Mood::of_unwanted(it.overcharge),
        ),
        line(
            "undercharge",
            "cobrado de menos",
            |it| dollars(it.undercharge),
            |it| Mood::of_unwanted(it.undercharge),
        ),
        line("unconfirmed orders", "pedidos sin confirmar", |it| grouped(it.unconfirmed), plain),
        line(
            "  found out by key status",
            "  aclarados por el estado de la clave",
            |it| grouped(it.found_by_key_status),
            |it| {
                if it.found_by_key_status == it.unconfirmed { Mood::Plain } else { Mood::Bad }
            },
        ),
    ]
}

/// `0.15` as `15 %`.
pub(crate) fn percent_of(share: f64) -> String {
    let tenths = (share * 1_000.0).round() / 10.0;
    format!("{tenths} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Intent, Loss};

    fn world(requests: u64, executions: u64, total_charged: u64) -> World {
        World {
            requests,
            executions,
            ledger_charges: executions,
            orders_charged_twice: u64::from(executions > 1_000) * 283,
            orders_not_charged: 0,
            total_charged,
            overcharge: total_charged - 256_979,
            undercharge: 0,
            overcharge_percent: crate::money::percent(total_charged - 256_979, 256_979),
            unconfirmed: 3,
            found_by_key_status: u64::from(executions == 1_000) * 3,
        }
    }

    fn figures() -> Figures {
        Figures {
            seed: 42,
            orders: 1_000,
            loss: Loss::new(0.3).expect("a share"),
            attempts: 4,
            mutation: None,
            intent: Intent { charges: 1_000, total: 256_979 },
            before: Some(world(1_401, 1_401, 364_315)),
            after: world(1_401, 1_000, 256_979),
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn the_table_as_a_person_sees_it() {
        insta::assert_snapshot!(plain(&figures().render(Lang::En)));
    }

    #[test]
    fn the_table_in_spanish() {
        insta::assert_snapshot!(plain(&figures().render(Lang::Es)));
    }

    #[test]
    fn a_running_service_has_one_column() {
        insta::assert_snapshot!(plain(&Figures { before: None, ..figures() }.render(Lang::En)));
    }

    #[test]
    fn a_perfect_table_with_a_piece_missing_says_what_it_is_worth() {
        let broken = Figures { mutation: Some(Mutation::CheckThenWrite), ..figures() };
        insta::assert_snapshot!(plain(&broken.render(Lang::En)));
    }

    #[test]
    fn the_json_is_the_promised_one() {
        insta::assert_json_snapshot!(figures());
    }

    #[test]
    fn shares_read_as_percent() {
        assert_eq!([0.0, 0.15, 0.3, 0.125, 1.0].map(percent_of), ["0 %", "15 %", "30 %", "12.5 %", "100 %"]);
    }
}
