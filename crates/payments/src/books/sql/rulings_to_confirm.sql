-- Operations of an account that were ruled about while it was silent, and that it may be asked about again.
select operations.operation
from rulings join operations on operations.id = rulings.operation
where rulings.confirmation is null and rulings.ask_at <= ?2 and operations.account = ?1
order by rulings.ask_at
limit ?3
