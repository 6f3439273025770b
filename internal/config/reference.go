// SPDX-License-Identifier: Apache-2.0

package config

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
	return append([]byte(head), nodeFile.Reference(&Config{})...)
}
