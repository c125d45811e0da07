"""`embed load`: signed open-loop traffic to an endpoint, and what it met there.

Each request has a time at which it is due. It is sent then, whether or not the requests before it
were answered, and its latency counts from then. So a stall of the endpoint appears in the latencies
of all requests that were due during it, instead of in one (no coordinated omission).

It is a package above the client and above `embedding_costs`: the budget and the forecast come from
the cost command's formulas, which the client does not import. `embedding_client` starts it as a
program of its own.
"""
