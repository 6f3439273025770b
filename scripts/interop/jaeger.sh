#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A real Jaeger, built from its Go module, takes the traces of a lab by OTLP and is asked for them:
# hops, times and durations must be those of the agent's records.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
. scripts/interop/shared.sh

version=v1.76.0 # of Jaeger
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-jaeger-XXXXXX")
lab=wmj$$
jaeger=build/interop/tools/jaeger
pid=''

clean() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	wait || true
	bin/waymark-lab down --name "$lab" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap clean EXIT

fail() {
	echo "jaeger.sh: $*" >&2
	tail -3 "$work/jaeger.log" >&2 || true
	exit 1
}

need ip=iproute2
programs
if [ ! -x "$jaeger" ]; then
	module_copy github.com/jaegertracing/jaeger "$version" build/interop/jaeger || fail "Jaeger's sources cannot be fetched"
	(cd build/interop/jaeger && GOWORK=off GOFLAGS='' go build -trimpath -o "../../../$jaeger" ./cmd/all-in-one) || fail "Jaeger cannot be built"
fi

bin/waymark-lab up --name "$lab" line >/dev/null
inside() { bin/waymark-lab exec --name "$lab" aramis -- "$@"; }
# All that it listens to is in the node's namespace, at its loopback address.
inside "$jaeger" --collector.otlp.http.host-port='[::1]:4318' --collector.otlp.grpc.host-port='[::1]:4317' \
	--collector.http-server.host-port='[::1]:14268' --collector.grpc-server.host-port='[::1]:14250' \
	--query.http-server.host-port='[::1]:16686' --query.grpc-server.host-port='[::1]:16685' \
	--admin.http.host-port='[::1]:14269' >"$work/jaeger.log" 2>&1 &
pid=$!
wait_for 60 inside bash -c 'exec 3<>/dev/tcp/::1/16686 4<>/dev/tcp/::1/4318' || fail "Jaeger does not answer"

cat >>"/run/waymark/lab/$lab/aramis.yaml" <<END
export:
  - {kind: otlp, endpoint: "http://[::1]:4318", one-in: 1, compression: gzip}
  - {kind: jsonl, path: $work/records.jsonl}
END
inside bin/waymark agent reload
bin/waymark-lab traffic --name "$lab" ping udp >/dev/null
written() { [ "$(grep -c '"kind":"trace"' "$work/records.jsonl")" -ge 5 ]; }
wait_for 30 written || fail "the agent has no traces"

go test -c -tags interop -o "$work/otlpsink.test" ./internal/sink/otlpsink
WAYMARK_JAEGER='http://[::1]:16686' WAYMARK_RECORDS=$work/records.jsonl inside "$work/otlpsink.test" -test.v -test.run TestJaeger
