select operation, count(*) from executions group by operation
