#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: interop.sh [STEP...], or interop.sh list
#
# Runs what needs more than `make test` should: fresh systems, emulated machines, and programs of
# others that are large. Without arguments, all steps run, for hours. A step prints what it could not
# do, and why; the end repeats it. Needs Debian, root, and the network.
#
#   lintian       the packages, as Debian's lintian sees them
#   reproducible  a second build of the packages, from a clone and with an empty cache of Go's, gives the same bytes
#   sbom          the lists of what programs are made of are valid SPDX 2.3, as its own Python tools see them, and
#                 name the DuckDB that the collector has
#   debian12      a fresh Debian 12: install, serve, reload, crash, upgrade, remove, purge
#   debian13      the same with Debian 13
#   ansible       the role of packaging/ansible on a fresh Debian 12, over ssh
#   rpm           rpm reads the packages, and installs, upgrades and removes them, with their scripts, under systemd;
#                 what the one for arm64 that is not static asks for is what readelf says
#   container     runc and podman run the images, with the capabilities that they are documented to need;
#                 podman-compose starts the file for Compose, and Compose's own library reads it
#   kubernetes    the manifest and the Helm chart, compared with the schemas of Kubernetes; builds helm
#   dashboards    a Prometheus that scrapes a lab's agents and collectors has values for each query of the dashboards
#   infinity      the backend of Grafana's Infinity data source asks a collector what docs/how-to/grafana.md says
#   jaeger        a Jaeger, built from its Go module, has the paths that an agent sends by OTLP
#   frr           FRR routes a network by IS-IS, and Waymark measures its SRv6 tunnel (examples/frr-srv6)
#   answers       two hosts, three routers, a slow queue and a losing link: waymark top, events and a
#                 Prometheus name both at their router
#   armcollector  the collector's image for arm64, in QEMU's user emulation, keeps what an agent exports
#   release       the next release, made in a clone as CONTRIBUTING.md says
#   kernels       Debian's kernels 6.1 and 6.12 for amd64 in emulated machines (scripts/kernels.sh); hours
#   arm64         the same for arm64; hours
#   nics          native XDP on virtio-net, tc on it with an MTU of 9000 and on vmxnet3, on 6.12 for amd64 and arm64 (scripts/nics.sh)
#
# Not among them: Grafana itself, which Debian does not have (dashboards asks Prometheus what Grafana
# would ask, and infinity the collector); Kafka, because nothing of Waymark speaks its protocol; a
# cluster of Kubernetes.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
. scripts/interop/shared.sh

all=(lintian reproducible sbom debian12 debian13 ansible rpm container kubernetes dashboards infinity answers jaeger frr armcollector release kernels arm64 nics)
if [ "$*" = list ]; then
	printf '%s\n' "${all[@]}"
	exit
fi
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "interop: needs Debian, and root: it installs packages and starts containers" >&2
	exit 1
fi

INTEROP_SKIPPED=$(mktemp)
export INTEROP_SKIPPED INTEROP_STEP
trap 'rm -f "$INTEROP_SKIPPED"' EXIT

step_lintian() {
	local at
	need lintian=lintian && at=$(packages) || return 1
	lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$at"/*_amd64.deb "$at"/*_arm64.deb
}

step_reproducible() {
	local at clone
	at=$(packages) || return 1
	if [ -n "$(git -c safe.directory='*' status --porcelain)" ]; then
		skip "the tree has changes that no clone has"
		return 0
	fi
	clone=$(mktemp -d)
	git -c safe.directory='*' clone -q . "$clone/waymark" && git -C "$clone/waymark" fetch -q --tags &&
		GOCACHE=$clone/cache make -C "$clone/waymark" package && diff "$at/SHA256SUMS" "$clone/waymark/build/packages/SHA256SUMS"
	local status=$?
	rm -rf "$clone"
	return $status
}

step_sbom() {
	local at file tools=$PWD/build/interop/spdx status=0
	need pip3=python3-pip && at=$(packages) || return 1
	[ -x "$tools/bin/pyspdxtools" ] || pip3 install --quiet --target "$tools" spdx-tools==0.8.5 || return 1
	for file in "$at"/*.spdx.json; do
		PYTHONPATH=$tools "$tools/bin/pyspdxtools" --infile "$file" >"$tools/messages" 2>&1 || status=1
		# It says what is wrong, and exits with 1.
		sed "s|^|$(basename "$file"): |" "$tools/messages"
	done
	local version
	for file in "$at"/waymark-collector_*_a*64.spdx.json; do
		version=$(grep -A 3 '"name": "duckdb"' "$file" | sed -n 's/.*"versionInfo": "\(.*\)".*/\1/p')
		file=${file%.spdx.json}
		tar -xzO -f "$at"/waymark-collector-*-linux-"${file##*_}".tar.gz --wildcards '*/bin/waymark-collector' | has -aF "v${version:-of no DuckDB}" ||
			{ echo "waymark-collector for ${file##*_} has another DuckDB than '$version'" && status=1; }
	done
	return $status
}

step_debian12() { scripts/interop/debian.sh bookworm; }
step_debian13() { scripts/interop/debian.sh trixie; }

step_ansible() { scripts/interop/ansible.sh; }

step_rpm() { scripts/interop/rpm.sh; }

step_container() {
	go test -tags interop -count=1 -v ./packaging/container && scripts/interop/container.sh
}

# helm is built from source, outside this project's modules. The schemas are of the release whose types the test has.
step_kubernetes() {
	local tools=$PWD/build/interop/tools sources
	sources=$(module_at k8s.io/kubernetes "$(sed -n 's|^\tk8s.io/api v0|v1|p' packaging/go.mod)") || return 1
	command -v helm >/dev/null || [ -x "$tools/helm" ] || GOFLAGS='' GOWORK=off GOBIN=$tools go install helm.sh/helm/v3/cmd/helm@v3.18.6 ||
		skip "the chart is not rendered, because helm could not be built"
	WAYMARK_KUBERNETES=$sources PATH=$PATH:$tools go test -tags interop -count=1 -v ./packaging/kubernetes
}

step_dashboards() { scripts/interop/dashboards.sh; }

step_infinity() { scripts/interop/infinity.sh; }
step_jaeger() { scripts/interop/jaeger.sh; }
step_frr() { scripts/interop/frr.sh; }
step_armcollector() { scripts/interop/armcollector.sh; }
step_release() { scripts/interop/release.sh; }

step_answers() {
	need prometheus=prometheus && programs || return 1
	WAYMARK_PROGRAM=$PWD/bin/waymark go test -count=1 -v -run TestTop ./test/e2e/history
}

step_kernels() { scripts/kernels.sh 6.1 6.12 | left_out; }
step_arm64() { scripts/kernels.sh 6.1-arm64 6.12-arm64 | left_out; } # pipefail is on
step_nics() { scripts/nics.sh 6.12 6.12-arm64; }

passed=() failed=()
for step in "${steps[@]}"; do
	if ! declare -F "step_$step" >/dev/null; then
		echo "interop: there is no step '$step'; these are: ${all[*]}" >&2
		exit 2
	fi
done
for step in "${steps[@]}"; do
	INTEROP_STEP=$step
	echo "interop: $step"
	if "step_$step"; then
		echo "interop: $step ok"
		passed+=("$step")
	else
		echo "interop: $step FAILED"
		failed+=("$step")
	fi
done
echo "interop: passed: ${passed[*]:-none}; failed: ${failed[*]:-none}"
sed 's/^/interop: skipped by /' "$INTEROP_SKIPPED"
[ ${#failed[@]} -eq 0 ]
