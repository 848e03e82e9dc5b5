select id, found_at, reason, operation, heard, account, event, detail, proposal
from anomalies
where id > ?1 and (?2 is null or operation = ?2)
order by id
limit ?3
