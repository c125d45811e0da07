#!/bin/bash
# The function's handler: Lambda Web Adapter starts it, and turns invocations into requests to it.
export PYTHONPATH="$LAMBDA_TASK_ROOT:$LAMBDA_RUNTIME_DIR"
exec python -m uvicorn assistant.main:app --port 8080 --no-access-log
