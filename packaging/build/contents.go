// SPDX-License-Identifier: Apache-2.0

package build

import (
	"io/fs"
	"path"
)

// program is one of our programs, and what is known of its build.
type program struct {
	name   string
	source string // the package's path below the root of the repository
	cgo    bool   // it links C, so another architecture needs that architecture's compiler
	// Architectures where it links C's libraries when it starts. glibc's static library for arm64 has
	// no room for the addresses of a program as large as DuckDB (its objects are compiled for a
	// table of 32 KB).
	dynamic []string
	// The file that lists npm's packages in the program, below the root of the repository.
	libraries string
}

// file is one file of a package, or with link a symbolic link, or with source "" a directory.
type file struct {
	source      string // below the root of the repository, or below the directory of what is generated
	destination string
	mode        fs.FileMode
	config      bool // the operator's: an upgrade keeps what was changed
	generated   bool
	only        string // "deb", "rpm": only in packages of this kind
}

// unit is a unit of systemd that the scripts of a package handle.
type unit struct {
	name    string
	restart bool // restarted by an upgrade where it runs
}

// parcel is one package: a program and what belongs to it.
type parcel struct {
	program     program
	summary     string
	description string
	section     string
	recommends  []string // by Debian's names
	suggests    []string
	units       []unit
	group       string // of those who may read; its entry for systemd-sysusers is among the files. "": none
	files       []file
	// Directories that purging removes: what the operator and the service wrote.
	state     []string
	container *container // nil is no image
	// Shell commands after the files have been installed, and before they are removed for good, without the service.
	install, remove string
}

// parcels lists the packages.
func parcels() []parcel { return []parcel{nodePackage(), collectorPackage(), labPackage()} }

// nodePackage has the agent of a node, and the commands that ask it.
func nodePackage() parcel {
	return parcel{
		program: program{name: "waymark", source: "./cmd/waymark"},
		summary: "in-situ OAM, Direct Export and alternate marking for IPv6 routers",
		description: "Waymark lets routers and hosts write into packets how they pass\n" +
			"(IOAM, RFC 9197), export it (RFC 9326), and measure loss and delay of SRv6\n" +
			"flows (RFC 9341), with eBPF on stock Linux kernels.\n" +
			"\n" +
			"This package has the agent of a node, and the commands that ask and change it.",
		section:    "net",
		recommends: []string{"ethtool", "iproute2"},
		suggests:   []string{"waymark-collector", "waymark-lab"},
		units:      []unit{{name: "run-waymark-bpf.mount"}, {name: "waymark.service", restart: true}},
		group:      "waymark-read",
		files: []file{
			{source: "packaging/systemd/waymark.service", destination: "/usr/lib/systemd/system/waymark.service"},
			{source: "packaging/systemd/run-waymark-bpf.mount", destination: "/usr/lib/systemd/system/run-waymark-bpf.mount"},
			{source: "packaging/sysusers/waymark.conf", destination: "/usr/lib/sysusers.d/waymark.conf"},
			{source: "packaging/tmpfiles/waymark.conf", destination: "/usr/lib/tmpfiles.d/waymark.conf"},
			{destination: "/etc/waymark", mode: 0o750},
			// Before the service begins, "config check" wants it for sinks.
			{destination: "/var/log/waymark", mode: 0o750},
			{source: "packaging/config/node.yaml", destination: "/etc/waymark/node.yaml", mode: 0o640, config: true},
			{source: "packaging/logrotate/waymark", destination: "/etc/logrotate.d/waymark", config: true},
			{source: "docs/reference/configuration.md", destination: "/usr/share/doc/waymark/configuration.md"},
			{source: "examples/*.yaml", destination: "/usr/share/doc/waymark/examples/"},
			{source: "packaging/wireshark/ioam.lua", destination: "/usr/share/waymark/wireshark/ioam.lua"},
		},
		state: []string{"/etc/waymark", "/var/log/waymark"},
		// Root, because the kernel asks for capabilities, which --cap-drop limits.
		container: &container{
			user: "0:0", command: []string{"agent", "run", "--config", "/etc/waymark/node.yaml"},
			directories: []string{"/etc/waymark", "/run/waymark", "/var/log/waymark"},
		},
		remove: "	# Takes the programs off every interface: nothing could do so once the program is gone.\n" +
			"	if [ -d /run/waymark ]; then waymark agent stop --remove || true; fi\n" +
			"	if [ -d /run/systemd/system ]; then systemctl stop run-waymark-bpf.mount || true; fi\n" +
			"	rmdir /run/waymark/bpf /run/waymark 2>/dev/null || true\n",
	}
}

