select id, found_at, reason, operation, heard, account, event, detail, proposal
from anomalies
order by id desc
limit ?1
