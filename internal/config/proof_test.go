// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pot"
)

// writeKeys writes the keys of a profile, and returns their files.
func writeKeys(t *testing.T, nodes int) (files []string) {
	t.Helper()
	made, err := pot.Generate(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range made {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, k.Append(nil), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

var proofHost = fakeHost{links: map[string]Link{"eth0": {Index: 4, MTU: 1500}}}

// proving is a node that inserts a proof and a trace.
func proving(key, more string) string {
	return "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123, pot: {key-file: " + key + more + "}}]\n" +
		"encapsulations: [{name: a, interface: eth0, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 4}}, " +
		"{pot: {namespace: 123}}]}]\n"
}

func TestProofs(t *testing.T) {
	files := writeKeys(t, 3)
	c := mustParse(t, proving(files[0], ""))
	r, err := c.Resolve(proofHost)
	if err != nil {
		t.Fatal(err)
	}
	proof, option := r.Node.Namespaces[0].Proof, r.Node.Encapsulations[0].Options[1]
	if proof == nil || !proof.Key.Encapsulates() || proof.DropRejected || option.Proof == nil ||
		*option.Proof != (model.ProofOption{Namespace: 123}) {
		t.Errorf("%+v, %+v", proof, option)
	}
	text := string(c.Marshal())
	if want := "    pot:\n      key-file: \"" + files[0] + "\"\n      drop-rejected: false\n      clock-difference: 1s\n"; !strings.Contains(
		text,
		want,
	) {
		t.Errorf("no %q in\n%s", want, text)
	}
	asJSON, err := c.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{text, string(asJSON)} {
		if again := mustParse(t, form); !same(c, again) {
			t.Errorf("%s\nreads as another configuration", form)
		}
	}
	key, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(key)) {
		if _, value, _ := strings.Cut(strings.TrimSpace(line), " "); len(value) == 16 &&
			strings.Contains(text+string(asJSON)+fmt.Sprintf("%+v", r), value) {
			t.Errorf("%s is printed", line)
		}
	}
}

func TestFaultsOfProofs(t *testing.T) {
	const node = "interfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\n" +
		"encapsulations: [{name: a, interface: eth0, mode: inline, options: ["
	checkFaults(t, []faultCase{
		{"no key", "namespaces: [{id: 1, pot: {}}]", []string{`1:27: key "key-file" is missing in namespaces[0].pot; add it, as in "key-file: VALUE"`}},
		{"no proof", node + "{pot: {namespace: 123}}]}]", []string{
			`3:87: encapsulations[0].options[0].pot.namespace: namespace 123 has no pot; give namespaces an entry with this id and pot: {key-file: …}, of node 1`}},
		{"no namespace", node + "{pot: {namespace: 124}}]}]", []string{
			`3:87: encapsulations[0].options[0].pot.namespace: namespace 124 is not configured; give namespaces an entry with this id and pot: {key-file: …}, of node 1`}},
		{"twice", strings.Replace(proving("x", ""), "{pot: {namespace: 123}}", "{pot: {namespace: 123}}, {pot: {namespace: 123}}", 1), []string{
			`3:164: encapsulations[0].options[2].pot.namespace: 123 is also the namespace of options[1]; insert one proof for each namespace`}},
		{"several kinds", node + "{pot: {namespace: 123}, trace: {namespace: 123, type: 0x800000, size: 4}}]}]", []string{
			`3:100: encapsulations[0].options[0].trace: several kinds in one option; give each its own entry of the list`}},
	})
}

// Errors that depend on the key.
func TestFaultsOfKeys(t *testing.T) {
	files := writeKeys(t, 3)
	open := writeKeys(t, 2)[0]
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	nonsense := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(nonsense, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"a transit key inserts":       {proving(files[1], ""), "encapsulations[0].options[1].pot.namespace: the key of namespace 123 is of node 2 of 3 (transit); use the key of node 1 of 3 here, or remove the option"},
		"the first key drops":         {proving(files[0], ", drop-rejected: true"), "namespaces[0].pot.drop-rejected: the key is of node 1 of 3 (encapsulating), which does not verify; remove it, or use the last node's key"},
		"clocks that differ too much": {"namespaces: [{id: 1, pot: {key-file: " + files[2] + ", clock-difference: 5ms}}]", "namespaces[0].pot.clock-difference: clocks may differ by 5ms; use 10ms to 10m0s"},
		"a profile twice":             {"namespaces: [{id: 1, pot: {key-file: " + files[0] + "}}, {id: 2, pot: {key-file: " + files[1] + "}}]", "namespaces[1].pot.key-file: it is of the same profile as that of namespaces[0]; make other keys with: waymark pot generate --nodes N"},
		"a key that others read":      {"namespaces: [{id: 1, pot: {key-file: " + open + "}}]", "namespaces[0].pot.key-file: others can access the key " + open + " (mode 0644); run: chmod 600 " + open + ", and change the key if they may have read it"},
		"no key at all":               {"namespaces: [{id: 1, pot: {key-file: " + nonsense + "}}]", "namespaces[0].pot.key-file: the key " + nonsense + " is not usable: it does not begin with waymark-proof-of-transit-key 1; make keys with: waymark pot generate --nodes N"},
		"a file that is not there":    {"namespaces: [{id: 1, pot: {key-file: /nonexistent}}]", "namespaces[0].pot.key-file: read the key: open /nonexistent: no such file or directory; make keys with: waymark pot generate --nodes N"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseFor(proofHost, "F", []byte(test.text))
			if err == nil || !strings.HasSuffix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	// The file may be for another machine; but a key that is there must be one.
	if c, unread, err := Check("F", []byte("namespaces: [{id: 1, pot: {key-file: /nonexistent}}]"), true); c == nil || len(unread) != 1 ||
		err != nil {
		t.Errorf("without the file: %v, %v", unread, err)
	}
	var faults Faults
	for _, file := range []string{"/nonexistent", nonsense} {
		if _, unread, err := Check("F", []byte("namespaces: [{id: 1, pot: {key-file: "+file+"}}]"), false); !errors.As(err, &faults) ||
			len(faults) != 1 ||
			len(unread) != 0 {
			t.Errorf("%s, for this machine: %v, %v", file, unread, err)
		}
	}
	if _, unread, err := Check("F", []byte("namespaces: [{id: 1, pot: {key-file: "+nonsense+"}}]"), true); !errors.As(err, &faults) ||
		len(faults) != 1 ||
		len(unread) != 0 {
		t.Errorf("with a wrong one: %v, %v", unread, err)
	}
	many := "namespaces: ["
	for i := range model.MaxProofs + 1 {
		many += fmt.Sprintf("{id: %d, pot: {key-file: x}}, ", i)
	}
	if _, err := Parse("F", []byte(many+"]")); err == nil ||
		!strings.HasSuffix(err.Error(), "namespaces[16].pot: more than 16 namespaces have a proof of transit; remove it from some") {
		t.Errorf("too many: %v", err)
	}
}
