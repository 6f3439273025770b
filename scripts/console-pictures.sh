#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: console-pictures.sh FOLDER [SECONDS]
#
# Raises the network of `waymark lab demo --console`, waits until its paths have moved
# a few times (SECONDS: 240), and writes pictures of the console's screens to FOLDER, as
# WebP. Needs root, the built programs, and what setup.sh test installs.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
mkdir -p "$folder"
logs=$(mktemp -d)
log=$logs/demo

bin/waymark lab demo --console --port 0 --name waymark-pictures >"$log" 2>&1 &
demo=$!
finish() {
	kill -INT "$demo" 2>/dev/null || true
	wait "$demo" || cat "$log" >&2
	rm -rf "$logs"
}
trap finish EXIT

until grep -q 'Ctrl-C removes' "$log"; do
	kill -0 "$demo"
	sleep 1
done
address=$(grep -o 'http://\[::1\]:[0-9]*' "$log")
echo "pictures: traffic for ${2:-240} s" >&2
sleep "${2:-240}"

visit() { # NAME PATH HEIGHT [MORE]
	printf '{"path": "%s", "picture": "%s/%s.webp", "width": 1320, "height": %s%s}' "$2" "$folder" "$1" "$3" "${4:-}"
}
node collector/internal/browsertest/browser.mjs >"$logs/report" <<END
{"address": "$address", "visits": [
	$(visit paths '/?since=5m&destination=2001:db8:2::2' 640),
	$(visit changes '/changes?since=15m' 560),
	$(visit segments '/segments?since=15m' 400),
	$(visit comparison '/?since=1m&destination=2001:db8:2::b&compare=1m' 640),
	$(visit grid '/grid?since=15m' 560),
	$(visit waterfall '/packets?since=5m&min_delay=2ms&limit=1' 640),
	$(visit events '/events?since=15m' 420),
	$(visit loss '/loss?since=15m' 520),
	$(visit packets '/packets?since=5m&state=lost' 620),
	$(visit live '/live?rate=1000' 640 ', "await": "packets in the last minute;"'),
	$(visit health '/health' 540)
]}
END
node -e '
	const wrong = JSON.parse(require("fs").readFileSync(process.argv[1])).flatMap((seen) => seen.wrong.map((text) => `${seen.path}: ${text}`))
	if (wrong.length > 0) { console.error(wrong.join("\n")); process.exit(1) }' "$logs/report"
ls -l "$folder" >&2
