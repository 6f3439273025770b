// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/shellword"
	"github.com/waymark-net/waymark/ioam"
)

// InterfaceCommand is "interface set|show …", in the manner of iproute2, which
// has no such command.
type InterfaceCommand struct {
	Verb     Verb
	Name     string           // Show: "" is all
	Role     *model.Role      // Set; nil leaves it
	Boundary *config.Boundary // Set; nil leaves it
}

// ParseInterface reads what follows "interface".
func ParseInterface(args []string) (InterfaceCommand, error) {
	var c InterfaceCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Set, Show); err != nil {
		return c, err
	}
	if w.more() && w.peek() == "dev" {
		w.next++
	}
	if w.more() {
		c.Name, _ = w.nextWord("")
	}
	if c.Verb == Show {
		return c, w.end()
	}
	if c.Name == "" {
		return c, errors.New("the interface is missing: interface set IF role ROLES, or boundary POLICY [ns ID POLICY]")
	}
	for w.more() {
		switch word, _ := w.nextWord(""); {
		case word == "role" && c.Role == nil:
			c.Role, err = w.roles()
		case word == "boundary" && c.Boundary == nil:
			c.Boundary, err = w.boundary()
		case word == "role" || word == "boundary":
			err = fmt.Errorf("%s: given twice", word)
		default:
			err = fmt.Errorf(
				"%q: want role ROLES or boundary POLICY [ns ID POLICY]...; the rest of an interface is set in the configuration file",
				word,
			)
		}
		if err != nil {
			return c, err
		}
	}
	if c.Role == nil && c.Boundary == nil {
		return c, errors.New("nothing to set: give role ROLES or boundary POLICY [ns ID POLICY]")
	}
	return c, nil
}

// roles reads none, or a list of ingress and egress with commas.
func (w *words) roles() (*model.Role, error) {
	word, err := w.nextWord("role")
	if err != nil {
		return nil, err
	}
	var roles model.Role
	if roles.UnmarshalText([]byte(word)) != nil {
		return nil, fmt.Errorf("role %q: want none, ingress, egress or ingress,egress", word)
	}
	return &roles, nil
}

// boundary reads the default policy, and those of namespaces.
func (w *words) boundary() (*config.Boundary, error) {
	policy, err := w.policy("boundary")
	if err != nil {
		return nil, err
	}
	b := &config.Boundary{Default: policy}
	for w.more() && w.peek() == "ns" {
		w.next++
		id, err := w.namespacePolicy()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(b.Namespaces, func(p model.NamespacePolicy) bool { return p.Namespace == id.Namespace }) {
			return nil, fmt.Errorf("ns %d: given twice", id.Namespace)
		}
		b.Namespaces = append(b.Namespaces, id)
	}
	slices.SortFunc(b.Namespaces, func(a, b model.NamespacePolicy) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return b, nil
}

func (w *words) namespacePolicy() (p model.NamespacePolicy, err error) {
	word, err := w.nextWord("ns")
	if err != nil {
		return p, err
	}
	if p.Namespace, err = config.ParseText[ioam.NamespaceID](word); err != nil {
		return p, fmt.Errorf("ns %w", err)
	}
	p.Boundary, err = w.policy("ns " + word)
	return p, err
}

func (w *words) policy(after string) (model.Boundary, error) {
	word, err := w.nextWord(after)
	if err != nil {
		return 0, err
	}
	policy, err := config.ParseText[model.Boundary](word)
	if err != nil {
		return 0, fmt.Errorf("%s %w", after, err)
	}
	return policy, nil
}

// FormatInterface writes an interface as the words that set it.
func FormatInterface(in config.Interface) string {
	var roles model.Role
	for _, role := range in.Role {
		roles |= role
	}
	return shellword.Join(append([]string{in.Name, "role", roles.String(), "boundary"}, strings.Fields(in.Boundary.String())...))
}

// DecapsulationCommand is "decapsulation add|del|show …", in the manner of
// iproute2, which has no such command.
type DecapsulationCommand struct {
	Verb          Verb
	Decapsulation config.Decapsulation // Add; Del uses only its address
}

// ParseDecapsulation reads what follows "decapsulation".
func ParseDecapsulation(args []string) (DecapsulationCommand, error) {
	var c DecapsulationCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Add, Del, Show); err != nil {
		return c, err
	}
	if c.Verb == Show {
		return c, w.end()
	}
	word, err := w.nextWord("decapsulation " + string(c.Verb) + " ADDR")
	if err != nil {
		return c, err
	}
	if c.Decapsulation.TunnelDestination, err = netip.ParseAddr(word); err != nil {
		return c, fmt.Errorf("%q: want the tunnel's destination, an IPv6 address of this node", word)
	}
	if c.Verb == Add {
		return c, w.decapsulation(&c.Decapsulation)
	}
	return c, w.end()
}

// decapsulation reads which packets are decapsulated.
func (w *words) decapsulation(d *config.Decapsulation) error {
	for w.more() {
		switch word, _ := w.nextWord(""); {
		case word == "source":
			from, err := w.prefix()
			if err != nil {
				return err
			}
			d.Sources = append(d.Sources, from)
		case (word == "bare" || word == "nobare") && d.Bare == nil:
			bare := word == "bare"
			d.Bare = &bare
		case word == "bare" || word == "nobare":
			return errors.New("bare or nobare: given twice")
		default:
			return fmt.Errorf("%q: want source PREFIX, bare or nobare", word)
		}
	}
	return nil
}

// prefix reads the prefix of outer sources; an address is a prefix of 128 bits.
func (w *words) prefix() (netip.Prefix, error) {
	word, err := w.nextWord("source")
	if err != nil {
		return netip.Prefix{}, err
	}
	if address, err := netip.ParseAddr(word); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(word)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("source %q: want an IPv6 prefix or address of encapsulating nodes, such as 2001:db8:ff::/64", word)
	}
	return prefix, nil
}

// FormatDecapsulation writes a decapsulation as the words that add it.
func FormatDecapsulation(d config.Decapsulation) string {
	list := []string{d.TunnelDestination.String()}
	for _, source := range d.Sources {
		list = append(list, "source", source.String())
	}
	if d.Bare != nil && *d.Bare {
		list = append(list, "bare")
	} else if d.Bare != nil {
		list = append(list, "nobare")
	}
	return shellword.Join(list)
}
