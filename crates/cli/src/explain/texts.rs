//! What each problem code means to the person who met it.

use unavez_core::problem::Code;

/// Three answers to one refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    /// What the service saw.
    pub(super) happened: &'static str,
    /// Whether money may have moved, and what can be done without moving it twice.
    pub(super) safe: &'static str,
    /// The next step.
    pub(super) next: &'static str,
}

pub(super) const fn text(code: Code) -> Text {
    match code {
        Code::KeyMissing => Text {
            happened: "The request has no Idempotency-Key header, and the route requires one.",
            safe: "Nothing was run. The service never invents a key: it could not recognise your repeat by it.",
            next: "Make one random key per operation before the first attempt (a UUID will do), store it with the order, \
                   and send it on every attempt of that operation.",
        },
        Code::KeyInvalid => Text {
            happened: "The Idempotency-Key header is there but is not a key: it is empty, longer than 255 characters, holds \
                       characters outside printable ASCII (bare form: also spaces, commas, double quotes), has an \
                       unbalanced quote, came in two header lines, or has what looks like a card number in it.",
            safe: "Nothing was run, and no key was taken.",
            next: "Send one header line with 1 to 255 characters. A key with spaces or commas has to be quoted: \
                   Idempotency-Key: \"order 7, first charge\".",
        },
        Code::BodyAmbiguous => Text {
            happened: "The JSON body can be read in two ways: a member name stands twice in one object, or the text holds \
                       lone surrogates or is nested deeper than 64. Two parsers could charge two different amounts.",
            safe: "Nothing was run.",
            next: "Send every member once. A body built by joining strings is the usual cause; build it with a JSON \
                   library.",
        },
        Code::Validation => Text {
            happened: "A member of the body or a parameter breaks its rule. `member` names it, `detail` gives the limit and \
                       the value's shape.",
            safe: "Nothing was run and the key stays as it was. If the key already belongs to a charge, its repeat is \
                   answered from that charge instead of with this refusal.",
            next: "Mend the member. Amounts are whole minor units written as an integer (1234 for 12.34 EUR): no decimal \
                   point, no exponent, no quotes.",
        },
        Code::Unauthorized => Text {
            happened: "The request carries no API key, or one the service does not know.",
            safe: "This request ran nothing. It says nothing about earlier attempts of the same operation: one of them may \
                   have charged.",
            next: "Send Authorization: Bearer KEY, then repeat the operation with its same idempotency key. Operators: \
                   `unavez api-keys list` shows what is accepted; a changed key file is read on SIGHUP.",
        },
        Code::Forbidden => Text {
            happened: "The API key is known and lacks the role this route needs (charge, refund, read or operator).",
            safe: "This request ran nothing. Earlier attempts of the same operation may have.",
            next: "Use a key with the role, or have one made: `unavez api-keys add TENANT --role charge`. Then repeat with \
                   the same idempotency key.",
        },
        Code::ChargeDeclined => Text {
            happened: "The acquirer was asked for a charge, capture, void or refund and declined it. Or it did not, and an \
                   operator ruled that it came to nothing: then `decline_code` says settled_by_hand. `resource` names \
                   what records it.",
            safe: "Every repeat under this key gets this same answer and sends nothing. Where the acquirer declined, no money \
                   moved. Where an operator ruled, that is a person's word: money may have moved, if the acquirer could \
                   not be asked.",
            next: "Declined by the acquirer: this operation is over. If the customer tries again, with another means of \
                   payment or after topping up, that is a new operation under a new key; a refund that was declined has \
                   given its amount back to the charge. With settled_by_hand: no new key before the operators have \
                   compared it with the acquirer. Operators: `unavez trace KEY` says who ruled and whether the acquirer \
                   agrees, `unavez reconcile` compares with its list.",
        },
        Code::NotFound => Text {
            happened: "There is no such route, or the tenant has no such charge, refund or key. What belongs to another \
                       tenant is not found either.",
            safe: "Nothing was run by this request. For a POST that reached the service with a key, this answer is final \
                   and repeated.",
            next: "Check path, id and the tenant your API key belongs to. A key that is not found is not in use: it was never \
                   claimed, was released without effect, or its answer has expired.",
        },
        Code::MethodNotAllowed => Text {
            happened: "The route exists, but not for this method. The Allow header lists those it has.",
            safe: "Nothing was run.",
            next: "Use a listed method.",
        },
        Code::RequestIncomplete => Text {
            happened: "The request's body broke off before its end, or did not arrive within the time a body may take.",
            safe: "Nothing was run by this request, and it took no key. Earlier attempts of the same operation may \
                   have.",
            next: "Repeat with the same key. If it stays, look for a Content-Length that announces more than is sent, or for \
                   a proxy in between that gives up early.",
        },
        Code::InProgress => Text {
            happened: "Another attempt with the same key is running right now.",
            safe: "Repeating is safe: one of the two runs, the other is answered like this or with the result. A new key \
                   would be a second charge.",
            next: "Wait a second and repeat with the same key, or send Prefer: wait=10 to be answered when the running \
                   attempt ends.",
        },
        Code::OutcomePending => Text {
            happened: "The acquirer has the operation and has not decided it yet, or it is too early to take its \
                   \"not found\" for an answer: the request may still be on its way. Or, with --same-order refuse, the order has \
                   a charge under another key that is not decided: `resource` names it, and nothing was sent for \
                   this one.",
            safe: "Repeating with the same key is safe. A new key would be a second charge if the first is approved.",
            next: "Repeat after Retry-After, or ask GET /v1/idempotency-keys/KEY. It is settled by a webhook or by \
                   the service's own questions, without you. Operators: `unavez trace KEY` shows what was heard so \
                   far.",
        },
        Code::OutcomeUnknown => Text {
            happened: "An attempt ended and nobody can say how: it was cut off after the point where it may have \
                   taken effect, and the truth could not be found out yet.",
            safe: "Money may have moved. Repeating with the same key is safe, since the service asks before it does \
                   anything again. A new key may charge a second time. Telling the customer \"failed\" may be wrong.",
            next: "Same key, never a new one: repeat after Retry-After. Operators: `unavez trace KEY` says what is \
                   known and whether it is held for a person; `unavez keys list --state unknown` shows what is at \
                   risk, and `unavez keys settle KEY` ends what nothing else will.",
        },
        Code::InvalidState => Text {
            happened: "The charge is in a state that does not allow this step: it is not authorized (to capture or \
                   void), not captured (to refund), another capture or void of it is under way. For \
                   a charge: the key was cancelled before any request used it.",
            safe: "Nothing was run; the refusal is final and repeated under this key.",
            next: "Read the charge: `detail` names the state it needs and the one it has. If a step is still wanted, \
                   ask for it under a new key, and after a step that was under way has ended.",
        },
        Code::AmountExceeds => Text {
            happened: "More was to be captured than is authorized, or more refunded than was captured, counting \
                   refunds that are under way: each reserves its amount until it is decided, so that all refunds \
                   together are never more than was captured, also when they come at once.",
            safe: "Nothing was run; the refusal is final and repeated under this key. It says nothing about refunds \
                   under other keys: two equal ones that both fit both run.",
            next: "Read the charge for what is left, and ask for that under a new key. Where a refund under way is \
                   declined later, its amount is there again.",
        },
        Code::OrderAlreadyCharged => Text {
            happened: "The order has a charge under another key within --same-order-window, and the service runs \
                   with --same-order refuse. Charges that were declined, voided or refunded whole do not count; while \
                   one is not decided, the answer is outcome-pending instead.",
            safe: "No second charge was made, and the refusal is final under this key. `resource` names the charge \
                   that exists.",
            next: "This is usually a key made anew on a retry: make the key once per operation and store it. If the \
                   order really is to be charged twice, give the second charge an order id of its own. Operators: \
                   `unavez trace ORDER` shows both keys.",
        },
        Code::TooLarge => Text {
            happened: "The body is larger than the route takes; `detail` gives the limit (256 KiB on /v1).",
            safe: "Nothing was run by this request. Earlier attempts of the same operation may have.",
            next: "Send less; metadata is limited to 20 members of 500 characters.",
        },
        Code::UnsupportedMediaType => Text {
            happened: "The body's content type or content encoding is not one the route reads.",
            safe: "Nothing was run.",
            next: "Send Content-Type: application/json, uncompressed, in UTF-8.",
        },
        Code::KeyReused => Text {
            happened: "The key belongs to another request. `differs` lists what is not the same, by name: members of the body, \
                       or :method, :path, :query, :type, :body.",
            safe: "Nothing was run; the first request's result stands. Waiting changes nothing.",
            next: "If it is the same operation, send exactly what was sent first. If it is another one, it needs a key of its \
                   own. Keys made from an amount, a user or a minute melt two operations into one.",
        },
        Code::Internal => Text {
            happened: "Something failed inside the service. The log has it under the Request-Id of the answer.",
            safe: "Repeating with the same key is safe, whatever became of this attempt.",
            next: "Repeat with the same key. If it stays, give the operators the Request-Id.",
        },
        Code::StoreUnavailable => Text {
            happened: "The store did not answer before the operation began: the disk is full, slow or failing, or the service \
                       is starting or stopping.",
            safe: "Nothing was run.",
            next: "Repeat after Retry-After with the same key. Operators: /readyz and the log say what is wrong with the \
                   database file.",
        },
        Code::AcquirerUnavailable => Text {
            happened: "The acquirer could not be reached: no connection was made, so certainly nothing was sent to it. \
                   Or the charge of this step was made with another acquirer than the service has now.",
            safe: "Nothing was run, and the key is free again. What the operation had reserved is given back.",
            next: "Repeat after Retry-After with the same key and the same request.",
        },
        Code::Overloaded => Text {
            happened: "More requests were inside the service than --max-in-flight allows, or a tenant had more operations or \
                       waiters than its share.",
            safe: "Nothing was run by this request.",
            next: "Repeat after Retry-After with the same key, more slowly.",
        },
        Code::ResponseNotKept => Text {
            happened: "The operation is done and its answer had a body that is not stored (too large, streamed, or redacted), so \
                       it cannot be repeated word for word. The status is that of the first answer.",
            safe: "It took effect once and is not run again.",
            next: "Take the status as the outcome and read the resource that `resource` names.",
        },
    }
}
