"""The same server with a memory: a key is claimed before its charge, and its answer is repeated.

Run it:     python3 idempotent.py 9202
Grade it:   unavez lab accept --target http://127.0.0.1:9202

What is still missing, and why this is a lesson and no service: the memory dies with the process.
"""

import json
import sqlite3
import sys

from raw import Handler, Server, ledger, lock

# One claim per key: the unique index decides a race, no matter who looked first.
records = sqlite3.connect(":memory:", check_same_thread=False)
records.execute("create table records (key text primary key, request blob, status int, answer text)")


class Idempotent(Handler):
    def do_POST(self):
        key = self.headers.get("Idempotency-Key")
        request = self.rfile.read(int(self.headers["Content-Length"]))
        if not key:
            return self.answer(400, {"code": "idempotency-key-missing", "retryable": False})
        if self.claim(key, request):
            order = json.loads(request)
            with lock:
                charge = {"id": f"ch_{len(ledger) + 1}", **order}
                ledger.append(charge)
                # The answer is kept with the charge, under one lock: there is never one without the other.
                records.execute("update records set status = 201, answer = ? where key = ?", (json.dumps(charge), key))
            return self.answer(201, charge)
        with lock:
            first, status, answer = records.execute(
                "select request, status, answer from records where key = ?", (key,)
            ).fetchone()
        if first != request:
            return self.answer(422, {"code": "idempotency-key-reused", "retryable": False})
        if status is None:
            return self.answer(409, {"code": "operation-in-progress", "retryable": True})
        return self.answer(status, json.loads(answer))

    def claim(self, key, request):
        with lock:
            sql = "insert into records (key, request) values (?, ?) on conflict do nothing"
            return records.execute(sql, (key, request)).rowcount == 1


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9202), Idempotent)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
