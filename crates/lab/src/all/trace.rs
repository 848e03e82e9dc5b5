//! From each rule of the protocol to the tests that show it, and to the pieces without which they fail.

use serde::Serialize;

use crate::{
    Mutation, Said,
    accept::{self, Promise, Test},
    break_::{self, Broken},
};

/// One rule of the protocol in this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traced {
    /// Its number, such as `P8`.
    pub rule: String,
    /// Its name in the protocol.
    pub title: Said,
    /// The acceptance tests about it.
    pub tests: Vec<&'static str>,
    /// Whether all of them that were made held.
    pub held: bool,
    /// Pieces of it that were taken out.
    pub pieces: Vec<Mutation>,
    /// Whether each of them was missed by exactly the predicted tests.
    pub missed: bool,
}

/// The rules that tests or pieces are about, as the protocol names them.
const RULES: [(u8, &str, &str); 12] = [
    (4, "Scope", "Alcance"),
    (5, "Fingerprint", "Huella"),
    (6, "Mismatch", "Discrepancia"),
    (8, "Claim", "Reclamo"),
    (9, "Clocks", "Relojes"),
    (10, "Alive", "En curso"),
    (11, "Fence", "Cerco"),
    (16, "Recovery", "Recuperación"),
    (18, "Same answer", "La misma respuesta"),
    (25, "Once, with its effect", "Una vez, con su efecto"),
    (26, "Settles the record", "Cierra el registro"),
    (29, "Key once", "Una clave por operación"),
];

/// Every rule with what this run says of it.
pub(crate) fn trace(accept: &accept::Report, break_: &break_::Report) -> Vec<Traced> {
    RULES
        .iter()
        .map(|&(rule, english, spanish)| {
            let about: Vec<&Test> = accept.tests.iter().filter(|test| is_about(test, rule)).collect();
            let pieces: Vec<&Broken> =
                break_.mutations.iter().filter(|it| it.name.rules().contains(&rule)).collect();
            Traced {
                rule: format!("P{rule}"),
                title: (english, spanish).into(),
                held: about.iter().all(|test| test.result != accept::Outcome::Failed),
                tests: about.iter().map(|test| test.name).collect(),
                missed: pieces.iter().all(|broken| broken.as_predicted),
                pieces: pieces.iter().map(|broken| broken.name).collect(),
            }
        })
        .collect()
}

fn is_about(test: &Test, rule: u8) -> bool {
    Promise::named(test.name).is_some_and(|promise| promise.rules().contains(&rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_called_as_in_the_protocol() {
        let protocol = include_str!("../../../../docs/protocol.md");
        for (rule, title, _) in RULES {
            assert!(protocol.contains(&format!("**P{rule} {title}.**")), "P{rule} is not called {title:?}");
        }
    }

    #[test]
    fn every_test_and_every_piece_is_about_a_rule_that_is_told() {
        let told =
            |rules: &[u8]| !rules.is_empty() && rules.iter().all(|rule| RULES.iter().any(|it| it.0 == *rule));
        for promise in Promise::ALL {
            assert!(told(promise.rules()), "{}", promise.name());
        }
        for mutation in Mutation::ALL {
            assert!(told(mutation.rules()), "{mutation}");
        }
        for (rule, title, _) in RULES {
            let tested = Promise::ALL.iter().any(|promise| promise.rules().contains(&rule));
            let taken_out = Mutation::ALL.iter().any(|mutation| mutation.rules().contains(&rule));
            assert!(tested || taken_out, "nothing is about P{rule} {title}");
        }
    }
}
