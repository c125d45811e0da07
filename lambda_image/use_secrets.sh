# Sourced by each command of the Dockerfile that downloads. A secret reaches that command alone, and no layer,
# history or cache; without secrets the build is the same. docs/operations.md says where they come from.
# shellcheck shell=sh

# use VARIABLE SECRET: sets a variable to a secret, if the build has it.
use() {
  if [ -s "/run/secrets/$2" ]; then
    export "$1=$(cat "/run/secrets/$2")"
  fi
}

use HF_TOKEN hub_token
use PIP_INDEX_URL index_url
use PIP_EXTRA_INDEX_URL extra_index_url
if [ -s /run/secrets/certificates ]; then
  export PIP_CERT=/run/secrets/certificates SSL_CERT_FILE=/run/secrets/certificates
fi
