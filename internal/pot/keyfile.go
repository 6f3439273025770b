// SPDX-License-Identifier: Apache-2.0

package pot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
)

// fileHead is the first line of a key file: what it is, and the version of its format.
const fileHead = "waymark-proof-of-transit-key 1"

// maxFile bounds what is read.
const maxFile = 1024

// entry is one line of a key file.
type entry struct {
	name   string
	number *uint64 // in hexadecimal
	count  *int    // in decimal
}

// entries are the lines of a key file, after its first one.
func (k *Key) entries() []entry {
	list := []entry{
		{name: "profile", number: &k.Profile}, {name: "node", count: &k.Node}, {name: "nodes", count: &k.Nodes},
		{name: "share", number: &k.share}, {name: "public", number: &k.public}, {name: "lagrange", number: &k.lagrange},
	}
	if k.Verifies() {
		list = append(list, entry{name: "secret", number: &k.secret})
	}
	return list
}

// Append appends the key as the content of a file. It is secret.
func (k *Key) Append(dst []byte) []byte {
	dst = append(dst, fileHead+"\n"...)
	for _, e := range k.entries() {
		if e.count != nil {
			dst = fmt.Appendf(dst, "%s %d\n", e.name, *e.count)
			continue
		}
		dst = fmt.Appendf(dst, "%s %016x\n", e.name, *e.number)
	}
	return dst
}

// Parse reads the content of a key file. Errors quote nothing of it.
func Parse(content []byte) (*Key, error) {
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if lines[0] != fileHead {
		return nil, errors.New("it does not begin with " + fileHead)
	}
	lines = lines[1:]
	k := &Key{}
	// The last entry depends on the first ones.
	for i := 0; i < len(k.entries()); i++ {
		e := k.entries()[i]
		if i >= len(lines) {
			return nil, fmt.Errorf("it has no %s", e.name)
		}
		name, value, _ := strings.Cut(lines[i], " ")
		if name != e.name || !e.read(value) {
			return nil, fmt.Errorf("line %d is not %s and its value", i+2, e.name)
		}
	}
	if len(lines) != len(k.entries()) {
		return nil, errors.New("it has lines too many")
	}
	return k, k.check()
}

// read sets the entry; it returns false when the text is not a value for it.
func (e entry) read(text string) bool {
	if e.count != nil {
		n, err := strconv.ParseUint(text, 10, 8)
		*e.count = int(n)
		return err == nil
	}
	n, err := strconv.ParseUint(text, 16, 64)
	*e.number = n
	return err == nil && len(text) == 16 && Valid(n)
}

func (k *Key) check() error {
	switch {
	case k.Nodes < MinNodes || k.Nodes > MaxNodes:
		return fmt.Errorf("it is of a profile of %d nodes, not of %d to %d", k.Nodes, MinNodes, MaxNodes)
	case k.Node < 1 || k.Node > k.Nodes:
		return fmt.Errorf("it is of node %d of %d", k.Node, k.Nodes)
	case k.lagrange == 0:
		return errors.New("its lagrange is 0, which no profile has")
	}
	return nil
}

// Read reads a key from a file that only this user, or root, can read or replace.
func Read(name string) (*Key, error) {
	const cure = "make keys with: waymark pot generate --nodes N"
	content, err := secretfile.Read(name, maxFile, cure)
	if err != nil {
		return nil, err
	}
	k, err := Parse(content)
	if err != nil {
		return nil, problem.Wrap(fmt.Errorf("the key %s is not usable: %w", name, err), cure)
	}
	return k, nil
}
