select operation from operations where charge = ?1 and kind = 'refund' and number = ?2
