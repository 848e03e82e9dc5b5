-- After a restore, refunds are counted from beyond all that the database can have forgotten: their ids were told.
select max(coalesce(max(number), 0), iif(?2 = 'refund', 1000 * (select count(*) from restores), 0)) + 1
from operations
where charge = ?1 and kind = ?2
