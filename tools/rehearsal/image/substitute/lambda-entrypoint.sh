#!/bin/sh
# As in Lambda's images: the emulator in front where there is no runtime API to speak to.
if [ -z "$AWS_LAMBDA_RUNTIME_API" ]; then
  exec /usr/local/bin/aws-lambda-rie /var/lang/bin/python -m awslambdaric "$@"
fi
exec /var/lang/bin/python -m awslambdaric "$@"
