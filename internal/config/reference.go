// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/internal/sink/otlpsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Reference is the documentation of every key, in Markdown.
func Reference() []byte {
	const head = `# The configuration file

One YAML file describes one node. It is read strictly: unknown keys, keys that
appear twice, values of the wrong type and everything that cannot work are
reported at once, each with its line, its column and a cure
(` + "`waymark config check FILE`" + `). Anchors, aliases, tags and several documents in one
file are refused. ` + "`waymark config show FILE`" + ` prints a file with every default.

Numbers are decimal, or hexadecimal with 0x. Complete files are in
[examples](../../examples).
`
	return append([]byte(head), nodeFile.Reference(&Config{}, texts())...)
}

// texts say what each key of the file means. Each table stands after the struct that has its keys.
func texts() yamlfile.KeyTexts {
	return fileTexts.
		With("node", nodeTexts).
		With("interfaces[]", interfaceTexts).
		With("interfaces[].boundary", boundaryTexts).
		With("namespaces[]", namespaceTexts).
		With("namespaces[].pot", proofTexts).
		With("encapsulations[]", encapsulationTexts).
		With("encapsulations[].options[].pot", proofOptionTexts).
		With("encapsulations[].options[].e2e", edgeToEdgeOptionTexts).
		With("decapsulations[]", decapsulationTexts).
		With("export[]", sinkTexts).
		With("export[]", jsonl.KeyTexts).
		With("export[]", ipfixsink.KeyTexts).
		With("export[]", otlpsink.KeyTexts).
		With("measurement", measurementTexts).
		With("names[]", nameTexts).
		With("names-from", namesFromTexts).
		With("flows[]", flowTexts).
		With("stamp", stampTexts).
		With("responders[]", responderTexts).
		With("path-trace", pathTraceTexts).
		With("probes", probesTexts).
		With("history", historyTexts)
}
