"""The APIs: each module parses the requests of one API and renders its responses and errors."""
