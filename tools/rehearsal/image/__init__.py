"""Build the Lambda image as a deploy does, inspect every layer, and run it as Lambda would."""
