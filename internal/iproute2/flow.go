// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// FlowCommand is "flow add|del|show …", in the manner of iproute2, which has no such
// command; segs and mode are those of "encap seg6".
type FlowCommand struct {
	Verb Verb
	Flow config.Flow // Add; Del uses only its name, and Show, where "" is all
}

// ParseFlow reads what follows "flow".
func ParseFlow(args []string) (FlowCommand, error) {
	var c FlowCommand
	w := &words{list: args}
	var err error
	if c.Verb, err = w.verb(Add, Del, Show); err != nil {
		return c, err
	}
	if c.Verb == Show && !w.more() {
		return c, nil
	}
	if c.Flow.Name, err = w.take("flow " + string(c.Verb) + " NAME"); err != nil || c.Verb != Add {
		if err == nil {
			err = w.end()
		}
		return c, err
	}
	word, err := w.take("flow add " + c.Flow.Name + " out, in or transit")
	if err != nil {
		return c, err
	}
	if c.Flow.Direction, err = config.ParseText[model.Direction](word); err != nil {
		return c, fmt.Errorf("direction %w", err)
	}
	return c, w.flow(&c.Flow)
}

// flow reads a flow's criteria.
func (w *words) flow(f *config.Flow) error {
	given := make(map[string]bool)
	for w.more() {
		word, _ := w.take("")
		if given[word] {
			return fmt.Errorf("%s: given twice", word)
		}
		given[word] = true
		if err := w.criterion(f, word); err != nil {
			return err
		}
	}
	for _, needed := range []string{"src", "segs"} {
		if !given[needed] {
			return fmt.Errorf("%s is missing: flow add NAME DIRECTION src ADDR segs SID,SID", needed)
		}
	}
	return nil
}

func (w *words) criterion(f *config.Flow, word string) (err error) {
	switch word {
	case "src":
		f.Source, err = w.address(word)
	case "dst":
		f.Destination, err = w.address(word)
	case "segs":
		f.Segments, err = w.segments()
	case "mode":
		f.Mode, err = textOf[srv6.Mode](w, word)
	case "psp":
		f.PSP = true
	case "container":
		f.Container, err = textOf[config.Container](w, word)
	case "tclass":
		var n uint64
		n, err = w.number(word, 8)
		class := config.TrafficClass(n)
		f.TrafficClass = &class
	case "flowlabel":
		var n uint64
		n, err = w.number(word, 20)
		label := config.FlowLabel(n)
		f.FlowLabel = &label
	case "session":
		var n uint64
		n, err = w.number(word, 16)
		f.Session = config.SessionID(n)
	case "flowmonid":
		var n uint64
		n, err = w.number(word, 20)
		id := config.MonitorID(n)
		f.MonitorID = &id
	case "point", "lastpoint":
		var n uint64
		n, err = w.number(word, 4)
		if word == "point" {
			f.Point = config.PointNumber(n)
		} else {
			f.LastPoint = config.PointNumber(n)
		}
	default:
		return fmt.Errorf("%q: want src ADDR, segs SID,SID, mode MODE, psp, container BLOCK/SID, dst ADDR, tclass N, flowlabel N, session N, flowmonid N, point N or lastpoint N", word)
	}
	return err
}

func (w *words) address(name string) (netip.Addr, error) {
	word, err := w.take(name)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(word)
	if err != nil || !a.Is6() {
		return netip.Addr{}, fmt.Errorf("%s %q: want an IPv6 address", name, word)
	}
	return a, nil
}

// segments reads SIDs with commas between them, the first to visit first.
func (w *words) segments() (list []netip.Addr, err error) {
	word, err := w.take("segs")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(word, ",") {
		sid, err := netip.ParseAddr(part)
		if err != nil || !sid.Is6() {
			return nil, fmt.Errorf("segs %q: want IPv6 addresses with commas between them", word)
		}
		list = append(list, sid)
	}
	return list, nil
}

// textOf reads a value as the configuration file has it.
func textOf[T any](w *words, name string) (value T, err error) {
	word, err := w.take(name)
	if err != nil {
		return value, err
	}
	if value, err = config.ParseText[T](word); err != nil {
		return value, fmt.Errorf("%s %w", name, err)
	}
	return value, nil
}

// FormatFlow writes a flow as the words that add it.
func FormatFlow(f config.Flow) string {
	var sids []string
	for _, s := range f.Segments {
		sids = append(sids, s.String())
	}
	list := []string{f.Name, f.Direction.String(), "src", f.Source.String(), "segs", strings.Join(sids, ","), "mode", f.Mode.String()}
	if f.PSP {
		list = append(list, "psp")
	}
	if f.Container != (config.Container{}) {
		list = append(list, "container", config.FormatText(f.Container))
	}
	if f.Destination.IsValid() {
		list = append(list, "dst", f.Destination.String())
	}
	if f.TrafficClass != nil {
		list = append(list, "tclass", config.FormatText(*f.TrafficClass))
	}
	if f.FlowLabel != nil {
		list = append(list, "flowlabel", config.FormatText(*f.FlowLabel))
	}
	if f.Session != 0 {
		list = append(list, "session", strconv.Itoa(int(f.Session)))
	}
	if f.MonitorID != nil {
		list = append(list, "flowmonid", config.FormatText(*f.MonitorID))
	}
	if f.Point != 0 {
		list = append(list, "point", strconv.Itoa(int(f.Point)))
	}
	if f.LastPoint != 0 {
		list = append(list, "lastpoint", strconv.Itoa(int(f.LastPoint)))
	}
	return shell(list)
}
