"""The embedder as a long-lived HTTP server: `embedding-kit embedder.server`.

It answers every path of `Router` with the bytes that Lambda answers. Requests that come at the
same time share the model: their runs wait in one queue, below the engine, and those of one padded
length are run together. Lambda never imports this package.
"""
