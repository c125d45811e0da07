"""The Lambda function: its events, its snapshots, its handler."""
