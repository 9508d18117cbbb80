#!/usr/bin/env bash
# Installs the MCP clients that the drill in test_clients.py runs, and the generator of test_generated_client.py.
#
#   tests/clients/install.sh            into .clients beside this checkout's tests
#   KIOSK_TEST_CLIENTS=DIR              somewhere else; the drill reads the same variable
#
# Needs Python 3.10 or newer, Node 20 or newer, and a package registry.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rooms=${KIOSK_TEST_CLIENTS:-.clients}
python=${PYTHON:-python3}
mkdir -p "$rooms/node"

room() {
    local name=$1
    shift
    [[ -x $rooms/$name/bin/python ]] || "$python" -m venv "$rooms/$name"
    "$rooms/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

room python2 'mcp>=2.3,<3'
room python1 'mcp>=1.30,<2'
room fastmcp 'fastmcp>=4.2,<5'
room openapi --require-hashes --only-binary :all: -r cluster/locks/clients.lock
npm --prefix "$rooms/node" install --silent --no-audit --no-fund --no-save \
    '@modelcontextprotocol/sdk@^1.32' '@modelcontextprotocol/client@^2.4' \
    '@modelcontextprotocol/inspector@^2.12' 'mcp-remote@^0.15.1' \
    '@modelcontextprotocol/conformance@0.2.0-alpha.12' 'node@^22'
echo "clients are in $rooms"
