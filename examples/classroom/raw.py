"""A charging server without memory: every POST charges. Python's standard library only.

Run it:     python3 raw.py 9201
Grade it:   unavez lab accept --target http://127.0.0.1:9201
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ledger = []
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            charge = {"id": f"ch_{len(ledger) + 1}", **order}
            ledger.append(charge)
        self.answer(201, charge)

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, {"acquirer": "sandbox"})
        elif self.path == "/v1/ledger/summary":
            total = sum(charge["amount"] for charge in ledger)
            sums = {"currency": "USD", "charges": len(ledger), "captured": total}
            self.answer(200, {"currencies": [sums]})
        else:
            self.answer(404, {"code": "not-found"})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9201), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
