"""`embed load`: requests at a fixed rate, and the latencies, cold starts and errors that they meet.

Each request has a time at which it is due. It is sent then, whether or not the requests before it
were answered, and its latency counts from then. So a stall of the endpoint appears in the latencies
of all requests that were due during it, instead of in one (no coordinated omission).
"""