// collectorPackage has the collector.
func collectorPackage() parcel {
	return parcel{
		program: program{name: "waymark-collector", source: "./collector/cmd/waymark-collector", cgo: true, dynamic: []string{"arm64"},
			libraries: "collector/console/third-party.json"},
		summary: "collector of IPFIX from Waymark's nodes and other exporters",
		description: "waymark-collector receives what Waymark's nodes export over IPFIX, joins\n" +
			"postcards into paths of packets, keeps them, answers questions about the\n" +
			"past, and computes the loss and delay of flows.\n" +
			"\n" +
			"The package also has alert rules for Prometheus and dashboards for Grafana.",
		section:  "net",
		suggests: []string{"prometheus", "waymark"},
		units:    []unit{{name: "waymark-collector.service", restart: true}},
		files: []file{
			{source: "packaging/systemd/waymark-collector.service", destination: "/usr/lib/systemd/system/waymark-collector.service"},
			{source: "packaging/sysctl/waymark-collector.conf", destination: "/usr/lib/sysctl.d/10-waymark-collector.conf"},
			{destination: "/etc/waymark-collector", mode: 0o755},
			{source: "packaging/config/collector.yaml", destination: "/etc/waymark-collector/collector.yaml", config: true},
			{source: "docs/reference/collector-configuration.md", destination: "/usr/share/doc/waymark-collector/collector-configuration.md"},
			{source: "docs/reference/collector-api.json", destination: "/usr/share/doc/waymark-collector/collector-api.json"},
			{source: "packaging/prometheus/waymark.rules.yaml", destination: "/usr/share/waymark-collector/prometheus/waymark.rules.yaml"},
			{source: "packaging/grafana/*.json", destination: "/usr/share/waymark-collector/grafana/"},
		},
		state: []string{"/etc/waymark-collector", "/var/lib/waymark", "/var/lib/private/waymark"},
		container: &container{
			user: "65532:65532", command: []string{"run", "--config", "/etc/waymark-collector/collector.yaml"},
			directories: []string{"/etc/waymark-collector", "/var/lib/waymark"},
		},
		// By all files, as when the machine starts: those of the operator count. What is larger now stays so.
		install: "	if [ -d /run/systemd/system ] && [ -x /usr/lib/systemd/systemd-sysctl ] &&\n" +
			"		[ \"$(cat /proc/sys/net/core/rmem_max 2>/dev/null || echo 0)\" -lt 33554432 ]; then\n" +
			"		/usr/lib/systemd/systemd-sysctl --prefix=net.core.rmem_max || true\n" +
			"	fi\n",
	}
}

// labPackage has the programs for laboratories.
func labPackage() parcel {
	return parcel{
		program: program{name: "waymark-lab", source: "./cmd/waymark-lab"},
		summary: "topologies of network namespaces for Waymark",
		description: "waymark-lab builds topologies of Linux network namespaces from a file, with\n" +
			"loss, delay and reordering that are counted exactly, starts Waymark's agents\n" +
			"in them, and has a demonstration.",
		section:    "net",
		recommends: []string{"ethtool", "iproute2", "iputils-ping", "waymark"},
	}
}

// shared are the files that every package has: documents, manual, completions.
func (p parcel) shared() []file {
	doc, name := path.Join("/usr/share/doc", p.program.name), p.program.name
	return []file{
		{source: name + ".bash", destination: path.Join("/usr/share/bash-completion/completions", name), generated: true},
		{source: name + ".zsh", destination: path.Join("/usr/share/zsh/vendor-completions", "_"+name), generated: true, only: "deb"},
		{source: name + ".zsh", destination: path.Join("/usr/share/zsh/site-functions", "_"+name), generated: true, only: "rpm"},
		{source: name + ".fish", destination: path.Join("/usr/share/fish/vendor_completions.d", name+".fish"), generated: true},
		{source: "copyright", destination: path.Join(doc, "copyright"), generated: true},
		{source: "changelog.gz", destination: path.Join(doc, "changelog.gz"), generated: true},
		{source: name + ".changelog.Debian.gz", destination: path.Join(doc, "changelog.Debian.gz"), generated: true, only: "deb"},
		{source: name + ".lintian", destination: path.Join("/usr/share/lintian/overrides", name), generated: true, only: "deb"},
		{source: name + ".licenses.gz", destination: path.Join(doc, "third-party-licenses.gz"), generated: true},
		{source: name + ".spdx.json", destination: path.Join(doc, name+".spdx.json"), generated: true},
	}
}
